//! The link between nodes, as `--link` and `[link]` name it, and the URLs of its nodes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fluxline_cluster::rings::RingNode;
use fluxline_core::fabric::push::{RingAddress, RingPlan};
use fluxline_core::fabric::{Key, Name, links};
use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::THREADS;

use crate::error::Error;

/// The port of the first node on `udp:`; the next ones follow.
const FIRST_PORT: u16 = 14_791;
/// The time of day at which virtual time begins: 2000-01-01, 00:00 UTC \[ns since 1970\].
pub(crate) const EPOCH: Moment = Moment::from_ns(946_684_800_000_000_000);
/// Bytes of a record above which a readout closes it.
pub(crate) const RECORD_BYTES: usize = 64 << 10;

/// Bytes of a slot of the rings for the messages of builders: four hold some pieces of a state.
const BACK_SLOT_BYTES: u32 = (256 << 10) - 64;
/// Memory of the ring for the messages of one builder \[byte\].
pub(crate) const BACK_RING_BYTES: u64 = 1 << 20;

/// A link between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Queues between threads.
    Threads,
    /// Shared memory: the group.
    SharedMemory(String),
    /// Ethernet: the address of the first node.
    Ethernet(SocketAddr),
    /// A simulated network: its name, and the keys of its URL.
    Simulated(String, String),
}

impl Link {
    /// Reads the text of `--link`.
    pub fn parse(text: &str) -> Result<Link, Error> {
        let wrong = |what: &str| Err(Error::input(format_args!("--link {text}: {what}.")));
        if text == THREADS {
            return Ok(Link::Threads);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return wrong(
                "this is not a link; write threads, shm:GROUP, udp:ADDRESS or sim:NETWORK",
            );
        };
        match kind {
            "shm" => match Name::parse(rest) {
                Ok(name) => Ok(Link::SharedMemory(name.to_string())),
                Err(error) => wrong(&error.to_string()),
            },
            "udp" => {
                let with_port = rest.parse().ok();
                let without = rest.parse().ok().map(|ip| SocketAddr::new(ip, FIRST_PORT));
                match with_port.or(without) {
                    Some(address) => Ok(Link::Ethernet(address)),
                    None => wrong("write an own address, for example udp:127.0.0.1"),
                }
            }
            "sim" => {
                let (network, keys) = rest.split_once('?').unwrap_or((rest, ""));
                match network.contains('/') {
                    true => wrong("write sim:NETWORK?KEYS; the run names world and nodes"),
                    false => Ok(Link::Simulated(network.to_owned(), keys.to_owned())),
                }
            }
            "kafka" => wrong("Kafka is chosen by [cluster] in the experiment file, see kafka.md"),
            _ => wrong("this is not a link; write threads, shm:GROUP, udp:ADDRESS or sim:NETWORK"),
        }
    }

    /// Returns true for a link in virtual time.
    pub fn is_virtual(&self) -> bool {
        matches!(self, Link::Simulated(..))
    }
}

/// The nodes of a graph by their places: readouts, then builders, then sensors.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub link: Link,
    pub readouts: usize,
    pub builders: usize,
    /// Nodes of a simulated world that push packets: one for each source.
    pub sensors: usize,
    /// The run has an actuator.
    pub has_actuator: bool,
    /// The key of all rings.
    pub key: Key,
    pub ring_bytes: u64,
    /// The number of the simulated world, which no other run of this process has.
    pub world: u32,
    /// Addresses of nodes on Ethernet that have one of their own.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// Builders save their state for a successor, over a way back to the readouts.
    pub has_way_back: bool,
    /// The limit within which others come to a node of a real link; `None`: they are waited for.
    pub join_within: Option<Span>,
}

impl Places {
    /// Returns the name of readout number `number`.
    pub fn readout(number: usize) -> String {
        format!("readout-{number}")
    }

    /// Returns the name of builder number `number`.
    pub fn builder(number: usize) -> String {
        format!("builder-{number}")
    }

    /// Returns the name of the sensor of source number `number`.
    pub fn sensor(number: usize) -> String {
        format!("sensor-{number}")
    }

    /// Returns the name of the actuator.
    pub fn actuator() -> String {
        "actuator-0".to_owned()
    }

    /// Returns the name of the node that writes to the actuator for builder number `number`, where
    /// the builder's own node does not.
    pub fn decider(number: usize) -> String {
        format!("decider-{number}")
    }

    /// Returns the name of a node without a part in the run; it comes behind all others.
    pub fn unused(number: usize) -> String {
        format!("unused-{number}")
    }

    /// Returns the place of a node among all.
    fn place(&self, node: &str) -> usize {
        let number = node.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        match node.split('-').next() {
            Some("readout") => number,
            Some("builder") => self.readouts + number,
            Some("actuator") => self.readouts + self.builders,
            Some("decider") => self.readouts + self.builders + 1 + number,
            _ => self.readouts + self.builders + number,
        }
    }

    /// Returns the URL of a node.
    fn url(&self, node: &str) -> String {
        match &self.link {
            Link::Threads => String::new(),
            Link::SharedMemory(group) => format!("shm://{group}/{node}"),
            Link::Ethernet(_) => format!("udp://{}/{node}", self.address(node)),
            Link::Simulated(network, keys) => {
                let behind = if keys.is_empty() { "" } else { "?" };
                format!("sim:{network}/run{}/{node}{behind}{keys}", self.world)
            }
        }
    }

    /// Returns the address of a node on Ethernet.
    fn address(&self, node: &str) -> SocketAddr {
        let Link::Ethernet(first) = &self.link else {
            return SocketAddr::from(([127, 0, 0, 1], FIRST_PORT));
        };
        if let Some(own) = self.addresses.get(node) {
            return *own;
        }
        let port = first.port().saturating_add(self.place(node) as u16);
        SocketAddr::new(first.ip(), port)
    }

    /// Opens a node. In a simulated world it waits for all others: one thread for each.
    pub fn open(&self, node: &str) -> Result<RingNode, Error> {
        let url = self.url(node);
        match fluxline::open(&url) {
            Ok(fabric) => {
                let mut node = RingNode::new(fabric);
                if let Some(within) = self.join_within {
                    node.expect_peers_by(node.now() + within);
                }
                Ok(node)
            }
            Err(error) => Err(Error::input(format_args!("node {node}: {error}."))),
        }
    }

    /// Returns keys in which faults name nodes by the numbers that the network knows: all nodes in
    /// the order of their names.
    fn with_numbers(&self, keys: &str) -> String {
        let builders = (0..self.builders).map(Places::builder);
        let readouts = (0..self.readouts).map(Places::readout);
        let sensors = (0..self.sensors).map(Places::sensor);
        let actuator = self.has_actuator.then(Places::actuator);
        let mut names: Vec<String> =
            builders.chain(readouts).chain(sensors).chain(actuator).collect();
        names.sort();
        let replace = |keys: String, (number, name): (usize, &String)| {
            keys.replace(&format!(":{name}@"), &format!(":{number}@"))
        };
        names.iter().enumerate().fold(keys.to_owned(), replace)
    }

    /// Returns the places in a simulated network, and the number of its nodes that have no part in
    /// the run.
    ///
    /// # Errors
    /// The keys are wrong, or the network has too few nodes.
    pub fn in_network(self) -> Result<(Places, usize), Error> {
        let Link::Simulated(network, keys) = &self.link else { return Ok((self, 0)) };
        let wanted = self.readouts + self.builders + self.sensors + usize::from(self.has_actuator);
        let keys = &self.with_numbers(keys);
        let of = |keys: &str| {
            let behind = if keys.is_empty() { "" } else { "?" };
            let url = format!("sim:{network}{behind}{keys}");
            links::size_of(&url).map(|size| size.map_err(|error| error.to_string()))
        };
        let Some(there) = of(keys) else { return Ok((self, 0)) };
        let there = there
            .map_err(|why| Error::input(format_args!("--link sim:{network}?{keys}: {why}.")))?;
        let join = if keys.is_empty() { "" } else { "&" };
        let sized = format!("{keys}{join}nodes={wanted}");
        if !keys.contains("nodes=") && of(&sized) == Some(Ok(wanted)) {
            let link = Link::Simulated(network.clone(), sized);
            return Ok((Places { link, ..self }, 0));
        }
        match there.checked_sub(wanted) {
            Some(idle) => {
                let link = Link::Simulated(network.clone(), keys.clone());
                Ok((Places { link, ..self }, idle))
            }
            None => Err(Error::input(format_args!(
                "--link sim:{network}?{keys}: the network has {there} nodes, and the run needs \
                 {wanted}: {} sources, {} readouts, {} builders{}; give it more nodes.",
                self.sensors,
                self.readouts,
                self.builders,
                if self.has_actuator { ", an actuator" } else { "" }
            ))),
        }
    }

    /// Opens a builder with a ring for each readout.
    pub fn open_builder(&self, number: usize) -> Result<RingNode, Error> {
        let mut node = self.open(&Places::builder(number))?;
        if let Some(within) = self.join_within {
            // A readout may come as late as allowed, and waits for its builders first. It sends its
            // time without packets, too; an actuator hears of decisions alone, and has no limit.
            node.expect_records_by(node.now() + within + within);
        }
        for from in 0..self.readouts {
            self.add_lane(&mut node, &Places::readout(from))?;
        }
        if self.has_way_back {
            for to in 0..self.readouts {
                self.add_outlet(&mut node, &Places::builder(number), &Places::readout(to))?;
            }
        }
        Ok(node)
    }

    /// Adds the rings for the messages of builders; no other lane follows.
    pub fn add_lanes_back(&self, node: &mut RingNode) -> Result<(), Error> {
        if !self.has_way_back {
            return Ok(());
        }
        node.begin_lanes_back();
        for from in (0..self.builders).map(Places::builder) {
            add_ring(node, &from, &RingPlan::new(ring_name(&from), self.key, 4, BACK_SLOT_BYTES))?;
        }
        Ok(())
    }

    /// Opens a readout, which begins to connect to the builders.
    pub fn open_readout(&self, number: usize) -> Result<RingNode, Error> {
        let name = Places::readout(number);
        let mut node = self.open(&name)?;
        for to in 0..self.builders {
            self.add_outlet(&mut node, &name, &Places::builder(to))?;
        }
        Ok(node)
    }

    /// Opens the actuator with a ring for each builder.
    pub fn open_actuator(&self, slots: u32, slot_bytes: u32) -> Result<RingNode, Error> {
        let mut node = self.open(&Places::actuator())?;
        for from in (0..self.builders).map(Places::builder) {
            add_ring(
                &mut node,
                &from,
                &RingPlan::new(ring_name(&from), self.key, slots, slot_bytes),
            )?;
        }
        Ok(node)
    }

    /// Makes the ring of `to` into which `from` pushes.
    pub fn add_lane(&self, node: &mut RingNode, from: &str) -> Result<(), Error> {
        const SLOTS: u32 = 4;
        // The size of a ring is a power of two that holds four of the longest records and more.
        let slot_bytes = (self.ring_bytes / 8).saturating_sub(64) as u32;
        let plan = RingPlan::new(ring_name(from), self.key, SLOTS, slot_bytes);
        add_ring(node, from, &plan)
    }

    /// Connects `from` to its ring in the memory of `to`.
    pub fn add_outlet(&self, node: &mut RingNode, from: &str, to: &str) -> Result<(), Error> {
        let peer = match &self.link {
            Link::Ethernet(_) => self.address(to).to_string(),
            _ => to.to_owned(),
        };
        let to_ring = RingAddress { peer, name: ring_name(from), key: self.key };
        let added = node.add_outlet(to_ring);
        added.map_err(|error| Error::failed(format_args!("{from} cannot reach {to}: {error}.")))
    }
}

fn add_ring(node: &mut RingNode, from: &str, plan: &RingPlan) -> Result<(), Error> {
    let added = node.add_lane(plan);
    added.map_err(|error| Error::failed(format_args!("the ring for {from}: {error}.")))
}

fn ring_name(from: &str) -> Name {
    Name::parse(from).unwrap_or_else(|error| unreachable!("a name of our own: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_link_is_answered_with_what_to_write() {
        for (text, says) in [
            ("", "write threads, shm:GROUP"),
            ("shm", "write threads, shm:GROUP"),
            ("shm:../x", "is not a name"),
            ("udp:here", "for example udp:127.0.0.1"),
            ("sim:sci/lab/a", "the run names world and nodes"),
            ("kafka://b:9092/lab", "[cluster]"),
            ("tcp:127.0.0.1", "this is not a link"),
        ] {
            let said = Link::parse(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn a_fault_hits_another_node_than_the_one_named() {
        let places = Places {
            link: Link::parse("sim:sci").expect("right"),
            readouts: 1,
            builders: 11,
            sensors: 2,
            has_actuator: false,
            key: Key(1),
            ring_bytes: 1 << 20,
            world: 0,
            addresses: BTreeMap::new(),
            has_way_back: false,
            join_within: None,
        };
        // builder-0, builder-1, builder-10, builder-2, ...
        let said = places.with_numbers("fault=host:builder-2@1ms,power:sensor-1@2ms,host:3@4ms");
        assert_eq!(said, "fault=host:3@1ms,power:13@2ms,host:3@4ms");
    }

    #[test]
    fn no_two_nodes_have_one_address() {
        let link = Link::parse("udp:127.0.0.1:5000").expect("right");
        let key = Key(1);
        let places = Places {
            link,
            readouts: 2,
            builders: 3,
            sensors: 0,
            has_actuator: true,
            key,
            ring_bytes: 1 << 20,
            world: 0,
            addresses: BTreeMap::new(),
            has_way_back: false,
            join_within: None,
        };
        let nodes = ["readout-0", "readout-1", "builder-0", "builder-1", "builder-2"];
        let nodes = nodes.into_iter().chain(["actuator-0", "decider-0", "decider-2"]);
        let ports: Vec<u16> = nodes.map(|node| places.address(node).port()).collect();
        assert_eq!(ports, [5000, 5001, 5002, 5003, 5004, 5005, 5006, 5008]);
    }
}
