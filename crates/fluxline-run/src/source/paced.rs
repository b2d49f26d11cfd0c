//! An emulator in real time: each packet is sent when it is due, until the run is over.

use std::time::{Duration, Instant};

use fluxline_daq::emulator::{Emission, Emulator};

use super::truth::SensorsTruth;
use crate::stop::Stop;

/// Packets that are due within this time are sent together.
const GATHER: Duration = Duration::from_micros(100);
/// The longest sleep, so that Ctrl-C is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Makes packets at their times, and no new ones once the run is over.
pub(super) struct Paced<'a> {
    emulator: Emulator,
    stop: &'a Stop,
    began: Instant,
    stopped: bool,
}

impl<'a> Paced<'a> {
    /// Starts the time of `emulator` now.
    pub fn start(emulator: Emulator, stop: &'a Stop) -> Paced<'a> {
        Paced { emulator, stop, began: Instant::now(), stopped: false }
    }

    /// Returns the next packet, and the moment to wait for if it is not due yet; `None` at the end.
    #[inline]
    pub fn next(&mut self) -> Option<(Emission<'_>, Option<Instant>)> {
        if !self.stopped && self.stop.is_over() {
            self.emulator.stop();
            self.stopped = true;
        }
        let emission = self.emulator.next()?;
        let at = Duration::from_nanos(emission.at.as_ns());
        let early = !self.stopped && at.saturating_sub(self.began.elapsed()) > GATHER;
        Some((emission, early.then(|| self.began + at)))
    }

    /// Returns the packets that were sent, of which the kernel rejected `not_sent`.
    pub fn truth(&self, not_sent: u64) -> SensorsTruth {
        SensorsTruth { sources: self.emulator.truth(), not_sent, seed: self.emulator.seed() }
    }
}

/// Sleeps until `due`, in pieces, so that Ctrl-C is noticed.
pub(super) fn sleep_until(due: Instant, stop: &Stop) {
    while !stop.is_over() {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}
