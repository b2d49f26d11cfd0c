//! What comes back to a requester, and what that says of the frames in flight.

use super::super::frames::{Refused, Selective};
use super::super::posted::{FrameState, Request, RequestFrame};
use super::{CompletionQueue, NOT_READY_PAUSE, Requester};
use crate::fabric::Status;
use crate::roce::{NakCode, Psn};
use crate::{Moment, Span};

impl Requester {
    /// The place of the frame with this PSN, if it has been sent and not forgotten.
    fn place_of(&self, psn: Psn) -> Option<usize> {
        let place = usize::try_from(psn.distance_from(self.first)).ok()?;
        self.frames.get(place).filter(|frame| frame.tries > 0).map(|_| place)
    }

    /// An acknowledgement that names what is missing.
    pub fn selective(
        &mut self,
        now: Moment,
        ack: &Selective<'_>,
        completions: &mut CompletionQueue,
    ) {
        let ahead = ack.expected.distance_from(self.first);
        if ahead < 0 {
            return; // overtaken by a later one
        }
        let expected = ahead as usize;
        if expected > self.frames.len() {
            return; // acknowledges what was never sent
        }
        self.credit_bytes = ack.credit_bytes;
        let mut arrived = Arrived::at(now);
        for place in 0..expected {
            self.arrive(place, &mut arrived);
        }
        let bits = ack.held.iter().enumerate().flat_map(|(byte, &bits)| {
            (0..8).filter(move |bit| bits & 1 << bit != 0).map(move |bit| byte * 8 + bit)
        });
        for bit in bits {
            self.hold(expected + 1 + bit, &mut arrived);
        }
        // Less than before: overtaken by a later one.
        let marked = (ack.marked.wrapping_sub(self.marked_seen) as i32).max(0) as u32;
        self.marked_seen = self.marked_seen.wrapping_add(marked);
        let holes = !ack.held.is_empty() || self.asked > 0;
        self.after_arrivals(now, &arrived, u64::from(marked), holes);
        if ack.answer == self.question
            && let Some(asked_at) = self.asked_at.take()
        {
            self.trip.answered();
            // Those of the same moment may have been sent behind the question.
            let lost = self.mark_due(|frame| frame.sent < asked_at);
            self.window.lost(lost);
        }
        if let Some(refused) = ack.refused {
            self.refused(now, expected, refused);
        }
        let kept = self.frames.get(expected).is_some_and(|frame| frame.state == FrameState::Held);
        if kept && ack.refused != Some(Refused::NotReady) {
            self.make_due(expected); // it was its turn, and it is not there any more
        }
        self.forget_arrived(now, completions);
    }

    /// An acknowledgement of the standard: all before and up to `psn` came.
    pub fn acknowledged(&mut self, now: Moment, psn: Psn, completions: &mut CompletionQueue) {
        let Some(last) = self.place_of(psn) else { return };
        let mut arrived = Arrived::at(now);
        for place in 0..=last {
            self.arrive(place, &mut arrived);
        }
        self.after_arrivals(now, &arrived, 0, false);
        self.forget_arrived(now, completions);
    }

    /// A refusal of the standard, of the request `psn`. `Err`: the connection is over.
    pub fn nak(
        &mut self,
        now: Moment,
        psn: Psn,
        code: NakCode,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        self.acknowledged(now, psn.minus(1), completions);
        if self.place_of(psn).is_none() {
            return Ok(()); // late, or of nothing that was asked
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

    /// The receiver had no buffer for `psn` and wants to be asked again later.
    pub fn not_ready(
        &mut self,
        now: Moment,
        psn: Psn,
        pause: Span,
        completions: &mut CompletionQueue,
    ) {
        self.acknowledged(now, psn.minus(1), completions);
        self.go_back(psn);
        self.pause_until = Some(now + pause);
        self.stalled_since = None;
    }

    /// The answer to a get. Of the wrong length: not taken, and asked again.
    pub fn read_answered(
        &mut self,
        now: Moment,
        psn: Psn,
        bytes: &[u8],
        completions: &mut CompletionQueue,
    ) {
        let Some(place) = self.place_of(psn) else { return };
        let frame = self.frames[place];
        let wanted = self.is_get(&frame) && frame.asks && frame.state != FrameState::Arrived;
        if !wanted || bytes.len() != frame.bytes as usize {
            return;
        }
        if self.first_get() != Some(place) {
            if frame.state != FrameState::Early {
                self.early.push((psn, bytes.to_vec()));
                self.land(place);
                self.frames[place].state = FrameState::Early;
            }
            return;
        }
        self.place_answer(now, place, bytes, completions);
        while let Some(next) = self.first_get() {
            let psn = self.first.plus(next as u32);
            let Some(held) = self.early.iter().position(|(of, _)| *of == psn) else { return };
            let (_, bytes) = self.early.swap_remove(held);
            self.place_answer(now, next, &bytes, completions);
        }
    }

    fn is_get(&self, frame: &RequestFrame) -> bool {
        matches!(self.posted[(frame.of - self.base) as usize].request, Request::Get { .. })
    }

    /// The place of the first get that waits for its answer.
    fn first_get(&self) -> Option<usize> {
        self.frames.iter().position(|frame| frame.asks && self.is_get(frame))
    }

    fn place_answer(
        &mut self,
        now: Moment,
        place: usize,
        bytes: &[u8],
        completions: &mut CompletionQueue,
    ) {
        let frame = self.frames[place];
        let posted = &self.posted[(frame.of - self.base) as usize];
        let Request::Get { into: (memory, offset), .. } = &posted.request else { return };
        // The memory was checked when the get was posted, and does not shrink.
        let _ = memory.write(offset + frame.at, bytes);
        self.answered(now, place, completions);
    }

    /// The answer to an atomic.
    pub fn atomic_answered(
        &mut self,
        now: Moment,
        psn: Psn,
        value: u64,
        completions: &mut CompletionQueue,
    ) {
        let Some(place) = self.place_of(psn) else { return };
        let frame = self.frames[place];
        let posted = &mut self.posted[(frame.of - self.base) as usize];
        let atomic =
            matches!(posted.request, Request::FetchAdd { .. } | Request::CompareSwap { .. });
        if !atomic || !frame.asks || frame.state == FrameState::Arrived {
            return;
        }
        posted.value = value;
        self.answered(now, place, completions);
    }

    fn answered(&mut self, now: Moment, place: usize, completions: &mut CompletionQueue) {
        self.frames[place].asks = false;
        let mut arrived = Arrived::at(now);
        if !self.selective {
            // The standard: an answer acknowledges all requests before it.
            (0..place).for_each(|before| self.arrive(before, &mut arrived));
        }
        self.arrive(place, &mut arrived);
        self.after_arrivals(now, &arrived, 0, false);
        self.forget_arrived(now, completions);
    }

    /// The peer has done what the frame says.
    fn arrive(&mut self, place: usize, arrived: &mut Arrived) {
        let Some(frame) = self.frames.get(place) else { return };
        if frame.state == FrameState::Arrived || frame.tries == 0 || (frame.asks && !frame.empty) {
            return;
        }
        let of = frame.of;
        self.reached(place, arrived);
        self.frames[place].state = FrameState::Arrived;
        self.posted[(of - self.base) as usize].frames_left -= 1;
    }

    /// The peer keeps the frame until what is missing before it has come.
    fn hold(&mut self, place: usize, arrived: &mut Arrived) {
        let Some(frame) = self.frames.get(place) else { return };
        let out = matches!(frame.state, FrameState::Flying | FrameState::Due);
        if out && frame.tries > 0 && (!frame.asks || frame.empty) {
            self.reached(place, arrived);
            self.frames[place].state = FrameState::Held;
        }
    }

    /// The frame came through the network: what that says of it.
    fn reached(&mut self, place: usize, arrived: &mut Arrived) {
        let frame = self.frames[place];
        self.land(place);
        if matches!(frame.state, FrameState::Held) {
            return; // said before
        }
        arrived.frames += 1;
        arrived.bytes += frame.cost;
        match frame.tries {
            1 if frame.state != FrameState::Early => {
                arrived.newest_once = arrived.newest_once.max(Some(frame.sent));
            }
            // Who knows which of them was answered, or what it waited for.
            _ => arrived.ambiguous = true,
        }
        // Sent again, it may be the first that arrived: unless there was the time for a round trip.
        let half_trip = Span::from_ns(self.trip.smooth().as_ns() / 2);
        if frame.tries == 1 || arrived.now.since(frame.sent) >= half_trip {
            self.newest_arrived = self.newest_arrived.max(frame.sent);
        }
    }

    /// A frame is neither in flight nor due any more.
    fn land(&mut self, place: usize) {
        match self.frames[place].state {
            FrameState::Flying => self.flying_cost -= self.frames[place].cost,
            FrameState::Due => self.due -= 1,
            FrameState::Early | FrameState::Held | FrameState::Arrived => {}
        }
    }

    fn after_arrivals(&mut self, now: Moment, arrived: &Arrived, marked: u64, holes: bool) {
        // What was sent before a silence may have been answered before it.
        let clear = |sent: &Moment| !arrived.ambiguous && *sent > self.silent_at;
        if let Some(sent) = arrived.newest_once.filter(clear) {
            self.trip.sample(now.since(sent));
        }
        if arrived.frames > 0 {
            self.trip.answered();
            let counts = (arrived.frames, arrived.bytes, marked);
            self.window.acknowledged((now, self.trip.smooth()), counts, self.limited);
            self.limited = false;
        }
        if self.selective && holes {
            self.find_lost();
        }
    }

    /// What was sent well before something that arrived is lost. PayloadSource: RFC 8985 (RACK).
    fn find_lost(&mut self) {
        let before = self.newest_arrived - self.trip.reordering();
        let lost = self.mark_due(|frame| frame.sent < before);
        self.window.lost(lost);
    }

    /// Frames in flight that `which` accepts are to be sent again; says how many.
    pub(super) fn mark_due(&mut self, which: impl Fn(&RequestFrame) -> bool) -> u64 {
        self.mark_due_from(0, which)
    }

    fn mark_due_from(&mut self, from: usize, which: impl Fn(&RequestFrame) -> bool) -> u64 {
        let mut count = 0;
        for (place, frame) in self.frames.iter_mut().enumerate().skip(from) {
            if frame.state == FrameState::Flying && which(frame) {
                frame.state = FrameState::Due;
                self.flying_cost -= frame.cost;
                self.due_from = self.due_from.min(place);
                count += 1;
            }
        }
        self.due += count;
        count as u64
    }

    /// Everything from `psn` on is sent again.
    fn go_back(&mut self, psn: Psn) {
        if let Some(from) = self.place_of(psn) {
            self.mark_due_from(from, |_| true);
        }
    }

    /// The peer refuses the frame at `place`, the first that it misses.
    fn refused(&mut self, now: Moment, place: usize, refused: Refused) {
        let Some(frame) = self.frames.get(place).copied() else { return };
        if frame.tries == 0 || frame.empty {
            return; // told before; what takes its place is on its way
        }
        let status = match refused {
            Refused::NotReady => {
                self.pause_until = Some(now + NOT_READY_PAUSE);
                self.stalled_since = None;
                self.make_due(place);
                return;
            }
            Refused::For(status) => status,
        };
        let number = (frame.of - self.base) as usize;
        let posted = &mut self.posted[number];
        posted.status = status;
        if status == Status::Withdrawn {
            self.withdrawn.extend(posted.remote);
        }
        // The parts of a put or message stand or fall together; those of a get are on their own.
        let alone = posted.asks();
        if !alone && !posted.framed {
            posted.framed = true;
            self.cutting = self.cutting.max(frame.of + 1);
        }
        for at in place..self.frames.len() {
            if self.frames[at].of != frame.of || (alone && at > place) {
                break;
            }
            let part = &mut self.frames[at];
            part.empty = true;
            part.asks = false;
        }
        self.make_due(place);
    }

    pub(super) fn make_due(&mut self, place: usize) {
        if matches!(self.frames[place].state, FrameState::Flying | FrameState::Held) {
            self.land(place);
            self.frames[place].state = FrameState::Due;
            self.due += 1;
        }
        self.due_from = self.due_from.min(place);
    }

    fn forget_arrived(&mut self, now: Moment, completions: &mut CompletionQueue) {
        let mut came = 0;
        while let Some(front) = self.frames.front().filter(|of| of.state == FrameState::Arrived) {
            self.asked -= usize::from(front.question);
            self.frames.pop_front();
            came += 1;
        }
        if came > 0 {
            self.first = self.first.plus(came);
            self.due_from = self.due_from.saturating_sub(came as usize);
            self.stalled_since = (!self.frames.is_empty()).then_some(now);
            self.complete(completions);
        }
    }
}

/// What one acknowledgement brought.
#[derive(Default)]
struct Arrived {
    now: Moment,
    frames: u64,
    bytes: u64,
    /// Some of them were sent more than once. PayloadSource: Karn's algorithm (SIGCOMM 1987).
    ambiguous: bool,
    /// The latest time of sending among those that were sent once.
    newest_once: Option<Moment>,
}

impl Arrived {
    fn at(now: Moment) -> Arrived {
        Arrived { now, ..Arrived::default() }
    }
}
