//! Frames in tunnels, and IPv6 packets on their way through a list of addresses.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use super::{CaptureCounters, CaptureReader};

/// Ethernet addresses before an EtherType.
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
const PAYLOAD: &[u8] = b"sixteen bytes ..";

fn be(word: u16) -> [u8; 2] {
    word.to_be_bytes()
}

/// A UDP datagram without a check sum.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = be(8 + payload.len() as u16);
    [&be(6006)[..], &be(port), &length, &[0, 0], payload].concat()
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_part(protocol, payload, 0)
}

/// An IPv4 packet with this word of flags and offset.
fn ipv4_part(protocol: u8, payload: &[u8], fragment: u16) -> Vec<u8> {
    let length = be(20 + payload.len() as u16);
    let start = [&[0x45, 0][..], &length, &[0, 7], &be(fragment), &[64, protocol, 0, 0]];
    [&start.concat()[..], &[10, 0, 0, 1], &[10, 0, 0, 2], payload].concat()
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ADDRESSES[..], &be(ether_type), payload].concat()
}

/// The datagram that all tunnels here carry, in IPv4 and in a frame.
fn inner_packet() -> Vec<u8> {
    ipv4(17, &udp(5000, PAYLOAD))
}

fn inner_frame() -> Vec<u8> {
    ethernet(0x0800, &inner_packet())
}

/// A GRE header of these flags, its options left 0.
fn gre(flags: u16, protocol: u16, payload: &[u8]) -> Vec<u8> {
    let options = 4 * (flags & 0xB000).count_ones() as usize;
    ipv4(47, &[&be(flags)[..], &be(protocol), &vec![0; options], payload].concat())
}

fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
    for frame in frames {
        let length = (frame.len() as u32).to_le_bytes();
        file.extend([&[0; 8][..], &length, &length, frame].concat());
    }
    file
}

/// The payloads of all datagrams, and the counters.
fn read(file: Vec<u8>, ports: &[u16]) -> (Vec<Vec<u8>>, CaptureCounters) {
    let mut reader = CaptureReader::new(Path::new("memory"), Cursor::new(file)).expect("a capture");
    reader.only_ports(ports);
    let mut all = Vec::new();
    while let Some(datagram) = reader.next().expect("a good file") {
        all.push(datagram.bytes.to_vec());
    }
    (all, reader.counters().clone())
}

fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FLUXLINE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("cases/true").join(name);
    if !path.exists() {
        println!("skipped: {name} is not there (optional test data shared/cases)");
        return None;
    }
    Some(path)
}

type Kind = fn(&CaptureCounters) -> u64;

#[test]
fn a_datagram_in_a_tunnel_is_found_and_the_tunnel_is_counted_by_its_kind() {
    let erspan_ii = [&[0x10, 1, 0, 0, 0, 0, 0, 0][..], &inner_frame()].concat();
    let erspan_iii = |last: u8, more: usize| {
        let header = [0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        [&header[..], &vec![0; more], &inner_frame()].concat()
    };
    let vxlan = |flags: u8, protocol: u8, inside: &[u8]| {
        let payload = [&[flags, 0, 0, protocol, 0, 0, 5, 0][..], inside].concat();
        ipv4(17, &udp(4789, &payload))
    };
    let labels = [0, 1, 0, 64, 0, 2, 1, 64];
    let session = [0x11, 0, 0, 1, 0, 52, 0, 0x21];
    let ip = |packet: Vec<u8>| ethernet(0x0800, &packet);
    let cases: [(&str, Vec<u8>, Kind); 16] = [
        ("ERSPAN I", ip(gre(0, 0x88BE, &inner_frame())), |c| c.erspan),
        ("ERSPAN II", ip(gre(0x1000, 0x88BE, &erspan_ii)), |c| c.erspan),
        ("ERSPAN III", ip(gre(0x1000, 0x22EB, &erspan_iii(0, 0))), |c| c.erspan),
        ("ERSPAN III, long", ip(gre(0x1000, 0x22EB, &erspan_iii(1, 8))), |c| c.erspan),
        ("GRE", ip(gre(0, 0x0800, &inner_packet())), |c| c.gre),
        ("GRE with all options", ip(gre(0xB000, 0x0800, &inner_packet())), |c| c.gre),
        ("GRE of Ethernet", ip(gre(0x2000, 0x6558, &inner_frame())), |c| c.gre),
        ("VXLAN", ip(vxlan(8, 0, &inner_frame())), |c| c.vxlan),
        ("VXLAN that names Ethernet", ip(vxlan(12, 3, &inner_frame())), |c| c.vxlan),
        ("VXLAN that names IP", ip(vxlan(12, 1, &inner_packet())), |c| c.vxlan),
        ("IP in IP", ip(ipv4(4, &inner_packet())), |c| c.ip_in_ip),
        ("MPLS", ethernet(0x8847, &[&labels[..], &inner_packet()].concat()), |c| c.mpls),
        (
            "Ethernet over MPLS",
            ethernet(0x8847, &[&labels[..], &[0; 4], &inner_frame()].concat()),
            |c| c.mpls,
        ),
        ("PPPoE", ethernet(0x8864, &[&session[..], &inner_packet()].concat()), |c| c.pppoe),
        ("MPLS in GRE", ip(gre(0, 0x8847, &[&labels[..], &inner_packet()].concat())), |c| {
            c.gre * c.mpls
        }),
        (
            "VLAN in ERSPAN in VLAN",
            ethernet(0x8100, &[&[0, 5, 8, 0][..], &gre(0, 0x88BE, &inner_frame())].concat()),
            |c| c.erspan,
        ),
    ];
    for (name, frame, kind) in &cases {
        let (all, counters) = read(capture(std::slice::from_ref(frame)), &[]);
        assert_eq!(all, [PAYLOAD], "{name}: {counters:?}");
        assert_eq!((kind(&counters), counters.datagrams), (1, 1), "{name}: {counters:?}");
        // Whatever a frame is cut to, it is counted once, and never read beyond its end.
        for length in 0..frame.len() {
            let (cut, counters) = read(capture(&[frame[..length].to_vec()]), &[]);
            assert!(cut.is_empty(), "{name} cut to {length}");
            let kinds = counters.other_traffic() + counters.malformed + counters.check_sum_wrong;
            assert_eq!(kinds, 1, "{name} cut to {length}: {counters:?}");
        }
    }
}

#[test]
fn a_board_that_sends_to_the_port_of_vxlan_is_read_as_it_is() {
    let payload = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &inner_frame()].concat();
    let file = capture(&[ethernet(0x0800, &ipv4(17, &udp(4789, &payload)))]);
    assert_eq!(read(file.clone(), &[]).0, [PAYLOAD]);
    assert_eq!(read(file.clone(), &[5000]).0, [PAYLOAD]);
    assert_eq!(read(file, &[4789]).0, [payload]);
    let counter = [9, 1, 2, 3, 4, 5, 6, 7];
    let file = capture(&[ethernet(0x0800, &ipv4(17, &udp(4789, &counter)))]);
    assert_eq!(read(file, &[]).0, [counter]);
}

#[test]
fn fragments_of_a_tunnel_and_fragments_in_it_are_joined() {
    let inner = udp(5000, &[0xAB; 1000]);
    let halves = |protocol: u8, payload: &[u8], cut: usize| {
        let (first, second) = payload.split_at(cut / 8 * 8);
        let offset = (cut / 8) as u16;
        [ipv4_part(protocol, first, 0x2000), ipv4_part(protocol, second, offset)]
    };
    let outside = halves(47, &gre(0, 0x0800, &ipv4(17, &inner))[20..], 504);
    let (all, counters) = read(capture(&outside.map(|packet| ethernet(0x0800, &packet))), &[]);
    assert_eq!((all.len(), counters.reassembled, counters.gre), (1, 1, 1), "{counters:?}");
    assert_eq!(all[0], [0xAB; 1000]);
    let inside = halves(17, &inner, 504).map(|packet| ethernet(0x0800, &gre(0, 0x0800, &packet)));
    let (all, counters) = read(capture(&inside), &[]);
    assert_eq!((all.len(), counters.reassembled, counters.gre), (1, 1, 2), "{counters:?}");
    assert_eq!(all[0], [0xAB; 1000]);
}

#[test]
fn tunnels_without_end_are_no_datagram() {
    let mut packet = inner_packet();
    for _ in 0..40 {
        packet = ipv4(4, &packet);
    }
    let (all, counters) = read(capture(&[ethernet(0x0800, &packet)]), &[]);
    assert!(all.is_empty());
    assert_eq!(counters.other_traffic(), 1);
}

/// An IPv6 packet with a routing header, whose check sum has the last address.
fn routed(kind: u8, left: u8, addresses: [u8; 2], last: u8) -> Vec<u8> {
    let address = |number: u8| [&[0xFD; 15][..], &[number]].concat();
    let udp = udp(5000, PAYLOAD);
    let mut words = [address(1), address(last), udp.clone()].concat();
    words.extend(be(17));
    words.extend(be(udp.len() as u16));
    let sum: u32 = words.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    let sum = !((sum & 0xFFFF) + (sum >> 16));
    let udp = [&udp[..6], &be(sum as u16), &udp[8..]].concat();
    let routing = [&[17, 4, kind, left, 1, 0, 0, 0][..], &addresses.map(address).concat()].concat();
    let start = [&[0x60, 0, 0, 0][..], &be((routing.len() + udp.len()) as u16), &[43, 64]].concat();
    ethernet(0x86DD, &[start, address(1), address(9), routing, udp].concat())
}

#[test]
fn the_check_sum_of_a_routed_ipv6_packet_has_its_last_destination() {
    for (kind, left, last) in [(0, 2, 6), (0, 1, 6), (0, 0, 9), (4, 1, 5), (4, 0, 9), (7, 1, 9)] {
        let (all, counters) = read(capture(&[routed(kind, left, [5, 6], last)]), &[]);
        assert_eq!(all, [PAYLOAD], "type {kind}, {left} left: {counters:?}");
        let (all, counters) = read(capture(&[routed(kind, left, [5, 6], 7)]), &[]);
        assert!(all.is_empty());
        assert_eq!(counters.check_sum_wrong, 1, "type {kind}, {left} left");
    }
}

#[test]
fn captures_of_mirror_ports_and_of_routed_packets_are_read() {
    let kinds: [(&str, u64, Kind); 7] = [
        ("erspan2.pcap", 100, |c| c.erspan),
        ("gre_ip.pcap", 100, |c| c.gre),
        ("mpls.pcap", 100, |c| c.mpls),
        ("pppoe.pcap", 100, |c| c.pppoe),
        ("vxlan.pcap", 100, |c| c.vxlan),
        ("ipv6-routing-header.pcap", 2, |c| c.datagrams),
        ("ipv6-srh-insert-cksum.pcap", 1, |c| c.datagrams),
    ];
    for (name, datagrams, kind) in kinds {
        let Some(path) = shared(name) else { continue };
        let mut reader = CaptureReader::open(&path).expect("a capture");
        let mut count = 0;
        while reader.next().expect("a good file").is_some() {
            count += 1;
        }
        let counters = reader.counters();
        assert_eq!((count, kind(counters)), (datagrams, datagrams), "{name}: {counters:?}");
    }
}
