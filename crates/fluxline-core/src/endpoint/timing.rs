//! How fast: round trips, the window of a connection, and pacing.

use crate::{Moment, Span};

/// Round-trip time and the time after which silence means loss. Source: RFC 6298.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    smooth: Option<Span>,
    /// The shortest one, which rises by a 256th of the difference with each longer one.
    shortest: Span,
    variation: Span,
    backoff: u32,
}

/// Silence is not taken for loss sooner: threads are not scheduled more finely. Below RFC 6298's
/// 1 s, as in data centres (Vasudevan et al., SIGCOMM 2009).
const TIMEOUT_MIN: Span = Span::from_ms(2);
const TIMEOUT_FIRST: Span = Span::from_ms(20);
const TIMEOUT_MAX: Span = Span::from_ms(200);
/// So often it doubles at most. What is sent into a silence is beyond the receiver's credit.
const BACKOFF_MAX: u32 = 7;

impl RoundTrip {
    pub fn new() -> RoundTrip {
        RoundTrip { smooth: None, shortest: TIMEOUT_FIRST, variation: Span::ZERO, backoff: 0 }
    }

    /// A frame that was sent once was answered after `took`.
    pub fn sample(&mut self, took: Span) {
        let took = took.as_ns();
        let Some(smooth) = self.smooth else {
            self.smooth = Some(Span::from_ns(took));
            self.shortest = Span::from_ns(took);
            self.variation = Span::from_ns(took / 2);
            return;
        };
        let smooth = smooth.as_ns();
        self.variation = Span::from_ns(self.variation.as_ns() / 4 * 3 + smooth.abs_diff(took) / 4);
        self.smooth = Some(Span::from_ns(smooth / 8 * 7 + took / 8));
        let shortest = self.shortest.as_ns();
        let rise = took.saturating_sub(shortest) / 256;
        self.shortest = Span::from_ns(took.min(shortest + rise));
    }

    pub fn smooth(&self) -> Span {
        self.smooth.unwrap_or(TIMEOUT_FIRST)
    }

    /// Returns the time after which silence means loss; it doubles each time.
    pub fn timeout(&self) -> Span {
        let base = match self.smooth {
            None => TIMEOUT_FIRST.as_ns(),
            Some(smooth) => smooth.as_ns() + 4 * self.variation.as_ns(),
        };
        let base = base.clamp(TIMEOUT_MIN.as_ns(), TIMEOUT_MAX.as_ns());
        Span::from_ns((base << self.backoff.min(BACKOFF_MAX)).min(TIMEOUT_MAX.as_ns()))
    }

    pub fn timed_out(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    pub fn answered(&mut self) {
        self.backoff = 0;
    }

    /// Returns the delay behind its successors after which a frame counts as lost.
    /// Source: RFC 8985 (RACK), a quarter of the shortest round trip.
    pub fn reordering(&self) -> Span {
        Span::from_ns(self.shortest.as_ns() / 4)
    }
}

/// The congestion window: bytes that the network bears in flight.
///
/// Marked frames: DCTCP (Alizadeh et al., SIGCOMM 2010): the window shrinks by half the share of
/// marked frames. Lost frames, which on a lossy path say nothing about congestion: as BBR version
/// 2 has it (draft-cardwell-iccrg-bbr-congestion-control-02), only a share above a threshold
/// shrinks it, by three tenths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    bytes: u64,
    bytes_min: u64,
    bytes_max: u64,
    slow_start: bool,
    /// Running share of marked frames, in 1/1024.
    marked_share: u64,
    /// Counts of the round under way.
    acknowledged: u64,
    acknowledged_bytes: u64,
    marked: u64,
    lost: u64,
    round_began: Option<Moment>,
}

/// Frames that one acknowledgement reports as arrived.
pub(super) struct Acknowledged {
    pub now: Moment,
    pub round_trip: Span,
    pub frames: u64,
    pub bytes: u64,
    /// Frames of them that met congestion.
    pub marked: u64,
    /// The window held the sender back.
    pub limited: bool,
}

/// Gain of the running share: 1/16, as DCTCP.
const SHARE_SHIFT: u32 = 4;
/// More than this share of a round lost is congestion \[1/1024\]: one twelfth, above what bad links
/// lose and below what overload loses.
const LOST_SHARE: u64 = 1024 / 12;
/// A share of fewer frames says little.
const ROUND_FRAMES_MIN: u64 = 64;

impl Window {
    pub fn new(frame_bytes: u64) -> Window {
        Window {
            bytes: frame_bytes * 64,
            bytes_min: frame_bytes * 4,
            bytes_max: 1 << 30,
            slow_start: true,
            marked_share: 0,
            acknowledged: 0,
            acknowledged_bytes: 0,
            marked: 0,
            lost: 0,
            round_began: None,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn lost(&mut self, frames: u64) {
        self.lost += frames;
    }

    /// Silence: nothing in flight came.
    pub fn timed_out(&mut self) {
        self.bytes = (self.bytes / 2).max(self.bytes_min);
        self.slow_start = false;
    }

    /// Takes what one acknowledgement says of the path.
    pub fn acknowledged(&mut self, of: &Acknowledged) {
        let Acknowledged { now, round_trip, frames, bytes, marked, limited } = *of;
        self.acknowledged += frames;
        self.acknowledged_bytes += bytes;
        self.marked += marked;
        if self.slow_start && limited && marked == 0 {
            self.bytes = (self.bytes + bytes).min(self.bytes_max);
        }
        let began = *self.round_began.get_or_insert(now);
        // Each round trip, so that all connections grow alike; a share of losses needs more frames.
        let counts = self.lost == 0 || self.acknowledged + self.lost >= ROUND_FRAMES_MIN;
        if now.since(began) >= round_trip && (counts || self.marked > 0) {
            self.end_round(now, limited);
        }
    }

    fn end_round(&mut self, now: Moment, limited: bool) {
        let all = self.acknowledged + self.lost;
        let share = self.marked.min(all) * 1024 / all.max(1);
        self.marked_share =
            self.marked_share - (self.marked_share >> SHARE_SHIFT) + (share >> SHARE_SHIFT);
        let overloaded = self.lost * 1024 / all.max(1) > LOST_SHARE;
        if self.marked > 0 {
            if self.slow_start {
                self.marked_share = self.marked_share.max(share);
            }
            self.bytes -= self.bytes * self.marked_share / 2048;
            self.slow_start = false;
        } else if overloaded {
            self.bytes -= self.bytes / 10 * 3;
            self.slow_start = false;
        } else if !self.slow_start && limited {
            let mean = self.acknowledged_bytes / self.acknowledged.max(1);
            self.bytes = (self.bytes + mean).min(self.bytes_max);
        }
        self.bytes = self.bytes.max(self.bytes_min);
        (self.acknowledged, self.acknowledged_bytes) = (0, 0);
        (self.marked, self.lost) = (0, 0);
        self.round_began = Some(now);
    }
}

/// A rate that is not exceeded over more than a few frames; zero: any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pacer {
    bytes_per_s: u64,
    /// The time at which all bytes so far are sent at that rate, and the rest of a nanosecond
    /// \[1/`bytes_per_s` ns\].
    free_at: Moment,
    rest: u64,
}

/// The burst after a pause. Source: 1 ms of 1 Gb/s, less than any switch buffers.
const BURST: Span = Span::from_ns(100_000);

impl Pacer {
    pub fn new(bytes_per_s: u64) -> Pacer {
        Pacer { bytes_per_s, free_at: Moment::default(), rest: 0 }
    }

    /// Returns when the next frame may leave; `None`: now.
    pub fn waits_until(&self, now: Moment) -> Option<Moment> {
        (self.bytes_per_s > 0 && self.free_at > now + BURST).then_some(self.free_at - BURST)
    }

    pub fn sent(&mut self, now: Moment, bytes: u64) {
        let work = bytes.saturating_mul(1_000_000_000).saturating_add(self.rest);
        if let Some(takes) = work.checked_div(self.bytes_per_s) {
            self.rest = work % self.bytes_per_s;
            self.free_at = self.free_at.max(now) + Span::from_ns(takes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window, and the time: a round takes 1 ms.
    struct Rounds(Window, Moment);

    impl Rounds {
        fn new() -> Rounds {
            let mut rounds = Rounds(Window::new(1000), Moment::from_ns(1));
            rounds.pass(1, (0, 0)); // the first only begins to count
            rounds
        }

        fn pass(&mut self, count: u64, (marked, lost): (u64, u64)) -> u64 {
            for _ in 0..count {
                self.1 = self.1 + Span::from_ms(1);
                self.0.lost(lost);
                self.0.acknowledged(&Acknowledged {
                    now: self.1,
                    round_trip: Span::from_ms(1),
                    frames: 100,
                    bytes: 100_000,
                    marked,
                    limited: true,
                });
            }
            self.0.bytes()
        }
    }

    #[test]
    fn a_window_grows_until_marks_come_and_then_shrinks_by_their_share() {
        let mut all = Rounds::new();
        let before = all.0.bytes();
        assert_eq!(all.pass(10, (0, 0)), before + 1_000_000, "as much as was acknowledged");
        assert_eq!(all.pass(1, (100, 0)), (before + 1_000_000) / 2, "all marked: half");
        let mut few = Rounds::new();
        let before = few.pass(10, (0, 0));
        assert!(few.pass(1, (2, 0)) > before * 9 / 10, "few marked: little less");
    }

    #[test]
    fn one_lost_of_a_hundred_does_not_shrink_a_window_and_twenty_do() {
        let mut rounds = Rounds::new();
        let before = rounds.pass(5, (0, 1));
        let grown = rounds.pass(5, (0, 1));
        assert!(grown > before);
        assert!(rounds.pass(30, (0, 25)) < grown);
        assert_eq!(rounds.pass(1000, (0, 25)), 4000, "never below four frames");
    }

    #[test]
    fn silence_doubles_the_timeout_until_an_answer_comes() {
        let mut trip = RoundTrip::new();
        trip.sample(Span::from_ms(4));
        let first = trip.timeout();
        trip.timed_out();
        assert_eq!(trip.timeout().as_ns(), first.as_ns() * 2);
        (0..20).for_each(|_| trip.timed_out());
        assert_eq!(trip.timeout(), TIMEOUT_MAX);
        trip.answered();
        assert_eq!(trip.timeout(), first);
    }

    #[test]
    fn a_pacer_lets_through_its_rate() {
        let mut pacer = Pacer::new(1_000_000);
        let (mut now, mut sent) = (Moment::default(), 0_u64);
        while now < Moment::from_ns(1_000_000_000) {
            match pacer.waits_until(now) {
                Some(until) => now = until,
                None => {
                    pacer.sent(now, 1000);
                    sent += 1000;
                }
            }
        }
        assert!((1_000_000..1_002_000).contains(&sent), "{sent}");
        assert_eq!(Pacer::new(0).waits_until(now), None);
    }
}
