//! The experiment `rings`: push rings and puts on shared memory beside the floors of the machine.

use fluxline_bench::result::{Experiment, Fact};
use serde_json::{Value, json};

use crate::arguments::BenchArguments;
use crate::bench::{self, Plan, Rows};
use crate::failure::Failure;
use crate::run::Stop;
use crate::{host, progress, say};

/// Its name.
pub const NAME: &str = "rings";
/// What it measures.
pub const ABOUT: &str = "Push rings, puts and wake-ups between two processes, beside what the \
                         machine itself can do (floors), measured in the same rounds.";
/// Rounds where none are asked for.
const ROUNDS: u32 = 5;
/// How much `--quick` measures of everything.
const QUICK_SHARE: f64 = 0.1;

/// What was measured.
pub struct Rings {
    plan: Plan,
    quick: bool,
    rows: Rows,
    /// Why it ended early; empty: it did not.
    incomplete: String,
}

/// Measures; what was measured before the other process died or somebody interrupted is kept
/// beside how it ended. Errors: less than two cores.
pub fn measure(
    arguments: &BenchArguments,
    stop: &Stop,
    json: bool,
) -> Result<(Rings, Result<(), Failure>), Failure> {
    let quick = arguments.quick;
    let rounds = arguments.rounds.unwrap_or(if quick { 1 } else { ROUNDS });
    let plan = Plan::new(rounds, if quick { QUICK_SHARE } else { 1.0 })?;
    let bar = progress::bar(u64::from(rounds) * bench::STEPS, json);
    let mut rows = Rows::new(bench::SHM);
    let ended = bench::measure(&plan, stop, &mut rows, |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let incomplete = ended.as_ref().map_or_else(ToString::to_string, |()| String::new());
    Ok((Rings { plan, quick, rows, incomplete }, ended.map_err(Failure::from)))
}

impl Rings {
    /// As an experiment of the report.
    pub fn experiment(&self) -> Experiment {
        let mut experiment = Experiment::new(NAME, ABOUT);
        experiment.incomplete.clone_from(&self.incomplete);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for row in self.rows.documents() {
            let samples = row["values"].as_array().into_iter().flatten();
            let beside = row["floor"].as_f64().map(|floor| (text(&row["floor_is"]), floor));
            experiment.facts.push(Fact {
                label: text(&row["what"]),
                unit: text(&row["unit"]),
                samples: samples.filter_map(Value::as_f64).collect(),
                beside,
            });
        }
        experiment.keep_numbers();
        experiment
    }

    /// What the document has more than the report: rows with floors and targets.
    pub fn add_to(&self, document: &mut Value) {
        document["host"] = host::describe();
        document["load"] = json!(load());
        document["cores"] = json!(self.plan.cores);
        document["rounds"] = json!(self.plan.rounds);
        document["quick"] = json!(self.quick);
        document["rows"] = self.rows.documents().into();
    }

    /// Prints the table.
    pub fn print(&self) {
        let host = host::describe();
        let [here, there] = self.plan.cores;
        let rounds = self.plan.rounds;
        say!(
            "{}, kernel {}, load {:.1}; two processes on cores {here} and {there}, {rounds} rounds",
            host["processor"].as_str().unwrap_or("unknown processor"),
            host["kernel"].as_str().unwrap_or("unknown"),
            load().unwrap_or(f64::NAN),
        );
        self.rows.lines().iter().for_each(|line| say!("{line}"));
    }
}

/// How many processes wanted to run over the last minute. Source: proc_loadavg(5).
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
