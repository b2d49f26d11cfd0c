//! One call of `fluxline bench`: its experiments, the report that it begins, its errors.

use fluxline_bench::environment::Plan;
use fluxline_bench::kind::ExperimentKind;
use fluxline_bench::result::Report;
use fluxline_bench::timer::Timer;
use fluxline_bench::{Error, run};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::bench_arguments::{BenchArguments, BenchLink};
use crate::failure::Failure;
use crate::version;
use fluxline_run::Stop;

/// One call of the program: a link and its experiments.
pub struct Session<'a> {
    /// The link.
    pub link: &'a BenchLink,
    /// The command line.
    pub arguments: &'a BenchArguments,
    /// The extent of the run.
    pub plan: Plan,
    /// The experiments, in order.
    pub kinds: Vec<&'static ExperimentKind>,
    /// Set when the user interrupts.
    pub stop: Stop,
    /// Shows the progress.
    pub bar: ProgressBar,
}

/// Begins an empty report of this program and this clock.
pub fn begin(link: &str, plan: &Plan, environment: Value) -> Report {
    let mut report = run::begin(link, plan, environment);
    report.program = version::PROGRAM.to_owned();
    report.environment["timer"] = json!(Timer::check());
    report
}

/// Turns an error of the library into a sentence and an exit status.
pub fn failure(error: &Error) -> Failure {
    let sentence = error.to_string();
    let sentence = sentence.trim_end_matches('.');
    match error {
        Error::NoPeer { .. } | Error::Refused(_) | Error::PeerFailed { .. } => {
            Failure::link(format_args!("{sentence}."))
        }
        _ => Failure::failed(format_args!("{sentence}.")),
    }
}

/// Adds where the results measured before the failure are; an empty `place`: nowhere.
pub fn kept(failure: Failure, place: &str) -> Failure {
    if place.is_empty() {
        return failure;
    }
    let sentence = failure.message.trim_end_matches('.');
    let message = format!("{sentence}; earlier results are in {place}, marked incomplete.");
    Failure { message, ..failure }
}
