//! Ports of one process, joined by memory: for tests, and where no link is needed.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{Identification, Incoming, Member, Outgoing, Port, PortCounters, PortLimits};
use crate::Moment;
use crate::lock::Lock;

/// The most frames that wait for one port; more are dropped, as a socket does.
const FRAMES_MAX: usize = 4096;
/// Frames given out in one call.
const BATCH_FRAMES: usize = 64;

struct Frame {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Inbox {
    frames: VecDeque<Frame>,
    dropped: u64,
}

#[derive(Default)]
struct Shared {
    inboxes: BTreeMap<SocketAddr, Inbox>,
    /// Empty buffers for reuse.
    spare: Vec<Vec<u8>>,
}

/// A network in memory that joins ports.
#[derive(Clone, Default)]
pub struct Network {
    shared: Arc<Lock<Shared>>,
}

impl Network {
    /// Returns a network without ports.
    #[must_use]
    pub fn new() -> Network {
        Network::default()
    }

    /// Returns a port with this address and frames of at most `frame_bytes_max`. It replaces an
    /// earlier port of the same address.
    #[must_use]
    pub fn port(&self, address: SocketAddr, frame_bytes_max: usize) -> NetworkPort {
        self.shared.lock().inboxes.insert(address, Inbox::default());
        let limits = PortLimits {
            port: "memory",
            frame_bytes_max,
            receive_buffer_bytes: FRAMES_MAX * frame_bytes_max,
            frame_cost: 0,
            train_frames: 1,
            member: Member::ALONE,
        };
        let counters = PortCounters::default();
        let network = self.clone();
        NetworkPort { network, address, limits, queued: VecDeque::new(), counters }
    }
}

/// One port of a [`Network`]. When it is dropped, its address is free.
pub struct NetworkPort {
    network: Network,
    address: SocketAddr,
    limits: PortLimits,
    queued: VecDeque<Frame>,
    counters: PortCounters,
}

impl Drop for NetworkPort {
    fn drop(&mut self) {
        self.network.shared.lock().inboxes.remove(&self.address);
    }
}

impl Port for NetworkPort {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    fn local(&self, _: IpAddr) -> Option<SocketAddr> {
        Some(self.address)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        if bytes == 0 || bytes > self.limits.frame_bytes_max || self.queued.len() >= FRAMES_MAX {
            return None;
        }
        let mut buffer = self.network.shared.lock().spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(bytes, 0);
        self.queued.push_back(Frame { from: self.address, to, bytes: buffer });
        let bytes = &mut self.queued.back_mut()?.bytes[..];
        Some(Outgoing { bytes, identification: 0 })
    }

    fn flush(&mut self, _: Moment) {
        let shared = &mut *self.network.shared.lock();
        for frame in self.queued.drain(..) {
            self.counters.frames_sent += 1;
            self.counters.bytes_sent += frame.bytes.len() as u64;
            match shared.inboxes.get_mut(&frame.to) {
                Some(inbox) if inbox.frames.len() < FRAMES_MAX => inbox.frames.push_back(frame),
                Some(inbox) => {
                    inbox.dropped += 1;
                    shared.spare.push(frame.bytes);
                }
                None => shared.spare.push(frame.bytes),
            }
        }
    }

    fn receive(&mut self, _: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let mut count = 0;
        while count < BATCH_FRAMES {
            let mut shared = self.network.shared.lock();
            let inbox = shared.inboxes.get_mut(&self.address);
            let Some(frame) = inbox.and_then(|inbox| inbox.frames.pop_front()) else { break };
            drop(shared);
            let (from, to, bytes) = (frame.from, frame.to, &frame.bytes[..]);
            self.counters.frames_received += 1;
            self.counters.bytes_received += bytes.len() as u64;
            let identification = Identification::Seen(0);
            take(Incoming { from, to, bytes, identification, congestion: false });
            self.network.shared.lock().spare.push(frame.bytes);
            count += 1;
        }
        count
    }

    fn counters(&self) -> PortCounters {
        let shared = self.network.shared.lock();
        let frames_dropped = shared.inboxes.get(&self.address).map_or(0, |inbox| inbox.dropped);
        PortCounters { frames_dropped, ..self.counters }
    }
}
