//! The host's interfaces: their addresses, their MTU.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;

use super::socket::Socket;

/// An address of an interface.
#[derive(Clone, Debug)]
pub struct InterfaceAddress {
    /// The interface's name.
    pub name: String,
    /// One of its addresses.
    pub address: IpAddr,
    /// The interface is a loopback.
    pub loopback: bool,
    /// The interface is up.
    pub up: bool,
}

/// All addresses of all interfaces; one interface comes once per address.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is writable; on success it heads a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut entry = first;
    while !entry.is_null() {
        // SAFETY: `entry` is a node of the list, which lives until freeifaddrs.
        let node = unsafe { &*entry };
        if let Some(address) = address_of(node) {
            // SAFETY: a node's name is a string that lives as long as the list.
            let name = unsafe { CStr::from_ptr(node.ifa_name) }.to_string_lossy().into_owned();
            let has = |flag: libc::c_int| node.ifa_flags & flag as u32 != 0;
            let (loopback, up) = (has(libc::IFF_LOOPBACK), has(libc::IFF_UP));
            found.push(InterfaceAddress { name, address, loopback, up });
        }
        entry = node.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

fn address_of(node: &libc::ifaddrs) -> Option<IpAddr> {
    if node.ifa_addr.is_null() {
        return None;
    }
    // SAFETY: a socket address begins with its family.
    let family = i32::from(unsafe { (*node.ifa_addr).sa_family });
    if family == libc::AF_INET {
        // SAFETY: of family AF_INET it is a sockaddr_in; read without assuming alignment.
        let own = unsafe { node.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
        Some(Ipv4Addr::from(own.sin_addr.s_addr.to_ne_bytes()).into())
    } else if family == libc::AF_INET6 {
        // SAFETY: of family AF_INET6 it is a sockaddr_in6; read without assuming alignment.
        let own = unsafe { node.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
        Some(Ipv6Addr::from(own.sin6_addr.s6_addr).into())
    } else {
        None
    }
}

/// Returns the MTU of the interface of that name \[byte\], if it exists.
pub fn mtu(name: &str) -> Option<u32> {
    let socket = Socket::new(Ipv4Addr::UNSPECIFIED.into()).ok()?;
    // SAFETY: ifreq is a C structure of integers, bytes and pointers: all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte fewer, so that the name ends with a zero.
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let fd = socket.descriptor.as_raw_fd();
    // SAFETY: the request names an interface and lives through the call; the kernel writes its MTU.
    let result = unsafe { libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request) };
    // SAFETY: on success the kernel has written this member of the union; otherwise it is zero.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    (result == 0).then(|| u32::try_from(mtu).ok()).flatten()
}
