//! A datagram as a source gives it: bytes, sender, port and time of arrival.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::time::Moment;

/// The address and port of a datagram's sender. IPv4 is kept as IPv4-mapped IPv6, so that all
/// addresses have one size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderAddress {
    ip: [u8; 16],
    port: u16,
}

impl SenderAddress {
    /// No address, as in a file of raw payloads.
    pub const NONE: SenderAddress = SenderAddress { ip: [0; 16], port: 0 };

    /// Returns the IP address; an IPv4-mapped one as IPv4.
    #[must_use]
    #[inline]
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.ip).to_canonical()
    }

    /// Returns the address with port 0, for sensors that are known by their address only.
    #[must_use]
    #[inline]
    pub fn without_port(self) -> SenderAddress {
        SenderAddress { port: 0, ..self }
    }

    /// Returns the port without an address, for sensors that are known by their port only.
    #[must_use]
    #[inline]
    pub fn without_ip(self) -> SenderAddress {
        SenderAddress { ip: [0; 16], ..self }
    }

    /// Returns the UDP port.
    #[must_use]
    #[inline]
    pub fn port(self) -> u16 {
        self.port
    }

    /// Returns the address as bytes: IPv6, then the port, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&self.ip);
        bytes[16..].copy_from_slice(&self.port.to_le_bytes());
        bytes
    }

    /// Returns the address of [`Self::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; 18]) -> SenderAddress {
        let mut ip = [0; 16];
        ip.copy_from_slice(&bytes[..16]);
        SenderAddress { ip, port: u16::from_le_bytes([bytes[16], bytes[17]]) }
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

/// One UDP payload, borrowed from the memory of its source (a slot of the slot ring, a file).
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
