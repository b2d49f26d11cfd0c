//! One connection: its requests, its answers, and the liveness of its peer.

use alloc::vec::Vec;
use core::net::SocketAddr;

use super::congestion_notices::CongestionNotices;
use super::context::{CompletionQueue, Context, ReceivedFrame};
use super::counters::ConnectionCounters;
use super::frames::{WINDOW, held_bytes_max};
use super::liveness::Liveness;
use super::peer::{Peer, PeerKind};
use super::peer_regions::PeerRegions;
use super::posted::Terms;
use super::regions::{Granted, Regions};
use super::requester::Requester;
use super::responder::{Responder, TrainRest, is_request};
use super::wire::{IcrcCheck, Route, Wire};
use crate::fabric::{Completion, EndpointId, Operation, Reliability, Status};
use crate::port::{IncomingTrain, Port};
use crate::roce::{
    Aeth, AtomicAckEth, Body, Packet, Psn, QueuePair, ReadPart, Syndrome, Transport,
};
use crate::{Moment, Span};

/// Frames that a connection sends before the next one has its turn.
pub(super) const QUANTUM: usize = 64;

/// Trains are no longer than this, so that a socket that is not connected sends them.
const IDENTIFICATION_MAX: u16 = 128;

/// An open connection.
pub(super) struct Connection {
    pub id: EndpointId,
    pub peer: Peer,
    pub reliability: Reliability,
    pub route: Route,
    pub requester: Requester,
    pub responder: Responder,
    /// Own regions that the peer may use.
    pub granted: Vec<Granted>,
    pub peer_regions: PeerRegions,
    pub counters: ConnectionCounters,
    notices: CongestionNotices,
    liveness: Liveness,
}

/// The beginning of a connection.
pub(super) struct Start {
    pub id: EndpointId,
    pub peer: Peer,
    pub reliability: Reliability,
    pub route: Route,
    pub terms: Terms,
    /// The peer's first PSN, where known.
    pub peer_first: Option<Psn>,
    pub now: Moment,
}

/// One turn of sending, in which each connection of a node sends.
pub(super) struct SendTurn {
    pub now: Moment,
    /// Bytes that each peer may have in flight to this node.
    pub credit_bytes: u64,
    /// A peer that is silent for longer is gone.
    pub death: Span,
    /// Acknowledgements wait for a later turn.
    pub acknowledgements_wait: bool,
}

/// The acknowledgement of one turn.
struct PendingAcknowledgement<'a> {
    turn: &'a SendTurn,
    /// The longest map of held frames \[byte\].
    map_bytes: usize,
}

impl PendingAcknowledgement<'_> {
    /// Sends the acknowledgement if one is due and may leave in this turn. Without room in the port
    /// it is late, and leaves before the requests of the next turn.
    fn send<P: Port>(
        &self,
        responder: &mut Responder,
        wire: &mut Wire<'_, P>,
        counters: &mut ConnectionCounters,
    ) {
        if !responder.acknowledgement.is_due || self.turn.acknowledgements_wait {
            return;
        }
        let is_sent = responder.acknowledge(self.turn.credit_bytes, self.map_bytes, wire);
        responder.acknowledgement.tried(is_sent);
        counters.acknowledgements_sent += u64::from(is_sent);
    }
}

pub(super) fn transport_of(reliability: Reliability) -> Transport {
    match reliability {
        Reliability::Reliable => Transport::Reliable,
        Reliability::Unreliable => Transport::Unreliable,
    }
}

impl Connection {
    pub fn new(start: Start) -> Connection {
        let Start { id, peer, reliability, route, terms, peer_first, now } = start;
        let answer_bytes = terms.shape.answer_bytes();
        let transport = transport_of(reliability);
        Connection {
            id,
            reliability,
            route,
            requester: Requester::new(id, peer.kind, &terms),
            responder: Responder::new(id, transport, peer.kind, peer_first, answer_bytes),
            peer,
            granted: Vec::new(),
            peer_regions: PeerRegions::default(),
            counters: ConnectionCounters::default(),
            notices: CongestionNotices::default(),
            liveness: Liveness::new(now),
        }
    }

    pub fn connected(&self) -> Completion {
        let (endpoint, peer) = (self.id, self.peer.name.clone());
        Completion::Connected { endpoint, peer, reliability: self.reliability }
    }

    /// Returns true when the peer is configured and repeats frames that are not acknowledged.
    pub fn repeats_frames(&self) -> bool {
        self.reliability == Reliability::Reliable && self.peer.kind == PeerKind::Standard
    }

    #[inline]
    pub fn peer_address(&self) -> SocketAddr {
        self.route.ends.peer
    }

    /// Notes a frame of the peer's.
    pub fn hear(&mut self, now: Moment) {
        if self.liveness.is_silent() {
            // Frames that were lost in the silence need not wait for as long as it lasted.
            self.requester.silence_ended();
        }
        self.liveness.hear(now);
    }

    /// Makes frames shorter, because the peer's longer ones or the answers to them did not arrive.
    pub fn shorten(&mut self, frame_bytes: usize) {
        if !self.liveness.is_settled() && frame_bytes < self.requester.frame_bytes() {
            self.requester.shorten(frame_bytes);
            self.responder.executor.payload_bytes = self.requester.answer_bytes() as usize;
        }
    }

    /// Returns true when a packet can only be the peer's: a request within the window, or on an
    /// unreliable connection with a right key; or an answer to a request in flight.
    pub fn expects(
        &mut self,
        now: Moment,
        packet: &Packet<'_>,
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> bool {
        let Connection { responder, requester, granted, counters, .. } = self;
        let context = Context { now, regions, granted, completions, counters };
        match is_request(&packet.headers().body) {
            true => responder.expects(packet, &context),
            false => requester.awaits(packet.headers().psn),
        }
    }

    /// Returns the demands on the ICRCs of the peer's frames.
    pub fn icrc_check(&self) -> IcrcCheck {
        let is_fluxline = self.peer.kind.is_fluxline();
        IcrcCheck {
            is_required: self.route.checked,
            identification_max: if is_fluxline { IDENTIFICATION_MAX } else { u16::MAX },
        }
    }

    /// Takes the frames of a train from index `from` on that can be predicted; returns how many.
    pub fn take_run(
        &mut self,
        now: Moment,
        train: &IncomingTrain<'_>,
        from: usize,
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> usize {
        let Some(check) = self.route.ends.train_check(train, self.icrc_check()) else { return 0 };
        let Connection { responder, route, granted, counters, .. } = self;
        let mut context = Context { now, regions, granted, completions, counters };
        let rest = TrainRest { train, from, check: &check };
        let taken = responder.take_run(&rest, route.own_pair, &mut context);
        if taken > 0 {
            self.hear(now);
        }
        taken
    }

    /// Takes a packet of the standard. `Err`: the connection is over.
    pub fn take(
        &mut self,
        now: Moment,
        frame: &ReceivedFrame<'_>,
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        self.hear(now);
        let packet = frame.packet;
        let psn = packet.headers().psn;
        let of_ours = packet.opcode().transport() == transport_of(self.reliability);
        let is_request = is_request(&packet.headers().body);
        let is_foreign = match self.reliability {
            Reliability::Unreliable => !(of_ours && is_request),
            Reliability::Reliable if is_request => !of_ours,
            Reliability::Reliable => self.repeats_frames() && !self.requester.awaits(psn),
        };
        self.counters.frames_foreign += u64::from(is_foreign);
        match packet.headers().body {
            Body::Acknowledge(aeth) => return self.acknowledged(now, psn, aeth, completions),
            Body::AtomicAcknowledge(_, AtomicAckEth { original }) => {
                self.requester.atomic_answered(now, psn, original, completions);
            }
            Body::ReadResponse(ReadPart::Only(_)) => {
                self.requester.read_answered(now, psn, packet.payload(), completions);
            }
            // This side never asks for more than one frame holds.
            Body::ReadResponse(_) => {}
            Body::CongestionNotification => self.requester.congested(),
            _ if of_ours => {
                // A Fluxline peer reads the count of marks in acknowledgements. Queue pair 0 stands
                // for a peer to which nothing is sent.
                let takes_notices = self.peer.kind == PeerKind::Standard
                    && self.route.peer_pair != QueuePair::new(0);
                self.notices.note(frame.is_marked && takes_notices);
                let Connection { responder, granted, counters, .. } = self;
                let mut context = Context { now, regions, granted, completions, counters };
                responder.take(frame, &mut context);
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

    /// Decides about a frame that waits for another one, because none follows.
    pub fn settle(&mut self, now: Moment, regions: &Regions, completions: &mut CompletionQueue) {
        let Connection { responder, granted, counters, .. } = self;
        responder.settle(&mut Context { now, regions, granted, completions, counters });
    }

    /// Notes that the peer's host sent a frame back: no program receives there.
    pub fn refuse(&mut self, now: Moment) {
        self.liveness.refuse(now);
    }

    /// Does what is due by time. `Err`: the connection is over.
    pub fn on_time(
        &mut self,
        now: Moment,
        death: Span,
        regions: &Regions,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        let absent = self.liveness.look(now);
        if absent > Span::from_ns(death.as_ns() / 2) {
            self.requester.was_absent(absent, now);
        }
        if self.peer.kind.is_fluxline() && self.liveness.is_gone(now, death) {
            return Err(Status::PeerGone);
        }
        let Connection { responder, granted, counters, .. } = self;
        let mut context = Context { now, regions, granted, completions, counters };
        responder.on_time(&mut context);
        // No request came forward for long. If the peer still talks, the link is at fault.
        let is_gone = !self.peer.kind.is_fluxline() || self.liveness.is_silent();
        let dead = match is_gone {
            true => Status::PeerGone,
            false if self.requester.waits_for_long_frames() => Status::PathShrunk,
            false => Status::Transport,
        };
        self.requester.on_time(now, death).map_err(|_| dead)
    }

    /// Returns when `on_time` or `send` has work although no frame arrives.
    pub fn deadline(&self, now: Moment, death: Span) -> Option<Moment> {
        let question = self.peer.kind.is_fluxline().then(|| self.liveness.probe_at(death));
        let import = self.peer_regions.deadline();
        let notice = self.notices.deadline();
        let (request, answer) = (self.requester.deadline(now), self.responder.deadline());
        let times = [question, import, notice, request, answer];
        times.into_iter().flatten().min()
    }

    /// Sends what is due, at most a quantum of requests; returns how many frames.
    pub fn send<P: Port>(
        &mut self,
        turn: &SendTurn,
        port: &mut P,
        completions: &mut CompletionQueue,
    ) -> usize {
        let Connection { requester, responder, route, counters, peer_regions, notices, .. } = self;
        let mut wire = route.wire(port);
        let mut sent = peer_regions.send(turn.now, &mut wire);
        counters.notifications_sent += u64::from(notices.send(turn.now, &mut wire));
        let msn = responder.msn();
        sent += responder.answers.send(requester.answer_bytes(), msn, &mut wire);
        let map_bytes = held_bytes_max(requester.frame_bytes());
        let acknowledgement = PendingAcknowledgement { turn, map_bytes };
        if responder.acknowledgement.is_late {
            acknowledgement.send(responder, &mut wire, counters);
        }
        sent += requester.pump(turn.now, &mut wire, QUANTUM, completions, counters);
        // Behind the requests, so that it can leave in one train with them: it is shorter.
        acknowledgement.send(responder, &mut wire, counters);
        if self.peer.kind.is_fluxline()
            && (self.requester.wants_to_ask() || self.liveness.probe_at(turn.death) <= turn.now)
        {
            // After all frames of this turn, so that the answer covers them too.
            self.ask(turn, port);
        }
        sent
    }

    /// Asks the peer which frames have come. The question rides on an acknowledgement.
    fn ask<P: Port>(&mut self, turn: &SendTurn, port: &mut P) {
        let map_bytes = held_bytes_max(self.requester.frame_bytes());
        let mut bits = [0; WINDOW as usize / 8];
        let mut ack = self.responder.selective(turn.credit_bytes, &mut bits[..map_bytes]);
        ack.question = self.requester.ask(turn.now);
        self.route.wire(port).selective(&ack);
        self.liveness.probe(turn.now, turn.death);
    }

    /// Ends the connection: flushes all waiting work, then reports `status`.
    pub fn end(&mut self, status: Status, completions: &mut CompletionQueue) {
        self.requester.flush(completions);
        let endpoint = self.id;
        for tag in self.responder.executor.unused() {
            let (operation, status) = (Operation::Receive, Status::Flushed);
            completions.push_back(Completion::Done { endpoint, tag, operation, status, value: 0 });
        }
        self.peer_regions.flush(completions);
        completions.push_back(Completion::Broken { endpoint, status });
    }
}
