//! The page of the published experiments: the figures of the papers and of the models.

use fluxline_report::{
    Axis, Block, Cell, Curve, Headline, Page, Plot, Scale, Section, Style, Table,
};

use super::figure::{self, Fact, Figure, Kind, TOLERANCE};

/// Makes the page of some figures, with counts of held, calibrated and missed facts.
#[must_use]
pub fn page(figures: &[Figure]) -> Page {
    let facts: Vec<&Fact> = figures.iter().flat_map(|figure| &figure.facts).collect();
    let count = |of: fn(&Fact) -> bool| facts.iter().filter(|fact| of(fact)).count();
    let held = count(|fact| fact.holds && !fact.calibrated);
    let calibrated = count(|fact| fact.holds && fact.calibrated);
    let missed = count(|fact| !fact.holds);
    let headline = |label: &str, value: usize, note: &str| Headline {
        label: label.to_string(),
        value: value.to_string(),
        note: note.to_string(),
    };
    Page {
        title: "SCI: what was published, and what the models say".to_string(),
        subtitle: format!(
            "SCINET's figures 7 to 16 and Trams' comparison; fluxline {}",
            env!("CARGO_PKG_VERSION")
        ),
        headlines: vec![
            headline("held", held, "predicted: no constant was chosen from them"),
            headline("calibrated", calibrated, "a constant was chosen from them"),
            headline("missed", missed, "outside the tolerance"),
        ],
        verdict: format!(
            "Of {} published facts {held} are predicted, {calibrated} are met by calibration, and \
             {missed} are missed. A number holds within {:.0} % of the published range.",
            facts.len(),
            100.0 * TOLERANCE
        ),
        sections: figures.iter().map(section).collect(),
        ..Page::default()
    }
}

fn section(figure: &Figure) -> Section {
    let axis = |axis: &figure::Axis| Axis {
        label: axis.label.to_string(),
        unit: axis.unit.to_string(),
        scale: if axis.log { Scale::Logarithmic } else { Scale::Linear },
    };
    let curve = |curve: &figure::Curve| Curve {
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
    let plot = Plot {
        title: match published {
            Some(_) => "The model, and the numbers of the paper".to_string(),
            None => "The model".to_string(),
        },
        x: axis(&figure.x),
        y: axis(&figure.y),
        curves: figure.curves.iter().map(curve).chain(published).collect(),
        marks: Vec::new(),
    };
    let columns = ["fact", "published", "model", "off by", "holds"];
    let table = Table {
        title: "What was published".to_string(),
        columns: columns.map(str::to_string).to_vec(),
        rows: figure.facts.iter().map(row).collect(),
    };
    Section {
        title: format!("{}: {}", figure.id, figure.title),
        text: String::new(),
        blocks: vec![Block::Plot(plot), Block::Table(table)],
        ..Section::default()
    }
}

fn row(fact: &Fact) -> Vec<Cell> {
    let (least, most) = (*fact.paper.start(), *fact.paper.end());
    let published = match most {
        most if least == most => format!("{least}"),
        most if most.is_infinite() => format!("≥ {least}"),
        most => format!("{least} to {most}"),
    };
    let off = match fact.kind {
        Kind::Number => format!("{:+.1} %", 100.0 * fact.deviation),
        Kind::Shape => "shape".to_string(),
    };
    vec![
        Cell::Text(fact.text.to_string()),
        Cell::Number(published),
        Cell::Number(format!("{:.2}", fact.model)),
        Cell::Number(off),
        match (fact.holds, fact.calibrated) {
            (true, false) => Cell::Good("held".to_string()),
            (true, true) => Cell::Text("calibrated".to_string()),
            (false, _) => Cell::Bad("missed".to_string()),
        },
    ]
}
