//! The program of the cards: from a send token to data in the peer's memory.

use super::card::{Fetch, Task};
use super::connection::{Accepted, Coming, Early, Letter, Piece};
use super::packet::{Body, Content, Packet};
use super::{Entry, Network, OfPort, Step};
use crate::Duration;
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Class, Interconnect, Refusal, Refused, Report, SendId};

impl<C: Content> Network<C> {
    /// Takes a send token of a host.
    pub(super) fn queue(
        &mut self,
        node: u32,
        content: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        let target = content.receiver();
        let gm = self.config.gm;
        let card = &mut self.cards[node as usize];
        if target >= self.config.nodes || card.is_dead {
            return Err(Refused { frame: content, why: Refusal::Never });
        }
        if card.tokens >= gm.tokens {
            card.has_refused = true;
            return Err(Refused { frame: content, why: Refusal::Full });
        }
        card.tokens += 1;
        self.counts.sent += 1;
        let message = self.counts.sent;
        let letter = Letter { message, bytes: content.length(), taken: 0 };
        let inline = Some(letter.bytes).filter(|&bytes| bytes <= gm.inline_bytes).unwrap_or(0);
        let outbound = card.outbound.entry(target).or_default();
        if outbound.letters.is_empty() && outbound.unacknowledged.is_empty() {
            outbound.wait = gm.resend;
        }
        outbound.letters.push_back(letter);
        self.contents.insert(message, content);
        let there = card.bus.store(agenda.now(), gm.token_bytes + inline, Duration::ZERO);
        agenda.schedule(there, Entry::Card { node, step: Step::Token });
        Ok(SendId(message))
    }

    /// Does a step of a card that is due.
    pub(super) fn step(&mut self, node: u32, step: Step, agenda: &mut impl Schedule<Entry>) {
        if self.cards[node as usize].is_dead {
            return;
        }
        match step {
            Step::Token => self.pump(node, agenda),
            Step::Lanai => self.done(node, agenda),
            Step::Fetched => self.fetched(node, agenda),
            Step::Landed => self.landed(node),
            Step::Overdue { peer } => self.overdue(node, peer, agenda),
        }
    }

    /// Lets the LANai do a task after its others.
    fn lanai(&mut self, node: u32, cycles: u32, task: Task, agenda: &mut impl Schedule<Entry>) {
        let span = self.config.card.lanai.span(u64::from(cycles));
        let card = &mut self.cards[node as usize];
        card.free = card.free.max(agenda.now()) + span;
        card.tasks.push_back(task);
        agenda.schedule(card.free, Entry::Card { node, step: Step::Lanai });
    }

    /// Acts on the end of the LANai's task.
    fn done(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        match self.cards[node as usize].tasks.pop_front() {
            Some(Task::Begin(fetch)) => self.fetch(node, fetch, agenda),
            Some(Task::Record) => {
                self.cards[node as usize].fetch = None;
                self.pump(node, agenda);
            }
            Some(Task::Receive(packet)) => self.receive(node, packet, agenda),
            Some(Task::Acknowledge { to, complains }) => {
                let Some(inbound) = self.cards[node as usize].inbound.get(&to) else { return };
                let (life, next) = (inbound.life(), inbound.expected);
                let body = Body::Ack { next, complains };
                self.inject(Packet { source: node, target: to, life, body }, agenda);
            }
            None => {}
        }
    }

    /// Begins the next packet, unless one is being made.
    pub(super) fn pump(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        let gm = self.config.gm;
        let card = &mut self.cards[node as usize];
        if card.fetch.is_some() {
            return;
        }
        let Some(peer) = card.next_ready(gm.window) else { return };
        let Some(outbound) = card.outbound.get(&peer) else { return };
        let Some(coming) = outbound.coming(gm.piece_bytes) else { return };
        let fetch = Fetch { peer, life: outbound.life };
        card.last = peer;
        card.fetch = Some(fetch);
        if coming.is_first {
            self.lanai(node, gm.send_cycles, Task::Begin(fetch), agenda);
        } else {
            self.fetch(node, fetch, agenda);
        }
    }

    /// Fetches the data of a packet from memory, unless the host has stored it into the card.
    fn fetch(&mut self, node: u32, fetch: Fetch, agenda: &mut impl Schedule<Entry>) {
        let card = &mut self.cards[node as usize];
        let outbound = card.outbound.get(&fetch.peer).filter(|of| of.life == fetch.life);
        let coming = outbound.and_then(|of| of.coming(self.config.gm.piece_bytes));
        let inline = self.config.gm.inline_bytes;
        let is_there = |of: &Coming| of.is_first && of.is_last && of.bytes <= inline;
        // Nothing is fetched for a connection that was given up.
        let there = match coming.filter(|coming| inline == 0 || !is_there(coming)) {
            Some(coming) => card.bus.read(agenda.now(), coming.bytes.max(1)),
            None => agenda.now(),
        };
        agenda.schedule(there, Entry::Card { node, step: Step::Fetched });
    }

    /// Sends the packet whose data is in the card.
    fn fetched(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        let gm = self.config.gm;
        let card = &mut self.cards[node as usize];
        let Some(Fetch { peer, life }) = card.fetch else { return };
        let outbound = card.outbound.get_mut(&peer).filter(|of| of.life == life);
        let piece = outbound.and_then(|of| of.cut(gm.piece_bytes, agenda.now()));
        if let Some(piece) = piece {
            let body = Body::Piece(piece);
            self.inject(Packet { source: node, target: peer, life, body }, agenda);
            self.watch(node, peer, agenda);
        }
        if piece.is_some_and(|piece| piece.is_last) {
            return self.lanai(node, gm.record_cycles, Task::Record, agenda);
        }
        let outbound = &self.cards[node as usize].outbound;
        let goes_on = |of: &&super::connection::Outbound| of.life == life && of.is_ready(gm.window);
        if piece.is_some() && outbound.get(&peer).filter(goes_on).is_some() {
            return self.fetch(node, Fetch { peer, life }, agenda);
        }
        self.cards[node as usize].fetch = None;
        self.pump(node, agenda);
    }

    /// Sends a packet on the port with the shortest queue. A packet that no cable can carry is
    /// lost; its connection repeats it.
    fn inject(&mut self, packet: Packet, agenda: &mut impl Schedule<Entry>) {
        let node = packet.source;
        let ports = self.planes.len();
        let card = &mut self.cards[node as usize];
        let first = card.port + 1;
        let queue = |port: &usize| self.planes[*port].waiting(node, 0);
        let shortest = (first..first + ports).map(|port| port % ports).min_by_key(queue);
        let Some(port) = shortest else { return };
        card.port = port;
        let mut agenda = OfPort { whole: agenda, port: port as u8 };
        _ = self.planes[port].send(node, packet, &mut agenda);
    }

    /// Lets the LANai take the packets that have arrived at a port. The other reports of the port
    /// say nothing to a card: it knows a packet by its acknowledgement alone.
    pub(super) fn hear(&mut self, port: usize, agenda: &mut impl Schedule<Entry>) {
        let gm = self.config.gm;
        while let Some(report) = self.planes[port].next_report() {
            let Report::Received { node, .. } = report else { continue };
            let mut of_port = OfPort { whole: &mut *agenda, port: port as u8 };
            let packet = self.planes[port].take(node, Class::Request, &mut of_port);
            let is_alive = !self.cards[node as usize].is_dead;
            let Some(packet) = packet.filter(|_| is_alive) else { continue };
            let cycles = match packet.body {
                Body::Piece(piece) if piece.is_first => gm.receive_cycles,
                Body::Piece(_) => gm.packet_cycles,
                Body::Ack { .. } => gm.ack_cycles,
            };
            self.lanai(node, cycles, Task::Receive(packet), agenda);
        }
    }

    /// Acts on a packet.
    fn receive(&mut self, node: u32, packet: Packet, agenda: &mut impl Schedule<Entry>) {
        let Packet { source, life, body, .. } = packet;
        let piece = match body {
            Body::Piece(piece) => piece,
            Body::Ack { next, complains } => {
                self.acknowledged(node, Ack { peer: source, life, next, complains }, agenda);
                return;
            }
        };
        let early = if self.planes.len() > 1 { Early::Waits } else { Early::IsDropped };
        let inbound = self.cards[node as usize].inbound.entry(source).or_default();
        let Some(Accepted { pieces, complains }) = inbound.accept(life, piece, early) else {
            return;
        };
        pieces.into_iter().for_each(|piece| self.land(node, piece, agenda));
        let cycles = self.config.gm.ack_cycles;
        self.lanai(node, cycles, Task::Acknowledge { to: source, complains }, agenda);
    }

    /// Writes the data of a packet into memory, and an event behind the last one.
    fn land(&mut self, node: u32, piece: Piece, agenda: &mut impl Schedule<Entry>) {
        let card = &mut self.cards[node as usize];
        let mut there = card.bus.write(agenda.now(), piece.bytes.max(1));
        if piece.is_last {
            there = card.bus.write(there, self.config.gm.event_bytes);
        }
        card.landing.push_back(piece);
        agenda.schedule(there, Entry::Card { node, step: Step::Landed });
    }

    /// Delivers a message with its last packet, unless its sender gave it up.
    fn landed(&mut self, node: u32) {
        let piece = self.cards[node as usize].landing.pop_front();
        let Some(piece) = piece.filter(|piece| piece.is_last) else { return };
        let Some(content) = self.contents.remove(&piece.message) else { return };
        self.counts.delivered += 1;
        self.arrived[node as usize].push_back(content);
        self.reports.push_back(Report::Received { node, class: Class::Request });
    }

    /// Ends the messages that a peer has acknowledged.
    fn acknowledged(&mut self, node: u32, ack: Ack, agenda: &mut impl Schedule<Entry>) {
        let gm = self.config.gm;
        let card = &mut self.cards[node as usize];
        let outbound = card.outbound.get_mut(&ack.peer).filter(|of| of.life == ack.life);
        let Some(outbound) = outbound else { return };
        let before = outbound.unacknowledged.len();
        let ended = outbound.acknowledged(ack.next, agenda.now());
        if outbound.unacknowledged.len() < before {
            outbound.wait = gm.resend;
        }
        for message in ended {
            card.tokens -= 1;
            card.bus.write(agenda.now(), gm.event_bytes);
            self.reports.push_back(Report::Done { node, send: SendId(message) });
        }
        self.offer(node);
        if ack.complains {
            self.go_back(node, ack.peer, agenda);
        }
        self.pump(node, agenda);
    }

    /// Reports space if a message was rejected and a token is free.
    fn offer(&mut self, node: u32) {
        let card = &mut self.cards[node as usize];
        if card.tokens < self.config.gm.tokens && std::mem::take(&mut card.has_refused) {
            self.reports.push_back(Report::Space { node });
        }
    }

    /// Starts the timer of a connection, unless it runs.
    fn watch(&mut self, node: u32, peer: u32, agenda: &mut impl Schedule<Entry>) {
        let outbound = self.cards[node as usize].outbound.entry(peer).or_default();
        if !std::mem::replace(&mut outbound.is_timed, true) {
            let at = outbound.progress + outbound.wait;
            agenda.schedule(at, Entry::Card { node, step: Step::Overdue { peer } });
        }
    }

    /// Repeats the packets of a connection without progress, or gives it up.
    fn overdue(&mut self, node: u32, peer: u32, agenda: &mut impl Schedule<Entry>) {
        let gm = self.config.gm;
        let Some(outbound) = self.cards[node as usize].outbound.get_mut(&peer) else { return };
        outbound.is_timed = false;
        if outbound.unacknowledged.is_empty() {
            return;
        }
        let idle = agenda.now().since(outbound.progress);
        let mut next = outbound.progress + outbound.wait;
        if idle >= gm.give_up {
            return self.give_up(node, peer, agenda);
        }
        if next <= agenda.now() {
            // The packets that still wait in the card are not overdue.
            let waits = self.planes.iter().any(|plane| plane.waiting(node, 0) > 0);
            let wait = outbound.wait + if waits { Duration::ZERO } else { outbound.wait };
            outbound.wait = if wait < gm.give_up { wait } else { gm.give_up };
            next = agenda.now() + outbound.wait;
            if !waits {
                self.go_back(node, peer, agenda);
            }
        }
        let outbound = self.cards[node as usize].outbound.entry(peer).or_default();
        outbound.is_timed = true;
        let at = next.min(outbound.progress + gm.give_up).max(agenda.now());
        agenda.schedule(at, Entry::Card { node, step: Step::Overdue { peer } });
    }

    /// Sends all packets that are not acknowledged again.
    fn go_back(&mut self, node: u32, peer: u32, agenda: &mut impl Schedule<Entry>) {
        let Some(outbound) = self.cards[node as usize].outbound.get(&peer) else { return };
        let (life, pieces) = (outbound.life, outbound.unacknowledged.clone());
        for piece in pieces {
            self.counts.repeated += 1;
            let body = Body::Piece(piece);
            self.inject(Packet { source: node, target: peer, life, body }, agenda);
        }
    }

    /// Ends all messages to a peer as lost.
    pub(super) fn give_up(&mut self, node: u32, peer: u32, agenda: &mut impl Schedule<Entry>) {
        let card = &mut self.cards[node as usize];
        let Some(outbound) = card.outbound.get_mut(&peer) else { return };
        for message in outbound.give_up() {
            card.tokens -= 1;
            self.counts.lost += u64::from(self.contents.remove(&message).is_some());
            self.reports.push_back(Report::Lost { node, send: SendId(message) });
        }
        self.offer(node);
        self.pump(node, agenda);
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Ack {
    peer: u32,
    life: u32,
    next: u64,
    complains: bool,
}
