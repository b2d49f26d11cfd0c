//! Compares two reports: same, faster or slower; differences within the noise do not count.

use fluxline_report::{Block, Cell, Headline, Page, Section, Table};

use crate::page::{self, Curves, plots, words};
use crate::result::{Experiment, Report};
use crate::statistics::{Better, Summary, Verdict, compare};

/// One number of both reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The name of the experiment.
    pub experiment: String,
    /// The quantity.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// Median and spread of the first report.
    pub before: Summary,
    /// Median and spread of the second report.
    pub after: Summary,
    /// Same, faster or slower.
    pub verdict: Verdict,
}

impl Row {
    /// Returns the change of the median, as a share.
    #[must_use]
    pub fn change(&self) -> f64 {
        (self.after.median - self.before.median) / self.before.median.abs().max(f64::MIN_POSITIVE)
    }
}

/// Compares every number that both reports have.
#[must_use]
pub fn rows(before: &Report, after: &Report) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in &before.experiments {
        if let Some(other) = after.experiments.iter().find(|other| other.name == one.name) {
            facts(one, other, &mut rows);
            points(one, other, &mut rows);
        }
    }
    rows
}

fn facts(one: &Experiment, other: &Experiment, rows: &mut Vec<Row>) {
    for fact in &one.facts {
        let same = |of: &&crate::result::Fact| of.label == fact.label && of.unit == fact.unit;
        if let Some(of) = other.facts.iter().find(same) {
            let (experiment, what, unit) = (&one.name, fact.label.clone(), &fact.unit);
            let (before, after) = (&fact.samples, &of.samples);
            rows.extend(Both { experiment, what, unit, before, after }.row());
        }
    }
}

fn points(one: &Experiment, other: &Experiment, rows: &mut Vec<Row>) {
    for series in &one.series {
        let same = |of: &&crate::result::Series| {
            (&of.label, &of.x_unit, &of.y_label, &of.y_unit)
                == (&series.label, &series.x_unit, &series.y_label, &series.y_unit)
        };
        let Some(of) = other.series.iter().find(same) else { continue };
        for point in &series.points {
            let Some(there) = of.points.iter().find(|there| there.x == point.x) else { continue };
            let what = format!("{}, {}", series.label, words::quantity(point.x, &series.x_unit));
            let (experiment, unit) = (&one.name, &series.y_unit);
            let (before, after) = (&point.samples, &there.samples);
            rows.extend(Both { experiment, what, unit, before, after }.row());
        }
    }
}

/// The samples of one quantity in both reports.
struct Both<'a> {
    experiment: &'a str,
    what: String,
    unit: &'a str,
    before: &'a [f64],
    after: &'a [f64],
}

impl Both<'_> {
    fn row(self) -> Option<Row> {
        let verdict = compare(self.before, self.after, Better::by_unit(self.unit));
        Some(Row {
            experiment: self.experiment.to_owned(),
            what: self.what,
            unit: self.unit.to_owned(),
            before: Summary::of(self.before)?,
            after: Summary::of(self.after)?,
            verdict,
        })
    }
}

/// Counts the rows by verdict.
#[must_use]
pub fn counts(rows: &[Row]) -> [(Verdict, usize); 4] {
    [Verdict::Same, Verdict::Better, Verdict::Worse, Verdict::Unknown]
        .map(|verdict| (verdict, rows.iter().filter(|row| row.verdict == verdict).count()))
}

/// Lists the rows that differ, the worst first.
#[must_use]
pub fn apart(rows: &[Row]) -> Vec<&Row> {
    let differs = |row: &&Row| matches!(row.verdict, Verdict::Better | Verdict::Worse);
    let mut apart: Vec<&Row> = rows.iter().filter(differs).collect();
    apart.sort_by(|one, other| {
        let worse = |row: &Row| row.verdict == Verdict::Worse;
        let size = |row: &Row| row.change().abs();
        worse(other).cmp(&worse(one)).then(size(other).total_cmp(&size(one)))
    });
    apart
}

/// Lists the differences of the set-ups: links, machines, a busy machine.
#[must_use]
pub fn cautions(before: &Report, after: &Report) -> Vec<String> {
    let mut cautions = Vec::new();
    if before.link != after.link {
        cautions.push(format!("The links differ: {} and {}.", before.link, after.link));
    }
    for (what, key) in
        [("processors", "processor"), ("kernels", "kernel"), ("governors", "governor")]
    {
        let [one, other] = [before, after].map(|of| &of.environment["near"][key]);
        if one != other {
            cautions.push(format!("The {what} differ: {one} and {other}."));
        }
    }
    for (name, report) in [("before", before), ("after", after)] {
        cautions.extend(page::busy(report).map(|busy| format!("The report {name}: {busy}")));
    }
    cautions
}

/// Makes a page: the differences, all numbers, and the curves of both over each other.
#[must_use]
pub fn page(names: [&str; 2], before: &Report, after: &Report) -> Page {
    let rows = rows(before, after);
    let counts = counts(&rows);
    let headline = |(verdict, count): &(Verdict, usize)| Headline {
        label: verdict.word().to_owned(),
        value: count.to_string(),
        note: format!("of {} numbers in both reports", rows.len()),
    };
    let mut sections = vec![Section {
        title: "Differences".to_owned(),
        text:
            "Two results differ if the rank-sum test says so and their medians are further apart \
               than the spread of either and 2 %. The worst come first."
                .to_owned(),
        blocks: vec![Block::Table(table(names, &apart(&rows)))],
        notes: Vec::new(),
    }];
    for one in &before.experiments {
        let Some(other) = after.experiments.iter().find(|other| other.name == one.name) else {
            continue;
        };
        let of: Vec<&Row> = rows.iter().filter(|row| row.experiment == one.name).collect();
        let both = [
            Curves { name: names[0], series: &one.series },
            Curves { name: names[1], series: &other.series },
        ];
        let mut blocks: Vec<Block> = plots(&both).into_iter().map(Block::Plot).collect();
        blocks.push(Block::Table(table(names, &of)));
        let (title, text, notes) = (one.name.clone(), one.about.clone(), one.notes.clone());
        sections.push(Section { title, text, blocks, notes });
    }
    Page {
        title: format!("fluxline bench: {} against {}", names[1], names[0]),
        subtitle: format!("{}: {}; {}: {}", names[0], before.link, names[1], after.link),
        headlines: counts.iter().map(headline).collect(),
        warnings: cautions(before, after),
        verdict: String::new(),
        sections,
    }
}

/// Makes a table of rows; `names` are those of the two reports.
#[must_use]
pub fn table(names: [&str; 2], rows: &[&Row]) -> Table {
    let columns = ["", "", names[0], names[1], "change", "verdict"];
    let row = |row: &&Row| {
        let word = row.verdict.word().to_owned();
        vec![
            Cell::Text(row.experiment.clone()),
            Cell::Text(row.what.clone()),
            Cell::Number(middle(&row.before, &row.unit)),
            Cell::Number(middle(&row.after, &row.unit)),
            Cell::Number(format!("{:+.1} %", row.change() * 100.0)),
            match row.verdict {
                Verdict::Better => Cell::Good(word),
                Verdict::Worse => Cell::Bad(word),
                _ => Cell::Text(word),
            },
        ]
    };
    Table {
        title: String::new(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}

/// Writes a median with its spread.
fn middle(summary: &Summary, unit: &str) -> String {
    let median = words::quantity(summary.median, unit);
    match summary.count {
        1 => median,
        _ => format!("{median} {}", words::spread(summary, unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Fact, Point, Series};

    fn report(scale: f64) -> Report {
        let mut experiment = Experiment::new("pingpong", "");
        let samples = |middle: f64| [0.99, 1.0, 1.0, 1.0, 1.01].map(|of| of * middle).to_vec();
        experiment.facts.push(Fact::new("latency", "us", samples(10.0 * scale)));
        experiment.series.push(Series {
            label: "throughput".into(),
            x_label: "message".into(),
            x_unit: "B".into(),
            y_label: "throughput".into(),
            y_unit: "Gb/s".into(),
            points: vec![
                Point { x: 8.0, samples: samples(1.0) },
                Point { x: 64.0, samples: samples(8.0 / scale) },
            ],
        });
        let plan = crate::environment::Plan::quick();
        let mut report = crate::run::begin("shm://", &plan, serde_json::json!({}));
        report.experiments.push(experiment);
        report
    }

    #[test]
    fn what_is_slower_is_named_and_what_is_the_same_is_not() {
        let rows = rows(&report(1.0), &report(1.5));
        let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [Verdict::Worse, Verdict::Same, Verdict::Worse]);
        let apart = apart(&rows);
        assert_eq!(apart[0].what, "latency");
        assert_eq!(apart[1].what, "throughput, 64 B");
        let page = page(["a", "b"], &report(1.0), &report(1.5));
        assert_eq!(page.headlines[2].value, "2");
    }

    #[test]
    fn a_report_against_itself_is_the_same_throughout() {
        let rows = rows(&report(1.0), &report(1.0));
        assert!(rows.iter().all(|row| row.verdict == Verdict::Same) && rows.len() == 3);
    }

    #[test]
    fn a_busy_machine_is_a_warning_above_the_comparison() {
        let mut busy = report(1.0);
        busy.environment["busy"] = serde_json::json!({
            "seconds": 9.5, "others": 1.43, "waited": 0.0,
            "programs": [{ "process": "rustc", "cores": 1.2 }],
        });
        let warnings = page(["a", "b"], &report(1.0), &busy).warnings;
        assert!(warnings[0].contains("rustc 120 %"), "{warnings:?}");
    }

    #[test]
    fn another_link_is_said() {
        let mut other = report(1.0);
        other.link = "udp://127.0.0.1".into();
        assert!(cautions(&report(1.0), &other)[0].contains("links differ"));
    }
}
