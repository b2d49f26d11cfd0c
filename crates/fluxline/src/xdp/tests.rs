//! Headers written and read back, damaged headers, and the steering program, run by the kernel.

use std::net::{IpAddr, SocketAddr};

use fluxline_core::port::Identification;

use super::frame::{Ends, Head, Malformed, Marking, Unfinished, finish_checksum, parse};
use super::netlink::tests_only::parse_anything;
use super::steer;

const SOURCE_PORT: u16 = 4791;

fn ends(source: &str, target: &str) -> Ends {
    Ends {
        source_mac: [2, 0, 0, 0, 0, 1],
        target_mac: [2, 0, 0, 0, 0, 2],
        source: source.parse().unwrap(),
        target: target.parse().unwrap(),
        source_port: SOURCE_PORT,
    }
}

fn pairs() -> [Ends; 2] {
    [ends("10.1.2.3", "10.1.2.4"), ends("fd00::1", "fd00::2")]
}

/// A whole frame to port 4791 with a payload of that length.
fn frame(ends: &Ends, payload: usize) -> Vec<u8> {
    let head = Head::new(ends, Marking::Able).unwrap();
    let mut frame: Vec<u8> = (0..head.len() + payload).map(|at| (at * 31) as u8).collect();
    head.write(&mut frame, SOURCE_PORT, payload);
    finish_checksum(&mut frame, head.len());
    frame
}

fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend_from_slice(&[0x81, 0x00]);
    tagged.extend_from_slice(&tag.to_be_bytes());
    tagged.extend_from_slice(&frame[12..]);
    tagged
}

#[test]
fn what_is_written_is_read_back() {
    for ends in pairs() {
        for payload in [1, 2, 3, 4, 5, 63, 1452, 8952, 65_507 - 20] {
            let frame = frame(&ends, payload);
            let head_bytes = frame.len() - payload;
            for (frame, shift) in [(frame.clone(), 0), (tagged(&frame, 0x6000), 4)] {
                let parsed = parse(&frame, Unfinished::Refuse, 7).unwrap();
                assert_eq!(parsed.from, SocketAddr::new(ends.source, SOURCE_PORT));
                assert_eq!(parsed.to, SocketAddr::new(ends.target, SOURCE_PORT));
                assert_eq!(parsed.payload, head_bytes + shift..frame.len());
                let expected = match ends.source.is_ipv4() {
                    true => Identification::Seen(0),
                    false => Identification::Likely(0),
                };
                assert_eq!(parsed.identification, expected);
                assert!(!parsed.congestion);
            }
        }
    }
    assert!(Head::new(&ends("10.1.2.3", "fd00::2"), Marking::Able).is_none());
}

#[test]
fn the_checksums_are_those_of_another_implementation() {
    // Computed by scapy 2.8.0 for: IP(src="10.1.2.3", dst="10.1.2.4", id=0, flags="DF", tos=2) and
    // IPv6(src="fd00::1", dst="fd00::2", tc=2, hlim=64) / UDP(4791, 4791) / b"fluxline!".
    let [v4, v6] = pairs().map(|ends| {
        let head = Head::new(&ends, Marking::Able).unwrap();
        let mut frame = vec![0; head.len()];
        frame.extend_from_slice(b"fluxline!");
        head.write(&mut frame, SOURCE_PORT, 9);
        finish_checksum(&mut frame, head.len());
        frame
    });
    assert_eq!((&v4[24..26], &v4[40..42]), (&[0x22, 0xbe][..], &[0xea, 0xa1][..]));
    assert_eq!(&v6[60..62], &[0x08, 0xa6]);
}

#[test]
fn every_damaged_byte_of_ip_and_udp_is_noticed() {
    for ends in pairs() {
        let good = frame(&ends, 33);
        for at in 12..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let found = parse(&bad, Unfinished::Refuse, 0);
            // No checksum covers traffic class, flow label and hop limit of IPv6.
            let is_free = ends.source.is_ipv6() && ((14..18).contains(&at) || at == 21);
            assert_eq!(found.is_ok(), is_free && at > 14, "byte {at}: {found:?}");
        }
    }
}

#[test]
fn frames_cut_anywhere_and_bytes_of_any_kind_never_panic() {
    let mut state = 0x5EED_u64;
    for ends in pairs() {
        let good = frame(&ends, 40);
        for len in 0..good.len() {
            assert!(parse(&good[..len], Unfinished::Accept, 0).is_err(), "{len} bytes");
        }
        for _ in 0..50_000 {
            let mut bytes = good.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 56) as u8;
            }
            bytes.truncate((state >> 20) as usize % (bytes.len() + 1));
            let _ = parse(&bytes, Unfinished::Accept, 0);
            parse_anything(&bytes);
        }
    }
}

#[test]
fn a_frame_padded_to_sixty_bytes_loses_its_padding() {
    let ends = &pairs()[0];
    let mut short = frame(ends, 3);
    short.resize(60, 0xaa);
    assert_eq!(parse(&short, Unfinished::Refuse, 0).unwrap().payload, 42..45);
}

#[test]
fn checksums_may_be_absent_and_unfinished_where_accepted() {
    let [v4, v6] = pairs().map(|ends| frame(&ends, 100));
    let with = |frame: &[u8], at: usize, sum: [u8; 2]| {
        let mut changed = frame.to_vec();
        changed[at..at + 2].copy_from_slice(&sum);
        changed
    };
    assert!(parse(&with(&v4, 40, [0, 0]), Unfinished::Refuse, 0).is_ok());
    assert!(parse(&with(&v6, 60, [0, 0]), Unfinished::Refuse, 0).is_ok(), "as rdma_rxe sends");
    // 10.1.2.3 + 10.1.2.4 + UDP + length 108, by hand.
    let sum = 0x0a01_u32 + 0x0203 + 0x0a01 + 0x0204 + 17 + 108;
    let unfinished = with(&v4, 40, (sum as u16).to_be_bytes());
    assert!(parse(&unfinished, Unfinished::Accept, 0).is_ok());
    assert_eq!(parse(&unfinished, Unfinished::Refuse, 0), Err(Malformed::Checksum));
    let mut damaged = unfinished;
    damaged[23] = 6;
    assert_eq!(parse(&damaged, Unfinished::Accept, 0), Err(Malformed::NotUdp));
}

#[test]
fn only_congestion_experienced_is_congestion() {
    for ends in pairs() {
        let mut marked = frame(&ends, 8);
        if ends.source.is_ipv4() {
            marked[15] |= 3;
            // The sum of the IPv4 header, one less in its lowest bit.
            let sum = u16::from_be_bytes([marked[24], marked[25]]) - 1;
            marked[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            marked[15] |= 3 << 4;
        }
        assert!(parse(&marked, Unfinished::Refuse, 0).unwrap().congestion);
    }
}

/// The kernel's actions; a drop stands for "to the socket", for the map is empty.
const STEERED: u32 = 1;
const PASSED: u32 = 2;

/// Runs the program over frames; returns `None`, with a printed line, if the kernel does not allow
/// it.
fn verdicts(addresses: &[IpAddr], frames: &[Vec<u8>]) -> Option<Vec<u32>> {
    match steer::tests_only::verdicts(addresses, SOURCE_PORT, STEERED, frames) {
        Ok(verdicts) => Some(verdicts),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: the kernel loads programs for root only");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_program_takes_our_datagrams_and_nothing_else() {
    let [v4, v6] = pairs();
    let addresses: Vec<IpAddr> = ["192.168.255.1", "10.1.2.4", "fd00::2:0:0:1", "fd00::2"]
        .map(|text| text.parse().unwrap())
        .into();
    let mut cases = Vec::new();
    for ends in [v4, v6] {
        let good = frame(&ends, 30);
        let is_v4 = ends.source.is_ipv4();
        cases.push((STEERED, "ours", good.clone()));
        cases.push((STEERED, "one byte", frame(&ends, 1)));
        cases.push((STEERED, "a priority tag", tagged(&good, 0xe000)));
        cases.push((PASSED, "another VLAN", tagged(&good, 0xe001)));
        cases.push((PASSED, "two tags", tagged(&tagged(&good, 0), 0)));
        // Each changes a byte: offset in IPv4, offset in IPv6, new byte.
        let changes = [
            ("another type", 13, 13, 0x06),
            ("options or another version", 14, 14, 0x46),
            ("TCP", 23, 20, 6),
            ("another port", 36, 56, 0x13),
            ("another address", 33, 53, 0x77),
            ("another address, first byte", 30, 38, 0xc0),
        ];
        for (what, at_v4, at_v6, byte) in changes {
            let mut changed = good.clone();
            changed[if is_v4 { at_v4 } else { at_v6 }] = byte;
            cases.push((PASSED, what, changed));
        }
        if is_v4 {
            for (what, expected, flags) in [
                ("more fragments", PASSED, [0x20, 0x00]),
                ("a later fragment", PASSED, [0x00, 0x01]),
                ("may be fragmented, but is not", STEERED, [0x00, 0x00]),
            ] {
                let mut changed = good.clone();
                changed[20..22].copy_from_slice(&flags);
                cases.push((expected, what, changed));
            }
        }
        let heads = good.len() - 30;
        for len in 14..heads {
            cases.push((PASSED, "cut in its headers", good[..len].to_vec()));
        }
    }
    let frames: Vec<Vec<u8>> = cases.iter().map(|(_, _, frame)| frame.clone()).collect();
    let Some(verdicts) = verdicts(&addresses, &frames) else { return };
    for ((expected, what, frame), verdict) in cases.iter().zip(verdicts) {
        assert_eq!(verdict, *expected, "{what}: {frame:02x?}");
    }
}

#[test]
fn the_program_loads_with_one_family_and_with_as_many_addresses_as_fit() {
    let ends = &pairs()[0];
    let many: Vec<IpAddr> = (0..steer::ADDRESSES_MAX as u8)
        .map(|last| if last % 2 == 0 { [10, 1, 2, last].into() } else { [9; 16].into() })
        .collect();
    for addresses in [&many[..1], &many[1..2], &many[..]] {
        let Some(verdicts) = verdicts(addresses, &[frame(ends, 5)]) else { return };
        let is_ours = addresses.contains(&ends.target);
        assert_eq!(verdicts, [if is_ours { STEERED } else { PASSED }]);
    }
}
