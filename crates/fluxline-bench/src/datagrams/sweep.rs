//! Experiment `datagrams`: the sender sends as fast as it can, at each size, on each path.
//!
//! It measures throughput, datagram rate, loss and each core's load on both sides. It has one and
//! two senders, each on a core of its own if there are enough. Source: Galli, TeraDAQ 2010.

use crate::result::{Experiment, Fact, axis};
use crate::statistics::median;

use super::curves::Curves;
use super::ends::Ends;
use super::message::{Path, Receiving};
use super::placed::{self, Placed};
use super::setting::{Extent, Setting};
use super::trial::Trial;
use crate::Error;

/// Its name on the command line.
pub const NAME: &str = "datagrams";
/// Its description.
pub const ABOUT: &str = "Raw UDP datagrams as fast as the sender can: throughput, loss and its \
    place, and each core's load. An FPGA sends single datagrams; trains (UDP_SEGMENT to UDP_GRO) \
    are for PCs only.";

/// Measures into the experiment. Results measured before an error are kept.
pub fn run(ends: &mut dyn Ends, extent: &Extent, into: &mut Experiment) -> Result<(), Error> {
    let setting = Setting::find(ends)?;
    let mut sweep = Sweep::default();
    let ended = sweep.rounds(ends, &setting, extent);
    sweep.fill(&setting, extent, into);
    ended
}

#[derive(Default)]
struct Sweep {
    curves: Curves,
    /// The last trial of each path, size and number of senders.
    last: Vec<Trial>,
    /// Received rates by path, size and number of senders \[1/s\].
    rates: Vec<(Path, usize, usize, Vec<f64>)>,
    warnings: Vec<String>,
    placed: Placed,
}

/// Returns the paths in the order of their trials: each with its bare loop, then with two senders.
fn variants(setting: &Setting, extent: &Extent) -> Vec<(Path, usize)> {
    let mut variants = Vec::new();
    for path in setting.paths(&extent.paths) {
        variants.push((path, 1));
        if path.receiving != Receiving::Xdp {
            variants.push((path.bare(), 1));
        }
        if extent.has_two_senders(path) {
            variants.push((path, 2));
        }
    }
    variants
}

impl Sweep {
    fn rounds(
        &mut self,
        ends: &mut dyn Ends,
        setting: &Setting,
        extent: &Extent,
    ) -> Result<(), Error> {
        let (sizes, variants) = (setting.some_sizes(&extent.sizes)?, variants(setting, extent));
        let all = extent.rounds as usize * sizes.len() * variants.len();
        let mut done = 0;
        for _ in 0..extent.rounds {
            for &bytes in &sizes {
                for &(path, senders) in &variants {
                    ends.progress(done, all, &format!("{bytes} B {}", label(path, senders)));
                    let mut plan = setting.trial(path, bytes, None, extent.trial);
                    plan.sender_cores = setting.sender_cores[..senders].to_vec();
                    self.take(ends.trial(plan)?);
                    done += 1;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, trial: Trial) {
        let (path, bytes) = (trial.plan.path, trial.plan.datagram_bytes);
        let senders = trial.sent.len();
        let label = label(path, senders);
        let rate = trial.received_rate();
        let curves = &mut self.curves;
        curves.add(&label, axis("received", "Gb/s"), bytes, trial.gigabits(rate));
        curves.add(&label, axis("received", "datagrams/s"), bytes, rate);
        curves.add(&label, axis("lost", "%"), bytes, 100.0 * trial.loss());
        if let Some(us) = placed::apart_us(&trial) {
            curves.add(&label, axis("first to last sender's beginning", "us"), bytes, us);
        }
        self.placed.add(&trial);
        if !path.bare {
            let [sending, receiving] = trial.core_loads();
            curves.add_loads("sending", &label, bytes, &sending);
            curves.add_loads("receiving", &label, bytes, &receiving);
        }
        for warning in &trial.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        let same = |known: &&mut (Path, usize, usize, Vec<f64>)| {
            (known.0, known.1, known.2) == (path, bytes, senders)
        };
        match self.rates.iter_mut().find(same) {
            Some((.., rates)) => rates.push(rate),
            None => self.rates.push((path, bytes, senders, vec![rate])),
        }
        self.last.retain(|last| {
            (last.plan.path, last.plan.datagram_bytes, last.sent.len()) != (path, bytes, senders)
        });
        self.last.push(trial);
    }

    /// A fact for each path and size, beside its bare loop.
    fn facts(&self) -> Vec<Fact> {
        let fact = |(path, bytes, senders, rates): &(Path, usize, usize, Vec<f64>)| {
            let beside = self.rates.iter().find(|(other, size, count, _)| {
                (*other, *size, *count) == (path.bare(), *bytes, 1)
            });
            let gigabits = |rate: f64| rate * *bytes as f64 * 8e-9;
            let bare = beside.and_then(|(.., rates)| median(rates)).map(gigabits);
            (!path.bare).then(|| {
                let label = format!("received, {bytes} B, {}", label(*path, *senders));
                let samples = rates.iter().copied().map(gigabits).collect();
                Fact::new(label, "Gb/s", samples).beside("bare loop, one sender", bare)
            })
        };
        self.rates.iter().filter_map(fact).collect()
    }

    /// Names the limit of each path at one size, one line each.
    fn limits(&self, size: Option<usize>) -> String {
        let is_shown =
            |trial: &&Trial| !trial.plan.path.bare && Some(trial.plan.datagram_bytes) == size;
        let shown = self.last.iter().filter(is_shown);
        let sentence = |trial: &Trial| {
            let label = label(trial.plan.path, trial.sent.len());
            format!("{} B, {label}: {}", trial.plan.datagram_bytes, trial.limit)
        };
        shown.map(sentence).collect::<Vec<_>>().join("\n")
    }

    fn fill(self, setting: &Setting, extent: &Extent, into: &mut Experiment) {
        into.notes = vec![setting.cores.clone(), self.placed.sentence()];
        into.notes.retain(|note| !note.is_empty());
        into.notes.extend(self.warnings.iter().map(|warning| format!("Warning: {warning}.")));
        into.facts = self.facts();
        into.limit = self.limits(setting.headline(&extent.sizes));
        into.series = self.curves.into_series();
        into.placements = self.placed.into_all();
    }
}

fn label(path: Path, senders: usize) -> String {
    if senders == 1 { path.name() } else { format!("{}, {senders} senders", path.name()) }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::datagrams::ends::InProcess;
    use crate::datagrams::message::Host;
    use crate::datagrams::setting::{SINGLE, TRAINS};
    use crate::datagrams::trial::TrialPlan;
    use crate::result::Series;

    const HERE: [u8; 4] = [127, 0, 0, 1];

    fn extent() -> Extent {
        Extent {
            sizes: vec![64, 1_472],
            trial: Duration::from_millis(60),
            rounds: 2,
            ..Extent::quick()
        }
    }

    #[test]
    fn each_path_has_its_curves_and_stands_beside_its_bare_loop() {
        let mut done = Experiment::new(NAME, ABOUT);
        run(&mut InProcess::new(HERE.into()), &extent(), &mut done).unwrap();
        for path in [SINGLE, TRAINS] {
            for label in [path.name(), path.bare().name(), label(path, 2)] {
                let of = |series: &&Series| series.label == label && series.y_unit == "Gb/s";
                let series = done.series.iter().find(of).expect("a curve");
                assert_eq!(series.points.len(), 2, "{label}");
                assert!(series.points.iter().all(|point| point.samples.len() == 2), "{label}");
            }
        }
        assert_eq!(done.facts.len(), 2 * 4);
        for fact in &done.facts {
            assert!(fact.beside.as_ref().is_some_and(|bare| bare.value() > 0.0), "{fact:?}");
            assert!(fact.samples.iter().all(|&rate| rate > 0.0), "{fact:?}");
        }
        assert_eq!(done.limit.lines().count(), 4, "{}", done.limit);
        assert!(done.series.iter().any(|series| series.y_label.starts_with("load of the sending")));
        assert!(done.notes[0].contains("one host"), "{:?}", done.notes);
    }

    /// Dies after this many trials.
    struct Dying(InProcess, u32, Vec<(usize, usize)>);

    impl Ends for Dying {
        fn address(&self) -> IpAddr {
            self.0.address()
        }

        fn far_host(&mut self) -> Result<Host, Error> {
            self.0.far_host()
        }

        fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Error> {
            let gone = || Error::PeerGone { how: "it ended".to_owned() };
            self.1 = self.1.checked_sub(1).ok_or_else(gone)?;
            self.0.trial(plan)
        }

        fn progress(&mut self, done: usize, all: usize, _what: &str) {
            self.2.push((done, all));
        }
    }

    #[test]
    fn a_side_that_dies_leaves_what_was_measured_and_a_sentence() {
        for trials in 0..4 {
            let mut dying = Dying(InProcess::new(HERE.into()), trials, Vec::new());
            let mut done = Experiment::new(NAME, ABOUT);
            let error = run(&mut dying, &extent(), &mut done).unwrap_err();
            assert!(error.to_string().contains("it ended"), "{error}");
            assert_eq!(done.series.is_empty(), trials == 0, "{trials}");
            let steps: Vec<(usize, usize)> =
                (0..=trials as usize).map(|done| (done, 2 * 2 * 6)).collect();
            assert_eq!(dying.2, steps);
        }
    }
}
