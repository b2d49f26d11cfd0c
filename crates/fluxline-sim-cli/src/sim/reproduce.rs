//! `fluxline sim reproduce`: published experiments on models of their machines, side by side.

use fluxline_sim::reproduce::{self, Comparison, Figure, Judged, Parameter, SETS};
use serde_json::json;

use crate::failure::Failure;
use crate::sim_arguments::ReproduceArguments;
use crate::{files, say, say_text};

/// Runs the models of a set or of all, and prints or writes the comparison.
pub fn reproduce(arguments: &ReproduceArguments, json: bool) -> Result<(), Failure> {
    let sets = arguments.set.map_or(SETS.to_vec(), |set| vec![set]);
    let mut comparisons = Vec::new();
    for set in sets {
        comparisons
            .push(set.compare().map_err(|problem| Failure::failed(format_args!("{problem}.")))?);
    }
    let page = reproduce::page(&comparisons);
    if let Some(file) = &arguments.report {
        files::write(file, page.html().as_bytes())?;
    }
    if let Some(file) = &arguments.markdown {
        files::write(file, reproduce::markdown(&comparisons).as_bytes())?;
    }
    let written = arguments.report.iter().chain(&arguments.markdown);
    if json {
        let sets: Vec<_> = comparisons.iter().map(document).collect();
        crate::output::print_json(&json!({ "sets": sets }));
    } else if written.clone().next().is_some() {
        say!("{}", page.verdict);
        written.for_each(|file| say!("report: {}", file.display()));
    } else {
        say_text!("{}", page.text());
    }
    Ok(())
}

fn document(comparison: &Comparison) -> serde_json::Value {
    let all = |value: Vec<serde_json::Value>| value;
    let gaps = comparison.published.gaps.iter().map(
        |gap| json!({ "source": gap.source, "statement": gap.statement, "reason": gap.reason }),
    );
    let trials = comparison.trials.iter().map(|trials| {
        json!({ "title": trials.title, "text": trials.text, "columns": trials.columns,
            "rows": trials.rows })
    });
    json!({
        "set": comparison.set.name,
        "title": comparison.published.title,
        "facts": all(comparison.facts.iter().map(fact).collect()),
        "parameters": all(comparison.parameters.iter().map(parameter).collect()),
        "beyond_the_model": all(gaps.collect()),
        "variants": all(trials.collect()),
        "figures": all(comparison.figures.iter().map(figure).collect()),
    })
}

fn fact(judged: &Judged) -> serde_json::Value {
    let fact = judged.finding.fact;
    json!({
        "id": fact.id, "source": fact.source, "place": fact.place, "fact": fact.statement,
        "unit": fact.unit, "published": [fact.published.start(), fact.published.end()],
        "tolerance": fact.tolerance, "model": judged.finding.model,
        "deviation": judged.deviation, "verdict": judged.verdict.name(),
        "calibrates": judged.chosen,
    })
}

fn parameter(one: &Parameter) -> serde_json::Value {
    let facts: Vec<&str> = one.facts.iter().map(|fact| fact.id.as_str()).collect();
    json!({
        "model": one.machine, "parameter": one.name, "value": one.value,
        "origin": one.origin.name(), "reason": one.reason, "facts": facts,
    })
}

fn figure(figure: &Figure) -> serde_json::Value {
    let curves = figure.curves.iter();
    let curves = curves.map(|curve| json!({ "name": curve.name, "points": curve.points }));
    json!({
        "figure": figure.id, "title": figure.title,
        "x": format!("{} [{}]", figure.x.label, figure.x.unit),
        "y": format!("{} [{}]", figure.y.label, figure.y.unit),
        "curves": curves.collect::<Vec<_>>(),
        "published": figure.published(),
    })
}
