//! Moves packets between a node's ring ports and its host over one shared bus.
//!
//! One transfer at a time. The sources take turns: the host's lanes, then each port's two receive
//! queues. A source misses its turn while the queue behind the bus is full. Requests and responses
//! never wait for each other. Events go first; too many waiting events are dropped.

use super::Packet;
use super::bus::{Destination, Parcel};
use super::lane::{EVENTS, LANES, is_response};
use super::link::{Kind, Loss, NodeIndex, Report};
use super::network::Network;

/// Events that wait in a node for its bus. Assumed: far more than arrive during one packet.
const EVENTS_HELD: usize = 64;

impl Network {
    /// Begins the next transfer over a node's bus, if the bus is free and a source is ready.
    pub(super) fn kick_bus(&mut self, node: u32, tick: u64) {
        let bus = &self.buses[node as usize];
        if bus.moving.is_some() || bus.waiting == 0 {
            return;
        }
        let ports = self.ports_of(NodeIndex(node));
        let sources = LANES + 2 * ports.len();
        let first = self.buses[node as usize].turn;
        let in_turn = |step| (first + step) % sources;
        let parcel = self.pick_event(node).or_else(|| {
            (0..sources).map(in_turn).find_map(|source| self.pick(node, ports.start, source, tick))
        });
        if let Some(parcel) = parcel {
            let bus = &mut self.buses[node as usize];
            bus.waiting -= 1;
            let symbols = u128::from(parcel.packet.command.symbols());
            let rate = self.config.bus.map_or(1, |bus| bus.bytes_per_second);
            let hertz = u128::from(self.config.clock.hertz());
            let cost = (2 * symbols * hertz).div_ceil(u128::from(rate)) as u64;
            bus.moving = Some(parcel);
            self.rings.schedule(tick + cost.max(1), node, Kind::Bus);
        }
    }

    /// Queues an event from a ringlet for the bus, or drops it: events are never held back.
    pub(super) fn event_to_bus(&mut self, node: u32, packet: Packet, tick: u64) {
        let bus = &mut self.buses[node as usize];
        if bus.events.len() < EVENTS_HELD {
            bus.events.push_back(packet);
            bus.waiting += 1;
            return self.kick_bus(node, tick);
        }
        let (at, why) = (NodeIndex(node), Loss::NoPlace);
        let (source, target) = (packet.source, packet.target);
        self.reports.push_back(Report::Dropped { at, source, target, why });
    }

    /// Takes the oldest event, unless the queue behind the bus is full.
    fn pick_event(&mut self, node: u32) -> Option<Parcel> {
        let target = self.buses[node as usize].events.front()?.target;
        let to = if self.address(NodeIndex(node)) == target {
            Destination::Host
        } else {
            let (port, taker) = self.way(node, target);
            Destination::Port { sender: port, taker }
        };
        if to != Destination::Host && !self.reserve(node, to, EVENTS) {
            return None;
        }
        let packet = self.buses[node as usize].events.pop_front()?;
        Some(Parcel { packet, lane: EVENTS, id: None, to, at: 0 })
    }

    /// Takes the oldest packet of a source if the queue behind the bus has room.
    fn pick(&mut self, node: u32, first_port: u32, source: usize, tick: u64) -> Option<Parcel> {
        let from_port = source.checked_sub(LANES).map(|s| (first_port + s as u32 / 2, s % 2));
        let (target, lane) = match from_port {
            None => (self.buses[node as usize].out[source].front()?.0.target, source),
            Some((port, class)) => {
                let intake = &self.rings.ports[port as usize].intake[class];
                intake.packets.front().map(|(packet, lane)| (packet.target, *lane))?
            }
        };
        let to = match from_port {
            Some(_) if self.address(NodeIndex(node)) == target => Destination::Host,
            _ => {
                let (port, taker) = self.way(node, target);
                Destination::Port { sender: port, taker }
            }
        };
        if !self.reserve(node, to, lane) {
            return None;
        }
        let (packet, id) = match from_port {
            None => {
                let out = &mut self.buses[node as usize].out[source];
                let was_full = out.len() >= self.config.send_queue as usize;
                let (packet, id) = out.pop_front()?;
                if was_full {
                    let (node, response) = (NodeIndex(node), is_response(lane));
                    self.reports.push_back(Report::Space { node, response });
                }
                (packet, Some(id))
            }
            Some((port, class)) => {
                let intake = &mut self.rings.ports[port as usize].intake[class];
                let (packet, _) = intake.packets.pop_front()?;
                intake.free(tick);
                (packet, None)
            }
        };
        let ports = self.ports_of(NodeIndex(node)).len();
        self.buses[node as usize].turn = (source + 1) % (LANES + 2 * ports);
        Some(Parcel { packet, lane, id, to, at: 0 })
    }

    fn reserve(&mut self, node: u32, to: Destination, lane: usize) -> bool {
        let (held, slots) = match to {
            Destination::Host => {
                let class = usize::from(is_response(lane));
                (&mut self.buses[node as usize].held[class], self.rings.slots(class))
            }
            Destination::Port { sender: port, .. } => {
                (&mut self.rings.ports[port as usize].lanes[lane].held, self.config.send_queue)
            }
        };
        let has_space = *held < slots;
        *held += u32::from(has_space);
        has_space
    }

    /// Handles the end of a transfer.
    pub(super) fn bus_is_free(&mut self, node: u32, tick: u64) {
        let turn = self.config.bus.map_or(0, |bus| bus.delay);
        let bus = &mut self.buses[node as usize];
        if let Some(mut parcel) = bus.moving.take() {
            let changes_ringlet = parcel.id.is_none() && parcel.to != Destination::Host;
            let at = tick + if changes_ringlet { turn } else { 0 };
            parcel.at = at;
            let place = bus.passing.partition_point(|other| other.at <= at);
            bus.passing.insert(place, parcel);
            self.rings.schedule(at, node, Kind::Passed);
        }
        self.kick_bus(node, tick);
    }

    /// Handles a packet that has reached the queue behind the bus.
    pub(super) fn passed(&mut self, node: u32, tick: u64) {
        let Some(parcel) = self.buses[node as usize].passing.pop_front() else { return };
        debug_assert_eq!(parcel.at, tick);
        match parcel.to {
            Destination::Port { sender: port, taker } => {
                self.rings.ports[port as usize].lanes[parcel.lane].held -= 1;
                self.queue(port, taker, parcel.packet, parcel.lane, parcel.id, tick);
            }
            Destination::Host if parcel.lane == EVENTS => {
                self.reports
                    .push_back(Report::Event { node: NodeIndex(node), packet: parcel.packet });
            }
            Destination::Host => {
                let response = is_response(parcel.lane);
                self.buses[node as usize].packets[usize::from(response)].push_back(parcel.packet);
                self.reports.push_back(Report::Received { node: NodeIndex(node), response });
            }
        }
    }
}
