//! A scenario's SCI network under traffic: messages become writes, and the arrival of their bytes
//! is measured.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

use super::network::{Preset, RetryName};
use super::run::{Measured, SOURCE_MESSAGES, refused};
use super::{CommandName, Kind, Refused, Scenario};
use crate::core::ahead::Nearness;
use crate::core::dump::Dump;
use crate::core::model;
use crate::core::trace::{self, Trace};
use crate::load::sweep::{Detail, Experiment, LinkUse, Observer};
use crate::load::traffic::{Arrivals, Message, Plan, Traffic};
use crate::net::sci::{
    self, Bus, Command, Config, Faults, Network, NodeId, NodeIndex, Packet, Refusal, Report, Retry,
    SendId, Status, Topology,
};
use crate::{Agenda, Clock, Fingerprint, Instant, Model};

/// Wait of a plain retry \[symbols\]. Assumed: until the next symbol.
const RETRY_SYMBOLS: u64 = 1;
/// Delay from a bus to the queue behind it \[symbols\]. Assumed: a few clocks of the bus.
const BUS_SYMBOLS: u64 = 16;

impl Scenario {
    /// Returns the configuration of an SCI network.
    pub(super) fn sci_config(&self, seed: u64) -> Config {
        let part = &self.network;
        let nodes = part.node_count() as u32;
        let of_preset = match part.preset {
            Preset::Standard => Config::ring,
            Preset::Lc1 => Config::lc1,
            Preset::Lc2 => Config::lc2,
            Preset::Lc3 => Config::lc3,
        };
        let topology = match part.kind {
            Kind::SciTorus => Topology::Torus { sizes: vec![part.side; part.dimensions as usize] },
            Kind::SciSwitch => Topology::Switch { ports: part.ports, per_ringlet: part.nodes },
            _ => Topology::Ring { nodes },
        };
        // The switch is a node of its own.
        let all = nodes + u32::from(part.kind == Kind::SciSwitch);
        let base = of_preset(all);
        let bytes_per_second = (part.bus_mb_s * 1e6) as u64;
        let bus = Bus { bytes_per_second, delay: BUS_SYMBOLS };
        let receive = part.receive_queue;
        Config {
            topology,
            clock: part.link_mb_s.map_or(base.clock, |mb_s| clock(mb_s * 1e6)),
            pass_symbols: part.pass_symbols.unwrap_or(base.pass_symbols),
            cable_symbols: part.cable_symbols.unwrap_or(base.cable_symbols),
            flow_control: part.flow_control,
            retry: match part.retry {
                RetryName::Aged => Retry::Aged,
                RetryName::Plain => Retry::Plain { delay: RETRY_SYMBOLS },
            },
            send_queue: part.send_queue.unwrap_or(base.send_queue),
            unacknowledged: part.unacknowledged.unwrap_or(base.unacknowledged),
            request_queue: receive.unwrap_or(base.request_queue),
            response_queue: receive.unwrap_or(base.response_queue),
            bus: if part.kind == Kind::SciRing { base.bus } else { Some(bus) },
            faults: Faults { bit_error_rate: self.faults.bit_error_rate, seed },
            ..base
        }
    }

    pub(super) fn measure_sci(&self, plan: Plan) -> Result<Measured, Refused> {
        let (mut model, mut agenda) = self.sci_model(plan)?;
        let outcome = self.outcome(&mut model, &mut agenda)?;
        Ok(Measured { outcome, lost: model.lost })
    }

    /// Traces all entries due by `until`.
    pub(super) fn trace_sci<W: Write>(
        &self,
        plan: Plan,
        until: Instant,
        trace: &mut Trace<W>,
    ) -> Result<(), Refused> {
        let (mut model, mut agenda) = self.sci_model(plan)?;
        let name = |kind| match kind {
            u8::MAX => "message made",
            kind => sci::Entry::kind_name(kind),
        };
        let print = &mut Fingerprint::default();
        trace::run(&mut model, &mut agenda, print, until, trace, name);
        Ok(())
    }

    /// Dumps the packets of all entries due by `until`.
    pub(super) fn dump_sci(&self, plan: Plan, until: Instant, dump: Dump) -> Result<Dump, Refused> {
        let (mut model, mut agenda) = self.sci_model(plan)?;
        model.network.begin_dump(dump);
        model::run(&mut model, &mut agenda, &mut Fingerprint::default(), until);
        Ok(model.network.end_dump().expect("begun above"))
    }

    fn sci_model(&self, plan: Plan) -> Result<(Loaded, Agenda<Entry>), Refused> {
        let mut agenda = Agenda::default();
        let config = self.sci_config(self.seed);
        let network = Network::new(&config).map_err(|error| refused(&error))?;
        let traffic = Traffic::new(plan).map_err(|error| refused(&error))?;
        let mut model = Loaded::new(network, traffic, self.traffic.command);
        model.begin(&mut agenda, &self.faults.dead_nodes);
        Ok((model, agenda))
    }
}

/// The clock of a link: a symbol has two bytes.
fn clock(bytes_per_s: f64) -> Clock {
    Clock::from_hertz((bytes_per_s / 2.0).max(1.0) as u64)
}

/// An entry of the agenda of an SCI network under traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// A node creates a message.
    Create(u32),
    /// An entry of the network.
    Network(sci::Entry),
}

impl From<sci::Entry> for Entry {
    fn from(entry: sci::Entry) -> Entry {
        Entry::Network(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Create(node) => *node,
            Entry::Network(entry) => entry.component(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Create(_) => u8::MAX,
            Entry::Network(entry) => entry.kind(),
        }
    }
}

/// One node's program.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The next message, in an open loop.
    next: Option<Message>,
    /// Messages that wait for the send queue.
    waiting: VecDeque<Message>,
    /// Answers that wait for the send queue.
    answers: VecDeque<Packet>,
}

/// A network, its traffic, and its observer.
struct Loaded {
    network: Network,
    traffic: Traffic,
    command: CommandName,
    nodes: Vec<Node>,
    /// Messages under way, by the number that their packets carry as offset.
    sent: Vec<Option<Message>>,
    free: Vec<u32>,
    /// Answers under way, and their receivers.
    answering: BTreeMap<SendId, NodeId>,
    observer: Observer,
    is_closed: bool,
    lost: u64,
    /// Ring ports, and the nodes that the link behind each joins.
    links: Vec<(u32, u32, u32)>,
}

impl Loaded {
    fn new(network: Network, traffic: Traffic, command: CommandName) -> Loaded {
        let nodes = traffic.plan().nodes;
        let is_closed = matches!(traffic.plan().arrivals, Arrivals::Window { .. });
        Loaded {
            links: links(&network),
            network,
            traffic,
            command,
            nodes: vec![Node::default(); nodes as usize],
            sent: Vec::new(),
            free: Vec::new(),
            answering: BTreeMap::new(),
            observer: Observer::new(nodes, Detail::Full),
            is_closed,
            lost: 0,
        }
    }

    fn begin(&mut self, agenda: &mut Agenda<Entry>, dead: &[u32]) {
        for &node in dead {
            self.network.kill_node(NodeIndex(node), agenda);
        }
        for node in (0..self.nodes.len() as u32).filter(|node| !dead.contains(node)) {
            self.plan_next(node, agenda);
            self.send_waiting(node, agenda);
        }
        self.follow_reports(agenda);
    }

    fn plan_next(&mut self, source: u32, agenda: &mut Agenda<Entry>) {
        while let Some(message) = self.traffic.next(source, agenda.now()) {
            let node = &mut self.nodes[source as usize];
            if !self.is_closed {
                node.next = Some(message);
                agenda.schedule(message.at, Entry::Create(source));
                return;
            }
            self.observer.offered(message.bytes);
            node.waiting.push_back(message);
        }
    }

    fn create(&mut self, source: u32, agenda: &mut Agenda<Entry>) {
        let node = &mut self.nodes[source as usize];
        if let Some(message) = node.next.take() {
            self.observer.offered(message.bytes);
            if node.waiting.len() < SOURCE_MESSAGES as usize {
                node.waiting.push_back(message);
            } else {
                self.observer.refused(message.bytes);
            }
        }
        self.plan_next(source, agenda);
        self.send_waiting(source, agenda);
    }

    /// Hands packets to the send queues while they have room: answers first, because they complete
    /// other nodes' work.
    fn send_waiting(&mut self, node: u32, agenda: &mut Agenda<Entry>) {
        while let Some(packet) = self.nodes[node as usize].answers.pop_front() {
            let requester = packet.target;
            match self.network.send(NodeIndex(node), packet, agenda) {
                Ok(send) => {
                    self.answering.insert(send, requester);
                }
                Err(back) if back.why == Refusal::Full => {
                    self.nodes[node as usize].answers.push_front(back.packet);
                    break;
                }
                Err(_) => self.lose(u32::from(requester.0)),
            }
        }
        while let Some(message) = self.nodes[node as usize].waiting.pop_front() {
            let slot = self.free.pop().unwrap_or(self.sent.len() as u32);
            let packet = self.packet(&message, slot);
            match self.network.send(NodeIndex(node), packet, agenda) {
                Ok(_) if slot as usize == self.sent.len() => self.sent.push(Some(message)),
                Ok(_) => self.sent[slot as usize] = Some(message),
                Err(back) => {
                    if (slot as usize) < self.sent.len() {
                        self.free.push(slot);
                    }
                    if back.why == Refusal::Full {
                        self.nodes[node as usize].waiting.push_front(message);
                        break;
                    }
                    self.lose(node);
                }
            }
        }
    }

    /// Returns a write of the message's bytes; its offset identifies the message on arrival.
    fn packet(&self, message: &Message, slot: u32) -> Packet {
        let command = match (self.command, message.bytes) {
            (CommandName::Move, 0..=16) => Command::Move16,
            (CommandName::Move, 17..=64) => Command::Move64,
            (CommandName::Move, _) => Command::Move256,
            (CommandName::Write, 0..=16) => Command::Write16,
            (CommandName::Write, 17..=64) => Command::Write64,
            (CommandName::Write, _) => Command::Write256,
        };
        Packet {
            target: self.network.address(NodeIndex(message.to)),
            source: self.network.address(NodeIndex(message.source)),
            command,
            transaction: (slot % 64) as u8,
            offset: u64::from(slot),
            status: Status::Normal,
            data: vec![0; command.data_bytes() as usize],
        }
    }

    /// Counts a message of `source` as given up.
    fn lose(&mut self, source: u32) {
        self.lost += 1;
        self.traffic.delivered(source);
    }

    fn follow_reports(&mut self, agenda: &mut Agenda<Entry>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, response: false } => {
                    while let Some(packet) = self.network.take_request(node, agenda) {
                        self.arrived(node.0, &packet, agenda);
                    }
                }
                Report::Received { node, response: true } => {
                    while self.network.take_response(node, agenda).is_some() {
                        self.ended(node.0, agenda);
                    }
                }
                Report::Done { node, send } => {
                    let is_answer = self.answering.remove(&send).is_some();
                    if !is_answer && self.command == CommandName::Move {
                        self.ended(node.0, agenda);
                    }
                }
                Report::Lost { node, send, .. } => {
                    let requester = self.answering.remove(&send);
                    let source = requester.map_or(node.0, |id| u32::from(id.0));
                    self.lost += 1;
                    self.ended(source, agenda);
                }
                Report::Dropped { source, .. } => {
                    self.lost += 1;
                    self.ended(u32::from(source.0), agenda);
                }
                Report::Space { node, .. } => self.send_waiting(node.0, agenda),
                Report::Event { .. } | Report::Strobe { .. } => {}
            }
        }
    }

    /// Handles the arrival of a message's bytes.
    fn arrived(&mut self, node: u32, packet: &Packet, agenda: &mut Agenda<Entry>) {
        let slot = packet.offset as u32;
        if let Some(message) = self.sent.get_mut(slot as usize).and_then(Option::take) {
            self.free.push(slot);
            let latency = agenda.now().since(message.at);
            self.observer.delivered(message.source, message.bytes, latency);
        }
        if let Some(command) = packet.command.response() {
            let answer = Packet {
                target: packet.source,
                source: packet.target,
                command,
                transaction: packet.transaction,
                offset: 0,
                status: Status::Normal,
                data: vec![0; command.data_bytes() as usize],
            };
            self.nodes[node as usize].answers.push_back(answer);
            self.send_waiting(node, agenda);
        }
    }

    /// Ends a message of `source`: a closed loop then has room for the next one.
    fn ended(&mut self, source: u32, agenda: &mut Agenda<Entry>) {
        if self.is_closed {
            self.traffic.delivered(source);
            self.plan_next(source, agenda);
            self.send_waiting(source, agenda);
        }
    }
}

impl Model for Loaded {
    type Entry = Entry;

    fn handle(&mut self, entry: Entry, agenda: &mut Agenda<Entry>) {
        match entry {
            Entry::Create(node) => self.create(node, agenda),
            Entry::Network(entry) => self.network.handle(entry, agenda),
        }
        self.follow_reports(agenda);
    }

    fn touch(&self, entry: &Entry, nearness: Nearness) {
        if let Entry::Network(entry) = entry {
            self.network.touch(entry, nearness);
        }
    }
}

impl Experiment for Loaded {
    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    /// A packet takes its symbols and the idle behind them; echoes count as packets.
    fn links(&self) -> Vec<LinkUse> {
        let clock = self.network.config().clock;
        let busy = |port: u32| {
            let counters = self.network.counters(port);
            clock.span(counters.symbols_out + counters.packets_out)
        };
        let of = |&(port, from, to): &(u32, u32, u32)| LinkUse { from, to, busy: busy(port) };
        self.links.iter().map(of).collect()
    }

    fn hops(&self) -> u64 {
        self.network.total().packets_out
    }

    fn check(&self, _now: Instant) -> Result<(), String> {
        self.network.check_conservation().map_err(|unbalanced| unbalanced.to_string())
    }
}

/// Every ring port, and the nodes that the link behind it joins.
fn links(network: &Network) -> Vec<(u32, u32, u32)> {
    let mut links = Vec::new();
    for node in 0..network.nodes() {
        for (number, port) in (0..).zip(network.ports_of(NodeIndex(node))) {
            links.push((port, node, next(&network.config().topology, node, number)));
        }
    }
    links
}

/// The node behind ring port number `port` of `node`.
fn next(topology: &Topology, node: u32, port: u32) -> u32 {
    match topology {
        Topology::Ring { nodes } => (node + 1) % nodes,
        Topology::Torus { sizes } => {
            let stride: u32 = sizes[..port as usize].iter().product();
            let size = sizes[port as usize];
            if node / stride % size + 1 == size {
                node - (size - 1) * stride
            } else {
                node + stride
            }
        }
        Topology::Switch { ports, per_ringlet } => match ports * per_ringlet {
            switch if node == switch => port * per_ringlet,
            switch if node % per_ringlet + 1 == *per_ringlet => switch,
            _ => node + 1,
        },
    }
}
