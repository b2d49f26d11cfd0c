//! The configuration of a port, and the errors of opening it.

use std::io;
use std::net::IpAddr;

/// The configuration of a port. `XdpConfig::new("eth0")` is a good start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// The interface's name.
    pub interface: String,
    /// Its receive queues to use; frames of the others go to the kernel.
    pub queues: Queues,
    /// The UDP port: datagrams to it are taken from the kernel, and frames are sent from it.
    pub port: u16,
    /// Addresses of the interface to use; empty: all except link-local IPv6. Addresses added later
    /// do not count.
    pub addresses: Vec<IpAddr>,
    /// The place in the kernel where frames are picked.
    pub mode: Mode,
    /// Use of our memory by the device itself.
    pub zero_copy: ZeroCopy,
    /// Size of one buffer, 2048 or 4096 \[byte\], of which 256 are the kernel's; a longer frame
    /// takes several. `None`: 2048 if a frame fits, else 4096.
    pub buffer_bytes: Option<usize>,
    /// Buffers to receive into, of each queue; a power of two.
    pub receive_buffers: u32,
    /// Frames that can wait to be sent; a power of two.
    pub send_frames: u32,
    /// Checksums of the UDP datagrams that we send over IPv4; over IPv6 they are always sent.
    pub send_checksums: SendChecksums,
    /// The treatment of datagrams whose UDP checksum the sender has not finished.
    pub unfinished_checksums: UnfinishedChecksums,
    /// Sent frames are marked as able to react to congestion (ECT(0), RFC 3168).
    pub congestion_marks: bool,
    /// Time for which receiving polls the device instead of waiting for interrupts \[us\]; 0: no
    /// polling.
    pub busy_poll_us: u32,
}

impl XdpConfig {
    /// Returns the defaults: queue 0 of that interface and UDP port 4791, in the best mode that it
    /// has.
    #[must_use]
    pub fn new(interface: &str) -> XdpConfig {
        XdpConfig {
            interface: interface.to_owned(),
            queues: Queues::One(0),
            port: 4791,
            addresses: Vec::new(),
            mode: Mode::Best,
            zero_copy: ZeroCopy::WherePossible,
            buffer_bytes: None,
            receive_buffers: 4096,
            send_frames: 1024,
            send_checksums: SendChecksums::Compute,
            unfinished_checksums: UnfinishedChecksums::Accept,
            congestion_marks: true,
            busy_poll_us: 0,
        }
    }
}

/// Receive queues of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// The queue with that number.
    One(u32),
    /// All queues in use, with a socket each; the first one sends.
    All,
}

/// The place in the kernel where frames are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel processes frames: fast, but not supported by all drivers.
    Driver,
    /// Behind the driver: works on any interface, slightly faster than a socket.
    Generic,
    /// In the driver if possible, otherwise behind it.
    Best,
}

/// Use of our memory by the device itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Used if the driver can; otherwise the kernel copies.
    WherePossible,
    /// The kernel copies.
    Never,
}

/// Checksums of the UDP datagrams that we send over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendChecksums {
    /// Computed: the receiving kernel joins datagrams (GRO) only if they have one.
    Compute,
    /// Not computed; saves reading each byte once.
    Omit,
}

/// The treatment of UDP checksums that are only the sum over the pseudo header.
///
/// A kernel leaves them for the card to finish. Frames from the same host that pass no card arrive
/// with them. One in 65 536 damaged frames looks like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedChecksums {
    /// Accept them: for virtual links (veth, bridges, containers).
    Accept,
    /// Drop them as damaged: for links with a cable.
    Refuse,
}

/// The features that the interface granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The place where frames are picked: [`Mode::Driver`] or [`Mode::Generic`].
    pub mode: Mode,
    /// The device uses our memory itself, in all queues.
    pub zero_copy: bool,
    /// Frames longer than a buffer come in several.
    pub multi_buffer: bool,
    /// Queues that are open.
    pub queues: u32,
    /// Size of one buffer \[byte\].
    pub buffer_bytes: usize,
}

/// The reason why the interface was not opened. A UDP socket does the same, without these
/// requirements but slower.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The configured interface does not exist.
    #[error("no interface {interface}: `ip link` lists them")]
    NoSuchInterface {
        /// The interface that was asked for.
        interface: String,
    },
    /// The configured interface is not an Ethernet interface.
    #[error("{interface} is not an Ethernet interface: use a UDP socket on it")]
    NotEthernet {
        /// The interface that was asked for.
        interface: String,
    },
    /// The interface is down.
    #[error("{interface} is down: `ip link set {interface} up`")]
    Down {
        /// The interface that was asked for.
        interface: String,
    },
    /// The interface has no address, or not the configured one.
    #[error("{interface} has no address {wanted}: `ip address` shows those it has")]
    NoAddress {
        /// The interface that was asked for.
        interface: String,
        /// The configured address, or the kind of the missing address.
        wanted: String,
    },
    /// A number of the configuration is out of its range.
    #[error("{key} = {value}: it must be {range}")]
    OutOfRange {
        /// The field of [`XdpConfig`].
        key: &'static str,
        /// The value that was asked for.
        value: usize,
        /// The possible values.
        range: &'static str,
    },
    /// The host denies permission.
    #[error(
        "no permission to {action}: run as root, or `setcap \
         cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep` on the program; \
         a UDP socket needs none of these"
    )]
    NoPermission {
        /// The action that was tried.
        action: &'static str,
    },
    /// The host does not allow that much locked memory.
    #[error(
        "the buffers need {bytes} bytes of locked memory: raise `ulimit -l`, give the program \
         cap_ipc_lock, or ask for fewer buffers"
    )]
    LockedMemory {
        /// Bytes that are needed.
        bytes: usize,
    },
    /// The kernel lacks this feature.
    #[error("this kernel cannot {action} ({source}): Linux 5.9 with CONFIG_XDP_SOCKETS can")]
    Kernel {
        /// The action that was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Another program has the interface or the queue.
    #[error("another program has {what}: stop it (`ip -details link` shows XDP programs)")]
    Busy {
        /// The interface or queue.
        what: String,
    },
    /// The configured queue does not exist.
    #[error("{interface} has no receive queue {queue}: `ethtool -l {interface}` shows how many")]
    NoSuchQueue {
        /// The interface that was asked for.
        interface: String,
        /// The queue that was asked for.
        queue: u32,
    },
    /// The driver does not support the configuration.
    #[error(
        "{interface} cannot do XDP in {mode:?} mode at MTU {mtu} ({source}): lower the MTU to \
         3498, take another mode, or a UDP socket"
    )]
    Unsupported {
        /// The interface that was asked for.
        interface: String,
        /// The mode that was asked for.
        mode: Mode,
        /// The MTU of the interface.
        mtu: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Any other error of the host.
    #[error("the host refused to {action} on {interface}: {source}")]
    System {
        /// The action that was tried.
        action: &'static str,
        /// The interface that was asked for.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
}
