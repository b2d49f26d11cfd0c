//! The side of a connection that answers: it does each request once and in order, whatever the
//! network does to frames.

mod run;

pub(super) use self::run::TrainRest;
use super::answer::{Answer, Answers};
use super::config::{AwaitedRepeat, RepeatReason};
use super::context::{Context, ReceivedFrame};
use super::execute::{Check, Executor, Outcome};
use super::frames::{Refused, Selective, WINDOW};
use super::peer::PeerKind;
use super::receive_order::ReceiveOrder;
use super::repeats::{Age, Repeats};
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
    /// For a reliable peer of the standard: its repeated frames, and its restarts.
    repeats: Option<Repeats>,
    awaited: Option<RepeatReason>,
    heard: Moment,
    unreliable: UnreliableOrder,
    pub executor: Executor,
    pub answers: Answers,
    pub acknowledgement: Acknowledgement,
}

/// Frames that request no acknowledgement are acknowledged after this time, if not together with
/// others before. Chosen: ten times the way of a train, a twentieth of the shortest timeout.
const ACKNOWLEDGE_WITHIN: Span = Span::from_ns(100_000);

/// The next acknowledgement for the peer.
#[derive(Default)]
pub(super) struct Acknowledgement {
    pub is_due: bool,
    /// Since when frames wait for an acknowledgement that is not due.
    owed_since: Option<Moment>,
    /// It was due in the last turn, and the port had no room for it.
    pub is_late: bool,
    /// The peer's last question, which the acknowledgement answers.
    question: u32,
    /// Frames so far that a switch had marked.
    marked: u32,
}

impl Acknowledgement {
    /// Notes frames that a Fluxline peer need not know of at once.
    pub fn owe(&mut self, now: Moment) {
        self.owed_since.get_or_insert(now);
    }

    /// Makes the acknowledgement due if frames have waited for it until now.
    pub fn on_time(&mut self, now: Moment) {
        self.is_due |= self.owed_since.is_some_and(|since| since + ACKNOWLEDGE_WITHIN <= now);
    }

    /// Makes the acknowledgement due if frames wait for it.
    pub fn hurry(&mut self) {
        self.is_due |= self.owed_since.is_some();
    }

    /// Notes that an acknowledgement was tried; `is_sent`: the port had room for it.
    pub fn tried(&mut self, is_sent: bool) {
        (self.is_due, self.is_late) = (!is_sent, !is_sent);
        if is_sent {
            self.owed_since = None;
        }
    }

    /// Returns when an acknowledgement becomes due although no frame comes.
    pub fn deadline(&self) -> Option<Moment> {
        self.owed_since.filter(|_| !self.is_due).map(|since| since + ACKNOWLEDGE_WITHIN)
    }

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
            repeats: first
                .filter(|_| transport == Transport::Reliable && peer_kind == PeerKind::Standard)
                .map(Repeats::new),
            awaited: None,
            heard: Moment::default(),
            unreliable: UnreliableOrder::new(peer_kind, first),
            executor: Executor::new(id, transport, peer_kind, payload_bytes),
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
        self.heard = context.now;
        if !self.is_of_this_numbering(frame, context) {
            return;
        }
        let expected = self.order.expected();
        let ahead = frame.packet.headers().psn.distance_from(self.order.expected_psn());
        self.note_acknowledgement(frame, ahead, context.now);
        match ahead {
            0 => {
                let is_done = self.step(frame.packet, context);
                // A Fluxline peer learns of a refusal at once, another one of each request done.
                self.acknowledgement.is_due |= is_done != self.peer_kind.is_fluxline();
                if is_done {
                    if let Some(repeats) = &mut self.repeats {
                        repeats.done(frame, self.order.expected() - expected);
                    }
                    self.catch_up(context);
                } else if self.refused == Some(Refused::NotReady) && self.repeats.is_none() {
                    self.order.hold(self.order.expected(), frame.bytes);
                }
            }
            1.. if self.peer_kind == PeerKind::Standard => {
                context.counters.frames_ahead += 1;
                self.awaited.get_or_insert(RepeatReason::Missing);
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

    /// Decides when the peer learns of a frame that is this far ahead of the expected one.
    fn note_acknowledgement(&mut self, frame: &ReceivedFrame<'_>, ahead: i32, now: Moment) {
        let acknowledgement = &mut self.acknowledgement;
        if self.peer_kind == PeerKind::Standard {
            // It reads no map of held frames: to it, a NAK is the answer.
            acknowledgement.is_due |= self.repeats.is_none() || ahead < 0;
            return;
        }
        let is_regular = ahead == 0 && !frame.is_marked && !self.order.holds_frames();
        if is_regular && !frame.packet.headers().acknowledge_request {
            acknowledgement.owe(now);
        } else {
            acknowledgement.is_due = true;
        }
    }

    /// Returns false for a frame that may be one of a new numbering. It is not acknowledged, so a
    /// peer that restarted repeats it. Only frames with right key and bounds begin a numbering.
    fn is_of_this_numbering(
        &mut self,
        frame: &ReceivedFrame<'_>,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(repeats) = &mut self.repeats else { return true };
        let age = repeats.age_of(frame, self.order.expected_psn());
        if age == Age::Fits {
            return true;
        }
        let psn = frame.packet.headers().psn;
        if self.executor.check(psn, frame.packet, context) != Check::Fits {
            context.counters.frames_refused += 1;
            return false;
        }
        if age == Age::Restarted {
            self.restart(context);
            return true;
        }
        if age == Age::DoubtfulFirst {
            repeats.doubt();
        }
        context.counters.frames_doubtful += 1;
        self.awaited.get_or_insert(RepeatReason::Missing);
        false
    }

    /// Expects the first frame of a peer that began anew.
    fn restart(&mut self, context: &mut Context<'_>) {
        let Some(repeats) = &mut self.repeats else { return };
        self.order = ReceiveOrder::new(repeats.restart());
        (self.refused, self.gap_reported, self.awaited) = (None, false, None);
        self.answers = Answers::default();
        self.executor.restart();
        context.counters.restarts += 1;
    }

    /// Returns the frame that a peer of the standard has to repeat, if there is one.
    pub fn awaited_repeat(&self) -> Option<AwaitedRepeat> {
        self.awaited.map(|reason| AwaitedRepeat { reason, heard: self.heard })
    }

    /// Does the expected request. Returns false when it was not done and stays expected.
    fn step(&mut self, packet: &Packet<'_>, context: &mut Context<'_>) -> bool {
        let is_empty = Executor::is_empty_write(packet);
        // A peer of the standard sends the next request only after it was set up anew.
        if let Some(Refused::For(status)) = self.refused
            && !is_empty
            && self.repeats.is_none()
        {
            // Refused for good: only an empty write may follow. The first refusal may be lost.
            self.answer_refused(status);
            return false;
        }
        let expected = self.order.expected();
        match self.executor.step(expected, packet, &mut self.answers, context) {
            Outcome::Next(count) => {
                self.order.advance(count);
                (self.refused, self.gap_reported, self.awaited) = (None, false, None);
                if self.repeats.is_some() && !is_empty {
                    context.counters.frames_expected += u64::from(count);
                }
                true
            }
            Outcome::Busy => {
                context.counters.frames_put_off += u64::from(self.repeats.is_some());
                false
            }
            Outcome::NotReady => {
                context.counters.frames_put_off += u64::from(self.repeats.is_some());
                self.awaited = Some(RepeatReason::NoRoom);
                // The peer knows that it has to repeat later frames, so their gap is not reported.
                self.gap_reported = true;
                self.answer(Syndrome::RnrNak(RnrTimer::at_least(NOT_READY_PAUSE)));
                self.refused = Some(Refused::NotReady);
                false
            }
            Outcome::Refused(status) => {
                context.counters.frames_refused += 1;
                self.refused = Some(Refused::For(status));
                self.awaited = Some(RepeatReason::Refused);
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
        self.acknowledgement.on_time(context.now);
        let waits = self.refused == Some(Refused::NotReady) && self.repeats.is_none();
        if waits && self.executor.may_go_on(context.now) {
            self.acknowledgement.is_due = true;
            self.catch_up(context);
        }
    }

    /// Returns when an acknowledgement becomes due, or a message that waits for a buffer is given
    /// up. A peer of the standard has the message itself, and repeats it.
    pub fn deadline(&self) -> Option<Moment> {
        let waits = self.refused == Some(Refused::NotReady) && self.repeats.is_none();
        let given_up = waits.then(|| self.executor.waits_until()).flatten();
        given_up.into_iter().chain(self.acknowledgement.deadline()).min()
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
