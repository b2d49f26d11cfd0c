//! One point: warm up, measure, check.

use super::{
    CoreShares, EventOutcome, Goal, LinkUse, LinkUtilisation, NodeLoad, Observer, Outcome, WarmUp,
};
use crate::core::interconnect::{CoreUse, Loss};
use crate::core::model;
use crate::load::observer::NodeBytes;
use crate::load::traffic::EventCounts;
use crate::{Agenda, Duration, Fingerprint, Instant, Model};

/// A model that can be measured.
pub trait Experiment: Model {
    /// Returns the observer of offered and delivered messages.
    fn observer(&mut self) -> &mut Observer;

    /// Begins to measure: all counts start anew.
    fn begin(&mut self, now: Instant) {
        let _ = now;
        self.observer().reset();
    }

    /// Returns the counts of events; `None`: no events are built.
    fn events(&self) -> Option<&EventCounts> {
        None
    }

    /// Returns the time for which each link was busy from the start until now, always in the same
    /// order.
    fn links(&self, now: Instant) -> Vec<LinkUse>;

    /// Returns the number of messages that were given up since the start and have not arrived.
    fn lost(&self) -> u64 {
        0
    }

    /// Returns the places that have lost frames since the start, always in the same order.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    /// Returns the time that each core of hosts has used since the start, always in the same order.
    fn cores(&self) -> Vec<CoreUse> {
        Vec::new()
    }

    /// Returns the number of packet-link-hops since the start.
    fn hops(&self) -> u64;

    /// Checks for defects: laws that do not hold, packets that will never move.
    ///
    /// # Errors
    /// The defect, in one sentence.
    fn check(&self, now: Instant) -> Result<(), String>;
}

/// The lengths of warm-up and measurement, in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time of the first check for the end of the warm-up; each later check comes after twice
    /// the time.
    pub warm_up_first: Duration,
    /// The longest warm-up; 0: none.
    pub warm_up_max: Duration,
    /// The time that is measured.
    pub measured: Duration,
}

/// A defect that a measurement found, and its time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after {at}: {problem}")]
pub struct MeasureError {
    /// The moment of the check that failed.
    pub at: Instant,
    /// The problem found.
    pub problem: String,
}

/// Number of checks in a measurement. Assumed: a deadlock is found after 1/16 of the time, and the
/// checks of a measurement of 1,000 messages per node cost less than 1 %.
const CHECKS: u64 = 16;

/// State of a measurement: the model and its counts.
struct Course<'a, E: Experiment> {
    model: &'a mut E,
    agenda: &'a mut Agenda<E::Entry>,
    fingerprint: Fingerprint,
    entries: u64,
    now: Instant,
}

/// The counts of a model when its measurement begins.
struct Before {
    at: Instant,
    links: Vec<LinkUse>,
    lost: u64,
    losses: Vec<Loss>,
    cores: Vec<CoreUse>,
}

impl<E: Experiment> Course<'_, E> {
    fn run_to(&mut self, until: Instant) -> Result<(), MeasureError> {
        self.entries += model::run(self.model, self.agenda, &mut self.fingerprint, until);
        self.now = until;
        self.model.check(until).map_err(|problem| MeasureError { at: until, problem })
    }

    /// Runs for a time, with its checks.
    fn run_parts(&mut self, start: Instant, span: Duration) -> Result<(), MeasureError> {
        for part in 1..=CHECKS {
            let length = u128::from(span.as_ps()) * u128::from(part) / u128::from(CHECKS);
            self.run_to(start + Duration::from_ps(length as u64))?;
        }
        Ok(())
    }

    /// Begins to measure: counts of earlier times do not belong to the outcome.
    fn begin(&mut self) -> Before {
        self.model.begin(self.now);
        Before {
            at: self.now,
            links: self.model.links(self.now),
            lost: self.model.lost(),
            losses: self.model.losses(),
            cores: self.model.cores(),
        }
    }

    /// Doubles the time since the beginning until the interval is narrow enough. Returns whether it
    /// is, and that time.
    fn extend(
        &mut self,
        before: &Before,
        mut span: Duration,
        precision: &Precision,
        warm_up: WarmUp,
    ) -> Result<(Goal, Duration), MeasureError> {
        let mut goal = self.goal(precision, warm_up);
        while goal == Goal::Missed && span < precision.measured_max {
            let more = span.min(precision.measured_max - span);
            self.run_parts(before.at + span, more)?;
            span = span + more;
            goal = self.goal(precision, warm_up);
        }
        Ok((goal, span))
    }

    /// Compares the interval so far with the precision.
    fn goal(&mut self, precision: &Precision, warm_up: WarmUp) -> Goal {
        let observer = self.model.observer();
        let estimate = observer.series.estimate(0);
        match warm_up {
            WarmUp::CutShort | WarmUp::LeftOut => Goal::NoSteadyState,
            WarmUp::Settled
                if estimate.is_independent
                    && estimate.half_width() <= precision.width * estimate.mean =>
            {
                Goal::Reached
            }
            WarmUp::Settled => Goal::Missed,
        }
    }

    fn warm_up(&mut self, limits: &Limits) -> Result<WarmUp, MeasureError> {
        if limits.warm_up_max == Duration::ZERO {
            return Ok(WarmUp::LeftOut);
        }
        let mut length = limits.warm_up_first.min(limits.warm_up_max);
        let start = self.now;
        loop {
            self.run_to(start + length)?;
            if self.model.observer().has_settled() {
                return Ok(WarmUp::Settled);
            }
            if length >= limits.warm_up_max {
                return Ok(WarmUp::CutShort);
            }
            length = length.max(Duration::from_ps(1)).times(2).min(limits.warm_up_max);
        }
    }
}

/// The precision that a measurement aims at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Half the interval of the mean latency, as a share of the mean.
    pub width: f64,
    /// The longest measurement.
    pub measured_max: Duration,
}

/// Warms a model up until its latencies have settled, then measures it. The model and its agenda
/// stay usable, for another measurement or to drain it.
///
/// # Errors
/// When a check of the model fails.
pub fn measure<E: Experiment>(
    model: &mut E,
    agenda: &mut Agenda<E::Entry>,
    limits: &Limits,
) -> Result<Outcome, MeasureError> {
    measure_to(model, agenda, limits, None)
}

/// Measures a model as [`measure`], and doubles the measured time until the mean latency is known
/// with the given precision. Then measures afresh for the same time, and reports that: a run that
/// ends because its interval is narrow has too low a mean and too narrow an interval. Without a
/// steady state, the time is not extended.
///
/// # Errors
/// When a check of the model fails.
pub fn measure_to<E: Experiment>(
    model: &mut E,
    agenda: &mut Agenda<E::Entry>,
    limits: &Limits,
    precision: Option<Precision>,
) -> Result<Outcome, MeasureError> {
    let begin = agenda.now();
    let fingerprint = Fingerprint::default();
    let mut course = Course { model, agenda, fingerprint, entries: 0, now: begin };
    let hops_before = course.model.hops();
    let warm_up_end = course.warm_up(limits)?;
    let warm_up = course.now.since(begin);
    let mut before = course.begin();
    let mut span = limits.measured;
    course.run_parts(before.at, span)?;
    let mut goal = Goal::None;
    if let Some(precision) = precision {
        (goal, span) = course.extend(&before, span, &precision, warm_up_end)?;
        if goal == Goal::Reached {
            before = course.begin();
            course.run_parts(before.at, span)?;
        }
    }
    let Course { entries, fingerprint, now, .. } = course;
    let measured = now.since(before.at);
    let outcome = Outcome {
        warm_up,
        warm_up_end,
        search: before.at.since(begin + warm_up),
        goal,
        entries,
        hops: model.hops() - hops_before,
        // A message that was given up may still arrive.
        lost: model.lost().saturating_sub(before.lost),
        losses: losses_since(&before.losses, model.losses()),
        links: utilisation(&before.links, &model.links(now), measured),
        cores: core_shares(&before.cores, &model.cores(), measured),
        fingerprint,
        events: model.events().map(|counts| EventOutcome::of(counts, measured, now)),
        ..of_observer(model.observer(), measured)
    };
    Ok(outcome)
}

/// Returns the losses behind those of the warm-up.
fn losses_since(before: &[Loss], after: Vec<Loss>) -> Vec<Loss> {
    let old = |place: &str| before.iter().find(|of| of.place == place).map_or(0, |of| of.frames);
    let since = after.into_iter().map(|of| Loss { frames: of.frames - old(&of.place), ..of });
    since.filter(|of| of.frames > 0).collect()
}

fn utilisation(before: &[LinkUse], after: &[LinkUse], measured: Duration) -> Vec<LinkUtilisation> {
    let of = |(before, after): (&LinkUse, &LinkUse)| {
        let busy = (after.busy - before.busy).as_ps() as f64;
        let utilisation = busy / measured.as_ps().max(1) as f64;
        LinkUtilisation { from: after.from, to: after.to, utilisation }
    };
    before.iter().zip(after).map(of).collect()
}

fn core_shares(before: &[CoreUse], after: &[CoreUse], measured: Duration) -> Vec<CoreShares> {
    let of = |(before, after): (&CoreUse, &CoreUse)| {
        let used = after.used.since(&before.used);
        let share = |time: Duration| time.as_ps() as f64 / measured.as_ps().max(1) as f64;
        CoreShares {
            node: after.node,
            core: after.core,
            user: share(used.user),
            system: share(used.system),
            irq: share(used.irq),
            softirq: share(used.softirq),
        }
    };
    before.iter().zip(after).map(of).collect()
}

/// Summarizes the observer's counts of a measured time.
fn of_observer(observer: &Observer, measured: Duration) -> Outcome {
    let seconds = measured.as_ps().max(1) as f64 / 1e12;
    let nodes = observer.sources.len().max(1) as f64;
    let rate = |bytes: u64| bytes as f64 / seconds;
    let load =
        |of: &NodeBytes| NodeLoad { offered: rate(of.offered), delivered: rate(of.delivered) };
    let histogram = observer.histogram.clone();
    Outcome {
        offered_bytes_per_s: rate(observer.offered_bytes) / nodes,
        accepted_bytes_per_s: rate(observer.delivered_bytes) / nodes,
        refused_bytes_per_s: rate(observer.refused_bytes) / nodes,
        sources: observer.sources.iter().map(load).collect(),
        targets: observer.targets.iter().map(load).collect(),
        messages: observer.messages,
        lost: 0,
        losses: Vec::new(),
        latency_ns: observer.series.estimate(0),
        p50: histogram.quantile(0.5),
        p99: histogram.quantile(0.99),
        p99_9: histogram.quantile(0.999),
        max: histogram.max(),
        histogram,
        links: Vec::new(),
        cores: Vec::new(),
        warm_up: Duration::ZERO,
        warm_up_end: WarmUp::CutShort,
        search: Duration::ZERO,
        events: None,
        goal: Goal::None,
        measured,
        entries: 0,
        hops: 0,
        fingerprint: Fingerprint::default(),
    }
}
