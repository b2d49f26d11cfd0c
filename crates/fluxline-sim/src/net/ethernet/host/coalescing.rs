//! Interrupt coalescing of a card: one interrupt for several events.
//!
//! The two kinds differ on an idle network. A *delay* lets every event wait for a fixed time. A
//! *throttle* only keeps a minimum gap between interrupts, so a single event does not wait.

use crate::{Duration, Instant};

/// The coalescing of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coalescing {
    /// An interrupt for every event.
    #[default]
    Off,
    /// An interrupt a fixed time after the first event behind the last interrupt, or as soon as
    /// some number of events wait.
    Delay {
        /// The time.
        time: Duration,
        /// The number of events; 0: no limit.
        events: u32,
    },
    /// Interrupts with a minimum gap.
    Throttle {
        /// The gap.
        gap: Duration,
    },
}

/// The events of one direction, until their interrupt.
#[derive(Debug)]
pub struct Moderator {
    kind: Coalescing,
    waiting: u32,
    /// True while the driver polls, which makes interrupts needless.
    is_masked: bool,
    /// The time of the next interrupt; `NEVER`: none is planned.
    due: Instant,
    /// The earliest time of the next interrupt of a throttle.
    open_at: Instant,
    /// The number of interrupts.
    pub interrupts: u64,
}

impl Moderator {
    /// Makes a moderator without events.
    #[must_use]
    pub fn new(kind: Coalescing) -> Moderator {
        let (due, open_at) = (Instant::NEVER, Instant::START);
        Moderator { kind, waiting: 0, is_masked: false, due, open_at, interrupts: 0 }
    }

    /// Notes an event; returns the time of the interrupt if it is new.
    pub fn event(&mut self, now: Instant) -> Option<Instant> {
        self.waiting += 1;
        let at = match self.kind {
            _ if self.is_masked => return None,
            Coalescing::Off => now,
            Coalescing::Delay { events, .. } if events > 0 && self.waiting >= events => now,
            Coalescing::Delay { time, .. } => now + time,
            Coalescing::Throttle { .. } => self.open_at.max(now),
        };
        if at >= self.due {
            return None;
        }
        self.due = at;
        Some(at)
    }

    /// Raises the interrupt if it is due now.
    pub fn fire(&mut self, now: Instant) -> bool {
        if self.is_masked || self.due != now {
            return false;
        }
        (self.due, self.waiting) = (Instant::NEVER, 0);
        if let Coalescing::Throttle { gap } = self.kind {
            self.open_at = now + gap;
        }
        self.interrupts += 1;
        true
    }

    /// Stops interrupts: the driver polls.
    pub fn mask(&mut self) {
        (self.is_masked, self.due) = (true, Instant::NEVER);
    }

    /// Allows interrupts again. The driver has seen all events.
    pub fn unmask(&mut self) {
        (self.is_masked, self.waiting) = (false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Coalescing, Moderator};
    use crate::{Duration, Instant};

    fn at(us: u64) -> Instant {
        Instant::from_ps(1_000_000 * us)
    }

    #[test]
    fn a_delay_counts_from_the_first_event() {
        let time = Duration::from_us(25);
        let mut moderator = Moderator::new(Coalescing::Delay { time, events: 3 });
        assert_eq!(moderator.event(at(10)), Some(at(35)));
        assert_eq!(moderator.event(at(20)), None);
        assert!(!moderator.fire(at(20)) && moderator.fire(at(35)));
        assert_eq!(moderator.event(at(36)), Some(at(61)));
        assert_eq!(moderator.event(at(37)), None);
        assert_eq!(moderator.event(at(38)), Some(at(38)), "the third event");
        assert!(moderator.fire(at(38)) && !moderator.fire(at(61)));
        assert_eq!(moderator.interrupts, 2);
    }

    #[test]
    fn a_throttle_lets_the_first_event_pass() {
        let mut moderator = Moderator::new(Coalescing::Throttle { gap: Duration::from_us(25) });
        assert_eq!(moderator.event(at(10)), Some(at(10)));
        assert!(moderator.fire(at(10)));
        assert_eq!(moderator.event(at(12)), Some(at(35)));
        assert!(moderator.fire(at(35)));
        assert_eq!(moderator.event(at(100)), Some(at(100)));
    }

    #[test]
    fn a_polling_driver_gets_no_interrupt() {
        let mut moderator = Moderator::new(Coalescing::Off);
        moderator.mask();
        assert_eq!(moderator.event(at(1)), None);
        moderator.unmask();
        assert!(!moderator.fire(at(1)));
        assert_eq!(moderator.event(at(2)), Some(at(2)));
    }
}
