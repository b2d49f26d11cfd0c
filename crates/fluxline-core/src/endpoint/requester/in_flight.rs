//! The frames of a requester that are not done yet, in order of their PSN.
//!
//! A frame is due, flies, and arrives; one that is lost becomes due again.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::super::posted::{FrameState, RequestFrame};
use crate::roce::Psn;
use crate::{Moment, Span};

/// Frames by index, the oldest first; the PSN of an index is `first` plus the index.
pub(super) struct InFlight {
    frames: VecDeque<RequestFrame>,
    /// PSN of `frames[0]`.
    first: Psn,
    /// Receive buffer that flying frames occupy at the peer \[byte\].
    flying_cost: u64,
    due: usize,
    /// No frame before this index is due.
    due_from: usize,
    /// Gets and atomics among the frames, answered or not.
    reads: usize,
    /// The latest time of sending among frames that arrived.
    newest_arrived: Moment,
}

impl InFlight {
    pub fn new(first: Psn) -> InFlight {
        InFlight {
            frames: VecDeque::new(),
            first,
            flying_cost: 0,
            due: 0,
            due_from: 0,
            reads: 0,
            newest_arrived: Moment::default(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub fn first(&self) -> Psn {
        self.first
    }

    #[inline]
    pub fn flying_cost(&self) -> u64 {
        self.flying_cost
    }

    pub fn reads(&self) -> usize {
        self.reads
    }

    #[inline]
    pub fn has_due(&self) -> bool {
        self.due > 0
    }

    pub fn get(&self, index: usize) -> Option<&RequestFrame> {
        self.frames.get(index)
    }

    /// Returns the frame at an index below [`InFlight::len`].
    #[inline]
    pub fn frame(&self, index: usize) -> &RequestFrame {
        &self.frames[index]
    }

    #[inline]
    pub fn frame_mut(&mut self, index: usize) -> &mut RequestFrame {
        &mut self.frames[index]
    }

    #[inline]
    pub fn psn(&self, index: usize) -> Psn {
        self.first.plus(index as u32)
    }

    /// Returns the index of the frame with this PSN, if it has been sent and is still in flight.
    pub fn index_of(&self, psn: Psn) -> Option<usize> {
        let index = usize::try_from(psn.distance_from(self.first)).ok()?;
        self.frames.get(index).filter(|frame| frame.tries > 0).map(|_| index)
    }

    pub fn iter(&self) -> impl Iterator<Item = &RequestFrame> {
        self.frames.iter()
    }

    /// Adds a new frame, which is due.
    #[inline]
    pub fn push(&mut self, frame: RequestFrame) {
        self.reads += usize::from(frame.needs_answer);
        self.frames.push_back(frame);
        self.due += 1;
        self.due_from = self.due_from.min(self.frames.len() - 1);
    }

    /// Adds frames like this one that were sent, one behind the other, while no frame is due.
    pub fn push_flying(&mut self, first: &RequestFrame, frames: usize) {
        let bytes = u64::from(first.bytes);
        self.frames.extend(
            (0..frames as u64).map(|at| RequestFrame { at: first.at + at * bytes, ..*first }),
        );
        self.flying_cost += first.cost * frames as u64;
        self.due_from = self.frames.len();
    }

    /// Counts on the PSN by frames that were sent on an unreliable connection, while no other frame
    /// is here.
    pub fn skip(&mut self, frames: usize) {
        self.first = self.first.plus(frames as u32);
    }

    pub fn clear(&mut self) {
        self.frames.clear();
        (self.due, self.due_from, self.reads, self.flying_cost) = (0, 0, 0, 0);
    }

    // ---- sending ----

    /// Returns the index of the first frame that is due.
    #[inline]
    pub fn next_due(&mut self) -> Option<usize> {
        let index = (self.due_from..self.frames.len())
            .find(|&index| self.frames[index].state == FrameState::Due)?;
        self.due_from = index;
        Some(index)
    }

    /// Notes that the due frame at `index` was sent.
    #[inline]
    pub fn sent(&mut self, index: usize, now: Moment) {
        let frame = &mut self.frames[index];
        frame.state = FrameState::Flying;
        frame.tries += 1;
        frame.sent = now;
        self.flying_cost += frame.cost;
        self.due -= 1;
        self.due_from = index + 1;
    }

    /// Removes the first frame, which is done once it is sent on an unreliable connection; returns
    /// its operation.
    pub fn sent_unreliably(&mut self) -> Option<u64> {
        let frame = self.frames.pop_front()?;
        self.due -= 1;
        self.first = self.first.plus(1);
        self.due_from = 0;
        Some(frame.of)
    }

    // ---- arrivals ----

    /// Notes that the peer has done the request of a frame; returns its operation, unless that was
    /// known.
    pub fn arrive(&mut self, index: usize, arrived: &mut Arrived) -> Option<u64> {
        let frame = self.frames.get(index)?;
        let waits = frame.awaits_answer && !frame.empty;
        if frame.state == FrameState::Arrived || frame.tries == 0 || waits {
            return None;
        }
        let of = frame.of;
        self.reached(index, arrived);
        self.frames[index].state = FrameState::Arrived;
        Some(of)
    }

    /// Notes that the peer keeps a frame until the missing ones before it have come.
    pub fn hold(&mut self, index: usize, arrived: &mut Arrived) {
        let Some(frame) = self.frames.get(index) else { return };
        let is_out = matches!(frame.state, FrameState::Flying | FrameState::Due);
        if is_out && frame.tries > 0 && (!frame.awaits_answer || frame.empty) {
            self.reached(index, arrived);
            self.frames[index].state = FrameState::Held;
        }
    }

    /// Notes an answer to a get that came before the answer to an earlier get.
    pub fn answered_early(&mut self, index: usize) {
        self.land(index);
        self.frames[index].state = FrameState::Early;
    }

    /// Notes that a frame came through the network.
    fn reached(&mut self, index: usize, arrived: &mut Arrived) {
        let frame = self.frames[index];
        self.land(index);
        if frame.state == FrameState::Held {
            return; // noted before
        }
        arrived.frames += 1;
        arrived.bytes += frame.cost;
        match frame.tries {
            1 if frame.state != FrameState::Early => {
                arrived.newest_once = arrived.newest_once.max(Some(frame.sent));
            }
            // It is unknown which try was answered, or how long the answer waited.
            _ => arrived.ambiguous = true,
        }
        // A repeated frame may have arrived at its first try, unless a round trip has passed.
        if frame.tries == 1 || arrived.now.since(frame.sent) >= arrived.half_trip {
            self.newest_arrived = self.newest_arrived.max(frame.sent);
        }
    }

    /// Notes that a frame is neither in flight nor due any more.
    fn land(&mut self, index: usize) {
        match self.frames[index].state {
            FrameState::Flying => self.flying_cost -= self.frames[index].cost,
            FrameState::Due => self.due -= 1,
            FrameState::Early | FrameState::Held | FrameState::Arrived => {}
        }
    }

    /// Removes the oldest frames that have arrived; returns how many.
    pub fn pop_arrived(&mut self) -> u32 {
        let mut count = 0;
        while let Some(front) = self.frames.front().filter(|of| of.state == FrameState::Arrived) {
            self.reads -= usize::from(front.needs_answer);
            self.frames.pop_front();
            count += 1;
        }
        if count > 0 {
            self.first = self.first.plus(count);
            self.due_from = self.due_from.saturating_sub(count as usize);
        }
        count
    }

    // ---- loss ----

    /// Makes frames due that were sent well before one that arrived; returns how many.
    /// Source: RFC 8985 (RACK).
    pub fn mark_overtaken(&mut self, reordering: Span) -> u64 {
        let before = self.newest_arrived - reordering;
        // Frames behind one that was sent once were sent later, or again.
        let is_later = |frame: &RequestFrame| frame.tries == 1 && frame.sent >= before;
        let end = self.frames.iter().position(is_later).unwrap_or(self.frames.len());
        self.mark_due_within(0..end, |frame| frame.sent < before)
    }

    /// Makes those flying frames from index `from` on due that `is_lost` accepts; returns how many.
    pub fn mark_due(&mut self, from: usize, is_lost: impl Fn(&RequestFrame) -> bool) -> u64 {
        self.mark_due_within(from.min(self.frames.len())..self.frames.len(), is_lost)
    }

    fn mark_due_within(
        &mut self,
        range: Range<usize>,
        is_lost: impl Fn(&RequestFrame) -> bool,
    ) -> u64 {
        let mut count = 0;
        let from = range.start;
        for (index, frame) in (from..).zip(self.frames.range_mut(range)) {
            if frame.state == FrameState::Flying && is_lost(frame) {
                frame.state = FrameState::Due;
                self.flying_cost -= frame.cost;
                self.due_from = self.due_from.min(index);
                count += 1;
            }
        }
        self.due += count;
        count as u64
    }

    pub fn make_due(&mut self, index: usize) {
        if matches!(self.frames[index].state, FrameState::Flying | FrameState::Held) {
            self.land(index);
            self.frames[index].state = FrameState::Due;
            self.due += 1;
        }
        self.due_from = self.due_from.min(index);
    }

    /// Makes a refused frame empty and due again; `extent` says whether the rest of its operation
    /// becomes empty, too.
    pub fn make_empty(&mut self, index: usize, extent: Extent) {
        let of = self.frames[index].of;
        let count = match extent {
            Extent::Frame => 1,
            Extent::Operation => self.frames.len() - index,
        };
        for frame in self.frames.iter_mut().skip(index).take(count) {
            if frame.of != of {
                break;
            }
            frame.empty = true;
            frame.awaits_answer = false;
        }
        self.make_due(index);
    }
}

/// The frames that a refusal affects.
pub(super) enum Extent {
    /// The frame alone.
    Frame,
    /// All frames of its operation from this one on.
    Operation,
}

/// The arrivals that one acknowledgement reports.
pub(super) struct Arrived {
    pub now: Moment,
    half_trip: Span,
    pub frames: u64,
    pub bytes: u64,
    /// Some frames were sent more than once. Source: Karn's algorithm (SIGCOMM 1987).
    pub ambiguous: bool,
    /// The latest time of sending among frames that were sent once.
    pub newest_once: Option<Moment>,
}

impl Arrived {
    pub fn new(now: Moment, round_trip: Span) -> Arrived {
        let half_trip = Span::from_ns(round_trip.as_ns() / 2);
        Arrived { now, half_trip, frames: 0, bytes: 0, ambiguous: false, newest_once: None }
    }
}
