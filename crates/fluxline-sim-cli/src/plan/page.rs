//! The answers of a plan as a page: tables for the terminal, and plots.

use fluxline_report::{Axis, Block, Cell, Curve, Page, Plot, Section, Table};
use fluxline_run::{Checked, Met};

use super::answer::{Answer, Configuration, Year};

/// Returns the page of a plan.
pub fn page(name: &str, answers: &[Answer]) -> Page {
    let mut sections = vec![overview(answers)];
    sections.extend(answers.iter().map(section));
    Page { title: format!("Plan of {name}"), sections, ..Page::default() }
}

fn cell(verdict: Met) -> Cell {
    let word = verdict.word().to_owned();
    match verdict {
        Met::Met => Cell::Good(word),
        Met::Missed => Cell::Bad(word),
        Met::Undecided => Cell::Text(word),
    }
}

fn text(of: impl ToString) -> Cell {
    Cell::Text(of.to_string())
}

fn table(title: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Block {
    let columns = columns.iter().map(ToString::to_string).collect();
    Block::Table(Table { title: title.to_owned(), columns, rows })
}

fn overview(answers: &[Answer]) -> Section {
    let row = |of: &Answer| {
        let best = of.best();
        let counts = best.map_or("–".to_owned(), counts);
        let broken = best.and_then(Configuration::broken_in);
        let busy = best.and_then(|of| of.years.first()).and_then(|of| of.bottleneck.as_ref());
        let busy = busy.map_or("not known".to_owned(), |part| {
            format!("{}, {:.1} %", part.name, part.busy() * 100.0)
        });
        vec![
            text(&of.candidate.name),
            cell(of.verdict()),
            text(counts),
            text(busy),
            text(broken.map_or("–".to_owned(), |year| year.to_string())),
            text(of.candidate.price.map_or("–".to_owned(), |price| price.to_string())),
        ]
    };
    let columns = [
        "candidate",
        "verdict",
        "readouts + builders",
        "busiest part today",
        "year of the first miss",
        "price",
    ];
    Section {
        title: "Candidates".to_owned(),
        text:
            "The smallest configuration that meets all requirements in all years; where there is \
               none, the one that lasts longest."
                .to_owned(),
        blocks: vec![table("", &columns, answers.iter().map(row).collect()), plot(answers)],
        notes: Vec::new(),
    }
}

fn counts(of: &Configuration) -> String {
    format!("{} + {}", of.counts.readouts, of.counts.builders)
}

/// Draws the load of the busiest part over the years.
fn plot(answers: &[Answer]) -> Block {
    let curve = |of: &Answer| {
        let years = of.best().map_or(&[][..], |best| &best.years);
        let point = |year: &Year| {
            let busy = year.bottleneck.as_ref().map_or(f64::NAN, |part| part.busy() * 100.0);
            (f64::from(year.year), busy)
        };
        let points = years.iter().map(point).collect();
        Curve { label: of.candidate.name.clone(), points, ..Curve::default() }
    };
    let axis = |label: &str, unit: &str| Axis {
        label: label.to_owned(),
        unit: unit.to_owned(),
        ..Axis::default()
    };
    Block::Plot(Plot {
        title: "Load of the busiest part".to_owned(),
        x: axis("years from today", ""),
        y: axis("load", "%"),
        curves: answers.iter().take(8).map(curve).collect(),
        ..Plot::default()
    })
}

fn section(of: &Answer) -> Section {
    let configurations = &of.configurations;
    let years = configurations.iter().flat_map(|of| of.years.iter().map(move |year| (of, year)));
    let rows = years.map(|(of, year)| {
        vec![
            text(counts(of)),
            text(year.year),
            text(format!("{:.2}", year.load)),
            cell(year.verdict),
            text(year.by),
            text(&year.words),
        ]
    });
    let columns = ["readouts + builders", "year", "load", "verdict", "by", "reason"];
    let mut blocks = vec![table("Years", &columns, rows.collect())];
    let today = of.best().and_then(|of| of.years.first());
    if let Some(year) = today.filter(|year| !year.requirements.is_empty()) {
        let columns = ["requirement", "required", "simulated", "margin", "verdict", "words"];
        let rows = year.requirements.iter().map(requirement).collect();
        let title = format!("Requirements today, by {} simulated packets", year.packets);
        blocks.push(table(&title, &columns, rows));
    }
    let turns = of.sensitivity.iter().map(|of| {
        vec![
            text(of.assumption),
            text(format!("{:+} %", of.change_percent)),
            cell(of.verdict),
            text(if of.turns { "yes" } else { "no" }),
        ]
    });
    let columns = ["assumption", "change", "verdict then", "turns the verdict"];
    blocks.push(table("Sensitivity of today's verdict", &columns, turns.collect()));
    Section {
        title: of.candidate.name.clone(),
        text: format!("{}. Assumed: {}.", of.candidate.link, of.assumptions.join("; ")),
        blocks,
        notes: Vec::new(),
    }
}

fn requirement(of: &Checked) -> Vec<Cell> {
    let number = |value: f64| fluxline_report::quantity(value, of.unit);
    let between = of.between.map_or("not measured".to_owned(), |[low, high]| {
        if low == high { number(low) } else { format!("{} to {}", number(low), number(high)) }
    });
    let margin = of.margin.map_or("–".to_owned(), |margin| format!("{:+.1} %", margin * 100.0));
    vec![
        text(of.name),
        text(number(of.required)),
        text(between),
        text(margin),
        cell(of.verdict),
        text(&of.words),
    ]
}
