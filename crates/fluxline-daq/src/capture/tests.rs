//! Captures: real ones against their ground truth, cut ones, hostile ones, written ones.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_proto::{Moment, Span};
use proptest::prelude::*;

use super::raw::{Framing, RawReader};
use super::replay::{Pace, Speed};
use super::writer::CaptureWriter;
use super::{CaptureCounters, CaptureReader};

/// One datagram, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    sender: String,
    port: u16,
    bytes: Vec<u8>,
    time: Moment,
}

fn read_all(mut reader: CaptureReader) -> (Vec<Owned>, CaptureCounters, Option<String>) {
    let mut all = Vec::new();
    while let Ok(Some(datagram)) = reader.next() {
        all.push(Owned {
            sender: datagram.sender.to_string(),
            port: datagram.port,
            bytes: datagram.bytes.to_vec(),
            time: datagram.time,
        });
    }
    (all, reader.counters().clone(), reader.cut())
}

fn from_bytes(bytes: Vec<u8>) -> Option<(Vec<Owned>, CaptureCounters, Option<String>)> {
    CaptureReader::new(Path::new("memory"), Cursor::new(bytes)).ok().map(read_all)
}

fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FLUXLINE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("captures").join(name);
    if !path.exists() {
        println!("skipped: {name} is not there (optional test data shared/captures)");
        return None;
    }
    Some(path)
}

fn load(name: &str) -> Option<(Vec<Owned>, CaptureCounters)> {
    let reader = CaptureReader::open(&shared(name)?).expect("a capture");
    let (all, counters, cut) = read_all(reader);
    assert_eq!(cut, None);
    Some((all, counters))
}

#[test]
fn real_fec_captures_hold_what_the_ground_truth_says() {
    let Some((all, counters)) = load("vmm-sdat/example.pcapng") else { return };
    assert_eq!((all.len(), counters.frames), (100, 100));
    for fec in ["10.0.0.1:6006", "10.0.0.2:6006"] {
        let of_fec: Vec<_> = all.iter().filter(|datagram| datagram.sender == fec).collect();
        assert_eq!(of_fec.len(), 50, "{fec}");
        assert!(of_fec.iter().all(|datagram| datagram.bytes.len() == 8968));
        assert!(of_fec.iter().all(|datagram| datagram.port == 6006));
    }
    let (pad, _) = load("vmm-sdat/example_pad.pcapng").expect("beside the other");
    assert_eq!(pad.len(), 20);
}

#[test]
fn frames_of_other_protocols_are_counted_and_not_an_error() {
    let Some((all, counters)) = load("vmm-sdat/example_triggered_mode.pcapng") else { return };
    let data: Vec<_> = all.iter().filter(|datagram| datagram.port == 6006).collect();
    assert_eq!(data.len(), 35);
    assert_eq!(counters.frames, 82);
    assert_eq!(counters.frames - 35, 47, "frames that are no data");
    assert_eq!(counters.frames, counters.datagrams + counters.other_traffic());
}

#[test]
fn real_ip_fragments_of_two_sensors_are_joined() {
    let Some((all, counters)) = load("ouster/same_ports.pcap") else { return };
    let found: Vec<_> =
        all.iter().map(|datagram| (datagram.sender.as_str(), datagram.bytes.len())).collect();
    let mut sorted = found.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            ("169.254.238.111:44474", 12_608),
            ("169.254.238.111:51514", 48),
            ("169.254.92.158:40063", 48),
            ("169.254.92.158:44156", 16_640),
        ]
    );
    assert_eq!((counters.frames, counters.reassembled, counters.fragments_left), (23, 2, 0));
    assert_eq!(counters.ip_fragments, 21);
}

#[test]
fn real_lidar_captures_hold_what_the_ground_truth_says() {
    let Some((all, _)) = load("ouster/OS-1-128_v2.3.0_1024x10_lb_n3.pcap") else { return };
    let mut sizes: BTreeMap<(u16, usize), usize> = BTreeMap::new();
    for datagram in &all {
        *sizes.entry((datagram.port, datagram.bytes.len())).or_default() += 1;
    }
    assert_eq!(sizes, BTreeMap::from([((7502, 8448), 192), ((7503, 48), 30)]));
    let (crc, _) = load("ouster/crc_test.pcap").expect("beside the other");
    assert_eq!(crc.iter().filter(|datagram| datagram.port == 7502).count(), 34);
}

fn addresses() -> (SocketAddr, SocketAddr) {
    ("10.1.2.3:4000".parse().expect("v4"), "10.1.2.4:5000".parse().expect("v4"))
}

fn written(payloads: &[Vec<u8>]) -> Vec<u8> {
    let (from, to) = addresses();
    let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
    for (number, payload) in payloads.iter().enumerate() {
        let time = Moment::from_ns(1_700_000_000_123_456_789 + number as u64);
        writer.write(from, to, payload, time).expect("memory");
    }
    writer.finish().expect("memory")
}

#[test]
fn a_capture_cut_at_any_byte_yields_its_whole_frames() {
    let payloads: Vec<Vec<u8>> = (0..4_u8).map(|number| vec![number; 10]).collect();
    let whole = written(&payloads);
    let (mut most, mut cuts) = (0, 0);
    for end in 0..whole.len() {
        let Some((all, counters, cut)) = from_bytes(whole[..end].to_vec()) else { continue };
        assert!(all.len() >= most, "fewer frames from more bytes, cut at {end}");
        most = all.len();
        assert!(all.iter().zip(&payloads).all(|(got, payload)| got.bytes == *payload));
        assert_eq!(counters.cut, u64::from(cut.is_some()));
        cuts += counters.cut;
    }
    assert_eq!(most, 3, "the last frame lacks at least its last byte");
    assert!(cuts > 200, "most places are in the middle of a frame: {cuts}");
}

#[test]
fn a_file_that_is_no_capture_is_named_with_its_first_bytes() {
    let error = CaptureReader::new(Path::new("photo.jpg"), Cursor::new(b"\xff\xd8\xff\xe0 JFIF"));
    let text = error.err().expect("refused").to_string();
    assert!(text.contains("photo.jpg") && text.contains("ff d8 ff e0"), "{text}");
    let error = CaptureReader::new(Path::new("empty.pcap"), Cursor::new(b""));
    assert!(error.err().expect("refused").to_string().contains("starts with nothing"));
}

/// An IPv4 fragment of a UDP datagram, as an Ethernet frame.
fn fragment(udp: &[u8], offset: usize, length: usize) -> Vec<u8> {
    let more = offset + length < udp.len();
    let mut frame = vec![0; 12];
    frame.extend([0x08, 0x00]);
    let total = (20 + length) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0x12, 0x34]);
    frame.extend(((offset / 8) as u16 | if more { 0x2000 } else { 0 }).to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(&udp[offset..offset + length]);
    frame
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for frame in frames {
        for word in [1, 2, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn udp_datagram(payload: &[u8]) -> Vec<u8> {
    let mut udp = vec![0x10, 0, 0x20, 0];
    udp.extend((8 + payload.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(payload);
    udp
}

proptest! {
    #[test]
    fn fragments_in_any_order_make_the_datagram_again(
        payload in proptest::collection::vec(any::<u8>(), 100..4000),
        piece in 1_usize..100,
        swaps in proptest::collection::vec(any::<[prop::sample::Index; 2]>(), 0..40),
    ) {
        let udp = udp_datagram(&payload);
        let piece = piece * 8;
        let mut frames: Vec<Vec<u8>> = (0..udp.len())
            .step_by(piece)
            .map(|offset| fragment(&udp, offset, piece.min(udp.len() - offset)))
            .collect();
        let count = frames.len();
        for [a, b] in swaps {
            frames.swap(a.index(count), b.index(count));
        }
        let (all, counters, _) = from_bytes(pcap(&frames)).expect("a capture");
        prop_assert_eq!(all.len(), 1);
        prop_assert_eq!(&all[0].bytes, &payload);
        prop_assert_eq!(all[0].port, 0x2000);
        prop_assert_eq!(counters.fragments_left, 0);
    }

    #[test]
    fn a_missing_fragment_is_counted_and_no_datagram_comes(
        payload in proptest::collection::vec(any::<u8>(), 2000..4000),
        gone in any::<prop::sample::Index>(),
    ) {
        let udp = udp_datagram(&payload);
        let mut frames: Vec<Vec<u8>> = (0..udp.len())
            .step_by(400)
            .map(|offset| fragment(&udp, offset, 400.min(udp.len() - offset)))
            .collect();
        frames.remove(gone.index(frames.len()));
        let (all, counters, _) = from_bytes(pcap(&frames)).expect("a capture");
        prop_assert_eq!(all.len(), 0);
        prop_assert_eq!(counters.fragments_left, frames.len() as u64);
    }

    #[test]
    fn what_is_written_is_read_again(
        payloads in
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9000), 0..8),
    ) {
        let (all, counters, cut) = from_bytes(written(&payloads)).expect("a capture");
        prop_assert_eq!(cut, None);
        prop_assert_eq!(counters.frames as usize, payloads.len());
        prop_assert_eq!(all.len(), payloads.len());
        for (number, (got, payload)) in all.iter().zip(&payloads).enumerate() {
            prop_assert_eq!(&got.bytes, payload);
            prop_assert_eq!(got.sender.as_str(), "10.1.2.3:4000");
            prop_assert_eq!(got.time.as_ns(), 1_700_000_000_123_456_789 + number as u64);
        }
    }

    #[test]
    fn random_bytes_after_a_right_beginning_never_panic(
        noise in proptest::collection::vec(any::<u8>(), 0..400),
        start in 0_usize..200,
    ) {
        let mut bytes = written(&[vec![1; 40], vec![2; 60]]);
        let start = start.min(bytes.len());
        for (place, noise) in bytes[start..].iter_mut().zip(&noise) {
            *place = *noise;
        }
        let _ = from_bytes(bytes);
        let _ = from_bytes(noise);
    }
}

#[test]
fn hostile_fragments_cannot_fill_the_memory() {
    let udp = udp_datagram(&[7; 2000]);
    let frames: Vec<Vec<u8>> = (0..2000_u16)
        .map(|number| {
            let mut frame = fragment(&udp, 0, 800);
            frame[18..20].copy_from_slice(&number.to_be_bytes());
            frame
        })
        .collect();
    let (all, counters, _) = from_bytes(pcap(&frames)).expect("a capture");
    assert_eq!((all.len(), counters.fragments_left), (0, 2000));
}

#[test]
fn vlan_tags_cooked_and_raw_frames_are_understood() {
    let ip = fragment(&udp_datagram(b"hello"), 0, 13)[14..].to_vec();
    let tagged = [&[0; 12][..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 6, 8, 0], &ip].concat();
    let cooked = [&[0; 14][..], &[8, 0], &ip].concat();
    let cooked2 = [&[8, 0][..], &[0; 18], &ip].concat();
    let null = [&[2, 0, 0, 0][..], &ip].concat();
    for (link, frame) in
        [(1_u8, tagged), (113, cooked), (276_u16 as u8, cooked2), (101, ip), (0, null)]
    {
        let mut file = pcap(&[frame]);
        file[20] = link;
        file[21] = u8::from(link == 276_u16 as u8);
        let (all, ..) = from_bytes(file).expect("a capture");
        assert_eq!(all.len(), 1, "link type {link}");
        assert_eq!(all[0].bytes, b"hello");
    }
}

#[test]
fn raw_files_are_taken_apart_by_size_and_by_length() {
    let read = |bytes: &[u8], framing| {
        let mut reader = RawReader::new(Path::new("raw"), Cursor::new(bytes.to_vec()), framing);
        let mut all = Vec::new();
        while let Ok(Some(datagram)) = reader.next() {
            all.push(datagram.bytes.to_vec());
        }
        (all, reader.cut().is_some())
    };
    assert_eq!(
        read(b"aabbc", Framing::Fixed { bytes: 2 }),
        (vec![b"aa".to_vec(), b"bb".to_vec()], true)
    );
    assert_eq!(read(b"\0\x01x\0\0", Framing::U16Be), (vec![b"x".to_vec(), vec![]], false));
    assert_eq!(read(b"\x01\0\0\0x\x05\0\0\0yy", Framing::U32Le), (vec![b"x".to_vec()], true));
    let mut reader = RawReader::new(Path::new("raw"), Cursor::new(vec![0xFF; 8]), Framing::U32Be);
    let error = reader.next().expect_err("refused").to_string();
    assert!(error.contains("check the framing"), "{error}");
}

#[test]
fn replay_keeps_the_recorded_gaps_or_the_given_rate() {
    let ns = Moment::from_ns;
    let mut recorded = Pace::new(Speed::Recorded);
    assert_eq!(recorded.due(ns(1000), ns(50)), None);
    assert_eq!(recorded.due(ns(1400), ns(60)), Some(Span::from_ns(390)));
    assert_eq!(recorded.due(ns(1400), ns(450)), None);
    let mut rate = Pace::new(Speed::Rate(1e6));
    assert_eq!(rate.due(ns(0), ns(0)), None);
    assert_eq!(rate.due(ns(0), ns(100)), Some(Span::from_ns(900)));
    assert_eq!(Pace::new(Speed::Full).due(ns(5), ns(5)), None);
}
