//! A network under traffic, for experiments.

use super::{Network, NetworkConfig, NetworkError};
use crate::core::dump::Dump;
use crate::load::sweep::{Detail, Experiment, LinkUse, Observer};
use crate::load::traffic::{Arrivals, Message, Plan, Traffic};
use crate::{Agenda, Instant, Model};

/// Most packets of a message. Assumed: each is in memory from the moment it is handed over.
const PACKETS_MAX: u32 = 1 << 16;

/// An entry of the agenda of a network under traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A node creates a message.
    Create {
        /// The node.
        source: u32,
    },
    /// An entry of the network.
    Network(super::Entry),
}

impl From<super::Entry> for Entry {
    fn from(entry: super::Entry) -> Entry {
        Entry::Network(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Create { source } => *source,
            Entry::Network(entry) => entry.component(),
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Create { .. } => 0,
            Entry::Network(entry) => entry.kind(),
        }
    }
}

/// A network, its traffic, and its observer.
#[derive(Clone, Debug)]
pub struct Loaded {
    network: Network,
    traffic: Traffic,
    /// The next message of each source, in open loops.
    next: Vec<Option<Message>>,
    observer: Observer,
    is_closed: bool,
}

impl Loaded {
    /// Makes a network, with the first messages of every node on the agenda.
    ///
    /// # Errors
    /// When the configuration or the plan is invalid, or the plan has another number of nodes.
    pub fn new(
        config: NetworkConfig,
        plan: Plan,
        detail: Detail,
        agenda: &mut Agenda<Entry>,
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
        let is_closed = matches!(plan.arrivals, Arrivals::Window { .. });
        let traffic = Traffic::new(plan).map_err(|error| NetworkError(error.to_string()))?;
        let observer = Observer::new(nodes, detail);
        let next = vec![None; nodes as usize];
        let mut loaded = Loaded { network, traffic, next, observer, is_closed };
        (0..nodes).for_each(|source| loaded.plan_next(source, agenda));
        Ok(loaded)
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// As [`Network::begin_dump`].
    pub fn begin_dump(&mut self, dump: Dump) {
        self.network.begin_dump(dump);
    }

    /// As [`Network::end_dump`].
    pub fn end_dump(&mut self) -> Option<Dump> {
        self.network.end_dump()
    }

    fn plan_next(&mut self, source: u32, agenda: &mut Agenda<Entry>) {
        while let Some(message) = self.traffic.next(source, agenda.now()) {
            if self.is_closed {
                self.observer.offered(message.bytes);
                self.network.send(&message, agenda);
                continue;
            }
            self.next[source as usize] = Some(message);
            agenda.schedule(message.at, Entry::Create { source });
            return;
        }
    }

    fn create(&mut self, source: u32, agenda: &mut Agenda<Entry>) {
        if let Some(message) = self.next[source as usize].take() {
            self.observer.offered(message.bytes);
            if self.network.waiting(source) < self.network.config().source_packets {
                self.network.send(&message, agenda);
            } else {
                self.observer.refused(message.bytes);
            }
        }
        self.plan_next(source, agenda);
    }
}

impl Model for Loaded {
    type Entry = Entry;

    fn handle(&mut self, entry: Entry, agenda: &mut Agenda<Entry>) {
        match entry {
            Entry::Create { source } => self.create(source, agenda),
            Entry::Network(entry) => {
                let Some(delivery) = self.network.handle(entry, agenda) else { return };
                self.observer.delivered(delivery.to, delivery.bytes, delivery.latency);
                if self.is_closed {
                    self.traffic.delivered(delivery.source);
                    self.plan_next(delivery.source, agenda);
                }
            }
        }
    }
}

impl Experiment for Loaded {
    fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }

    fn links(&self) -> Vec<LinkUse> {
        self.network.links()
    }

    fn hops(&self) -> u64 {
        self.network.hops()
    }

    fn check(&self, _now: Instant) -> Result<(), String> {
        self.network.audit().map_err(|error| error.to_string())?;
        self.network.deadlock().map_or(Ok(()), |deadlock| Err(deadlock.to_string()))
    }
}

impl Network {
    /// Returns the time for which each link between routers was busy so far.
    #[must_use]
    pub fn links(&self) -> Vec<LinkUse> {
        let outputs = self.outputs.iter().filter(|out| out.to != super::NONE);
        let router = |buffer: u32| self.buffers[buffer as usize].router;
        let of = |out: &super::Output| LinkUse {
            from: router(out.base),
            to: router(out.to),
            busy: self.config.clock.span(out.busy_ticks),
        };
        outputs.map(of).collect()
    }
}
