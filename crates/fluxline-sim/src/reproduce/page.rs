//! The page of the published experiments: facts, parameters, variants and figures.

use fluxline_report::{Axis, Block, Curve, Headline, Page, Plot, Scale, Section, Style};

use super::fact::NUMBER;
use super::figure::{self, Figure};
use super::judge::Verdict;
use super::set::{Comparison, Trials};
use super::tables;

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
        Verdict::Predicted => "no parameter was chosen from them",
        Verdict::Calibrated => "a parameter was chosen from them",
        Verdict::Missed => "outside the tolerance",
    }
}

fn sections(comparison: &Comparison) -> Vec<Section> {
    let section = |title: String, text: &str, blocks: Vec<Block>| Section {
        title,
        text: text.to_string(),
        blocks,
        ..Section::default()
    };
    let facts = [tables::facts(comparison), tables::gaps(comparison), tables::sources(comparison)];
    let title = format!("{}: {}", comparison.set.name, comparison.set.title);
    let mut all = vec![section(title, "", facts.map(Block::Table).to_vec())];
    let parameters = [tables::origins(comparison), tables::parameters(comparison)];
    let parameters = parameters.map(Block::Table).to_vec();
    all.push(section("Parameters and their origins".to_string(), "", parameters));
    all.extend(comparison.trials.iter().map(|trials: &Trials| {
        let table = Block::Table(tables::trials(trials));
        section(trials.title.to_string(), trials.text, vec![table])
    }));
    all.extend(comparison.figures.iter().map(|figure| {
        let title = format!("{}: {}", figure.id, figure.title);
        section(title, "", vec![Block::Plot(plot(figure))])
    }));
    all
}

fn plot(figure: &Figure) -> Plot {
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
    Plot {
        title: match published {
            Some(_) => "The model, and the numbers of the paper".to_string(),
            None => "The model".to_string(),
        },
        x: axis(&figure.x),
        y: axis(&figure.y),
        curves: figure.curves.iter().map(curve).chain(published).collect(),
        marks: Vec::new(),
    }
}
