//! The hosts on the page: what limits the result there, and what they are.

use std::collections::BTreeSet;

use fluxline_report::{Block, Cell, Section, Table};
use serde_json::Value;

use super::short;
use crate::result::Report;

/// The sides of a benchmark, as the document calls them.
const SIDES: [&str; 2] = ["near", "far"];

/// Something of a host that is not as it should be for what was measured.
struct Finding<'a> {
    /// On which side: `near`, `far`, or both.
    sides: Vec<&'static str>,
    value: &'a Value,
}

impl Finding<'_> {
    fn text(&self, key: &str) -> String {
        self.value[key].as_str().unwrap_or_default().to_owned()
    }

    fn is_bad(&self) -> bool {
        self.value["verdict"] == "bad"
    }
}

/// What was found on either side, worst first; what both have comes once.
fn findings(report: &Report) -> Vec<Finding<'_>> {
    let mut findings: Vec<Finding<'_>> = Vec::new();
    for side in SIDES {
        let of_side = report.environment[side]["findings"].as_array();
        for value in of_side.into_iter().flatten() {
            match findings.iter_mut().find(|finding| finding.value == value) {
                Some(finding) if !finding.sides.contains(&side) => finding.sides.push(side),
                Some(_) => {}
                None => findings.push(Finding { sides: vec![side], value }),
            }
        }
    }
    findings.sort_by_key(|finding| !finding.is_bad());
    findings
}

/// What on the hosts may limit the result, in a sentence; `None`: nothing known.
pub(super) fn sentence(report: &Report) -> Option<String> {
    /// So many are named; the others are in their table.
    const NAMED_MAX: usize = 3;
    let findings = findings(report);
    let bad = findings.iter().filter(|finding| finding.is_bad()).count();
    let counts = match (bad, findings.len() - bad) {
        (0, 0) => return None,
        (0, may) => format!("{may} may limit it"),
        (bad, 0) => format!("{bad} will"),
        (bad, may) => format!("{bad} will and {may} may limit it"),
    };
    let named: Vec<String> = findings
        .iter()
        .take(NAMED_MAX)
        .map(|one| {
            format!("{}: {} ({})", one.text("name"), one.text("found"), one.sides.join(", "))
        })
        .collect();
    let more = if findings.len() > NAMED_MAX { "; …" } else { "" };
    Some(format!("Of the hosts, {counts}: {}{more}.", named.join("; ")))
}

/// All findings as a section; `None`: nothing was found.
pub(super) fn limits(report: &Report) -> Option<Section> {
    let findings = findings(report);
    if findings.is_empty() {
        return None;
    }
    let row = |finding: &Finding<'_>| {
        let verdict = match finding.is_bad() {
            true => Cell::Bad("will lose packets".to_owned()),
            false => Cell::Text("may limit".to_owned()),
        };
        let texts = ["name", "found", "wanted", "remedy"].map(|key| Cell::Text(finding.text(key)));
        [vec![verdict, Cell::Text(finding.sides.join(", "))], texts.to_vec()].concat()
    };
    let columns = ["", "side", "what", "found", "wanted", "mended by"];
    let table = Table {
        title: "Found by fluxline doctor".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: findings.iter().map(row).collect(),
    };
    Some(Section {
        title: "What on these hosts limits this".to_owned(),
        text: "Of what the link goes through. Not everything here did limit it; `fluxline doctor` \
               says why each matters and mends most of it."
            .to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

/// What the hosts are, side by side.
pub(super) fn machines(report: &Report) -> Section {
    let sides = SIDES.map(|side| flat(&report.environment[side]));
    let names: BTreeSet<&String> = sides.iter().flatten().map(|(name, _)| name).collect();
    let of = |side: &[(String, String)], name: &str| {
        let found = side.iter().find(|(one, _)| one == name);
        Cell::Text(found.map_or_else(String::new, |(_, value)| value.clone()))
    };
    let row = |name: &&String| {
        vec![Cell::Text((*name).clone()), of(&sides[0], name), of(&sides[1], name)]
    };
    let table = Table {
        title: "Both sides".to_owned(),
        columns: ["", "near", "far"].map(str::to_owned).to_vec(),
        rows: names.iter().map(row).collect(),
    };
    let timer = &report.environment["timer"];
    let text = format!(
        "Command: {}. Seed {}. The clock costs {} ns a reading and resolves {} ns.",
        report.command.join(" "),
        report.seed,
        timer["cost_ns"].as_f64().map_or_else(String::new, short),
        timer["resolution_ns"],
    );
    Section { title: "Machines".to_owned(), text, blocks: vec![Block::Table(table)] }
}

/// The leaves of a document with their paths; what is null is left out, and what was found, since
/// it has a table of its own.
fn flat(value: &Value) -> Vec<(String, String)> {
    let Value::Object(map) = value else { return Vec::new() };
    let mut leaves = Vec::new();
    for (name, value) in map.iter().filter(|(name, _)| *name != "findings") {
        match value {
            Value::Null => {}
            Value::Object(_) => leaves.extend(below(name, value)),
            Value::String(text) => leaves.push((name.clone(), text.clone())),
            Value::Array(all) if all.iter().any(Value::is_object) => {
                for one in all {
                    leaves.extend(below(&format!("{name} {}", word(&one["name"])), one));
                }
            }
            Value::Array(all) => {
                leaves.push((name.clone(), all.iter().map(word).collect::<Vec<_>>().join(", ")));
            }
            other => leaves.push((name.clone(), other.to_string())),
        }
    }
    leaves
}

fn below(name: &str, value: &Value) -> Vec<(String, String)> {
    flat(value).into_iter().map(|(of, leaf)| (format!("{name} {of}"), leaf)).collect()
}

/// A value as a word: text without its quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
