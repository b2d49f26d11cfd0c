//! Fluxline's push ring on shared memory, between two processes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::contender::{
    Cell, Contender, NoNumber, Number, OURS, Offer, Path, Presence, Quantity, Run,
};
use super::ours::on_link;
use crate::Error;
use crate::rings::order::{BATCH, Order, Reading, Task};
use crate::rings::pair::{self, Pair};
use crate::rings::percentile;
use fluxline_core::fabric::Reliability;

/// Longer records are published one by one \[byte\]: they gain nothing from a batch.
const BATCHED_BYTES_MAX: u64 = 1024;

/// A way to use the ring.
struct Ring {
    name: &'static str,
    /// Records to a publication.
    batch: u64,
    reading: Reading,
}

/// Lists all ways; the others are compared with the first.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    let way =
        |name, batch, reading| -> Box<dyn Contender> { Box::new(Ring { name, batch, reading }) };
    vec![
        way("fluxline ring", BATCH, Reading::FirstWord),
        way("fluxline ring, each published", 1, Reading::FirstWord),
        way("fluxline ring, all bytes read", BATCH, Reading::All),
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
            (Path::Shm, Quantity::Trip | Quantity::Stream) if self.reading == Reading::All => {
                Offer::unequal("reads every byte that arrives, unlike the others: not equal work")
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
        let value = on_link(cell, run, Reliability::Reliable, &|near| {
            let mut value = f64::NAN;
            pair::with_far(near, &group, &mut |meeting, _| {
                let mut pair = meeting.meet()?;
                value = self.value(&mut pair, cell, run)?;
                pair.end()
            })?;
            Ok(value)
        })?;
        Ok(cell.number(value))
    }
}

impl Ring {
    /// Measures half a round trip \[ns\], or records per second.
    fn value(&self, pair: &mut Pair<'_>, cell: &Cell, run: &Run<'_>) -> Result<f64, Error> {
        let (bytes, count) = (cell.bytes as usize, cell.count(run.quick));
        if cell.quantity == Quantity::Trip {
            let task = if self.reading == Reading::All { Task::Echo } else { Task::Answer };
            let order = Order { reading: self.reading, ..Order::new(task, bytes, count) };
            return Ok(percentile(&pair.round_trips(order)?, 0.5) / 2.0);
        }
        let order = Order { reading: self.reading, ..Order::new(Task::Take, bytes, count) };
        pair.delivered(order, if cell.bytes > BATCHED_BYTES_MAX { 1 } else { self.batch })
    }
}
