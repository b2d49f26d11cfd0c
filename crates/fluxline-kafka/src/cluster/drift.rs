//! The difference between a node's clock and the brokers', by the records that the node publishes.
//!
//! The brokers note their time in each record. By the node's clock, that was after the sending and
//! before the acknowledgement. So the two times bound the difference of the clocks, however long
//! the record was on its way.

use fluxline::clock;
use fluxline_core::Moment;

use super::block::ReadoutBlock;
use super::control::CLOCK_MS_MAX;
use super::steady::SteadyClock;

/// Returns the smallest difference that fits: the node's clock less the brokers' \[ms\], 0 when
/// the clocks may agree. `sent` and `acknowledged` are by the node's clock, `broker_ms` is the
/// brokers' time of the record \[ms since 1970\].
fn clock_ahead_ms(sent: Moment, broker_ms: i64, acknowledged: Moment) -> i64 {
    let ms = |time: Moment| i64::try_from(time.as_ns() / 1_000_000).unwrap_or(i64::MAX);
    let least = ms(sent).saturating_sub(broker_ms);
    let most = ms(acknowledged).saturating_sub(broker_ms);
    match (least, most) {
        (1.., _) => least,
        (_, ..0) => most,
        _ => 0,
    }
}

/// The steady time of a node, compared with the brokers' time.
#[derive(Debug)]
pub(super) struct NodeClock {
    now: fn() -> Moment,
    steady: SteadyClock,
    /// The largest difference so far \[ms\].
    ahead_ms: i64,
}

impl NodeClock {
    /// Begins a clock; `now` is the time of day.
    pub fn new(now: fn() -> Moment) -> NodeClock {
        NodeClock { now, steady: SteadyClock::new(now(), clock::monotonic()), ahead_ms: 0 }
    }

    /// Begins anew with the present time of day.
    pub fn begin(&mut self) {
        *self = NodeClock::new(self.now);
    }

    /// Returns the steady time; `None` when it is not certain.
    pub fn time(&mut self) -> Option<Moment> {
        self.steady.look_at(self.now)
    }

    /// Compares with the brokers' time of a record that was sent at `sent` and is acknowledged now.
    pub fn compare(&mut self, sent: Moment, broker_ms: i64) {
        let Some(acknowledged) = self.time() else { return };
        let ahead_ms = clock_ahead_ms(sent, broker_ms, acknowledged);
        if ahead_ms.saturating_abs() > self.ahead_ms.saturating_abs() {
            self.ahead_ms = ahead_ms;
        }
    }

    /// Returns the largest difference so far: the steady time less the brokers' \[ms\].
    pub fn ahead_ms(&self) -> i64 {
        self.ahead_ms
    }
}

/// The notes so far about the clock of this machine \[ms\].
#[derive(Debug, Default)]
pub(super) struct ClockNotes {
    set_ms: i64,
    ahead_ms: i64,
}

impl ClockNotes {
    /// Returns sentences about what has changed: the clock was set, or it has drifted by a further
    /// second.
    pub fn look(&mut self, counts: &ReadoutBlock) -> Vec<String> {
        let mut notes = Vec::new();
        if std::mem::replace(&mut self.set_ms, counts.clock_set_ms) != counts.clock_set_ms {
            notes.push(format!(
                "the clock of this machine was set by {:+.1} s since the start; the times of \
                 packets keep the clock of the start",
                counts.clock_set_ms as f64 * 1e-3
            ));
        }
        let ahead_ms = counts.clock_ahead_ms;
        if ahead_ms.saturating_sub(self.ahead_ms).saturating_abs() > CLOCK_MS_MAX {
            self.ahead_ms = ahead_ms;
            notes.extend(counts.wrong_times("packets"));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_ns(ms * 1_000_000)
    }

    #[test]
    fn slow_record_does_not_look_like_a_wrong_clock() {
        assert_eq!(clock_ahead_ms(at(1000), 1000, at(1000)), 0);
        assert_eq!(clock_ahead_ms(at(1000), 9000, at(20_000)), 0);
        assert_eq!(clock_ahead_ms(at(1000), 20_000, at(20_000)), 0);
    }

    #[test]
    fn wrong_clock_is_not_seen() {
        // The node is 5 s ahead, then 5 s behind; the record took 3 ms each way.
        assert_eq!(clock_ahead_ms(at(15_000), 10_003, at(15_006)), 4997);
        assert_eq!(clock_ahead_ms(at(5000), 10_003, at(5006)), -4997);
        assert_eq!(clock_ahead_ms(at(0), i64::MIN, at(1)), i64::MAX);
    }

    #[test]
    fn drift_is_said_once_and_again_when_it_grows() {
        let mut notes = ClockNotes::default();
        let mut look = |ahead_ms, set_ms| {
            let counts = ReadoutBlock {
                clock_ahead_ms: ahead_ms,
                clock_set_ms: set_ms,
                ..ReadoutBlock::default()
            };
            notes.look(&counts)
        };
        assert_eq!(look(900, 0).len(), 0);
        let said = look(-1500, 0);
        assert!(said[0].starts_with("the times of packets were 1.5 s behind the brokers' clock"));
        assert_eq!(look(-2000, 0).len(), 0);
        assert_eq!(look(-2600, 0).len(), 1);
        assert_eq!(look(-2600, 500).len(), 1);
        assert_eq!(look(-2600, 500).len(), 0);
    }
}
