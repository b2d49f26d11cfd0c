//! Two machines on a ring of two nodes, with their memories: the test stands.

use std::collections::BTreeMap;

use super::wire::{self, Arrival, Wire};
use crate::host::{
    self, Access, Call, Config, Host, Incoming, Out, Outcome, Report, RequestId, Tag,
    config::BadConfig,
};
use crate::net::atoll;
use crate::net::ethernet::host::bench::BadBench;
use crate::net::myrinet;
use crate::net::sci::adapter::{access_of, command_of, packet_data};
use crate::net::sci::packet::Packet;
use crate::net::sci::{self, Command, Preset, Status, Topology};
use crate::{Agenda, Instant};

/// Returns the first generation's ring: 200 MB/s (published by SCINET).
#[must_use]
pub fn link_lc1() -> sci::Config {
    Preset::Lc1.network(Topology::Ring { nodes: 2 })
}

/// Returns the D310's ring: 400 MB/s (background).
#[must_use]
pub fn link_lc2() -> sci::Config {
    Preset::Lc2.network(Topology::Ring { nodes: 2 })
}

/// The reason why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum BadStand {
    /// A machine.
    #[error(transparent)]
    Host(#[from] BadConfig),
    /// The configuration of the ring.
    #[error(transparent)]
    Ring(#[from] sci::ConfigError),
    /// The hosts or the network of an experiment on Ethernet.
    #[error(transparent)]
    Ethernet(#[from] BadBench),
    /// The configuration of an ATOLL network.
    #[error(transparent)]
    Atoll(#[from] atoll::ConfigError),
    /// The configuration of a Myrinet network.
    #[error(transparent)]
    Myrinet(#[from] myrinet::ConfigError),
    /// A file of facts.
    #[error(transparent)]
    File(#[from] fluxline_toml::LoadError),
    /// A file that does not fit the models.
    #[error("{0}")]
    Published(String),
}

/// Memory of each machine that its peer can reach \[byte\].
const MEMORY_BYTES: usize = 1 << 18;

/// An entry of the agenda of two machines.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// An entry of a machine.
    Host(host::Entry),
    /// An entry of the ring.
    Ring(sci::Entry),
}

impl From<host::Entry> for Entry {
    fn from(entry: host::Entry) -> Entry {
        Entry::Host(entry)
    }
}

impl From<sci::Entry> for Entry {
    fn from(entry: sci::Entry) -> Entry {
        Entry::Ring(entry)
    }
}

/// Two machines, 0 and 1, with their memories.
#[derive(Debug)]
pub struct Pair {
    hosts: [Host; 2],
    memories: [Vec<u8>; 2],
    wire: Wire,
    agenda: Agenda<Entry>,
    /// The completed calls: time and outcome.
    completed: BTreeMap<Tag, (Instant, Outcome)>,
    loaded: BTreeMap<Tag, Vec<u8>>,
    next_tag: Tag,
    /// The time of the last write to each machine's memory, by its peer or its DMA engine.
    written_at: [Instant; 2],
    written_bytes: [u64; 2],
    /// The number of next requests of machine 0 that are lost.
    to_lose: u32,
}

impl Pair {
    /// Makes two machines of the same kind, at rest.
    ///
    /// # Errors
    /// [`BadStand`] when the configuration of a machine or of the ring is invalid.
    pub fn new(config: &Config, ring: sci::Config) -> Result<Pair, BadStand> {
        Ok(Pair {
            hosts: [Host::new(0, config.clone())?, Host::new(1, config.clone())?],
            memories: [vec![0; MEMORY_BYTES], vec![0; MEMORY_BYTES]],
            wire: Wire::new(&ring)?,
            agenda: Agenda::default(),
            completed: BTreeMap::new(),
            loaded: BTreeMap::new(),
            next_tag: 0,
            written_at: [Instant::START; 2],
            written_bytes: [0; 2],
            to_lose: 0,
        })
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.agenda.now()
    }

    /// A machine.
    #[must_use]
    pub fn host(&self, machine: usize) -> &Host {
        &self.hosts[machine]
    }

    /// Returns a machine's memory.
    pub fn memory(&mut self, machine: usize) -> &mut Vec<u8> {
        &mut self.memories[machine]
    }

    /// Returns the time at which a machine's memory was written last.
    #[must_use]
    pub fn written_at(&self, machine: usize) -> Instant {
        self.written_at[machine]
    }

    /// Returns the number of bytes written into a machine's memory.
    #[must_use]
    pub fn written_bytes(&self, machine: usize) -> u64 {
        self.written_bytes[machine]
    }

    /// Loses the next `count` requests of machine 0.
    pub fn lose(&mut self, count: u32) {
        self.to_lose = count;
    }

    /// Gives machine 0 a call.
    pub fn submit(&mut self, call: Call) -> Tag {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.hosts[0].submit(call, tag, &mut self.agenda);
        self.settle();
        tag
    }

    /// Gives machine 0 a call and runs until it is completed; returns its time and outcome. A call
    /// that can never be completed ends as lost when the agenda is empty.
    pub fn complete(&mut self, call: Call) -> (Instant, Outcome) {
        let tag = self.submit(call);
        self.wait(tag)
    }

    /// Runs until a call is completed.
    pub fn wait(&mut self, tag: Tag) -> (Instant, Outcome) {
        while !self.completed.contains_key(&tag) && self.step(Instant::NEVER) {}
        self.completed.get(&tag).copied().unwrap_or((self.now(), Outcome::Lost))
    }

    /// Returns the bytes of a completed load.
    #[must_use]
    pub fn loaded(&self, tag: Tag) -> &[u8] {
        self.loaded.get(&tag).map_or(&[], Vec::as_slice)
    }

    /// Runs until the agenda is empty.
    pub fn drain(&mut self) {
        while self.step(Instant::NEVER) {}
    }

    fn step(&mut self, until: Instant) -> bool {
        let Some(entry) = self.agenda.take(until) else { return false };
        match entry {
            Entry::Host(entry) => {
                self.hosts[entry.host as usize].handle(entry, &mut self.agenda);
            }
            Entry::Ring(entry) => self.wire.handle(entry, &mut self.agenda),
        }
        self.settle();
        true
    }

    /// Carries out the machines' packets and reports until there are no more at this moment.
    fn settle(&mut self) {
        loop {
            let mut any = false;
            for machine in 0..2 {
                while let Some(report) = self.hosts[machine].next_report() {
                    self.report(machine, report);
                    any = true;
                }
                while let Some(out) = self.hosts[machine].next_out() {
                    self.send(machine, out);
                    any = true;
                }
            }
            let room = [self.hosts[0].has_space(), self.hosts[1].has_space()];
            if let Some(arrival) = self.wire.take(room, &mut self.agenda) {
                self.arrive(arrival);
                any = true;
            }
            if !any {
                return;
            }
        }
    }

    fn send(&mut self, from: usize, out: Out) {
        let (source, target) = (wire::address(from), wire::address(1 - from));
        let packet = |command, offset, status, data| Packet {
            target,
            source,
            command,
            transaction: 0,
            offset,
            status,
            data,
        };
        match out {
            Out::Request { handle, .. } if from == 0 && self.to_lose > 0 => {
                self.to_lose -= 1;
                self.hosts[0].finished(handle, Outcome::Lost, Vec::new(), &mut self.agenda);
            }
            Out::Request { handle, access, offset, data, .. } => {
                let command = command_of(access, data.len());
                let packet = packet(command, offset, Status::Normal, packet_data(access, data));
                self.wire.ask(from, packet, handle, &mut self.agenda);
            }
            Out::Response { request, status, data } => {
                let packet = packet(response_of(data.len()), 0, status.into(), data);
                self.wire.answer(from, packet, request, &mut self.agenda);
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let agenda = &mut self.agenda;
        match arrival {
            Arrival::Request { to, number, packet } => {
                let access = access_of(&packet);
                let Packet { offset, data, .. } = packet;
                let data = if matches!(access, Access::Read { .. }) { Vec::new() } else { data };
                self.hosts[to].incoming(Incoming { request: number, access, offset, data }, agenda);
            }
            Arrival::Response { to, handle, packet } => {
                let outcome = Outcome::Done(packet.status.into());
                self.hosts[to].finished(handle, outcome, packet.data, agenda);
            }
            Arrival::Over { to, handle, lost } => {
                let outcome =
                    if lost { Outcome::Lost } else { Outcome::Done(host::Status::Normal) };
                self.hosts[to].finished(handle, outcome, Vec::new(), agenda);
            }
        }
    }

    fn report(&mut self, machine: usize, report: Report) {
        let now = self.agenda.now();
        match report {
            Report::Completed { tag, outcome, data } => {
                self.completed.insert(tag, (now, outcome));
                if !data.is_empty() {
                    self.loaded.insert(tag, data);
                }
            }
            Report::CpuFree => {}
            Report::Serve(incoming) => self.serve(machine, incoming),
            Report::Fetch { fetch, address, bytes } => {
                let data = self.read(machine, address, bytes as usize);
                self.hosts[machine].supply(fetch, data, &mut self.agenda);
            }
            Report::Placed { address, data } => self.write(machine, address, &data),
        }
    }

    /// Executes a request on memory. Locks are not served, because no figure needs them.
    fn serve(&mut self, machine: usize, incoming: Incoming) {
        let request: RequestId = incoming.request;
        let (status, data) = match incoming.access {
            Access::Read { bytes } => {
                (host::Status::Normal, self.read(machine, incoming.offset, bytes as usize))
            }
            Access::Lock(_) => (host::Status::Rights, Vec::new()),
            Access::Write | Access::Move => {
                self.write(machine, incoming.offset, &incoming.data);
                (host::Status::Normal, Vec::new())
            }
        };
        self.hosts[machine].served(request, status, data, &mut self.agenda);
    }

    fn read(&self, machine: usize, address: u64, bytes: usize) -> Vec<u8> {
        let memory = &self.memories[machine];
        (0..bytes).map(|at| memory[(address as usize + at) % MEMORY_BYTES]).collect()
    }

    fn write(&mut self, machine: usize, address: u64, data: &[u8]) {
        for (at, byte) in data.iter().enumerate() {
            self.memories[machine][(address as usize + at) % MEMORY_BYTES] = *byte;
        }
        self.written_at[machine] = self.agenda.now();
        self.written_bytes[machine] += data.len() as u64;
    }
}

/// Returns the response that carries `bytes` bytes.
fn response_of(bytes: usize) -> Command {
    match bytes {
        0 => Command::Response00,
        1..=16 => Command::Response16,
        17..=64 => Command::Response64,
        _ => Command::Response256,
    }
}
