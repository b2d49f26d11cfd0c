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

mod bridge;
mod bus;
mod combining;
pub mod config;
mod cpu;
mod engine;
pub mod preset;
mod streams;
#[cfg(test)]
mod tests;
mod translation;

use std::collections::VecDeque;

use crate::sci::{Command, NodeId, Status};
use crate::{Agenda, Duration, Instant};

pub use config::Config;

/// The program's number of a call; [`Report::Completed`] returns it.
pub type Tag = u64;
/// The host's number of a request that it sent; [`Host::finished`] returns it.
pub type Handle = u64;
/// The composer's number of a request that came from the network; unique while it is served.
pub type RequestId = u64;
/// The host's number of a read of its own memory.
pub type FetchId = u64;

/// A call of a program to its processor. Calls are executed one after the other, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Stores `data` into a mapped remote region. Completed when the processor has finished it: the
    /// bytes may still be in buffers (see [`Call::Flush`]).
    Store {
        /// The node whose memory is accessed.
        to: NodeId,
        /// The offset there \[byte\].
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Loads `bytes` from a mapped remote region; the processor waits for each word. A load does
    /// not wait for write streams: to read back its own stores, a program needs a barrier first.
    Load {
        /// The node whose memory is accessed.
        to: NodeId,
        /// The offset there \[byte\].
        offset: u64,
        /// The length \[byte\].
        bytes: u32,
    },
    /// A lock transaction. The processor waits; the completion has the old value.
    Lock {
        /// The node whose memory is accessed.
        to: NodeId,
        /// The offset there \[byte\].
        offset: u64,
        /// The command of the packet.
        command: Command,
        /// Its operands, as the packet carries them (at most 16 B).
        data: Vec<u8>,
    },
    /// Sends the bytes in write-combining buffers and gathering streams; does not wait for answers.
    Flush,
    /// Flushes, and waits until every write stream is idle (store barrier).
    Barrier,
    /// A barrier that also reads the card's error counters. If any store since the last check
    /// failed, the outcome is [`Outcome::Lost`] or the worst status, and the program must repeat
    /// all these stores.
    Check,
    /// Hands descriptors to the DMA engine. `notice` chooses the notice of completion.
    Dma {
        /// The transfers, done in order.
        descriptors: Vec<Descriptor>,
        /// The software that drives the engine's registers.
        level: Level,
        /// The notice of the end.
        notice: Notice,
    },
    /// Sends an interrupt (an event packet with a number) to another node.
    RingInterrupt {
        /// The node to interrupt.
        to: NodeId,
        /// The number of the interrupt: the packet's offset.
        number: u64,
    },
    /// Computes for a time; takes longer while the DMA engine uses memory cycles.
    Compute(Duration),
}

/// One transfer of the DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The direction of the bytes.
    pub direction: Direction,
    /// The other node.
    pub to: NodeId,
    /// The offset there \[byte\].
    pub offset: u64,
    /// The address in own memory \[byte\]; reports return it, and the host does not interpret it.
    pub address: u64,
    /// The length \[byte\]; 0 completes without a packet.
    pub bytes: u32,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From own memory to the other node.
    Write,
    /// From the other node into own memory.
    Read,
}

/// The software that drives the DMA engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The program itself, through mapped registers.
    User,
    /// The operating system: one entry and one return per call.
    Kernel,
}

/// The notice that a program's DMA transfers are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The processor reads the engine's status until it is done; no later call starts before.
    Spin,
    /// An interrupt; until then the processor does later calls.
    Interrupt,
    /// A word in memory that the program reads at any time: costs no time here.
    Word,
}

/// The end of a request or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered (a move: accepted).
    Done(Status),
    /// Given up: neither an answer nor an echo came.
    Lost,
}

/// A packet that the host sends now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A request. The composer gives it a transaction and reports its end by [`Host::finished`] (a
    /// move: when its echo came). The end of an event packet is not reported.
    Request {
        /// The host's number of it.
        handle: Handle,
        /// The receiver.
        to: NodeId,
        /// The command.
        command: Command,
        /// The lower 48 bits of the address.
        offset: u64,
        /// Bytes to write, operands, or nothing. Selected-byte writes: 1 to 16 bytes.
        data: Vec<u8>,
        /// Bytes wanted by a selected-byte read, otherwise 0.
        bytes: u32,
    },
    /// The answer to a request of [`Host::incoming`].
    Response {
        /// The composer's number of the request.
        request: RequestId,
        /// The status.
        status: Status,
        /// The bytes read, if any.
        data: Vec<u8>,
    },
}

/// A request from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The composer's number of it.
    pub request: RequestId,
    /// The command.
    pub command: Command,
    /// The lower 48 bits of the address.
    pub offset: u64,
    /// Bytes to write, operands, or nothing.
    pub data: Vec<u8>,
    /// Bytes wanted by a selected-byte read, otherwise 0.
    pub bytes: u32,
}

/// A report: an event, or an access to memory that the composer must do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A call is done.
    Completed {
        /// The program's number of it.
        tag: Tag,
        /// The outcome.
        outcome: Outcome,
        /// The bytes that a load or a lock returned.
        data: Vec<u8>,
    },
    /// The processor is idle from now on.
    CpuFree,
    /// The bus transaction for a request is done: execute it on memory and call [`Host::served`]. A
    /// read of 64 B may reach beyond the bytes that its program wants (prefetch): answer bytes
    /// outside the memory with zeros, do not refuse them.
    Serve(Incoming),
    /// The DMA engine reads memory: call [`Host::supply`] with these bytes.
    Fetch {
        /// The host's number of it.
        fetch: FetchId,
        /// The address \[byte\], as in the descriptor.
        address: u64,
        /// The length \[byte\].
        bytes: u32,
    },
    /// The DMA engine wrote memory: it holds these bytes from now on.
    Placed {
        /// The address \[byte\], as in the descriptor.
        address: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A peer's interrupt has reached the program, after the operating system's share.
    Interrupted {
        /// The number.
        number: u64,
    },
}

/// The counts of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time in which the processor executed calls \[ps\].
    pub cpu_busy_ps: u64,
    /// Time in which the PCI bus was busy \[ps\].
    pub bus_busy_ps: u64,
    /// Time in which the DMA engine had work \[ps\].
    pub engine_busy_ps: u64,
    /// Bytes that calls stored.
    pub stored_bytes: u64,
    /// Bytes that left in requests, DMA included.
    pub sent_bytes: u64,
    /// Requests that left.
    pub requests: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Streams sent before they were full.
    pub partial_streams: u64,
    /// Stores that the card refused because no stream was free (PCI retry).
    pub retries: u64,
    /// Misses of the address translation cache.
    pub translation_misses: u64,
}

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
    /// An interrupt reaches the program.
    Interrupt(u64),
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
    card: bridge::Card,
    streams: streams::Streams,
    engine: engine::Engine,
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
            card: bridge::Card::new(&config.card),
            streams: streams::Streams::new(&config.card),
            engine: engine::Engine::default(),
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
    pub fn submit<A: From<Entry>>(&mut self, call: Call, tag: Tag, agenda: &mut Agenda<A>) {
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
    pub fn finished<A: From<Entry>>(
        &mut self,
        handle: Handle,
        outcome: Outcome,
        data: Vec<u8>,
        agenda: &mut Agenda<A>,
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
    pub fn incoming<A: From<Entry>>(&mut self, request: Incoming, agenda: &mut Agenda<A>) {
        self.at(agenda, |host| host.card_incoming(request));
    }

    /// Interrupts the processor after a request that the composer executed on memory.
    /// [`Report::Interrupted`] follows after the operating system's time, which the program loses.
    pub fn interrupt<A: From<Entry>>(&mut self, number: u64, agenda: &mut Agenda<A>) {
        self.at(agenda, |host| host.card_signal(number));
    }

    /// Takes the composer's answer to a request on memory; `data` has the bytes read. The response
    /// leaves later; moves and events have no response. Unknown requests are ignored.
    pub fn served<A: From<Entry>>(
        &mut self,
        request: RequestId,
        status: Status,
        data: Vec<u8>,
        agenda: &mut Agenda<A>,
    ) {
        self.at(agenda, |host| host.card_served(request, status, data));
    }

    /// Takes the bytes of [`Report::Fetch`]; missing bytes become zeros.
    pub fn supply<A: From<Entry>>(
        &mut self,
        fetch: FetchId,
        data: Vec<u8>,
        agenda: &mut Agenda<A>,
    ) {
        self.at(agenda, |host| host.engine_supply(fetch, data));
    }

    /// Handles an entry that is due.
    pub fn handle<A: From<Entry>>(&mut self, entry: Entry, agenda: &mut Agenda<A>) {
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
            Step::Interrupt(number) => host.card_interrupt(number),
        });
    }

    /// Runs `work` at the agenda's time and schedules the steps that it creates.
    fn at<A: From<Entry>>(&mut self, agenda: &mut Agenda<A>, work: impl FnOnce(&mut Host)) {
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
            Step::Interrupt(_) => 11,
        }
    }
}
