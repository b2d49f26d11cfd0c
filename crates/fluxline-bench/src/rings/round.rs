//! The rounds of the experiment.

use std::time::Duration;

use fluxline::pin;

use super::floors::Floors;
use super::node::SPIN;
use super::order::{Checking, Order, RingKind, Task};
use super::pair::{self, Meeting, Notified, Pair, WakeUps};
use super::rows::{Measured, Sample, percentile};
use super::watch::Watch;
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::Experiment;

/// The time that an idle endpoint is watched.
const IDLE: Duration = Duration::from_secs(1);
/// After this time without work a node that sleeps at once is asleep.
const ASLEEP_AFTER: Duration = Duration::from_micros(300);
/// The share of all repetitions that `--quick` measures.
const QUICK_SHARE: f64 = 0.1;
/// The names of a round's steps.
const STEPS: [&str; 6] =
    ["floors", "round trips", "records", "puts", "wake-ups", "an idle endpoint"];

/// Measures all rounds. What was measured before an error is kept.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let mut measured = Measured::new();
    let ended = (0..plan.rounds).try_for_each(|number| {
        let group = format!("bench-{}-{number}", std::process::id());
        let mut round = Round { plan, number, measured: &mut measured };
        let work = &mut |meeting: Meeting<'_>, far_core| round.measure(meeting, far_core);
        pair::with_far(environment, &group, work)
    });
    into.facts = measured.facts();
    ended
}

struct Round<'a> {
    plan: &'a Plan,
    number: u32,
    measured: &'a mut Measured,
}

impl Round<'_> {
    /// The number of repetitions in this plan, at least 100.
    fn part(&self, all: u64) -> u64 {
        ((all as f64 * self.share()) as u64).max(100)
    }

    fn share(&self) -> f64 {
        if self.plan.quick { QUICK_SHARE } else { 1.0 }
    }

    fn progress(&self, watch: &mut Watch<'_>, step: usize) {
        let done = self.number as usize * STEPS.len() + step;
        watch.progress(done, self.plan.rounds as usize * STEPS.len(), STEPS[step]);
    }

    fn add(&mut self, name: &str, value: f64, floor: Option<f64>) {
        self.measured.add(name, Sample { value, floor });
    }

    fn measure(&mut self, mut meeting: Meeting<'_>, far_core: usize) -> Result<(), Error> {
        let near_core = pin::allowed_cores().first().copied().unwrap_or_default();
        self.progress(&mut meeting.watch, 0);
        // Before the two ends meet: then the far end spins.
        let floors = Floors::measure([near_core, far_core], self.share())?;
        let mut pair = meeting.meet()?;
        self.progress(&mut pair.watch, 1);
        self.round_trips(&mut pair, &floors)?;
        self.progress(&mut pair.watch, 2);
        self.records(&mut pair, &floors)?;
        self.blocks(&mut pair, &floors)?;
        self.progress(&mut pair.watch, 3);
        let untouched = pair.puts_in_bursts(64 << 10, self.part(20_000))?;
        self.add("put-64k", untouched, Some(floors.copy));
        self.progress(&mut pair.watch, 4);
        self.wake_ups(&mut pair)?;
        self.progress(&mut pair.watch, 5);
        self.add("idle", pair.idle_percent(IDLE)?, None);
        pair.end()
    }

    fn round_trips(&mut self, pair: &mut Pair<'_>, floors: &Floors) -> Result<(), Error> {
        for (bytes, size) in [(8, "8"), (64, "64"), (4096, "4k")] {
            let count = self.part(if bytes > 64 { 50_000 } else { 100_000 });
            let trips = pair.round_trips(Order::new(Task::Echo, bytes, count))?;
            for (part, called) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")] {
                let [value, floor] =
                    [&trips, &floors.trips].map(|times| percentile(times, part) / 2.0);
                self.add(&format!("trip-{size}-{called}"), value, Some(floor));
            }
        }
        Ok(())
    }

    fn records(&mut self, pair: &mut Pair<'_>, floors: &Floors) -> Result<(), Error> {
        let [few, many] = [10_000_000, 20_000_000].map(|all| self.part(all));
        let mut rate = |order| pair.delivered_in_bursts(order).map(|rate| rate / 1e6);
        let take = |bytes, count| Order::new(Task::Take, bytes, count);
        let polled = [rate(take(8, many))?, rate(take(64, few))?];
        self.add("rate-8", polled[0], Some(floors.bare[0]));
        self.add("rate-64", polled[1], Some(floors.bare[1]));
        let checked = rate(Order { checking: Checking::Regularly, ..take(8, many) })?;
        self.add("checked-8", checked, Some(polled[0]));
        let adaptive = rate(Order { ring: RingKind::Adaptive, ..take(64, few) })?;
        self.add("adaptive-64", adaptive, Some(polled[1]));
        self.add("credits-8", floors.bare[0], Some(floors.bare_free[0]));
        self.add("credits-64", floors.bare[1], Some(floors.bare_free[1]));
        Ok(())
    }

    fn blocks(&mut self, pair: &mut Pair<'_>, floors: &Floors) -> Result<(), Error> {
        let mut rate = |bytes, count| {
            let order = Order::new(Task::Take, bytes, self.part(count));
            pair.delivered_in_bursts(order).map(|rate| rate / 1e6)
        };
        let blocks = [rate(4 << 10, 400_000)?, rate(64 << 10, 40_000)?];
        let large = rate(1 << 20, 3000)?;
        // GB/s of blocks as M/s: thousandths of a block's bytes.
        let as_rate = |speed: f64, bytes: f64| speed * 1e3 / bytes;
        self.add("rate-4k", blocks[0], Some(as_rate(floors.across[0], 4096.0)));
        self.add("rate-64k", blocks[1], Some(as_rate(floors.across[1], 65_536.0)));
        self.add("read-64k", blocks[1] * 65_536.0 / 1e3, Some(floors.across[1]));
        self.add("read-1m", large * 1_048_576.0 / 1e3, Some(floors.across[2]));
        Ok(())
    }

    fn wake_ups(&mut self, pair: &mut Pair<'_>) -> Result<(), Error> {
        let count = self.part(1000);
        let half = |trips: &[u64]| percentile(trips, 0.5) / 2.0;
        let order = Order { ring: RingKind::Blocking, ..Order::new(Task::Echo, 8, count) };
        self.add("wake-ring", half(&pair.round_trips(order)?), None);
        let blocking = WakeUps { notified: Notified::Blocking, pause: ASLEEP_AFTER, count };
        let blocking = pair.wake_ups(&blocking)?;
        self.add("wake-blocking", half(&blocking), None);
        let polled = half(&pair.round_trips(Order::new(Task::Echo, 8, count))?);
        let adaptive = WakeUps { notified: Notified::Adaptive, pause: SPIN / 3, count };
        let adaptive = half(&pair.wake_ups(&adaptive)?);
        self.add("wake-adaptive", adaptive, Some(polled));
        Ok(())
    }
}
