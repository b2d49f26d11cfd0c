//! Moves packets between a node's ring ports and its host over one shared bus.
//!
//! One transfer at a time. Requests and responses take turns, and within a class the sources do:
//! the host's lanes of the class, then each port's receive queue for it. Each class has a turn of
//! its own: with one for both, a response that crosses would give its port the next request as
//! well, and other ports would starve. A source misses its turn while the queue behind the bus is
//! full. Events go first; too many waiting events are dropped.

use super::Packet;
use super::bus::{Destination, Parcel};
use super::lane::{EVENTS, LANES, is_response};
use super::link::{Dropped, Kind, Loss, NodeIndex, Report};
use super::network::Network;

/// Events that wait in a node for its bus. Assumed: far more than arrive during one packet.
const EVENTS_HELD: usize = 64;

/// The host's lanes of one class: low and high priority, and events, which are requests.
const HOST_LANES: usize = 3;

/// A queue in front of the bus.
#[derive(Clone, Copy)]
enum Source {
    Host { lane: usize },
    Port { port: u32, class: usize },
}

impl Network {
    /// Begins the next transfer over a node's bus, if the bus is free and a source is ready.
    pub(super) fn kick_bus(&mut self, node: u32, tick: u64) {
        let bus = &self.buses[node as usize];
        if bus.moving.is_some() || bus.waiting == 0 {
            return;
        }
        let first = bus.next_class;
        let parcel = self.pick_event(node).or_else(|| {
            [first, 1 - first].into_iter().find_map(|class| self.pick_of_class(node, class, tick))
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
        let (source, target, packet) = (packet.source, packet.target, Some(Dropped::of(&packet)));
        self.reports.push_back(Report::Dropped { at, source, target, packet, why });
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

    /// Takes the next packet of a class, and gives the turn to the source behind it.
    fn pick_of_class(&mut self, node: u32, class: usize, tick: u64) -> Option<Parcel> {
        let ports = self.ports_of(NodeIndex(node));
        let sources = HOST_LANES + ports.len();
        let first = self.buses[node as usize].turns[class];
        (0..sources).map(|step| (first + step) % sources).find_map(|number| {
            let source = match number.checked_sub(HOST_LANES) {
                None if class + 2 * number < LANES => Source::Host { lane: class + 2 * number },
                None => return None, // no response is an event
                Some(port) => Source::Port { port: ports.start + port as u32, class },
            };
            let parcel = self.pick(node, source, tick)?;
            let bus = &mut self.buses[node as usize];
            bus.turns[class] = (number + 1) % sources;
            bus.next_class = 1 - class;
            Some(parcel)
        })
    }

    /// Takes the oldest packet of a source if the queue behind the bus has room.
    fn pick(&mut self, node: u32, source: Source, tick: u64) -> Option<Parcel> {
        let (target, lane) = match source {
            Source::Host { lane } => (self.buses[node as usize].out[lane].front()?.0.target, lane),
            Source::Port { port, class } => {
                let intake = &self.rings.ports[port as usize].intake[class];
                intake.packets.front().map(|(packet, lane)| (packet.target, *lane))?
            }
        };
        let to = match source {
            Source::Port { .. } if self.address(NodeIndex(node)) == target => Destination::Host,
            _ => {
                let (port, taker) = self.way(node, target);
                Destination::Port { sender: port, taker }
            }
        };
        if !self.reserve(node, to, lane) {
            return None;
        }
        let (packet, id) = match source {
            Source::Host { lane } => {
                let out = &mut self.buses[node as usize].out[lane];
                let was_full = out.len() >= self.config.send_queue as usize;
                let (packet, id) = out.pop_front()?;
                if was_full {
                    let (node, response) = (NodeIndex(node), is_response(lane));
                    self.reports.push_back(Report::Space { node, response });
                }
                (packet, Some(id))
            }
            Source::Port { port, class } => {
                let intake = &mut self.rings.ports[port as usize].intake[class];
                let (packet, _) = intake.packets.pop_front()?;
                intake.free(tick);
                (packet, None)
            }
        };
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
