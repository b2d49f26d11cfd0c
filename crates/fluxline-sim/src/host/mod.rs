//! One machine: its processor, its bus and its SCI card, with the time that each step takes.
//!
//! A [`Host`] models times only. Memory and network belong to the composer: the code that joins
//! hosts, a network and programs. The composer
//!
//! * hands over calls of the program ([`Host::submit`]), requests and answers from the network
//!   ([`Host::incoming`], [`Host::finished`]) and the host's own entries ([`Host::handle`]);
//! * after each of these calls, sends all packets of [`Host::next_out`] to the network and acts on
//!   all reports of [`Host::next_report`]. It answers a report about memory at once, before time
//!   advances ([`Host::served`], [`Host::supply`]).
//!
//! The path of a store: processor, write-combining buffer, posting buffer of the host bridge, PCI
//! bus, write stream of the card, card's internal bus, network; on the other side card, PCI bus,
//! memory; and the response back to the stream. Constants: [`preset`]. Source of the parts:
//! published descriptions of the cards and of the two test stands; a comment marks each part that
//! is only a model.

mod bus;
mod calls;
mod card;
pub mod chipset;
mod combining;
pub mod config;
mod cpu;
mod dma;
mod gathering;
mod messages;
mod passage;
pub mod preset;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::Instant;
use crate::core::agenda::Schedule;

pub use bus::{Bus, SharedBus};
pub use calls::{
    Access, Atomic, Call, Counters, Descriptor, Direction, FetchId, Handle, Incoming, Level,
    Notice, Out, Outcome, Report, RequestId, Status, Tag,
};
pub use chipset::{CHIPSETS, Chipset};
pub use config::Config;
pub use messages::{Departure, MessageDma, Outgoing};

/// An entry of a host on the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The host.
    pub host: u32,
    step: Step,
}

/// A step that is due. The numbers are of [`Host`]'s own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The processor's slice is over.
    Cpu,
    /// The head of the posting buffer may enter the bus, or has crossed it.
    Posted,
    /// The linger time of a write-combining buffer is over.
    Linger(u64),
    /// The gather time-out of a stream is over.
    Gathered(u64),
    /// A packet leaves the card.
    Leave(u64),
    /// An answer has come through the card.
    Answered(u64),
    /// A request has come through the card.
    Through(RequestId),
    /// The bus has carried a request.
    Crossed(RequestId),
    /// The DMA engine continues.
    Engine,
    /// A burst of the DMA engine is done.
    Burst(u64),
    /// The program notices the completion of a DMA call.
    Notice(u64),
}

/// One machine. The [module](self) describes its use.
#[derive(Debug)]
pub struct Host {
    number: u32,
    config: Config,
    /// The time of the call that is being handled.
    now: Instant,
    /// Entries made while handling; they go to the agenda before the call returns.
    due: VecDeque<(Instant, Step)>,
    outs: VecDeque<Out>,
    reports: VecDeque<Report>,
    counters: Counters,
    next_handle: Handle,
    processor: cpu::Processor,
    posting: combining::Posted,
    bus: bus::Bus,
    card: card::Card,
    streams: card::streams::Streams,
    engine: dma::Engine,
}

impl Host {
    /// Makes a machine at rest; its entries carry `number`.
    ///
    /// # Errors
    /// [`config::BadConfig`] when a number of the configuration is invalid.
    pub fn new(number: u32, config: Config) -> Result<Host, config::BadConfig> {
        config.check()?;
        Ok(Host {
            number,
            now: Instant::START,
            due: VecDeque::new(),
            outs: VecDeque::new(),
            reports: VecDeque::new(),
            counters: Counters::default(),
            next_handle: 0,
            processor: cpu::Processor::default(),
            posting: combining::Posted::default(),
            bus: bus::Bus::new(config.bus),
            card: card::Card::new(&config.card),
            streams: card::streams::Streams::new(&config.card),
            engine: dma::Engine::default(),
            config,
        })
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = Counters { bus_busy_ps: self.bus.busy().as_ps(), ..self.counters };
        self.card.fill(&mut counters);
        counters.cpu_busy_ps += self.processor.busy_since(self.now).as_ps();
        counters
    }

    /// Gives the program's processor a call; it is executed after all earlier calls.
    pub fn submit(&mut self, call: Call, tag: Tag, agenda: &mut impl Schedule<Entry>) {
        self.at(agenda, |host| host.cpu_submit(call, tag));
    }

    /// Returns the number of calls not yet completed, without those of the DMA engine.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.processor.calls()
    }

    /// Returns true if the host is idle: no call, burst, packet or request is under way.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.processor.calls() == 0
            && self.posting.holds_nothing()
            && self.streams.idle()
            && self.card.is_empty()
            && self.engine.is_empty()
            && self.outs.is_empty()
            && self.reports.is_empty()
    }

    /// Returns the next packet that leaves now.
    pub fn next_out(&mut self) -> Option<Out> {
        self.outs.pop_front()
    }

    /// Returns the next report, in order; reports about memory are answered before time goes on.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Ends a request of this host: its response came (with `data`), a move's echo came, or it is
    /// given up. An unknown handle is ignored: the request ended before.
    pub fn finished(
        &mut self,
        handle: Handle,
        outcome: Outcome,
        data: Vec<u8>,
        agenda: &mut impl Schedule<Entry>,
    ) {
        self.at(agenda, |host| host.card_finished(handle, outcome, data));
    }

    /// Returns true if the card has room for one more request from the network; otherwise the
    /// composer leaves it in the link's receive queue, and asks again after [`Host::handle`] or
    /// [`Host::served`].
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.card.serving() < self.config.card.incoming_slots as usize
    }

    /// Takes a request from the network. [`Report::Serve`] follows when the bus has carried it.
    pub fn incoming(&mut self, request: Incoming, agenda: &mut impl Schedule<Entry>) {
        self.at(agenda, |host| host.card_incoming(request));
    }

    /// Takes the composer's answer to a request on memory; `data` has the bytes read. The response
    /// leaves later; moves and events have no response. Unknown requests are ignored.
    pub fn served(
        &mut self,
        request: RequestId,
        status: Status,
        data: Vec<u8>,
        agenda: &mut impl Schedule<Entry>,
    ) {
        self.at(agenda, |host| host.card_served(request, status, data));
    }

    /// Takes the bytes of [`Report::Fetch`]; missing bytes become zeros.
    pub fn supply(&mut self, fetch: FetchId, data: Vec<u8>, agenda: &mut impl Schedule<Entry>) {
        self.at(agenda, |host| host.engine_supply(fetch, data));
    }

    /// Handles an entry that is due.
    pub fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        self.at(agenda, |host| match entry.step {
            Step::Cpu => host.cpu_step(),
            Step::Posted => host.posted_step(),
            Step::Linger(buffer) => host.combining_linger(buffer),
            Step::Gathered(generation) => host.stream_timeout(generation),
            Step::Leave(packet) => host.card_leave(packet),
            Step::Answered(handle) => host.card_answered(handle),
            Step::Through(request) => host.card_through(request),
            Step::Crossed(request) => host.card_crossed(request),
            Step::Engine => host.engine_step(),
            Step::Burst(burst) => host.engine_burst(burst),
            Step::Notice(call) => host.engine_notice(call),
        });
    }

    /// Runs `work` at the agenda's time and schedules the steps that it creates.
    fn at(&mut self, agenda: &mut impl Schedule<Entry>, work: impl FnOnce(&mut Host)) {
        self.now = agenda.now();
        work(self);
        while let Some((at, step)) = self.due.pop_front() {
            agenda.schedule(at, Entry { host: self.number, step });
        }
    }

    fn schedule(&mut self, at: Instant, step: Step) {
        self.due.push_back((at, step));
    }

    fn handle_of_next(&mut self) -> Handle {
        self.next_handle += 1;
        self.next_handle
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        self.host
    }

    fn kind(&self) -> u8 {
        match self.step {
            Step::Cpu => 0,
            Step::Posted => 1,
            Step::Linger(_) => 2,
            Step::Gathered(_) => 3,
            Step::Leave(_) => 4,
            Step::Answered(_) => 5,
            Step::Through(_) => 6,
            Step::Crossed(_) => 7,
            Step::Engine => 8,
            Step::Burst(_) => 9,
            Step::Notice(_) => 10,
        }
    }
}
