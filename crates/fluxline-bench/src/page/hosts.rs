//! The hosts on the page: settings that limit the result, and a description of both.

use std::collections::BTreeSet;

use fluxline_report::{Block, Cell, Section};
use serde_json::Value;

use super::tables::table;
use super::words::quantity;
use crate::result::Report;

/// The sides of a benchmark, as the document calls them.
const SIDES: [&str; 2] = ["near", "far"];

/// A setting of a host that limits the result.
struct Finding<'a> {
    /// Its sides: `near`, `far`, or both.
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

/// Lists the findings of both sides, the worst first; a finding of both sides comes once.
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

/// Says which settings of the hosts lose packets. `None`: none is known.
pub(super) fn bad(report: &Report) -> Option<String> {
    let bad: Vec<String> = findings(report)
        .iter()
        .filter(|finding| finding.is_bad())
        .map(|one| {
            format!("{}: {} ({})", one.text("name"), one.text("found"), one.sides.join(", "))
        })
        .collect();
    match bad.as_slice() {
        [] => None,
        [one] => Some(format!("A setting of the hosts loses packets: {one}.")),
        [first, others @ ..] => {
            let others = others.len();
            Some(format!("Settings of the hosts lose packets: {first}, and {others} more."))
        }
    }
}

/// Makes a section of all findings. `None`: nothing was found.
pub(super) fn limits(report: &Report) -> Option<Section> {
    let findings = findings(report);
    if findings.is_empty() {
        return None;
    }
    let row = |finding: &Finding<'_>| {
        let verdict = match finding.is_bad() {
            true => Cell::Bad("loses packets".to_owned()),
            false => Cell::Text("may limit".to_owned()),
        };
        let texts = ["name", "found", "wanted", "remedy"].map(|key| Cell::Text(finding.text(key)));
        [vec![verdict, Cell::Text(finding.sides.join(", "))], texts.to_vec()].concat()
    };
    let columns = ["", "side", "setting", "found", "wanted", "command that fixes it"];
    let rows = findings.iter().map(row).collect();
    Some(Section {
        title: "Settings of the hosts".to_owned(),
        text: "Settings on the way of this link that lose packets or may limit the result; \
               `fluxline doctor` explains each."
            .to_owned(),
        blocks: vec![Block::Table(table("Found by fluxline doctor", &columns, rows))],
        notes: Vec::new(),
    })
}

/// Describes both hosts side by side.
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
    let table = table("Both sides", &["", "near", "far"], names.iter().map(row).collect());
    let timer = &report.environment["timer"];
    let of_timer = |key: &str| quantity(timer[key].as_f64().unwrap_or(f64::NAN), "ns");
    let mut notes = vec![format!("Command: {}.", report.command.join(" "))];
    notes.push(format!("Seed: {}.", report.seed));
    notes.push(format!(
        "A reading of the clock costs {}, and its smallest step is {}.",
        of_timer("cost_ns"),
        of_timer("resolution_ns")
    ));
    let text = sentences(report).join(" ");
    Section { title: "Machines".to_owned(), text, blocks: vec![Block::Table(table)], notes }
}

/// Lists the leaves of a document with their paths, without nulls and without findings, which have
/// their own table.
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

/// Writes a value without quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns sentences about the cores of both sides and those that the cards interrupt.
pub fn sentences(report: &Report) -> Vec<String> {
    let notes = ["pinned", "interrupts"].map(|note| report.environment[note].as_str());
    notes.into_iter().flatten().map(|note| format!("{note}.")).collect()
}
