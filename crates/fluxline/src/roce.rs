//! Remote memory over Ethernet: a node whose regions other machines, or FPGAs, write by RoCEv2.
//!
//! The protocol is [`fluxline_proto::endpoint`]; this adds a port, mapped memory, secrets from the
//! host, waiting, and a goodbye when it is dropped. No RDMA card and no kernel module is needed.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fluxline_proto::Moment;
use fluxline_proto::endpoint::{EndpointConfig, Node};
use fluxline_proto::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Memory, Name, PostError, RegionId, RegisterError, Reliability, RemoteId,
    Slice, Work,
};
use fluxline_proto::port::{Incoming, Outgoing, Port, PortCounters, PortLimits};

use crate::clock;
use crate::shm::private_memory;
use crate::sys::host;
use crate::udp::{UdpPort, UdpPortConfig};
use crate::xdp::{XdpConfig, XdpError, XdpPort};

pub use crate::udp::BindError;

/// A port that can be waited for.
pub trait Waiting: Port {
    /// Waits until there is something to receive or to send, at most `timeout`.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool>;
}

impl Waiting for UdpPort {
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

    fn flush(&mut self, now: Moment) {
        of_either!(self, port => port.flush(now));
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        of_either!(self, port => port.receive(now, take))
    }

    fn deadline(&self) -> Option<Moment> {
        of_either!(self, port => port.deadline())
    }

    fn counters(&self) -> PortCounters {
        of_either!(self, port => port.counters())
    }
}

impl Waiting for EthernetPort {
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        match self {
            EthernetPort::Xdp(port) => Waiting::wait(&mut **port, timeout),
            EthernetPort::Udp(port) => Waiting::wait(&mut **port, timeout),
        }
    }
}

/// Why a node could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RoceError {
    /// The socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No random numbers.
    #[error("the host gives no random numbers: {0}")]
    Secret(io::Error),
}

/// The defaults of a node called `name`, with a secret of the host's and mapped memory.
///
/// Errors: [`RoceError::Secret`].
pub fn endpoint_config(name: &str) -> Result<EndpointConfig, RoceError> {
    let mut secret = [0; 16];
    host::random(&mut secret).map_err(RoceError::Secret)?;
    let allocate = Box::new(|bytes| -> Result<Arc<dyn Memory>, String> {
        match private_memory(bytes) {
            Ok(memory) => Ok(memory),
            Err(error) => Err(error.to_string()),
        }
    });
    Ok(EndpointConfig { allocate, ..EndpointConfig::new(name, secret) })
}

/// A node on Ethernet.
pub struct RoceNode<P: Waiting = UdpPort> {
    node: Node<P>,
}

impl RoceNode<UdpPort> {
    /// Binds a UDP socket and opens a node called `name` on it.
    ///
    /// Errors: [`RoceError`]. Cost: see [`UdpPort::bind`].
    pub fn open(name: &str, port: UdpPortConfig) -> Result<RoceNode, RoceError> {
        Ok(RoceNode::on(UdpPort::bind(port)?, endpoint_config(name)?))
    }
}

impl<P: Waiting> RoceNode<P> {
    /// A node on a port of one's own.
    #[must_use]
    pub fn on(port: P, config: EndpointConfig) -> RoceNode<P> {
        RoceNode { node: Node::new(port, config) }
    }

    /// The node: its counters, static peers.
    pub fn node(&mut self) -> &mut Node<P> {
        &mut self.node
    }

    /// The next thing that happened, now.
    pub fn told(&mut self) -> Option<Completion> {
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
        self.node.connect(peer, reliability)
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

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        self.node.poll(now)
    }

    fn deadline(&self) -> Option<Moment> {
        self.node.deadline()
    }
}
