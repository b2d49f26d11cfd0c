//! The requests to one peer: in order, several under way, repeated from the oldest one.
//!
//! A crowded network is slow, and repetitions would crowd it further. So a peer whose answer is
//! overdue is asked what is done; its word comes behind everything that was sent before, and says
//! what is lost.

use std::collections::VecDeque;

use super::frame::Body;
use crate::Instant;
use crate::fabric::adapter::Repeat;

/// Requests to a peer that are under way. A choice: as many as an endpoint's queue.
pub(super) const REQUESTS_MAX: usize = 64;
/// Bytes under way to a peer, from which on no more is sent. A choice: four long messages.
const BYTES_MAX: u64 = 256 << 10;
/// Requests, and bytes, after which an answer is wanted although more follows. A choice: a quarter
/// and a half of those under way, so that their answer comes before the others have left.
const ASK_REQUESTS: usize = REQUESTS_MAX / 4;
const ASK_BYTES: u64 = BYTES_MAX / 2;

/// A request that waits for its turn, or for its answer; a ping has no job.
#[derive(Debug)]
pub(super) struct Errand {
    pub job: Option<u64>,
    pub body: Body,
    pub repeat: Repeat,
}

/// The requests to one peer.
#[derive(Debug)]
pub(super) struct Line {
    errands: VecDeque<Errand>,
    /// The number of the first one; the others follow.
    oldest: u64,
    /// The first ones are under way.
    sent: usize,
    /// Requests that left since an answer was wanted.
    unasked: usize,
    unasked_bytes: u64,
    /// The number of inquiries.
    pub inquiry: u32,
    /// True until the last inquiry is answered. Nothing else is sent meanwhile.
    is_inquiring: bool,
    /// The time of the last answer, or of the first departure.
    pub progress: Instant,
    /// From then on, an answer is overdue.
    pub deadline: Instant,
    /// True if a timer is running.
    pub is_timed: bool,
}

impl Line {
    pub(super) fn new(first: u64) -> Line {
        Line {
            errands: VecDeque::new(),
            oldest: first,
            sent: 0,
            unasked: 0,
            unasked_bytes: 0,
            inquiry: 0,
            is_inquiring: false,
            progress: Instant::START,
            deadline: Instant::START,
            is_timed: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.errands.len()
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.sent > 0
    }

    pub(super) fn add(&mut self, errand: Errand) {
        self.errands.push_back(errand);
    }

    /// Returns the bytes under way, in the direction in which they are more.
    pub(super) fn bytes_under_way(&self) -> u64 {
        self.errands.iter().take(self.sent).map(|errand| errand.body.bytes_both_ways()).sum()
    }

    /// Returns the next request that can be sent, with its number, and counts it as sent.
    pub(super) fn next(&mut self, now: Instant) -> Option<(u64, Body)> {
        let errand = self.errands.get(self.sent).filter(|_| !self.is_inquiring)?;
        if self.sent == 0 {
            self.progress = now;
        } else {
            let is_alone = errand.body.brings_back() || self.errands[0].body.brings_back();
            let is_full = self.sent >= REQUESTS_MAX || self.bytes_under_way() >= BYTES_MAX;
            if is_alone || is_full {
                return None;
            }
        }
        let number = self.oldest + self.sent as u64;
        self.sent += 1;
        Some((number, errand.body.clone()))
    }

    /// Returns true if a request that leaves now wants an answer: nothing follows it, or what
    /// follows goes alone, or much has left since the last one.
    pub(super) fn asks(&mut self, request: u64, bytes: u64) -> bool {
        self.unasked += 1;
        self.unasked_bytes += bytes;
        let follower = self.errands.get((request + 1).saturating_sub(self.oldest) as usize);
        let is_last = follower.is_none_or(|errand| errand.body.brings_back());
        let is_much = self.unasked >= ASK_REQUESTS || self.unasked_bytes >= ASK_BYTES;
        let is_alone = self.errands.front().is_some_and(|errand| errand.body.brings_back());
        let asks = is_last || is_much || is_alone;
        if asks {
            (self.unasked, self.unasked_bytes) = (0, 0);
        }
        asks
    }

    /// Takes out the oldest request if it is done, as `done` says.
    pub(super) fn take_done(&mut self, done: u64) -> Option<Errand> {
        if self.oldest > done { None } else { self.take() }
    }

    /// Takes out the oldest request.
    pub(super) fn take(&mut self) -> Option<Errand> {
        let errand = self.errands.pop_front()?;
        self.oldest += 1;
        self.sent = self.sent.saturating_sub(1);
        self.is_inquiring &= self.sent > 0;
        Some(errand)
    }

    /// Takes out the oldest request if it is under way and is not repeated.
    pub(super) fn take_unrepeated(&mut self) -> Option<Errand> {
        let is_lost = self.sent > 0 && self.errands.front()?.repeat == Repeat::No;
        if is_lost { self.take() } else { None }
    }

    /// Begins an inquiry.
    pub(super) fn inquire(&mut self) {
        self.inquiry = self.inquiry.wrapping_add(1);
        self.is_inquiring = true;
    }

    /// Learns that an inquiry has come. If it is the last one, all that was sent before has come,
    /// or is lost: what is not done is sent again. Returns the number of such requests.
    pub(super) fn heard(&mut self, inquiry: u32) -> usize {
        if !self.is_inquiring || inquiry != self.inquiry {
            return 0;
        }
        self.is_inquiring = false;
        std::mem::take(&mut self.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::{ASK_REQUESTS, Body, Errand, Line, Repeat};
    use crate::Instant;
    use crate::fabric::adapter::Action;

    fn add(line: &mut Line, action: Action) {
        line.add(Errand { job: None, body: Body::Ask(action), repeat: Repeat::Yes });
    }

    fn write(bytes: usize) -> Action {
        Action::Write { offset: 0, data: vec![7; bytes], word: None }
    }

    #[test]
    fn a_write_before_a_read_is_not_answered_so_that_the_read_waits_for_a_time_out() {
        let mut line = Line::new(1);
        add(&mut line, write(8));
        add(&mut line, write(8));
        add(&mut line, Action::Read { offset: 0, bytes: 8 });
        let sent: Vec<u64> =
            std::iter::from_fn(|| line.next(Instant::START)).map(|of| of.0).collect();
        assert_eq!(sent, [1, 2], "the read goes alone");
        assert!(!line.asks(1, 8) && line.asks(2, 8));
        assert!(line.take_done(2).is_some() && line.take_done(2).is_some());
        assert_eq!(line.next(Instant::START).map(|of| of.0), Some(3));
        assert!(line.asks(3, 8));
    }

    #[test]
    fn a_full_line_is_not_answered_although_more_waits() {
        for bytes in [8, 8 << 10, 64 << 10, 1 << 20] {
            let mut line = Line::new(1);
            (0..200).for_each(|_| add(&mut line, write(bytes)));
            let mut asked = 0;
            while let Some((request, body)) = line.next(Instant::START) {
                asked += u64::from(line.asks(request, body.bytes_both_ways()));
            }
            let under_way = line.bytes_under_way();
            assert!(asked > 0, "{bytes} B, {under_way} under way, of {ASK_REQUESTS} each");
        }
    }

    #[test]
    fn what_was_lost_is_not_sent_again_or_what_is_on_its_way_is() {
        let mut line = Line::new(1);
        (0..4).for_each(|_| add(&mut line, write(8)));
        let next = |line: &mut Line| line.next(Instant::START).map(|of| of.0);
        while next(&mut line).is_some() {}
        line.inquire();
        assert!(line.take_done(2).is_some());
        assert_eq!((line.heard(0), next(&mut line)), (0, None), "a word of before");
        assert!(line.take_done(2).is_some());
        assert_eq!((line.heard(1), next(&mut line), next(&mut line)), (2, Some(3), Some(4)));
    }
}
