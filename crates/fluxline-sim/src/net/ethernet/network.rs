//! The network: cards, cables and the switch.

use std::collections::VecDeque;

use fluxline_core::random::Draw;

use super::carried::Carried;
use super::config::{Config, ConfigError, Forwarding};
use super::counters::{Counters, PortLosses};
use super::datagram::{Datagram, Payload};
use super::framing;
use super::link::{Content, Direction, Entry, Fate, Frame, Link};
use super::slab::Slab;
use super::tap::Tap;
use crate::Instant;
use crate::core::agenda::Schedule;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Refusal, Refused, Report, SendId};

/// A node's machine and its cable.
#[derive(Clone, Copy, Debug, Default)]
struct Plug {
    is_cut: bool,
    has_no_power: bool,
}

/// The place of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Queue,
    CrcAtSwitch,
    CrcAtNode,
    Loss,
    Cut,
}

/// A network.
#[derive(Debug)]
pub struct Network {
    pub(super) config: Config,
    /// The links from nodes, then those to nodes.
    pub(super) links: Vec<Link>,
    pub(super) carried: Slab<Carried>,
    arrived: Vec<VecDeque<Datagram>>,
    reports: VecDeque<Report>,
    plugs: Vec<Plug>,
    pub(super) counters: Counters,
    /// For each node, the queues for which the switch has stopped it.
    pub(super) stops: Vec<u32>,
    /// True for each node whose pause frame is repeated.
    pub(super) refreshes: Vec<bool>,
    draw: Draw,
    sends: u64,
    pub(super) tap: Option<Box<Tap>>,
}

impl Network {
    /// Makes a network at rest.
    ///
    /// # Errors
    /// Those of [`Config::check`].
    pub fn new(config: Config) -> Result<Network, ConfigError> {
        config.check()?;
        let nodes = config.nodes as usize;
        let up = (0..nodes).map(|_| Link::new(Direction::Up));
        let down = (0..nodes).map(|_| Link::new(Direction::Down));
        let ports = vec![PortLosses::default(); nodes];
        Ok(Network {
            links: up.chain(down).collect(),
            carried: Slab::default(),
            arrived: (0..nodes).map(|_| VecDeque::new()).collect(),
            reports: VecDeque::new(),
            plugs: vec![Plug::default(); nodes],
            counters: Counters { ports, ..Counters::default() },
            stops: vec![0; nodes],
            refreshes: vec![false; nodes],
            draw: Draw::new(config.seed),
            sends: 0,
            tap: None,
            config,
        })
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

    /// Returns the node of a link.
    pub(super) fn node_of(&self, link: u32) -> u32 {
        link % self.config.nodes
    }

    /// Returns the link to a node, which is the output of its port.
    pub(super) fn output(&self, node: u32) -> u32 {
        self.config.nodes + node
    }

    pub(super) fn link(&mut self, link: u32) -> &mut Link {
        &mut self.links[link as usize]
    }

    pub(super) fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    pub(super) fn take(&mut self, node: u32, class: Class) -> Option<Datagram> {
        match class {
            Class::Request => self.arrived.get_mut(node as usize)?.pop_front(),
            Class::Response => None,
        }
    }

    /// Queues a datagram at the card of a node.
    pub(super) fn send(
        &mut self,
        node: u32,
        datagram: Datagram,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Datagram>> {
        let mtu = u64::from(self.config.mtu);
        let payload = datagram.payload_bytes();
        if node >= self.config.nodes || !datagram.fits(self.config.nodes) {
            return Err(Refused { frame: datagram, why: Refusal::Never });
        }
        let parts = framing::parts(payload, mtu) as u32;
        let part_bytes = |index| framing::part(payload, mtu, u64::from(index)).frame_bytes();
        let bytes: u64 = (0..parts).map(part_bytes).sum();
        let limit = self.config.send_queue_bytes;
        let link = self.link(node);
        let queued = link.queued_bytes();
        if queued > 0 && queued + bytes > limit {
            link.was_full = true;
            return Err(Refused { frame: datagram, why: Refusal::Full });
        }
        let is_down = link.is_down;
        self.sends += 1;
        self.counters.taken += u64::from(parts);
        let send = SendId(self.sends);
        let carried = Carried { datagram, send, open: parts, unsent: parts, is_lost: false };
        let carried = self.carried.add(carried);
        for index in 0..parts {
            let content = Content::Part { carried, index };
            let bytes = part_bytes(index);
            let frame = Frame { content, bytes, is_marked: false, is_damaged: false };
            if is_down {
                self.lose(carried, node, Place::Cut);
            } else {
                self.link(node).push(frame);
            }
        }
        self.look(node, agenda);
        Ok(send)
    }

    pub(super) fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        match entry {
            Entry::Free { link } => {
                if self.link(link).wakes_at == agenda.now() {
                    self.link(link).wakes_at = Instant::NEVER;
                    self.look(link, agenda);
                }
            }
            Entry::Arrive { link } => self.arrive(link, agenda),
            Entry::Refresh { node } => self.refresh(node, agenda),
        }
    }

    /// Begins the next frame of a link if it can, and plans the next look at it.
    pub(super) fn look(&mut self, link: u32, agenda: &mut impl Schedule<Entry>) {
        let now = agenda.now();
        if self.link(link).direction == Direction::Down {
            self.release(link, agenda);
        }
        if let Some(frame) = self.link(link).next_frame(now) {
            self.transmit(link, frame, agenda);
        }
        let found = &mut self.links[link as usize];
        let Some(at) = found.next_look().filter(|&at| at < found.wakes_at) else { return };
        if at > now {
            found.wakes_at = at;
            agenda.schedule(at, Entry::Free { link });
        }
    }

    fn transmit(&mut self, link: u32, mut frame: Frame, agenda: &mut impl Schedule<Entry>) {
        let now = agenda.now();
        frame.is_damaged |= self.draw_damage(frame.bytes);
        let node = self.node_of(link);
        let mut fate = Fate::Arrives;
        if let Content::Part { carried, .. } = frame.content {
            if link < self.config.nodes {
                self.left_card(node, carried);
            } else if self.config.faults.loss > 0.0 && self.draw.chance(self.config.faults.loss) {
                fate = Fate::Lost;
            }
        }
        if let Some(tap) = &mut self.tap {
            tap.began(now, link, &frame, &self.carried);
        }
        let due = self.links[link as usize].begin(frame, fate, now, &self.config);
        agenda.schedule(due, Entry::Arrive { link });
    }

    fn draw_damage(&mut self, bytes: u64) -> bool {
        let rate = self.config.faults.bit_error_rate;
        if rate <= 0.0 {
            return false;
        }
        let bits = 8.0 * bytes as f64;
        self.draw.chance(-(bits * (-rate).ln_1p()).exp_m1())
    }

    /// Notes that a part has begun to leave its card.
    fn left_card(&mut self, node: u32, carried: u32) {
        let limit = self.config.send_queue_bytes;
        let link = self.link(node);
        if link.was_full && link.queued_bytes() < limit {
            link.was_full = false;
            self.reports.push_back(Report::Space { node });
        }
        let Some(of) = self.carried.get_mut(carried) else { return };
        of.unsent -= 1;
        if of.unsent == 0 && !of.is_lost {
            self.reports.push_back(Report::Done { node, send: of.send });
        }
    }

    /// Handles the first frame on a cable, which is due.
    fn arrive(&mut self, link: u32, agenda: &mut impl Schedule<Entry>) {
        let Some(flight) = self.link(link).flights.pop_front() else { return };
        let node = self.node_of(link);
        let is_up = link < self.config.nodes;
        let frame = flight.frame;
        let Content::Part { carried, .. } = frame.content else {
            if flight.fate == Fate::Arrives && !frame.is_damaged {
                self.stop_or_go(node, frame, agenda);
            }
            return;
        };
        let checks = !is_up || self.config.forwarding == Forwarding::StoreAndForward;
        match flight.fate {
            Fate::Cut => self.lose(carried, node, Place::Cut),
            Fate::Lost => self.lose(carried, node, Place::Loss),
            Fate::Arrives if frame.is_damaged && checks => {
                self.lose(carried, node, if is_up { Place::CrcAtSwitch } else { Place::CrcAtNode });
            }
            Fate::Arrives if is_up => self.admit(node, carried, frame, agenda),
            Fate::Arrives => self.deliver(carried, frame),
        }
    }

    /// Puts a frame from a node into the queue of its receiver's port.
    fn admit(
        &mut self,
        source: u32,
        carried: u32,
        mut frame: Frame,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let Some(target) = self.carried.get(carried).map(|of| of.datagram.target) else { return };
        let output = self.output(target);
        let link = &mut self.links[output as usize];
        let used = link.used_bytes(agenda.now());
        if link.is_down {
            return self.lose(carried, target, Place::Cut);
        }
        if used + frame.bytes > self.config.queue_bytes {
            return self.lose(carried, target, Place::Queue);
        }
        if self.config.mark_bytes.is_some_and(|mark| used > mark) {
            frame.is_marked = true;
            self.counters.marked += 1;
        }
        link.push(frame);
        self.stop(source, target, used + frame.bytes, agenda);
        self.look(output, agenda);
    }

    fn deliver(&mut self, carried: u32, frame: Frame) {
        self.counters.delivered += 1;
        let Some(of) = self.carried.get_mut(carried) else { return };
        of.open -= 1;
        if let Payload::Udp(udp) = &mut of.datagram.payload {
            udp.is_marked |= frame.is_marked;
        }
        if of.open > 0 {
            return;
        }
        let Some(Carried { datagram, is_lost: false, .. }) = self.carried.remove(carried) else {
            return;
        };
        let node = datagram.target;
        self.arrived[node as usize].push_back(datagram);
        self.reports.push_back(Report::Received { node, class: Class::Request });
    }

    /// Counts a lost part at a port; with the first one, its datagram is lost.
    fn lose(&mut self, carried: u32, port: u32, place: Place) {
        let losses = &mut self.counters.ports[port as usize];
        match place {
            Place::Queue => losses.queue += 1,
            Place::CrcAtSwitch => losses.crc_at_switch += 1,
            Place::CrcAtNode => losses.crc_at_node += 1,
            Place::Loss => losses.loss += 1,
            Place::Cut => losses.cut += 1,
        }
        let Some(of) = self.carried.get_mut(carried) else { return };
        of.open -= 1;
        if !std::mem::replace(&mut of.is_lost, true) {
            let (node, send) = (of.datagram.source, of.send);
            let report = match of.unsent {
                0 => Report::Dropped { source: node },
                _ => Report::Lost { node, send },
            };
            self.reports.push_back(report);
        }
        if of.open == 0 {
            self.carried.remove(carried);
        }
    }

    pub(super) fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        let Some(plug) = self.plugs.get_mut(kind.node() as usize) else { return false };
        match kind {
            FaultKind::Cable(_) => plug.is_cut = true,
            FaultKind::Repair(_) => plug.is_cut = false,
            FaultKind::Power(_) => plug.has_no_power = true,
            FaultKind::Restart(_) => plug.has_no_power = false,
            FaultKind::Host(_) => return true,
            FaultKind::CutLink { .. } | FaultKind::MendLink { .. } => return false,
        }
        let is_down = plug.is_cut || plug.has_no_power;
        let node = kind.node();
        for link in [node, self.output(node)] {
            if !is_down {
                self.link(link).is_down = false;
                continue;
            }
            for frame in self.link(link).cut(agenda.now()) {
                if let Content::Part { carried, .. } = frame.content {
                    self.lose(carried, node, Place::Cut);
                }
            }
        }
        if is_down {
            self.forget_stops(node, agenda);
            if std::mem::take(&mut self.link(node).was_full) {
                self.reports.push_back(Report::Space { node });
            }
        }
        true
    }
}
