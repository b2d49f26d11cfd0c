//! The port: frames written and read in the memory shared with the interface.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use fluxline_core::Moment;
use fluxline_core::port::{Incoming, Member, Outgoing, Port, PortCounters, PortLimits};

use super::config::{Granted, SendChecksums, UnfinishedChecksums, XdpConfig, XdpError};
use super::frame::{
    ETHERNET_BYTES, HEAD_BYTES_MAX, Marking, Unfinished, V4_HEAD_BYTES, V6_HEAD_BYTES,
    finish_checksum, parse,
};
use super::open::{self, Opened};
use super::peers::{Own, Peers};
use crate::clock;
use crate::sys::xdp::{FrameSlot, Kicked, Xdp, wait};

/// Frames that one call of `receive` takes from each queue. Source: a batch of sockets is as long.
const BATCH_FRAMES: usize = 64;

/// A UDP port of an interface that bypasses the kernel.
///
/// Frames to a neighbour whose Ethernet address is not known yet are refused and counted, and the
/// kernel is asked to resolve it. So the first frames to a peer are lost, which is possible on any
/// port.
#[derive(Debug)]
pub struct XdpPort {
    /// Dropped first, so that the kernel gets the frames again.
    _link: OwnedFd,
    queues: Vec<Xdp>,
    peers: Peers,
    interface: u32,
    port: u16,
    limits: PortLimits,
    granted: Granted,
    send_checksums: SendChecksums,
    unfinished: Unfinished,
    busy_poll: bool,
    /// The last requested frame.
    pending: Option<Pending>,
    /// Memory for frames that cannot be sent.
    nowhere: Box<[u8]>,
    counters: PortCounters,
    frames_damaged: u64,
    frames_foreign: u64,
    now: Moment,
}

/// A frame whose payload is being written.
#[derive(Debug)]
struct Pending {
    slot: FrameSlot,
    head_bytes: usize,
    bytes: usize,
}

/// Counts of frames, in more detail than [`PortCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpStatistics {
    /// Dropped by the kernel: no free buffer of ours, or the frame did not fit.
    pub dropped: u64,
    /// Dropped by the kernel: its receive ring for this socket was full.
    pub ring_full: u64,
    /// Times that the kernel found no free buffer; a zero-copy driver counts tries, not frames.
    pub buffers_missing: u64,
    /// Dropped here: a checksum was wrong.
    pub damaged: u64,
    /// Dropped here: invalid headers or lengths.
    pub foreign: u64,
    /// Received in several parts that had to be copied together.
    pub gathered: u64,
    /// Invalid entries from the kernel; above zero, the kernel or this code has a defect.
    pub bad_descriptors: u64,
}

impl XdpPort {
    /// Opens a UDP port of an interface.
    ///
    /// On return, datagrams to it come here. The kernel gets all other frames, and gets all frames
    /// again when this port is dropped or its process dies. Errors: [`XdpError`], a sentence each.
    /// Cost: about 10 MB of locked buffers; a driver may take its link down and up again.
    pub fn open(config: &XdpConfig) -> Result<XdpPort, XdpError> {
        let opened = open::open(config)?;
        let limits = limits(&opened);
        let Opened { netlink, index, interface, addresses, granted, queues, link, .. } = opened;
        let marking = if config.congestion_marks { Marking::Able } else { Marking::NotAble };
        let own =
            Own { interface: index, mac: interface.mac, addresses, port: config.port, marking };
        Ok(XdpPort {
            _link: link,
            queues,
            peers: Peers::new(netlink, own),
            interface: index,
            port: config.port,
            limits,
            granted,
            send_checksums: config.send_checksums,
            unfinished: match config.unfinished_checksums {
                UnfinishedChecksums::Accept => Unfinished::Accept,
                UnfinishedChecksums::Refuse => Unfinished::Refuse,
            },
            busy_poll: config.busy_poll_us > 0,
            pending: None,
            nowhere: vec![0; limits.frame_bytes_max].into(),
            counters: PortCounters::default(),
            frames_damaged: 0,
            frames_foreign: 0,
            now: clock::now(),
        })
    }

    /// Returns the features that the interface granted.
    #[must_use]
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// Returns detailed counts of frames. Cost: a system call per queue.
    #[must_use]
    pub fn statistics(&self) -> XdpStatistics {
        let mut sum = XdpStatistics {
            damaged: self.frames_damaged,
            foreign: self.frames_foreign,
            ..XdpStatistics::default()
        };
        for queue in &self.queues {
            sum.gathered += queue.frames_gathered;
            sum.bad_descriptors += queue.descriptors_bad;
            let Ok(kernel) = queue.statistics() else { continue };
            sum.dropped += kernel.rx_dropped;
            sum.ring_full += kernel.rx_ring_full;
            sum.buffers_missing += kernel.rx_fill_ring_empty_descs;
        }
        sum
    }

    /// Sleeps until a frame has arrived or `timeout` has passed; returns `true` if one has arrived.
    /// Flush first: frames that were not handed to the link are not sent meanwhile.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        self.counters.calls_receiving += 1;
        wait(self.queues.iter(), timeout)
    }

    /// Puts the last requested frame into the transmit ring.
    fn finish_pending(&mut self) {
        let Some(Pending { slot, head_bytes, bytes }) = self.pending.take() else { return };
        let queue = &mut self.queues[0];
        if head_bytes == HEAD_BYTES_MAX || self.send_checksums == SendChecksums::Compute {
            finish_checksum(&mut queue.slot_bytes(&slot)[..head_bytes + bytes], head_bytes);
        }
        queue.submit(slot, head_bytes + bytes);
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += bytes as u64;
    }

    fn kick(&mut self) {
        let Kicked { calls, dropped } = self.queues[0].kick();
        self.counters.calls_sending += calls;
        self.counters.frames_refused += dropped;
        self.counters.frames_sent = self.counters.frames_sent.saturating_sub(dropped);
    }
}

fn limits(opened: &Opened) -> PortLimits {
    let layout = &opened.layout;
    let has_v6 = opened.addresses.iter().any(IpAddr::is_ipv6);
    let heads = if has_v6 { V6_HEAD_BYTES } else { V4_HEAD_BYTES };
    PortLimits {
        port: "xdp",
        frame_bytes_max: opened.interface.mtu.saturating_sub(heads),
        // A frame occupies whole buffers: at most one more than its bytes would fill.
        receive_buffer_bytes: layout.chunks as usize * layout.stride_bytes,
        frame_cost: layout.stride_bytes + ETHERNET_BYTES + heads,
        train_frames: 1,
        member: Member::ALONE,
    }
}

impl Port for XdpPort {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        self.peers.source(peer).map(|source| SocketAddr::new(source, self.port))
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        self.finish_pending();
        if bytes == 0 || bytes > self.limits.frame_bytes_max {
            return None;
        }
        let Some(head) = self.peers.head(to.ip(), self.now) else {
            self.counters.frames_refused += 1;
            return Some(Outgoing { bytes: &mut self.nowhere[..bytes], identification: 0 });
        };
        let queue = &mut self.queues[0];
        let slot = queue.slot()?;
        let head_bytes = head.len();
        head.write(queue.slot_bytes(&slot), to.port(), bytes);
        let pending = self.pending.insert(Pending { slot, head_bytes, bytes });
        let frame = queue.slot_bytes(&pending.slot);
        Some(Outgoing { bytes: &mut frame[head_bytes..head_bytes + bytes], identification: 0 })
    }

    fn flush(&mut self, now: Moment) {
        self.now = now;
        self.finish_pending();
        self.kick();
        self.peers.tend(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        self.now = now;
        let mut taken = 0;
        for queue in &mut self.queues {
            let mut seen = 0;
            while seen < BATCH_FRAMES {
                let Some(frame) = queue.next() else { break };
                seen += 1;
                let parsed = match parse(frame, self.unfinished, self.interface) {
                    Ok(parsed) => parsed,
                    Err(super::frame::Malformed::Checksum) => {
                        self.frames_damaged += 1;
                        continue;
                    }
                    Err(_) => {
                        self.frames_foreign += 1;
                        continue;
                    }
                };
                let bytes = &frame[parsed.payload];
                taken += 1;
                self.counters.frames_received += 1;
                self.counters.bytes_received += bytes.len() as u64;
                let (from, to) = (parsed.from, parsed.to);
                let (identification, congestion) = (parsed.identification, parsed.congestion);
                take(Incoming { from, to, bytes, identification, congestion });
            }
            if seen > 0 {
                self.counters.calls_receiving += u64::from(queue.release());
            } else if self.busy_poll {
                queue.poll_device();
                self.counters.calls_receiving += 1;
            }
        }
        taken
    }

    fn counters(&self) -> PortCounters {
        let XdpStatistics { dropped, ring_full, damaged, foreign, .. } = self.statistics();
        PortCounters { frames_dropped: dropped + ring_full + damaged + foreign, ..self.counters }
    }
}
