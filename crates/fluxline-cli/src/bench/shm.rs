//! The rounds of `fluxline bench shm://`.

use std::time::Duration;

use super::floors::Floors;
use super::node::SPIN;
use super::order::{Order, Task, Way};
use super::pair::Pair;
use super::rows::{Rows, percentile};
use super::{BenchError, Plan};
use crate::run::Stop;

/// How long an idle endpoint is watched.
const IDLE: Duration = Duration::from_secs(1);
/// After so long without work a node that sleeps at once is asleep.
const ASLEEP_AFTER: Duration = Duration::from_micros(300);

/// How often `measure` calls `step` in a round.
pub const STEPS: u64 = 7;

/// Measures all rows into `rows`; `step` is called with what is being done, [`STEPS`] times a
/// round. What was measured before an error stays there.
pub fn measure(
    plan: &Plan,
    stop: &Stop,
    rows: &mut Rows,
    step: impl Fn(&str) + Sync,
) -> Result<(), BenchError> {
    for number in 0..plan.rounds {
        let group = format!("bench-{}-{number}", std::process::id());
        let mut round = Round { plan, rows: &mut *rows, step: &step };
        // In a thread of its own: it is pinned, and the next round's process must not inherit it.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| round.measure(&group, stop));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
    }
    Ok(())
}

struct Round<'a> {
    plan: &'a Plan,
    rows: &'a mut Rows,
    step: &'a (dyn Fn(&str) + Sync),
}

impl Round<'_> {
    fn measure(&mut self, group: &str, stop: &Stop) -> Result<(), BenchError> {
        let cores = self.plan.cores;
        (self.step)("floors");
        // Before the other process is there, which spins.
        let floors = Floors::measure(cores, self.plan.share)?;
        let mut pair = Pair::start(group, cores[1], stop)?;
        fluxline::pin::pin_current_thread(cores[0])?;
        (self.step)("round trips");
        self.round_trips(&mut pair, &floors)?;
        (self.step)("records");
        self.records(&mut pair, &floors)?;
        (self.step)("puts");
        self.puts(&mut pair, &floors)?;
        (self.step)("wake-ups");
        self.wake_ups(&mut pair)?;
        (self.step)("an idle endpoint");
        self.rows.add("idle", pair.idle_percent(IDLE)?, None);
        (self.step)("the end");
        pair.end()
    }

    fn round_trips(&mut self, pair: &mut Pair, floors: &Floors) -> Result<(), BenchError> {
        for (bytes, size) in [(8, "8"), (64, "64"), (4096, "4k")] {
            let count = self.plan.part(if bytes > 64 { 50_000 } else { 100_000 });
            let trips = pair.round_trips(Order::new(Task::Echo, bytes, count))?;
            for (part, called) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")] {
                let [value, floor] =
                    [&trips, &floors.trips].map(|times| percentile(times, part) / 2.0);
                self.rows.add(&format!("trip-{size}-{called}"), value, Some(floor));
            }
        }
        Ok(())
    }

    fn records(&mut self, pair: &mut Pair, floors: &Floors) -> Result<(), BenchError> {
        let count = |all| self.plan.part(all);
        let rate = |pair: &mut Pair, bytes, all| {
            let order = Order::new(Task::Take, bytes, count(all));
            pair.delivered_in_bursts(order).map(|rate| rate / 1e6)
        };
        let polled = [rate(pair, 8, 20_000_000)?, rate(pair, 64, 10_000_000)?];
        self.rows.add("rate-8", polled[0], Some(floors.bare[0]));
        self.rows.add("rate-64", polled[1], Some(floors.bare[1]));
        let looking = Order { looks: true, ..Order::new(Task::Take, 8, count(20_000_000)) };
        let looking = pair.delivered_in_bursts(looking)? / 1e6;
        self.rows.add("checked-8", looking, Some(polled[0]));
        let adaptive =
            Order { way: Way::Adaptive, ..Order::new(Task::Take, 64, count(10_000_000)) };
        let adaptive = pair.delivered_in_bursts(adaptive)? / 1e6;
        self.rows.add("adaptive-64", adaptive, Some(polled[1]));
        self.rows.add("credits-8", floors.bare[0], Some(floors.bare_free[0]));
        self.rows.add("credits-64", floors.bare[1], Some(floors.bare_free[1]));

        let blocks = [rate(pair, 4 << 10, 400_000)?, rate(pair, 64 << 10, 40_000)?];
        let large = rate(pair, 1 << 20, 3000)?;
        // GB/s of blocks as M/s: thousandths of a block's bytes.
        let as_rate = |speed: f64, bytes: f64| speed * 1e3 / bytes;
        self.rows.add("rate-4k", blocks[0], Some(as_rate(floors.across[0], 4096.0)));
        self.rows.add("rate-64k", blocks[1], Some(as_rate(floors.across[1], 65_536.0)));
        self.rows.add("read-64k", blocks[1] * 65_536.0 / 1e3, Some(floors.across[1]));
        self.rows.add("read-1m", large * 1_048_576.0 / 1e3, Some(floors.across[2]));
        Ok(())
    }

    fn puts(&mut self, pair: &mut Pair, floors: &Floors) -> Result<(), BenchError> {
        let untouched = pair.puts_in_bursts(64 << 10, self.plan.part(20_000))?;
        self.rows.add("put-64k", untouched, Some(floors.copy));
        Ok(())
    }

    fn wake_ups(&mut self, pair: &mut Pair) -> Result<(), BenchError> {
        let count = self.plan.part(1000);
        let half = |trips: &[u64]| percentile(trips, 0.5) / 2.0;
        let order = Order { way: Way::Blocking, ..Order::new(Task::Echo, 8, count) };
        self.rows.add("wake-ring", half(&pair.round_trips(order)?), None);
        let blocking = pair.wake_ups(false, ASLEEP_AFTER, count)?;
        self.rows.add("wake-blocking", half(&blocking), None);
        let polled = half(&pair.round_trips(Order::new(Task::Echo, 8, count))?);
        let adaptive = half(&pair.wake_ups(true, SPIN / 3, count)?);
        self.rows.add("wake-adaptive", adaptive, Some(polled));
        Ok(())
    }
}
