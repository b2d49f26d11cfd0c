//! The frames between the first and the last one of a long operation: equal in length, so they are
//! made and noted together.

use super::super::counters::ConnectionCounters;
use super::super::posted::{FrameState, NextPart, Request, RequestFrame, body};
use super::super::wire::{PayloadTrain, Wire};
use super::Requester;
use super::asking::{FrameToSend, PositionInWork};
use crate::Moment;
use crate::port::Port;
use crate::roce::{HeaderTemplate, Headers, ICRC_BYTES, pad_bytes};

/// Fewer frames than these are sent one by one.
const FRAMES_MIN: usize = 2;

/// The next frames of an operation, all equal.
struct Run {
    /// The first frame, as if it was sent.
    frame: RequestFrame,
    frames: usize,
}

impl Requester {
    /// Sends the next equal frames of the first operation that is not cut, if there are some, at
    /// most `frames_max`; returns how many. The caller has found that no frame is due.
    pub(super) fn send_run<P: Port>(
        &mut self,
        now: Moment,
        wire: &mut Wire<'_, P>,
        frames_max: usize,
        counters: &mut ConnectionCounters,
    ) -> usize {
        let Some(run) = self.next_run(now, frames_max) else { return 0 };
        let posted = self.queue.get(run.frame.of);
        let (Request::Put { from, .. } | Request::Send { from }) = &posted.request else {
            return 0;
        };
        let first = self.in_flight.psn(self.in_flight.len());
        let body = body(self.shape.transport, posted, &run.frame);
        let payload_bytes = run.frame.bytes as usize;
        let template = HeaderTemplate::new(&Headers::new(wire.to(), first, body), payload_bytes);
        let header_bytes = template.bytes();
        let train = PayloadTrain {
            template,
            first,
            source: from,
            at: run.frame.at,
            payload_bytes,
            frames: run.frames,
        };
        let mut next = FrameToSend {
            psn: first,
            position: PositionInWork::Inside,
            cost: run.frame.cost,
            flying_cost: self.in_flight.flying_cost(),
            is_repeated: false,
        };
        let (reliable, asking, budget) = (self.reliable(), &mut self.asking, &self.budget);
        let sent = wire.train(&train, |psn| {
            let asks = reliable && asking.asks(budget, &FrameToSend { psn, ..next });
            next.flying_cost += next.cost;
            asks
        });
        if sent == 0 {
            return 0;
        }
        let frame_bytes = header_bytes + payload_bytes + pad_bytes(payload_bytes) + ICRC_BYTES;
        self.budget.sent(now, (frame_bytes * sent) as u64);
        counters.frames_sent += sent as u64;
        counters.payload_sent += (payload_bytes * sent) as u64;
        self.note_run(&run.frame, sent, now);
        sent
    }

    /// Returns the next equal frames that credit, window and rate admit, without cutting them.
    fn next_run(&mut self, now: Moment, frames_max: usize) -> Option<Run> {
        if self.budget.is_paced() {
            return None;
        }
        let number = self.queue.first_uncut()?;
        let posted = self.queue.get(number);
        if posted.bytes - posted.cut <= self.shape.frame_bytes as u64 {
            return None; // one frame, or two of which the last is different
        }
        if !matches!(posted.request, Request::Put { .. } | Request::Send { .. }) {
            return None;
        }
        let NextPart { part, bytes, alike } = self.shape.next_part(posted);
        let frame = RequestFrame {
            of: number,
            at: posted.cut,
            bytes: bytes as u32,
            part,
            state: FrameState::Flying,
            empty: false,
            needs_answer: false,
            awaits_answer: false,
            tries: 1,
            sent: now,
            cost: self.budget.cost(self.shape.frame_bytes, bytes),
        };
        let mut frames = frames_max
            .min(usize::try_from(alike).unwrap_or(usize::MAX))
            .min(self.frames_in_flight_max().saturating_sub(self.in_flight.len()));
        if self.reliable() {
            frames = frames.min(self.budget.room(self.in_flight.flying_cost(), frame.cost));
        }
        (frames >= FRAMES_MIN).then_some(Run { frame, frames })
    }

    /// Notes that equal frames were cut and sent.
    fn note_run(&mut self, first: &RequestFrame, frames: usize, now: Moment) {
        let reliable = self.reliable();
        let posted = self.queue.get_mut(first.of);
        posted.cut += u64::from(first.bytes) * frames as u64;
        if posted.cut == posted.bytes {
            posted.framed = true;
            self.queue.cut_through(first.of);
        }
        if reliable {
            self.queue.get_mut(first.of).frames_left += frames as u32;
            self.in_flight.push_flying(first, frames);
            self.timer.frame_sent(now);
        } else {
            self.in_flight.skip(frames);
        }
    }
}
