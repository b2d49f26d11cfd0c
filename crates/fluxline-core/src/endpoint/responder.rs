//! The side of a connection that answers: requests are done once and in order, whatever the
//! network does to their frames.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::context::Context;
use super::execute::{ANSWERS_MAX, Answer, Check, Executor, Outcome};
use super::frames::{Refused, Selective, WINDOW};
use super::sequence::{Arrival, Fate, Mark, Sequence};
use crate::fabric::{EndpointId, Slice, Status};
use crate::roce::header::BTH_BYTES;
use crate::roce::{
    Aeth, Body, CreditCode, Msn, NakCode, Packet, Psn, RnrTimer, Syndrome, Transport,
};
use crate::{Moment, Span};

/// Frames that wait for an earlier one take no more than this \[byte\]; more are as if lost.
const HELD_BYTES_MAX: usize = 16 << 20;
/// The pause that a peer is asked for when its message finds no buffer.
const NOT_READY_PAUSE: Span = Span::from_ms(1);

pub(super) struct Responder {
    transport: Transport,
    /// Frames beyond a missing one are kept and acknowledged; else they are dropped and repeated.
    selective: bool,
    /// The next PSN, counted without wrapping from the first.
    expected: u64,
    /// Frames that came before one that is missing.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    spare: Vec<Vec<u8>>,
    refused: Option<Refused>,
    /// Strict peers are told of a gap once.
    gap_reported: bool,
    sequence: Sequence,
    /// A frame of an unreliable peer that may be the first after a restart.
    aside: Vec<u8>,
    pub executor: Executor,
    pub answers: VecDeque<Answer>,
    pub acknowledge: bool,
    /// The last question of the peer's.
    asked: u32,
    marked: u32,
}

impl Responder {
    pub fn new(
        id: EndpointId,
        (transport, selective): (Transport, bool),
        first: Option<Psn>,
        payload_bytes: usize,
    ) -> Responder {
        Responder {
            transport,
            selective,
            expected: u64::from(first.unwrap_or_default().get()),
            held: BTreeMap::new(),
            held_bytes: 0,
            spare: Vec::new(),
            refused: None,
            gap_reported: false,
            sequence: match first {
                Some(first) if selective => Sequence::agreed(first),
                _ => Sequence::configured(first),
            },
            aside: Vec::new(),
            executor: Executor::new(id, selective, payload_bytes),
            answers: VecDeque::new(),
            acknowledge: false,
            asked: 0,
            marked: 0,
        }
    }

    fn expected_psn(&self) -> Psn {
        Psn::new(self.expected as u32)
    }

    /// Takes a request; `bytes`: its frame without ICRC.
    pub fn take(
        &mut self,
        packet: &Packet<'_>,
        (bytes, marked): (&[u8], bool),
        context: &mut Context<'_>,
    ) {
        context.counters.frames_received += 1;
        context.counters.frames_marked += u64::from(marked);
        self.marked = self.marked.wrapping_add(u32::from(marked));
        match self.transport {
            Transport::Reliable => self.take_reliable(packet, bytes, context),
            Transport::Unreliable => self.take_unreliable(packet, bytes, context),
        }
    }

    fn take_reliable(&mut self, packet: &Packet<'_>, bytes: &[u8], context: &mut Context<'_>) {
        self.acknowledge = true;
        let ahead = packet.headers().psn.distance_from(self.expected_psn());
        match ahead {
            0 => {
                if self.step(packet, context) {
                    self.catch_up(context);
                } else if self.refused == Some(Refused::NotReady) {
                    self.hold(self.expected, bytes);
                }
            }
            1.. if !self.selective => {
                context.counters.frames_ahead += 1;
                if !core::mem::replace(&mut self.gap_reported, true) {
                    self.answer(Syndrome::Nak(NakCode::PsnSequenceError));
                }
            }
            1.. => {
                context.counters.frames_ahead += 1;
                if (ahead as u32) < WINDOW {
                    self.hold(self.expected + ahead as u64, bytes);
                }
            }
            _ => self.repeat(packet, context),
        }
    }

    fn hold(&mut self, number: u64, bytes: &[u8]) {
        if self.held_bytes + bytes.len() > HELD_BYTES_MAX || self.held.contains_key(&number) {
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.held_bytes += bytes.len();
        self.held.insert(number, copy);
    }

    fn unhold(&mut self, number: u64) -> Option<Vec<u8>> {
        let bytes = self.held.remove(&number)?;
        self.held_bytes -= bytes.len();
        Some(bytes)
    }

    /// Does the request that is expected; `false`: it was not done, and stays expected.
    fn step(&mut self, packet: &Packet<'_>, context: &mut Context<'_>) -> bool {
        let is_empty = Executor::is_empty_write(packet);
        if let Some(Refused::For(status)) = self.refused
            && !is_empty
        {
            // Refused for good: only nothing may take its place. What told so may be lost.
            self.answer_refused(status);
            return false;
        }
        let step = self.executor.step(self.expected, packet, &mut self.answers, context);
        match step {
            Outcome::Next(count) => {
                self.expected += u64::from(count);
                (self.refused, self.gap_reported) = (None, false);
                // A read may have taken more numbers than its own.
                while let Some((&number, _)) = self.held.first_key_value()
                    && number < self.expected
                {
                    let bytes = self.unhold(number);
                    self.spare.extend(bytes);
                }
                true
            }
            Outcome::Busy => false,
            Outcome::NotReady => {
                // What follows is dropped without a word: its sender knows.
                self.gap_reported = true;
                self.answer(Syndrome::RnrNak(RnrTimer::at_least(NOT_READY_PAUSE)));
                self.refused = Some(Refused::NotReady);
                false
            }
            Outcome::Refused(status) => {
                context.counters.frames_refused += 1;
                self.refused = Some(Refused::For(status));
                self.answer_refused(status);
                false
            }
        }
    }

    /// A refusal of the standard, of the request that is expected.
    fn answer_refused(&mut self, status: Status) {
        self.answer(Syndrome::Nak(match status {
            Status::WrongKey | Status::Rights | Status::OutOfRegion | Status::Withdrawn => {
                NakCode::RemoteAccessError
            }
            _ => NakCode::InvalidRequest,
        }));
    }

    /// Tells a peer that speaks the standard only.
    fn answer(&mut self, syndrome: Syndrome) {
        if !self.selective && self.answers.len() < ANSWERS_MAX {
            self.answers.push_back(Answer::Syndrome(self.expected_psn(), syndrome));
        }
    }

    /// Does what was held and can be done now.
    fn catch_up(&mut self, context: &mut Context<'_>) {
        while let Some(bytes) = self.unhold(self.expected) {
            let number = self.expected;
            let done = match Packet::parse(&bytes) {
                Ok(packet) => self.step(&packet, context),
                Err(_) => true, // was parsed before it was held
            };
            if !done {
                if self.refused == Some(Refused::NotReady) {
                    self.held_bytes += bytes.len();
                    self.held.insert(number, bytes);
                } else {
                    self.spare.push(bytes);
                }
                return;
            }
            self.spare.push(bytes);
        }
    }

    /// A message that waits for a buffer is tried again, or given up.
    pub fn on_time(&mut self, context: &mut Context<'_>) {
        if self.refused == Some(Refused::NotReady) && self.executor.may_go_on(context.now) {
            self.acknowledge = true;
            self.catch_up(context);
        }
    }

    pub fn deadline(&self) -> Option<Moment> {
        (self.refused == Some(Refused::NotReady)).then(|| self.executor.waits_until()).flatten()
    }

    /// A request that was done before: its answer is given again.
    fn repeat(&mut self, packet: &Packet<'_>, context: &mut Context<'_>) {
        context.counters.frames_duplicate += 1;
        let behind = self.expected_psn().distance_from(packet.headers().psn);
        let number = self.expected.saturating_sub(behind as u64);
        self.executor.repeat(number, packet, &mut self.answers, context);
    }

    /// Takes a frame that may be lost, doubled or from a sender that restarted. Its PSN is believed
    /// only when its key and bounds are right.
    fn take_unreliable(&mut self, packet: &Packet<'_>, bytes: &[u8], context: &mut Context<'_>) {
        let psn = packet.headers().psn;
        let content = bytes.get(BTH_BYTES..).unwrap_or_default();
        // Between two Fluxline ends nothing looks at it.
        let print = if self.selective { 0 } else { crc32fast::hash(content) };
        let mark = Mark { psn, print, now: context.now };
        let judged = self.sequence.judge(&mark);
        if judged.arrival != Arrival::Duplicate {
            let fits = self.executor.check(psn, packet, context);
            // Between two Fluxline ends the queue pair cannot be guessed.
            let believed = fits == Check::Fits || (self.selective && fits == Check::Unusable);
            if !believed {
                self.executor.count_unfit(fits, packet, context);
                return;
            }
        }
        self.sequence.take(&mark, judged, context.counters);
        if judged.held == Some(Fate::Good) {
            self.do_aside(context);
        }
        match judged.arrival {
            Arrival::Duplicate => {}
            Arrival::Doubtful(_) => {
                self.aside.clear();
                self.aside.extend_from_slice(bytes);
            }
            _ => self.executor.unreliable(psn, packet, context),
        }
    }

    /// Does the frame that was kept aside.
    fn do_aside(&mut self, context: &mut Context<'_>) {
        let aside = core::mem::take(&mut self.aside);
        if let Ok(packet) = Packet::parse(&aside) {
            self.executor.unreliable(packet.headers().psn, &packet, context);
        }
        self.aside = aside;
    }

    /// Nothing more will come: a frame that was kept aside is done or dropped.
    pub fn settle(&mut self, context: &mut Context<'_>) {
        if self.sequence.finish(context.counters) == Some(Fate::Good) {
            self.do_aside(context);
        }
    }

    /// The peer wants to know what has come.
    pub fn ask(&mut self, question: u32) {
        if question != 0 {
            (self.acknowledge, self.asked) = (true, question);
        }
    }

    /// Returns the acknowledgement for a Fluxline peer; `bits` becomes the map of held frames.
    pub fn selective<'a>(&self, credit_bytes: u64, bits: &'a mut [u8]) -> Selective<'a> {
        let mut used = 0;
        for &number in self.held.keys() {
            let Some(bit) = number.checked_sub(self.expected + 1) else { continue };
            let byte = (bit / 8) as usize;
            if let Some(place) = bits.get_mut(byte) {
                *place |= 1 << (bit % 8);
                used = byte + 1;
            }
        }
        Selective {
            expected: self.expected_psn(),
            question: 0,
            answer: self.asked,
            refused: self.refused,
            credit_bytes,
            marked: self.marked,
            held: &bits[..used],
        }
    }

    /// Returns the acknowledgement of the standard: all before the expected frame came.
    pub fn standard(&self) -> (Psn, Aeth) {
        let credits = CreditCode::at_most(self.executor.buffers() as u32);
        let syndrome = Syndrome::Ack(credits);
        (self.expected_psn().minus(1), Aeth { syndrome, msn: self.msn() })
    }

    pub fn msn(&self) -> Msn {
        Msn::new(self.executor.messages)
    }

    /// A buffer for a message. What waited for one goes on.
    pub fn give_buffer(&mut self, tag: u64, into: Slice) {
        self.executor.receives.push_back((tag, into));
    }
}

/// Returns true when a packet is a request, for the responder.
pub(super) fn is_request(body: &Body) -> bool {
    matches!(
        body,
        Body::Send(..)
            | Body::Write(..)
            | Body::ReadRequest(_)
            | Body::CompareSwap(_)
            | Body::FetchAdd(_)
    )
}
