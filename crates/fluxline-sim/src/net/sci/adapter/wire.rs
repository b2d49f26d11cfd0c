//! A plain link of fixed delay that carries packets of SCI.

use std::sync::Arc;

use super::ids::Ids;
use crate::Duration;
use crate::core::agenda::Schedule;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, Refused, Report, SendId};
use crate::net::plain::{Entry, Parcel, PlainLink};
use crate::net::sci::Packet;

/// A plain link between the nodes of a cluster.
#[derive(Debug)]
pub struct PlainWire {
    link: PlainLink<Packet>,
    ids: Arc<Ids>,
}

impl PlainWire {
    /// A link between nodes of these addresses; `loss` is the chance of each packet and each echo.
    #[must_use]
    pub fn new(ids: &Arc<Ids>, delay: Duration, loss: f64, seed: u64) -> PlainWire {
        let link = PlainLink::new(ids.len() as u32, delay, loss, seed);
        PlainWire { link, ids: Arc::clone(ids) }
    }
}

/// Returns the class of a packet.
#[must_use]
pub fn class_of(packet: &Packet) -> Class {
    if packet.command.is_response() { Class::Response } else { Class::Request }
}

impl Interconnect for PlainWire {
    type Frame = Packet;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.link.nodes()
    }

    fn send(
        &mut self,
        node: u32,
        packet: Packet,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Packet>> {
        let to = self.ids.number(packet.target).unwrap_or(u32::MAX);
        let parcel = Parcel { to, class: class_of(&packet), content: packet };
        let refused =
            |back: Refused<Parcel<Packet>>| Refused { frame: back.frame.content, why: back.why };
        self.link.send(node, parcel, agenda).map_err(refused)
    }

    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        self.link.handle(entry, agenda);
    }

    fn next_report(&mut self) -> Option<Report> {
        self.link.next_report()
    }

    fn take(
        &mut self,
        node: u32,
        class: Class,
        agenda: &mut impl Schedule<Entry>,
    ) -> Option<Packet> {
        self.link.take(node, class, agenda).map(|parcel| parcel.content)
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        self.link.fault(kind, agenda)
    }

    fn conserve(&self) -> Result<(), String> {
        self.link.conserve()
    }
}
