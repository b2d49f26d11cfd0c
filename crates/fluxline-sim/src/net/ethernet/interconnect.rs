//! Ethernet as an [`Interconnect`]: its frames are datagrams.

use std::collections::BTreeMap;

use super::datagram::Datagram;
use super::link::{Content, Entry, Link};
use super::network::Network;
use super::tap::Tap;
use crate::Instant;
use crate::core::agenda::Schedule;
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, LinkUse, Loss, Refused, Report, SendId};

impl Interconnect for Network {
    type Frame = Datagram;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.config.nodes
    }

    fn send(
        &mut self,
        node: u32,
        datagram: Datagram,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Datagram>> {
        Network::send(self, node, datagram, agenda)
    }

    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        Network::handle(self, entry, agenda);
    }

    fn next_report(&mut self) -> Option<Report> {
        Network::next_report(self)
    }

    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<Datagram> {
        Network::take(self, node, class)
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        Network::fault(self, kind, agenda)
    }

    /// Each frame is in a queue, on a cable, delivered or lost, and each datagram has its parts.
    fn conserve(&self) -> Result<(), String> {
        let mut under_way = 0_u64;
        let mut open = BTreeMap::new();
        for (number, link) in (0_usize..).zip(&self.links) {
            let on_cable = link.flights.iter().map(|flight| &flight.frame);
            for frame in link.queue.iter().chain(on_cable) {
                if let Content::Part { carried, .. } = frame.content {
                    under_way += 1;
                    *open.entry(carried).or_insert(0_u32) += 1;
                }
            }
            let queued: u64 = link.queue.iter().map(|frame| frame.bytes).sum();
            let limit = self.config.queue_bytes;
            if queued != link.queued_bytes() {
                return Err(format!(
                    "link {number}: {queued} bytes queued, another number counted"
                ));
            }
            if number >= self.links.len() / 2 && queued > limit {
                return Err(format!("link {number}: {queued} bytes in a queue of {limit}"));
            }
        }
        let counters = &self.counters;
        if counters.taken != counters.delivered + counters.lost() + under_way {
            let (taken, delivered, lost) = (counters.taken, counters.delivered, counters.lost());
            return Err(format!(
                "{taken} frames taken, {delivered} delivered, {lost} lost, {under_way} under way"
            ));
        }
        for (number, carried) in self.carried.iter() {
            let found = open.remove(&number).unwrap_or(0);
            if found != carried.open {
                let send = carried.send.0;
                return Err(format!("send {send}: {found} of {} open parts", carried.open));
            }
        }
        match open.is_empty() {
            true => Ok(()),
            false => Err("a frame belongs to no datagram".into()),
        }
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            1 => "transmitter free",
            2 => "frame arrives",
            3 => "pause repeated",
            _ => "unknown",
        }
    }

    /// The switch has the number behind the last node.
    fn links(&self, now: Instant) -> Vec<LinkUse> {
        let switch = self.config.nodes;
        let of = |(number, link): (u32, &Link)| {
            let node = self.node_of(number);
            let (from, to) = if number < switch { (node, switch) } else { (switch, node) };
            LinkUse { from, to, busy: link.busy(now) }
        };
        (0..).zip(&self.links).map(of).collect()
    }

    fn hops(&self) -> u64 {
        self.links.iter().map(|link| link.frames).sum()
    }

    fn losses(&self) -> Vec<Loss> {
        self.counters.losses()
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        self.tap = Some(Box::new(Tap::new(dump, &self.config)));
        true
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.tap.as_mut().map(|tap| &mut tap.dump)
    }

    fn end_dump(&mut self) -> Option<Dump> {
        self.tap.take().map(|tap| tap.dump)
    }
}
