//! Acknowledgements and answers that come back to a requester.

use super::super::frames::{Refused, Selective};
use super::super::peer::PeerKind;
use super::super::posted::{FrameState, Request, RequestFrame};
use super::in_flight::Extent;
use super::{Arrived, CompletionQueue, NOT_READY_PAUSE, Requester};
use crate::fabric::Status;
use crate::roce::{NakCode, Psn};
use crate::{Moment, Span};

impl Requester {
    fn arrived(&self, now: Moment) -> Arrived {
        Arrived::new(now, self.timer.trip.smooth())
    }

    /// Takes an acknowledgement that names the missing frames.
    pub fn selective(
        &mut self,
        now: Moment,
        ack: &Selective<'_>,
        completions: &mut CompletionQueue,
    ) {
        let ahead = ack.expected.distance_from(self.in_flight.first());
        if ahead < 0 {
            return; // overtaken by a later one
        }
        let expected = ahead as usize;
        if expected > self.in_flight.len() {
            return; // acknowledges frames that were never sent
        }
        self.budget.set_credit(ack.credit_bytes);
        let mut arrived = self.arrived(now);
        for index in 0..expected {
            self.arrive(index, &mut arrived);
        }
        let bits = ack.held.iter().enumerate().flat_map(|(byte, &bits)| {
            (0..8).filter(move |bit| bits & 1 << bit != 0).map(move |bit| byte * 8 + bit)
        });
        for bit in bits {
            self.in_flight.hold(expected + 1 + bit, &mut arrived);
        }
        let marked = self.budget.new_marks(ack.marked);
        self.after_arrivals(&arrived, marked);
        if !ack.held.is_empty() || self.in_flight.reads() > 0 {
            self.find_lost();
        }
        self.take_answered_question(ack.answer);
        if let Some(refused) = ack.refused {
            self.refused(now, expected, refused);
        }
        let held = self.in_flight.get(expected).is_some_and(|of| of.state == FrameState::Held);
        if held && ack.refused != Some(Refused::NotReady) {
            self.in_flight.make_due(expected); // the peer held it and lost it
        }
        self.forget_arrived(now, completions);
    }

    fn take_answered_question(&mut self, number: u32) {
        if let Some(asked_at) = self.timer.take_answer(number) {
            self.timer.trip.answered();
            // A frame of the same moment may have been sent after the question.
            let lost = self.in_flight.mark_due(0, |frame| frame.sent < asked_at);
            self.budget.lost(lost);
        }
    }

    /// Takes an acknowledgement of the standard: all frames up to `psn` came.
    pub fn acknowledged(&mut self, now: Moment, psn: Psn, completions: &mut CompletionQueue) {
        let Some(last) = self.in_flight.index_of(psn) else { return };
        let mut arrived = self.arrived(now);
        for index in 0..=last {
            self.arrive(index, &mut arrived);
        }
        self.after_arrivals(&arrived, 0);
        self.forget_arrived(now, completions);
    }

    /// Takes a refusal of the request `psn` from a peer of the standard. `Err`: the connection is
    /// over.
    pub fn nak(
        &mut self,
        now: Moment,
        psn: Psn,
        code: NakCode,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        self.acknowledged(now, psn.minus(1), completions);
        if self.in_flight.index_of(psn).is_none() {
            return Ok(()); // late, or about a frame that was never sent
        }
        match code {
            NakCode::PsnSequenceError => {
                self.go_back(psn);
                Ok(())
            }
            NakCode::RemoteAccessError => Err(Status::Rights),
            _ => Err(Status::Transport),
        }
    }

    /// Pauses: the receiver had no buffer for `psn` and wants the request again later.
    pub fn not_ready(
        &mut self,
        now: Moment,
        psn: Psn,
        pause: Span,
        completions: &mut CompletionQueue,
    ) {
        self.acknowledged(now, psn.minus(1), completions);
        self.go_back(psn);
        self.timer.pause(now + pause);
    }

    /// Takes the answer to a get. One of the wrong length is dropped, and the get is repeated.
    pub fn read_answered(
        &mut self,
        now: Moment,
        psn: Psn,
        bytes: &[u8],
        completions: &mut CompletionQueue,
    ) {
        let Some(index) = self.in_flight.index_of(psn) else { return };
        let frame = *self.in_flight.frame(index);
        let is_arrived = frame.state == FrameState::Arrived;
        let wanted = self.is_get(&frame) && frame.awaits_answer && !is_arrived;
        if !wanted || bytes.len() != frame.bytes as usize {
            return;
        }
        if self.first_get() != Some(index) {
            if frame.state != FrameState::Early {
                self.early.push((psn, bytes.to_vec()));
                self.in_flight.answered_early(index);
            }
            return;
        }
        self.write_answer(now, index, bytes, completions);
        while let Some(next) = self.first_get() {
            let psn = self.in_flight.psn(next);
            let Some(held) = self.early.iter().position(|(of, _)| *of == psn) else { return };
            let (_, bytes) = self.early.swap_remove(held);
            self.write_answer(now, next, &bytes, completions);
        }
    }

    fn is_get(&self, frame: &RequestFrame) -> bool {
        matches!(self.queue.get(frame.of).request, Request::Get { .. })
    }

    /// Returns the index of the first get that waits for its answer.
    fn first_get(&self) -> Option<usize> {
        self.in_flight.iter().position(|frame| frame.awaits_answer && self.is_get(frame))
    }

    fn write_answer(
        &mut self,
        now: Moment,
        index: usize,
        bytes: &[u8],
        completions: &mut CompletionQueue,
    ) {
        let frame = *self.in_flight.frame(index);
        let posted = self.queue.get(frame.of);
        let Request::Get { into: (memory, offset), .. } = &posted.request else {
            unreachable!("both callers chose the frame by `is_get`");
        };
        // The region was checked when the get was posted, and does not shrink; memory of the
        // program's own that refuses the write keeps what it had.
        let _ = memory.write(offset + frame.at, bytes);
        self.answered(now, index, completions);
    }

    /// Takes the answer to an atomic.
    pub fn atomic_answered(
        &mut self,
        now: Moment,
        psn: Psn,
        value: u64,
        completions: &mut CompletionQueue,
    ) {
        let Some(index) = self.in_flight.index_of(psn) else { return };
        let frame = *self.in_flight.frame(index);
        let posted = self.queue.get_mut(frame.of);
        let is_atomic =
            matches!(posted.request, Request::FetchAdd { .. } | Request::CompareSwap { .. });
        if !is_atomic || !frame.awaits_answer || frame.state == FrameState::Arrived {
            return;
        }
        posted.value = value;
        self.answered(now, index, completions);
    }

    fn answered(&mut self, now: Moment, index: usize, completions: &mut CompletionQueue) {
        self.in_flight.frame_mut(index).awaits_answer = false;
        let mut arrived = self.arrived(now);
        if self.peer_kind == PeerKind::Standard {
            // In the standard, an answer acknowledges all requests before it.
            (0..index).for_each(|before| self.arrive(before, &mut arrived));
        }
        self.arrive(index, &mut arrived);
        self.after_arrivals(&arrived, 0);
        self.forget_arrived(now, completions);
    }

    /// Notes that the peer has done the request of a frame.
    fn arrive(&mut self, index: usize, arrived: &mut Arrived) {
        if let Some(number) = self.in_flight.arrive(index, arrived) {
            self.queue.get_mut(number).frames_left -= 1;
        }
    }

    /// Learns round trip and window from arrivals, `marked` of which met congestion.
    fn after_arrivals(&mut self, arrived: &Arrived, marked: u64) {
        // Frames sent before a silence may have been answered before it.
        let clear = |sent: &Moment| !arrived.ambiguous && self.timer.was_sent_after_silence(*sent);
        if let Some(sent) = arrived.newest_once.filter(clear) {
            self.timer.trip.sample(arrived.now.since(sent));
        }
        if arrived.frames > 0 {
            self.timer.trip.answered();
            self.budget.acknowledged(arrived, self.timer.trip.smooth(), marked);
        }
    }

    /// Makes frames due that later ones have overtaken.
    fn find_lost(&mut self) {
        let lost = self.in_flight.mark_overtaken(self.timer.trip.reordering());
        self.budget.lost(lost);
    }

    /// Makes all frames from `psn` on due again.
    fn go_back(&mut self, psn: Psn) {
        if let Some(from) = self.in_flight.index_of(psn) {
            self.in_flight.mark_due(from, |_| true);
        }
    }

    /// Takes the peer's refusal of the frame at `index`, the first one that is missing.
    fn refused(&mut self, now: Moment, index: usize, refused: Refused) {
        let Some(frame) = self.in_flight.get(index).copied() else { return };
        if frame.tries == 0 || frame.empty {
            return; // it was refused before, and the empty frame was sent
        }
        let status = match refused {
            Refused::NotReady => {
                self.timer.pause(now + NOT_READY_PAUSE);
                self.in_flight.make_due(index);
                return;
            }
            Refused::For(status) => status,
        };
        let posted = self.queue.get_mut(frame.of);
        posted.status = status;
        if status == Status::Withdrawn {
            self.withdrawn.extend(posted.remote);
        }
        // A put or a message is refused as a whole; the parts of a get are independent.
        if posted.needs_answer() {
            self.in_flight.make_empty(index, Extent::Frame);
            return;
        }
        if !posted.framed {
            posted.framed = true;
            self.queue.cut_through(frame.of);
        }
        self.in_flight.make_empty(index, Extent::Operation);
    }

    fn forget_arrived(&mut self, now: Moment, completions: &mut CompletionQueue) {
        if self.in_flight.pop_arrived() > 0 {
            self.timer.progressed((self.in_flight.len() > 0).then_some(now));
            self.complete(completions);
        }
    }
}
