//! A network of routers under traffic, and as an [`Interconnect`]: its frames are messages.

use super::{Delivery, Entry, Network, NetworkConfig, NetworkError};
use crate::core::agenda::Schedule;
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Circle, Class, Ends, Interconnect, LinkUse, Loss, Refused, Report, SendId, passed,
};
use crate::load::traffic::{Message, Plan, Traffic};
use crate::load::{self, Arrived, Carrier, Settings};
use crate::{Agenda, Instant};

/// Most packets of a message. Assumed: each is in memory from the moment it is handed over.
const PACKETS_MAX: u32 = 1 << 16;

/// A network of routers under traffic.
pub type Loaded = load::Loaded<Messages>;
/// An entry of its agenda.
pub type LoadedEntry = load::loaded::Entry<Entry>;

/// Messages as frames of routers: each is over when it has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Messages;

impl Carrier for Messages {
    type Network = Network;

    const MADE: u8 = 0;

    #[inline]
    fn pack(&mut self, message: &Message, _: &Network) -> Message {
        *message
    }

    #[inline]
    fn arrived(&mut self, _: u32, message: Message, _: &Network) -> Arrived<Message> {
        Arrived { message: Some(message), answer: None, over: Some(message.source) }
    }

    fn host_bytes(&self, message: &Message) -> u32 {
        message.bytes
    }

    /// A node takes every message at once.
    fn waits_for_hosts(&self) -> bool {
        false
    }
}

/// Makes a network, with the first messages of every node on the agenda.
///
/// # Errors
/// When the configuration or the plan is invalid, or the plan has another number of nodes.
pub fn loaded(
    config: NetworkConfig,
    plan: Plan,
    settings: &Settings<'_>,
    agenda: &mut Agenda<LoadedEntry>,
) -> Result<Loaded, NetworkError> {
    let network = Network::new(config)?;
    let nodes = network.topology().routers();
    if plan.nodes != nodes {
        let text = format!("traffic for {} nodes on a network of {nodes}", plan.nodes);
        return Err(NetworkError(text));
    }
    let packets = plan.size.max().div_ceil(network.config().packet_bytes);
    if packets > PACKETS_MAX {
        let text = format!("messages of {packets} packets: give at most {PACKETS_MAX}");
        return Err(NetworkError(text));
    }
    let traffic = Traffic::new(plan).map_err(|error| NetworkError(error.to_string()))?;
    Ok(load::Loaded::new(network, Messages, traffic, settings, agenda))
}

/// A frame is a message.
impl Interconnect for Network {
    type Frame = Message;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.topology().routers()
    }

    /// Takes every message: it waits at its source.
    #[inline]
    fn send(
        &mut self,
        _: u32,
        message: Message,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Message>> {
        Network::send(self, &message, agenda);
        self.sends += 1;
        Ok(SendId(self.sends))
    }

    #[inline]
    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        let Some(delivery) = Network::handle(self, entry, agenda) else { return };
        let Delivery { source, to, bytes, offered: at, event, .. } = delivery;
        self.arrived.push_back(Message { at, source, to, bytes, event });
        self.news.push_back(to);
    }

    #[inline]
    fn next_report(&mut self) -> Option<Report> {
        if let Some(node) = self.news.pop_front() {
            return Some(Report::Received { node, class: Class::Request });
        }
        self.cuts.sources.pop_front().map(|source| Report::Dropped { source })
    }

    #[inline]
    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<Message> {
        if class == Class::Response {
            return None;
        }
        let index = self.arrived.iter().position(|message| message.to == node)?;
        self.arrived.remove(index)
    }

    /// Links between routers are cut and mended; routers themselves do not fail.
    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        match kind {
            FaultKind::CutLink { from, to } => self.set_cut([from, to], true, agenda),
            FaultKind::MendLink { from, to } => self.set_cut([from, to], false, agenda),
            _ => false,
        }
    }

    fn losses(&self) -> Vec<Loss> {
        self.cut_losses()
    }

    fn conserve(&self) -> Result<(), String> {
        self.audit().map_err(|error| error.to_string())?;
        self.deadlock().map_or(Ok(()), |deadlock| Err(deadlock.to_string()))
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            1 => "tick of the routers",
            2 => "outputs choose",
            3 => "message delivered",
            _ => "unknown",
        }
    }

    #[inline]
    fn accepts(&self, node: u32) -> bool {
        self.waiting(node) < self.config().source_packets
    }

    fn deadlock(&self) -> Option<Circle> {
        let found = Network::deadlock(self)?;
        let ends = found.cycle.iter().map(|held| Ends { from: held.from, to: held.to });
        Some(Circle { links: ends.collect(), text: found.to_string() })
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        let outputs = self.outputs.iter().filter(|out| out.to != super::NONE);
        let router = |buffer: u32| self.buffers[buffer as usize].router;
        let of = |out: &super::Output| LinkUse {
            from: router(out.base),
            to: router(out.to),
            busy: passed(
                self.config.clock.span(out.busy_ticks),
                self.ticks.at(out.busy_until),
                now,
            ),
        };
        outputs.map(of).collect()
    }

    fn hops(&self) -> u64 {
        Network::hops(self)
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        Network::begin_dump(self, dump);
        true
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.tap.as_mut().map(|tap| &mut tap.dump)
    }

    fn end_dump(&mut self) -> Option<Dump> {
        Network::end_dump(self)
    }
}
