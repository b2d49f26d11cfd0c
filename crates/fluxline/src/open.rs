//! One way to any link: a URL names it, and the result is a [`Fabric`].

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use fluxline_core::Span;
use fluxline_core::fabric::node::Node;
use fluxline_core::fabric::{Fabric, Name, NameError, links};
use fluxline_core::roce::UDP_PORT;

use crate::hosts::{Hosts, HostsError, UnknownHost, host_address, peer_address};
use crate::measured::{Measured, MeasuredError};
use crate::roce::{RoceError, RoceNode, Waiting, endpoint_config, long_enough};
use crate::udp::{UdpPortConfig, interface_of};
use crate::xdp::{XdpConfig, XdpError, XdpPort};

use crate::shm::{Shm, ShmConfig, ShmError, Users};
use crate::sys::shared::group_number;

/// Time for which a node on shared memory polls before it sleeps: about that of some wake-ups.
const SPIN: Duration = Duration::from_micros(50);

/// Time for which a peer may compute without a call before it is given up, without `death=`.
const DEATH: Span = Span::from_ms(12_000);

/// The reason why a URL could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names an unknown link.
    #[error(
        "{url:?} names no link that there is; write shm://GROUP/NODE, udp://ADDRESS:PORT, \
         xdp://INTERFACE:PORT, or sim:NETWORK/WORLD/NODE?nodes=N with sci, atoll, myrinet, qsnet, \
         infiniband or ethernet as the network"
    )]
    Link {
        /// The URL that was given.
        url: String,
    },
    /// The URL lacks a part.
    #[error("{url:?} lacks a part; write shm://GROUP/NODE, for example shm://lab/builder")]
    Shape {
        /// The URL that was given.
        url: String,
    },
    /// The URL has no valid address.
    #[error("{url:?} has no address; write one of this host's, for example udp://10.0.0.7:4791")]
    Address {
        /// The URL that was given.
        url: String,
    },
    /// The URL names an unknown host.
    #[error("{url:?}: {host}")]
    Unknown {
        /// The URL that was given.
        url: String,
        /// Its host.
        host: UnknownHost,
    },
    /// The address is not on an interface that can deliver frames.
    #[error(
        "{url:?}: no interface of this host has that address, loopback apart; `ip address` shows \
         those that there are, and udp:// works on any"
    )]
    Interface {
        /// The URL that was given.
        url: String,
    },
    /// The socket could not be opened.
    #[error(transparent)]
    Roce(#[from] RoceError),
    /// The interface could not be opened.
    #[error("{0}; udp:// with the interface's address works without")]
    Xdp(#[from] XdpError),
    /// The peers behind `?` are not understood.
    #[error(transparent)]
    Hosts(#[from] HostsError),
    /// The time after which a silent peer is gone is not one.
    #[error("death={text} is not a time; write for example death=20s or death=500ms, up to 86400s")]
    Death {
        /// The text that was given.
        text: String,
    },
    /// The link has one thread for each node.
    #[error(
        "{url:?} cannot have {count} threads at one address, udp:// and xdp:// can; open a node \
         of another name for each thread"
    )]
    Threads {
        /// The URL that was given.
        url: String,
        /// The number of threads.
        count: usize,
    },
    /// The users behind `?` of a `shm://` URL are not understood.
    #[error("{url:?}: {reason}")]
    HostGroup {
        /// The URL that was given.
        url: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// A part of it is not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Shared memory could not be opened.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// The measurements of this machine's links cannot be read.
    #[error(transparent)]
    Measured(#[from] MeasuredError),
    /// A registered link, for example a simulated one, could not be opened.
    #[error("{0}")]
    Registered(Box<dyn Error + Send + Sync>),
    /// This program has no simulator.
    #[error(
        "{url:?}: this program has no simulated links; fluxline-sim, fluxline-bench, the Python \
         package and the C library have them, and a Rust program calls \
         fluxline_sim::register() first"
    )]
    NoSimulator {
        /// The URL that was given.
        url: String,
    },
}

/// Opens a node on the link that `url` names: `shm://GROUP/NODE`, or `udp://ADDRESS[:PORT][/NAME]`
/// with an own address, or `xdp://INTERFACE[:PORT][/NAME]` for the same past the kernel, where an
/// own address names its interface, too. `sim:sci/WORLD/NODE?nodes=N` is a node of a simulated
/// network in virtual time, and so are nodes of `sim:ethernet`, `sim:atoll`, `sim:myrinet`,
/// `sim:qsnet` and `sim:infiniband`: the N nodes of the world are programs of this process, each on
/// a thread of its own, and `open` waits until all are open (docs/simulation/threads.md). A program
/// calls `fluxline_sim::register()` before; [`links::register`] adds links of other crates, too.
///
/// Nodes of one group reach each other by their names, and so do those of a simulated world. Nodes
/// on Ethernet reach each other by their addresses, or by names that the URL gives an address:
/// `udp://10.0.0.7/board?peers=builder@10.0.0.8`, or `?hosts=FILE` ([`crate::hosts`]). Names of hosts
/// in place of addresses are resolved once, by `open`. There,
/// `death=20s` sets the time for which a peer may compute without a call; 12 s without it. A peer
/// whose process has ended is noticed within a second. On shared memory, it uses the measurements
/// of this machine ([`crate::measured`]). Errors: [`OpenError`], a sentence each.
///
/// ```
/// use fluxline_core::fabric::{Fabric, Grant, Key, Name, Rights};
///
/// let mut builder = fluxline::open("shm://doc-open/builder")?;
/// let region = builder.register(1 << 20)?;
/// let grant = Grant { rights: Rights::PUT, key: Key(0x5EED) };
/// builder.export(region, Name::parse("samples")?, grant)?;
/// // Another process of this user may now connect to "builder" and put into "samples".
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(url: &str) -> Result<Box<dyn Fabric>, OpenError> {
    if let Some(open) = links::opener_of(url) {
        return open(url).map_err(OpenError::Registered);
    }
    if url.starts_with("sim:") {
        return Err(OpenError::NoSimulator { url: url.to_owned() });
    }
    if url.starts_with("udp://") {
        let (url, query) = Query::split(url)?;
        let (local, name) = udp_address(url)?;
        return Ok(query.apply(RoceNode::open(&name, port_config(local))?));
    }
    if url.starts_with("xdp://") {
        let (url, query) = Query::split(url)?;
        let (interface, name) = xdp_interface(url)?;
        let port = long_enough(XdpPort::open(&interface)?)?;
        return Ok(query.apply(RoceNode::on(port, endpoint_config(&name)?)));
    }
    let (group, node, users) = shm_url(url)?;
    let default = ShmConfig { users, ..ShmConfig::default() };
    // Measurements are stored by the name of the link in its capabilities.
    let crossover_bytes = Measured::load()?.of("shm").unwrap_or(default.crossover_bytes);
    let config = ShmConfig { spin: SPIN, crossover_bytes, ..default };
    Ok(Box::new(Shm::open(&group, &node, config)?))
}

/// Opens a node whose calls wait, on the link that `url` names, as [`open`] does.
///
/// Errors: [`OpenError`], a sentence each.
///
/// ```
/// use fluxline::{Span, fabric::Key};
///
/// let mut node = fluxline::node("shm://doc-node/consumer")?;
/// let ring = node.receiver("samples", Key(7), 1024, 4096)?;
///
/// let mut sensor = fluxline::node("shm://doc-node/sensor")?; // in life, another process
/// # std::thread::scope(|scope| {
/// # let pushing = scope.spawn(move || {
/// let patience = Span::from_s(10);
/// let samples = sensor.sender("consumer", "samples", Key(7), patience)?;
/// sensor.push_wait(samples, &[42; 4096], patience)?;
/// sensor.finish(samples, patience)
/// # });
/// # for record in node.records(ring, Span::from_s(10)) {
/// #     assert_eq!(record?, [42; 4096]);
/// # }
/// # pushing.join().expect("it does not panic")
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn node(url: &str) -> Result<Node, OpenError> {
    Ok(Node::of(open(url)?))
}

/// Opens `count` nodes at the one address that `url` names, each for a thread of its own.
///
/// The threads share nothing on the way of a frame: a connection belongs to one node, at which all
/// of its frames arrive. A peer's connections meet one node; the node with index n of an address
/// with as many nodes meets the one with index n here. Each node has its own regions; memory that
/// several register (`register_own`) is one region for peers of all. A node that is dropped leaves
/// its share of new connections to the others (docs/model.md). Errors: [`OpenError`].
///
/// ```
/// use std::thread;
///
/// let nodes = fluxline::open_threads("udp://127.0.0.1:0/builder", 2)?;
/// let threads = nodes.into_iter().map(|mut node| {
///     thread::spawn(move || while node.poll(node.now()).is_some() {})
/// });
/// threads.for_each(|thread| thread.join().expect("it does not panic"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_threads(url: &str, count: usize) -> Result<Vec<Box<dyn Fabric>>, OpenError> {
    if count == 1 {
        return Ok(vec![open(url)?]);
    }
    if url.starts_with("udp://") {
        let (url, query) = Query::split(url)?;
        let (local, name) = udp_address(url)?;
        return Ok(query.apply_all(RoceNode::open_threads(&name, &port_config(local), count)?));
    }
    if url.starts_with("xdp://") {
        let (url, query) = Query::split(url)?;
        let (interface, name) = xdp_interface(url)?;
        return Ok(query.apply_all(RoceNode::open_xdp_threads(&name, &interface, count)?));
    }
    Err(OpenError::Threads { url: url.to_owned(), count })
}

/// Returns the configuration of a node's socket.
fn port_config(local: SocketAddr) -> UdpPortConfig {
    UdpPortConfig { spin: SPIN, ..UdpPortConfig::new(local) }
}

/// The part of a URL behind `?`.
struct Query {
    hosts: Hosts,
    death: Option<Span>,
}

impl Query {
    /// Splits the part behind `?` from a URL.
    fn split(url: &str) -> Result<(&str, Query), OpenError> {
        let (url, text) = url.split_once('?').unwrap_or((url, ""));
        let (mut death, mut rest) = (None, Vec::new());
        for part in text.split('&') {
            match part.strip_prefix("death=") {
                Some(text) => death = Some(span_of(text)?),
                None => rest.push(part),
            }
        }
        Ok((url, Query { hosts: Hosts::of_query(&rest.join("&"))?, death }))
    }

    fn apply<P: Waiting + 'static>(&self, node: RoceNode<P>) -> Box<dyn Fabric> {
        let death = self.death.unwrap_or(DEATH);
        Box::new(node.with_hosts(self.hosts.clone()).with_death(death))
    }

    fn apply_all<P: Waiting + 'static>(&self, nodes: Vec<RoceNode<P>>) -> Vec<Box<dyn Fabric>> {
        nodes.into_iter().map(|node| self.apply(node)).collect()
    }
}

/// Returns a time of the key `death`: `20s` or `500ms`, 50 ms to a day.
fn span_of(text: &str) -> Result<Span, OpenError> {
    let ms = match text.strip_suffix("ms") {
        Some(number) => number.parse::<u64>().ok(),
        None => {
            text.strip_suffix('s').and_then(|number| number.parse::<u64>().ok()?.checked_mul(1_000))
        }
    };
    let in_range = ms.filter(|ms| (50..=86_400_000).contains(ms));
    in_range.map(Span::from_ms).ok_or_else(|| OpenError::Death { text: text.to_owned() })
}

/// Group, node and users of a `shm://GROUP/NODE[?group=HOSTGROUP]` URL: with `group`, all users of
/// that group of the host reach each other, without it, the processes of one user do.
pub fn shm_url(url: &str) -> Result<(Name, Name, Users), OpenError> {
    let (names, query) = url.split_once('?').map_or((url, None), |(url, query)| (url, Some(query)));
    let (group, node) = shm_names(names)?;
    let Some(query) = query else { return Ok((group, node, Users::This)) };
    let wrong = |reason| OpenError::HostGroup { url: url.to_owned(), reason };
    let word = query.strip_prefix("group=").filter(|word| !word.is_empty());
    let word = word.ok_or_else(|| wrong(String::from("behind `?`, write group=GROUP")))?;
    let number = match word.parse() {
        Ok(number) => Some(number),
        Err(_) => group_number(word).map_err(|error| wrong(error.to_string()))?,
    };
    let number = number.ok_or_else(|| {
        wrong(format!("this host has no group {word}; `getent group` lists those that there are"))
    })?;
    Ok((group, node, Users::Group(number)))
}

/// Group and node of a `shm://GROUP/NODE` URL.
pub fn shm_names(url: &str) -> Result<(Name, Name), OpenError> {
    let rest = url.strip_prefix("shm://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    let (group, node) =
        rest.split_once('/').ok_or_else(|| OpenError::Shape { url: url.to_owned() })?;
    Ok((Name::parse(group)?, Name::parse(node)?))
}

/// Returns the own address (by default with RoCEv2's port) and the node's name of a `udp://` URL. A
/// host may be given by its name, which is asked for once, here.
pub fn udp_address(url: &str) -> Result<(SocketAddr, String), OpenError> {
    let rest = url.strip_prefix("udp://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    let (address, name) = rest.split_once('/').unwrap_or((rest, ""));
    let unknown = |host| OpenError::Unknown { url: url.to_owned(), host };
    let found = host_address(address).map_err(unknown)?;
    let local = found.ok_or_else(|| OpenError::Address { url: url.to_owned() })?;
    own_name(local, name)
}

/// Returns the address and the node's name, which is the address where none is given.
fn own_name(local: SocketAddr, name: &str) -> Result<(SocketAddr, String), OpenError> {
    let name = if name.is_empty() { local.to_string() } else { Name::parse(name)?.to_string() };
    Ok((local, name))
}

/// Returns the interface (by default with RoCEv2's port) and the node's name of an `xdp://` URL. If
/// the URL names the interface by an own address, only that address is used.
pub fn xdp_interface(url: &str) -> Result<(XdpConfig, String), OpenError> {
    let rest = url.strip_prefix("xdp://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    let (first, name) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some(local) = peer_address(first) {
        let (_, name) = own_name(local, name)?;
        let none = || OpenError::Interface { url: url.to_owned() };
        let interface = interface_of(local.ip()).ok_or_else(none)?;
        let addresses = vec![local.ip()];
        let config = XdpConfig { port: local.port(), addresses, ..XdpConfig::new(&interface) };
        return Ok((config, name));
    }
    let interface = first;
    let wrong = || OpenError::Address { url: url.to_owned() };
    let (interface, port) = match interface.split_once(':') {
        Some((interface, port)) => (interface, port.parse().map_err(|_| wrong())?),
        None => (interface, UDP_PORT),
    };
    let name = if name.is_empty() { interface.to_owned() } else { Name::parse(name)?.to_string() };
    Ok((XdpConfig { port, ..XdpConfig::new(interface) }, name))
}

#[cfg(test)]
mod tests {
    use super::{open, shm_names, udp_address};

    #[test]
    fn a_wrong_url_is_answered_with_what_to_write() {
        for (url, says) in [
            ("", "write shm://GROUP/NODE"),
            ("tcp://10.0.0.7:4791", "names no link that there is"),
            ("udp://no-such-host.invalid:4791", "the name of a known host"),
            ("udp://:4791", "write one of this host's"),
            ("xdp://no-such-interface", "`ip link` lists them"),
            ("xdp://lo:x", "write one of this host's"),
            ("xdp://127.0.0.1:4791", "no interface of this host has that address"),
            ("xdp://[2001:db8::7]", "no interface of this host has that address"),
            ("udp://127.0.0.1/a/b", "is not a name"),
            ("udp://127.0.0.1/a?peer=b@10.0.0.8", "behind `?` write peers="),
            ("udp://127.0.0.1/a?peers=b", "write NAME@ADDRESS"),
            ("udp://127.0.0.1/a?peers=b@:here", "write NAME@ADDRESS"),
            ("udp://127.0.0.1/a?peers=b@10.0.0.8,b@10.0.0.9", "b has two addresses"),
            ("udp://127.0.0.1/a?death=never", "write for example death=20s"),
            ("udp://127.0.0.1/a?death=0s&peers=b@10.0.0.8", "is not a time"),
            ("udp://127.0.0.1/a?death=9999999999999999999s", "is not a time"),
            ("udp://127.0.0.1/a?hosts=/no/such/file", "lines ADDRESS NAME"),
            ("sim:sci/lab/a?nodes=2", "calls fluxline_sim::register() first"),
            ("shm://lab", "for example shm://lab/builder"),
            ("shm://lab/", "is not a name"),
            ("shm://../x", "is not a name"),
            ("shm://lab/a/b", "is not a name"),
            ("shm://lab/a?users=daq", "write group=GROUP"),
            ("shm://lab/a?group=no-such-group", "has no group no-such-group"),
        ] {
            let error = open(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{url}: {error}");
        }
        let within = |url: &str| open(url).expect("right").capabilities().death_noticed_within;
        assert_eq!(within("udp://127.0.0.1:0/a").as_ns(), 15_000_000_000);
        assert_eq!(within("udp://127.0.0.1:0/a?death=800ms").as_ns(), 1_000_000_000);
        let (local, name) = udp_address("udp://10.0.0.7/builder").expect("right");
        assert_eq!((local.to_string().as_str(), name.as_str()), ("10.0.0.7:4791", "builder"));
        let (local, name) = udp_address("udp://[::1]:5000").expect("right");
        assert_eq!((local.to_string().as_str(), name.as_str()), ("[::1]:5000", "[::1]:5000"));
        let (group, node) = shm_names("shm://lab/builder").expect("right");
        assert_eq!((group.as_str(), node.as_str()), ("lab", "builder"));
    }
}
