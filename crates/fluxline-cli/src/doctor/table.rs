//! The checks for people, worst first, and for programs.

use fluxline_doctor::{Check, Load, Verdict};
use serde_json::{Value, json};

use crate::say;

/// The numbers of bad checks, of warnings, and of those that `--apply` fixes.
struct Summary {
    bad: usize,
    warn: usize,
    mends: usize,
}

impl Summary {
    fn of(checks: &[Check]) -> Summary {
        let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
        let mends = checks.iter().filter(|check| !check.actions.is_empty()).count();
        Summary { bad: count(Verdict::Bad), warn: count(Verdict::Warn), mends }
    }

    fn sentence(&self, with: &str) -> String {
        let things = |count: usize| match count {
            1 => "1 thing".to_string(),
            count => format!("{count} things"),
        };
        let found = match (self.bad, self.warn) {
            (0, 0) => return "nothing here is known to lose packets or add latency".into(),
            (0, warn) => format!("{} may lose packets or add latency here", things(warn)),
            (bad, 0) => format!("{} will lose packets here", things(bad)),
            (bad, warn) => {
                format!("{} will lose packets here, {warn} more may, or add latency", things(bad))
            }
        };
        match self.mends {
            0 => format!("{found}; no command alone mends that"),
            mends => format!("{found}; `fluxline doctor{with} --apply` mends {mends} of them"),
        }
    }
}

/// Prints the table.
pub fn print(checks: &[Check], load: Option<&Load>, with: &str) {
    if let Some(load) = load {
        print_load(load);
    }
    let width = |text: fn(&Check) -> &str| {
        checks.iter().map(|check| text(check).chars().count()).max().unwrap_or(0).min(FOUND_COLUMNS)
    };
    let (names, found) = (width(|check| &check.name), width(|check| &check.found));
    for check in checks {
        say!(
            "{:<4}  {:<names$}  {:<found$}  wanted {}",
            check.verdict.word(),
            check.name,
            check.found,
            check.wanted
        );
        if check.verdict != Verdict::Good {
            say!("      {}", check.why());
        }
        if let Some(effect) = &check.effect {
            say!("      here: {effect}");
        }
        if let Some(remedy) = &check.remedy {
            say!("      mend: {remedy}");
        }
    }
    say!("\n{}", Summary::of(checks).sentence(with));
}

/// Widest column \[character\]; longer text sticks out.
const FOUND_COLUMNS: usize = 44;

fn print_load(load: &Load) {
    say!("for {}:", load.name);
    for stream in &load.streams {
        match stream.uses_sockets() {
            true => say!("      source `{}`: {}", stream.name, stream.describe()),
            false => say!("      source `{}`: nothing comes over a network", stream.name),
        }
    }
    for assumption in &load.assumptions {
        say!("      {assumption}");
    }
    say!("");
}

/// The document of `--json`; docs/doctor.md has its schema.
pub fn document(checks: &[Check], load: Option<&Load>) -> Value {
    let summary = Summary::of(checks);
    json!({
        "experiment": load.map(|load| &load.name),
        "assumptions": load.map_or(&[][..], |load| &load.assumptions),
        "summary": { "bad": summary.bad, "warn": summary.warn, "mends": summary.mends },
        "checks": checks.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(check: &Check) -> Value {
    let action = |action: &fluxline_doctor::Action| {
        json!({
            "setting": action.setting.to_string(),
            "value": action.value,
            "command": action.command(),
        })
    };
    json!({
        "rule": check.rule.name,
        "name": check.name,
        "found": check.found,
        "wanted": check.wanted,
        "verdict": check.verdict.word(),
        "why": check.why(),
        "effect": check.effect,
        "remedy": check.remedy,
        "source": check.rule.source,
        "actions": check.actions.iter().map(action).collect::<Vec<_>>(),
    })
}
