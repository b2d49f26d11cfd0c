//! Fluxline's push ring on shared memory, against the other process of `bench shm://`.

use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_bench::Error;
use fluxline_bench::peers::{Cell, Contender, NoNumber, Number, OURS, Offer, Path, Presence};
use fluxline_bench::peers::{Quantity, Run};

use super::super::order::{Order, Task};
use super::super::pair::Pair;
use super::super::rows::percentile;
use super::super::{BATCH, BenchError};
use super::in_unit;
use crate::run::Stop;

/// Longer records are published one by one \[byte\]: they gain nothing from a batch.
const BATCHED_BYTES_MAX: u64 = 1024;

/// A way to use the ring.
struct Ring {
    name: &'static str,
    /// Records to a publication.
    batch: u64,
    reads_all: bool,
}

/// All ways; the first is what others are held against.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let way = |name, batch, reads_all| -> Box<dyn Contender> {
        Box::new(Ring { name, batch, reads_all })
    };
    vec![
        way("fluxline ring", BATCH, false),
        way("fluxline ring, each published", 1, false),
        way("fluxline ring, all bytes read", BATCH, true),
    ]
}

impl Contender for Ring {
    fn peer(&self) -> &'static str {
        OURS
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn presence(&self) -> Presence {
        Presence::Version(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
        match (cell.path, cell.quantity) {
            (Path::Shm, Quantity::Trip) if self.batch == 1 => None,
            (Path::Shm, _) if self.batch == 1 && cell.bytes > BATCHED_BYTES_MAX => None,
            (Path::Shm, Quantity::Trip | Quantity::Stream) if self.reads_all => {
                Offer::unequal("reads every byte that arrives, as nobody else: not equal work")
            }
            (Path::Shm, Quantity::Stream) if self.batch == 1 => Offer::equal("whole run"),
            (Path::Shm, Quantity::Trip) => Offer::equal("p50; read in place"),
            (Path::Shm, Quantity::Stream) => {
                Offer::equal("whole run; up to 1 KiB published 32 at a time; read in place")
            }
            _ => None,
        }
    }

    fn measure(&mut self, cell: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
        static CELLS: AtomicU64 = AtomicU64::new(0);
        let number = CELLS.fetch_add(1, Ordering::Relaxed);
        let group = format!("bench-{}-peers-{number}", std::process::id());
        let value = std::thread::scope(|scope| {
            // It is pinned; the thread that starts others is not.
            let thread = scope.spawn(|| self.value(&group, cell, run));
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        match value {
            Ok(value) => Ok(in_unit(cell, value)),
            Err(BenchError::Interrupted) => Err(NoNumber::Over(Error::Interrupted)),
            Err(error) => Err(NoNumber::Failed(error.to_string())),
        }
    }
}

impl Ring {
    fn value(&self, group: &str, cell: &Cell, run: &Run<'_>) -> Result<f64, BenchError> {
        let stop = Stop::of_bench(run.stop);
        let mut pair = Pair::start(group, run.cores[1], &stop)?;
        fluxline::pin::pin_current_thread(run.cores[0])?;
        let trip = if self.reads_all { Task::Echo } else { Task::Answer };
        let is_trip = cell.quantity == Quantity::Trip;
        let (bytes, count) = (cell.bytes as usize, cell.count(run.quick));
        let task = if is_trip { trip } else { Task::Take };
        let order = Order { reads_all: self.reads_all, ..Order::new(task, bytes, count) };
        let value = if is_trip {
            percentile(&pair.round_trips(order)?, 0.5) / 2.0
        } else {
            pair.delivered(order, if cell.bytes > BATCHED_BYTES_MAX { 1 } else { self.batch })?
        };
        pair.end()?;
        Ok(value)
    }
}
