//! The state of one host, and the law that each datagram is in exactly one place.
//!
//! ```text
//!   process ─ call ─▶ driver queue ─▶ transmit ring ─ bus ─▶ card ─▶ network      sending.rs
//!   process ◀─ socket ◀─ softirq ◀─ (backlog) ◀─ receive ring ◀─ bus ─ card       receiving.rs
//!                 interrupts, coalesced, start the softirq                        interrupts.rs
//! ```

use std::collections::VecDeque;

use super::bus::Bus;
use super::coalescing::Moderator;
use super::config::{Config, true_bytes};
use super::counters::{Counters, Place};
use super::processor::{Core, Job, Split};
use crate::Instant;
use crate::core::interconnect::{Report, SendId};
use crate::net::ethernet::datagram::Datagram;
use crate::net::ethernet::framing::{self, FCS_BYTES};

/// The direction of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the network.
    Transmit,
    /// From the network.
    Receive,
}

/// Something that happens in a host at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A core ends a job.
    Core(u32),
    /// A frame has crossed the bus to the card.
    Read,
    /// A frame can leave the card.
    Leave,
    /// A frame from the network is ready for the bus.
    Arrive,
    /// A frame has crossed the bus into memory.
    Land,
    /// The card may raise an interrupt.
    Interrupt(Direction),
}

/// The task behind a job of a core.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// A process ends its call to send.
    Call(u32),
    /// The first process ends its call to receive.
    Receive,
    /// The interrupt handler ends; it has seen this number of datagrams in the ring.
    Interrupt(usize),
    /// The softirq ends its present item.
    Softirq,
}

/// A datagram on its way out.
#[derive(Debug)]
pub(super) struct Out {
    pub datagram: Datagram,
    pub bill: Bill,
}

/// The room that a datagram on its way out takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    pub process: u32,
    /// Its true size in the send buffer.
    pub bytes: u64,
    /// Its frames in the transmit ring.
    pub frames: u32,
}

/// A datagram in the network, whose buffer is still in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct InNetwork {
    pub send: SendId,
    pub bill: Bill,
}

/// A datagram on its way in.
#[derive(Debug)]
pub(super) struct In {
    pub datagram: Datagram,
    pub frames: u32,
    /// Bytes of its frames on the bus.
    pub bytes: u64,
}

/// Something that is ready at a time.
#[derive(Debug)]
pub(super) struct At<T> {
    pub at: Instant,
    pub what: T,
}

/// The item that the softirq works on.
#[derive(Debug)]
pub(super) enum Item {
    /// Sent datagrams whose buffers are freed.
    Clean(usize),
    /// A received datagram.
    Datagram(In),
}

/// A process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub core: u32,
    /// The datagram of its call to send.
    pub calling: Option<Out>,
    /// The datagram for which the send buffer has no room.
    pub blocked: Option<Out>,
    /// True sizes of its datagrams in the kernel.
    pub used_bytes: u64,
    /// True if a datagram was refused because the process was in a call.
    pub was_refused: bool,
}

/// The sending half.
#[derive(Debug, Default)]
pub(super) struct Sending {
    pub queue: VecDeque<Out>,
    pub queued_frames: u32,
    /// Datagrams in the ring that the card has not begun to read.
    pub ring: VecDeque<Out>,
    pub slots_used: u32,
    pub reading: VecDeque<At<Out>>,
    pub leaving: VecDeque<At<Out>>,
    /// True while the card's queue for the cable is full.
    pub is_full: bool,
    pub in_network: VecDeque<InNetwork>,
    pub done: VecDeque<Bill>,
}

/// The receiving half.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    pub incoming: VecDeque<At<In>>,
    pub landing: VecDeque<At<In>>,
    pub landing_bytes: u64,
    pub ring: VecDeque<In>,
    pub slots_used: u32,
    pub backlog: VecDeque<In>,
    pub backlog_frames: u32,
    pub socket: VecDeque<In>,
    pub socket_bytes: u64,
    /// True while the first process is in a call to receive that has a datagram.
    pub is_reading: bool,
    /// Datagrams that the process has received.
    pub ready: VecDeque<Datagram>,
}

/// The softirq and the interrupts.
#[derive(Debug)]
pub(super) struct Interrupts {
    pub transmit: Moderator,
    pub receive: Moderator,
    pub is_softirq: bool,
    pub item: Option<Item>,
}

/// An event with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub at: Instant,
    pub event: Event,
}

/// The effects of a call on the rest of the world.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub wakes: Vec<Wake>,
    pub reports: Vec<Report>,
}

/// A host.
#[derive(Debug)]
pub struct Machine {
    pub(super) node: u32,
    pub(super) mtu: u64,
    pub(super) config: Config,
    pub(super) now: Instant,
    /// False without power.
    pub(super) is_on: bool,
    /// False after its program has ended.
    pub(super) is_open: bool,
    pub(super) cores: Vec<Core<Task>>,
    pub(super) bus: Bus,
    pub(super) processes: Vec<Process>,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) interrupts: Interrupts,
    pub(super) counters: Counters,
    pub(super) effects: Effects,
}

impl Machine {
    /// Makes an idle host.
    pub(super) fn new(node: u32, mtu: u64, config: Config) -> Machine {
        let process = |&core: &u32| Process { core, ..Process::default() };
        Machine {
            node,
            mtu,
            now: Instant::START,
            is_on: true,
            is_open: true,
            cores: (0..config.cores.count()).map(|_| Core::default()).collect(),
            bus: Bus::new(config.card.bus),
            processes: config.cores.processes.iter().map(process).collect(),
            sending: Sending::default(),
            receiving: Receiving::default(),
            interrupts: Interrupts {
                transmit: Moderator::new(config.card.transmit),
                receive: Moderator::new(config.card.receive),
                is_softirq: false,
                item: None,
            },
            counters: Counters::default(),
            effects: Effects::default(),
            config,
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counts since the start.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the time that each core has used since the start.
    #[must_use]
    pub fn used(&self) -> Vec<Split> {
        self.cores.iter().map(Core::used).collect()
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Core(core) => self.finish(core),
            Event::Read => self.read(),
            // The network takes what has left.
            Event::Leave => {}
            Event::Arrive => self.reach_bus(),
            Event::Land => self.land(),
            Event::Interrupt(direction) => self.interrupt(direction),
        }
    }

    fn finish(&mut self, core: u32) {
        let found = &mut self.cores[core as usize];
        let Some(task) = found.finish(self.now) else { return };
        let next = found.done_at();
        if next != Instant::NEVER {
            self.wake(next, Event::Core(core));
        }
        match task {
            Task::Call(process) => self.called(process),
            Task::Receive => self.received(),
            Task::Interrupt(datagrams) => self.handled(datagrams),
            Task::Softirq => self.next_item(),
        }
    }

    pub(super) fn wake(&mut self, at: Instant, event: Event) {
        self.effects.wakes.push(Wake { at, event });
    }

    /// Gives a core a job.
    pub(super) fn work(&mut self, core: u32, job: Job<Task>) {
        let done = self.cores[core as usize].add(job, self.now);
        if let Some(at) = done {
            self.wake(at, Event::Core(core));
        }
    }

    /// Returns the number of frames of a datagram.
    pub(super) fn frames(&self, datagram: &Datagram) -> u32 {
        framing::parts(datagram.payload_bytes(), self.mtu) as u32
    }

    /// Returns the length of each frame of a datagram in memory \[byte\].
    pub(super) fn frame_bytes(&self, datagram: &Datagram) -> impl Iterator<Item = u64> + use<> {
        let (payload, mtu) = (datagram.payload_bytes(), self.mtu);
        let parts = framing::parts(payload, mtu);
        (0..parts).map(move |at| framing::part(payload, mtu, at).frame_bytes() - FCS_BYTES)
    }

    /// Returns the true size of a received datagram: drivers take buffers for the MTU.
    pub(super) fn true_bytes(&self, frames: u32) -> u64 {
        u64::from(frames) * true_bytes(framing::frame_bytes(self.mtu))
    }

    pub(super) fn lose_sending(&mut self, place: Place) {
        self.counters.lost_sending[place as usize] += 1;
        self.effects.reports.push(Report::Dropped { source: self.node });
    }

    pub(super) fn lose_receiving(&mut self, place: Place, source: u32) {
        self.counters.lost_receiving[place as usize] += 1;
        self.effects.reports.push(Report::Dropped { source });
    }

    /// Ends the program: datagrams that wait for it are lost, those in the kernel leave.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        let blocked: Vec<Out> =
            self.processes.iter_mut().filter_map(|of| of.blocked.take()).collect();
        blocked.iter().for_each(|_| self.lose_sending(Place::Dead));
        let kept = usize::from(self.receiving.is_reading);
        while self.receiving.socket.len() > kept {
            let Some(datagram) = self.receiving.socket.pop_back() else { return };
            self.receiving.socket_bytes -= self.true_bytes(datagram.frames);
            self.lose_receiving(Place::Dead, datagram.datagram.source);
        }
    }

    /// Ends the machine: all datagrams in it are lost.
    pub(super) fn die(&mut self) {
        let fresh = Machine::new(self.node, self.mtu, self.config.clone());
        let old = std::mem::replace(self, fresh);
        self.now = old.now;
        (self.counters, self.effects) = (old.counters, old.effects);
        (self.is_on, self.is_open) = (false, false);
        self.keep_used(&old.cores);
        for _ in 0..old.sending.len(&old.processes) {
            self.lose_sending(Place::Dead);
        }
        for source in old.receiving.sources(old.interrupts.item.as_ref()) {
            self.lose_receiving(Place::Dead, source);
        }
        self.receiving.ready = old.receiving.ready;
    }

    fn keep_used(&mut self, old: &[Core<Task>]) {
        for (core, old) in self.cores.iter_mut().zip(old) {
            *core = Core::after(old.used());
        }
    }

    /// Starts the machine or its program again.
    pub(super) fn start(&mut self) {
        (self.is_on, self.is_open) = (true, true);
    }

    /// Checks that each datagram is in exactly one place.
    pub(super) fn conserve(&self) -> Result<(), String> {
        let Counters { taken, sent, arrived, received, .. } = self.counters;
        let node = self.node;
        let inside = self.sending.len(&self.processes) as u64;
        let lost: u64 = self.counters.lost_sending.iter().sum();
        if taken != sent + lost + inside {
            return Err(format!(
                "host {node}: {taken} datagrams taken, {sent} sent, {lost} lost, {inside} inside"
            ));
        }
        let inside = self.receiving.sources(self.interrupts.item.as_ref()).count() as u64;
        let lost: u64 = self.counters.lost_receiving.iter().sum();
        if arrived != received + lost + inside {
            return Err(format!(
                "host {node}: {arrived} datagrams arrived, {received} received, {lost} lost, \
                 {inside} inside"
            ));
        }
        self.sending.conserve(&self.processes).map_err(|error| format!("host {node}: {error}"))?;
        self.receiving
            .conserve(|frames| self.true_bytes(frames))
            .map_err(|error| format!("host {node}: {error}"))
    }
}

impl Sending {
    fn outs<'a>(&'a self, processes: &'a [Process]) -> impl Iterator<Item = &'a Out> {
        let calling = processes.iter().filter_map(|process| process.calling.as_ref());
        let in_card = self.reading.iter().chain(&self.leaving).map(|of| &of.what);
        calling.chain(&self.queue).chain(&self.ring).chain(in_card)
    }

    /// Returns the number of datagrams before the network.
    fn len(&self, processes: &[Process]) -> usize {
        let blocked = processes.iter().filter(|process| process.blocked.is_some()).count();
        self.outs(processes).count() + blocked
    }

    /// Checks the rooms of the send buffers and of the ring.
    fn conserve(&self, processes: &[Process]) -> Result<(), String> {
        let behind = self.in_network.iter().map(|of| &of.bill).chain(&self.done);
        let all = || self.outs(processes).map(|out| &out.bill).chain(behind.clone());
        for (number, process) in (0_u32..).zip(processes) {
            let bytes: u64 = all().filter(|of| of.process == number).map(|of| of.bytes).sum();
            if bytes != process.used_bytes {
                return Err(format!("{} bytes counted, {bytes} in the kernel", process.used_bytes));
            }
        }
        let in_card = self.reading.iter().chain(&self.leaving).map(|of| &of.what);
        let in_ring = self.ring.iter().chain(in_card).map(|out| &out.bill).chain(behind.clone());
        let frames: u32 = in_ring.map(|bill| bill.frames).sum();
        if frames != self.slots_used {
            return Err(format!("{} slots counted, {frames} frames in them", self.slots_used));
        }
        Ok(())
    }
}

impl Receiving {
    /// Returns the sender of each datagram between the network and its process.
    fn sources<'a>(&'a self, item: Option<&'a Item>) -> impl Iterator<Item = u32> + 'a {
        let item = item.and_then(|item| match item {
            Item::Clean(_) => None,
            Item::Datagram(datagram) => Some(datagram),
        });
        let in_card = self.incoming.iter().chain(&self.landing).map(|of| &of.what);
        let in_kernel = self.ring.iter().chain(&self.backlog).chain(item).chain(&self.socket);
        in_card.chain(in_kernel).map(|of| of.datagram.source)
    }

    /// Checks the rooms of the ring and of the socket.
    fn conserve(&self, true_bytes: impl Fn(u32) -> u64) -> Result<(), String> {
        let in_ring = self.landing.iter().map(|of| &of.what).chain(&self.ring);
        let frames: u32 = in_ring.map(|of| of.frames).sum();
        if frames != self.slots_used {
            return Err(format!("{} slots counted, {frames} frames in them", self.slots_used));
        }
        let bytes: u64 = self.socket.iter().map(|of| true_bytes(of.frames)).sum();
        if bytes != self.socket_bytes {
            return Err(format!("{} bytes counted, {bytes} in the socket", self.socket_bytes));
        }
        Ok(())
    }
}
