//! `fluxline sim reproduce`: published experiments on models of their machines, side by side.

use fluxline_sim::reproduce::{self, Fact, Figure, Kind};
use serde_json::json;

use crate::failure::Failure;
use crate::sim_arguments::ReproduceArguments;
use crate::{files, say, say_text};

/// Runs the models of all papers on SCI, and prints or writes the comparison.
pub fn sci(arguments: &ReproduceArguments, json: bool) -> Result<(), Failure> {
    let figures = reproduce::all()
        .map_err(|problem| Failure::failed(format_args!("a machine's preset: {problem}.")))?;
    let page = reproduce::page(&figures);
    if let Some(file) = &arguments.report {
        files::write(file, page.html().as_bytes())?;
    }
    if json {
        crate::commands::print_json(&document(&figures));
    } else if let Some(file) = &arguments.report {
        say!("{}\nreport: {}", page.verdict, file.display());
    } else {
        say_text!("{}", page.text());
    }
    Ok(())
}

fn document(figures: &[Figure]) -> serde_json::Value {
    let fact = |fact: &Fact| {
        json!({
            "fact": fact.text, "published": [fact.paper.start(), fact.paper.end()], "x": fact.x,
            "model": fact.model,
            "deviation": fact.deviation, "holds": fact.holds, "calibrated": fact.calibrated,
            "is": match fact.kind { Kind::Number => "number", Kind::Shape => "shape" },
        })
    };
    let figure = |figure: &Figure| {
        let curves = figure.curves.iter();
        let curves = curves.map(|curve| json!({ "name": curve.name, "points": curve.points }));
        json!({
            "figure": figure.id, "title": figure.title,
            "x": format!("{} [{}]", figure.x.label, figure.x.unit),
            "y": format!("{} [{}]", figure.y.label, figure.y.unit),
            "curves": curves.collect::<Vec<_>>(),
            "facts": figure.facts.iter().map(fact).collect::<Vec<_>>(),
        })
    };
    json!({ "figures": figures.iter().map(figure).collect::<Vec<_>>() })
}
