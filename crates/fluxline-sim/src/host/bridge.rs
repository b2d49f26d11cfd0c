//! The card between bus and link: latencies, the internal bus, packets under way in both
//! directions.

use std::collections::BTreeMap;

use super::config::{self, Posting};
use super::translation::Translations;
use super::{Counters, Handle, Host, Incoming, Out, Outcome, Report, RequestId, Step};
use crate::sci::{Command, NodeId, Status};
use crate::{Duration, Instant};

/// The owner of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A write stream.
    Stream(usize),
    /// The processor: it waits for the answer.
    Processor,
    /// A burst of the DMA engine.
    Burst(u64),
    /// No owner any more: a move whose stream is free, or an event.
    Nobody,
}

/// A request that is not finished.
#[derive(Debug)]
struct Sent {
    owner: Owner,
    command: Command,
}

/// The state of the card, except streams and DMA engine.
#[derive(Debug)]
pub(super) struct Card {
    internal_free: Instant,
    sent: BTreeMap<Handle, Sent>,
    /// Packets between bus and link.
    leaving: BTreeMap<u64, Out>,
    /// Answers between link and bus.
    answers: BTreeMap<Handle, (Owner, Outcome, Vec<u8>)>,
    serving: BTreeMap<RequestId, Incoming>,
    /// The requests that wait for the composer, with the commands of their answers.
    open: BTreeMap<RequestId, Option<Command>>,
    translations: Translations,
    /// The worst outcome of a store since the last check.
    worst: Option<Outcome>,
}

impl Card {
    pub(super) fn new(config: &config::Card) -> Card {
        Card {
            internal_free: Instant::START,
            sent: BTreeMap::new(),
            leaving: BTreeMap::new(),
            answers: BTreeMap::new(),
            serving: BTreeMap::new(),
            open: BTreeMap::new(),
            translations: Translations::new(config.translation),
            worst: None,
        }
    }

    /// Returns true if nothing is under way in either direction.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
            && self.leaving.is_empty()
            && self.answers.is_empty()
            && self.serving() == 0
    }

    /// Returns the number of requests from the network that are not yet served.
    pub(super) fn serving(&self) -> usize {
        self.serving.len() + self.open.len()
    }

    /// Returns the present cost of translating this address.
    pub(super) fn translate(&mut self, to: NodeId, offset: u64) -> Duration {
        self.translations.look_up(to, offset)
    }

    /// Returns the worst outcome since the last call, and clears the error counters.
    pub(super) fn take_worst(&mut self) -> Outcome {
        self.worst.take().unwrap_or(Outcome::Done(Status::Normal))
    }

    pub(super) fn fill(&self, counters: &mut Counters) {
        counters.translation_misses = self.translations.misses();
    }

    /// Moves a packet across the internal bus; returns the time at which it has crossed.
    fn cross(&mut self, now: Instant, command: Command, mb_per_s: u32) -> Instant {
        let bytes = u64::from(command.symbols()) * 2;
        // bytes / (MB/s) = us; exact in ps.
        let span = Duration::from_ps(bytes * 1_000_000 / u64::from(mb_per_s));
        self.internal_free = self.internal_free.max(now) + span;
        self.internal_free
    }
}

impl Host {
    /// Sends a request through the card.
    pub(super) fn card_send(
        &mut self,
        owner: Owner,
        to: NodeId,
        command: Command,
        offset: u64,
        data: Vec<u8>,
        bytes: u32,
    ) -> Handle {
        let handle = self.handle_of_next();
        self.card.sent.insert(handle, Sent { owner, command });
        let out = Out::Request { handle, to, command, offset, data, bytes };
        self.card_out(handle, command, out);
        handle
    }

    fn card_out(&mut self, number: u64, command: Command, out: Out) {
        let card = &self.config.card;
        let crossed = self.card.cross(self.now, command, card.internal_mb_per_s);
        self.card.leaving.insert(number, out);
        self.schedule(crossed + self.config.card.out_latency, Step::Leave(number));
    }

    /// Handles a packet that has come through the card to the link.
    pub(super) fn card_leave(&mut self, number: u64) {
        let Some(out) = self.card.leaving.remove(&number) else { return };
        let mut owner = Owner::Nobody;
        if let Out::Request { handle, command, data, .. } = &out {
            self.counters.requests += 1;
            self.counters.sent_bytes += data.len() as u64;
            let is_move = matches!(command, Command::Move16 | Command::Move64 | Command::Move256);
            let free = is_move && self.config.card.posting == Posting::Move;
            if *command == Command::Event00 {
                self.card.sent.remove(handle);
            } else if free && let Some(sent) = self.card.sent.get_mut(handle) {
                owner = std::mem::replace(&mut sent.owner, Owner::Nobody);
            }
        }
        self.outs.push_back(out);
        self.packet_done(owner, Outcome::Done(Status::Normal), Vec::new());
    }

    /// Handles the end of a request, reported by the link.
    pub(super) fn card_finished(&mut self, handle: Handle, outcome: Outcome, data: Vec<u8>) {
        let Some(sent) = self.card.sent.remove(&handle) else { return };
        if outcome != Outcome::Done(Status::Normal) {
            self.counters.failures += 1;
            if sent.owner != Owner::Processor {
                self.card.worst = Some(outcome);
            }
        }
        match sent.command.response() {
            Some(response) if outcome != Outcome::Lost => {
                let config = &self.config.card;
                let crossed = self.card.cross(self.now, response, config.internal_mb_per_s);
                self.card.answers.insert(handle, (sent.owner, outcome, data));
                self.schedule(crossed + self.config.card.in_latency, Step::Answered(handle));
            }
            _ => self.packet_done(sent.owner, outcome, data),
        }
    }

    /// Handles an answer that has come through the card.
    pub(super) fn card_answered(&mut self, handle: Handle) {
        if let Some((owner, outcome, data)) = self.card.answers.remove(&handle) {
            self.packet_done(owner, outcome, data);
        }
    }

    fn packet_done(&mut self, owner: Owner, outcome: Outcome, data: Vec<u8>) {
        match owner {
            Owner::Stream(stream) => self.stream_done(stream),
            Owner::Processor => self.cpu_answer(outcome, data),
            Owner::Burst(burst) => self.engine_answer(burst, outcome, data),
            Owner::Nobody => {}
        }
    }

    /// Handles a request from the link.
    pub(super) fn card_incoming(&mut self, request: Incoming) {
        let config = &self.config.card;
        let crossed = self.card.cross(self.now, request.command, config.internal_mb_per_s);
        self.schedule(crossed + self.config.card.in_latency, Step::Through(request.request));
        self.card.serving.insert(request.request, request);
    }

    /// Handles a request that has come through the card: it needs the bus; an event needs the
    /// processor.
    pub(super) fn card_through(&mut self, request: RequestId) {
        let Some(incoming) = self.card.serving.get(&request) else { return };
        let length = incoming.data.len() as u32;
        let over = match incoming.command {
            Command::Event00 => {
                let number = incoming.offset;
                self.card.serving.remove(&request);
                return self.card_signal(number);
            }
            Command::ReadSelected => self.bus.read(self.now, incoming.bytes),
            Command::Read64 => self.bus.read(self.now, 64),
            Command::Read256 => self.bus.read(self.now, 256),
            Command::Lock(_) => {
                let read = self.bus.read(self.now, length);
                self.bus.write(read, length)
            }
            _ => self.bus.write(self.now, length),
        };
        self.schedule(over, Step::Crossed(request));
    }

    /// Interrupts the processor.
    pub(super) fn card_signal(&mut self, number: u64) {
        self.cpu_steal(self.config.software.interrupt);
        let seen = self.now + self.config.software.interrupt;
        self.schedule(seen, Step::Interrupt(number));
    }

    /// Reports a request that the bus has carried; the composer owns the memory and serves it.
    pub(super) fn card_crossed(&mut self, request: RequestId) {
        if let Some(incoming) = self.card.serving.remove(&request) {
            self.card.open.insert(request, incoming.command.response());
            self.reports.push_back(Report::Serve(incoming));
        }
    }

    /// Takes the composer's answer to a request.
    pub(super) fn card_served(&mut self, request: RequestId, status: Status, data: Vec<u8>) {
        if let Some(Some(response)) = self.card.open.remove(&request) {
            let number = self.handle_of_next();
            self.card_out(number, response, Out::Response { request, status, data });
        }
    }

    /// Reports an interrupt that has reached the program.
    pub(super) fn card_interrupt(&mut self, number: u64) {
        self.reports.push_back(Report::Interrupted { number });
    }
}
