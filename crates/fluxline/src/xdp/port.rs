//! The port: frames written and read in the memory shared with the interface.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline_core::Moment;
use fluxline_core::port::{
    Incoming, IncomingTrain, MEMBERS_MAX, Member, Outgoing, Port, PortCounters, PortLimits,
};

use super::config::{Granted, Queues, SendChecksums, UnfinishedChecksums, XdpConfig, XdpError};
use super::frame::{
    ETHERNET_BYTES, HEAD_BYTES_MAX, Marking, Unfinished, V4_HEAD_BYTES, V6_HEAD_BYTES,
    finish_checksum, parse,
};
use super::open::{self, Opened};
use super::peers::{Own, Peers};
use super::shared::Share;
use crate::clock;
use crate::sys::xdp::{FrameSlot, Kicked, Xdp, wait};

/// Frames that one call of `receive` takes from each queue. Source: a batch of sockets is as long.
const BATCH_FRAMES: usize = 64;

/// The longest sleep of one of several ports: frames that another one gives to it do not wake it.
const NAP_OF_SEVERAL: Duration = Duration::from_millis(1);

/// A UDP port of an interface that bypasses the kernel.
///
/// Frames to a neighbour whose Ethernet address is not known yet are refused and counted, and the
/// kernel is asked to resolve it. So the first frames to a peer are lost, which is possible on any
/// port.
#[derive(Debug)]
pub struct XdpPort {
    /// Dropped first, so that the kernel gets the frames again.
    _link: Arc<OwnedFd>,
    queues: Vec<Xdp>,
    /// Its part in an interface with several ports.
    share: Option<Share>,
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

/// The queues of a port, and its part in the interface.
struct Part {
    queues: Vec<Xdp>,
    share: Option<Share>,
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
        let mut opened = open::open(config)?;
        let queues = std::mem::take(&mut opened.queues);
        XdpPort::on(config, &opened, Part { queues, share: None })
    }

    /// Opens `count` ports of an interface, each with some of its queues and for the node of one
    /// thread.
    ///
    /// The card chooses the queue of a datagram, by its addresses and ports. A port gives frames
    /// of other nodes to them, and queues of a port that is dropped are served by another. Errors:
    /// [`XdpError`], also for fewer queues than ports. Cost: that of [`XdpPort::open`], for each
    /// queue.
    pub fn open_threads(config: &XdpConfig, count: usize) -> Result<Vec<XdpPort>, XdpError> {
        if !(1..=MEMBERS_MAX as usize).contains(&count) {
            return Err(XdpError::OutOfRange { key: "threads", value: count, range: "1 to 64" });
        }
        let config = XdpConfig { queues: Queues::All, ..config.clone() };
        let mut opened = open::open(&config)?;
        let all = std::mem::take(&mut opened.queues);
        if all.len() < count {
            let (interface, queue) = (config.interface, all.len() as u32);
            return Err(XdpError::NoSuchQueue { interface, queue });
        }
        let mut parts: Vec<Part> = Share::all(count)
            .map(|share| Part { queues: Vec::new(), share: Some(share) })
            .collect();
        for (index, queue) in all.into_iter().enumerate() {
            parts[index % count].queues.push(queue);
        }
        parts.into_iter().map(|part| XdpPort::on(&config, &opened, part)).collect()
    }

    /// Returns a port with a part of an open interface.
    fn on(config: &XdpConfig, opened: &Opened, part: Part) -> Result<XdpPort, XdpError> {
        let Part { queues, share } = part;
        let member = share.as_ref().map_or(Member::ALONE, |share| share.membership.member());
        let limits = PortLimits { member, ..limits(opened) };
        let Opened { index, ref interface, ref addresses, granted, ref link, .. } = *opened;
        let marking = if config.congestion_marks { Marking::Able } else { Marking::NotAble };
        let (mac, addresses) = (interface.mac, addresses.clone());
        let own = Own { interface: index, mac, addresses, port: config.port, marking };
        Ok(XdpPort {
            _link: Arc::clone(link),
            queues,
            share,
            peers: Peers::new(open::netlink(config)?, own),
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
        let Some(share) = &self.share else { return wait(self.queues.iter(), timeout) };
        let began = Instant::now();
        loop {
            let left = timeout.saturating_sub(began.elapsed());
            if share.has_waiting() || wait(self.queues.iter(), left.min(NAP_OF_SEVERAL)) {
                return true;
            }
            if left <= NAP_OF_SEVERAL {
                return false;
            }
        }
    }

    /// Returns the number of frames that arrived here for another thread of the same interface, and
    /// were given to it.
    #[must_use]
    pub fn frames_handed_over(&self) -> u64 {
        self.share.as_ref().map_or(0, |share| share.membership.frames_handed_over())
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
        let (mut taken, mut bytes_taken) = (0, 0);
        // No train has more than one frame here.
        let mut give = |train: IncomingTrain<'_>| {
            let Some(frame) = train.frame(0) else { return };
            taken += 1;
            bytes_taken += frame.bytes.len() as u64;
            take(frame);
        };
        if let Some(share) = &mut self.share {
            share.adopt(&mut self.queues);
            share.membership.collect(&mut give);
        }
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
                let (from, to) = (parsed.from, parsed.to);
                let (identification, congestion) = (parsed.identification, parsed.congestion);
                let frame = Incoming { from, to, bytes, identification, congestion };
                let train = IncomingTrain::of(&frame);
                match &mut self.share {
                    None => give(train),
                    Some(share) => share.membership.sort(&train, &mut give),
                }
            }
            if seen > 0 {
                self.counters.calls_receiving += u64::from(queue.release());
            } else if self.busy_poll {
                queue.poll_device();
                self.counters.calls_receiving += 1;
            }
        }
        self.counters.frames_received += taken as u64;
        self.counters.bytes_received += bytes_taken;
        taken
    }

    fn counters(&self) -> PortCounters {
        let XdpStatistics { dropped, ring_full, damaged, foreign, .. } = self.statistics();
        let handed = self.share.as_ref().map_or(0, |share| share.membership.frames_dropped());
        let frames_dropped = dropped + ring_full + damaged + foreign + handed;
        PortCounters { frames_dropped, ..self.counters }
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        if let Some(share) = &self.share {
            share.leave(&mut self.queues);
        }
    }
}
