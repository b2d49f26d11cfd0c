//! `fluxline bench`: measures a link, and prints a table.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::arguments::{BenchArguments, BenchLink};
use crate::bench::peers::{self, Table};
use crate::bench::{self, Plan};
use crate::failure::Failure;
use crate::run::Stop;
use crate::{host, say};

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;
/// How much `--quick` measures of everything.
const QUICK_SHARE: f64 = 0.1;

/// Measures and prints.
pub fn bench(arguments: &BenchArguments, json: bool) -> Result<(), Failure> {
    let BenchArguments { link: BenchLink::Shm, rounds, quick, peers } = *arguments;
    let rounds = rounds.unwrap_or(if quick { 1 } else { ROUNDS });
    let plan = Plan::new(rounds, if quick { QUICK_SHARE } else { 1.0 })?;
    let stop = Stop::on_signal();
    let bar = progress(u64::from(rounds) * bench::STEPS, json);
    let rows = bench::measure(&plan, &stop, |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let rows = rows?;
    let peers = if peers { Some(compare(&plan, &stop, json)?) } else { None };
    if json {
        super::print_json(&json!({
            "link": "shm://", "host": host::describe(), "load": load(), "cores": plan.cores,
            "rounds": rounds, "quick": quick, "rows": rows.documents(),
            "peers": peers.map(|table| table.document()),
        }));
        return Ok(());
    }
    let host = host::describe();
    let [here, there] = plan.cores;
    say!(
        "{}, kernel {}, load {:.1}; two processes on cores {here} and {there}, {rounds} rounds",
        host["processor"].as_str().unwrap_or("unknown processor"),
        host["kernel"].as_str().unwrap_or("unknown"),
        load().unwrap_or(f64::NAN),
    );
    rows.lines().iter().for_each(|line| say!("{line}"));
    if let Some(table) = peers {
        say!("\nThe same work side by side; nobody reads the bytes but where it says so.\n");
        table.lines().iter().for_each(|line| say!("{line}"));
    }
    Ok(())
}

/// Measures what peers there are, in rounds of their own with ours among them.
fn compare(plan: &Plan, stop: &Stop, json: bool) -> Result<Table, Failure> {
    let bar = progress(0, json);
    let contenders = peers::all(stop, |what| bar.set_message(what.to_owned()))?;
    bar.set_length(u64::from(plan.rounds) * peers::steps(contenders.len()));
    let table = peers::measure(plan, stop, contenders, |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    Ok(table?)
}

/// A bar on standard error where that is a terminal and `quiet` is off; else silent.
fn progress(steps: u64, quiet: bool) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {bar:30} {pos}/{len}  {msg}") {
        bar.set_style(style);
    }
    bar
}

/// How many processes wanted to run over the last minute. Source: proc_loadavg(5).
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
