//! Looks at a network under traffic at equal intervals.

use super::{Interval, Options, faults};
use crate::core::fault::Fault;
use crate::core::interconnect::{Interconnect, LinkUse};
use crate::core::model;
use crate::load::sweep::Experiment;
use crate::load::{Carrier, Loaded};
use crate::scenario::run::{Work, span};
use crate::scenario::{Refused, Scenario};
use crate::{Agenda, Duration, Fingerprint, Instant, Model};

/// The links of a network, and its intervals.
pub struct Watched {
    /// The links in the order of the network.
    pub links: Vec<LinkUse>,
    /// The time for which each was busy, of all the time \[%\].
    pub busy: Vec<f64>,
    pub intervals: Vec<Interval>,
    pub sent_mb_s: Vec<f64>,
    pub received_mb_s: Vec<f64>,
    pub fingerprint: String,
}

/// Runs a scenario.
pub fn watch(scenario: &Scenario, options: &Options) -> Result<Watched, Refused> {
    let faults = scenario.faults()?;
    let looker = Looker { scenario, options, faults: &faults };
    scenario.work(scenario.workload(options.load)?, looker)?
}

struct Looker<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    faults: &'a [Fault],
}

/// Counts since the start.
#[derive(Clone, Default)]
struct Totals {
    messages: u64,
    bytes: u64,
    lost: u64,
    links: Vec<LinkUse>,
}

impl Totals {
    fn of<C: Carrier>(model: &mut Loaded<C>, at: Instant) -> Totals
    where
        <C::Network as Interconnect>::Entry: crate::Entry,
    {
        let links = Experiment::links(model, at);
        let lost = model.lost();
        let observer = model.observer();
        Totals { messages: observer.messages(), bytes: observer.delivered_bytes, lost, links }
    }
}

/// Returns the busy share of each link between two looks \[%\].
fn busy(before: &[LinkUse], after: &[LinkUse], time: Duration) -> Vec<f64> {
    let share = |(before, after): (&LinkUse, &LinkUse)| {
        100.0 * (after.busy - before.busy).as_ps() as f64 / time.as_ps().max(1) as f64
    };
    before.iter().zip(after).map(share).collect()
}

impl Work for Looker<'_> {
    type Done = Result<Watched, Refused>;

    fn on<C: Carrier>(
        self,
        model: &mut Loaded<C>,
        agenda: &mut Agenda<<Loaded<C> as Model>::Entry>,
    ) -> Self::Done
    where
        <C::Network as Interconnect>::Entry: crate::Entry,
    {
        let Options { us, steps, .. } = *self.options;
        let first = Totals::of(model, Instant::START);
        let links = first.links.clone();
        let faults = faults::Faults::of(self.scenario, &links, self.faults);
        let (mut print, mut before, mut now) = (Fingerprint::default(), first, Instant::START);
        let mut intervals = Vec::new();
        for step in 1..=steps {
            let until = Instant::START + span(us * f64::from(step) / f64::from(steps));
            model::run(model, agenda, &mut print, until);
            let after = Totals::of(model, until);
            let mut interval = between(&before, &after, now, until);
            interval.in_flight = model.in_flight();
            faults.fill(&mut interval, now, until);
            find_deadlock(model, &mut interval, until)?;
            intervals.push(interval);
            (before, now) = (after, until);
        }
        let whole = now.since(Instant::START);
        let rate = |bytes: u64| bytes as f64 / 1e6 / (whole.as_ps().max(1) as f64 / 1e12);
        let observer = model.observer();
        Ok(Watched {
            sent_mb_s: observer.sources.iter().map(|of| rate(of.delivered)).collect(),
            received_mb_s: observer.targets.iter().map(|of| rate(of.delivered)).collect(),
            busy: busy(&links, &before.links, whole),
            links,
            intervals,
            fingerprint: print.to_string(),
        })
    }
}

/// Describes what happened between two looks.
fn between(before: &Totals, after: &Totals, from: Instant, to: Instant) -> Interval {
    let time = to.since(from);
    let bytes = (after.bytes - before.bytes) as f64;
    Interval {
        from_us: from.since(Instant::START).as_us(),
        to_us: to.since(Instant::START).as_us(),
        messages: after.messages - before.messages,
        delivered_mb_s: bytes / 1e6 / (time.as_ps().max(1) as f64 / 1e12),
        // A message that was given up may still arrive.
        lost: after.lost.saturating_sub(before.lost),
        busy: busy(&before.links, &after.links, time),
        ..Interval::default()
    }
}

/// Finds links that wait for each other; any other broken law ends the survey.
fn find_deadlock<C: Carrier>(
    model: &Loaded<C>,
    interval: &mut Interval,
    at: Instant,
) -> Result<(), Refused>
where
    <C::Network as Interconnect>::Entry: crate::Entry,
{
    match (model.network().deadlock(), model.check(at)) {
        (Some(circle), _) => {
            let links = model.network().links(at);
            let of = |ends: &crate::core::interconnect::Ends| {
                links.iter().position(|link| (link.from, link.to) == (ends.from, ends.to))
            };
            interval.circle = circle.links.iter().filter_map(of).collect();
            interval.deadlock = circle.text;
            Ok(())
        }
        (None, Err(problem)) => Err(Refused(format!("after {at}: {problem}."))),
        (None, Ok(())) => Ok(()),
    }
}
