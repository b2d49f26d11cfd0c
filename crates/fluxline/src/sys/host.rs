//! Calls about the host: cores of a thread, index of an interface, room in a file system, a path's
//! MTU.

#[cfg(not(loom))]
use std::ffi::CStr;
use std::ffi::CString;
use std::io;
#[cfg(not(loom))]
use std::net::IpAddr;
use std::net::Ipv4Addr;
#[cfg(not(loom))]
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

/// Gives the calling thread the lowest priority of ordinary threads.
pub(crate) fn lower_priority() -> io::Result<()> {
    const LOWEST: i32 = 19;
    // SAFETY: the call takes integers alone. Linux takes 0 as the calling thread, not its process.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Fills `into` with unpredictable random bytes.
#[cfg(not(loom))]
pub(crate) fn random(into: &mut [u8; 16]) -> io::Result<()> {
    // SAFETY: `into` is writable for its 16 bytes; a request this small is never answered in part.
    let got = unsafe { libc::getrandom(into.as_mut_ptr().cast(), into.len(), 0) };
    if got == into.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the local zone's distance from UTC \[s\] at a time \[s since 1970\]; 0: unknown.
#[cfg(not(loom))]
pub(crate) fn local_offset_s(at_s: i64) -> i64 {
    // SAFETY: tm is a C structure of integers and a pointer, for which all zeros are valid.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the time is readable and `local` writable for the call, which keeps neither.
    let done = unsafe { libc::localtime_r(&raw const at_s, &raw mut local) };
    if done.is_null() { 0 } else { local.tm_gmtoff }
}

/// Returns the kernel's state of the system clock.
#[cfg(not(loom))]
pub(crate) fn clock_state() -> Option<ClockState> {
    // SAFETY: timex is a C structure of integers, for which all zeros are valid; `modes` 0 reads.
    let mut answer: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `answer` is writable for its size.
    let state = unsafe { libc::adjtimex(&raw mut answer) };
    (state >= 0).then_some(ClockState {
        is_synchronized: answer.status & libc::STA_UNSYNC == 0,
        error_us_max: u64::try_from(answer.maxerror).unwrap_or(0),
        error_us: u64::try_from(answer.esterror).unwrap_or(0),
    })
}

/// Discipline of the system clock, as the program that sets it reports it to the kernel. Source:
/// Linux man-pages `adjtimex(2)`.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// True while a program (NTP, PTP) keeps the clock in time.
    pub is_synchronized: bool,
    /// The largest error that is possible \[us\].
    pub error_us_max: u64,
    /// The estimated error \[us\].
    pub error_us: u64,
}

/// Returns the index of the interface of that name, if it exists.
pub(crate) fn interface_index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` ends with a zero and lives through the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Returns the index of the interface with that IPv4 address, if it exists.
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

/// Returns true when this process acts as root.
#[cfg(not(loom))]
pub fn is_root() -> bool {
    // SAFETY: no pointers, never fails.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the free bytes of `path`'s file system that any user may use.
#[cfg(not(loom))]
pub fn free_bytes(path: &CStr) -> io::Result<u64> {
    // SAFETY: statvfs is a C structure of integers: all zeros are valid.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero; `answer` is writable for its size.
    match unsafe { libc::statvfs(path.as_ptr(), &raw mut answer) } {
        0 => Ok((answer.f_bavail as u64).saturating_mul(answer.f_frsize as u64)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the longest packet that reaches `peer` whole, as far as the kernel knows \[byte\];
/// `None` without a route. Nothing is sent.
#[cfg(not(loom))]
pub fn path_mtu(peer: IpAddr) -> Option<u32> {
    /// Any port, because nothing is sent. Source: RFC 863, discard.
    const PORT: u16 = 9;
    let (any, level, option) = match peer {
        IpAddr::V4(_) => (IpAddr::from([0; 4]), libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (IpAddr::from([0; 16]), libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    socket.connect((peer, PORT)).ok()?;
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let into = (&raw mut mtu).cast();
    // SAFETY: `mtu` is writable for `length` bytes, which is its size, and so is `length`.
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, into, &raw mut length) };
    (result == 0).then(|| u32::try_from(mtu).ok()).flatten()
}
