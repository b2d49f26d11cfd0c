//! Calls about the host: cores of a thread, index of an interface, sizes of a NIC's rings.

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;

/// The cores that the calling thread may run on.
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is an array of integers, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for the size given; 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let cores = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: CPU_ISSET only reads the set; the core is below CPU_SETSIZE.
    Ok(cores.filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect())
}

/// Allows the calling thread the one core.
pub(crate) fn pin_to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: cpu_set_t is an array of integers, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the core is below CPU_SETSIZE (checked above).
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` is readable for the size given; 0 is the calling thread.
    let result =
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fills with random bytes that nobody can guess.
#[cfg(not(loom))]
pub(crate) fn random(into: &mut [u8; 16]) -> io::Result<()> {
    // SAFETY: `into` is writable for its 16 bytes; so few come at once or not at all.
    let got = unsafe { libc::getrandom(into.as_mut_ptr().cast(), into.len(), 0) };
    if got == into.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Index of the interface of that name; `None` when there is none.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` ends with a zero and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Index of the interface that has that IPv4 address; `None` when none has.
pub(crate) fn index_of_address_v4(address: Ipv4Addr) -> Option<u32> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is writable; on success it heads a list that is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut found = None;
    let mut entry = first;
    while !entry.is_null() {
        // SAFETY: `entry` is a node of the list, which lives until freeifaddrs.
        let node = unsafe { &*entry };
        if !node.ifa_addr.is_null() {
            // SAFETY: a socket address begins with its family.
            let family = i32::from(unsafe { (*node.ifa_addr).sa_family });
            if family == libc::AF_INET {
                // SAFETY: of family AF_INET it is a sockaddr_in; read without assuming alignment.
                let own = unsafe { node.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
                if own.sin_addr.s_addr.to_ne_bytes() == address.octets() {
                    // SAFETY: a node's name is a string that lives as long as the list.
                    found = Some(unsafe { libc::if_nametoindex(node.ifa_name) });
                }
            }
        }
        entry = node.ifa_next;
    }
    // SAFETY: the list came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(first) };
    found.filter(|&index| index != 0)
}

/// `SIOCETHTOOL`. Source: <linux/sockios.h>.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// `ETHTOOL_GRINGPARAM`. Source: <linux/ethtool.h>.
const ETHTOOL_GRINGPARAM: u32 = 0x10;
/// Words of `struct ethtool_ringparam`: command, four maxima (rx first), four values (rx first).
const RING_WORDS: usize = 9;

/// Receive descriptors of an interface, in use and possible; `None` when the driver does not say.
pub(crate) fn receive_ring(interface: &str) -> Option<(u32, u32)> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").ok()?;
    let mut words = [0_u32; RING_WORDS];
    words[0] = ETHTOOL_GRINGPARAM;
    // SAFETY: ifreq is a C structure of integers, bytes and pointers: all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte fewer, so that the name ends with a zero.
    let room = request.ifr_name.len() - 1;
    if interface.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names an interface, and its data is `struct ethtool_ringparam`, writable
    // and alive through the call; the kernel writes no more than that structure.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    (result == 0 && words[1] > 0).then_some((words[5], words[1]))
}
