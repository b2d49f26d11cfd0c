//! The host side of ATOLL: processes that send and receive by PIO or DMA through host ports.
//!
//! Each of the four host ports of a node belongs to one process. They share the bus to the chip. A
//! send by DMA is a descriptor and a doorbell; the chip reads the descriptor and the data, and the
//! message starts when the network port cannot run dry. Received data is written into memory in
//! bursts; then the chip copies its status into memory, where the processor polls it.

use std::collections::VecDeque;

use super::super::{Config, ConfigError, Entry, Network, Parcel};
use crate::core::interconnect::{Class, Interconnect, Refusal, Report};
use crate::host::{Bus, Departure, MessageDma, Outgoing, preset};
use crate::{Agenda, Duration, Instant, Model};

/// The transfer between memory and chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The processor stores into the chip's windows, and loads from them.
    Pio,
    /// The chip reads and writes memory.
    Dma,
}

/// The times of a host; none depends on the clock of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The bus, and the chip's use of it.
    pub dma: MessageDma,
    /// Processor time of a call that sends, and of one that receives.
    pub call: Duration,
    /// The longest burst of stores with write combining \[bytes\].
    pub store_bytes: u32,
}

impl Times {
    /// A PC with GC-LE chip set and a bus of 100 MHz. The only calibrated value is `call`, on the
    /// published latency of 8 bytes (4.88 us at 243 MHz).
    #[must_use]
    pub fn pc() -> Times {
        Times {
            dma: MessageDma {
                bus: preset::pci_x_100(),
                descriptor_bytes: 32, // assumed: four words
                first_bytes: 256,     // assumed: a buffer of four packets
                status_bytes: 64,     // assumed: a cache line
            },
            call: Duration::from_ns(1_464), // calibrated
            store_bytes: 64,                // background: write combining of a Xeon
        }
    }
}

/// A transfer from one process to that with the same port at another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// The host port at both ends, 0 to 3.
    pub port: u8,
    /// The length \[bytes\].
    pub bytes: u32,
    /// The transfer between memory and chip at both ends.
    pub mode: Mode,
}

/// The end of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The number of the transfer.
    pub number: u64,
    /// The time at which the receiving program has it.
    pub at: Instant,
}

/// An entry of hosts and their network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEntry {
    /// Of the network.
    Network(Entry),
    /// A message starts at its network port.
    Start(u32),
}

impl From<Entry> for HostEntry {
    fn from(entry: Entry) -> HostEntry {
        HostEntry::Network(entry)
    }
}

impl crate::Entry for HostEntry {
    fn component(&self) -> u32 {
        match self {
            HostEntry::Network(entry) => entry.component(),
            HostEntry::Start(number) => *number,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            HostEntry::Network(entry) => entry.kind(),
            HostEntry::Start(_) => 2,
        }
    }
}

#[derive(Debug)]
struct Node {
    bus: Bus,
    /// The time from which each process is free.
    free: [Instant; 4],
}

/// Nodes with processes on an ATOLL network.
#[derive(Debug)]
pub struct Hosts {
    times: Times,
    network: Network<Parcel>,
    nodes: Vec<Node>,
    transfers: Vec<Transfer>,
    /// Messages that wait for a full network port.
    waiting: VecDeque<u32>,
    finished: VecDeque<Finished>,
    lost: u64,
}

impl Hosts {
    /// Makes hosts at rest.
    ///
    /// # Errors
    /// Those of the network.
    pub fn new(config: Config, times: Times) -> Result<Hosts, ConfigError> {
        let network = Network::new(config)?;
        let node = |_| Node { bus: Bus::new(times.dma.bus), free: [Instant::START; 4] };
        let nodes = (0..network.nodes()).map(node).collect();
        let (transfers, waiting, finished) = (Vec::new(), VecDeque::new(), VecDeque::new());
        Ok(Hosts { times, network, nodes, transfers, waiting, finished, lost: 0 })
    }

    /// Returns the network.
    #[must_use]
    pub fn network(&self) -> &Network<Parcel> {
        &self.network
    }

    /// Returns the number of lost transfers.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the next transfer that has ended.
    pub fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Begins a transfer, and returns its number.
    ///
    /// # Errors
    /// A node or port that does not exist.
    pub fn begin(
        &mut self,
        transfer: Transfer,
        agenda: &mut Agenda<HostEntry>,
    ) -> Result<u64, ConfigError> {
        let nodes = self.network.nodes();
        if transfer.from >= nodes || transfer.to >= nodes || transfer.port > 3 {
            let text = format!("{transfer:?}: nodes are 0 to {}, ports 0 to 3", nodes - 1);
            return Err(ConfigError(text));
        }
        let number = self.transfers.len() as u64;
        self.transfers.push(transfer);
        let start = self.fetch(&transfer, agenda.now());
        agenda.schedule(start, HostEntry::Start(number as u32));
        Ok(number)
    }

    /// Carries a message to the chip; returns the time at which its network port can start.
    fn fetch(&mut self, transfer: &Transfer, now: Instant) -> Instant {
        let Times { call, dma, store_bytes } = self.times;
        // The link sends the message in this time; all of it is there before its end.
        let sending = self.network.sending_time(transfer.bytes);
        let message = Outgoing { bytes: transfer.bytes, sending };
        let node = &mut self.nodes[transfer.from as usize];
        let free = &mut node.free[usize::from(transfer.port)];
        let begin = now.max(*free) + call;
        match transfer.mode {
            Mode::Pio => {
                let bytes = transfer.bytes.max(1);
                let (mut first, mut last) = (None, begin);
                for done in (0..bytes).step_by(store_bytes as usize) {
                    last = node.bus.store(last, (bytes - done).min(store_bytes), Duration::ZERO);
                    first = first.or(Some(last));
                }
                *free = last;
                first.unwrap_or(last).max(message.start_before(last))
            }
            Mode::Dma => {
                let Departure { rung, start } = dma.fetch(&mut node.bus, begin, message);
                *free = rung;
                start
            }
        }
    }

    /// Hands a message to its network port.
    fn start(&mut self, number: u32, agenda: &mut Agenda<HostEntry>) {
        let Transfer { from, to, port, bytes, .. } = self.transfers[number as usize];
        let parcel = Parcel { target: to, port, bytes, number: number.into() };
        match self.network.send(from, parcel, agenda) {
            Ok(_) => {}
            Err(refused) if refused.why == Refusal::Full => self.waiting.push_back(number),
            Err(_) => self.lost += 1,
        }
    }

    /// Carries a message into memory and to its program.
    fn land(&mut self, node: u32, number: u64, now: Instant) {
        let transfer = self.transfers[number as usize];
        let times = self.times;
        let Node { bus, free } = &mut self.nodes[node as usize];
        let seen = match transfer.mode {
            Mode::Pio => {
                let width = times.dma.bus.width_bytes;
                let there = bus.load(now, transfer.bytes.max(1).div_ceil(width), width);
                bus.write(there, times.dma.status_bytes)
            }
            Mode::Dma => times.dma.land(bus, now, transfer.bytes),
        };
        let free = &mut free[usize::from(transfer.port)];
        *free = seen.max(*free) + times.call;
        self.finished.push_back(Finished { number, at: *free });
    }

    fn follow(&mut self, agenda: &mut Agenda<HostEntry>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class: _ } => {
                    while let Some(parcel) = self.network.take(node, Class::Request, agenda) {
                        self.land(node, parcel.number, agenda.now());
                    }
                }
                Report::Lost { .. } => self.lost += 1,
                Report::Space { .. } => {
                    for number in std::mem::take(&mut self.waiting) {
                        self.start(number, agenda);
                    }
                }
                Report::Done { .. } | Report::Dropped { .. } => {}
            }
        }
    }
}

impl Model for Hosts {
    type Entry = HostEntry;

    fn handle(&mut self, entry: HostEntry, agenda: &mut Agenda<HostEntry>) {
        match entry {
            HostEntry::Network(entry) => self.network.handle(entry, agenda),
            HostEntry::Start(number) => self.start(number, agenda),
        }
        self.follow(agenda);
    }
}

/// Returns the one-way time of a message between two nodes with a direct cable, as a ping-pong
/// measures it.
///
/// # Errors
/// Those of the network.
pub fn one_way(
    config: &Config,
    times: Times,
    bytes: u32,
    mode: Mode,
) -> Result<Duration, ConfigError> {
    let mut agenda = Agenda::default();
    let mut hosts = Hosts::new(config.clone(), times)?;
    hosts.begin(Transfer { from: 0, to: 1, port: 0, bytes, mode }, &mut agenda)?;
    while let Some(entry) = agenda.take(Instant::NEVER) {
        hosts.handle(entry, &mut agenda);
    }
    let finished = hosts.next_finished();
    let end = finished.ok_or_else(|| ConfigError("the message did not arrive".to_owned()))?;
    Ok(end.at.since(Instant::START))
}
