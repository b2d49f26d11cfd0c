//! The side of a connection that answers: it does each request once and in order, whatever the
//! network does to frames.

use super::answer::{Answer, Answers};
use super::context::{Context, ReceivedFrame};
use super::execute::{Check, Executor, Outcome};
use super::frames::{Refused, Selective, WINDOW};
use super::peer::PeerKind;
use super::receive_order::ReceiveOrder;
use super::unreliable_order::UnreliableOrder;
use super::wire::Wire;
use crate::fabric::{EndpointId, Slice, Status};
use crate::port::Port;
use crate::roce::{
    Aeth, Body, CreditCode, Headers, Msn, NakCode, Packet, Psn, RnrTimer, Syndrome, Transport,
};
use crate::{Moment, Span};

/// The pause that a peer is asked for when its message finds no buffer.
const NOT_READY_PAUSE: Span = Span::from_ms(1);

/// Takes the requests of one peer.
pub(super) struct Responder {
    transport: Transport,
    /// A Fluxline peer's frames beyond a missing one are kept; others are dropped.
    peer_kind: PeerKind,
    order: ReceiveOrder,
    /// The expected request was refused.
    refused: Option<Refused>,
    /// A peer of the standard has got its one report of the present gap.
    gap_reported: bool,
    unreliable: UnreliableOrder,
    pub executor: Executor,
    pub answers: Answers,
    pub acknowledgement: Acknowledgement,
}

/// The next acknowledgement for the peer.
#[derive(Default)]
pub(super) struct Acknowledgement {
    pub is_due: bool,
    /// The peer's last question, which the acknowledgement answers.
    question: u32,
    /// Frames so far that a switch had marked.
    marked: u32,
}

impl Acknowledgement {
    /// Takes a question of the peer; 0 means "no question".
    pub fn take_question(&mut self, number: u32) {
        if number != 0 {
            (self.is_due, self.question) = (true, number);
        }
    }
}

impl Responder {
    pub fn new(
        id: EndpointId,
        transport: Transport,
        peer_kind: PeerKind,
        first: Option<Psn>,
        payload_bytes: usize,
    ) -> Responder {
        Responder {
            transport,
            peer_kind,
            order: ReceiveOrder::new(first.unwrap_or_default()),
            refused: None,
            gap_reported: false,
            unreliable: UnreliableOrder::new(peer_kind, first),
            executor: Executor::new(id, peer_kind, payload_bytes),
            answers: Answers::default(),
            acknowledgement: Acknowledgement::default(),
        }
    }

    /// Returns true when a request fits the numbers of this connection, or on an unreliable one its
    /// keys and bounds. Changes nothing.
    pub fn expects(&self, packet: &Packet<'_>, context: &Context<'_>) -> bool {
        let psn = packet.headers().psn;
        match self.transport {
            Transport::Reliable => {
                psn.distance_from(self.order.expected_psn()).unsigned_abs() < WINDOW
            }
            Transport::Unreliable => self.executor.check(psn, packet, context) == Check::Fits,
        }
    }

    /// Takes a request.
    pub fn take(&mut self, frame: &ReceivedFrame<'_>, context: &mut Context<'_>) {
        context.counters.frames_received += 1;
        context.counters.frames_marked += u64::from(frame.is_marked);
        let marked = &mut self.acknowledgement.marked;
        *marked = marked.wrapping_add(u32::from(frame.is_marked));
        match self.transport {
            Transport::Reliable => self.take_reliable(frame, context),
            Transport::Unreliable => self.unreliable.take(frame, &mut self.executor, context),
        }
    }

    fn take_reliable(&mut self, frame: &ReceivedFrame<'_>, context: &mut Context<'_>) {
        self.acknowledgement.is_due = true;
        let ahead = frame.packet.headers().psn.distance_from(self.order.expected_psn());
        match ahead {
            0 => {
                if self.step(frame.packet, context) {
                    self.catch_up(context);
                } else if self.refused == Some(Refused::NotReady) {
                    self.order.hold(self.order.expected(), frame.bytes);
                }
            }
            1.. if self.peer_kind == PeerKind::Standard => {
                context.counters.frames_ahead += 1;
                if !core::mem::replace(&mut self.gap_reported, true) {
                    self.answer(Syndrome::Nak(NakCode::PsnSequenceError));
                }
            }
            1.. => {
                context.counters.frames_ahead += 1;
                if (ahead as u32) < WINDOW {
                    self.order.hold(self.order.expected() + ahead as u64, frame.bytes);
                }
            }
            _ => self.repeat(frame.packet, context),
        }
    }

    /// Does the expected request. Returns false when it was not done and stays expected.
    fn step(&mut self, packet: &Packet<'_>, context: &mut Context<'_>) -> bool {
        let is_empty = Executor::is_empty_write(packet);
        if let Some(Refused::For(status)) = self.refused
            && !is_empty
        {
            // Refused for good: only an empty write may follow. The first refusal may be lost.
            self.answer_refused(status);
            return false;
        }
        let expected = self.order.expected();
        match self.executor.step(expected, packet, &mut self.answers, context) {
            Outcome::Next(count) => {
                self.order.advance(count);
                (self.refused, self.gap_reported) = (None, false);
                true
            }
            Outcome::Busy => false,
            Outcome::NotReady => {
                // The peer knows that it has to repeat later frames, so their gap is not reported.
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

    /// Answers the expected request with a refusal of the standard.
    fn answer_refused(&mut self, status: Status) {
        self.answer(Syndrome::Nak(match status {
            Status::WrongKey | Status::Rights | Status::OutOfRegion | Status::Withdrawn => {
                NakCode::RemoteAccessError
            }
            _ => NakCode::InvalidRequest,
        }));
    }

    /// Queues an answer for a peer that speaks only the standard.
    fn answer(&mut self, syndrome: Syndrome) {
        if self.peer_kind == PeerKind::Standard && !self.answers.is_full() {
            self.answers.push(Answer::Syndrome(self.order.expected_psn(), syndrome));
        }
    }

    /// Does the held frames whose turn has come.
    fn catch_up(&mut self, context: &mut Context<'_>) {
        while let Some(bytes) = self.order.take_expected() {
            let number = self.order.expected();
            let done = match Packet::parse(&bytes) {
                Ok(packet) => self.step(&packet, context),
                Err(_) => true, // it was parsed before it was held
            };
            if !done {
                if self.refused == Some(Refused::NotReady) {
                    self.order.put_back(number, bytes);
                } else {
                    self.order.recycle(bytes);
                }
                return;
            }
            self.order.recycle(bytes);
        }
    }

    /// Tries a message again that waits for a buffer, or gives it up.
    pub fn on_time(&mut self, context: &mut Context<'_>) {
        if self.refused == Some(Refused::NotReady) && self.executor.may_go_on(context.now) {
            self.acknowledgement.is_due = true;
            self.catch_up(context);
        }
    }

    /// Returns when a message that waits for a buffer is given up.
    pub fn deadline(&self) -> Option<Moment> {
        (self.refused == Some(Refused::NotReady)).then(|| self.executor.waits_until()).flatten()
    }

    /// Repeats the answer to a request that was done before.
    fn repeat(&mut self, packet: &Packet<'_>, context: &mut Context<'_>) {
        context.counters.frames_duplicate += 1;
        let behind = self.order.expected_psn().distance_from(packet.headers().psn);
        let number = self.order.expected().saturating_sub(behind as u64);
        self.executor.repeat(number, packet, &mut self.answers, context);
    }

    /// Decides about a frame that waits for another one, because none follows.
    pub fn settle(&mut self, context: &mut Context<'_>) {
        self.unreliable.settle(&mut self.executor, context);
    }

    /// Sends the acknowledgement, with a map of at most `map_bytes` for a Fluxline peer. Returns
    /// false when the port has no room.
    pub fn acknowledge<P: Port>(
        &self,
        credit_bytes: u64,
        map_bytes: usize,
        wire: &mut Wire<'_, P>,
    ) -> bool {
        match self.peer_kind {
            PeerKind::Fluxline => {
                let mut bits = [0; WINDOW as usize / 8];
                wire.selective(&self.selective(credit_bytes, &mut bits[..map_bytes]))
            }
            PeerKind::Standard => {
                let (psn, aeth) = self.standard();
                wire.packet(&Headers::new(wire.to(), psn, Body::Acknowledge(aeth)), 0, |_| {})
            }
        }
    }

    /// Returns the acknowledgement for a Fluxline peer; `bits`, all zero, become the map of held
    /// frames.
    pub fn selective<'a>(&self, credit_bytes: u64, bits: &'a mut [u8]) -> Selective<'a> {
        Selective {
            expected: self.order.expected_psn(),
            question: 0,
            answer: self.acknowledgement.question,
            refused: self.refused,
            credit_bytes,
            marked: self.acknowledgement.marked,
            held: self.order.map(bits),
        }
    }

    /// Returns the acknowledgement of the standard: all frames before the expected one came.
    fn standard(&self) -> (Psn, Aeth) {
        let credits = CreditCode::at_most(self.executor.buffers() as u32);
        let syndrome = Syndrome::Ack(credits);
        (self.order.expected_psn().minus(1), Aeth { syndrome, msn: self.msn() })
    }

    /// Returns the count of requests done.
    pub fn msn(&self) -> Msn {
        Msn::new(self.executor.messages)
    }

    /// Adds a buffer for a message.
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
