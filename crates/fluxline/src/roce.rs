//! Remote memory over Ethernet: a node whose regions other machines, or FPGAs, write by RoCEv2.
//!
//! The protocol is [`fluxline_core::endpoint`]; this adds a port, mapped memory, secrets from the
//! host, waiting, and a goodbye when it is dropped. No RDMA card and no kernel module is needed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fluxline_core::endpoint::{EndpointConfig, Node};
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work, WorkCounters,
};
use fluxline_core::port::{
    Incoming, IncomingTrain, Outgoing, OutgoingTrain, Port, PortCounters, PortLimits,
};
use fluxline_core::{Moment, Span};

use crate::clock;
use crate::hosts::Hosts;
use crate::memory::OwnMemory;
use crate::sys::{host, packet_sum};
use crate::udp::{UdpPort, UdpPortConfig};
use crate::xdp::{XdpConfig, XdpError, XdpPort};

pub use crate::udp::BindError;

/// A port that can be waited for.
pub trait Waiting: Port {
    /// Waits until there is something to receive or to send, at most `timeout`.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool>;

    /// Returns a file descriptor that is readable when a frame arrived, if there is one for all.
    fn descriptor(&self) -> Option<i32> {
        None
    }
}

impl Waiting for UdpPort {
    fn descriptor(&self) -> Option<i32> {
        Some(UdpPort::descriptor(self))
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        UdpPort::wait(self, timeout)
    }
}

impl Waiting for XdpPort {
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        Ok(XdpPort::wait(self, timeout))
    }
}

/// An interface past the kernel where that is possible, a UDP socket where it is not.
pub enum EthernetPort {
    /// The interface itself.
    Xdp(Box<XdpPort>),
    /// The kernel's stack.
    Udp(Box<UdpPort>),
}

impl EthernetPort {
    /// Opens the interface; if it refuses, a UDP socket on the address, and the reason.
    ///
    /// Errors: those of the socket, when that fails too.
    pub fn open(
        interface: &XdpConfig,
        socket: UdpPortConfig,
    ) -> Result<(EthernetPort, Option<XdpError>), BindError> {
        match XdpPort::open(interface) {
            Ok(port) => Ok((EthernetPort::Xdp(Box::new(port)), None)),
            Err(reason) => {
                let port = UdpPort::bind(socket)?;
                Ok((EthernetPort::Udp(Box::new(port)), Some(reason)))
            }
        }
    }
}

/// Calls the port that it is.
macro_rules! of_either {
    ($self:ident, $port:ident => $call:expr) => {
        match $self {
            EthernetPort::Xdp($port) => $call,
            EthernetPort::Udp($port) => $call,
        }
    };
}

impl Port for EthernetPort {
    fn limits(&self) -> &PortLimits {
        of_either!(self, port => port.limits())
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        of_either!(self, port => port.local(peer))
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        of_either!(self, port => port.frame(to, bytes))
    }

    fn train(&mut self, to: SocketAddr, bytes: usize, frames: usize) -> Option<OutgoingTrain<'_>> {
        of_either!(self, port => port.train(to, bytes, frames))
    }

    fn flush(&mut self, now: Moment) {
        of_either!(self, port => port.flush(now));
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        of_either!(self, port => port.receive(now, take))
    }

    fn receive_trains(&mut self, now: Moment, take: &mut dyn FnMut(IncomingTrain<'_>)) -> usize {
        of_either!(self, port => port.receive_trains(now, take))
    }

    fn refused(&mut self) -> Option<SocketAddr> {
        of_either!(self, port => port.refused())
    }

    fn deadline(&self) -> Option<Moment> {
        of_either!(self, port => port.deadline())
    }

    fn counters(&self) -> PortCounters {
        of_either!(self, port => port.counters())
    }
}

impl Waiting for EthernetPort {
    fn descriptor(&self) -> Option<i32> {
        of_either!(self, port => Waiting::descriptor(&**port))
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        match self {
            EthernetPort::Xdp(port) => Waiting::wait(&mut **port, timeout),
            EthernetPort::Udp(port) => Waiting::wait(&mut **port, timeout),
        }
    }
}

/// The reason why a node could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RoceError {
    /// The socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The interface.
    #[error("{0}; udp:// with the interface's address works without")]
    Xdp(#[from] XdpError),
    /// The interface's MTU is tiny.
    #[error(
        "the interface takes {frame_bytes} bytes in a datagram, and a connection needs \
         {FRAME_BYTES_MIN}; raise its MTU to {MTU_MIN} bytes or more \
         (`ip link set DEVICE mtu 1500`)"
    )]
    ShortFrames {
        /// The longest frame that it takes \[byte\].
        frame_bytes: usize,
    },
    /// No random numbers.
    #[error("the host has no random numbers: {0}")]
    Secret(io::Error),
}

/// The shortest longest frame that two nodes connect over \[byte\]. Source: the set-up frames of
/// docs/wire.md; a test here holds it against the endpoint.
const FRAME_BYTES_MIN: usize = 128;
/// The least MTU \[byte\]: with heads of IPv6 and UDP. Source: RFC 8200, RFC 768.
const MTU_MIN: usize = FRAME_BYTES_MIN + 48;

/// The same port, when its frames are long enough that nodes can connect over it.
///
/// Errors: [`RoceError::ShortFrames`]; without this look, connecting to any peer would time out.
pub fn long_enough<P: Port>(port: P) -> Result<P, RoceError> {
    match port.limits().frame_bytes_max {
        frame_bytes if frame_bytes < FRAME_BYTES_MIN => Err(RoceError::ShortFrames { frame_bytes }),
        _ => Ok(port),
    }
}

/// Returns a random key that is not 0. Errors: the host has no random numbers.
pub fn random_key() -> Result<Key, RoceError> {
    let mut random = [0; 16];
    host::random(&mut random).map_err(RoceError::Secret)?;
    Ok(Key(random[..8].iter().fold(0, |key, byte| key << 8 | u64::from(*byte)).max(1)))
}

/// The defaults of a node called `name`, with a secret of the host's and mapped memory.
///
/// Errors: [`RoceError::Secret`].
pub fn endpoint_config(name: &str) -> Result<EndpointConfig, RoceError> {
    let mut secret = [0; 16];
    host::random(&mut secret).map_err(RoceError::Secret)?;
    let allocate = Box::new(|bytes| -> Result<Arc<dyn Memory>, String> {
        match OwnMemory::zeroed(bytes) {
            Ok(memory) => Ok(Arc::new(memory)),
            Err(error) => Err(error.to_string()),
        }
    });
    let packet_sum = packet_sum::fastest();
    Ok(EndpointConfig { allocate, packet_sum, ..EndpointConfig::new(name, secret) })
}

/// A node on Ethernet.
pub struct RoceNode<P: Waiting = UdpPort> {
    node: Node<P>,
    hosts: Hosts,
}

impl RoceNode<UdpPort> {
    /// Binds a UDP socket and opens a node called `name` on it.
    ///
    /// Errors: [`RoceError`]. Cost: see [`UdpPort::bind`].
    pub fn open(name: &str, port: UdpPortConfig) -> Result<RoceNode, RoceError> {
        Ok(RoceNode::on(long_enough(UdpPort::bind(port)?)?, endpoint_config(name)?))
    }
}

impl RoceNode<UdpPort> {
    /// Opens `count` nodes called `name` at one address, each for a thread of its own.
    ///
    /// Errors: [`RoceError`]. Cost: see [`UdpPort::bind_threads`].
    pub fn open_threads(
        name: &str,
        port: &UdpPortConfig,
        count: usize,
    ) -> Result<Vec<RoceNode>, RoceError> {
        let ports = UdpPort::bind_threads(port, count)?.into_iter();
        ports.map(|port| Ok(RoceNode::on(long_enough(port)?, endpoint_config(name)?))).collect()
    }
}

impl RoceNode<XdpPort> {
    /// Opens `count` nodes called `name` on one interface, each for a thread of its own.
    ///
    /// Errors: [`RoceError`]. Cost: see [`XdpPort::open_threads`].
    pub fn open_xdp_threads(
        name: &str,
        interface: &XdpConfig,
        count: usize,
    ) -> Result<Vec<RoceNode<XdpPort>>, RoceError> {
        let ports = XdpPort::open_threads(interface, count)?.into_iter();
        ports.map(|port| Ok(RoceNode::on(long_enough(port)?, endpoint_config(name)?))).collect()
    }
}

impl<P: Waiting> RoceNode<P> {
    /// A node on a port of one's own.
    #[must_use]
    pub fn on(port: P, config: EndpointConfig) -> RoceNode<P> {
        RoceNode { node: Node::new(port, config), hosts: Hosts::default() }
    }

    /// The same node, which also finds peers by the names of this table.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Hosts) -> RoceNode<P> {
        self.hosts = hosts;
        self
    }

    /// The same node, for which a silent peer is gone after `death`: a program may compute for that
    /// long. A peer whose host says that no program receives there is gone within a second.
    #[must_use]
    pub fn with_death(mut self, death: Span) -> RoceNode<P> {
        self.node.set_death(death);
        self
    }

    /// The node: its counters, static peers.
    pub fn node(&mut self) -> &mut Node<P> {
        &mut self.node
    }

    /// The next thing that happened, now.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.node.poll(clock::monotonic())
    }

    /// Waits until `poll` has something to do, at most `timeout`. Errors: the kernel's.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let now = clock::monotonic();
        let until = self.node.deadline().map_or(timeout, |deadline| {
            timeout.min(Duration::from_nanos(deadline.since(now).as_ns()))
        });
        self.node.port().wait(until).map(|_| ())
    }
}

impl<P: Waiting> Drop for RoceNode<P> {
    fn drop(&mut self) {
        self.node.leave(clock::monotonic());
    }
}

impl<P: Waiting> Fabric for RoceNode<P> {
    fn capabilities(&self) -> &Capabilities {
        self.node.capabilities()
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        self.node.register(bytes)
    }

    fn register_own(&mut self, memory: Arc<dyn Memory>) -> Result<RegionId, RegisterError> {
        self.node.register_own(memory)
    }

    fn view(
        &mut self,
        region: RegionId,
        visit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), AccessError> {
        self.node.view(region, visit)
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        self.node.export(region, name, grant)
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        self.node.withdraw(region)
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        self.node.memory(region)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        match self.hosts.address(peer) {
            Some(address) => self.node.connect(&address.to_string(), reliability),
            None => self.node.connect(peer, reliability),
        }
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.node.disconnect(endpoint)
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        self.node.import(endpoint, name, key)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        self.node.window(remote)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.node.post(endpoint, tag, work)
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.node.post_receive(endpoint, tag, into)
    }

    fn counters(&self) -> &WorkCounters {
        Fabric::counters(&self.node)
    }

    fn now(&self) -> Moment {
        clock::monotonic()
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        self.node.poll(now)
    }

    fn deadline(&self) -> Option<Moment> {
        self.node.deadline()
    }

    fn wait(&mut self, until: Moment) {
        // A socket that cannot be waited for is polled.
        let _ = RoceNode::wait(self, clock::left(until));
    }

    fn descriptor(&mut self) -> Option<i32> {
        Waiting::descriptor(self.node.port())
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::port::network::Network;

    use super::*;

    /// Returns true when two nodes connect over frames of that length within virtual seconds.
    fn connects(frame_bytes: usize) -> bool {
        let network = Network::new();
        let ends = [1, 2].map(|last| SocketAddr::new([10, 0, 0, last].into(), 4791));
        let mut nodes = ends.map(|at| {
            let port = network.port(at, frame_bytes);
            Node::new(port, EndpointConfig::new("node", [at.port() as u8; 16]))
        });
        let endpoint = nodes[0].connect(&ends[1].to_string(), Reliability::Reliable);
        let endpoint = endpoint.expect("an address");
        for step in 0..10_000 {
            let now = Moment::from_ns(step * 1_000_000);
            for node in &mut nodes {
                while let Some(completion) = node.poll(now) {
                    match completion {
                        Completion::Connected { endpoint: of, .. } if of == endpoint => {
                            return true;
                        }
                        Completion::Broken { .. } => return false,
                        _ => {}
                    }
                }
            }
        }
        false
    }

    #[test]
    fn a_tiny_mtu_is_refused_exactly_where_no_connection_would_come_about() {
        let at = SocketAddr::new([10, 0, 0, 1].into(), 4791);
        let is_refused = |frame_bytes| long_enough(Network::new().port(at, frame_bytes)).is_err();
        assert!(is_refused(FRAME_BYTES_MIN - 4) && !connects(FRAME_BYTES_MIN - 4));
        assert!(!is_refused(FRAME_BYTES_MIN) && connects(FRAME_BYTES_MIN));
        let error = RoceError::ShortFrames { frame_bytes: 40 }.to_string();
        assert!(error.contains("40 bytes") && error.contains("MTU to 176"), "{error}");
    }
}
