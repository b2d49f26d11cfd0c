//! Experiment `datagrams`: the sender sends as fast as it can, at each size, on each path.
//!
//! It measures throughput, datagram rate and loss, with one and two senders, each on a core of its
//! own if there are enough. Source: Galli, TeraDAQ 2010.

use std::collections::BTreeMap;

use crate::Error;
use crate::result::{Experiment, Fact, axis};

use super::curves::Curves;
use super::ends::Ends;
use super::message::Path;
use super::setting::{Extent, Setting};
use super::trial::Trial;

/// Its name on the command line.
pub const NAME: &str = "datagrams";
/// Its description.
pub const ABOUT: &str = "Raw UDP datagrams as fast as the sender can: throughput, loss and its \
    place. An FPGA sends single datagrams; trains (UDP_SEGMENT to UDP_GRO) are for PCs only.";

/// Measures into the experiment. Results measured before an error are kept.
pub fn run(ends: &mut dyn Ends, extent: &Extent, into: &mut Experiment) -> Result<(), Error> {
    let setting = Setting::find(ends)?;
    let mut sweep = Sweep::default();
    let ended = sweep.rounds(ends, &setting, extent);
    sweep.fill(&setting, extent, into);
    ended
}

/// A size, the path's place in the extent, and the number of senders.
type Variant = (usize, usize, usize);

#[derive(Default)]
struct Sweep {
    curves: Curves,
    /// Received throughput of each round \[Gb/s\].
    received: BTreeMap<Variant, (Path, Vec<f64>)>,
    /// The limit of the last trial of each.
    limits: BTreeMap<Variant, String>,
    warnings: Vec<String>,
}

impl Sweep {
    fn rounds(
        &mut self,
        ends: &mut dyn Ends,
        setting: &Setting,
        extent: &Extent,
    ) -> Result<(), Error> {
        let mut variants = Vec::new();
        for bytes in setting.some_sizes(&extent.sizes)? {
            for (index, path) in extent.paths.iter().enumerate() {
                variants.push((bytes, index, 1));
                if extent.has_two_senders(*path) {
                    variants.push((bytes, index, 2));
                }
            }
        }
        let all = extent.rounds as usize * variants.len();
        for round in 0..extent.rounds as usize {
            for (number, variant) in variants.iter().enumerate() {
                let (bytes, index, senders) = *variant;
                let path = extent.paths[index];
                let what = format!("{bytes} B {}", label(path, senders));
                ends.progress(round * variants.len() + number, all, &what);
                let mut plan = setting.trial(path, bytes, None, extent.trial);
                plan.sender_cores = setting.sender_cores[..senders].to_vec();
                self.take(*variant, ends.trial(plan)?);
            }
        }
        Ok(())
    }

    fn take(&mut self, variant: Variant, trial: Trial) {
        let (bytes, path) = (trial.plan.datagram_bytes, trial.plan.path);
        let label = label(path, trial.sent.len());
        let (rate, gbps) = (trial.received_rate(), trial.gigabits(trial.received_rate()));
        self.curves.add(&label, axis("received", "Gb/s"), bytes, gbps);
        self.curves.add(&label, axis("received", "datagrams/s"), bytes, rate);
        self.curves.add(&label, axis("lost", "%"), bytes, 100.0 * trial.loss());
        self.received.entry(variant).or_insert_with(|| (path, Vec::new())).1.push(gbps);
        self.limits.insert(variant, format!("{bytes} B, {label}: {}", trial.limit));
        self.warnings.extend(trial.warnings);
    }

    fn fill(mut self, setting: &Setting, extent: &Extent, into: &mut Experiment) {
        self.warnings.sort_unstable();
        self.warnings.dedup();
        into.notes = vec![setting.cores.clone()];
        into.notes.extend(self.warnings.iter().map(|warning| format!("Warning: {warning}.")));
        let facts = self.received.into_iter().map(|((bytes, _, senders), (path, samples))| {
            let label = format!("received, {bytes} B, {}", label(path, senders));
            Fact::new(label, "Gb/s", samples)
        });
        into.facts = facts.collect();
        let size = setting.headline(&extent.sizes);
        let shown = self.limits.into_iter().filter(|((bytes, ..), _)| Some(*bytes) == size);
        into.limit = shown.map(|(_, limit)| limit).collect::<Vec<_>>().join("\n");
        into.series = self.curves.into_series();
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
    use crate::datagrams::trial::TrialPlan;

    const HERE: [u8; 4] = [127, 0, 0, 1];

    fn extent() -> Extent {
        let trial = Duration::from_millis(40);
        Extent { sizes: vec![64, 1_472], trial, rounds: 2, ..Extent::quick() }
    }

    #[test]
    fn each_path_has_its_curves_its_facts_and_a_limit() {
        let mut done = Experiment::new(NAME, ABOUT);
        let extent = extent();
        run(&mut InProcess::new(HERE.into()), &extent, &mut done).unwrap();
        for path in &extent.paths {
            for label in [path.name(), label(*path, 2)] {
                let series = done.series.iter().find(|one| one.label == label).expect("a curve");
                assert_eq!(series.points.len(), 2, "{label}");
                assert!(series.points.iter().all(|point| point.samples.len() == 2), "{label}");
            }
        }
        assert_eq!(done.facts.len(), 2 * 4);
        assert!(done.facts.iter().all(|fact| fact.unit == "Gb/s" && fact.samples.len() == 2));
        assert_eq!(done.limit.lines().count(), 4, "{}", done.limit);
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
        for trials in 0..3 {
            let mut dying = Dying(InProcess::new(HERE.into()), trials, Vec::new());
            let mut done = Experiment::new(NAME, ABOUT);
            let error = run(&mut dying, &extent(), &mut done).unwrap_err();
            assert!(error.to_string().contains("it ended"), "{error}");
            assert_eq!(done.series.is_empty(), trials == 0, "{trials}");
            let steps: Vec<(usize, usize)> =
                (0..=trials as usize).map(|done| (done, 2 * 2 * 4)).collect();
            assert_eq!(dying.2, steps);
        }
    }
}
