//! `fluxline plan`: the candidates of an experiment's link, compared before one is bought.
//!
//! `candidates.rs` reads them, `load.rs` makes the packets, `bounds.rs` finds what is impossible,
//! `simulate.rs` runs the experiment on the rest, `answer.rs` joins both, `page.rs` shows it.

mod answer;
mod bounds;
mod candidates;
mod load;
mod page;
#[cfg(test)]
mod published;
mod simulate;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use fluxline_daq::experiment::Experiment;
use fluxline_run::Met;
use fluxline_terminal::failure::{self, Ending};
use serde_json::json;

use crate::failure::Failure;
use crate::{files, progress, say, say_text};
use answer::{Answer, answer};
use candidates::Candidate;
use load::Loaded;

/// `fluxline plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// The experiment, with its requirements
    pub experiment: PathBuf,
    /// The candidates
    #[arg(long, value_name = "FILE")]
    pub candidates: PathBuf,
    /// Write the answer as an HTML page
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Packets of all sensors in each simulation
    #[arg(long, default_value_t = 20_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    pub packets: u64,
}

/// Answers for all candidates, prints, and writes the page. The end is a failure to look at when no
/// candidate meets all requirements.
pub fn plan(arguments: &PlanArguments, json: bool) -> Result<Ending, Failure> {
    fluxline_sim::register();
    let experiment = Experiment::load(&arguments.experiment).map_err(Failure::input)?;
    if experiment.requirements.is_none() {
        return Err(Failure::input(format_args!(
            "{} has no [requirements]; write the rate, size, latency or loss that a link must \
             reach (docs/plan.md).",
            arguments.experiment.display()
        )));
    }
    let candidates = candidates::load(&arguments.candidates)?;
    let loaded = load::prepare(experiment)?;
    let answers = answers(&loaded, &candidates, arguments.packets, json)?;
    let page = page::page(&loaded.experiment.name, &answers);
    if let Some(file) = &arguments.output {
        files::write(file, page.html().as_bytes())?;
    }
    let verdicts: Vec<Met> = answers.iter().map(Answer::verdict).collect();
    let failure = no_candidate(&verdicts);
    let ending = failure::report(failure.as_ref(), json, || {
        if json {
            crate::output::print_json(&json!({
                "fluxline": env!("CARGO_PKG_VERSION"), "experiment": loaded.experiment.name,
                "requirements": loaded.required, "packets": arguments.packets,
                "status": failure::status_of(failure.as_ref()),
                "sentence": failure.as_ref().map(|of| &of.message),
                "verdicts": verdicts, "candidates": answers,
            }));
            return;
        }
        say_text!("{}", page.text());
        if let Some(file) = &arguments.output {
            say!("\nplan: {}", file.display());
        }
    });
    Ok(ending)
}

/// Returns the failure of a plan of which no candidate meets all requirements.
fn no_candidate(verdicts: &[Met]) -> Option<Failure> {
    let count = |met| verdicts.iter().filter(|of| **of == met).count();
    if count(Met::Met) > 0 {
        return None;
    }
    let (missed, undecided) = (count(Met::Missed), count(Met::Undecided));
    Some(Failure::look(format_args!(
        "no candidate meets all requirements: missed by {missed}, undecided for {undecided}; read \
         the reason of each, then change candidates or requirements, or raise --packets."
    )))
}

/// Answers for all candidates, on all cores; the answers have the order of the candidates.
fn answers(
    loaded: &Loaded,
    candidates: &[Candidate],
    packets: u64,
    quiet: bool,
) -> Result<Vec<Answer>, Failure> {
    let bar = progress::bar(candidates.len() as u64, quiet);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(candidates.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(candidate) = candidates.get(number) else { return };
                    let of = answer(loaded, candidate, packets);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, of));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|of| of.0);
    done.into_iter().map(|of| of.1).collect()
}
