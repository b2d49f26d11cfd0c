//! The side of a connection that asks: its queue of work, the frames in flight, and what happens
//! to those that do not come back.

mod answers;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::counters::ConnectionCounters;
use super::frames::WINDOW;
use super::posted::{
    FramePart, FrameState, PayloadSource, Posted, Report, Request, RequestFrame, Shape, body,
};
use super::timing::{Pacer, RoundTrip, Window};
use super::wire::Wire;
use crate::fabric::{Completion, EndpointId, Operation, Status};
use crate::port::Port;
use crate::roce::{Headers, ICRC_BYTES, Psn, Transport, pad_bytes};
use crate::{Moment, Span};

/// Gets and atomics among the frames from the first unanswered one on, at most: what a responder
/// keeps for repeating.
pub(super) const ASKED_MAX: usize = 64;
/// After a receiver was not ready, before the next try.
const NOT_READY_PAUSE: Span = Span::from_ns(500_000);
/// Frames that a strictly ordered peer is given at most before it acknowledges some.
const ORDERED_FRAMES_MAX: usize = 1024;
/// Of those, each so-manieth asks for an acknowledgement.
const ACKNOWLEDGE_EACH: u32 = 32;

/// What is told to the program.
pub(super) type CompletionQueue = VecDeque<Completion>;

pub(super) struct Requester {
    id: EndpointId,
    shape: Shape,
    /// Whether the peer acknowledges what it has beyond the first missing frame.
    selective: bool,
    posted: VecDeque<Posted>,
    /// Number of `posted[0]`, and of the first that is not all cut.
    base: u64,
    cutting: u64,
    frames: VecDeque<RequestFrame>,
    /// PSN of `frames[0]`, and of the very first frame.
    first: Psn,
    begin: Psn,
    flying_cost: u64,
    /// Frames that are due, among those cut.
    due: usize,
    /// Before this place no frame is due.
    due_from: usize,
    /// Gets and atomics among `frames`, answered or not.
    asked: usize,
    /// Answers to gets before which an earlier one is missing: gets are placed in order.
    early: Vec<(Psn, Vec<u8>)>,
    /// The latest time of sending among frames that arrived.
    newest_arrived: Moment,
    /// When silence was last taken for loss.
    silent_at: Moment,
    pause_until: Option<Moment>,
    /// The number of the last question what has come, and when it was asked, while it is open.
    question: u32,
    asked_at: Option<Moment>,
    ask_now: bool,
    /// Since when nothing came forward although frames are out.
    stalled_since: Option<Moment>,
    credit_bytes: u64,
    frame_cost: u64,
    marked_seen: u32,
    limited: bool,
    pub trip: RoundTrip,
    pub window: Window,
    pacer: Pacer,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// Imports that the peer said to be withdrawn.
    pub withdrawn: Vec<u32>,
}

/// What the peer and the program agreed on.
pub(super) struct Terms {
    pub shape: Shape,
    pub selective: bool,
    pub first: Psn,
    pub credit_bytes: u64,
    pub frame_cost: u64,
    pub bytes_per_s: u64,
}

impl Requester {
    pub fn new(id: EndpointId, terms: &Terms) -> Requester {
        Requester {
            id,
            shape: terms.shape,
            selective: terms.selective,
            posted: VecDeque::new(),
            base: 0,
            cutting: 0,
            frames: VecDeque::new(),
            first: terms.first,
            begin: terms.first,
            flying_cost: 0,
            due: 0,
            due_from: 0,
            asked: 0,
            early: Vec::new(),
            newest_arrived: Moment::default(),
            silent_at: Moment::default(),
            pause_until: None,
            question: 0,
            asked_at: None,
            ask_now: false,
            stalled_since: None,
            credit_bytes: terms.credit_bytes,
            frame_cost: terms.frame_cost,
            marked_seen: 0,
            limited: false,
            trip: RoundTrip::new(),
            window: Window::new(terms.shape.frame_bytes as u64 + terms.frame_cost),
            pacer: Pacer::new(terms.bytes_per_s),
            spare: Vec::new(),
            withdrawn: Vec::new(),
        }
    }

    /// The PSN of the first frame of all.
    pub fn begin(&self) -> Psn {
        self.begin
    }

    /// Work in the queue.
    pub fn queued(&self) -> usize {
        self.posted.len()
    }

    /// A buffer for bytes to be sent, empty.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub fn post(&mut self, posted: Posted, completions: &mut CompletionQueue) {
        self.posted.push_back(posted);
        self.complete(completions);
    }

    fn reliable(&self) -> bool {
        self.shape.transport == Transport::Reliable
    }

    // ---- sending ----

    /// Sends what may be sent, at most `budget` frames; says how many.
    pub fn pump<P: Port>(
        &mut self,
        now: Moment,
        wire: &mut Wire<'_, P>,
        budget: usize,
        completions: &mut CompletionQueue,
        counters: &mut ConnectionCounters,
    ) -> usize {
        let mut sent = 0;
        while sent < budget && self.pause_until.is_none_or(|until| until <= now) {
            if self.pacer.waits_until(now).is_some() || !self.has_frame(completions) {
                break;
            }
            let Some(place) = self.next_due() else { break };
            if !self.has_window(self.frames[place].cost) {
                self.limited = true;
                break;
            }
            if !self.send(place, now, wire, counters) {
                break;
            }
            sent += 1;
        }
        if sent > 0 && !self.reliable() {
            self.complete(completions);
        }
        sent
    }

    /// Makes sure that a frame is due, cutting one if need be.
    fn has_frame(&mut self, completions: &mut CompletionQueue) -> bool {
        if self.due > 0 {
            return true;
        }
        let most = if self.selective { WINDOW as usize - 1 } else { ORDERED_FRAMES_MAX };
        if self.frames.len() >= most {
            return false;
        }
        self.cut(completions)
    }

    /// Cuts the next frame from the queue; `false`: there is nothing, or it must wait.
    fn cut(&mut self, completions: &mut CompletionQueue) -> bool {
        loop {
            let place = (self.cutting - self.base) as usize;
            let Some(posted) = self.posted.get_mut(place) else { return false };
            match posted.request {
                Request::Fence if place > 0 => return false,
                Request::Fence | Request::Flush => {
                    posted.framed = true;
                    self.cutting += 1;
                    self.complete(completions);
                    continue;
                }
                _ => {}
            }
            let asks = posted.asks();
            if asks && self.asked >= ASKED_MAX {
                return false;
            }
            let (part, bytes) = self.shape.next_part(posted);
            let at = posted.cut;
            posted.cut += bytes;
            posted.frames_left += 1;
            if matches!(part, FramePart::Last | FramePart::Only) && posted.cut == posted.bytes {
                posted.framed = true;
                self.cutting += 1;
            }
            self.asked += usize::from(asks);
            // A question is short; its answer takes as much of this side's buffer.
            let cost = self.shape.frame_bytes.min(bytes as usize + 64) as u64 + self.frame_cost;
            let of = self.base + place as u64;
            self.frames.push_back(RequestFrame {
                of,
                at,
                bytes: bytes as u32,
                part,
                state: FrameState::Due,
                empty: false,
                question: asks,
                asks,
                tries: 0,
                sent: Moment::default(),
                cost,
            });
            self.due += 1;
            self.due_from = self.due_from.min(self.frames.len() - 1);
            return true;
        }
    }

    fn next_due(&mut self) -> Option<usize> {
        let place = (self.due_from..self.frames.len())
            .find(|&place| self.frames[place].state == FrameState::Due)?;
        self.due_from = place;
        Some(place)
    }

    fn has_window(&self, cost: u64) -> bool {
        let limit = self.credit_bytes.min(self.window.bytes());
        self.flying_cost == 0 || self.flying_cost + cost <= limit
    }

    fn send<P: Port>(
        &mut self,
        place: usize,
        now: Moment,
        wire: &mut Wire<'_, P>,
        counters: &mut ConnectionCounters,
    ) -> bool {
        let frame = self.frames[place];
        let posted = &self.posted[(frame.of - self.base) as usize];
        let psn = self.first.plus(place as u32);
        let body = body(self.shape.transport, posted, &frame);
        let mut headers = Headers::new(wire.to, psn, body);
        let ends = matches!(frame.part, FramePart::Last | FramePart::Only);
        // The last that the window takes, too: nothing else may follow that asks.
        headers.acknowledge_request = self.reliable()
            && (ends
                || psn.get().is_multiple_of(ACKNOWLEDGE_EACH)
                || self.flying_cost + 2 * frame.cost > self.window.bytes());
        let payload_bytes = match posted.request {
            Request::Put { .. } | Request::Send { .. } if !frame.empty => frame.bytes as usize,
            _ => 0,
        };
        let sent = wire.packet(&headers, payload_bytes, |into| match &posted.request {
            Request::Put { from, .. } | Request::Send { from } if !frame.empty => {
                from.copy(frame.at, into)
            }
            _ => {}
        });
        if !sent {
            return false;
        }
        let padded_bytes = payload_bytes + pad_bytes(payload_bytes);
        let bytes = (headers.bytes() + padded_bytes + ICRC_BYTES) as u64;
        self.pacer.sent(now, bytes);
        counters.frames_sent += 1;
        counters.payload_sent += payload_bytes as u64;
        counters.frames_repeated += u64::from(frame.tries > 0);
        self.due -= 1;
        if self.reliable() {
            self.took_off(place, now);
        } else {
            self.forget_first();
        }
        true
    }

    fn took_off(&mut self, place: usize, now: Moment) {
        let frame = &mut self.frames[place];
        frame.state = FrameState::Flying;
        frame.tries += 1;
        frame.sent = now;
        self.flying_cost += frame.cost;
        self.due_from = place + 1;
        self.stalled_since.get_or_insert(now);
    }

    /// Unreliable: sent is done.
    fn forget_first(&mut self) {
        if let Some(frame) = self.frames.pop_front() {
            self.posted[(frame.of - self.base) as usize].frames_left -= 1;
            self.first = self.first.plus(1);
            self.due_from = 0;
        }
    }

    // ---- the end of work ----

    /// Tells of the work at the front of the queue that is done.
    fn complete(&mut self, completions: &mut CompletionQueue) {
        while let Some(front) = self.posted.front() {
            let waits = matches!(front.request, Request::Fence | Request::Flush);
            if front.frames_left > 0 || (!front.framed && !waits) {
                return;
            }
            let Some(posted) = self.posted.pop_front() else { return };
            self.base += 1;
            self.cutting = self.cutting.max(self.base);
            self.report(&posted, posted.status, completions);
            self.keep_buffer(posted);
        }
    }

    fn report(&self, posted: &Posted, status: Status, completions: &mut CompletionQueue) {
        let wanted = match posted.report {
            Report::Already => false,
            Report::End => true,
            Report::Failure => status != Status::Done,
        };
        if wanted {
            let value = if status == Status::Done { posted.value } else { 0 };
            let (endpoint, tag, operation) = (self.id, posted.tag, posted.operation());
            completions.push_back(Completion::Done { endpoint, tag, operation, status, value });
        }
    }

    fn keep_buffer(&mut self, posted: Posted) {
        if let Request::Put { from: PayloadSource::Bytes(mut bytes), .. }
        | Request::Send { from: PayloadSource::Bytes(mut bytes) } = posted.request
            && self.spare.len() < ASKED_MAX
        {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// The connection is over: all that waits is flushed.
    pub fn flush(&mut self, completions: &mut CompletionQueue) {
        while let Some(posted) = self.posted.pop_front() {
            let report = posted.report;
            let flushed = Posted {
                report: if report == Report::Already { report } else { Report::End },
                ..posted
            };
            self.report(&flushed, Status::Flushed, completions);
        }
        self.frames.clear();
        self.early.clear();
        (self.due, self.due_from, self.asked, self.flying_cost) = (0, 0, 0, 0);
    }

    // ---- time ----

    /// This side did not poll for so long: nothing could come forward.
    pub fn was_absent(&mut self, absent: Span, now: Moment) {
        self.stalled_since = self.stalled_since.map(|since| (since + absent).min(now));
    }

    /// Takes silence for loss. `Err`: nothing came forward for `patience`; the connection is over.
    pub fn on_time(&mut self, now: Moment, patience: Span) -> Result<(), Status> {
        if self.pause_until.is_some_and(|until| until <= now) {
            self.pause_until = None;
        }
        if self.stalled_since.is_some_and(|since| now.since(since) > patience) {
            return Err(Status::Transport);
        }
        if self.timeout_at().is_some_and(|at| at <= now) {
            self.trip.timed_out();
            self.silent_at = now;
            self.break_silence(now);
        }
        Ok(())
    }

    /// Silence may mean that the peer does not run now, or that all in flight is lost. A Fluxline
    /// peer is asked; what it has not got when the question comes, which comes last, is lost. So
    /// nothing is sent twice to a receiver that has not looked yet. Others know no questions.
    fn break_silence(&mut self, now: Moment) {
        if self.selective {
            self.ask_now = true;
            return;
        }
        let trip = self.trip.smooth();
        self.mark_due(|frame| frame.sent + trip <= now);
        self.window.timed_out();
    }

    /// Whether the peer is to be asked what has come.
    pub fn wants_to_ask(&self) -> bool {
        self.ask_now
    }

    /// The number of a question that is asked now.
    pub fn ask(&mut self, now: Moment) -> u32 {
        self.question = self.question.wrapping_add(1).max(1);
        (self.asked_at, self.ask_now) = (Some(now), false);
        self.question
    }

    fn timeout_at(&self) -> Option<Moment> {
        // Those before it are due and may wait for the window that it fills.
        let oldest = self.frames.iter().find(|frame| is_unanswered(frame))?;
        let since = self.asked_at.map_or(oldest.sent, |asked| asked.max(oldest.sent));
        (!self.ask_now).then(|| since + self.trip.timeout())
    }

    /// When there is something to do although nothing arrives.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let paced = (self.due > 0 || self.cutting < self.base + self.posted.len() as u64)
            .then(|| self.pacer.waits_until(now))
            .flatten();
        [self.timeout_at(), self.pause_until, paced].into_iter().flatten().min()
    }

    /// Frames that were sent and have not arrived.
    pub fn in_flight(&self) -> usize {
        self.frames.iter().filter(|frame| frame.state == FrameState::Flying).count()
    }

    /// A frame with all headers \[byte\].
    pub fn frame_bytes(&self) -> usize {
        self.shape.frame_bytes
    }

    /// Frames are shorter from now on; nothing that was sent can have reached the peer, so that all
    /// is cut anew.
    pub fn shorten(&mut self, frame_bytes: usize) {
        self.shape.frame_bytes = frame_bytes;
        for posted in &mut self.posted {
            (posted.cut, posted.framed, posted.frames_left) = (0, false, 0);
        }
        self.frames.clear();
        self.cutting = self.base;
        (self.due, self.due_from, self.asked, self.flying_cost) = (0, 0, 0, 0);
    }

    /// How much of an answer goes into one frame \[byte\].
    pub fn answer_bytes(&self) -> u64 {
        self.shape.answer_bytes() as u64
    }

    /// Whether an operation of this kind is possible on this connection.
    pub fn allows(&self, operation: Operation) -> bool {
        let asks =
            [Operation::Get, Operation::FetchAdd, Operation::CompareSwap].contains(&operation);
        self.reliable() || !asks
    }
}

/// Whether silence about a frame is to be broken: also about one that was kept, and may be done
/// since.
fn is_unanswered(frame: &RequestFrame) -> bool {
    matches!(frame.state, FrameState::Flying | FrameState::Held)
}
