//! The speed of a connection: round trips, congestion window, and pacing.

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

/// The shortest timeout: threads are not scheduled more finely. It is below the 1 s of RFC 6298, as
/// in data centres (Vasudevan et al., SIGCOMM 2009).
const TIMEOUT_MIN: Span = Span::from_ms(2);
const TIMEOUT_FIRST: Span = Span::from_ms(20);
const TIMEOUT_MAX: Span = Span::from_ms(200);
/// The timeout doubles at most this many times. Frames sent into a silence exceed the peer's
/// credit.
const BACKOFF_MAX: u32 = 7;

impl RoundTrip {
    pub fn new() -> RoundTrip {
        RoundTrip { smooth: None, shortest: TIMEOUT_FIRST, variation: Span::ZERO, backoff: 0 }
    }

    /// Takes the round trip of a frame that was sent once.
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

/// The congestion window: the bytes in flight that the network can carry.
///
/// Marked frames shrink it by half of their share, as in DCTCP (Alizadeh et al., SIGCOMM 2010).
/// Lost frames alone prove no congestion on a lossy path. Only a share above a threshold shrinks
/// the window, by three tenths, as in BBR version 2
/// (draft-cardwell-iccrg-bbr-congestion-control-02).
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    bytes: u64,
    bytes_min: u64,
    bytes_max: u64,
    slow_start: bool,
    /// Running share of marked frames, in 1/1024.
    marked_share: u64,
    round: Round,
}

/// Counts of frames in the present round, which lasts one round trip or longer.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Option<Moment>,
    acknowledged: u64,
    acknowledged_bytes: u64,
    marked: u64,
    lost: u64,
}

impl Round {
    /// Returns the number of frames whose fate is known.
    fn frames(&self) -> u64 {
        self.acknowledged + self.lost
    }
}

/// Frames that one acknowledgement reports as arrived.
pub(super) struct Acknowledged {
    pub now: Moment,
    pub round_trip: Span,
    pub frames: u64,
    pub bytes: u64,
    /// The frames among them that met congestion.
    pub marked: u64,
    /// The window held the sender back.
    pub limited: bool,
}

/// Gain of the running share: 1/16, as DCTCP.
const SHARE_SHIFT: u32 = 4;
/// A round that loses more than this share met congestion \[1/1024\]: one twelfth. Bad links lose
/// less, overloaded ones more.
const LOST_SHARE: u64 = 1024 / 12;
/// A share of fewer frames is not significant.
const ROUND_FRAMES_MIN: u64 = 64;

impl Window {
    pub fn new(frame_bytes: u64) -> Window {
        Window {
            bytes: frame_bytes * 64,
            bytes_min: frame_bytes * 4,
            bytes_max: 1 << 30,
            slow_start: true,
            marked_share: 0,
            round: Round::default(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn lost(&mut self, frames: u64) {
        self.round.lost += frames;
    }

    /// Shrinks the window after a silence.
    pub fn timed_out(&mut self) {
        self.bytes = (self.bytes / 2).max(self.bytes_min);
        self.slow_start = false;
    }

    /// Takes the arrivals that one acknowledgement reports.
    pub fn acknowledged(&mut self, of: &Acknowledged) {
        let Acknowledged { now, round_trip, frames, bytes, marked, limited } = *of;
        let round = &mut self.round;
        round.acknowledged += frames;
        round.acknowledged_bytes += bytes;
        round.marked += marked;
        let began = *round.began.get_or_insert(now);
        if self.slow_start && limited && marked == 0 {
            self.bytes = (self.bytes + bytes).min(self.bytes_max);
        }
        // A round lasts a round trip, so all connections grow alike. A share of losses needs more
        // frames.
        let round = &self.round;
        let counts = round.lost == 0 || round.frames() >= ROUND_FRAMES_MIN;
        if now.since(began) >= round_trip && (counts || round.marked > 0) {
            self.end_round(now, limited);
        }
    }

    fn end_round(&mut self, now: Moment, limited: bool) {
        let Round { acknowledged, acknowledged_bytes, marked, lost, .. } = self.round;
        let all = self.round.frames();
        let share = marked.min(all) * 1024 / all.max(1);
        self.marked_share =
            self.marked_share - (self.marked_share >> SHARE_SHIFT) + (share >> SHARE_SHIFT);
        let overloaded = lost * 1024 / all.max(1) > LOST_SHARE;
        if marked > 0 {
            if self.slow_start {
                self.marked_share = self.marked_share.max(share);
            }
            self.bytes -= self.bytes * self.marked_share / 2048;
            self.slow_start = false;
        } else if overloaded {
            self.bytes -= self.bytes / 10 * 3;
            self.slow_start = false;
        } else if !self.slow_start && limited {
            let mean = acknowledged_bytes / acknowledged.max(1);
            self.bytes = (self.bytes + mean).min(self.bytes_max);
        }
        self.bytes = self.bytes.max(self.bytes_min);
        self.round = Round { began: Some(now), ..Round::default() };
    }
}

/// Keeps a rate over more than a few frames; a rate of zero means "no limit".
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

    /// Returns true when there is a rate.
    pub fn is_limited(&self) -> bool {
        self.bytes_per_s > 0
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
            rounds.pass(1, 0, 0); // the first only begins to count
            rounds
        }

        fn pass(&mut self, count: u64, marked: u64, lost: u64) -> u64 {
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
        assert_eq!(all.pass(10, 0, 0), before + 1_000_000, "as much as was acknowledged");
        assert_eq!(all.pass(1, 100, 0), (before + 1_000_000) / 2, "all marked: half");
        let mut few = Rounds::new();
        let before = few.pass(10, 0, 0);
        assert!(few.pass(1, 2, 0) > before * 9 / 10, "few marked: little less");
    }

    #[test]
    fn one_lost_of_a_hundred_does_not_shrink_a_window_and_twenty_do() {
        let mut rounds = Rounds::new();
        let before = rounds.pass(5, 0, 1);
        let grown = rounds.pass(5, 0, 1);
        assert!(grown > before);
        assert!(rounds.pass(30, 0, 25) < grown);
        assert_eq!(rounds.pass(1000, 0, 25), 4000, "never below four frames");
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
