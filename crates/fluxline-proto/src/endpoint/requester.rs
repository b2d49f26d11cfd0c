//! The side of a connection that asks: its queue of work, the frames in flight, and what happens
//! to those that do not come back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::counters::ConnectionCounters;
use super::frames::{Refused, Selective, WINDOW};
use super::posted::{Act, Frame, Part, Posted, Shape, Source, State, Told, body};
use super::timing::{Pacer, RoundTrip, Window};
use super::wire::Wire;
use crate::fabric::{Completion, EndpointId, Operation, Status};
use crate::port::Port;
use crate::roce::{Headers, ICRC_BYTES, NakCode, Psn, Transport, pad_bytes};
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

/// With no more than this in flight, all of it is sent again after silence.
const PROBED_MIN: usize = 8;

/// What is told to the program.
pub(super) type Telling = VecDeque<Completion>;

pub(super) struct Requester {
    id: EndpointId,
    shape: Shape,
    /// Whether the peer acknowledges what it has beyond the first missing frame.
    selective: bool,
    posted: VecDeque<Posted>,
    /// Number of `posted[0]`, and of the first that is not all cut.
    base: u64,
    cutting: u64,
    frames: VecDeque<Frame>,
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
    /// After silence, one frame is sent whatever the window says; what it brings back tells which
    /// others are lost.
    probe_due: bool,
    probing: bool,
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
            probe_due: false,
            probing: false,
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

    pub fn post(&mut self, posted: Posted, telling: &mut Telling) {
        self.posted.push_back(posted);
        self.complete(telling);
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
        telling: &mut Telling,
        counters: &mut ConnectionCounters,
    ) -> usize {
        let mut sent = 0;
        while sent < budget && self.pause_until.is_none_or(|until| until <= now) {
            if self.pacer.waits_until(now).is_some() || !self.has_frame(telling) {
                break;
            }
            let Some(place) = self.next_due() else { break };
            if !self.probe_due && !self.has_window(self.frames[place].cost) {
                self.limited = true;
                break;
            }
            if !self.send(place, now, wire, counters) {
                break;
            }
            sent += 1;
        }
        if sent > 0 && !self.reliable() {
            self.complete(telling);
        }
        sent
    }

    /// Makes sure that a frame is due, cutting one if need be.
    fn has_frame(&mut self, telling: &mut Telling) -> bool {
        if self.due > 0 {
            return true;
        }
        let most = if self.selective { WINDOW as usize - 1 } else { ORDERED_FRAMES_MAX };
        if self.frames.len() >= most {
            return false;
        }
        self.cut(telling)
    }

    /// Cuts the next frame from the queue; `false`: there is nothing, or it must wait.
    fn cut(&mut self, telling: &mut Telling) -> bool {
        loop {
            let place = (self.cutting - self.base) as usize;
            let Some(posted) = self.posted.get_mut(place) else { return false };
            match posted.act {
                Act::Fence if place > 0 => return false,
                Act::Fence | Act::Flush => {
                    posted.framed = true;
                    self.cutting += 1;
                    self.complete(telling);
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
            if matches!(part, Part::Last | Part::Only) && posted.cut == posted.bytes {
                posted.framed = true;
                self.cutting += 1;
            }
            self.asked += usize::from(asks);
            // A question is short; its answer takes as much of this side's buffer.
            let cost = self.shape.frame_bytes.min(bytes as usize + 64) as u64 + self.frame_cost;
            let of = self.base + place as u64;
            self.frames.push_back(Frame {
                of,
                at,
                bytes: bytes as u32,
                part,
                state: State::Due,
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
            .find(|&place| self.frames[place].state == State::Due)?;
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
        let ends = matches!(frame.part, Part::Last | Part::Only);
        // The last that the window takes, too: nothing else may follow that asks.
        headers.acknowledge_request = self.reliable()
            && (ends
                || psn.get().is_multiple_of(ACKNOWLEDGE_EACH)
                || self.flying_cost + 2 * frame.cost > self.window.bytes());
        let payload_bytes = match posted.act {
            Act::Put { .. } | Act::Send { .. } if !frame.empty => frame.bytes as usize,
            _ => 0,
        };
        let sent = wire.packet(&headers, payload_bytes, |into| match &posted.act {
            Act::Put { from, .. } | Act::Send { from } if !frame.empty => from.copy(frame.at, into),
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
        self.probe_due = false;
        let frame = &mut self.frames[place];
        frame.state = State::Flying;
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

    // ---- what comes back ----

    /// The place of the frame with this PSN, if it has been sent and not forgotten.
    fn place_of(&self, psn: Psn) -> Option<usize> {
        let place = usize::try_from(psn.distance_from(self.first)).ok()?;
        self.frames.get(place).filter(|frame| frame.tries > 0).map(|_| place)
    }

    /// An acknowledgement that names what is missing.
    pub fn selective(&mut self, now: Moment, ack: &Selective<'_>, telling: &mut Telling) {
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
        if let Some(refused) = ack.refused {
            self.refused(now, expected, refused);
        }
        let kept = self.frames.get(expected).is_some_and(|frame| frame.state == State::Held);
        if kept && ack.refused != Some(Refused::NotReady) {
            self.make_due(expected); // it was its turn, and it is not there any more
        }
        self.forget_arrived(now, telling);
    }

    /// An acknowledgement of the standard: all before and up to `psn` came.
    pub fn acknowledged(&mut self, now: Moment, psn: Psn, telling: &mut Telling) {
        let Some(last) = self.place_of(psn) else { return };
        let mut arrived = Arrived::at(now);
        for place in 0..=last {
            self.arrive(place, &mut arrived);
        }
        self.after_arrivals(now, &arrived, 0, false);
        self.forget_arrived(now, telling);
    }

    /// A refusal of the standard, of the request `psn`. `Err`: the connection is over.
    pub fn nak(
        &mut self,
        now: Moment,
        psn: Psn,
        code: NakCode,
        telling: &mut Telling,
    ) -> Result<(), Status> {
        self.acknowledged(now, psn.minus(1), telling);
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
    pub fn not_ready(&mut self, now: Moment, psn: Psn, pause: Span, telling: &mut Telling) {
        self.acknowledged(now, psn.minus(1), telling);
        self.go_back(psn);
        self.pause_until = Some(now + pause);
        self.stalled_since = None;
    }

    /// The answer to a get. Of the wrong length: not taken, and asked again.
    pub fn read_answered(&mut self, now: Moment, psn: Psn, bytes: &[u8], telling: &mut Telling) {
        let Some(place) = self.place_of(psn) else { return };
        let frame = self.frames[place];
        let wanted = self.is_get(&frame) && frame.asks && frame.state != State::Arrived;
        if !wanted || bytes.len() != frame.bytes as usize {
            return;
        }
        if self.first_get() != Some(place) {
            if frame.state != State::Early {
                self.early.push((psn, bytes.to_vec()));
                self.land(place);
                self.frames[place].state = State::Early;
            }
            return;
        }
        self.place_answer(now, place, bytes, telling);
        while let Some(next) = self.first_get() {
            let psn = self.first.plus(next as u32);
            let Some(held) = self.early.iter().position(|(of, _)| *of == psn) else { return };
            let (_, bytes) = self.early.swap_remove(held);
            self.place_answer(now, next, &bytes, telling);
        }
    }

    fn is_get(&self, frame: &Frame) -> bool {
        matches!(self.posted[(frame.of - self.base) as usize].act, Act::Get { .. })
    }

    /// The place of the first get that waits for its answer.
    fn first_get(&self) -> Option<usize> {
        self.frames.iter().position(|frame| frame.asks && self.is_get(frame))
    }

    fn place_answer(&mut self, now: Moment, place: usize, bytes: &[u8], telling: &mut Telling) {
        let frame = self.frames[place];
        let posted = &self.posted[(frame.of - self.base) as usize];
        let Act::Get { into: (memory, offset), .. } = &posted.act else { return };
        // The memory was checked when the get was posted, and does not shrink.
        let _ = memory.write(offset + frame.at, bytes);
        self.answered(now, place, telling);
    }

    /// The answer to an atomic.
    pub fn atomic_answered(&mut self, now: Moment, psn: Psn, value: u64, telling: &mut Telling) {
        let Some(place) = self.place_of(psn) else { return };
        let frame = self.frames[place];
        let posted = &mut self.posted[(frame.of - self.base) as usize];
        let atomic = matches!(posted.act, Act::FetchAdd { .. } | Act::CompareSwap { .. });
        if !atomic || !frame.asks || frame.state == State::Arrived {
            return;
        }
        posted.value = value;
        self.answered(now, place, telling);
    }

    fn answered(&mut self, now: Moment, place: usize, telling: &mut Telling) {
        self.frames[place].asks = false;
        let mut arrived = Arrived::at(now);
        if !self.selective {
            // The standard: an answer acknowledges all requests before it.
            (0..place).for_each(|before| self.arrive(before, &mut arrived));
        }
        self.arrive(place, &mut arrived);
        self.after_arrivals(now, &arrived, 0, false);
        self.forget_arrived(now, telling);
    }

    /// The peer has done what the frame says.
    fn arrive(&mut self, place: usize, arrived: &mut Arrived) {
        let Some(frame) = self.frames.get(place) else { return };
        if frame.state == State::Arrived || frame.tries == 0 || (frame.asks && !frame.empty) {
            return;
        }
        let of = frame.of;
        self.reached(place, arrived);
        self.frames[place].state = State::Arrived;
        self.posted[(of - self.base) as usize].frames_left -= 1;
    }

    /// The peer keeps the frame until what is missing before it has come.
    fn hold(&mut self, place: usize, arrived: &mut Arrived) {
        let Some(frame) = self.frames.get(place) else { return };
        let out = matches!(frame.state, State::Flying | State::Due);
        if out && frame.tries > 0 && (!frame.asks || frame.empty) {
            self.reached(place, arrived);
            self.frames[place].state = State::Held;
        }
    }

    /// The frame came through the network: what that says of it.
    fn reached(&mut self, place: usize, arrived: &mut Arrived) {
        let frame = self.frames[place];
        self.land(place);
        if matches!(frame.state, State::Held) {
            return; // said before
        }
        arrived.frames += 1;
        arrived.bytes += frame.cost;
        match frame.tries {
            1 if frame.state != State::Early => {
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
            State::Flying => self.flying_cost -= self.frames[place].cost,
            State::Due => self.due -= 1,
            State::Early | State::Held | State::Arrived => {}
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
        if self.selective && (holes || self.probing) {
            self.probing &= arrived.frames == 0;
            self.find_lost();
        }
    }

    /// What was sent well before something that arrived is lost. Source: RFC 8985 (RACK).
    fn find_lost(&mut self) {
        let before = self.newest_arrived - self.trip.reordering();
        let lost = self.mark_due(|frame| frame.sent < before);
        self.window.lost(lost);
    }

    /// Frames in flight that `which` accepts are to be sent again; says how many.
    fn mark_due(&mut self, which: impl Fn(&Frame) -> bool) -> u64 {
        let mut count = 0;
        for (place, frame) in self.frames.iter_mut().enumerate() {
            if frame.state == State::Flying && which(frame) {
                frame.state = State::Due;
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
        let Some(from) = self.place_of(psn) else { return };
        for (place, frame) in self.frames.iter_mut().enumerate().skip(from) {
            if frame.state == State::Flying {
                frame.state = State::Due;
                self.flying_cost -= frame.cost;
                self.due += 1;
                self.due_from = self.due_from.min(place);
            }
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

    fn make_due(&mut self, place: usize) {
        if matches!(self.frames[place].state, State::Flying | State::Held) {
            self.land(place);
            self.frames[place].state = State::Due;
            self.due += 1;
        }
        self.due_from = self.due_from.min(place);
    }

    fn forget_arrived(&mut self, now: Moment, telling: &mut Telling) {
        let mut came = 0;
        while let Some(front) = self.frames.front().filter(|of| of.state == State::Arrived) {
            self.asked -= usize::from(front.question);
            self.frames.pop_front();
            came += 1;
        }
        if came > 0 {
            self.first = self.first.plus(came);
            self.due_from = self.due_from.saturating_sub(came as usize);
            self.stalled_since = (!self.frames.is_empty()).then_some(now);
            self.complete(telling);
        }
    }

    // ---- the end of work ----

    /// Tells of the work at the front of the queue that is done.
    fn complete(&mut self, telling: &mut Telling) {
        while let Some(front) = self.posted.front() {
            let waits = matches!(front.act, Act::Fence | Act::Flush);
            if front.frames_left > 0 || (!front.framed && !waits) {
                return;
            }
            let Some(posted) = self.posted.pop_front() else { return };
            self.base += 1;
            self.cutting = self.cutting.max(self.base);
            self.tell(&posted, posted.status, telling);
            self.keep_buffer(posted);
        }
    }

    fn tell(&self, posted: &Posted, status: Status, telling: &mut Telling) {
        let wanted = match posted.told {
            Told::Already => false,
            Told::End => true,
            Told::Failure => status != Status::Done,
        };
        if wanted {
            let value = if status == Status::Done { posted.value } else { 0 };
            let (endpoint, tag, operation) = (self.id, posted.tag, posted.operation());
            telling.push_back(Completion::Done { endpoint, tag, operation, status, value });
        }
    }

    fn keep_buffer(&mut self, posted: Posted) {
        if let Act::Put { from: Source::Bytes(mut bytes), .. }
        | Act::Send { from: Source::Bytes(mut bytes) } = posted.act
            && self.spare.len() < ASKED_MAX
        {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// The connection is over: all that waits is flushed.
    pub fn flush(&mut self, telling: &mut Telling) {
        while let Some(posted) = self.posted.pop_front() {
            let told = posted.told;
            let flushed =
                Posted { told: if told == Told::Already { told } else { Told::End }, ..posted };
            self.tell(&flushed, Status::Flushed, telling);
        }
        self.frames.clear();
        self.early.clear();
        (self.due, self.due_from, self.asked, self.flying_cost) = (0, 0, 0, 0);
    }

    // ---- time ----

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
            self.probe(now);
        }
        Ok(())
    }

    /// Silence may mean that the peer does not run now, or that all in flight is lost. The oldest
    /// frame is sent again; what is told of it tells which. Source: RFC 8985, tail loss probes.
    fn probe(&mut self, now: Moment) {
        if !self.selective || self.in_flight() <= PROBED_MIN {
            let trip = self.trip.smooth();
            self.mark_due(|frame| frame.sent + trip <= now);
        }
        if !self.selective {
            self.window.timed_out();
            return;
        }
        if let Some(place) = self.frames.iter().position(is_unanswered) {
            // The others may wait at a receiver that does not look: twice, they overrun it.
            self.make_due(place);
            (self.probe_due, self.probing) = (true, true);
        }
    }

    fn timeout_at(&self) -> Option<Moment> {
        // Those before it are due and may wait for the window that it fills.
        let oldest = self.frames.iter().find(|frame| is_unanswered(frame))?;
        Some(oldest.sent + self.trip.timeout())
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
        self.frames.iter().filter(|frame| frame.state == State::Flying).count()
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
fn is_unanswered(frame: &Frame) -> bool {
    matches!(frame.state, State::Flying | State::Held)
}

/// What one acknowledgement brought.
#[derive(Default)]
struct Arrived {
    now: Moment,
    frames: u64,
    bytes: u64,
    /// Some of them were sent more than once. Source: Karn's algorithm (SIGCOMM 1987).
    ambiguous: bool,
    /// The latest time of sending among those that were sent once.
    newest_once: Option<Moment>,
}

impl Arrived {
    fn at(now: Moment) -> Arrived {
        Arrived { now, ..Arrived::default() }
    }
}
