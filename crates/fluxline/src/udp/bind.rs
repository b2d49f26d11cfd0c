//! Opening sockets: interfaces by name or address, groups, and errors in a sentence.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::sys::host;
use crate::sys::socket::{Flag, Socket};

/// A multicast group to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// The group's address.
    pub group: IpAddr,
    /// Name of an interface, or an address on it; without it the kernel chooses by its routes.
    pub interface: Option<String>,
}

/// The reason why a socket was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The configuration has no address to listen on.
    #[error("no address to listen on: write listen = [\"0.0.0.0:6006\"]")]
    NoAddress,
    /// The configuration has more addresses than one poll can wait for.
    #[error("{asked} addresses to listen on, at most {max}: use several receivers")]
    TooManyAddresses {
        /// The number that was asked for.
        asked: usize,
        /// The most that is possible.
        max: usize,
    },
    /// The number of threads is out of its range.
    #[error("{asked} threads at one address, and 1 to {max} are possible; write another number")]
    Threads {
        /// The number that was asked for.
        asked: usize,
        /// The most that is possible.
        max: usize,
    },
    /// Another program has the port.
    #[error(
        "{address} is in use by another program: find it with `ss -lunp 'sport = :{port}'` and \
         stop it, or listen on another port",
        port = address.port()
    )]
    PortInUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The configured address is not on any interface.
    #[error(
        "{address} is not an address of this machine: `ip address` shows those that are; \
         0.0.0.0 or [::] mean all"
    )]
    AddressNotHere {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The host denies permission.
    #[error(
        "no permission to use {address}: ports below 1024 need root or \
         `setcap cap_net_bind_service+ep` on the program; choose a higher one"
    )]
    NoPermission {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The configured interface does not exist.
    #[error("no interface with the name or address {interface}: `ip address` lists them")]
    NoSuchInterface {
        /// The interface that was asked for.
        interface: String,
    },
    /// The configured group is not a multicast address.
    #[error("{group} is not a multicast group: IPv4 groups are 224.0.0.0/4, IPv6 groups ff00::/8")]
    NotMulticast {
        /// The group that was asked for.
        group: IpAddr,
    },
    /// The configuration has no socket of the group's address family.
    #[error("group {group} needs a socket of its family: add {hint} to what is listened on")]
    NoSocketForGroup {
        /// The group that was asked for.
        group: IpAddr,
        /// An address to listen on.
        hint: &'static str,
    },
    /// The host refused to join the group.
    #[error("the host did not join group {group}: {source}; name an interface with multicast")]
    Join {
        /// The group that was asked for.
        group: IpAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Any other error of the host.
    #[error("the host refused to {action} for {address}: {source}")]
    System {
        /// The action that was tried.
        action: &'static str,
        /// The address of the socket.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Returns the error for a refusal without a sentence of its own.
pub(super) fn refused(
    action: &'static str,
    address: SocketAddr,
) -> impl FnOnce(io::Error) -> BindError {
    move |source| BindError::System { action, address, source }
}

/// Binds a socket; the error is a sentence.
pub(super) fn bind(socket: &Socket, address: SocketAddr) -> Result<(), BindError> {
    socket.bind(address).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortInUse { address },
        io::ErrorKind::AddrNotAvailable => BindError::AddressNotHere { address },
        io::ErrorKind::PermissionDenied => BindError::NoPermission { address },
        _ => BindError::System { action: "bind a socket", address, source },
    })
}

/// Joins the group on that socket.
pub(super) fn join(socket: &Socket, multicast: &Multicast) -> Result<(), BindError> {
    let group = multicast.group;
    if !group.is_multicast() {
        return Err(BindError::NotMulticast { group });
    }
    let interface = interface_index(multicast.interface.as_deref())?;
    let joined = match group {
        IpAddr::V4(group) => socket.join_v4(group, interface),
        IpAddr::V6(group) => socket.join_v6(group, interface),
    };
    joined.map_err(|source| BindError::Join { group, source })?;
    // Without this a socket bound to the wildcard also gets groups that other programs joined. Old
    // kernels refuse this for IPv6; then the readout rejects them by their source.
    let only_ours = match group {
        IpAddr::V4(_) => Flag::MulticastAllV4,
        IpAddr::V6(_) => Flag::MulticastAllV6,
    };
    let _ = socket.set(only_ours, 0);
    Ok(())
}

/// Returns the index of an interface given by name or by an address on it; 0 without an interface.
pub(super) fn interface_index(interface: Option<&str>) -> Result<u32, BindError> {
    let Some(interface) = interface else { return Ok(0) };
    let found = match interface.parse::<IpAddr>() {
        Ok(address) => index_of_address(address),
        Err(_) => host::interface_index(interface),
    };
    found.ok_or_else(|| BindError::NoSuchInterface { interface: interface.to_owned() })
}

fn index_of_address(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(address) => host::index_of_address_v4(address),
        IpAddr::V6(address) => {
            index_in_if_inet6(&std::fs::read_to_string("/proc/net/if_inet6").ok()?, address)
        }
    }
}

/// Finds the index of an address in the text of /proc/net/if_inet6 (both hexadecimal).
fn index_in_if_inet6(text: &str, address: Ipv6Addr) -> Option<u32> {
    let wanted = format!("{:032x}", u128::from(address));
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let matches = words.next()? == wanted;
        let index = u32::from_str_radix(words.next()?, 16).ok()?;
        matches.then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_by_name_and_by_address() {
        let loopback = interface_index(Some("lo")).unwrap();
        assert_eq!(interface_index(Some("127.0.0.1")).unwrap(), loopback);
        assert_eq!(interface_index(None).unwrap(), 0);
        for unknown in ["no-such-card", "203.0.113.7", "2001:db8::7", "a\0b"] {
            let error = interface_index(Some(unknown)).unwrap_err();
            assert!(error.to_string().contains(unknown), "{error}");
        }
    }

    #[test]
    fn if_inet6_is_read_with_its_hexadecimal_index() {
        let text = "fe8000000000000000fc00fffe000001 1f 40 20 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\nbroken\n";
        assert_eq!(index_in_if_inet6(text, "fe80::fc:ff:fe00:1".parse().unwrap()), Some(31));
        assert_eq!(index_in_if_inet6(text, Ipv6Addr::LOCALHOST), Some(1));
        assert_eq!(index_in_if_inet6(text, Ipv6Addr::UNSPECIFIED), None);
    }
}
