//! Myrinet as an [`Interconnect`]: frames are messages of any length, reliable and in order between
//! two hosts.

use super::packet::Content;
use super::{Counts, Entry, Network, OfPort};
use crate::Instant;
use crate::core::agenda::Schedule;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, LinkUse, Refused, Report, SendId};
use crate::net::atoll::Cut;

/// A send is done when the target's card has acknowledged it.
impl<C: Content> Interconnect for Network<C> {
    type Frame = C;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.config.nodes
    }

    fn send(
        &mut self,
        node: u32,
        frame: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        self.queue(node, frame, agenda)
    }

    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        match entry {
            Entry::Plane { port, entry } => {
                let mut of_port = OfPort { whole: &mut *agenda, port };
                self.planes[usize::from(port)].handle(entry, &mut of_port);
                self.hear(usize::from(port), agenda);
            }
            Entry::Card { node, step } => self.step(node, step, agenda),
        }
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<C> {
        if class == Class::Response {
            return None;
        }
        self.arrived[node as usize].pop_front()
    }

    /// The cables of a node are those of all its ports.
    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        let node = kind.node();
        if node >= self.config.nodes {
            return false;
        }
        let cut = match kind {
            FaultKind::Cable(_) => Cut::Yes,
            FaultKind::Repair(_) => Cut::No,
            FaultKind::Power(_) => {
                let peers: Vec<u32> = self.cards[node as usize].outbound.keys().copied().collect();
                peers.into_iter().for_each(|peer| self.give_up(node, peer, agenda));
                self.cards[node as usize].is_dead = true;
                Cut::Yes
            }
            FaultKind::Host(_)
            | FaultKind::Restart(_)
            | FaultKind::CutLink { .. }
            | FaultKind::MendLink { .. } => return false,
        };
        for port in 0..self.planes.len() {
            let mut of_port = OfPort { whole: &mut *agenda, port: port as u8 };
            self.planes[port].set_cable(node, 0, cut, &mut of_port);
            self.hear(port, agenda);
        }
        true
    }

    fn conserve(&self) -> Result<(), String> {
        let Counts { sent, delivered, lost, .. } = self.counts;
        let open = self.contents.len() as u64;
        if sent != delivered + lost + open {
            return Err(format!("{sent} sent, {delivered} delivered, {lost} lost, {open} open"));
        }
        for (node, card) in self.cards.iter().enumerate() {
            let open = card.open();
            if open != card.tokens as usize {
                return Err(format!("node {node} has {open} messages and {} tokens", card.tokens));
            }
        }
        self.planes.iter().try_for_each(Interconnect::conserve)
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            1 => "clock of the switches",
            2 => "send token",
            3 => "end of a LANai task",
            4 => "data in the card",
            5 => "data in memory",
            6 => "timer of a connection",
            _ => "unknown",
        }
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        self.planes.iter().flat_map(|plane| plane.links(now)).collect()
    }

    fn hops(&self) -> u64 {
        self.planes.iter().map(Interconnect::hops).sum()
    }
}
