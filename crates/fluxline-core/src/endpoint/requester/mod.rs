//! The side of a connection that sends requests: its queue of work, the frames in flight, and the
//! repetition of lost ones.
//!
//! ```text
//! post -> SendQueue -> cut -> InFlight -> pump -> port
//!                                ^ acknowledgements (answers.rs), silence (RetryTimer)
//! ```

mod answers;
mod asking;
mod budget;
mod in_flight;
mod queue;
mod timer;
mod train;

use alloc::vec::Vec;

use self::asking::{Asking, FrameToSend};
use self::budget::Budget;
use self::in_flight::{Arrived, InFlight};
use self::queue::SendQueue;
use self::timer::RetryTimer;
use super::context::CompletionQueue;
use super::counters::ConnectionCounters;
use super::frames::WINDOW;
use super::peer::PeerKind;
use super::posted::{
    FramePart, FrameState, NextPart, Posted, Report, Request, RequestFrame, Shape, Terms, body,
};
use super::wire::Wire;
use crate::fabric::{Completion, EndpointId, Operation, RemoteId, Status};
use crate::port::Port;
use crate::roce::{Headers, ICRC_BYTES, Psn, Transport, pad_bytes};
use crate::{Moment, Span};

/// Gets and atomics among the frames from the first unanswered one on, at most: as many answers as
/// a responder keeps for repeating.
pub(super) const READS_MAX: usize = 64;
/// The pause before the next try when the receiver was not ready.
const NOT_READY_PAUSE: Span = Span::from_ns(500_000);
/// The most frames in flight to a peer of the standard.
const ORDERED_FRAMES_MAX: usize = 1024;

/// Sends the requests of one connection.
pub(super) struct Requester {
    id: EndpointId,
    shape: Shape,
    /// A Fluxline peer acknowledges frames beyond the first missing one, and can be asked.
    peer_kind: PeerKind,
    /// PSN of the very first frame.
    begin: Psn,
    queue: SendQueue,
    in_flight: InFlight,
    /// Answers to gets that came before the answer to an earlier get. Gets are placed in order.
    early: Vec<(Psn, Vec<u8>)>,
    timer: RetryTimer,
    budget: Budget,
    asking: Asking,
    /// Imports that the peer reported as withdrawn.
    pub withdrawn: Vec<RemoteId>,
    /// Reads and atomics in flight at most: the peer may take fewer than [`READS_MAX`].
    pub reads_max: usize,
}

impl Requester {
    pub fn new(id: EndpointId, peer_kind: PeerKind, terms: &Terms) -> Requester {
        Requester {
            id,
            shape: terms.shape,
            peer_kind,
            begin: terms.first,
            queue: SendQueue::default(),
            in_flight: InFlight::new(terms.first),
            early: Vec::new(),
            timer: RetryTimer::new(),
            budget: Budget::new(terms),
            asking: Asking::new(peer_kind),
            reads_max: READS_MAX,
            withdrawn: Vec::new(),
        }
    }

    /// Returns the PSN of the very first frame.
    pub fn begin(&self) -> Psn {
        self.begin
    }

    /// Returns the number of operations in the send queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns an empty buffer for bytes to be sent.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.queue.buffer()
    }

    pub fn post(&mut self, mut posted: Posted, completions: &mut CompletionQueue) {
        posted.even_frame_bytes = self.shape.even_frame_bytes(&posted);
        self.queue.push(posted);
        self.complete(completions);
    }

    fn reliable(&self) -> bool {
        self.shape.transport == Transport::Reliable
    }

    // ---- sending ----

    /// Sends frames as far as credit, window and rate allow, at most `frames_max`; returns how
    /// many.
    pub fn pump<P: Port>(
        &mut self,
        now: Moment,
        wire: &mut Wire<'_, P>,
        frames_max: usize,
        completions: &mut CompletionQueue,
        counters: &mut ConnectionCounters,
    ) -> usize {
        let mut sent = 0;
        while sent < frames_max && !self.timer.is_paused(now) {
            if self.budget.paced_until(now).is_some() {
                break;
            }
            if !self.in_flight.has_due() {
                let run = self.send_run(now, wire, frames_max - sent, counters);
                if run > 0 {
                    sent += run;
                    continue;
                }
            }
            if !self.has_frame(completions) {
                break;
            }
            let Some(index) = self.in_flight.next_due() else { break };
            let cost = self.in_flight.frame(index).cost;
            if !self.budget.admits(self.in_flight.flying_cost(), cost) {
                break;
            }
            if !self.send(index, now, wire, counters) {
                break;
            }
            sent += 1;
        }
        if sent > 0 && !self.reliable() {
            self.complete(completions);
        }
        sent
    }

    /// Returns true when a frame is due; cuts one when none is.
    fn has_frame(&mut self, completions: &mut CompletionQueue) -> bool {
        if self.in_flight.has_due() {
            return true;
        }
        self.in_flight.len() < self.frames_in_flight_max() && self.cut(completions)
    }

    fn frames_in_flight_max(&self) -> usize {
        match self.peer_kind {
            PeerKind::Fluxline => WINDOW as usize - 1,
            PeerKind::Standard => ORDERED_FRAMES_MAX,
        }
    }

    /// Cuts the next frame from the queue. Returns false when there is no work or it must wait.
    fn cut(&mut self, completions: &mut CompletionQueue) -> bool {
        loop {
            let Some(number) = self.queue.first_uncut() else { return false };
            let is_front = self.queue.is_front(number);
            let posted = self.queue.get_mut(number);
            match posted.request {
                Request::Fence if !is_front => return false,
                Request::Fence | Request::Flush => {
                    posted.framed = true;
                    self.queue.cut_through(number);
                    self.complete(completions);
                    continue;
                }
                _ => {}
            }
            let needs_answer = posted.needs_answer();
            if needs_answer && self.in_flight.reads() >= self.reads_max {
                return false;
            }
            let NextPart { part, bytes, .. } = self.shape.next_part(posted);
            let at = posted.cut;
            posted.cut += bytes;
            posted.frames_left += 1;
            if matches!(part, FramePart::Last | FramePart::Only) && posted.cut == posted.bytes {
                posted.framed = true;
                self.queue.cut_through(number);
            }
            self.in_flight.push(RequestFrame {
                of: number,
                at,
                bytes: bytes as u32,
                part,
                state: FrameState::Due,
                empty: false,
                needs_answer,
                awaits_answer: needs_answer,
                tries: 0,
                sent: Moment::default(),
                cost: self.budget.cost(self.shape.frame_bytes, bytes),
            });
            return true;
        }
    }

    fn send<P: Port>(
        &mut self,
        index: usize,
        now: Moment,
        wire: &mut Wire<'_, P>,
        counters: &mut ConnectionCounters,
    ) -> bool {
        let frame = *self.in_flight.frame(index);
        let psn = self.in_flight.psn(index);
        let to_send = FrameToSend {
            psn,
            position: self.position(frame.of, frame.part),
            cost: frame.cost,
            flying_cost: self.in_flight.flying_cost(),
            is_repeated: frame.tries > 0,
        };
        let acknowledge_request = self.reliable() && self.asking.asks(&self.budget, &to_send);
        let posted = self.queue.get(frame.of);
        let body = body(self.shape.transport, posted, &frame);
        let headers = Headers { acknowledge_request, ..Headers::new(wire.to(), psn, body) };
        let payload_bytes = match posted.request {
            Request::Put { .. } | Request::Send { .. } if !frame.empty => frame.bytes as usize,
            _ => 0,
        };
        let sent = wire.packet(&headers, payload_bytes, |into| match &posted.request {
            Request::Put { from, .. } | Request::Send { from } if !frame.empty => {
                from.copy(frame.at, into);
            }
            _ => {}
        });
        if !sent {
            return false;
        }
        let padded_bytes = payload_bytes + pad_bytes(payload_bytes);
        let bytes = (headers.bytes() + padded_bytes + ICRC_BYTES) as u64;
        self.budget.sent(now, bytes);
        counters.frames_sent += 1;
        counters.payload_sent += payload_bytes as u64;
        counters.frames_repeated += u64::from(frame.tries > 0);
        if self.reliable() {
            self.in_flight.sent(index, now);
            self.timer.frame_sent(now);
        } else if let Some(number) = self.in_flight.sent_unreliably() {
            self.queue.get_mut(number).frames_left -= 1;
        }
        true
    }

    // ---- the end of work ----

    /// Reports the work at the front of the queue that is done.
    fn complete(&mut self, completions: &mut CompletionQueue) {
        while let Some(posted) = self.queue.pop_done() {
            self.report(&posted, posted.status, completions);
            self.queue.recycle(posted);
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

    /// Flushes all waiting work: the connection is over.
    pub fn flush(&mut self, completions: &mut CompletionQueue) {
        while let Some(mut posted) = self.queue.pop() {
            if posted.report == Report::Failure {
                posted.report = Report::End;
            }
            self.report(&posted, Status::Flushed, completions);
        }
        self.in_flight.clear();
        self.early.clear();
    }

    // ---- time ----

    /// Discounts a time in which this side did not poll and so received nothing.
    pub fn was_absent(&mut self, absent: Span, now: Moment) {
        self.timer.was_absent(absent, now);
    }

    /// Takes silence for loss. `Err`: no frame was acknowledged for `patience`; the connection is
    /// over.
    pub fn on_time(&mut self, now: Moment, patience: Span) -> Result<(), Status> {
        self.timer.end_pause(now);
        if self.timer.is_stalled(now, patience) {
            return Err(Status::Transport);
        }
        if self.timeout_at().is_some_and(|at| at <= now) {
            self.timer.timed_out(now);
            self.break_silence(now);
        }
        Ok(())
    }

    /// Finds out what a silence means: the peer does not run, or all frames in flight are lost.
    ///
    /// A Fluxline peer is asked. The question is sent last, so the frames that the peer lacks when
    /// it comes are lost, and no frame is sent twice to a peer that only did not poll. Other peers
    /// cannot be asked: frames older than a round trip are sent again.
    fn break_silence(&mut self, now: Moment) {
        if self.peer_kind.is_fluxline() {
            self.timer.request_question();
            return;
        }
        let trip = self.timer.trip.smooth();
        self.in_flight.mark_due(0, |frame| frame.sent + trip <= now);
        self.budget.congested();
    }

    /// Shrinks the window: the network reported congestion.
    pub fn congested(&mut self) {
        self.budget.congested();
    }

    /// Ends the back-off of a silence: the peer was heard again.
    pub fn silence_ended(&mut self) {
        self.timer.trip.answered();
    }

    /// Takes a measured round trip.
    pub fn sample_round_trip(&mut self, took: Span) {
        self.timer.trip.sample(took);
    }

    /// Returns true when the peer is to be asked which frames have come.
    pub fn wants_to_ask(&self) -> bool {
        self.timer.is_question_due()
    }

    /// Returns the number of a question that is sent now.
    pub fn ask(&mut self, now: Moment) -> u32 {
        self.timer.ask(now)
    }

    fn timeout_at(&self) -> Option<Moment> {
        // Frames before it are due, and may wait for the window that it fills.
        let oldest = self.in_flight.iter().find(|frame| is_unanswered(frame))?;
        self.timer.timeout_at(oldest.sent)
    }

    /// Returns when there is work to do although no frame arrives.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let paced = (self.in_flight.has_due() || self.queue.has_uncut())
            .then(|| self.budget.paced_until(now))
            .flatten();
        [self.timeout_at(), self.timer.paused_until(), paced].into_iter().flatten().min()
    }

    /// Returns true when an answer with this PSN belongs to a request in flight.
    pub fn awaits(&self, psn: Psn) -> bool {
        self.in_flight.index_of(psn).is_some()
    }

    /// Returns the number of frames that were sent and have not arrived.
    pub fn in_flight(&self) -> usize {
        self.in_flight.iter().filter(|frame| frame.state == FrameState::Flying).count()
    }

    /// Returns the length of a frame with all headers \[byte\].
    pub fn frame_bytes(&self) -> usize {
        self.shape.frame_bytes
    }

    /// Returns true when the oldest frame without an acknowledgement is longer than the shortest
    /// that a path takes: questions, which are short, may be answered although it never arrives.
    pub fn waits_for_long_frames(&self) -> bool {
        let oldest = self.in_flight.iter().next();
        oldest.is_some_and(|frame| u64::from(frame.bytes) >= LONG_BYTES)
    }

    /// Makes frames shorter from now on. No frame so far can have reached the peer, so all work is
    /// cut again.
    pub fn shorten(&mut self, frame_bytes: usize) {
        self.shape.frame_bytes = frame_bytes;
        self.queue.uncut_all(&self.shape);
        self.in_flight.clear();
    }

    /// Returns the bytes of an answer that fit one frame \[byte\].
    pub fn answer_bytes(&self) -> u64 {
        self.shape.answer_bytes() as u64
    }

    /// Returns true when this operation is possible on this connection.
    pub fn allows(&self, operation: Operation) -> bool {
        let needs_answer =
            [Operation::Get, Operation::FetchAdd, Operation::CompareSwap].contains(&operation);
        self.reliable() || !needs_answer
    }
}

/// Payloads from this length on may be longer than a path takes whose MTU has shrunk \[byte\]: IPv4
/// hosts take packets of 576 bytes. Source: RFC 791.
const LONG_BYTES: u64 = 576;

/// Returns true when a frame waits for its acknowledgement. A held frame does, too: the peer may
/// have done it since.
fn is_unanswered(frame: &RequestFrame) -> bool {
    matches!(frame.state, FrameState::Flying | FrameState::Held)
}
