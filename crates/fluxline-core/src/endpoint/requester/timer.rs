//! The retry timer: when silence means loss, pauses that the receiver asks for, and the question
//! to a silent peer.

use super::super::timing::RoundTrip;
use crate::{Moment, Span};

/// The waits of a requester.
pub(super) struct RetryTimer {
    pub trip: RoundTrip,
    /// The last time that silence counted as loss.
    silent_at: Moment,
    pause_until: Option<Moment>,
    /// Since when no frame was acknowledged although some are out.
    stalled_since: Option<Moment>,
    question: Question,
}

/// The question for a silent peer: which frames have come?
#[derive(Default)]
struct Question {
    number: u32,
    /// The time of asking, while it is unanswered.
    asked_at: Option<Moment>,
    is_due: bool,
}

impl RetryTimer {
    pub fn new() -> RetryTimer {
        RetryTimer {
            trip: RoundTrip::new(),
            silent_at: Moment::default(),
            pause_until: None,
            stalled_since: None,
            question: Question::default(),
        }
    }

    #[inline]
    pub fn is_paused(&self, now: Moment) -> bool {
        self.pause_until.is_some_and(|until| until > now)
    }

    /// Sends nothing before `until`: the receiver was not ready.
    pub fn pause(&mut self, until: Moment) {
        self.pause_until = Some(until);
        self.stalled_since = None;
    }

    pub fn end_pause(&mut self, now: Moment) {
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
        }
    }

    pub fn paused_until(&self) -> Option<Moment> {
        self.pause_until
    }

    /// A frame was sent: the wait for its acknowledgement begins.
    #[inline]
    pub fn frame_sent(&mut self, now: Moment) {
        self.stalled_since.get_or_insert(now);
    }

    /// The oldest frames were acknowledged; the wait for the others, if any, began at `since`.
    pub fn progressed(&mut self, since: Option<Moment>) {
        self.stalled_since = since;
    }

    /// Discounts a time in which this side did not poll.
    pub fn was_absent(&mut self, absent: Span, now: Moment) {
        self.stalled_since = self.stalled_since.map(|since| (since + absent).min(now));
    }

    /// Returns true when nothing was acknowledged for longer than `patience`.
    pub fn is_stalled(&self, now: Moment, patience: Span) -> bool {
        self.stalled_since.is_some_and(|since| now.since(since) > patience)
    }

    /// Silence counts as loss now.
    pub fn timed_out(&mut self, now: Moment) {
        self.trip.timed_out();
        self.silent_at = now;
    }

    /// Returns true when a frame was sent after the last silence, so that its round trip counts.
    pub fn was_sent_after_silence(&self, sent: Moment) -> bool {
        sent > self.silent_at
    }

    /// Returns when silence about a frame sent at `oldest` counts as loss.
    pub fn timeout_at(&self, oldest: Moment) -> Option<Moment> {
        let since = self.question.asked_at.map_or(oldest, |asked| asked.max(oldest));
        (!self.question.is_due).then(|| since + self.trip.timeout())
    }

    // ---- the question ----

    pub fn request_question(&mut self) {
        self.question.is_due = true;
    }

    pub fn is_question_due(&self) -> bool {
        self.question.is_due
    }

    /// Returns the number of a question that is sent now.
    pub fn ask(&mut self, now: Moment) -> u32 {
        let number = self.question.number.wrapping_add(1).max(1);
        self.question = Question { number, asked_at: Some(now), is_due: false };
        number
    }

    /// Takes the number of an answered question; returns when it was asked, if it is the open one.
    pub fn take_answer(&mut self, number: u32) -> Option<Moment> {
        if number != self.question.number {
            return None;
        }
        self.question.asked_at.take()
    }
}
