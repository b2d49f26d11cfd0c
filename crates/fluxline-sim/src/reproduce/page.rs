//! The comparison as an HTML page, as text, and as the page `docs/fidelity.md` of the manual.

use std::fmt::Write;

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, Page, Plot, Scale, Section, Style, Table,
};

use super::published::{self, Fact, Gap, NUMBER, Origin, Source};
use super::set::{self, Comparison, Figure, Judged, Parameter, Tally, Trials, Verdict};
use crate::Duration;

/// Makes the page of some comparisons.
#[must_use]
pub fn page(comparisons: &[Comparison]) -> Page {
    let headlines = Verdict::ALL.map(|verdict| {
        let count: usize = comparisons.iter().map(|one| one.count(verdict)).sum();
        Headline {
            label: verdict.name().to_string(),
            value: count.to_string(),
            note: note(verdict).to_string(),
        }
    });
    let mut verdicts: Vec<String> = comparisons.iter().map(Comparison::verdict).collect();
    let percent = 100.0 * NUMBER;
    verdicts.push(format!("A number holds within {percent:.0} % of its range, in tables 5 %."));
    Page {
        title: "Published experiments and the models".to_string(),
        subtitle: format!("fluxline {}", env!("CARGO_PKG_VERSION")),
        headlines: headlines.to_vec(),
        verdict: verdicts.join(" "),
        sections: comparisons.iter().flat_map(sections).collect(),
        ..Page::default()
    }
}

fn note(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Predicted => "numbers; no parameter was chosen from them",
        Verdict::Shape => "shapes and bounds that hold; no parameter was chosen from them",
        Verdict::Calibrated => "a parameter was chosen from them, or they follow from one",
        Verdict::Missed => "outside the tolerance",
        Verdict::Repeated => "measurements in another unit; they do not count",
    }
}

fn sections(comparison: &Comparison) -> Vec<Section> {
    let section = |title: String, text: &str, blocks: Vec<Block>| Section {
        title,
        text: text.to_string(),
        blocks,
        ..Section::default()
    };
    let facts = [facts(comparison), gaps(comparison), sources(comparison)];
    let title = format!("{}: {}", comparison.set.name, comparison.published.title);
    let mut all = vec![section(title, "", facts.map(Block::Table).to_vec())];
    let parameters = [origins(comparison), parameters(comparison)];
    let parameters = parameters.map(Block::Table).to_vec();
    all.push(section("Parameters and their origins".to_string(), "", parameters));
    all.extend(comparison.trials.iter().map(|trials: &Trials| {
        let table = Block::Table(variants(trials));
        section(trials.title.to_string(), trials.text, vec![table])
    }));
    all.extend(comparison.figures.iter().map(|figure| {
        let title = format!("{}: {}", figure.id, figure.title);
        section(title, "", vec![Block::Plot(plot(figure))])
    }));
    all
}

fn plot(figure: &Figure) -> Plot {
    let axis = |axis: &published::Axis| Axis {
        label: axis.label.to_string(),
        unit: axis.unit.to_string(),
        scale: if axis.log { Scale::Logarithmic } else { Scale::Linear },
    };
    let curve = |curve: &set::Curve| Curve {
        label: curve.name.clone(),
        points: curve.points.clone(),
        band: Vec::new(),
        style: Style::Line,
    };
    let published = Curve {
        label: "published".to_string(),
        points: figure.published(),
        band: Vec::new(),
        style: Style::Points,
    };
    let published = Some(published).filter(|curve| !curve.points.is_empty());
    Plot {
        title: match published {
            Some(_) => "The model, and the numbers of the paper".to_string(),
            None => "The model".to_string(),
        },
        x: axis(figure.x),
        y: axis(figure.y),
        curves: figure.curves.iter().map(curve).chain(published).collect(),
        marks: Vec::new(),
    }
}

/// The mark in the column of a fact's verdict.
const MARK: &str = "yes";

fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

/// Returns a number with three significant digits.
fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_string();
    }
    let size = value.abs();
    match size {
        0.0 => "0".to_string(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn published(fact: &Fact) -> String {
    let (least, most) = (*fact.published.start(), *fact.published.end());
    let number = match most {
        most if least == most || most.is_infinite() => format!("{least}"),
        most => format!("{least} to {most}"),
    };
    let unit = if fact.unit.is_empty() { String::new() } else { format!(" {}", fact.unit) };
    let open = if most.is_infinite() { " or more" } else { "" };
    format!("{number}{unit}{open}")
}

fn deviation(judged: &Judged) -> String {
    if judged.deviation == 0.0 && judged.finding.fact.is_shape() {
        return "inside".to_string();
    }
    format!("{:+.1} %", 100.0 * judged.deviation)
}

fn fact_row(judged: &Judged) -> Vec<Cell> {
    let fact = judged.finding.fact;
    let mut row = vec![
        text(format!("{}, {}", fact.source, fact.place)),
        text(&fact.statement),
        Cell::Number(published(fact)),
        Cell::Number(digits(judged.finding.model)),
        Cell::Number(deviation(judged)),
    ];
    row.extend(Verdict::ALL.map(|verdict| match (verdict == judged.verdict, verdict) {
        (false, _) => text(""),
        (true, Verdict::Predicted | Verdict::Shape) => Cell::Good(MARK.to_string()),
        (true, Verdict::Calibrated | Verdict::Repeated) => text(MARK),
        (true, Verdict::Missed) => Cell::Bad(MARK.to_string()),
    }));
    row
}

/// Returns the table of all facts; each has a mark in exactly one of the last five columns.
fn facts(comparison: &Comparison) -> Table {
    let names = ["source", "fact", "published", "model", "off by"];
    let verdicts = Verdict::ALL.map(Verdict::name);
    Table {
        title: "Facts".to_string(),
        columns: columns(&[&names[..], &verdicts[..]].concat()),
        rows: comparison.facts.iter().map(fact_row).collect(),
    }
}

fn parameter_row(one: &Parameter) -> Vec<Cell> {
    let facts = one.facts.iter();
    let facts: Vec<String> = facts.map(|fact| format!("{}, {}", fact.source, fact.place)).collect();
    let reason = match facts.is_empty() {
        true => one.reason.to_string(),
        false => format!("{} ({})", one.reason, facts.join("; ")),
    };
    vec![
        text(one.machine),
        text(one.name),
        Cell::Number(one.value.clone()),
        text(one.origin.name()),
        text(reason),
    ]
}

/// Returns the table of parameters.
fn parameters(comparison: &Comparison) -> Table {
    Table {
        title: "Parameters".to_string(),
        columns: columns(&["model", "parameter", "value", "origin", "statement or reason"]),
        rows: comparison.parameters.iter().map(parameter_row).collect(),
    }
}

/// Returns the table of the origins' meanings, with the number of parameters.
fn origins(comparison: &Comparison) -> Table {
    let count = |origin| {
        let parameters = comparison.parameters.iter();
        parameters.filter(|parameter| parameter.origin == origin).count()
    };
    let row = |origin: Origin| {
        vec![text(origin.name()), text(origin.about()), Cell::Number(count(origin).to_string())]
    };
    Table {
        title: "Origins".to_string(),
        columns: columns(&["origin", "meaning", "parameters"]),
        rows: Origin::ALL.map(row).to_vec(),
    }
}

/// Returns the table of statements that the model cannot confirm or deny.
fn gaps(comparison: &Comparison) -> Table {
    let row = |gap: &Gap| vec![text(&gap.source), text(&gap.statement), text(&gap.reason)];
    Table {
        title: "Beyond the model".to_string(),
        columns: columns(&["source", "statement", "reason"]),
        rows: comparison.published.gaps.iter().map(row).collect(),
    }
}

/// Returns the table of sources.
fn sources(comparison: &Comparison) -> Table {
    let row = |source: &Source| vec![text(&source.name), text(&source.title)];
    Table {
        title: "Sources".to_string(),
        columns: columns(&["name", "title"]),
        rows: comparison.published.sources.iter().map(row).collect(),
    }
}

/// Returns the table of variants.
fn variants(trials: &Trials) -> Table {
    let cell = |(at, value): (usize, &String)| match at {
        0 => text(value.clone()),
        _ => Cell::Number(value.clone()),
    };
    Table {
        title: trials.title.to_string(),
        columns: trials.columns.to_vec(),
        rows: trials.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect(),
    }
}

/// Writes a duration as a value.
pub(super) fn time(span: Duration) -> String {
    match span.as_ps() {
        ps if ps >= 1_000_000 => format!("{} us", ps as f64 / 1e6),
        ps => format!("{} ns", ps as f64 / 1e3),
    }
}

/// Columns of running text.
const COLUMNS: usize = 100;

const INTRODUCTION: &str = "\
# Fidelity of the models

This page is for users who want to know how far to trust the simulator. It compares every published
number that the models repeat with the models' result, misses included. The program wrote it:

```sh
fluxline sim reproduce                          # the facts, on the terminal
fluxline sim reproduce sci --report sci.html    # one set, with its figures
fluxline sim reproduce --markdown docs/fidelity.md
```

A test fails when the page differs from the program's output.

A fact has exactly one verdict:

* **predicted**: the model agrees with a number, and no parameter was chosen from the fact;
* **shape**: the model agrees with a shape or a bound, and no parameter was chosen from the fact;
* **calibrated**: the model agrees, but a parameter was chosen from the fact, or the fact follows
  from a definition or from another calibration. Agreement proves nothing;
* **missed**: the model disagrees;
* **repeated**: the measurement of another fact in another unit, such as the rate beside a latency.
  It does not count, but the other fact is missed if this one is.

A number counts as met within 10 % of its range, a number of the table of ATOLL and Myrinet within 5
%, a shape or bound only inside its range. A statement is one fact. It is two where a parameter was
chosen from one part of it. Each parameter names the facts that it was chosen from, and the verdict
follows from this list.

## All sets

";

/// Writes comparisons as the manual's page.
#[must_use]
pub fn markdown(comparisons: &[Comparison]) -> String {
    let mut page = INTRODUCTION.to_string() + &totals(comparisons);
    for comparison in comparisons {
        let title = &comparison.published.title;
        let _ = write!(page, "\n## {}: {title}\n\n", comparison.set.name);
        page += &paragraph(&comparison.verdict());
        page += &marked(&facts(comparison));
        page += "\n### What the papers say and the model cannot\n\n";
        page += &marked(&gaps(comparison));
        for trials in &comparison.trials {
            let _ = write!(page, "\n### {}\n\n", trials.title);
            page += &paragraph(trials.text);
            page += &marked(&variants(trials));
        }
        page += "\n### Parameters and their origins\n\n";
        page += &marked(&origins(comparison));
        page += "\n";
        page += &marked(&parameters(comparison));
        page += "\n### Sources\n\n";
        page += &marked(&sources(comparison));
    }
    page
}

/// Returns the sentence and the table of all sets: the numbers first.
fn totals(comparisons: &[Comparison]) -> String {
    let numbers = Tally::of(comparisons, false);
    let (free, calibrated, all) = (numbers.free, numbers.calibrated, numbers.all());
    let sentence = format!(
        "Of {all} published numbers {free} are predicted, {calibrated} are met by calibration, and \
         {} are missed.",
        numbers.missed
    );
    let row = |name: &str, of: &[Comparison]| {
        let tallies = [Tally::of(of, false), Tally::of(of, true)];
        let counts =
            tallies.iter().flat_map(|of| [of.all(), of.free, of.calibrated, of.missed].map(count));
        std::iter::once(text(name)).chain(counts).collect::<Vec<Cell>>()
    };
    let mut rows: Vec<Vec<Cell>> =
        comparisons.iter().map(|one| row(one.set.name, std::slice::from_ref(one))).collect();
    rows.push(row("all", comparisons));
    let shape = ["shapes and bounds", "hold", "calibrated", "missed"];
    let table = Table {
        title: "All sets".to_string(),
        columns: columns(
            &[&["set", "numbers", "predicted", "calibrated", "missed"][..], &shape].concat(),
        ),
        rows,
    };
    paragraph(&sentence) + &marked(&table)
}

fn count(count: usize) -> Cell {
    Cell::Number(count.to_string())
}

/// Returns a text in lines of the manual's width, and an empty line.
fn paragraph(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, String::len);
        if line > 0 && line + 1 + word.len() > COLUMNS {
            lines.push(String::new());
        }
        if let Some(last) = lines.last_mut() {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(space);
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n\n"
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut line = cells.fold(String::from("|"), |line, cell| line + " " + cell + " |");
    line.push('\n');
    line
}

fn marked(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(String::as_str));
    text += &line(table.columns.iter().map(|_| "---"));
    for row in &table.rows {
        text += &line(row.iter().map(|cell| match cell {
            Cell::Text(text) | Cell::Number(text) | Cell::Good(text) | Cell::Bad(text) => {
                text.as_str()
            }
        }));
    }
    text
}
