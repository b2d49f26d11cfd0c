//! The address that frames leave from, and their greatest length.

use std::net::{IpAddr, SocketAddr};

use crate::sys::interface::{self, InterfaceAddress};
use crate::sys::socket::Socket;

/// Peers whose source address is remembered.
const ROUTES_MAX: usize = 64;
/// MTU taken where none is known \[byte\]. Source: RFC 894, Ethernet.
const MTU_UNKNOWN: u32 = 1500;

/// Source addresses by peer, as the kernel's routes were when each was first asked for.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: Vec<(IpAddr, IpAddr)>,
    /// The index of the route that is replaced next.
    turn: usize,
}

impl Routes {
    /// The address that the kernel sends from to `peer`; `None`: no route.
    ///
    /// Cost: three system calls for a peer that is not remembered.
    pub(super) fn source(&mut self, peer: IpAddr) -> Option<IpAddr> {
        if let Some((_, source)) = self.known.iter().find(|(known, _)| *known == peer) {
            return Some(*source);
        }
        let probe = Socket::new(peer).ok()?;
        // Connecting a UDP socket sends nothing; any port except 0 works.
        probe.connect(SocketAddr::new(peer, 9)).ok()?;
        let source = probe.local_address().ok()?.ip();
        if self.known.len() < ROUTES_MAX {
            self.known.push((peer, source));
        } else {
            self.known[self.turn] = (peer, source);
            self.turn = (self.turn + 1) % ROUTES_MAX;
        }
        Some(source)
    }
}

/// The MTU of the interface that has this address \[byte\]; for the wildcard the smallest of those
/// that are up and lead out of the host.
pub(super) fn mtu(local: IpAddr) -> u32 {
    let all = interface::addresses().unwrap_or_default();
    let family = |entry: &&InterfaceAddress| entry.address.is_ipv4() == local.is_ipv4();
    let of = |wanted: &dyn Fn(&InterfaceAddress) -> bool| {
        let fitting = all.iter().filter(family).filter(|entry| wanted(entry));
        fitting.filter_map(|entry| interface::mtu(&entry.name)).min()
    };
    let found = if local.is_unspecified() {
        of(&|entry| entry.up && !entry.loopback).or_else(|| of(&|entry| entry.up))
    } else if local.is_loopback() {
        of(&|entry| entry.loopback) // all of 127.0.0.0/8, not only the listed one
    } else {
        of(&|entry| entry.address == local)
    };
    found.unwrap_or(MTU_UNKNOWN)
}

/// Returns the interface with this address, except loopback; `None` if there is none.
#[must_use]
pub fn interface_of(local: IpAddr) -> Option<String> {
    let all = interface::addresses().unwrap_or_default();
    all.into_iter().find(|entry| entry.address == local && !entry.loopback).map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_strangers_are_on_no_interface() {
        for address in ["127.0.0.1", "203.0.113.7", "::1"] {
            assert_eq!(interface_of(address.parse().unwrap()), None);
        }
    }

    #[test]
    fn routes_remember_no_more_than_their_limit_and_stay_right() {
        let mut routes = Routes::default();
        for round in 0..2 {
            for last in 1..=100 {
                let peer = IpAddr::from([127, 0, 0, last]);
                let source = routes.source(peer).unwrap();
                assert!(source.is_loopback(), "{source} to {peer} in round {round}");
                assert!(routes.known.len() <= ROUTES_MAX);
            }
        }
        assert_eq!(routes.source("127.0.0.7".parse().unwrap()).map(|ip| ip.is_ipv4()), Some(true));
    }

    #[test]
    fn loopback_and_its_neighbours_have_its_mtu() {
        let lo = interface::mtu("lo").unwrap();
        assert_eq!(mtu("127.0.0.1".parse().unwrap()), lo);
        assert_eq!(mtu("127.9.9.9".parse().unwrap()), lo);
        assert_eq!(mtu("203.0.113.7".parse().unwrap()), MTU_UNKNOWN);
        assert_eq!(interface::mtu("no-such-card"), None);
        assert_eq!(interface::mtu("a-name-longer-than-any-interface"), None);
    }
}
