//! A port that shows every frame to a function, as a record of a pcap file.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{Incoming, Outgoing, Port, PortCounters, PortLimits};
use crate::Moment;

/// The header of a pcap file with nanosecond times and raw IP packets (LINKTYPE_RAW, 101),
/// little-endian. Source: the pcap file format, draft-ietf-opsawg-pcap.
pub const PCAP_HEADER: [u8; 24] =
    [0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
const UDP_PROTOCOL: u8 = 17;
const HOP_LIMIT: u8 = 64;

/// The port `inner`; the function `shown` gets its sent and received frames as pcap records.
pub struct Tap<P, F> {
    inner: P,
    shown: F,
    /// Frames not yet given to `inner`, where their bytes can no longer be read.
    staged: Vec<(SocketAddr, Vec<u8>)>,
    record: Vec<u8>,
}

impl<P: Port, F: FnMut(&[u8])> Tap<P, F> {
    /// Puts a tap on `inner`.
    #[must_use]
    pub fn new(inner: P, shown: F) -> Tap<P, F> {
        Tap { inner, shown, staged: Vec::new(), record: Vec::new() }
    }
}

/// A frame with the parts of its headers that a record shows.
struct TappedFrame<'a> {
    from: SocketAddr,
    to: SocketAddr,
    /// The identification of the IPv4 header.
    identification: u16,
    bytes: &'a [u8],
}

/// Appends the pcap record of a frame, with an IPv4 or IPv6 header and a UDP header made for it.
fn append_record(record: &mut Vec<u8>, now: Moment, frame: &TappedFrame<'_>) {
    let TappedFrame { from, to, identification, bytes } = *frame;
    let udp_bytes = bytes.len() + 8;
    let ip_bytes = if from.is_ipv4() { 20 } else { 40 };
    let all = (udp_bytes + ip_bytes) as u32;
    for word in [(now.as_ns() / 1_000_000_000) as u32, (now.as_ns() % 1_000_000_000) as u32] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    record.extend_from_slice(&all.to_le_bytes());
    record.extend_from_slice(&all.to_le_bytes());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, 0];
            header.extend_from_slice(&(all as u16).to_be_bytes());
            header.extend_from_slice(&identification.to_be_bytes());
            header.extend_from_slice(&[0x40, 0, HOP_LIMIT, UDP_PROTOCOL, 0, 0]);
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
            let sum = ones_complement_sum(&header);
            header[10..12].copy_from_slice(&(!sum).to_be_bytes());
            record.extend_from_slice(&header);
        }
        (source, destination) => {
            record.extend_from_slice(&[0x60, 0, 0, 0]);
            record.extend_from_slice(&(udp_bytes as u16).to_be_bytes());
            record.extend_from_slice(&[UDP_PROTOCOL, HOP_LIMIT]);
            record.extend_from_slice(&ipv6(source));
            record.extend_from_slice(&ipv6(destination));
        }
    }
    for word in [from.port(), to.port(), udp_bytes as u16, 0] {
        record.extend_from_slice(&word.to_be_bytes());
    }
    record.extend_from_slice(bytes);
}

fn ipv6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the checksum of an IPv4 header before its last inversion. Source: RFC 1071.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let [high, low] = [pair[0], pair.get(1).copied().unwrap_or(0)];
        u32::from(u16::from_be_bytes([high, low]))
    });
    let sum: u32 = words.sum();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

impl<P: Port, F: FnMut(&[u8])> Tap<P, F> {
    fn show(&mut self, now: Moment, frame: &TappedFrame<'_>) {
        self.record.clear();
        append_record(&mut self.record, now, frame);
        (self.shown)(&self.record);
    }
}

impl<P: Port, F: FnMut(&[u8]) + Send> Port for Tap<P, F> {
    fn limits(&self) -> &PortLimits {
        self.inner.limits()
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        self.inner.local(peer)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        // Frames are sent one by one, so that the shown identification is the one that is sent.
        if bytes == 0 || bytes > self.limits().frame_bytes_max || !self.staged.is_empty() {
            return None;
        }
        self.staged.push((to, vec![0; bytes]));
        let (_, frame) = self.staged.last_mut()?;
        Some(Outgoing { bytes: frame, identification: 0 })
    }

    fn flush(&mut self, now: Moment) {
        for (to, frame) in core::mem::take(&mut self.staged) {
            if let Some(out) = self.inner.frame(to, frame.len()) {
                out.bytes.copy_from_slice(&frame);
            }
            self.inner.flush(now);
            if let Some(from) = self.inner.local(to.ip()) {
                self.show(now, &TappedFrame { from, to, identification: 0, bytes: &frame });
            }
        }
        self.inner.flush(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        let Tap { inner, shown, record, .. } = self;
        inner.receive(now, &mut |frame| {
            let Incoming { from, to, bytes, .. } = frame;
            let identification = frame.identification.value();
            record.clear();
            append_record(record, now, &TappedFrame { from, to, identification, bytes });
            shown(record);
            take(frame);
        })
    }

    fn refused(&mut self) -> Option<SocketAddr> {
        self.inner.refused()
    }

    fn deadline(&self) -> Option<Moment> {
        self.inner.deadline()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}
