//! Opens an interface with the best features that it grants.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{Granted, Mode, Queues, XdpConfig, XdpError, ZeroCopy};
use super::frame;
use super::netlink::{Interface, Netlink};
use super::steer;
use crate::sys::xdp::{Binding, HEADROOM_BYTES, Layout, Refusal, Step, Xdp};
use crate::sys::{bpf, host};

/// `ARPHRD_ETHER` of <linux/if_arp.h>.
const ETHERNET: u16 = 1;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` of <linux/if_link.h>.
const GENERIC_MODE: u32 = 1 << 1;
const DRIVER_MODE: u32 = 1 << 2;
/// Most queues of one interface.
const QUEUES_MAX: u32 = 64;
/// Most buffers and frames of a queue: a ring's entries are counted in 32 bits, and its memory is
/// locked.
const COUNT_MAX: u32 = 1 << 16;

/// Time for which a queue may stay busy after its socket was closed. Measured: about 20 ms.
const QUEUE_PATIENCE: Duration = Duration::from_millis(500);

/// The parts of an open interface.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) index: u32,
    pub(super) interface: Interface,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) granted: Granted,
    pub(super) layout: Layout,
    pub(super) queues: Vec<Xdp>,
    /// The link of the program to the interface; closing it detaches the program.
    pub(super) link: Arc<OwnedFd>,
}

/// Everything that the steps of opening share.
struct Opening<'a> {
    config: &'a XdpConfig,
    index: u32,
    interface: Interface,
    addresses: Vec<IpAddr>,
    /// Queues to open: the first, and the most.
    first: u32,
    count: u32,
    /// The longest frame, tag included \[byte\].
    frame_bytes: usize,
    buffer_bytes: usize,
}

/// Opens a socket to the kernel's routes and neighbours.
pub(super) fn netlink(config: &XdpConfig) -> Result<Netlink, XdpError> {
    Netlink::open().map_err(system("ask about interfaces", config))
}

pub(super) fn open(config: &XdpConfig) -> Result<Opened, XdpError> {
    check(config)?;
    let opening = survey(config, &netlink(config)?)?;
    let last = config.queues.first() + opening.count;
    let map = bpf::socket_map(last).map_err(privileged("make a map of sockets"))?;
    let (link, mode, fragments) = opening.attach(&map)?;
    let (queues, layout) = opening.sockets(mode, fragments)?;
    for (queue, socket) in (opening.first..).zip(&queues) {
        bpf::put_socket(&map, queue, socket.raw())
            .map_err(system("put a socket into the map", config))?;
        if config.busy_poll_us > 0 {
            socket.busy_poll(config.busy_poll_us).map_err(system("poll the device", config))?;
        }
    }
    let granted = Granted {
        mode,
        zero_copy: queues.iter().all(Xdp::is_zero_copy),
        multi_buffer: fragments,
        queues: queues.len() as u32,
        buffer_bytes: opening.buffer_bytes,
    };
    let Opening { index, interface, addresses, .. } = opening;
    let link = Arc::new(link);
    Ok(Opened { index, interface, addresses, granted, layout, queues, link })
}

impl Queues {
    fn first(self) -> u32 {
        match self {
            Queues::One(queue) => queue,
            Queues::All => 0,
        }
    }
}

fn check(config: &XdpConfig) -> Result<(), XdpError> {
    let counts = [("receive_buffers", config.receive_buffers), ("send_frames", config.send_frames)];
    for (key, count) in counts {
        if !count.is_power_of_two() || !(64..=COUNT_MAX).contains(&count) {
            let range = "a power of two from 64 to 65536";
            return Err(XdpError::OutOfRange { key, value: count as usize, range });
        }
    }
    if let Some(value) = config.buffer_bytes.filter(|bytes| ![2048, 4096].contains(bytes)) {
        return Err(XdpError::OutOfRange { key: "buffer_bytes", value, range: "2048 or 4096" });
    }
    if config.port == 0 {
        return Err(XdpError::OutOfRange { key: "port", value: 0, range: "1 to 65535" });
    }
    if let Queues::One(queue) = config.queues
        && queue >= 1 << 16
    {
        let interface = config.interface.clone();
        return Err(XdpError::NoSuchQueue { interface, queue });
    }
    Ok(())
}

/// Reads the properties of the interface.
fn survey<'a>(config: &'a XdpConfig, netlink: &Netlink) -> Result<Opening<'a>, XdpError> {
    let name = || config.interface.clone();
    let index = host::interface_index(&config.interface)
        .ok_or_else(|| XdpError::NoSuchInterface { interface: name() })?;
    let interface = netlink.interface(index).map_err(system("read the properties", config))?;
    if interface.kind != ETHERNET {
        return Err(XdpError::NotEthernet { interface: name() });
    }
    if !interface.is_up {
        return Err(XdpError::Down { interface: name() });
    }
    let all = netlink.addresses(index).map_err(system("read the addresses", config))?;
    let addresses = choose(config, all)?;
    let frame_bytes = frame::frame_bytes(interface.mtu);
    let fits = frame_bytes <= 2048 - HEADROOM_BYTES;
    let buffer_bytes = config.buffer_bytes.unwrap_or(if fits { 2048 } else { 4096 });
    let (first, count) = match config.queues {
        Queues::One(queue) => (queue, 1),
        Queues::All => (0, interface.queues.clamp(1, QUEUES_MAX)),
    };
    Ok(Opening { config, index, interface, addresses, first, count, frame_bytes, buffer_bytes })
}

/// Chooses the addresses to use from those of the interface.
fn choose(config: &XdpConfig, all: Vec<IpAddr>) -> Result<Vec<IpAddr>, XdpError> {
    let missing =
        |wanted: String| XdpError::NoAddress { interface: config.interface.clone(), wanted };
    let is_routed = |address: &IpAddr| match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !frame::is_link_local(*address),
    };
    let mut chosen = config.addresses.clone();
    if let Some(stranger) = chosen.iter().find(|address| !all.contains(address)) {
        return Err(missing(stranger.to_string()));
    }
    if chosen.is_empty() {
        chosen = all.into_iter().filter(is_routed).collect();
    }
    if chosen.is_empty() {
        return Err(missing("of IPv4, or of IPv6 beyond the link".to_owned()));
    }
    if chosen.len() > steer::ADDRESSES_MAX {
        let (key, value, range) = ("addresses", chosen.len(), "at most 32: name those to use");
        return Err(XdpError::OutOfRange { key, value, range });
    }
    Ok(chosen)
}

impl Opening<'_> {
    fn name(&self) -> String {
        self.config.interface.clone()
    }

    /// Returns true when the longest frame does not fit a buffer.
    fn needs_fragments(&self) -> bool {
        self.frame_bytes > self.buffer_bytes - HEADROOM_BYTES
    }

    /// Loads the program and attaches it to the interface: in the driver or behind it, for frames
    /// in one buffer if they fit. Returns the link, its mode, and true if frames may take several
    /// buffers.
    fn attach(&self, map: &OwnedFd) -> Result<(OwnedFd, Mode, bool), XdpError> {
        let modes: &[Mode] = match self.config.mode {
            Mode::Best => &[Mode::Driver, Mode::Generic],
            Mode::Driver => &[Mode::Driver],
            Mode::Generic => &[Mode::Generic],
        };
        let mut refusal = None;
        for &mode in modes {
            // Drivers need a frame, their headroom and trailer in one page, and show the limit only
            // by refusing: then several buffers are tried.
            for fragments in [false, true] {
                if self.needs_fragments() && !fragments {
                    continue;
                }
                let program = steer::load(&self.addresses, self.config.port, map, fragments)
                    .map_err(privileged("load an XDP program"))?;
                let flag = if mode == Mode::Driver { DRIVER_MODE } else { GENERIC_MODE };
                match bpf::attach(&program, self.index, flag) {
                    Ok(link) => return Ok((link, mode, fragments)),
                    Err(source) => refusal = Some(self.not_attached(mode, source)?),
                }
            }
        }
        Err(refusal.expect("at least one mode was tried"))
    }

    /// Returns the error to report unless another mode works; `Err` if no mode would work.
    fn not_attached(&self, mode: Mode, source: io::Error) -> Result<XdpError, XdpError> {
        match source.raw_os_error() {
            Some(libc::EPERM) => Err(XdpError::NoPermission { action: "attach an XDP program" }),
            Some(libc::EBUSY | libc::EEXIST) => Err(XdpError::Busy { what: self.name() }),
            _ => {
                let (interface, mtu) = (self.name(), self.interface.mtu);
                Ok(XdpError::Unsupported { interface, mode, mtu, source })
            }
        }
    }

    /// Opens a socket for each queue, with zero-copy if possible.
    fn sockets(&self, mode: Mode, fragments: bool) -> Result<(Vec<Xdp>, Layout), XdpError> {
        let several = if fragments { libc::XDP_USE_SG } else { 0 };
        if mode == Mode::Driver && self.config.zero_copy == ZeroCopy::WherePossible {
            let layout = self.layout(self.buffer_bytes);
            if let Ok(queues) = self.bind_all(layout, libc::XDP_ZEROCOPY | several) {
                return Ok((queues, layout));
            }
        }
        // With copies, the headroom of a buffer stays unused. So it overlaps the end of the
        // previous buffer, and a frame of several buffers is contiguous.
        let stride = if fragments { self.buffer_bytes - HEADROOM_BYTES } else { self.buffer_bytes };
        let layout = self.layout(stride);
        let queues = self
            .bind_all(layout, libc::XDP_COPY | several)
            .map_err(|refusal| self.not_bound(refusal, mode, layout))?;
        Ok((queues, layout))
    }

    fn layout(&self, stride_bytes: usize) -> Layout {
        Layout {
            chunks: self.config.receive_buffers,
            chunk_bytes: self.buffer_bytes,
            stride_bytes,
            slots: self.config.send_frames,
            slot_bytes: self.frame_bytes.next_multiple_of(self.buffer_bytes),
        }
    }

    /// Binds the queues from the first on; an interface may have fewer queues than at its creation.
    fn bind_all(&self, layout: Layout, flags: u16) -> Result<Vec<Xdp>, Refusal> {
        let mut sockets = Vec::new();
        for queue in self.first..self.first + self.count {
            let binding = Binding { interface: self.index, queue, flags };
            match self.bind_one(layout, binding) {
                Ok(socket) => sockets.push(socket),
                Err(refusal) if sockets.is_empty() || !is_beyond(&refusal) => return Err(refusal),
                Err(_) => break,
            }
        }
        Ok(sockets)
    }

    /// Binds a queue; waits shortly if it was just closed, because the kernel releases it in the
    /// background.
    fn bind_one(&self, layout: Layout, binding: Binding) -> Result<Xdp, Refusal> {
        let began = Instant::now();
        loop {
            match Xdp::open(layout, binding, self.frame_bytes) {
                Err(refusal) if is_busy(&refusal) && began.elapsed() < QUEUE_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    fn not_bound(&self, refusal: Refusal, mode: Mode, layout: Layout) -> XdpError {
        let Refusal { step, source } = refusal;
        let (interface, queue) = (self.name(), self.first);
        match (step, source.raw_os_error()) {
            (_, Some(libc::EPERM | libc::EACCES)) => {
                XdpError::NoPermission { action: "open an AF_XDP socket" }
            }
            (Step::Socket, _) => XdpError::Kernel { action: "open AF_XDP sockets", source },
            (Step::Memory, Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN)) => {
                XdpError::LockedMemory { bytes: layout.bytes() }
            }
            (Step::Bind, Some(libc::EBUSY)) => {
                XdpError::Busy { what: format!("queue {queue} of {interface}") }
            }
            (Step::Bind, Some(libc::EINVAL)) if queue >= self.interface.queues || queue > 0 => {
                XdpError::NoSuchQueue { interface, queue }
            }
            (Step::Bind, Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                XdpError::Unsupported { interface, mode, mtu: self.interface.mtu, source }
            }
            _ => XdpError::System { action: "set up an AF_XDP socket", interface, source },
        }
    }
}

/// Returns true if the queue does not exist.
fn is_beyond(refusal: &Refusal) -> bool {
    refusal.step == Step::Bind && refusal.source.raw_os_error() == Some(libc::EINVAL)
}

/// Returns true if another socket has the queue.
fn is_busy(refusal: &Refusal) -> bool {
    refusal.step == Step::Bind && refusal.source.raw_os_error() == Some(libc::EBUSY)
}

/// Returns the error for a refusal without a sentence of its own.
fn system(action: &'static str, config: &XdpConfig) -> impl FnOnce(io::Error) -> XdpError {
    let interface = config.interface.clone();
    move |source| XdpError::System { action, interface, source }
}

/// Returns the error of a call that usually fails because of missing rights.
fn privileged(action: &'static str) -> impl FnOnce(io::Error) -> XdpError {
    move |source| match source.raw_os_error() {
        Some(libc::EPERM) => XdpError::NoPermission { action },
        _ => XdpError::Kernel { action, source },
    }
}
