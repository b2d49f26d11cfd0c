//! The answer for a candidate: bounds first, then the simulation of what they leave open, for each
//! year, from the smallest configuration on.

use fluxline_run::{Checked, Met};
use serde::Serialize;

use super::bounds::{Counts, Factors, Part, link_rate, parts};
use super::candidates::Candidate;
use super::load::Loaded;
use super::simulate::{Simulated, simulate};
use crate::failure::Failure;

/// The share of a measured link up to which a bound meets a rate: a report has the rate of one pair
/// of nodes, and nothing here simulates more of them.
const MEASURED_SHARE: f64 = 0.8;
/// The change of an assumption whose effect is shown.
const CHANGE: f64 = 0.2;

/// The answer for one year.
#[derive(Clone, Debug, Serialize)]
pub struct Year {
    /// Years from today.
    pub year: u32,
    /// The load, as a multiple of that of today.
    pub load: f64,
    /// The answer to all requirements.
    pub verdict: Met,
    /// The base of the answer: `bound` or `simulation`.
    pub by: &'static str,
    /// The busiest part.
    pub bottleneck: Option<Part>,
    /// Each requirement; by a bound: none.
    pub requirements: Vec<Checked>,
    /// Simulated packets.
    pub packets: u64,
    /// The reason in words.
    pub words: String,
}

/// The answer for one configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Configuration {
    #[serde(flatten)]
    pub counts: Counts,
    /// The years, up to the first that misses a requirement.
    pub years: Vec<Year>,
}

impl Configuration {
    /// Returns the worst answer of all years.
    pub fn verdict(&self) -> Met {
        let has = |met| self.years.iter().any(|year| year.verdict == met);
        match (has(Met::Missed), has(Met::Undecided)) {
            (true, _) => Met::Missed,
            (_, true) => Met::Undecided,
            _ => Met::Met,
        }
    }

    /// Returns the first year in which a requirement is missed.
    pub fn broken_in(&self) -> Option<u32> {
        self.years.iter().find(|year| year.verdict == Met::Missed).map(|year| year.year)
    }
}

/// The effect of a changed assumption on today's answer.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// The assumption.
    pub assumption: &'static str,
    /// Its change \[%\].
    pub change_percent: f64,
    /// The answer then; by bounds alone where nothing else is said.
    pub verdict: Met,
    /// The answer differs from that without a change.
    pub turns: bool,
}

/// The answer for a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub candidate: Candidate,
    /// The smallest configuration that meets all, in every year.
    pub smallest: Option<Counts>,
    /// All that were tried, the smallest first.
    pub configurations: Vec<Configuration>,
    pub sensitivity: Vec<Sensitivity>,
    /// Assumptions and their sources.
    pub assumptions: Vec<String>,
}

impl Answer {
    /// Returns the configuration that answers for the candidate: the smallest that meets all, else
    /// the one that lasts longest.
    pub fn best(&self) -> Option<&Configuration> {
        let smallest = self.configurations.iter().find(|of| Some(of.counts) == self.smallest);
        let last =
            |of: &&Configuration| (of.verdict() != Met::Missed, of.broken_in().unwrap_or(u32::MAX));
        // The first of several: the smallest.
        smallest.or_else(|| self.configurations.iter().rev().max_by_key(last))
    }

    /// Returns the answer to all requirements in all years.
    pub fn verdict(&self) -> Met {
        self.best().map_or(Met::Undecided, Configuration::verdict)
    }
}

/// Answers for a candidate.
pub fn answer(loaded: &Loaded, candidate: &Candidate, packets: u64) -> Result<Answer, Failure> {
    let sources = loaded.experiment.sources.len() as u32;
    let mut all = Vec::new();
    for readouts in candidate.readouts.iter().filter(|readouts| **readouts <= sources) {
        all.extend(
            candidate.builders.iter().map(|of| Counts { readouts: *readouts, builders: *of }),
        );
    }
    if all.is_empty() {
        return Err(Failure::input(format_args!(
            "candidate `{}`: the experiment has {sources} sources, and a readout needs one of its \
             own; write readouts = [1].",
            candidate.name
        )));
    }
    all.sort_by_key(|of| (of.readouts + of.builders, of.readouts));
    all.dedup();
    let (mut configurations, mut smallest) = (Vec::new(), None);
    for counts in all {
        let of = configuration(loaded, candidate, counts, packets)?;
        let meets = of.verdict() == Met::Met;
        configurations.push(of);
        if meets {
            smallest = Some(counts);
            break;
        }
    }
    let candidate = candidate.clone();
    let assumptions = assumptions(&candidate);
    let answer =
        Answer { candidate, smallest, configurations, sensitivity: Vec::new(), assumptions };
    let sensitivity = match answer.best() {
        Some(best) => sensitivity(loaded, &answer.candidate, best, packets)?,
        None => Vec::new(),
    };
    Ok(Answer { sensitivity, ..answer })
}

/// Answers for all years of a configuration, up to the first that misses a requirement: more load
/// meets nothing that less has missed.
fn configuration(
    loaded: &Loaded,
    candidate: &Candidate,
    counts: Counts,
    packets: u64,
) -> Result<Configuration, Failure> {
    let mut years = Vec::new();
    for year in 0..=loaded.required.years {
        let load = loaded.required.growth(year);
        let of = at_load(loaded, candidate, counts, load, packets)?;
        years.push(Year { year, ..of });
        if years.last().is_some_and(|year| year.verdict == Met::Missed) {
            break;
        }
    }
    Ok(Configuration { counts, years })
}

/// Answers at a multiple of today's load.
fn at_load(
    loaded: &Loaded,
    candidate: &Candidate,
    counts: Counts,
    load: f64,
    packets: u64,
) -> Result<Year, Failure> {
    let by = Factors { rate: load, ..Factors::NONE };
    let bottleneck = parts(loaded, candidate, counts, by).into_iter().next();
    let busy = bottleneck.as_ref().map_or(0.0, Part::busy);
    let year = Year {
        year: 0,
        load,
        verdict: Met::Missed,
        by: "bound",
        requirements: Vec::new(),
        packets: 0,
        words: said(bottleneck.as_ref()),
        bottleneck,
    };
    if busy > 1.0 {
        return Ok(year);
    }
    if !candidate.is_simulated() {
        return Ok(by_measured_link(loaded, year, busy));
    }
    let Simulated { checked, packets, sentence } =
        simulate(loaded, candidate, counts, load, packets)?;
    let has = |met| checked.iter().any(|of| of.verdict == met);
    let verdict = match (has(Met::Missed), has(Met::Undecided) || sentence.is_some()) {
        (true, _) => Met::Missed,
        (_, true) => Met::Undecided,
        _ => Met::Met,
    };
    let open: Vec<String> =
        checked.iter().filter(|of| of.verdict != Met::Met).map(Checked::line).collect();
    let words = match (open.is_empty(), sentence) {
        (_, Some(sentence)) => sentence,
        (true, None) => year.words,
        (false, None) => open.join("; "),
    };
    Ok(Year { verdict, by: "simulation", requirements: checked, packets, words, ..year })
}

/// Answers for a link that was measured and cannot be simulated.
fn by_measured_link(loaded: &Loaded, year: Year, busy: f64) -> Year {
    let of = &loaded.required;
    let asks_more = of.latency_us.is_some() || of.loss_max.is_some();
    let verdict = match busy <= MEASURED_SHARE && !asks_more {
        true => Met::Met,
        false => Met::Undecided,
    };
    let more = match asks_more {
        true => "; a measured link is not simulated, so latency and loss are open",
        false => "",
    };
    Year { verdict, words: format!("{}{more}", year.words), ..year }
}

fn said(part: Option<&Part>) -> String {
    part.map_or("no bound is known".to_owned(), |part| {
        format!(
            "{}: {:.4} of {:.4} {} ({:.1} %)",
            part.name,
            part.load,
            part.capacity,
            part.unit,
            part.busy() * 100.0
        )
    })
}

/// Changes each assumption by 20 %, and answers again for today: the load by simulation where
/// bounds leave it open, the others by bounds.
fn sensitivity(
    loaded: &Loaded,
    candidate: &Candidate,
    best: &Configuration,
    packets: u64,
) -> Result<Vec<Sensitivity>, Failure> {
    let today = best.years.first().map_or(Met::Undecided, |year| year.verdict);
    let none = Factors::NONE;
    let changes = |change: f64| {
        let by = 1.0 + change;
        [
            ("packet size", Factors { size: by, ..none }),
            ("rate of the link", Factors { link: by, ..none }),
            ("cost of the core", Factors { core: by, ..none }),
            ("memory bus", Factors { memory: by, ..none }),
            ("disk", Factors { disk: by, ..none }),
        ]
    };
    let fits = |by| {
        let first = parts(loaded, candidate, best.counts, by).into_iter().next();
        first.is_none_or(|part| part.busy() <= 1.0)
    };
    let mut list = Vec::new();
    for change in [CHANGE, -CHANGE] {
        let at = at_load(loaded, candidate, best.counts, 1.0 + change, packets)?.verdict;
        let change_percent = change * 100.0;
        let turns = at != today;
        list.push(Sensitivity { assumption: "rate", change_percent, verdict: at, turns });
        // A factor on nothing changes nothing: such a number was not assumed.
        let now = parts(loaded, candidate, best.counts, none);
        let matters = |by: &Factors| parts(loaded, candidate, best.counts, *by) != now;
        for (assumption, by) in changes(change).into_iter().filter(|of| matters(&of.1)) {
            let (is, was) = (fits(by), fits(none));
            let verdict = match (is, was) {
                (false, _) => Met::Missed,
                (true, false) => Met::Undecided,
                (true, true) => today,
            };
            list.push(Sensitivity { assumption, change_percent, verdict, turns: is != was });
        }
    }
    Ok(list)
}

fn assumptions(candidate: &Candidate) -> Vec<String> {
    let mut list = Vec::new();
    match link_rate(candidate) {
        Some((rate, source)) => list.push(format!("link: {rate:.4} MB/s of payload ({source})")),
        None => list.push("link: no bound; the simulation alone decides".to_owned()),
    }
    match &candidate.host.source {
        Some(source) => list.push(format!("host: {source}")),
        None => list.push("host: its core, memory bus and disk cost nothing".to_owned()),
    }
    list.push("the boards of one [[source]] share one link to their readout".to_owned());
    list.push("boards lose nothing by themselves; their emulated faults are off".to_owned());
    list
}
