//! The network: ringlets and nodes, with the calls of the layers above.

use std::collections::VecDeque;

use super::bus::NodeBus;
use super::config::Config;
use super::lane::{Send, lane_of};
use super::link::{
    Dropped, Entry, Kind, Loss, NodeIndex, Priority, Refusal, Refused, Report, SendId,
};
use super::port::NOBODY;
use super::ring::{Due, Rings};
use super::route::{self, Routes};
use super::tap::Tap;
use super::ticks::Ticks;
use super::{Command, Counters, NodeId, Packet};
use crate::core::agenda::Schedule;
use crate::core::dump::Dump;

/// All ringlets and their nodes.
#[derive(Debug)]
pub struct Network {
    pub(super) config: Config,
    pub(super) routes: Routes,
    pub(super) rings: Rings,
    /// The buses of nodes; empty if hosts take packets from their ring port.
    pub(super) buses: Vec<NodeBus>,
    pub(super) reports: VecDeque<Report>,
    ticks: Ticks,
    next_id: u64,
    /// The packet of the last report of a drop.
    pub(super) last_dropped: Option<Dropped>,
}

/// The record of a send at its end.
struct End {
    id: SendId,
    lane: usize,
    passing: bool,
    loss: Option<Loss>,
    from: u32,
    source: NodeId,
    target: NodeId,
    /// The packet, unless it was accepted at the other end.
    packet: Option<Dropped>,
}

impl Network {
    /// Makes an idle network. Fails if the configuration contradicts itself, and names the place.
    pub fn new(config: &Config) -> Result<Network, super::ConfigError> {
        config.check()?;
        let (ports, ringlets) = route::build(config);
        let buses = if config.bus.is_some() { config.addresses.len() } else { 0 };
        Ok(Network {
            routes: Routes::new(config),
            rings: Rings::new(config, ports, ringlets),
            buses: (0..buses).map(|_| NodeBus::default()).collect(),
            reports: VecDeque::new(),
            ticks: Ticks::new(config.clock),
            next_id: 0,
            last_dropped: None,
            config: config.clone(),
        })
    }

    /// Returns the number of nodes, a switch included.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.config.addresses.len() as u32
    }

    /// Returns the address of a node.
    #[must_use]
    pub fn address(&self, node: NodeIndex) -> NodeId {
        self.config.addresses[node.0 as usize]
    }

    /// Returns the node of an address.
    #[must_use]
    pub fn node_of(&self, address: NodeId) -> Option<NodeIndex> {
        self.routes.node(address.0).map(NodeIndex)
    }

    /// Returns the packet of the last report of a drop, once.
    pub(super) fn take_dropped(&mut self) -> Option<Dropped> {
        self.last_dropped.take()
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Queues a packet at `node`, at low priority. It starts with the next symbol at the earliest.
    /// The command decides the class (request or response).
    pub fn send(
        &mut self,
        node: NodeIndex,
        packet: Packet,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused> {
        self.send_at(node, packet, Priority::Low, agenda)
    }

    /// Queues a packet at a priority, as [`send`](Network::send) does; events ignore it.
    pub fn send_at(
        &mut self,
        node: NodeIndex,
        mut packet: Packet,
        priority: Priority,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused> {
        let tick = self.ticks.running(agenda.now());
        if packet.command == Command::Strobe {
            packet.target = self.address(node);
        }
        if packet.command.symbols() > self.config.bypass_symbols {
            return Err(Refused { packet, why: Refusal::TooLong });
        }
        let first = self.routes.first_port(node.0);
        if self.rings.ports[first as usize].dead {
            return Err(Refused { packet, why: Refusal::Dead });
        }
        let lane = lane_of(packet.command, priority);
        let id = SendId(self.next_id);
        if let Some(bus) = self.buses.get_mut(node.0 as usize) {
            if bus.out[lane].len() >= self.config.send_queue as usize {
                return Err(Refused { packet, why: Refusal::Full });
            }
            bus.out[lane].push_back((packet, id));
            bus.waiting += 1;
            self.kick_bus(node.0, tick);
        } else {
            if self.rings.ports[first as usize].lanes[lane].held >= self.config.send_queue {
                return Err(Refused { packet, why: Refusal::Full });
            }
            let (port, target) = self.way(node.0, packet.target);
            self.queue(port, target, packet, lane, Some(id), tick);
        }
        self.next_id += 1;
        self.flush(agenda);
        Ok(id)
    }

    /// Returns the port that sends a packet from a node towards an address, and the port that takes
    /// it off.
    pub(super) fn way(&self, node: u32, target: NodeId) -> (u32, u32) {
        match self.routes.node(target.0) {
            Some(target) => self.routes.way(node, target),
            None => (self.routes.first_port(node), NOBODY),
        }
    }

    /// Puts a packet into a lane of a port; it may start in the tick after `tick`.
    pub(super) fn queue(
        &mut self,
        port: u32,
        target: u32,
        packet: Packet,
        lane: usize,
        id: Option<SendId>,
        tick: u64,
    ) {
        let passing = id.is_none();
        let id = id.unwrap_or_else(|| {
            self.next_id += 1;
            SendId(self.next_id - 1)
        });
        let send = Send {
            id,
            source: packet.source,
            target: packet.target,
            from: port,
            port: target,
            lane,
            symbols: packet.command.symbols(),
            is_event: packet.command.is_event(),
            strobe: (packet.command == Command::Strobe).then_some(packet.offset),
            delayed: 0,
            waited: 0,
            passing,
            phase: super::ageing::Phase::default(),
            ready: tick + 1,
            started: tick + 1,
            age: 0,
            attempts: 0,
            owed: false,
            ended: false,
            loss: None,
            packet: Some(packet),
        };
        let handle = self.rings.sends.add(send);
        let sender = &mut self.rings.ports[port as usize];
        sender.may_start |= 1 << lane;
        sender.lanes[lane].unsent.push_back(handle);
        sender.lanes[lane].held += 1;
        let ring = sender.ring;
        if self.rings.ringlets[ring as usize].dead {
            return self.rings.end_send(port, handle, tick + 1, Some(Loss::Dead));
        }
        self.rings.watch(ring, tick);
        self.rings.plan(port, tick);
    }

    /// Handles an entry that is due.
    pub fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        let tick = self.ticks.running(agenda.now());
        match entry.kind {
            Kind::Wake => self.rings.wake(entry.at, tick),
            Kind::Stripped => self.stripped(entry.at, tick),
            Kind::Ended => self.ended(entry.at, tick),
            Kind::Bus => self.bus_is_free(entry.at, tick),
            Kind::Passed => self.passed(entry.at, tick),
            Kind::Watch => self.rings.look_for_old(entry.at, tick),
            Kind::Strobe => self.strobe(entry.at),
        }
        self.flush(agenda);
    }

    fn flush(&mut self, agenda: &mut impl Schedule<Entry>) {
        // Read field by field, as they were just written: a processor that reads them as one word
        // waits until all earlier writes have reached its cache.
        for &Due { tick, entry: Entry { at, kind } } in &self.rings.due {
            agenda.schedule(self.ticks.at(tick), Entry { at, kind });
        }
        self.rings.due.clear();
    }

    /// Handles the end of a packet that was taken off.
    fn stripped(&mut self, at: u32, tick: u64) {
        let port = &mut self.rings.ports[at as usize];
        let Some(arriving) = port.arriving.pop_front() else { return };
        debug_assert_eq!(arriving.end, tick);
        let (node, response) = (NodeIndex(port.node), super::lane::is_response(arriving.lane));
        let intake = &mut port.intake[usize::from(response)];
        match arriving.packet {
            // Reported to its sender by `Report::Strobe`.
            Some(packet) if packet.command == Command::Strobe => {}
            Some(packet) if arriving.is_event => self.event(node, packet, tick),
            None if arriving.is_event => {}
            // The CRC is wrong, or the send was given up: the slot is free again.
            None => intake.free(tick),
            Some(packet) => {
                intake.packets.push_back((packet, arriving.lane));
                if self.buses.is_empty() {
                    self.reports.push_back(Report::Received { node, response });
                } else {
                    self.buses[node.0 as usize].waiting += 1;
                    self.kick_bus(node.0, tick);
                }
            }
        }
    }

    /// Handles an event that has arrived; it bypasses the receive queues.
    fn event(&mut self, node: NodeIndex, packet: Packet, tick: u64) {
        if self.buses.is_empty() {
            self.reports.push_back(Report::Event { node, packet });
        } else {
            self.event_to_bus(node.0, packet, tick);
        }
    }

    /// Handles the end of a send.
    fn ended(&mut self, handle: u32, tick: u64) {
        let Some(send) = self.rings.sends.get_mut(handle) else { return };
        send.ended = true;
        // An event that is still on its way keeps its bytes here.
        let on_its_way = send.is_event && send.packet.is_some() && send.loss.is_none();
        let send = End {
            id: send.id,
            lane: send.lane,
            passing: send.passing,
            loss: send.loss,
            from: send.from,
            source: send.source,
            target: send.target,
            packet: send.packet.as_ref().map(Dropped::of),
        };
        if !on_its_way {
            self.rings.sends.remove(handle);
        }
        let at = send.from;
        let port = &mut self.rings.ports[at as usize];
        let node = NodeIndex(port.node);
        let lane = &mut port.lanes[send.lane];
        let was_full = lane.held >= self.config.send_queue;
        lane.held -= 1;
        self.reports.extend(match send.loss {
            None if send.passing => None,
            None => Some(Report::Done { node, send: send.id }),
            // Accepted by the next port, which did not learn of it: the packet goes on.
            Some(_) if send.passing && send.packet.is_none() => None,
            Some(why) if send.passing => {
                let (source, target, packet) = (send.source, send.target, send.packet);
                Some(Report::Dropped { at: node, source, target, packet, why })
            }
            Some(why) => Some(Report::Lost { node, send: send.id, why }),
        });
        if !self.buses.is_empty() {
            self.kick_bus(node.0, tick);
        } else if was_full {
            let response = super::lane::is_response(send.lane);
            self.reports.push_back(Report::Space { node, response });
        }
    }

    /// Returns the next report, oldest first. Ask until `None` after `handle`, `send` and `take_*`.
    pub fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Takes the oldest request out of the receive queue of `node`; the slot is free from the next
    /// symbol on.
    pub fn take_request(
        &mut self,
        node: NodeIndex,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Packet> {
        self.take(node, 0, agenda)
    }

    /// Takes the oldest response in the same way.
    pub fn take_response(
        &mut self,
        node: NodeIndex,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Packet> {
        self.take(node, 1, agenda)
    }

    fn take(
        &mut self,
        node: NodeIndex,
        class: usize,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Packet> {
        let tick = self.ticks.running(agenda.now());
        if let Some(bus) = self.buses.get_mut(node.0 as usize) {
            let packet = bus.packets[class].pop_front()?;
            bus.held[class] -= 1;
            self.kick_bus(node.0, tick);
            self.flush(agenda);
            return Some(packet);
        }
        let intake = &mut self.rings.ports[node.0 as usize].intake[class];
        let (packet, _) = intake.packets.pop_front()?;
        intake.free(tick);
        Some(packet)
    }

    /// Returns the ring ports of a node.
    #[must_use]
    pub fn ports_of(&self, node: NodeIndex) -> std::ops::Range<u32> {
        self.config.topology.ports_of(node.0)
    }

    /// Returns the counters of a ring port.
    #[must_use]
    pub fn counters(&self, port: u32) -> Counters {
        self.rings.ports[port as usize].counters
    }

    /// Returns the sum of all ring ports' counters.
    #[must_use]
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        self.rings.ports.iter().for_each(|port| total.add(&port.counters));
        total
    }

    /// Puts every packet of every link into `dump` from now on. Each ring port's output link is an
    /// interface, by the port's number. Costs a copy of each packet's bytes per hop; without a
    /// dump, the cost is too small to measure (`docs/simulation/dumps.md`).
    pub fn begin_dump(&mut self, dump: Dump) {
        self.rings.tap =
            Some(Box::new(Tap::new(dump, &self.rings.ports, &self.config, self.ticks)));
    }

    /// Returns the dump so far, if there is one.
    pub fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.rings.tap.as_mut().map(|tap| &mut tap.dump)
    }

    /// Stops dumping, and returns the dump.
    pub fn end_dump(&mut self) -> Option<Dump> {
        self.rings.tap.take().map(|tap| tap.dump)
    }

    /// Returns the number of sends that wait or are on their way, including those between ringlets.
    #[must_use]
    pub fn pending(&self) -> usize {
        let waiting = |bus: &NodeBus| bus.out.iter().map(|lane| lane.len()).sum::<usize>();
        self.rings.sends.len() + self.buses.iter().map(waiting).sum::<usize>()
    }

    /// Cuts the cable behind ring port `port` (the n-th of `node`). Packets on it and packets sent
    /// into it are destroyed; a packet whose head has left it still arrives.
    pub fn cut_cable(&mut self, node: NodeIndex, port: u32, agenda: &mut impl Schedule<Entry>) {
        let tick = self.ticks.running(agenda.now());
        let at = self.ports_of(node).start + port;
        self.rings.cut(at, tick);
        self.flush(agenda);
    }

    /// Plugs the cable behind ring port `port` of `node` in again. A ringlet that was dead is used
    /// again; the sends that it lost are not repeated.
    pub fn mend_cable(&mut self, node: NodeIndex, port: u32, agenda: &mut impl Schedule<Entry>) {
        let tick = self.ticks.running(agenda.now());
        let at = self.ports_of(node).start + port;
        self.rings.mend(at, tick);
        self.flush(agenda);
    }

    /// Kills a node: it no longer takes or passes packets, and its sends are reported as lost.
    pub fn kill_node(&mut self, node: NodeIndex, agenda: &mut impl Schedule<Entry>) {
        let tick = self.ticks.running(agenda.now());
        for at in self.ports_of(node) {
            self.rings.ports[at as usize].dead = true;
            self.rings.end_all(at, tick);
            self.rings.cut(at, tick);
        }
        if let Some(bus) = self.buses.get_mut(node.0 as usize) {
            for (_, send) in bus.out.iter_mut().flat_map(|lane| lane.drain(..)) {
                bus.waiting -= 1;
                self.reports.push_back(Report::Lost { node, send, why: Loss::Dead });
            }
        }
        self.flush(agenda);
    }

    /// Clears every go bit on the links, as a fault; the scrubber must repair it.
    pub fn lose_go_bits(&mut self) {
        self.rings.lose_go_bits();
    }
}
