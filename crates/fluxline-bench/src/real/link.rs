//! The measured link, and the URL by which each side opens it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use fluxline::udp::interface_of;
use fluxline_core::roce;
use fluxline_doctor::Through;

use crate::Error;
use crate::control;

/// A link to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// `shm://`: shared memory, in a group of the benchmark's own.
    Shm,
    /// `udp://ADDRESS[:PORT]`: to a host on Ethernet, or to this one.
    Udp {
        /// The other side's address.
        address: IpAddr,
        /// The other side's port; `None`: RoCEv2's, or on this host any.
        port: Option<u16>,
    },
    /// `xdp://ADDRESS[:PORT]`: the same past both kernels' network stacks (AF_XDP).
    Xdp {
        /// The other side's address, not on loopback.
        address: IpAddr,
        /// The other side's port; `None`: RoCEv2's.
        port: Option<u16>,
    },
    /// `tcp://ADDRESS`: plain TCP, as a reference; it has no fabric.
    Tcp {
        /// The other side's address.
        address: IpAddr,
    },
    /// `sim:…`: a simulated link in virtual time; the program opens it.
    Simulated,
}

/// The reason why a link cannot be measured by its URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No such scheme.
    #[error(
        "this names no link that can be measured; write shm://, udp://ADDRESS or xdp://ADDRESS \
         (other side: `fluxline bench --serve`), tcp://ADDRESS, or sim:sci?nodes=2&model=lc2"
    )]
    Scheme,
    /// A group was given.
    #[error("write shm:// alone; the benchmark opens a group of its own")]
    Group,
    /// Loopback has no interface past the kernel.
    #[error(
        "xdp:// is between two interfaces, and loopback has none; write the address of another \
         host or network namespace, or udp://{address}"
    )]
    Loopback {
        /// The given address.
        address: IpAddr,
    },
    /// The address is invalid.
    #[error("write the other side's address behind {scheme}, for example {scheme}10.0.0.7")]
    Address {
        /// The scheme.
        scheme: &'static str,
    },
}

impl Link {
    /// Reads a URL. Errors: [`LinkError`], with a correct example.
    pub fn parse(url: &str) -> Result<Link, LinkError> {
        if let Some(rest) = url.strip_prefix("udp://") {
            let (address, port) = address("udp://", rest)?;
            return Ok(Link::Udp { address, port });
        }
        if let Some(rest) = url.strip_prefix("xdp://") {
            let (address, port) = address("xdp://", rest)?;
            if address.is_loopback() {
                return Err(LinkError::Loopback { address });
            }
            return Ok(Link::Xdp { address, port });
        }
        if let Some(rest) = url.strip_prefix("tcp://") {
            let (address, _) = address("tcp://", rest)?;
            return Ok(Link::Tcp { address });
        }
        match url {
            "shm://" => Ok(Link::Shm),
            _ if url.starts_with("shm://") => Err(LinkError::Group),
            _ if url.starts_with("sim:") => Ok(Link::Simulated),
            _ => Err(LinkError::Scheme),
        }
    }

    /// Its scheme: `shm`, `udp`, `xdp`, `tcp`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        match self {
            Link::Shm => "shm",
            Link::Udp { .. } => "udp",
            Link::Xdp { .. } => "xdp",
            Link::Tcp { .. } => "tcp",
            Link::Simulated => "sim",
        }
    }

    /// Returns true if nodes can be opened on it.
    #[must_use]
    pub fn has_fabric(&self) -> bool {
        !matches!(self, Link::Tcp { .. })
    }

    /// The other side's address; `None`: it is this host.
    #[must_use]
    pub fn host(&self) -> Option<IpAddr> {
        self.address().filter(|address| !address.is_loopback())
    }

    /// The address that it leads to; `None`: it has none.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Link::Shm | Link::Simulated => None,
            Link::Udp { address, .. } | Link::Xdp { address, .. } | Link::Tcp { address } => {
                Some(*address)
            }
        }
    }

    /// Returns the default address of the far side; `None`: it is started here.
    #[must_use]
    pub fn control(&self) -> Option<SocketAddr> {
        self.host().map(|host| SocketAddr::new(host, control::PORT))
    }

    /// Finds the hardware under the link on the near side's host; `None`: it is simulated. Nothing
    /// is sent.
    #[must_use]
    pub fn through(&self) -> Option<Through> {
        match self.address() {
            // Without a route nothing will be measured: then everything may be the reason.
            Some(address) => Some(Through::toward(address).unwrap_or(Through::Anything)),
            None => (*self == Link::Shm).then_some(Through::Memory),
        }
    }

    /// Finds the hardware under the link on the far side's host, to which `near` is connected.
    #[must_use]
    pub fn through_at_far(&self, near: IpAddr) -> Option<Through> {
        let Some(address) = self.address() else { return self.through() };
        let back = Through::toward(near).unwrap_or(Through::Anything);
        if back == Through::Loopback || address.is_loopback() {
            return Some(Through::Loopback);
        }
        // The control connection may go another way than the link.
        Some(interface_of(address).map_or(back, Through::Interface))
    }

    /// The URLs of the nodes of near and far. `group` is this benchmark's alone.
    ///
    /// Errors: no port is free, or a link without nodes.
    pub fn nodes(&self, group: &str, near: IpAddr) -> Result<[String; 2], Error> {
        match self {
            Link::Shm => Ok(["near", "far"].map(|node| format!("shm://{group}/{node}"))),
            Link::Udp { address, port } => {
                let near = match address {
                    address if address.is_loopback() => *address,
                    _ => near,
                };
                let port = match port {
                    Some(port) => *port,
                    None if address.is_loopback() => free_port(*address)?,
                    None => roce::UDP_PORT,
                };
                let near = SocketAddr::new(near, free_port(near)?);
                let far = SocketAddr::new(*address, port);
                Ok([near, far].map(|address| format!("udp://{address}")))
            }
            Link::Xdp { address, port } => {
                // A port that the near kernel gives to nobody else: its datagrams come here.
                let near = SocketAddr::new(near, free_port(near)?);
                let far = SocketAddr::new(*address, port.unwrap_or(roce::UDP_PORT));
                Ok([near, far].map(|address| format!("xdp://{address}")))
            }
            Link::Tcp { .. } | Link::Simulated => {
                let (what, link) = ("a node".to_owned(), format!("{}:", self.scheme()));
                Err(Error::Unsuitable { what, link })
            }
        }
    }
}

fn address(scheme: &'static str, text: &str) -> Result<(IpAddr, Option<u16>), LinkError> {
    if let Ok(whole) = text.parse::<SocketAddr>() {
        return Ok((whole.ip(), Some(whole.port())));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map_err(|_| LinkError::Address { scheme })?;
    if address == IpAddr::V4(Ipv4Addr::UNSPECIFIED) {
        return Err(LinkError::Address { scheme });
    }
    Ok((address, None))
}

/// A UDP port that was free a moment ago.
fn free_port(address: IpAddr) -> Result<u16, Error> {
    let bound = UdpSocket::bind(SocketAddr::new(address, 0)).and_then(|socket| socket.local_addr());
    bound.map(|local| local.port()).map_err(Error::host(format!("a UDP port of {address}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_links_or_are_answered_with_what_to_write() {
        assert_eq!(Link::parse("shm://"), Ok(Link::Shm));
        let link = Link::parse("udp://10.0.0.7:5000").expect("right");
        assert_eq!(link.host(), Some("10.0.0.7".parse().expect("right")));
        let nodes = link.nodes("g", "127.0.0.1".parse().expect("right")).expect("a port");
        assert_eq!(nodes[1], "udp://10.0.0.7:5000");
        assert!(nodes[0].starts_with("udp://127.0.0.1:"), "{nodes:?}");
        let link = Link::parse("xdp://10.0.0.7").expect("right");
        let nodes = link.nodes("g", "127.0.0.1".parse().expect("right")).expect("a port");
        assert_eq!(nodes[1], "xdp://10.0.0.7:4791");
        assert!(nodes[0].starts_with("xdp://127.0.0.1:"), "{nodes:?}");
        assert_eq!(Link::parse("udp://[::1]").expect("right").host(), None);
        assert_eq!(Link::parse("tcp://127.0.0.1").expect("right").host(), None);
        for (url, says) in [
            ("", "write shm://"),
            ("foo://", "write shm://"),
            ("shm://lab", "write shm:// alone"),
            ("udp://", "udp://10.0.0.7"),
            ("udp://here", "udp://10.0.0.7"),
            ("udp://0.0.0.0", "udp://10.0.0.7"),
            ("udp://1.2.3.4:99999", "udp://10.0.0.7"),
            ("xdp://", "xdp://10.0.0.7"),
            ("xdp://eth0", "xdp://10.0.0.7"),
            ("xdp://127.0.0.1", "or udp://127.0.0.1"),
            ("xdp://[::1]:4791", "loopback has none"),
            ("tcp://1.2.3", "tcp://10.0.0.7"),
        ] {
            let error = Link::parse(url).expect_err(url).to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }

    #[test]
    fn a_link_goes_through_memory_or_loopback_or_an_interface_on_both_sides() {
        let loopback = "127.0.0.1".parse().expect("an address");
        let at_both = |url: &str| {
            let link = Link::parse(url).expect("a link");
            (link.through(), link.through_at_far(loopback))
        };
        assert_eq!(at_both("shm://"), (Some(Through::Memory), Some(Through::Memory)));
        let (near, far) = at_both("udp://127.0.0.1");
        assert_eq!((near, far), (Some(Through::Loopback), Some(Through::Loopback)));
        assert_eq!(at_both("sim:sci?nodes=2"), (None, None));
        // Both on one host, at any of its addresses.
        assert_eq!(at_both("tcp://203.0.113.7").1, Some(Through::Loopback));
    }
}
