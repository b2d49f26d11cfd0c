//! The network as every other one: packets as frames, its reports in the common words.

use super::link::{self, Entry, NodeIndex};
use super::{Network, Packet, Topology};
use crate::Instant;
use crate::core::agenda::Schedule;
use crate::core::ahead::Nearness;
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Class, Interconnect, LinkUse, Refusal, Refused, Report, SendId, passed,
};

fn class(response: bool) -> Class {
    if response { Class::Response } else { Class::Request }
}

impl Interconnect for Network {
    type Frame = Packet;
    type Entry = Entry;

    /// The nodes with a host; a switch has none.
    fn nodes(&self) -> u32 {
        let is_switch = matches!(self.config.topology, Topology::Switch { .. });
        self.config.addresses.len() as u32 - u32::from(is_switch)
    }

    fn send(
        &mut self,
        node: u32,
        packet: Packet,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Packet>> {
        Network::send(self, NodeIndex(node), packet, agenda).map_err(|refused| {
            let is_full = refused.why == link::Refusal::Full;
            let why = if is_full { Refusal::Full } else { Refusal::Never };
            Refused { frame: refused.packet, why }
        })
    }

    #[inline]
    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        Network::handle(self, entry, agenda);
    }

    /// Events and strobes are not reported here: their users know SCI.
    fn next_report(&mut self) -> Option<Report> {
        loop {
            let report = Network::next_report(self)?;
            if let link::Report::Dropped { packet, .. } = &report {
                self.last_dropped = *packet;
            }
            if let Some(report) = self.common_report(report) {
                return Some(report);
            }
        }
    }

    fn take(
        &mut self,
        node: u32,
        class: Class,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Packet> {
        match class {
            Class::Request => self.take_request(NodeIndex(node), agenda),
            Class::Response => self.take_response(NodeIndex(node), agenda),
        }
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        match kind {
            FaultKind::Power(node) => self.kill_node(NodeIndex(node), agenda),
            FaultKind::Cable(node) => self.cut_cable(NodeIndex(node), 0, agenda),
            FaultKind::Repair(node) => self.mend_cable(NodeIndex(node), 0, agenda),
            FaultKind::Host(_)
            | FaultKind::Restart(_)
            | FaultKind::CutLink { .. }
            | FaultKind::MendLink { .. } => return false,
        }
        true
    }

    fn conserve(&self) -> Result<(), String> {
        self.check_conservation().map_err(|unbalanced| unbalanced.to_string())
    }

    fn kind_name(kind: u8) -> &'static str {
        Entry::kind_name(kind)
    }

    /// A packet takes its symbols and the idle behind them; echoes count as packets.
    fn links(&self, now: Instant) -> Vec<LinkUse> {
        let mut links = Vec::new();
        for from in 0..Network::nodes(self) {
            for (number, port) in (0..).zip(self.ports_of(NodeIndex(from))) {
                let counters = self.counters(port);
                let clock = self.config.clock;
                // An idle symbol follows each packet.
                let all = clock.span(counters.symbols_out + counters.packets_out);
                let busy = passed(all, clock.at(self.rings.ports[port as usize].free_at + 1), now);
                links.push(LinkUse { from, to: next(&self.config.topology, from, number), busy });
            }
        }
        links
    }

    fn hops(&self) -> u64 {
        self.total().packets_out
    }

    #[inline]
    fn touch(&self, entry: &Entry, nearness: Nearness) {
        Network::touch(self, entry, nearness);
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        Network::begin_dump(self, dump);
        true
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        Network::dump_mut(self)
    }

    fn end_dump(&mut self) -> Option<Dump> {
        Network::end_dump(self)
    }
}

impl Network {
    /// Returns the report in the type of all networks; `None`: only SCI has this kind of report.
    pub(super) fn common_report(&self, report: link::Report) -> Option<Report> {
        Some(match report {
            link::Report::Received { node, response } => {
                Report::Received { node: node.0, class: class(response) }
            }
            link::Report::Space { node, .. } => Report::Space { node: node.0 },
            link::Report::Done { node, send } => Report::Done { node: node.0, send },
            link::Report::Lost { node, send, .. } => Report::Lost { node: node.0, send },
            link::Report::Dropped { source, .. } => {
                Report::Dropped { source: self.node_of(source)?.0 }
            }
            link::Report::Event { .. } | link::Report::Strobe { .. } => return None,
        })
    }
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
        Topology::Switch { ringlets } => {
            let first = |ringlet: usize| ringlets[..ringlet].iter().sum::<u32>();
            match first(ringlets.len()) {
                switch if node == switch => first(port as usize),
                switch if (1..=ringlets.len()).any(|end| first(end) == node + 1) => switch,
                _ => node + 1,
            }
        }
    }
}
