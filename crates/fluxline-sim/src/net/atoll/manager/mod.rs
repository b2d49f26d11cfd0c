//! The management of an ATOLL network from inside: the daemon, the driver and the agents.
//!
//! ```text
//!   messages of programs     Managed: an Interconnect
//!      │
//!   driver.rs    keeps a message until it is acknowledged, repeats it, drops copies
//!   agent.rs     one on each node: signals, greetings, notices, routes of its node
//!   master.rs    the manager, on one node: map.rs, explore.rs, plan.rs, rounds of orders
//!   watch.rs     inputs that do not move: alarms, removal of a message
//!   letter.rs    the messages between agents and managers
//!      │
//!   Network      chips and cables
//! ```
//!
//! No part looks at the network from outside: an agent reads its own chip, and everything else it
//! knows came by a message that took bytes and time on the links.
//! docs/simulation/manager.md describes the protocol.

pub mod agent;
pub mod driver;
pub mod envelope;
pub mod explore;
pub mod letter;
pub mod map;
pub mod master;
pub mod plan;
pub mod record;
pub mod serial;
pub mod settings;
pub mod skeptic;

mod act;
mod delivery;
mod entry;
mod faults;
mod interconnect;
mod post;
mod watch;
mod work;

pub use entry::Entry;
pub use map::{Map, MapEnd, MapNode, NodeState};
pub use plan::Plan;
pub use record::{Counts, Event, Record, Switch};
pub use serial::Serial;
pub use settings::{Algorithm, Settings};

use std::collections::{BTreeMap, VecDeque};

use agent::Agent;
use driver::Driver;
use envelope::Envelope;
use letter::Letter;
use master::Manager;
use record::Log;
use watch::Watch;

use super::wiring::LINKS;
use super::{Cargo, Config, ConfigError, Network};
use crate::Instant;
use crate::core::interconnect::Report;

/// Messages that wait at a port of a chip. A choice: the driver keeps the others, so that new
/// routes count for them, and letters pass them.
const CHIP_QUEUE: u32 = 2;

/// A letter that an agent works on.
#[derive(Clone, Debug)]
struct Desk {
    node: u32,
    letter: Letter,
}

/// A message that the chips have.
#[derive(Clone, Copy, Debug)]
struct Sent {
    node: u32,
    message: u64,
}

/// An ATOLL network with its management.
#[derive(Clone, Debug)]
pub struct Managed<C> {
    network: Network<Envelope<C>>,
    settings: Settings,
    agents: Vec<Agent>,
    /// False for a node whose host crashed or lost its power.
    is_alive: Vec<bool>,
    drivers: Vec<Driver<C>>,
    managers: BTreeMap<u32, Manager>,
    /// Letters at agents, by number.
    desks: BTreeMap<u64, Desk>,
    desk_count: u64,
    /// The time from which each agent is free.
    free: Vec<Instant>,
    /// Messages that the chips have, by the number of the network's send.
    sent: BTreeMap<u64, Sent>,
    /// The last known signal of each link port.
    signals: Vec<bool>,
    watches: Vec<Watch>,
    messages: u64,
    arrived: Vec<VecDeque<C>>,
    reports: VecDeque<Report>,
    counts: Counts,
    totals: Totals,
    log: Log,
    /// True if a manager has ever begun.
    has_begun: bool,
}

/// The ends of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages of programs that the drivers took.
    pub taken: u64,
    /// Those that were acknowledged.
    pub done: u64,
    /// Those that ended without an acknowledgement: no route, or given up.
    pub lost: u64,
    /// Those that arrived, each counted once.
    pub arrived: u64,
}

impl<C: Cargo + Clone> Managed<C> {
    /// Makes a network without traffic. The paths come from the manager: the routing of `config`
    /// does not count.
    ///
    /// # Errors
    /// Those of [`Config::check`] and [`Settings::check`].
    pub fn new(config: Config, settings: Settings) -> Result<Managed<C>, ConfigError> {
        settings.check(config.wiring.nodes())?;
        let network: Network<Envelope<C>> =
            Network::new(Config { queue_messages: CHIP_QUEUE, ..config })?;
        let nodes = network.config().wiring.nodes();
        let mut managed = Managed {
            settings,
            agents: Vec::new(),
            is_alive: vec![true; nodes as usize],
            drivers: (0..nodes).map(|_| Driver::default()).collect(),
            managers: BTreeMap::new(),
            desks: BTreeMap::new(),
            desk_count: 0,
            free: vec![Instant::START; nodes as usize],
            sent: BTreeMap::new(),
            signals: Vec::new(),
            watches: vec![Watch::default(); nodes as usize],
            messages: 0,
            arrived: (0..nodes).map(|_| VecDeque::new()).collect(),
            reports: VecDeque::new(),
            counts: Counts::default(),
            totals: Totals::default(),
            log: Log::default(),
            has_begun: false,
            network,
        };
        managed.signals = managed.read_signals();
        for node in 0..nodes {
            let chip = managed.chip(node);
            managed.agents.push(Agent::new(Serial::of(node), settings, &chip));
        }
        Ok(managed)
    }

    /// Returns the network of chips and cables.
    #[must_use]
    pub fn network(&self) -> &Network<Envelope<C>> {
        &self.network
    }

    /// Returns the counts of the management since the start.
    #[must_use]
    pub fn management(&self) -> Counts {
        self.counts
    }

    /// Returns the ends of messages since the start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the events at managers, oldest first.
    pub fn log(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.log.iter()
    }

    /// Returns the managers, by node. There are several while parts of the network are apart.
    pub fn managers(&self) -> impl Iterator<Item = (u32, &Manager)> {
        self.managers.iter().map(|(&node, manager)| (node, manager))
    }

    /// Returns the node of a chip.
    #[must_use]
    pub fn node_of(&self, serial: Serial) -> Option<u32> {
        (0..self.network.config().wiring.nodes()).find(|&node| Serial::of(node) == serial)
    }

    /// Returns true if every manager has done its work, and every living node has routes.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let mut living = (0..).zip(&self.is_alive).filter(|(_, is_alive)| **is_alive);
        !self.managers.is_empty()
            && self.managers.values().all(Manager::is_resting)
            && living.all(|(node, _): (usize, _)| self.agents[node].routes().is_some())
    }

    /// Returns the manager of the nodes that a node obeys, if it is known.
    #[must_use]
    pub fn manager_of(&self, node: u32) -> Option<&Manager> {
        let chief = self.agents.get(node as usize)?.chief()?;
        self.managers.get(&self.node_of(chief)?)
    }

    /// Returns the signal of each link port.
    fn read_signals(&self) -> Vec<bool> {
        let ports = 0..self.network.config().wiring.nodes() * LINKS;
        ports.map(|port| self.network.is_link_up(port / LINKS, port % LINKS)).collect()
    }
}
