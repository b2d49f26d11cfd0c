//! The PCI bus: one resource that stores, loads and the card's bursts use in turn.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::config;
use crate::{Duration, Instant};

/// The bus of one machine. First come, first served; the overheads include arbitration.
#[derive(Debug)]
pub struct Bus {
    config: config::Bus,
    free: Instant,
    busy: Duration,
}

impl Bus {
    /// Makes an idle bus.
    #[must_use]
    pub fn new(config: config::Bus) -> Bus {
        Bus { config, free: Instant::START, busy: Duration::ZERO }
    }

    /// Returns the time in which the bus was busy.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the length of `clocks` bus clocks.
    pub fn clocks(&self, clocks: u64) -> Duration {
        self.config.clock.span(clocks)
    }

    /// Carries a burst of stores of `bytes`, delayed by the card for `hold`; returns its end.
    pub fn store(&mut self, now: Instant, bytes: u32, hold: Duration) -> Instant {
        let clocks = self.config.store_clocks + self.data_clocks(bytes);
        self.take(now, self.clocks(u64::from(clocks)) + hold)
    }

    /// Carries `words` loads of `word_bytes` each; returns their end.
    pub fn load(&mut self, now: Instant, words: u32, word_bytes: u32) -> Instant {
        let each = self.config.load_clocks + self.data_clocks(word_bytes);
        self.take(now, self.clocks(u64::from(words) * u64::from(each)))
    }

    /// Carries `bytes` from the card into memory; returns the end.
    pub fn write(&mut self, now: Instant, bytes: u32) -> Instant {
        let (burst, overhead) = (self.config.write_burst_bytes, self.config.write_clocks);
        self.take(now, self.bursts(bytes, burst, overhead))
    }

    /// Carries `bytes` from memory to the card; returns the end.
    pub fn read(&mut self, now: Instant, bytes: u32) -> Instant {
        let (burst, overhead) = (self.config.read_burst_bytes, self.config.read_clocks);
        self.take(now, self.bursts(bytes, burst, overhead))
    }

    /// Returns the time for `bytes` in bursts of at most `burst`, each with `overhead` clocks.
    fn bursts(&self, bytes: u32, burst: u32, overhead: u32) -> Duration {
        let count = bytes.div_ceil(burst).max(1);
        let clocks = u64::from(count) * u64::from(overhead) + u64::from(self.data_clocks(bytes));
        self.clocks(clocks)
    }

    fn data_clocks(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.config.width_bytes)
    }

    fn take(&mut self, now: Instant, span: Duration) -> Instant {
        self.free = self.free.max(now) + span;
        self.busy = self.busy + span;
        self.free
    }
}

/// A bus that several processes of a machine use in turn.
#[derive(Clone, Debug)]
pub struct SharedBus(Arc<Mutex<Bus>>);

impl SharedBus {
    /// Makes an idle bus.
    #[must_use]
    pub fn new(config: config::Bus) -> SharedBus {
        SharedBus(Arc::new(Mutex::new(Bus::new(config))))
    }

    /// Returns the bus, for one use.
    pub fn bus(&self) -> MutexGuard<'_, Bus> {
        // Plain numbers: a panic elsewhere leaves them valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
