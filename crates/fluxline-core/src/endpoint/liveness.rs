//! The liveness of a peer: when it was heard, and how often it was asked since.
//!
//! A program that does not poll receives nothing. So a silent peer counts as gone only when it left
//! several questions unanswered that were asked at different times.

use crate::{Moment, Span};

/// A silent peer is gone only after this many unanswered questions.
const QUESTIONS_MIN: u32 = 3;

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
        self.settled = true;
    }

    /// Notes that this side looks at the clock; returns how long it had not.
    pub fn look(&mut self, now: Moment) -> Span {
        let absent = now.since(self.looked);
        self.looked = now;
        absent
    }

    /// Returns true when the peer was silent for longer than `death` although it was asked.
    pub fn is_gone(&self, now: Moment, death: Span) -> bool {
        self.unanswered >= QUESTIONS_MIN && now.since(self.heard) > death
    }

    /// Returns the time of the next question.
    pub fn probe_at(&self, death: Span) -> Moment {
        self.probed.unwrap_or(self.heard).max(self.heard) + question_interval(death)
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
    Span::from_ns(death.as_ns() / 8)
}
