//! One way to any link: a URL names it, and the result is a [`Fabric`].

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use fluxline_core::fabric::{Fabric, Name, NameError, links};
use fluxline_core::roce::UDP_PORT;

use crate::hosts::{Hosts, HostsError, peer_address};
use crate::measured::{Measured, MeasuredError};
use crate::roce::{RoceError, RoceNode, Waiting, endpoint_config, long_enough};
use crate::udp::{UdpPortConfig, interface_of};
use crate::xdp::{XdpConfig, XdpError, XdpPort};

use crate::shm::{Shm, ShmConfig, ShmError};

/// Time for which a node on shared memory polls before it sleeps: about that of some wake-ups.
const SPIN: Duration = Duration::from_micros(50);

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
/// `udp://10.0.0.7/board?peers=builder@10.0.0.8`, or `?hosts=FILE` ([`crate::hosts`]). On shared
/// memory, it uses the measurements of this machine ([`crate::measured`]). Errors: [`OpenError`], a
/// sentence each.
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
        let (url, hosts) = with_hosts(url)?;
        let (local, name) = udp_address(url)?;
        let node = RoceNode::open(&name, port_config(local))?;
        return Ok(Box::new(node.with_hosts(hosts)));
    }
    if url.starts_with("xdp://") {
        let (url, hosts) = with_hosts(url)?;
        let (interface, name) = xdp_interface(url)?;
        let port = long_enough(XdpPort::open(&interface)?)?;
        return Ok(Box::new(RoceNode::on(port, endpoint_config(&name)?).with_hosts(hosts)));
    }
    let (group, node) = shm_names(url)?;
    let default = ShmConfig::default();
    // Measurements are stored by the name of the link in its capabilities.
    let crossover_bytes = Measured::load()?.of("shm").unwrap_or(default.crossover_bytes);
    let config = ShmConfig { spin: SPIN, crossover_bytes, ..default };
    Ok(Box::new(Shm::open(&group, &node, config)?))
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
        let (url, hosts) = with_hosts(url)?;
        let (local, name) = udp_address(url)?;
        return Ok(boxed(RoceNode::open_threads(&name, &port_config(local), count)?, &hosts));
    }
    if url.starts_with("xdp://") {
        let (url, hosts) = with_hosts(url)?;
        let (interface, name) = xdp_interface(url)?;
        return Ok(boxed(RoceNode::open_xdp_threads(&name, &interface, count)?, &hosts));
    }
    Err(OpenError::Threads { url: url.to_owned(), count })
}

/// Returns nodes that find peers by the names of a table.
fn boxed<P: Waiting + 'static>(nodes: Vec<RoceNode<P>>, hosts: &Hosts) -> Vec<Box<dyn Fabric>> {
    let open = |node: RoceNode<P>| Box::new(node.with_hosts(hosts.clone())) as Box<dyn Fabric>;
    nodes.into_iter().map(open).collect()
}

/// Returns the configuration of a node's socket.
fn port_config(local: SocketAddr) -> UdpPortConfig {
    UdpPortConfig { spin: SPIN, ..UdpPortConfig::new(local) }
}

/// Splits the table of peers from a URL.
fn with_hosts(url: &str) -> Result<(&str, Hosts), OpenError> {
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    Ok((url, Hosts::of_query(query)?))
}

/// Group and node of a `shm://` URL.
pub fn shm_names(url: &str) -> Result<(Name, Name), OpenError> {
    let rest = url.strip_prefix("shm://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    let (group, node) =
        rest.split_once('/').ok_or_else(|| OpenError::Shape { url: url.to_owned() })?;
    Ok((Name::parse(group)?, Name::parse(node)?))
}

/// Returns the own address (by default with RoCEv2's port) and the node's name of a `udp://` URL.
pub fn udp_address(url: &str) -> Result<(SocketAddr, String), OpenError> {
    let rest = url.strip_prefix("udp://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    let (address, name) = rest.split_once('/').unwrap_or((rest, ""));
    let local = peer_address(address).ok_or_else(|| OpenError::Address { url: url.to_owned() })?;
    let name = if name.is_empty() { local.to_string() } else { Name::parse(name)?.to_string() };
    Ok((local, name))
}

/// Returns the interface (by default with RoCEv2's port) and the node's name of an `xdp://` URL. If
/// the URL names the interface by an own address, only that address is used.
pub fn xdp_interface(url: &str) -> Result<(XdpConfig, String), OpenError> {
    let rest = url.strip_prefix("xdp://").ok_or_else(|| OpenError::Link { url: url.to_owned() })?;
    if let Ok((local, name)) = udp_address(&format!("udp://{rest}")) {
        let none = || OpenError::Interface { url: url.to_owned() };
        let interface = interface_of(local.ip()).ok_or_else(none)?;
        let addresses = vec![local.ip()];
        let config = XdpConfig { port: local.port(), addresses, ..XdpConfig::new(&interface) };
        return Ok((config, name));
    }
    let (interface, name) = rest.split_once('/').unwrap_or((rest, ""));
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
            ("udp://here:4791", "write one of this host's"),
            ("xdp://no-such-interface", "`ip link` lists them"),
            ("xdp://lo:x", "write one of this host's"),
            ("xdp://127.0.0.1:4791", "no interface of this host has that address"),
            ("xdp://[2001:db8::7]", "no interface of this host has that address"),
            ("udp://127.0.0.1/a/b", "is not a name"),
            ("udp://127.0.0.1/a?peer=b@10.0.0.8", "behind `?` write peers="),
            ("udp://127.0.0.1/a?peers=b", "write NAME@ADDRESS"),
            ("udp://127.0.0.1/a?peers=b@here", "write NAME@ADDRESS"),
            ("udp://127.0.0.1/a?peers=b@10.0.0.8,b@10.0.0.9", "b has two addresses"),
            ("udp://127.0.0.1/a?hosts=/no/such/file", "lines ADDRESS NAME"),
            ("sim:sci/lab/a?nodes=2", "calls fluxline_sim::register() first"),
            ("shm://lab", "for example shm://lab/builder"),
            ("shm://lab/", "is not a name"),
            ("shm://../x", "is not a name"),
            ("shm://lab/a/b", "is not a name"),
        ] {
            let error = open(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{url}: {error}");
        }
        let (local, name) = udp_address("udp://10.0.0.7/builder").expect("right");
        assert_eq!((local.to_string().as_str(), name.as_str()), ("10.0.0.7:4791", "builder"));
        let (local, name) = udp_address("udp://[::1]:5000").expect("right");
        assert_eq!((local.to_string().as_str(), name.as_str()), ("[::1]:5000", "[::1]:5000"));
        let (group, node) = shm_names("shm://lab/builder").expect("right");
        assert_eq!((group.as_str(), node.as_str()), ("lab", "builder"));
    }
}
