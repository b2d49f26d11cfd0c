//! UDP sockets with features that std lacks: batches, trains, time stamps, drop counters.
//!
//! Addresses and ancillary data are parsed as bytes, in safe code; only the calls are unsafe.
//! Source: Linux man-pages socket(7), ip(7), ipv6(7), udp(7), cmsg(3), recvmmsg(2), sendmmsg(2).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use fluxline_core::{Moment, SenderAddress};
use libc::{c_int, c_void};

/// Messages of one system call. Source: peers measured 40 to 370 per call; 64 of them amortise it.
pub(crate) const BATCH_MESSAGES: usize = 64;
/// `struct sockaddr_in6` \[byte\], the longest address here. Source: <linux/in6.h>.
pub(super) const ADDRESS_BYTES: usize = 28;
/// Room for the ancillary data of one message \[byte\]: time stamp 32, drops 24, segment size 24,
/// traffic class 24, destination 40.
const CONTROL_BYTES: usize = 144;
/// `struct cmsghdr` \[byte\] on 64-bit Linux: a length of 8, level and type of 4 each.
pub(super) const CONTROL_HEAD_BYTES: usize = 16;
const _: () = assert!(size_of::<libc::cmsghdr>() == CONTROL_HEAD_BYTES);
/// `SO_MEMINFO` yields nine u32, the last of them the drops. Source: <linux/sock_diag.h>.
const MEMINFO_WORDS: usize = 9;
/// Most datagrams of one train. Source: UDP_MAX_SEGMENTS of <linux/udp.h> before 6.10.
pub(crate) const SEGMENTS_MAX: usize = 64;

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) descriptor: OwnedFd,
}

/// A step of a classic BPF program, as `struct sock_filter` of <linux/filter.h>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct FilterStep {
    pub(crate) operation: u16,
    /// Steps to skip after a comparison that is true, or false.
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) operand: u32,
}
const _: () = assert!(size_of::<FilterStep>() == size_of::<libc::sock_filter>());

/// Source: include/uapi/linux/udp.h; `libc` has it for Android only.
const UDP_NO_CHECK6_RX: c_int = 102;

/// An integer option, by name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flag {
    ReuseAddress,
    ReusePort,
    V6Only,
    Gro,
    Timestamps,
    DropCounter,
    BusyPollMicroseconds,
    MulticastAllV4,
    MulticastAllV6,
    MulticastHopsV4,
    MulticastHopsV6,
    MulticastInterfaceV6,
    ReceiveBuffer,
    ReceiveBufferForce,
    SendBuffer,
    SendBufferForce,
    DiscoverMtuV4,
    DiscoverMtuV6,
    TrafficClassV4,
    TrafficClassV6,
    ReportTrafficClassV4,
    ReportTrafficClassV6,
    ReportDestinationV4,
    ReportDestinationV6,
    ReceiveWithoutChecksumV6,
    #[cfg(test)]
    NoChecksum,
}

impl Flag {
    fn number(self) -> (c_int, c_int) {
        match self {
            Flag::ReuseAddress => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            Flag::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
            Flag::V6Only => (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
            Flag::Gro => (libc::SOL_UDP, libc::UDP_GRO),
            Flag::Timestamps => (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
            Flag::DropCounter => (libc::SOL_SOCKET, libc::SO_RXQ_OVFL),
            Flag::BusyPollMicroseconds => (libc::SOL_SOCKET, libc::SO_BUSY_POLL),
            Flag::MulticastAllV4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
            Flag::MulticastAllV6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL),
            Flag::MulticastHopsV4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL),
            Flag::MulticastHopsV6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS),
            Flag::MulticastInterfaceV6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF),
            Flag::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
            Flag::ReceiveBufferForce => (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE),
            Flag::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
            Flag::SendBufferForce => (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE),
            Flag::DiscoverMtuV4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            Flag::DiscoverMtuV6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            Flag::TrafficClassV4 => (libc::IPPROTO_IP, libc::IP_TOS),
            Flag::TrafficClassV6 => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            Flag::ReportTrafficClassV4 => (libc::IPPROTO_IP, libc::IP_RECVTOS),
            Flag::ReportTrafficClassV6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
            Flag::ReportDestinationV4 => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            Flag::ReportDestinationV6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            Flag::ReceiveWithoutChecksumV6 => (libc::SOL_UDP, UDP_NO_CHECK6_RX),
            #[cfg(test)]
            Flag::NoChecksum => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        }
    }
}

/// Meta data of one received message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Bytes of the message as sent; more than the buffer holds when it was cut \[byte\].
    pub(crate) sent_bytes: usize,
    /// Datagram size of a train \[byte\]; 0 for a single datagram.
    pub(crate) segment_bytes: u32,
    pub(crate) sender: SenderAddress,
    /// The kernel's receive time stamp.
    pub(crate) time: Option<Moment>,
    /// Messages that the socket has dropped since it was opened, modulo 2^32.
    pub(crate) drops: Option<u32>,
    /// The address that it was sent to, and the index of the interface that it came through.
    pub(crate) destination: Option<(IpAddr, u32)>,
    /// The traffic class of its IP header, with the two bits of ECN (RFC 3168) lowest.
    pub(crate) traffic_class: u8,
}

impl Message {
    /// A message without any meta data.
    pub(super) const EMPTY: Message = Message {
        sent_bytes: 0,
        segment_bytes: 0,
        sender: SenderAddress::NONE,
        time: None,
        drops: None,
        destination: None,
        traffic_class: 0,
    };
}

/// Room for addresses and ancillary data of one call, reused.
pub(crate) struct Arena {
    addresses: Box<[[u8; ADDRESS_BYTES]; BATCH_MESSAGES]>,
    controls: Box<[Control; BATCH_MESSAGES]>,
    lens: Box<[Lengths; BATCH_MESSAGES]>,
}

#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy, Default)]
struct Lengths {
    message: usize,
    address: usize,
    control: usize,
}

impl Arena {
    pub(crate) fn new() -> Arena {
        Arena {
            addresses: Box::new([[0; ADDRESS_BYTES]; BATCH_MESSAGES]),
            controls: Box::new([Control([0; CONTROL_BYTES]); BATCH_MESSAGES]),
            lens: Box::new([Lengths::default(); BATCH_MESSAGES]),
        }
    }

    /// Returns the meta data of message `index` of the last call.
    pub(crate) fn message(&self, index: usize) -> Message {
        let lens = self.lens[index];
        let mut message = Message {
            sent_bytes: lens.message,
            sender: self.sender(index).map_or(SenderAddress::NONE, SenderAddress::from),
            ..Message::EMPTY
        };
        parse_control(&self.controls[index].0[..lens.control.min(CONTROL_BYTES)], &mut message);
        message
    }

    /// The sender of message `index` of the last call, with the scope of a link-local address.
    pub(crate) fn sender(&self, index: usize) -> Option<SocketAddr> {
        parse_address(&self.addresses[index][..self.lens[index].address.min(ADDRESS_BYTES)])
    }
}

impl Socket {
    /// Returns the descriptor's number, for programs that wait for several.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// A UDP socket of the family of `address`, closed on exec.
    pub(crate) fn new(address: IpAddr) -> io::Result<Socket> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Socket { descriptor: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Returns a further descriptor of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<Socket> {
        Ok(Socket { descriptor: self.descriptor.try_clone()? })
    }

    /// Lets a program choose the socket of each datagram, among all that share this one's port.
    pub(crate) fn choose_by(&self, program: &[FilterStep]) -> io::Result<()> {
        let fd = self.descriptor.as_raw_fd();
        let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
        // SAFETY: `program` points to `len` steps with the layout of `sock_filter`, which live
        // until the call returns; the kernel copies them.
        let result = unsafe {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
            let bytes = size_of::<libc::sock_fprog>() as u32;
            libc::setsockopt(fd, level, name, (&raw const program).cast(), bytes)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(super) fn set_bytes(&self, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: `value` is readable for its length, which is far below 2^32; the kernel copies.
        let result =
            unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as u32) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Fills `value` from an option; returns the bytes that the kernel wrote.
    fn fetch_bytes(&self, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<usize> {
        let mut len = value.len() as u32;
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: `value` is writable for `len` bytes, and the kernel writes no more than that.
        let result =
            unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
        if result == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn set(&self, flag: Flag, value: i32) -> io::Result<()> {
        let (level, name) = flag.number();
        self.set_bytes(level, name, &value.to_ne_bytes())
    }

    pub(crate) fn fetch(&self, flag: Flag) -> io::Result<i32> {
        let (level, name) = flag.number();
        let mut value = [0; 4];
        self.fetch_bytes(level, name, &mut value)?;
        Ok(i32::from_ne_bytes(value))
    }

    /// Messages dropped at this socket since it was opened, modulo 2^32.
    pub(crate) fn drops(&self) -> io::Result<u32> {
        let mut value = [0; MEMINFO_WORDS * 4];
        let len = self.fetch_bytes(libc::SOL_SOCKET, libc::SO_MEMINFO, &mut value)?;
        if len < value.len() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(u32_at(&value, (MEMINFO_WORDS - 1) * 4))
    }

    /// Returns the bytes in the receive buffer, as the kernel accounts them.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> u32 {
        let mut value = [0; MEMINFO_WORDS * 4];
        let _ = self.fetch_bytes(libc::SOL_SOCKET, libc::SO_MEMINFO, &mut value);
        u32_at(&value, 0)
    }

    /// Joins an IPv4 group at an interface index (0: the kernel chooses by route).
    pub(crate) fn join_v4(&self, group: Ipv4Addr, interface: u32) -> io::Result<()> {
        // struct ip_mreqn: group, local address, index.
        let mut request = [0; 12];
        request[..4].copy_from_slice(&group.octets());
        request[8..].copy_from_slice(&interface.to_ne_bytes());
        self.set_bytes(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
    }

    /// Joins an IPv6 group at an interface index (0: the kernel chooses by route).
    pub(crate) fn join_v6(&self, group: Ipv6Addr, interface: u32) -> io::Result<()> {
        // struct ipv6_mreq: group, index.
        let mut request = [0; 20];
        request[..16].copy_from_slice(&group.octets());
        request[16..].copy_from_slice(&interface.to_ne_bytes());
        self.set_bytes(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
    }

    /// Sends IPv4 multicast through an interface index.
    pub(crate) fn multicast_interface_v4(&self, interface: u32) -> io::Result<()> {
        let mut request = [0; 12];
        request[8..].copy_from_slice(&interface.to_ne_bytes());
        self.set_bytes(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let (bytes, len) = emit_address(address);
        // SAFETY: `bytes` holds a socket address of `len` bytes; the kernel copies it.
        let result = unsafe { libc::bind(self.descriptor.as_raw_fd(), bytes.as_ptr().cast(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let (bytes, len) = emit_address(address);
        // SAFETY: `bytes` holds a socket address of `len` bytes; the kernel copies it.
        let result =
            unsafe { libc::connect(self.descriptor.as_raw_fd(), bytes.as_ptr().cast(), len) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let mut bytes = [0; ADDRESS_BYTES];
        let mut len = ADDRESS_BYTES as u32;
        // SAFETY: `bytes` is writable for `len` bytes, and the kernel writes no more than that.
        let result = unsafe {
            let fd = self.descriptor.as_raw_fd();
            libc::getsockname(fd, bytes.as_mut_ptr().cast(), &raw mut len)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        parse_address(&bytes[..(len as usize).min(ADDRESS_BYTES)])
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Receives into `buffers`, one message each, without waiting.
    ///
    /// At most [`BATCH_MESSAGES`]; returns their number; the arena then has the details of each.
    pub(crate) fn receive<'a>(
        &self,
        arena: &mut Arena,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<usize> {
        let mut vectors = [const { EMPTY_VECTOR }; BATCH_MESSAGES];
        let mut headers = empty_headers::<BATCH_MESSAGES>();
        let mut count = 0;
        for (index, buffer) in buffers.take(BATCH_MESSAGES).enumerate() {
            vectors[index].iov_base = buffer.as_mut_ptr().cast();
            vectors[index].iov_len = buffer.len();
            let header = &mut headers[index].msg_hdr;
            header.msg_name = arena.addresses[index].as_mut_ptr().cast();
            header.msg_namelen = ADDRESS_BYTES as u32;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = arena.controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            count = index + 1;
        }
        // MSG_TRUNC as an input: the length reported is that of the message, not of the buffer.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the first `count` headers point to addresses, control room and vectors that live
        // until the end of this function, and to buffers that the iterator's items borrow mutably
        // for 'a; each length is that of the array it belongs to.
        let received = unsafe {
            let first = headers.as_mut_ptr();
            libc::recvmmsg(fd, first, count as u32, flags as _, std::ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (lens, header) in arena.lens.iter_mut().zip(&headers).take(received) {
            *lens = Lengths {
                message: header.msg_len as usize,
                address: header.msg_hdr.msg_namelen as usize,
                control: header.msg_hdr.msg_controllen,
            };
        }
        Ok(received)
    }

    /// Receives one message as message `index` of the arena, without waiting: cheaper than
    /// [`Socket::receive`] where a single message is likely, or none.
    pub(crate) fn receive_one(
        &self,
        arena: &mut Arena,
        index: usize,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut vector =
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let [mut header] = empty_headers::<1>().map(|message| message.msg_hdr);
        header.msg_name = arena.addresses[index].as_mut_ptr().cast();
        header.msg_namelen = ADDRESS_BYTES as u32;
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = arena.controls[index].0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES;
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the header points to an address, control room and a vector that live until the
        // end of this function, and to the buffer, each with its own length.
        let received = unsafe { libc::recvmsg(fd, &raw mut header, flags) };
        let message = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let (address, control) = (header.msg_namelen as usize, header.msg_controllen);
        arena.lens[index] = Lengths { message, address, control };
        Ok(())
    }

    /// Sends messages without waiting: message `i` is the `i`-th slice of datagrams, as a train
    /// when it has more than one. Returns how many messages the kernel took, at least one.
    pub(crate) fn send(
        &self,
        messages: &[&[&[u8]]],
        destination: Option<SocketAddr>,
    ) -> io::Result<usize> {
        let mut headers = empty_headers::<BATCH_MESSAGES>();
        let mut controls = [Control([0; CONTROL_BYTES]); BATCH_MESSAGES];
        let address = destination.map(emit_address);
        let count = messages.len().min(BATCH_MESSAGES);
        let parts: usize = messages[..count].iter().map(|datagrams| datagrams.len()).sum();
        let mut vectors: Vec<libc::iovec> = Vec::with_capacity(parts);
        for datagram in messages[..count].iter().flat_map(|datagrams| datagrams.iter()) {
            let base = datagram.as_ptr().cast_mut().cast::<c_void>();
            vectors.push(libc::iovec { iov_base: base, iov_len: datagram.len() });
        }
        let mut next = 0;
        for (index, datagrams) in messages[..count].iter().enumerate() {
            let header = &mut headers[index].msg_hdr;
            let own = &mut vectors[next..next + datagrams.len()];
            header.msg_iov = own.as_mut_ptr();
            header.msg_iovlen = own.len();
            next += datagrams.len();
            if let Some((bytes, len)) = &address {
                header.msg_name = bytes.as_ptr().cast_mut().cast();
                header.msg_namelen = *len;
            }
            if let [first, _, ..] = datagrams {
                let control = &mut controls[index].0;
                header.msg_controllen = emit_segment_size(control, first.len());
                header.msg_control = control.as_mut_ptr().cast();
            }
        }
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the first `count` headers point to vectors, control bytes and an address that
        // live until the end of this function, and to datagrams that the caller lends for the call;
        // the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(fd, headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// The event to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    Readable,
    Writable,
}

/// Sleeps until one of the sockets is ready or the time has passed; returns `true` if one is ready.
///
/// An interruption by a signal counts as time passed, so that the caller can check its flags.
pub(crate) fn wait(sockets: &[&Socket], until: Until, timeout: Duration) -> io::Result<bool> {
    let events = match until {
        Until::Readable => libc::POLLIN,
        Until::Writable => libc::POLLOUT,
    };
    let entry =
        |socket: &&Socket| libc::pollfd { fd: socket.descriptor.as_raw_fd(), events, revents: 0 };
    let mut entries: Vec<libc::pollfd> = sockets.iter().map(entry).collect();
    let time = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: `entries` is writable for its length; `time` is readable; no signal mask.
    let ready = unsafe {
        let count = entries.len() as libc::nfds_t;
        libc::ppoll(entries.as_mut_ptr(), count, &raw const time, std::ptr::null())
    };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        error => Err(error),
    }
}

pub(super) const EMPTY_VECTOR: libc::iovec =
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

pub(super) fn empty_headers<const MESSAGES: usize>() -> [libc::mmsghdr; MESSAGES] {
    // SAFETY: mmsghdr is a C structure of integers and pointers, for which all zeros are valid.
    unsafe { std::mem::zeroed() }
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..offset + 4)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

fn i64_at(bytes: &[u8], offset: usize) -> i64 {
    bytes
        .get(offset..offset + 8)
        .and_then(|word| word.try_into().ok())
        .map_or(0, i64::from_ne_bytes)
}

/// A `struct sockaddr_in` or `sockaddr_in6` as bytes, and its length \[byte\].
pub(super) fn emit_address(address: SocketAddr) -> ([u8; ADDRESS_BYTES], u32) {
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            (bytes, 16)
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            (bytes, 28)
        }
    }
}

/// The inverse of `emit_address`; `None` for another family or too few bytes.
pub(super) fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    if family == libc::AF_INET {
        let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
        Some(SocketAddrV4::new(octets.into(), port).into())
    } else if family == libc::AF_INET6 {
        let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let scope = u32_at(bytes, 24);
        Some(SocketAddrV6::new(octets.into(), port, u32_at(bytes, 4), scope).into())
    } else {
        None
    }
}

/// Reads the entries of a control buffer; skips unknown entries, and stops at a broken one.
pub(super) fn parse_control(mut bytes: &[u8], message: &mut Message) {
    while bytes.len() >= CONTROL_HEAD_BYTES {
        let len = usize::try_from(i64_at(bytes, 0)).unwrap_or(0);
        if len < CONTROL_HEAD_BYTES || len > bytes.len() {
            return;
        }
        let (level, kind) = (u32_at(bytes, 8) as c_int, u32_at(bytes, 12) as c_int);
        let data = &bytes[CONTROL_HEAD_BYTES..len];
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if data.len() >= 16 => {
                let seconds = u64::try_from(i64_at(data, 0)).unwrap_or(0);
                let ns = u64::try_from(i64_at(data, 8)).unwrap_or(0);
                let ns = seconds.saturating_mul(1_000_000_000).saturating_add(ns);
                message.time = Some(Moment::from_ns(ns));
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if data.len() >= 4 => {
                message.drops = Some(u32_at(data, 0));
            }
            (libc::SOL_UDP, libc::UDP_GRO) if data.len() >= 4 => {
                message.segment_bytes = u32_at(data, 0);
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // One byte for IPv4, an int for IPv6.
                let wide = (data.len() >= 4).then(|| u32_at(data, 0) as u8);
                message.traffic_class = wide.or(data.first().copied()).unwrap_or(0);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if data.len() >= 12 => {
                // struct in_pktinfo: index, local address, destination of the header.
                let octets = [data[8], data[9], data[10], data[11]];
                message.destination = Some((Ipv4Addr::from(octets).into(), u32_at(data, 0)));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if data.len() >= 20 => {
                // struct in6_pktinfo: address, index.
                let octets: [u8; 16] = data[..16].try_into().unwrap_or_default();
                message.destination = Some((Ipv6Addr::from(octets).into(), u32_at(data, 16)));
            }
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(8)..).unwrap_or(&[]);
    }
}

/// Writes a UDP_SEGMENT entry; returns the control length \[byte\].
///
/// `control` has room for at least 24 bytes.
pub(super) fn emit_segment_size(control: &mut [u8], segment_bytes: usize) -> usize {
    let segment = u16::try_from(segment_bytes).unwrap_or(u16::MAX);
    control[..8].copy_from_slice(&(CONTROL_HEAD_BYTES + 2).to_ne_bytes());
    control[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control[16..18].copy_from_slice(&segment.to_ne_bytes());
    24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_survives_emit_and_parse() {
        for text in ["10.1.2.3:4791", "[fe80::1%3]:65535", "[::ffff:1.2.3.4]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let (bytes, len) = emit_address(address);
            assert_eq!(parse_address(&bytes[..len as usize]), Some(address));
            for short in 0..8 {
                assert_eq!(parse_address(&bytes[..short]), None);
            }
        }
    }

    #[test]
    fn control_of_any_bytes_never_panics_and_never_loops() {
        let mut state = 0x5EED_u64;
        for round in 0..20_000 {
            let mut bytes = [0; CONTROL_BYTES];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8 & if round % 2 == 0 { 0x1f } else { 0xff };
            }
            bytes[1..8].fill(0);
            let mut message = Message::EMPTY;
            parse_control(&bytes[..round % (CONTROL_BYTES + 1)], &mut message);
        }
    }
}
