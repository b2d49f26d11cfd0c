//! From a frame to its UDP datagram: removes link headers and tunnels, joins IP fragments.
//!
//! Fragments wait in a table of bounded size; when it is full, the one that waited longest is
//! dropped.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::ops::Range;

use etherparse::defrag::IpDefragBuf;
use etherparse::{IpNumber, IpSlice, Ipv6ExtensionSlice, UdpSlice};
use fluxline_core::{Moment, Span};

use super::CaptureCounters;
use super::check_sum::Carried;
use super::layers::{GRE, IP_IN_IP, IPV6_IN_IP, Link, in_tunnel, in_vxlan, ip_start};

/// Datagrams that wait for their fragments; each takes at most 64 KiB.
const WAITING_MAX: usize = 256;
/// A datagram that began more fragments ago than this is given up. An IPv4 identification repeats
/// after 65536 datagrams, and halves of different datagrams must never be joined.
const WAITING_FRAGMENTS_MAX: u64 = 4096;
/// Time after its first fragment from which on a datagram takes no more, for the same reason. RFC
/// 791 §3.2 proposes 15 s, RFC 8200 §4.5 allows 60 s; Linux waits for 30 s
/// (`net.ipv4.ipfrag_time`).
const WAITING_TIME_MAX: Span = Span::from_ms(30_000);

/// Most IP packets in one another; hostile frames could stack any number.
const TUNNELS_MAX: usize = 8;

/// The contents of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A UDP datagram.
    Udp {
        /// The sender.
        source: (IpAddr, u16),
        /// The destination port.
        destination_port: u16,
        /// The place of its payload: in the frame, or in [`Decap::joined`].
        payload: Range<usize>,
        /// It was joined from fragments.
        joined: bool,
    },
    /// Something else, which is counted.
    Other,
}

/// The identity of an IP packet, which its fragments share. Source: RFC 791 §3.2, RFC 8200 §4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FragmentKey {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    protocol: u8,
}

struct Waiting {
    buffer: IpDefragBuf,
    fragments: u64,
    /// Number of its first fragment in the capture.
    began: u64,
    began_time: Moment,
}

impl Waiting {
    /// Returns true when it began too long before `time`. A capture's times may also go backwards.
    fn is_old(&self, time: Moment) -> bool {
        time.since(self.began_time).max(self.began_time.since(time)) > WAITING_TIME_MAX
    }
}

/// A frame of a capture.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    /// The link type.
    pub link: i32,
    pub bytes: &'a [u8],
    pub time: Moment,
}

/// The treatment of UDP check sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckSums {
    /// Datagrams with a wrong one are dropped and counted.
    #[default]
    Check,
    /// They are not checked.
    Ignore,
}

/// Removes headers, and joins fragments.
#[derive(Default)]
pub(super) struct Decap {
    waiting: HashMap<FragmentKey, Waiting>,
    /// The keys, oldest first.
    order: VecDeque<FragmentKey>,
    /// Number of fragments so far.
    fragments: u64,
    joined: Vec<u8>,
    sections: Vec<etherparse::defrag::IpFragRange>,
    pub(super) check_sums: CheckSums,
    /// Ports whose datagrams are wanted as they are, even if they could be tunnels.
    pub(super) ports: Vec<u16>,
}

/// Bytes that hold an IP packet: the frame, or what was joined.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    all: &'a [u8],
    joined: bool,
    /// Number of tunnels around it.
    tunnels: usize,
    time: Moment,
}

/// The two ends of an IP packet, as the check sum of UDP has them.
struct Ends {
    source: IpAddr,
    destination: IpAddr,
}

impl Decap {
    /// Returns the datagram of a frame; other frames are counted.
    pub(super) fn find(&mut self, frame: Frame<'_>, counters: &mut CaptureCounters) -> Found {
        let Frame { link, bytes, time } = frame;
        let start = ip_start(link, bytes, counters);
        self.at(start, Bytes { all: bytes, joined: false, tunnels: 0, time }, counters)
    }

    fn at(&mut self, start: Link, bytes: Bytes<'_>, counters: &mut CaptureCounters) -> Found {
        match start {
            Link::Ip(start) => return self.ip(start, bytes, counters),
            Link::NotIp => counters.not_ip += 1,
            Link::Unknown => counters.unknown_link += 1,
            Link::Short => counters.malformed += 1,
        }
        Found::Other
    }

    /// Returns the datagram of the IP packet at `start`, also through tunnels.
    fn ip(&mut self, start: usize, bytes: Bytes<'_>, counters: &mut CaptureCounters) -> Found {
        // A frame may end before its link's header does.
        let Some(Ok(ip)) = bytes.all.get(start..).map(IpSlice::from_slice) else {
            counters.malformed += 1;
            return Found::Other;
        };
        let protocol = ip.payload_ip_number();
        if protocol != IpNumber::UDP && ![IP_IN_IP, IPV6_IN_IP, GRE].contains(&protocol.0) {
            counters.not_udp += 1;
            return Found::Other;
        }
        let ends = Ends { source: ip.source_addr(), destination: last_destination(&ip) };
        if ip.is_fragmenting_payload() {
            counters.ip_fragments += 1;
            if !self.join(&ip, bytes.time, counters) {
                return Found::Other;
            }
            let joined = std::mem::take(&mut self.joined);
            let inner = Bytes { all: &joined, joined: true, ..bytes };
            let found = self.inside(protocol, &ends, inner, &joined, counters);
            // Unless another one was joined inside, the datagram lies in this one.
            if self.joined.is_empty() {
                self.joined = joined;
            }
            return found;
        }
        self.inside(protocol, &ends, bytes, ip.payload().payload, counters)
    }

    /// Returns the datagram in what an IP packet carries.
    fn inside(
        &mut self,
        protocol: IpNumber,
        ends: &Ends,
        bytes: Bytes<'_>,
        payload: &[u8],
        counters: &mut CaptureCounters,
    ) -> Found {
        let Ends { source, destination } = *ends;
        let offset = offset_in(bytes.all, payload);
        if protocol != IpNumber::UDP {
            let start = in_tunnel(protocol.0, payload, counters);
            return self.in_tunnel(start, offset, bytes, counters);
        }
        let carried = Carried { source, destination, udp: payload };
        let found = self.udp(&carried, Place { offset, joined: bytes.joined }, counters);
        let Found::Udp { destination_port, payload: place, .. } = &found else { return found };
        let payload = bytes.all.get(place.clone()).unwrap_or_default();
        if self.ports.contains(destination_port) {
            return found;
        }
        match in_vxlan(*destination_port, payload, counters) {
            Some(start) => self.in_tunnel(start, place.start, bytes, counters),
            None => found,
        }
    }

    /// Goes on with the packet in a tunnel, whose contents begin at `offset`.
    fn in_tunnel(
        &mut self,
        start: Link,
        offset: usize,
        bytes: Bytes<'_>,
        counters: &mut CaptureCounters,
    ) -> Found {
        let start = match start {
            Link::Ip(_) if bytes.tunnels >= TUNNELS_MAX => Link::NotIp,
            Link::Ip(start) => Link::Ip(offset + start),
            other => other,
        };
        self.at(start, Bytes { tunnels: bytes.tunnels + 1, ..bytes }, counters)
    }

    /// Returns the datagram in `carried`; one that contradicts itself is counted.
    fn udp(&self, carried: &Carried<'_>, place: Place, counters: &mut CaptureCounters) -> Found {
        let Ok(udp) = UdpSlice::from_slice(carried.udp) else {
            counters.malformed += 1;
            return Found::Other;
        };
        let whole = Carried { udp: udp.slice(), ..*carried };
        if self.check_sums == CheckSums::Check && !whole.is_credible() {
            counters.check_sum_wrong += 1;
            return Found::Other;
        }
        let start = place.offset + offset_in(carried.udp, udp.payload());
        Found::Udp {
            source: (carried.source, udp.source_port()),
            destination_port: udp.destination_port(),
            payload: start..start + udp.payload().len(),
            joined: place.joined,
        }
    }

    /// Returns the bytes that were joined last: what an IP packet carries.
    pub(super) fn joined(&self) -> &[u8] {
        &self.joined
    }

    /// Returns the number of fragments that still wait for others.
    pub(super) fn fragments_waiting(&self) -> u64 {
        self.order.iter().filter_map(|key| self.waiting.get(key)).map(|of| of.fragments).sum()
    }

    /// Takes a fragment; `true`: it was the last part of what is now in [`Decap::joined`].
    fn join(&mut self, ip: &IpSlice<'_>, time: Moment, counters: &mut CaptureCounters) -> bool {
        let Some((identification, offset, more)) = fragment_of(ip) else {
            counters.malformed += 1;
            return false;
        };
        let key = FragmentKey {
            source: ip.source_addr(),
            destination: ip.destination_addr(),
            identification,
            protocol: ip.payload_ip_number().0,
        };
        self.fragments += 1;
        self.give_up_old(time, counters);
        if self.waiting.get(&key).is_some_and(|of| of.is_old(time)) {
            counters.fragments_left += self.forget(&key);
        }
        let payload = ip.payload().payload;
        let at = usize::from(offset.byte_offset());
        if self.waiting.get(&key).is_some_and(|of| contradicts(&of.buffer, at, more, payload)) {
            // One of the two is not of this datagram, and nothing shows which. So both are given
            // up: the new one may begin another datagram, and the earlier one is useless. Source:
            // RFC 5722 §3.
            counters.fragments_conflicting += self.forget(&key);
        }
        if !self.waiting.contains_key(&key) {
            self.make_room(counters);
            let memory = std::mem::take(&mut self.joined);
            let sections = std::mem::take(&mut self.sections);
            let buffer = IpDefragBuf::new(ip.payload_ip_number(), memory, sections);
            let began = self.fragments;
            self.waiting.insert(key, Waiting { buffer, fragments: 0, began, began_time: time });
            self.order.push_back(key);
        }
        let Some(waiting) = self.waiting.get_mut(&key) else { return false };
        if waiting.buffer.add(offset, more, payload).is_err() {
            counters.fragments_conflicting += 1;
            return false;
        }
        waiting.fragments += 1;
        if !waiting.buffer.is_complete() {
            return false;
        }
        self.order.retain(|other| *other != key);
        let Some(complete) = self.waiting.remove(&key) else { return false };
        (self.joined, self.sections) = complete.buffer.take_bufs();
        counters.reassembled += 1;
        true
    }

    /// Drops datagrams that waited too long for their other parts.
    fn give_up_old(&mut self, time: Moment, counters: &mut CaptureCounters) {
        while let Some(oldest) = self.order.front().copied() {
            let is_young = |of: &Waiting| {
                self.fragments - of.began <= WAITING_FRAGMENTS_MAX && !of.is_old(time)
            };
            if self.waiting.get(&oldest).is_some_and(is_young) {
                return;
            }
            counters.fragments_left += self.forget(&oldest);
        }
    }

    /// Drops one datagram; returns the number of its fragments that had come.
    fn forget(&mut self, key: &FragmentKey) -> u64 {
        self.order.retain(|other| other != key);
        self.waiting.remove(key).map_or(0, |gone| gone.fragments)
    }

    fn make_room(&mut self, counters: &mut CaptureCounters) {
        while self.waiting.len() >= WAITING_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            let gone = self.waiting.remove(&oldest);
            counters.fragments_left += gone.map_or(0, |gone| gone.fragments);
        }
    }
}

/// Returns true if a fragment and the earlier ones cannot belong to one datagram: different bytes
/// at one place, or bytes beyond its end. A repeated fragment does not contradict.
fn contradicts(before: &IpDefragBuf, at: usize, more: bool, payload: &[u8]) -> bool {
    let end = at + payload.len();
    if before
        .end()
        .is_some_and(|last| end > usize::from(last) || (!more && end != usize::from(last)))
    {
        return true;
    }
    before.sections().iter().any(|section| {
        let (from, to) = (at.max(section.start.into()), end.min(section.end.into()));
        let differs = from < to && before.data().get(from..to) != payload.get(from - at..to - at);
        differs || (!more && usize::from(section.end) > end)
    })
}

/// Returns the address that the check sum has: the last one of a routing header, if the packet has
/// not reached it. Sources: RFC 8200 §8.1, RFC 5095, RFC 8754 §2.
fn last_destination(ip: &IpSlice<'_>) -> IpAddr {
    const TYPE_0: u8 = 0;
    const SEGMENTS: u8 = 4;
    let IpSlice::Ipv6(v6) = ip else { return ip.destination_addr() };
    let routed = v6.extensions().clone().into_iter().find_map(|extension| {
        let Ipv6ExtensionSlice::Routing(routing) = extension else { return None };
        let bytes = routing.slice();
        let [_, _, kind, left, ..] = *bytes else { return None };
        let addresses = bytes.get(8..)?.as_chunks::<16>().0;
        let address = match kind {
            _ if left == 0 => None,
            TYPE_0 => addresses.last(),
            // The segments are in reverse order, and other data may follow them.
            SEGMENTS => addresses.first(),
            _ => None,
        };
        address.map(|address| IpAddr::from(*address))
    });
    routed.unwrap_or_else(|| ip.destination_addr())
}

/// Returns identification, offset and whether more follow, of an IP fragment.
fn fragment_of(ip: &IpSlice<'_>) -> Option<(u32, etherparse::IpFragOffset, bool)> {
    match ip {
        IpSlice::Ipv4(v4) => {
            let header = v4.header();
            let identification = header.identification().into();
            Some((identification, header.fragments_offset(), header.more_fragments()))
        }
        IpSlice::Ipv6(v6) => v6.extensions().clone().into_iter().find_map(|extension| {
            let Ipv6ExtensionSlice::Fragment(fragment) = extension else { return None };
            let header = fragment.to_header();
            Some((header.identification, header.fragment_offset, header.more_fragments))
        }),
    }
}

/// The place of a UDP datagram.
#[derive(Clone, Copy)]
struct Place {
    /// Its start.
    offset: usize,
    /// In [`Decap::joined`], instead of the frame.
    joined: bool,
}

/// Returns the start of `part`, a part of `whole`, in it.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize).min(whole.len())
}
