//! Experiment `lossfree`: the highest rate at which nothing is lost, at each size, on each path.
//!
//! Source: RFC 2544, section 26.1; its trials last 60 s, ours as long as `--trial-seconds` says.

use fluxline_report::quantity;

use crate::result::{Experiment, Fact, axis};

use super::curves::Curves;
use super::ends::Ends;
use super::loss;
use super::message::Path;
use super::search::{Found, Search, SearchPlan, Verdict};
use super::setting::{Extent, Setting};
use super::trial::Trial;
use crate::Error;

/// Its name on the command line.
pub const NAME: &str = "lossfree";
/// Its description.
pub const ABOUT: &str = "The highest rate of raw UDP datagrams without a single loss, by bisection \
    (RFC 2544, with shorter trials), and the places of the first losses above it.";
/// The first rate, as a share of the rate received unpaced: most receivers that are overrun lose
/// more than the excess. (assumed)
const FIRST: f64 = 0.8;
/// The same after a trial without loss.
const FIRST_CLEAN: f64 = 0.97;

/// Measures into the experiment. Results measured before an error are kept.
pub fn run(ends: &mut dyn Ends, extent: &Extent, into: &mut Experiment) -> Result<(), Error> {
    let setting = Setting::find(ends)?;
    let mut results = Results::default();
    let ended = results.searches(ends, &setting, extent);
    results.fill(&setting, extent, into);
    ended
}

/// Below this share of its unpaced rate, a sender that does not keep a rate was disturbed: the rate
/// is not its limit. (assumed)
const WITHIN_REACH: f64 = 0.7;
/// After this number of disturbed trials a search is given up: the machine is not idle. (assumed)
const HELD_UP_MAX: u32 = 4;

/// A search: its size and path, and its number among all.
struct Which {
    bytes: usize,
    path: Path,
    done: usize,
    all: usize,
}

/// The result of one search.
struct SearchResult {
    path: Path,
    bytes: usize,
    found: Found,
    /// The clean trials at the rate found.
    clean: Vec<Trial>,
    /// The last trial with loss at the lowest rate that failed.
    above: Option<Trial>,
    /// The longest delay of the sender \[ns\] if the search was given up for it.
    held_up_ns: Option<u64>,
}

fn search(
    ends: &mut dyn Ends,
    setting: &Setting,
    extent: &Extent,
    which: &Which,
) -> Result<SearchResult, Error> {
    let Which { bytes, path, done, all } = *which;
    let mut try_rate = |rate: Option<f64>| {
        let at = rate.map_or("as fast as possible".to_owned(), |rate| format!("at {rate:.0}/s"));
        ends.progress(done, all, &format!("{bytes} B {}, {at}", path.name()));
        ends.trial(setting.trial(path, bytes, rate, extent.trial))
    };
    let unpaced = try_rate(None)?;
    let ceiling = unpaced.sent_rate();
    let first = match unpaced.verdict() {
        Verdict::Lost => FIRST * unpaced.received_rate(),
        Verdict::Clean | Verdict::Slow => FIRST_CLEAN * ceiling,
    };
    let mut search = Search::new(SearchPlan {
        ceiling,
        first,
        resolution: extent.resolution,
        confirmations: extent.confirmations,
        trials_max: extent.trials_max,
    });
    let (mut clean, mut above): (Vec<Trial>, Option<Trial>) = (Vec::new(), Some(unpaced));
    let (mut held_up, mut held_up_ns) = (0, 0);
    while let Some(rate) = search.next().filter(|_| held_up < HELD_UP_MAX) {
        let trial = try_rate(Some(rate))?;
        let verdict = trial.verdict();
        search.record(verdict);
        match verdict {
            Verdict::Clean => {
                clean.retain(|known| known.plan.rate == Some(rate));
                clean.push(trial);
            }
            Verdict::Lost => above = Some(trial),
            Verdict::Slow if rate < WITHIN_REACH * ceiling => {
                held_up += 1;
                held_up_ns = trial.late_most_ns().max(held_up_ns);
            }
            Verdict::Slow => {}
        }
    }
    let found = search.found();
    clean.retain(|trial| trial.plan.rate == Some(found.rate));
    above = above.filter(|trial| trial.lost() > 0);
    let held_up_ns = (held_up >= HELD_UP_MAX && !found.confirmed).then_some(held_up_ns);
    Ok(SearchResult { path, bytes, found, clean, above, held_up_ns })
}

/// The limit that a search found, in words.
struct Limit {
    bytes: usize,
    is_confirmed: bool,
    text: String,
}

#[derive(Default)]
struct Results {
    curves: Curves,
    facts: Vec<Fact>,
    /// The result of each search in words.
    limits: Vec<Limit>,
    warnings: Vec<String>,
}

impl Results {
    fn searches(
        &mut self,
        ends: &mut dyn Ends,
        setting: &Setting,
        extent: &Extent,
    ) -> Result<(), Error> {
        let sizes = setting.some_sizes(&extent.search_sizes)?;
        let of_size = |bytes: usize| extent.paths.iter().map(move |path| (bytes, *path));
        let searches: Vec<(usize, Path)> = sizes.into_iter().flat_map(of_size).collect();
        let all = searches.len();
        for (done, &(bytes, path)) in searches.iter().enumerate() {
            let which = Which { bytes, path, done, all };
            self.take(&search(ends, setting, extent, &which)?);
        }
        Ok(())
    }

    fn take(&mut self, result: &SearchResult) {
        let (path, bytes, found) = (result.path.name(), result.bytes, &result.found);
        let text = format!("{bytes} B, {path}: {}", sentence(result));
        self.limits.push(Limit { bytes, is_confirmed: found.confirmed, text });
        if found.rate <= 0.0 && !found.confirmed {
            return; // The rate is unknown, not zero.
        }
        let gigabits = |rate: f64| rate * bytes as f64 * 8e-9;
        // Without a clean trial the measured rate is zero.
        let achieved: Vec<f64> = result.clean.iter().map(Trial::sent_rate).collect();
        let achieved = if achieved.is_empty() { vec![0.0] } else { achieved };
        self.curves.add(&path, axis("loss-free, intended", "datagrams/s"), bytes, found.rate);
        for trial in &result.clean {
            let late_us = trial.late_most_ns() as f64 / 1e3;
            self.curves.add(
                &path,
                axis("latest batch at the loss-free rate", "us"),
                bytes,
                late_us,
            );
        }
        for &rate in &achieved {
            self.curves.add(&path, axis("loss-free", "datagrams/s"), bytes, rate);
            self.curves.add(&path, axis("loss-free", "Gb/s"), bytes, gigabits(rate));
        }
        self.losses(result);
        for warning in result.clean.iter().flat_map(|trial| &trial.warnings) {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        let samples = achieved.into_iter().map(gigabits).collect();
        self.facts.push(Fact::new(format!("loss-free, {bytes} B, {path}"), "Gb/s", samples));
    }

    /// Adds the places of the losses just above the rate.
    fn losses(&mut self, result: &SearchResult) {
        let (path, bytes) = (result.path.name(), result.bytes);
        let Some(above) = &result.above else { return };
        for place in &above.places {
            let share = 100.0 * place.datagrams as f64 / above.sent_datagrams().max(1) as f64;
            let label = format!("{}: {path}", place.name);
            self.curves.add(
                &label,
                axis("lost above the loss-free rate", "% of sent"),
                bytes,
                share,
            );
        }
    }

    fn fill(self, setting: &Setting, extent: &Extent, into: &mut Experiment) {
        let trials = format!(
            "Trials of {} s; the rate is known to {} %, and {} trials in a row confirm it.",
            extent.trial.as_secs_f64(),
            100.0 * extent.resolution,
            extent.confirmations
        );
        let busy = "A paced sender waits busily: its core is always full.".to_owned();
        into.notes = vec![trials, setting.cores.clone(), busy];
        into.notes.extend(self.warnings.iter().map(|warning| format!("Warning: {warning}.")));
        into.series = self.curves.into_series();
        into.facts = self.facts;
        let size = setting.headline(&extent.search_sizes);
        // An unconfirmed search is shown at any size.
        let shown = self.limits.into_iter();
        let shown = shown.filter(|one| !one.is_confirmed || Some(one.bytes) == size);
        into.limit = shown.map(|one| one.text).collect::<Vec<_>>().join("\n");
    }
}

/// Writes the rate that was found, and the losses above it.
fn sentence(result: &SearchResult) -> String {
    let found = &result.found;
    let mut words = if found.rate > 0.0 {
        format!("{} without loss in {} trials", quantity(found.rate, "1/s"), found.trials)
    } else {
        format!("no rate without loss in {} trials", found.trials)
    };
    if !found.confirmed {
        words.push_str(", not confirmed");
    }
    if let Some(late_ns) = result.held_up_ns {
        let late_ms = late_ns as f64 / 1e6;
        words.push_str(&format!(
            "; given up: other programs delayed the sender by {late_ms:.0} ms. Measure on an idle \
             machine."
        ));
        return words;
    }
    let limit = result.above.as_ref().map(|trial| {
        format!(
            "; lost at {}: {}. {}",
            quantity(trial.sent_rate(), "1/s"),
            loss::sentence(&trial.places),
            trial.limit
        )
    });
    words.push_str(&match (found.above, limit) {
        (Some((rate, Verdict::Slow)), _) => {
            format!("; the sender does not reach {}.", quantity(rate, "1/s"))
        }
        (_, Some(limit)) => limit,
        _ => "; as much as the sender can.".to_owned(),
    });
    words
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::datagrams::ends::InProcess;
    use crate::datagrams::loss::LossPlace;
    use crate::datagrams::message::{Host, Received};
    use crate::datagrams::setting::{SINGLE, TRAINS};
    use crate::datagrams::transmit::Sent;
    use crate::datagrams::trial::TrialPlan;

    #[test]
    fn a_search_over_loopback_ends_with_a_sentence() {
        let mut done = Experiment::new(NAME, ABOUT);
        let extent = Extent {
            search_sizes: vec![1_472],
            paths: vec![SINGLE],
            trial: Duration::from_millis(20),
            ..Extent::quick()
        };
        run(&mut InProcess::new([127, 0, 0, 1].into()), &extent, &mut done).unwrap();
        assert_eq!(done.limit.lines().count(), 1, "{}", done.limit);
    }

    /// A link with known limits \[datagrams/s\]: of the receiver and of the sender.
    struct Known {
        limit: f64,
        sender: f64,
        trials: u32,
    }

    impl Ends for Known {
        fn address(&self) -> IpAddr {
            [127, 0, 0, 1].into()
        }

        fn far_host(&mut self) -> Result<Host, Error> {
            Ok(Host::here())
        }

        fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Error> {
            self.trials += 1;
            let limit = self.limit;
            let rate = plan.rate.unwrap_or(f64::INFINITY).min(self.sender);
            let datagrams = (rate * 100.0) as u64;
            let mut received = Received { seconds: 100.0, ..Received::default() };
            received.tally.unique = datagrams.min((limit * 100.0) as u64);
            let lost = datagrams - received.tally.unique;
            let place = LossPlace { name: "socket buffer".to_owned(), datagrams: lost };
            Ok(Trial {
                plan,
                sent: vec![Sent { datagrams, seconds: 100.0, ..Sent::default() }],
                received,
                places: if lost > 0 { vec![place] } else { Vec::new() },
                near_cores: Vec::new(),
                limit: "The receiver.".to_owned(),
                warnings: Vec::new(),
            })
        }

        fn progress(&mut self, done: usize, all: usize, _what: &str) {
            assert!(done < all);
        }
    }

    fn known(limit: f64, sender: f64) -> Experiment {
        let extent = Extent { search_sizes: vec![1_472], ..Extent::full() };
        let extent = Extent { paths: vec![SINGLE, TRAINS], ..extent };
        let mut done = Experiment::new(NAME, ABOUT);
        let mut link = Known { limit, sender, trials: 0 };
        run(&mut link, &extent, &mut done).unwrap();
        assert!(link.trials <= 2 * 25, "{} trials", link.trials);
        done
    }

    #[test]
    fn a_known_links_rate_is_found_with_its_losses_above() {
        let done = known(300_000.0, 1_000_000.0);
        assert_eq!(done.facts.len(), 2, "one a path");
        for fact in &done.facts {
            let gigabits = |rate: f64| rate * 1_472.0 * 8e-9;
            assert_eq!(fact.samples.len(), 3, "the confirming trials: {fact:?}");
            for &sample in &fact.samples {
                let most = gigabits(300_000.0);
                assert!(sample <= most && sample >= 0.975 * most, "{fact:?}");
            }
        }
        let lost = done.series.iter().find(|series| series.y_unit == "% of sent").expect("losses");
        assert_eq!(lost.label, "socket buffer: single to napping");
        assert!((0.0..10.0).contains(&lost.points[0].samples[0]), "{lost:?}");
        let first = done.limit.lines().next().unwrap();
        assert!(first.starts_with("1472 B, single to napping: "), "{first}");
        assert!(first.contains("socket buffer 100 %. The receiver."), "{first}");
        assert!(!done.limit.contains("not confirmed"), "{}", done.limit);
    }

    #[test]
    fn a_sender_that_is_the_limit_is_called_so_and_nothing_is_lost() {
        let done = known(2e6, 500_000.0);
        assert_eq!(done.facts.len(), 2);
        assert!(!done.series.iter().any(|series| series.y_unit == "% of sent"));
        for line in done.limit.lines() {
            let says = line.contains("the sender") && !line.contains("lost at");
            assert!(says, "{line}");
        }
        let most = 500_000.0 * 1_472.0 * 8e-9;
        assert!(done.facts[0].samples[0] > 0.95 * most, "{:?}", done.facts[0]);
    }

    #[test]
    fn a_link_that_always_loses_has_a_rate_of_nothing() {
        let done = known(0.0, 1_000_000.0);
        assert_eq!(done.facts[0].samples, [0.0]);
        assert!(done.limit.starts_with("1472 B, single to napping: no rate without loss"));
    }
}
