//! An AF_XDP socket: memory shared with a queue of an interface, and the ownership of its parts.
//!
//! The memory (UMEM) begins with chunks that frames are received into, and ends with slots that
//! frames are sent from. The kernel owns a chunk from the fill ring until it returns in the receive
//! ring; then we own it until the next frame is requested. We own a slot from [`Xdp::slot`] until
//! [`Xdp::submit`]; then the kernel owns it until it returns in the completion ring. Bytes are
//! handed out only while they are ours; addresses that come from the kernel are checked first.
//! Source: Linux Documentation/networking/af_xdp.rst; <linux/if_xdp.h>.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use libc::c_int;

use super::xdp_ring::{Descriptor, Entries, KernelRing};

/// Headroom that the kernel keeps free before each received frame or part of one \[byte\]. Source:
/// XDP_PACKET_HEADROOM of <linux/bpf.h>.
pub(crate) const HEADROOM_BYTES: usize = 256;
/// In an unaligned UMEM, the lower bits are the chunk's address, and the upper bits the offset of
/// its data. Source: XSK_UNALIGNED_BUF_OFFSET_SHIFT of <linux/if_xdp.h>.
const OFFSET_SHIFT: u32 = 48;
/// Frames of one call to send. Source: <linux/if_xdp.h> since Linux 6.17; the kernel's default is
/// 32, and older kernels refuse the option, which costs calls only.
const XDP_MAX_TX_SKB_BUDGET: c_int = 9;
const FRAMES_PER_CALL: c_int = 512;
/// Source: <asm-generic/socket.h>.
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;
/// Frames that one busy poll may take from the device. Source: NAPI_POLL_WEIGHT of the kernel.
const BUSY_POLL_BUDGET: c_int = 64;
/// Most calls of one [`Xdp::kick`], so that a link that refuses everything cannot block the caller.
const CALLS_MAX: u32 = 1024;

/// The division of a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Chunks for receiving; a power of two.
    pub(crate) chunks: u32,
    /// Bytes of a chunk as the kernel knows it, headroom included: 2048 or 4096.
    pub(crate) chunk_bytes: usize,
    /// From the beginning of one chunk to the next \[byte\]. Less than `chunk_bytes` makes frames
    /// of several chunks lie in one piece: each part fills the next chunk's headroom.
    pub(crate) stride_bytes: usize,
    /// Slots for sending; a power of two.
    pub(crate) slots: u32,
    /// Bytes of a slot, of one frame; a multiple of `chunk_bytes`.
    pub(crate) slot_bytes: usize,
}

impl Layout {
    /// Returns true if chunks begin at addresses that are not multiples of their length.
    fn is_unaligned(&self) -> bool {
        self.stride_bytes != self.chunk_bytes
    }

    /// Returns the size of the part for receiving, rounded up to a whole page \[byte\].
    fn receive_bytes(&self) -> usize {
        let bytes = self.stride_bytes * (self.chunks as usize - 1) + self.chunk_bytes;
        bytes.next_multiple_of(4096)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.receive_bytes() + self.slots as usize * self.slot_bytes
    }

    /// Descriptors of the longest frame to send.
    fn parts_max(&self) -> u32 {
        (self.slot_bytes / self.chunk_bytes) as u32
    }
}

/// The interface, queue and mode to bind to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) interface: u32,
    pub(crate) queue: u32,
    /// `XDP_COPY`, `XDP_ZEROCOPY`, `XDP_USE_SG`.
    pub(crate) flags: u16,
}

/// The refusal of the kernel.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) step: Step,
    pub(crate) source: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Socket,
    Memory,
    Rings,
    Bind,
}

impl Step {
    fn refused(self) -> impl FnOnce(io::Error) -> Refusal {
        move |source| Refusal { step: self, source }
    }
}

/// Memory that the kernel also reads and writes.
struct Umem {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only `Xdp` has it.
unsafe impl Send for Umem {}

impl Umem {
    fn new(bytes: usize) -> io::Result<Umem> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses the address, so nothing mapped before is touched.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Umem { base, bytes })
    }

    fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset <= self.bytes && bytes <= self.bytes - offset
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; no reference outlives `self`. The kernel pins
        // the pages for as long as it uses them.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A slot for one frame: [`Xdp::slot`] returns it, [`Xdp::submit`] takes it back.
#[derive(Debug)]
pub(crate) struct FrameSlot(u32);

/// The result of a [`Xdp::kick`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kicked {
    /// System calls.
    pub(crate) calls: u64,
    /// Frames that the link took from us and dropped.
    pub(crate) dropped: u64,
}

/// An AF_XDP socket with its memory and rings.
pub(crate) struct Xdp {
    receive: KernelRing,
    fill: KernelRing,
    transmit: KernelRing,
    completion: KernelRing,
    layout: Layout,
    /// Number of descriptors at the front of the receive ring that form the last returned frame.
    shown: u32,
    /// A contiguous copy of a frame whose parts are separate.
    gathered: Box<[u8]>,
    free_slots: Vec<u32>,
    /// Descriptors of each slot that the kernel has not given back.
    parts_out: Box<[u8]>,
    /// Invalid descriptors from the kernel.
    pub(crate) descriptors_bad: u64,
    /// Frames that were put together by a copy.
    pub(crate) frames_gathered: u64,
    descriptor: OwnedFd,
    umem: Umem,
}

impl std::fmt::Debug for Xdp {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Xdp").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Xdp {
    /// Makes the memory and the rings, and binds to a queue. `frame_bytes`: the longest frame.
    pub(crate) fn open(
        layout: Layout,
        binding: Binding,
        frame_bytes: usize,
    ) -> Result<Xdp, Refusal> {
        let descriptor = socket().map_err(Step::Socket.refused())?;
        let umem = Umem::new(layout.bytes()).map_err(Step::Memory.refused())?;
        register(&descriptor, &umem, &layout).map_err(Step::Memory.refused())?;
        let [receive, fill, transmit, completion] =
            rings(&descriptor, &layout).map_err(Step::Rings.refused())?;
        bind(&descriptor, binding).map_err(Step::Bind.refused())?;
        let _ = set(&descriptor, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &FRAMES_PER_CALL);
        let mut xdp = Xdp {
            receive,
            fill,
            transmit,
            completion,
            layout,
            shown: 0,
            gathered: vec![0; frame_bytes].into(),
            free_slots: (0..layout.slots).rev().collect(),
            parts_out: vec![0; layout.slots as usize].into(),
            descriptors_bad: 0,
            frames_gathered: 0,
            descriptor,
            umem,
        };
        for chunk in 0..layout.chunks as usize {
            xdp.fill.write_address((chunk * layout.stride_bytes) as u64);
        }
        xdp.fill.publish_written();
        Ok(xdp)
    }

    /// The socket's descriptor, for a map of sockets.
    pub(crate) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Returns true when the device reads and writes our memory itself.
    pub(crate) fn is_zero_copy(&self) -> bool {
        let mut options = libc::xdp_options { flags: 0 };
        fetch(&self.descriptor, libc::XDP_OPTIONS, &mut options).is_ok()
            && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
    }

    /// Makes reads poll the device, for at most `us` at a time, instead of waiting for its
    /// interrupt.
    pub(crate) fn busy_poll(&self, us: u32) -> io::Result<()> {
        let time = c_int::try_from(us).unwrap_or(c_int::MAX);
        set(&self.descriptor, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1)?;
        set(&self.descriptor, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &time)?;
        set(&self.descriptor, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &BUSY_POLL_BUDGET)
    }

    /// The kernel's counters of this socket.
    pub(crate) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: a C structure of integers, for which all zeros are valid.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        fetch(&self.descriptor, libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }

    /// Returns the next arrived frame, from its Ethernet header on; gives the previous one back.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        loop {
            self.give_back();
            match self.show()? {
                ShownFrame::InPlace { offset, bytes } => {
                    debug_assert!(self.umem.holds(offset, bytes));
                    // SAFETY: `show` has checked that the bytes are in the part for receiving, in
                    // chunks that the kernel has filled and not been given back: that happens in
                    // `give_back`, which needs `&mut self`, as does every other access.
                    let frame = unsafe {
                        std::slice::from_raw_parts(self.umem.base.as_ptr().add(offset), bytes)
                    };
                    return Some(frame);
                }
                ShownFrame::Gathered { bytes } => return Some(&self.gathered[..bytes]),
                ShownFrame::Nonsense => self.descriptors_bad += 1,
            }
        }
    }

    /// Releases the last frame, so that the kernel may fill its chunks again. Returns true if that
    /// needs a system call.
    pub(crate) fn release(&mut self) -> bool {
        self.give_back();
        self.receive.publish_read();
        self.fill.publish_written();
        // Publish the index before reading the flag: otherwise both sides may wait for each other.
        fence(Ordering::SeqCst);
        let wake = self.fill.needs_wakeup();
        if wake {
            self.poll_device();
        }
        wake
    }

    /// Lets the kernel check the device and the fill ring.
    pub(crate) fn poll_device(&self) {
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: no memory is given. Its result adds nothing to the rings.
        unsafe { libc::recv(fd, ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
    }

    /// Finds the next whole frame.
    fn show(&mut self) -> Option<ShownFrame> {
        let mut filled = self.receive.filled();
        if filled == 0 {
            return None;
        }
        let first = self.receive.descriptor(0);
        let (_, start) = self.decode(first.address);
        let (mut parts, mut bytes, mut in_one_piece) = (1, first.bytes as usize, true);
        let mut last = first;
        while last.options & libc::XDP_PKT_CONTD != 0 {
            if parts == filled {
                let now = self.receive.filled_now();
                if now == filled {
                    return None; // The rest has not arrived.
                }
                filled = now;
            }
            let part = self.receive.descriptor(parts);
            in_one_piece &= self.decode(part.address).1 == start.saturating_add(bytes);
            bytes = bytes.saturating_add(part.bytes as usize);
            parts += 1;
            last = part;
        }
        self.shown = parts;
        if bytes > self.gathered.len() {
            return Some(ShownFrame::Nonsense);
        }
        if in_one_piece {
            let inside = start <= self.layout.receive_bytes()
                && bytes <= self.layout.receive_bytes() - start;
            return Some(if inside {
                ShownFrame::InPlace { offset: start, bytes }
            } else {
                ShownFrame::Nonsense
            });
        }
        Some(self.gather(parts))
    }

    /// Copies the parts of a frame together.
    fn gather(&mut self, parts: u32) -> ShownFrame {
        let mut done = 0;
        for part in 0..parts {
            let Descriptor { address, bytes, .. } = self.receive.descriptor(part);
            let ((_, start), bytes) = (self.decode(address), bytes as usize);
            let end = self.layout.receive_bytes();
            if start > end || bytes > end - start || bytes > self.gathered.len() - done {
                return ShownFrame::Nonsense;
            }
            let to = &mut self.gathered[done..done + bytes];
            // SAFETY: the bytes are in the part for receiving (just checked), of a chunk that the
            // kernel has filled and not been given back; `to` has the same length and is not in
            // the UMEM.
            unsafe {
                let from = self.umem.base.as_ptr().add(start);
                ptr::copy_nonoverlapping(from, to.as_mut_ptr(), bytes);
            }
            done += bytes;
        }
        self.frames_gathered += 1;
        ShownFrame::Gathered { bytes: done }
    }

    /// Puts the chunks of the frame last shown into the fill ring.
    fn give_back(&mut self) {
        for part in 0..self.shown {
            let (chunk, _) = self.decode(self.receive.descriptor(part).address);
            let is_chunk = chunk.is_multiple_of(self.layout.stride_bytes)
                && chunk / self.layout.stride_bytes < self.layout.chunks as usize;
            if is_chunk {
                // There is room: the ring has an entry for every chunk.
                self.fill.write_address(chunk as u64);
            } else {
                self.descriptors_bad += 1;
            }
        }
        self.receive.advance(self.shown);
        self.shown = 0;
    }

    /// Returns the offsets of a chunk and of its data.
    fn decode(&self, address: u64) -> (usize, usize) {
        if self.layout.is_unaligned() {
            let chunk = (address & ((1 << OFFSET_SHIFT) - 1)) as usize;
            (chunk, chunk + (address >> OFFSET_SHIFT) as usize)
        } else {
            let data = address as usize;
            (data - data % self.layout.chunk_bytes, data)
        }
    }

    /// Returns a slot for a frame; `None` until frames have left.
    pub(crate) fn slot(&mut self) -> Option<FrameSlot> {
        if self.free_slots.is_empty() {
            self.reap();
        }
        self.free_slots.pop().map(FrameSlot)
    }

    /// Returns all bytes of a slot.
    pub(crate) fn slot_bytes(&mut self, slot: &FrameSlot) -> &mut [u8] {
        let bytes = self.layout.slot_bytes;
        let offset = self.slot_offset(slot);
        assert!(self.umem.holds(offset, bytes), "slot {} of {:?}", slot.0, self.layout);
        // SAFETY: inside (asserted). The slot is ours: its token exists once, from `slot` to
        // `submit`; the result borrows `self`, so nothing else touches the memory meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.umem.base.as_ptr().add(offset), bytes) }
    }

    fn slot_offset(&self, slot: &FrameSlot) -> usize {
        self.layout.receive_bytes() + slot.0 as usize * self.layout.slot_bytes
    }

    /// Puts the first `bytes` of a slot into the transmit ring; they leave with [`Xdp::kick`].
    pub(crate) fn submit(&mut self, slot: FrameSlot, bytes: usize) {
        assert!((1..=self.layout.slot_bytes).contains(&bytes), "{bytes} bytes");
        let offset = self.slot_offset(&slot);
        let chunk = self.layout.chunk_bytes;
        let parts = bytes.div_ceil(chunk);
        // There is room: the ring has entries for all parts of all slots.
        for part in 0..parts {
            let from = part * chunk;
            let more = if part + 1 < parts { libc::XDP_PKT_CONTD } else { 0 };
            self.transmit.write_descriptor(Descriptor {
                address: (offset + from) as u64,
                bytes: (bytes - from).min(chunk) as u32,
                options: more,
            });
        }
        self.parts_out[slot.0 as usize] = parts as u8;
    }

    /// Makes the kernel send the submitted frames, until it has taken all or refuses more.
    pub(crate) fn kick(&mut self) -> Kicked {
        let mut kicked = Kicked::default();
        self.transmit.publish_written();
        // Publish the index before reading the flag: otherwise both sides may wait for each other.
        fence(Ordering::SeqCst);
        let mut waiting = self.transmit.waiting();
        while waiting > 0 && self.transmit.needs_wakeup() && kicked.calls < u64::from(CALLS_MAX) {
            let fd = self.descriptor.as_raw_fd();
            let flags = libc::MSG_DONTWAIT;
            // SAFETY: no memory is given: the frames are in the ring.
            let result = unsafe { libc::sendto(fd, ptr::null(), 0, flags, ptr::null(), 0) };
            kicked.calls += 1;
            let error = (result < 0).then(|| io::Error::last_os_error().raw_os_error()).flatten();
            // The device dropped the next frame, and the kernel stopped there.
            kicked.dropped += u64::from(error == Some(libc::EBUSY));
            self.reap();
            let left = self.transmit.waiting();
            let go_on = matches!(error, None | Some(libc::EBUSY | libc::EAGAIN));
            if left == waiting || !go_on {
                break;
            }
            waiting = left;
        }
        kicked
    }

    /// Takes back the slots whose frames have left.
    fn reap(&mut self) {
        let filled = self.completion.filled_now();
        let base = self.layout.receive_bytes() as u64;
        for ahead in 0..filled {
            let address = self.completion.address(ahead);
            let index = address.checked_sub(base).map(|at| at / self.layout.slot_bytes as u64);
            let parts = index.and_then(|index| self.parts_out.get_mut(index as usize));
            match (index, parts) {
                (Some(index), Some(parts @ 1..)) => {
                    *parts -= 1;
                    if *parts == 0 {
                        self.free_slots.push(index as u32);
                    }
                }
                _ => self.descriptors_bad += 1,
            }
        }
        self.completion.advance(filled);
        self.completion.publish_read();
    }
}

/// A frame that [`Xdp::show`] found.
enum ShownFrame {
    InPlace { offset: usize, bytes: usize },
    Gathered { bytes: usize },
    Nonsense,
}

/// Sleeps until one of the sockets has received a frame or the time has passed; returns `true` if
/// one has. Also drives the sending of waiting frames.
pub(crate) fn wait<'a>(sockets: impl Iterator<Item = &'a Xdp>, timeout: Duration) -> bool {
    let mut entries: Vec<libc::pollfd> = sockets
        .map(|socket| libc::pollfd { fd: socket.raw(), events: libc::POLLIN, revents: 0 })
        .collect();
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let (first, count) = (entries.as_mut_ptr(), entries.len() as libc::nfds_t);
    // SAFETY: entries and time live through the call; no signal mask.
    let ready = unsafe { libc::ppoll(first, count, &raw const timeout, ptr::null()) };
    ready > 0
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value), size_of::<T>() as u32);
    // SAFETY: the value is readable for its size; the kernel copies it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option of AF_XDP; only for plain C structures of integers.
fn fetch<T: Copy>(socket: &OwnedFd, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as u32;
    let fd = socket.as_raw_fd();
    // SAFETY: the value is writable for `len` bytes, the kernel writes no more than that, and any
    // bytes are a legal value of the structures of integers that are asked for.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_XDP, name, ptr::from_mut(value).cast(), &raw mut len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn register(socket: &OwnedFd, umem: &Umem, layout: &Layout) -> io::Result<()> {
    let unaligned = if layout.is_unaligned() { libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 };
    let request = libc::xdp_umem_reg {
        addr: umem.base.as_ptr() as u64,
        len: umem.bytes as u64,
        chunk_size: layout.chunk_bytes as u32,
        headroom: 0,
        flags: unaligned,
        tx_metadata_len: 0,
    };
    set(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
}

/// Receive, fill, transmit and completion ring.
fn rings(socket: &OwnedFd, layout: &Layout) -> io::Result<[KernelRing; 4]> {
    let receive = layout.chunks;
    let transmit = (layout.slots * layout.parts_max()).next_power_of_two();
    let sizes = [
        (libc::XDP_RX_RING, receive),
        (libc::XDP_UMEM_FILL_RING, receive),
        (libc::XDP_TX_RING, transmit),
        (libc::XDP_UMEM_COMPLETION_RING, transmit),
    ];
    for (name, size) in sizes {
        set(socket, libc::SOL_XDP, name, &size)?;
    }
    // SAFETY: a C structure of integers, for which all zeros are valid.
    let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    fetch(socket, libc::XDP_MMAP_OFFSETS, &mut at)?;
    let map = |page: u64, offsets, entries, count| {
        KernelRing::map(socket.as_fd(), page as libc::off_t, offsets, entries, count)
    };
    Ok([
        map(libc::XDP_PGOFF_RX_RING as u64, at.rx, Entries::Descriptors, receive)?,
        map(libc::XDP_UMEM_PGOFF_FILL_RING, at.fr, Entries::Addresses, receive)?,
        map(libc::XDP_PGOFF_TX_RING as u64, at.tx, Entries::Descriptors, transmit)?,
        map(libc::XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, Entries::Addresses, transmit)?,
    ])
}

fn bind(socket: &OwnedFd, binding: Binding) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: binding.flags | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: binding.interface,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as u32;
    // SAFETY: the address is readable for its length; the kernel copies it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
