//! The liveness of a peer: when it was heard, and how often it was asked since.
//!
//! A program that does not poll receives nothing, and a program that computes does not poll. So a
//! silent peer counts as gone only when it left several questions unanswered that were asked at
//! different times, for a time that the user sets. The process may also have ended. Then its host
//! says that no program receives there, to each question: that is seen within a second.

use crate::{Moment, Span};

/// A silent peer is gone only after this many unanswered questions.
const QUESTIONS_MIN: u32 = 3;

/// The longest time between two questions to a silent peer.
const QUESTION_INTERVAL_MAX: Span = Span::from_ms(375);
/// A peer is gone after this many frames that its host sent back, with nothing heard in between.
const REFUSALS_MIN: u32 = 3;
/// The time between two questions to a peer whose host sent one back. A process that restarts, or a
/// forged answer, has this time for each refusal.
const REFUSAL_INTERVAL: Span = Span::from_ms(100);

/// The times of a peer's frames and of the questions to it.
pub(super) struct Liveness {
    /// The last time that a frame of the peer came.
    heard: Moment,
    /// The last time that this side looked at the clock.
    looked: Moment,
    /// The time of the last question.
    probed: Option<Moment>,
    /// Counted questions since the peer was heard.
    unanswered: u32,
    /// The time of the last counted question.
    counted_at: Moment,
    /// The peer has used the connection, so it knows the length of frames.
    settled: bool,
    /// Questions that the peer's host sent back since the peer was heard, and the time of the last.
    refusals: u32,
    refused: Moment,
}

impl Liveness {
    pub fn new(now: Moment) -> Liveness {
        Liveness {
            heard: now,
            looked: now,
            probed: None,
            unanswered: 0,
            counted_at: now,
            settled: false,
            refusals: 0,
            refused: now,
        }
    }

    /// Returns true when the peer has not answered the last question.
    pub fn is_silent(&self) -> bool {
        self.probed.is_some_and(|probed| probed > self.heard)
    }

    /// Returns true when the peer has used the connection.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Notes a frame of the peer's.
    pub fn hear(&mut self, now: Moment) {
        self.heard = now;
        self.unanswered = 0;
        self.refusals = 0;
        self.settled = true;
    }

    /// Notes that the peer's host sent a frame back. Several within an interval count as one.
    pub fn refuse(&mut self, now: Moment) {
        if self.refusals == 0 || now.since(self.refused) >= REFUSAL_INTERVAL {
            self.refusals += 1;
            self.refused = now;
        }
    }

    /// Notes that this side looks at the clock; returns how long it had not.
    pub fn look(&mut self, now: Moment) -> Span {
        let absent = now.since(self.looked);
        self.looked = now;
        absent
    }

    /// Returns true when the peer was silent for longer than `death` although it was asked, or when
    /// its host says that it has ended.
    pub fn is_gone(&self, now: Moment, death: Span) -> bool {
        self.refusals >= REFUSALS_MIN
            || self.unanswered >= QUESTIONS_MIN && now.since(self.heard) > death
    }

    /// Returns the time of the next question.
    pub fn probe_at(&self, death: Span) -> Moment {
        let last = self.probed.unwrap_or(self.heard).max(self.heard);
        last + if self.refusals > 0 { REFUSAL_INTERVAL } else { question_interval(death) }
    }

    /// Notes a question. Several within one interval count as one.
    pub fn probe(&mut self, now: Moment, death: Span) {
        self.probed = Some(now);
        if now.since(self.counted_at.max(self.heard)) >= question_interval(death) {
            self.unanswered = self.unanswered.saturating_add(1);
            self.counted_at = now;
        }
    }
}

/// Returns the time between two questions to a silent peer.
fn question_interval(death: Span) -> Span {
    Span::from_ns(death.as_ns() / 8).min(QUESTION_INTERVAL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a silent peer that is asked as often as it should be; returns when it is gone [ms].
    fn gone_after(death: Span, refuses: impl Fn(u32) -> bool, hears: impl Fn(u32) -> bool) -> u32 {
        let mut liveness = Liveness::new(Moment::from_ns(0));
        for ms in 1..100_000 {
            let now = Moment::from_ns(u64::from(ms) * 1_000_000);
            if hears(ms) {
                liveness.hear(now);
            }
            if liveness.is_gone(now, death) {
                return ms;
            }
            if liveness.probe_at(death) <= now {
                liveness.probe(now, death);
                if refuses(ms) {
                    liveness.refuse(now);
                }
            }
        }
        u32::MAX
    }

    #[test]
    fn a_process_that_has_ended_is_seen_within_a_second_and_one_that_computes_is_not_dead() {
        let death = Span::from_ms(12_000);
        let ended = gone_after(death, |_| true, |_| false);
        assert!(ended < 1_000, "{ended} ms");
        let computes = gone_after(death, |_| false, |_| false);
        assert!((12_000..13_000).contains(&computes), "{computes} ms");
        assert_eq!(gone_after(death, |_| false, |ms| ms % 11_000 == 0), u32::MAX);
    }

    #[test]
    fn one_refusal_of_a_process_that_restarts_or_of_a_forger_ends_nothing() {
        let death = Span::from_ms(12_000);
        assert_eq!(gone_after(death, |ms| ms < 500, |ms| ms > 500 && ms % 100 == 0), u32::MAX);
    }
}
