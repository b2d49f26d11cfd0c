//! One connection: what it asks, what it answers, and whether its peer is alive.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use super::StaticRemote;
use super::context::{CompletionQueue, Context};
use super::counters::ConnectionCounters;
use super::execute::Answer;
use super::frames::{Setup, WINDOW, held_bytes_max};
use super::posted::Terms;
use super::regions::{Granted, Regions};
use super::requester::Requester;
use super::responder::{Responder, is_request};
use super::wire::{Ends, Wire};
use crate::fabric::{Completion, EndpointId, Key, Name, Operation, Reliability, RemoteId, Status};
use crate::port::Port;
use crate::roce::{
    Aeth, AtomicAckEth, Body, Headers, Packet, Psn, QueuePair, ReadPart, Syndrome, Transport,
};
use crate::{Moment, Span};

/// Frames that a connection sends before the next one has its turn.
const QUANTUM: usize = 64;
/// The wait for the answer to a set-up request before it is repeated.
pub(super) const ASK_AGAIN: Span = Span::from_ms(20);

/// A peer that was not asked so often, at different times, is not gone.
const QUESTIONS_MIN: u32 = 3;

/// A region that was asked for.
pub(super) struct PendingImport {
    pub request: u32,
    pub remote: RemoteId,
    pub name: Name,
    pub key: Key,
    pub sent: Option<Moment>,
}

pub(super) struct Connection {
    pub id: EndpointId,
    pub peer_name: String,
    pub reliability: Reliability,
    /// Own queue pair and the peer's.
    pub pairs: (QueuePair, QueuePair),
    pub ends: Ends,
    pub checked: bool,
    /// Between Fluxline ends; else the standard and nothing more.
    pub selective: bool,
    /// The connecting end's random number, which tells this connection from others.
    pub nonce: u64,
    /// The peer made the connection.
    pub is_accepted: bool,
    pub requester: Requester,
    pub responder: Responder,
    pub granted: Vec<Granted>,
    pub asked: VecDeque<PendingImport>,
    /// A static peer's regions.
    pub remotes: Vec<StaticRemote>,
    pub counters: ConnectionCounters,
    /// The last time that a frame of the peer came.
    heard: Moment,
    /// The last time that this side looked at the clock.
    looked: Moment,
    /// Questions to the peer since it was heard.
    unanswered: u32,
    /// The last question among these.
    counted_at: Moment,
    /// The peer has used the connection, so that it knows the length of frames.
    settled: bool,
    probed: Option<Moment>,
}

/// The beginning of a connection.
pub(super) struct Start {
    pub id: EndpointId,
    pub peer_name: String,
    pub reliability: Reliability,
    pub pairs: (QueuePair, QueuePair),
    pub ends: Ends,
    pub checked: bool,
    pub nonce: u64,
    pub terms: Terms,
    /// The peer's first PSN, where known.
    pub peer_first: Option<Psn>,
    pub now: Moment,
}

pub(super) fn transport_of(reliability: Reliability) -> Transport {
    match reliability {
        Reliability::Reliable => Transport::Reliable,
        Reliability::Unreliable => Transport::Unreliable,
    }
}

impl Connection {
    pub fn new(start: Start) -> Connection {
        let Start { id, terms, reliability, .. } = start;
        let kind = (transport_of(reliability), terms.selective);
        let answer_bytes = terms.shape.answer_bytes();
        Connection {
            id,
            peer_name: start.peer_name,
            reliability,
            pairs: start.pairs,
            ends: start.ends,
            checked: start.checked,
            selective: terms.selective,
            nonce: start.nonce,
            is_accepted: false,
            requester: Requester::new(id, &terms),
            responder: Responder::new(id, kind, start.peer_first, answer_bytes),
            granted: Vec::new(),
            asked: VecDeque::new(),
            remotes: Vec::new(),
            counters: ConnectionCounters::default(),
            heard: start.now,
            looked: start.now,
            unanswered: 0,
            counted_at: start.now,
            settled: false,
            probed: None,
        }
    }

    pub fn connected(&self) -> Completion {
        let (endpoint, peer) = (self.id, self.peer_name.clone());
        Completion::Connected { endpoint, peer, reliability: self.reliability }
    }

    /// Returns true when the peer has not answered the last question.
    fn is_silent(&self) -> bool {
        self.probed.is_some_and(|probed| probed > self.heard)
    }

    /// A frame of the peer's has come.
    pub fn hear(&mut self, now: Moment) {
        if self.is_silent() {
            // The silence is over: what was lost in it need not wait as long as it lasted.
            self.requester.silence_ended();
        }
        self.heard = now;
        self.unanswered = 0;
        self.settled = true;
    }

    /// The peer tries shorter frames, since longer ones did not come through one way or the other.
    pub fn shorten(&mut self, frame_bytes: usize) {
        if !self.settled && frame_bytes < self.requester.frame_bytes() {
            self.requester.shorten(frame_bytes);
            self.responder.executor.payload_bytes = self.requester.answer_bytes() as usize;
        }
    }

    /// Does with a packet of the standard what it says. `Err`: the connection is over.
    pub fn take(
        &mut self,
        now: Moment,
        packet: &Packet<'_>,
        (bytes, marked): (&[u8], bool),
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        self.hear(now);
        let psn = packet.headers().psn;
        let of_ours = packet.opcode().transport() == transport_of(self.reliability);
        if self.reliability == Reliability::Unreliable
            && !(of_ours && is_request(&packet.headers().body))
        {
            self.counters.frames_foreign += 1;
        }
        match packet.headers().body {
            Body::Acknowledge(aeth) => return self.acknowledged(now, psn, aeth, completions),
            Body::AtomicAcknowledge(_, AtomicAckEth { original }) => {
                self.requester.atomic_answered(now, psn, original, completions);
            }
            Body::ReadResponse(ReadPart::Only(_)) => {
                self.requester.read_answered(now, psn, packet.payload(), completions);
            }
            // Of more than one frame none is ever asked for.
            Body::ReadResponse(_) => {}
            Body::CongestionNotification => self.requester.congested(),
            _ if of_ours => {
                let Connection { responder, granted, counters, .. } = self;
                let mut context = Context { now, regions, granted, completions, counters };
                responder.take(packet, (bytes, marked), &mut context);
            }
            _ => {}
        }
        Ok(())
    }

    fn acknowledged(
        &mut self,
        now: Moment,
        psn: Psn,
        aeth: Aeth,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        self.counters.acknowledgements_received += 1;
        match aeth.syndrome {
            Syndrome::Ack(_) => self.requester.acknowledged(now, psn, completions),
            Syndrome::RnrNak(timer) => {
                self.requester.not_ready(now, psn, timer.span(), completions);
            }
            Syndrome::Nak(code) => return self.requester.nak(now, psn, code, completions),
        }
        Ok(())
    }

    /// Nothing more will come: what waits for another frame is decided.
    pub fn settle(&mut self, now: Moment, regions: &Regions, completions: &mut CompletionQueue) {
        let Connection { responder, granted, counters, .. } = self;
        responder.settle(&mut Context { now, regions, granted, completions, counters });
    }

    /// Does what is due by time. `Err`: the connection is over.
    pub fn on_time(
        &mut self,
        now: Moment,
        death: Span,
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        let absent = now.since(self.looked);
        self.looked = now;
        if absent > Span::from_ns(death.as_ns() / 2) {
            self.requester.was_absent(absent, now);
        }
        // Who does not poll hears nobody: the peer is asked several times before it is gone.
        let was_asked = self.unanswered >= QUESTIONS_MIN;
        if self.selective && was_asked && now.since(self.heard) > death {
            return Err(Status::PeerGone);
        }
        let Connection { responder, granted, counters, .. } = self;
        let mut context = Context { now, regions, granted, completions, counters };
        responder.on_time(&mut context);
        // Nothing came forward for long: with a peer that talks all the while, it is the link.
        let gone = !self.selective || self.is_silent();
        let dead = if gone { Status::PeerGone } else { Status::Transport };
        self.requester.on_time(now, death).map_err(|_| dead)
    }

    /// Returns when `on_time` or `send` has work although no frame arrives.
    pub fn deadline(&self, now: Moment, death: Span) -> Option<Moment> {
        let alive = self.selective.then(|| self.probe_at(death));
        let asked = self.asked.front().and_then(|of| of.sent).map(|sent| sent + ASK_AGAIN);
        let times = [alive, asked, self.requester.deadline(now), self.responder.deadline()];
        times.into_iter().flatten().min()
    }

    /// Questions that follow each other at once are one.
    fn count_question(&mut self, now: Moment, death: Span) {
        if now.since(self.counted_at.max(self.heard)) >= Span::from_ns(death.as_ns() / 8) {
            self.unanswered = self.unanswered.saturating_add(1);
            self.counted_at = now;
        }
    }

    fn probe_at(&self, death: Span) -> Moment {
        let silence = Span::from_ns(death.as_ns() / 8);
        self.probed.unwrap_or(self.heard).max(self.heard) + silence
    }

    /// Sends what is due, a quantum of it; says how many frames.
    pub fn send<P: Port>(
        &mut self,
        now: Moment,
        (credit_bytes, death, acknowledgements_wait): (u64, Span, bool),
        port: &mut P,
        completions: &mut CompletionQueue,
    ) -> usize {
        let Connection { requester, responder, ends, counters, asked, .. } = self;
        let mut wire = Wire { port, ends, checked: self.checked, to: self.pairs.1 };
        let mut sent = ask(now, asked, &mut wire);
        let answer_bytes = requester.answer_bytes();
        sent +=
            answer(&mut responder.answers, (answer_bytes, responder.executor.messages), &mut wire);
        let held_bytes = held_bytes_max(requester.frame_bytes());
        if responder.acknowledge && !acknowledgements_wait {
            let sent_now =
                acknowledge(responder, (self.selective, credit_bytes, held_bytes), &mut wire);
            responder.acknowledge = !sent_now;
            counters.acknowledgements_sent += u64::from(sent_now);
        }
        sent += requester.pump(now, &mut wire, QUANTUM, completions, counters);
        if self.selective && (self.requester.wants_to_ask() || self.probe_at(death) <= now) {
            // Behind all frames of this turn, so that the answer is about them too.
            let mut bits = [0; WINDOW as usize / 8];
            let mut ack = self.responder.selective(credit_bytes, &mut bits[..held_bytes]);
            ack.question = self.requester.ask(now);
            let mut wire = Wire { port, ends: &self.ends, checked: self.checked, to: self.pairs.1 };
            wire.selective(&ack);
            self.probed = Some(now);
            self.count_question(now, death);
        }
        sent
    }

    /// It is over: all that waits is flushed, then `status` says why.
    pub fn end(&mut self, status: Status, completions: &mut CompletionQueue) {
        self.requester.flush(completions);
        let endpoint = self.id;
        for tag in self.responder.executor.unused() {
            let (operation, status) = (Operation::Receive, Status::Flushed);
            completions.push_back(Completion::Done { endpoint, tag, operation, status, value: 0 });
        }
        for asked in self.asked.drain(..) {
            let (remote, status) = (asked.remote, Status::Flushed);
            completions.push_back(Completion::Imported { remote, status, bytes: 0 });
        }
        completions.push_back(Completion::Broken { endpoint, status });
    }
}

/// Asks for regions, again where no answer came.
fn ask<P: Port>(now: Moment, asked: &mut VecDeque<PendingImport>, wire: &mut Wire<'_, P>) -> usize {
    let due = |of: &PendingImport| of.sent.is_none_or(|sent| now.since(sent) >= ASK_AGAIN);
    let mut sent = 0;
    for of in asked.iter_mut().filter(|of| due(of)) {
        let setup = Setup::Import { request: of.request, key: of.key, name: of.name.as_str() };
        if !wire.setup(&setup, 0) {
            break;
        }
        of.sent = Some(now);
        sent += 1;
    }
    sent
}

/// Sends answers as far as there is room; a long one frame by frame.
fn answer<P: Port>(
    answers: &mut VecDeque<Answer>,
    (payload_bytes, messages): (u64, u32),
    wire: &mut Wire<'_, P>,
) -> usize {
    let mut sent = 0;
    let syndrome = Syndrome::Ack(crate::roce::CreditCode::UNLIMITED);
    let aeth = Aeth { syndrome, msn: crate::roce::Msn::new(messages) };
    while let Some(front) = answers.front_mut() {
        let left = match front {
            Answer::Word { psn, value } => {
                let body = Body::AtomicAcknowledge(aeth, AtomicAckEth { original: *value });
                if !wire.packet(&Headers::new(wire.to, *psn, body), 0, |_| {}) {
                    return sent;
                }
                0
            }
            Answer::Syndrome(psn, syndrome) => {
                let body = Body::Acknowledge(Aeth { syndrome: *syndrome, msn: aeth.msn });
                if !wire.packet(&Headers::new(wire.to, *psn, body), 0, |_| {}) {
                    return sent;
                }
                0
            }
            Answer::Read { psn, from, at } => {
                let left = from.bytes() - *at;
                let count = left.min(payload_bytes);
                let part = match (*at == 0, left <= payload_bytes) {
                    (true, true) => ReadPart::Only(aeth),
                    (true, false) => ReadPart::First(aeth),
                    (false, true) => ReadPart::Last(aeth),
                    (false, false) => ReadPart::Middle,
                };
                let headers = Headers::new(wire.to, *psn, Body::ReadResponse(part));
                if !wire.packet(&headers, count as usize, |into| from.copy(*at, into)) {
                    return sent;
                }
                *psn = psn.plus(1);
                *at += count;
                left - count
            }
        };
        sent += 1;
        if left == 0 {
            answers.pop_front();
        }
    }
    sent
}

/// Tells what came; `false`: the port has no room.
fn acknowledge<P: Port>(
    responder: &Responder,
    (selective, credit_bytes, held_bytes): (bool, u64, usize),
    wire: &mut Wire<'_, P>,
) -> bool {
    if selective {
        let mut bits = [0; WINDOW as usize / 8];
        return wire.selective(&responder.selective(credit_bytes, &mut bits[..held_bytes]));
    }
    let (psn, aeth) = responder.standard();
    wire.packet(&Headers::new(wire.to, psn, Body::Acknowledge(aeth)), 0, |_| {})
}
