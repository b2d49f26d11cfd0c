//! One datagram as a source hands it over: bytes, who sent them, where and when they arrived.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::Moment;

/// Address and port of a datagram's sender; IPv4 is kept as IPv4-mapped IPv6, so that it is one
/// size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderAddress {
    ip: [u8; 16],
    port: u16,
}

impl SenderAddress {
    /// No address: a file of raw payloads has none.
    pub const NONE: SenderAddress = SenderAddress { ip: [0; 16], port: 0 };

    /// The IP address, IPv4 where it is an IPv4-mapped one.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.ip).to_canonical()
    }

    /// The same with port 0: for sensors that a source port does not tell apart.
    #[must_use]
    pub fn without_port(self) -> SenderAddress {
        SenderAddress { port: 0, ..self }
    }

    /// The same with no address: for sensors that only the port tells apart.
    #[must_use]
    pub fn without_ip(self) -> SenderAddress {
        SenderAddress { ip: [0; 16], ..self }
    }

    /// The UDP port.
    #[must_use]
    pub fn port(self) -> u16 {
        self.port
    }
}

impl From<SocketAddr> for SenderAddress {
    fn from(address: SocketAddr) -> SenderAddress {
        let ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        SenderAddress { ip, port: address.port() }
    }
}

impl fmt::Display for SenderAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip(), self.port).fmt(out)
    }
}

impl fmt::Debug for SenderAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// One UDP payload, borrowed from wherever the source put it (a slot of the push ring, a file).
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The UDP payload.
    pub bytes: &'a [u8],
    /// The sender's address.
    pub sender: SenderAddress,
    /// The UDP port it was sent to; 0 where there is none.
    pub port: u16,
    /// Time of arrival: the kernel's or the capture's time stamp where there is one.
    pub time: Moment,
}
