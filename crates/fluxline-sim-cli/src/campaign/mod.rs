//! `fluxline sim campaign`: an experiment under faults that seeds draw, in virtual time, until a
//! law breaks.
//!
//! `case.rs` draws sizes and faults, `trial.rs` runs them by the code of `fluxline run`, `truth.rs`
//! knows what the boards sent, and `judge.rs` compares. `shrink.rs` makes a failing case smaller.

mod case;
mod coverage;
mod disk;
mod found;
mod judge;
mod power;
mod print;
mod shrink;
mod trial;
mod truth;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use clap::Args;
use fluxline_daq::experiment::Experiment;

use crate::failure::Failure;
use crate::{files, inform, progress};
use case::Case;
use coverage::Coverage;
use judge::{Harm, Known, judge, survives};
use trial::Broken;

/// `fluxline sim campaign`.
#[derive(Debug, Args)]
pub struct CampaignArguments {
    /// The experiment; its sources are emulators or captures
    pub experiment: PathBuf,
    /// Number of seeds to try
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The simulated link; without it, each seed draws one
    #[arg(long, value_name = "sim:NETWORK?KEYS")]
    pub link: Option<String>,
    /// Run this case alone, as a failing campaign printed it
    #[arg(long, value_name = "KEY=VALUE ...", conflicts_with_all = ["seeds", "seed", "link"])]
    pub case: Option<String>,
    /// Write what the campaign reached as an HTML page
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also count the seeds until each of these planted faults is found; debug builds alone
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', hide = true)]
    pub planted: Vec<u32>,
    /// Number of runs at a time, which does not change results; default: one per core
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// The counts of a campaign.
#[derive(Clone, Debug, Default)]
struct Counts {
    coverage: Coverage,
    runs: u64,
    packets: u64,
    events: u64,
    deaths: u64,
    cuts: u64,
    disks: u64,
}

/// A case that broke a law.
struct Failing {
    seed: u64,
    case: Case,
    broken: Broken,
}

/// The result of one case.
struct Outcome {
    counts: Counts,
    broken: Option<Broken>,
}

/// Runs a campaign, and prints its result.
pub fn campaign(arguments: &CampaignArguments, json: bool) -> Result<(), Failure> {
    fluxline_sim::register();
    fluxline_core::planted::choose(planted_here());
    let base = fluxline_run::load(&arguments.experiment).map_err(Failure::from)?;
    let network = arguments.link.as_deref().map(network_of).transpose()?;
    let cases = Cases { arguments, base: &base, network };
    let began = Instant::now();
    let (counts, failing) = cases.run(json)?;
    let planted = cases.planted(json)?;
    if let Some(file) = &arguments.output {
        let page = counts.coverage.page(&base.name, counts.runs, &planted);
        files::write(file, page.html().as_bytes())?;
    }
    let small = failing.as_ref().map(|failing| cases.shrink(failing, json));
    print::end(arguments, &counts, began.elapsed(), failing.as_ref(), small.as_ref(), json)
}

/// Returns the planted fault of the environment; 0: none. Debug builds alone have these faults.
fn planted_here() -> u32 {
    std::env::var("FLUXLINE_PLANTED").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the network of a link, with its keys.
fn network_of(link: &str) -> Result<&str, Failure> {
    link.strip_prefix("sim:").ok_or_else(|| {
        Failure::input(format_args!(
            "--link {link}: a campaign runs in virtual time; write sim:NETWORK?KEYS, for example \
             sim:ethernet."
        ))
    })
}

/// The cases of a campaign.
struct Cases<'a> {
    arguments: &'a CampaignArguments,
    base: &'a Experiment,
    network: Option<&'a str>,
}

impl Cases<'_> {
    /// Returns the case with this number.
    fn case(&self, number: u64) -> Result<Case, Failure> {
        match &self.arguments.case {
            Some(text) => Case::parse(text).map_err(|wrong| {
                Failure::usage(format_args!("--case: {wrong}; see docs/campaigns.md."))
            }),
            None => Ok(Case::draw(self.seed(number), self.base, self.network)),
        }
    }

    fn seed(&self, number: u64) -> u64 {
        self.arguments.seed.wrapping_add(number)
    }

    /// Runs all cases on all cores until one breaks a law: the first in the order of seeds.
    fn run(&self, json: bool) -> Result<(Counts, Option<Failing>), Failure> {
        let all = if self.arguments.case.is_some() { 1 } else { self.arguments.seeds };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self.arguments.threads.map_or(cores, |threads| threads as usize);
        let (next, end) = (AtomicU64::new(0), AtomicU64::new(all));
        let bar = progress::bar(all, json);
        let (to, from) = channel();
        // Counted in the order of seeds; those that are ahead wait.
        let (mut ahead, mut next_one) = (BTreeMap::new(), 0);
        let (mut counts, mut first) = (Counts::default(), None);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(all as usize) {
                let (to, next, end) = (to.clone(), &next, &end);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= end.load(Ordering::Relaxed) {
                            break;
                        }
                        let result = self.case(number).and_then(|case| {
                            let result = try_case(&case, self.base).map_err(Failure::input)?;
                            Ok((case, result))
                        });
                        let _ = to.send((number, result));
                    }
                });
            }
            drop(to);
            for (number, result) in from {
                // Lower seeds still run: the result is that of one core.
                if result.as_ref().map_or(true, |(_, result)| result.broken.is_some()) {
                    end.fetch_min(number, Ordering::Relaxed);
                }
                bar.inc(1);
                ahead.insert(number, result);
                while first.is_none()
                    && let Some(result) = ahead.remove(&next_one)
                {
                    first = self.count(next_one, result, &mut counts);
                    next_one += 1;
                }
            }
        });
        bar.finish_and_clear();
        let failing = first.transpose()?;
        Ok((counts, failing))
    }

    /// Adds the counts of a case; returns what ends the campaign.
    fn count(
        &self,
        number: u64,
        result: Result<(Case, Outcome), Failure>,
        counts: &mut Counts,
    ) -> Option<Result<Failing, Failure>> {
        let (case, Outcome { counts: of, broken }) = match result {
            Ok(result) => result,
            Err(failure) => return Some(Err(failure)),
        };
        counts.add(of);
        broken.map(|broken| Ok(Failing { seed: self.seed(number), case, broken }))
    }

    /// Returns a row for each planted fault that was asked for: its number, the seeds until it is
    /// found, and the law that it breaks. The faults share one switch: they come one after another.
    fn planted(&self, json: bool) -> Result<Vec<Vec<String>>, Failure> {
        let numbers = &self.arguments.planted;
        if !numbers.is_empty() && !cfg!(debug_assertions) {
            return Err(Failure::usage(format_args!(
                "--planted: this build has no planted faults; build without --release."
            )));
        }
        let mut rows = Vec::new();
        for number in numbers {
            fluxline_core::planted::choose(*number);
            let (counts, failing) = self.run(json)?;
            let law = failing.map_or("not found", |failing| failing.broken.law);
            inform!("planted fault {number}: {} seeds: {law}", counts.runs);
            rows.push(vec![number.to_string(), counts.runs.to_string(), law.to_owned()]);
        }
        fluxline_core::planted::choose(planted_here());
        Ok(rows)
    }

    /// Returns a smaller case that breaks the same law.
    fn shrink(&self, failing: &Failing, json: bool) -> Case {
        if failing.broken.law == trial::ENDS_IN_TIME {
            return failing.case.clone();
        }
        let bar = progress::bar(shrink::TRIES_MAX as u64, json);
        bar.set_message("looking for a smaller case");
        let small = shrink::shrink(&failing.case, |case| {
            bar.inc(1);
            let result = try_case(case, self.base);
            let broken = result.ok().and_then(|result| result.broken);
            broken.is_some_and(|broken| broken.law == failing.broken.law)
        });
        bar.finish_and_clear();
        small
    }
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.runs += other.runs;
        self.packets += other.packets;
        self.events += other.events;
        self.deaths += other.deaths;
        self.cuts += other.cuts;
        self.disks += other.disks;
        self.coverage.add(other.coverage);
    }
}

/// Runs a case, and judges the run.
fn try_case(case: &Case, base: &Experiment) -> Result<Outcome, String> {
    let faults = case.node_faults();
    let of = |kind: &str| faults.iter().filter(|fault| fault.kind == kind).count() as u64;
    let mut counts = Counts {
        runs: 1,
        deaths: of("host"),
        cuts: of("cable"),
        disks: u64::from(!case.disk.is_empty()),
        ..Counts::default()
    };
    let trial = match trial::run(case, base)? {
        Ok(trial) => trial,
        Err(broken) => return Ok(Outcome { counts, broken: Some(broken) }),
    };
    let truth = truth::of(&trial.experiment)?;
    let (events, read) = match found::events(&trial.folder, &trial.experiment.sources) {
        Ok(events) => events,
        Err(how) => {
            let broken = Some(Broken { law: "the folder of a run is readable", how });
            return Ok(Outcome { counts, broken });
        }
    };
    counts.coverage = Coverage::of(case, &trial, &truth);
    counts.packets = truth.iter().map(truth::SourceTruth::datagrams).sum();
    counts.events = events.len() as u64;
    let harm = Harm::of(case, &trial);
    let known = Known { case, trial: &trial, truth: &truth, events: &events, read: &read, harm };
    let broken = judge(&known).or_else(|| survives(&known));
    Ok(Outcome { counts, broken })
}
