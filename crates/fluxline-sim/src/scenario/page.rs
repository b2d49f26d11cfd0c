//! The manual's page of a scenario's keys, generated from one row per key.

use std::fmt::Write as _;

use super::keys::{KEYS, Key};

/// Introductions of parts that need one.
const ABOUT: &[(&str, &str)] = &[
    ("traffic", "[event-building.md](event-building.md) explains the pattern of events."),
    (
        "node",
        "One table for each group of nodes that differ. A later table overrides an earlier one.",
    ),
    (
        "confidence",
        "A measurement is extended, doubling its time, until the interval of the mean \
      latency\nreaches the target; then it is repeated for the same time. Points without a steady \
      state are not\nextended.",
    ),
    (
        "sweep",
        "Every value of the key is measured with every load. A range of whole numbers gives \
      whole\nnumbers. `node.0.load` is the load of the first `[[node]]`.",
    ),
];

/// The page `docs/simulation/scenario.md`.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# The scenario file\n\n\
         `fluxline sim run FILE` simulates a TOML file. Every key has a default, so an empty file \
         is a ring\nof 8 nodes. A key that is unknown or has no effect is an error that names its \
         line. Names of files\nare relative to the scenario. The directory `scenarios` has \
         examples. `fluxline sim keys` prints\nthis page, and `fluxline sim keys --json` the same \
         rows for programs.\n\nKeys hold for all networks, for SCI (`sci-ring`, \
         `sci-torus`, `sci-switch`), for routers (`ring`,\n`mesh`, `torus`, `graph`), for ATOLL \
         (`atoll-grid`, `atoll-torus`, `atoll-ring`, `atoll-full`,\n`atoll-graph`), or for some \
         of them.\n",
    );
    let mut part = None;
    for key in KEYS {
        if part != Some(key.part) {
            begin_part(&mut out, key.part);
            part = Some(key.part);
        }
        row(&mut out, key);
    }
    out
}

fn begin_part(out: &mut String, part: &str) {
    let heading = match part {
        "" => "At the top".to_owned(),
        "node" => "`[[node]]`".to_owned(),
        part => format!("`[{part}]`"),
    };
    let _ = writeln!(out, "\n## {heading}\n");
    if let Some((_, about)) = ABOUT.iter().find(|(of, _)| *of == part) {
        let _ = writeln!(out, "{about}\n");
    }
    out.push_str("| key | default | unit | holds for | is |\n| --- | --- | --- | --- | --- |\n");
}

fn row(out: &mut String, key: &Key) {
    let default = match (key.part, key.default) {
        ("network", "") => "as the preset".to_owned(),
        (_, "") => String::new(),
        (_, default) => format!("`{default}`"),
    };
    let cells = [&format!("`{}`", key.name), &default, key.unit, &key.holds(), key.help];
    out.push('|');
    for cell in cells {
        let space = if cell.is_empty() { "" } else { " " };
        let _ = write!(out, " {cell}{space}|");
    }
    out.push('\n');
}
