//! Captures: real ones against their ground truth, cut ones, hostile ones, written ones.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fluxline_core::{Moment, Span};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::raw::{Framing, LengthPrefix, RawReader};
use super::replay::{Pace, Speed};
use super::writer::CaptureWriter;
use super::{CaptureCounters, CaptureReader, CheckSums};

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
    pcap_at(&frames.iter().map(|frame| (1, frame.clone())).collect::<Vec<_>>())
}

/// A capture of frames that came at these seconds.
fn pcap_at(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for (seconds, frame) in frames {
        for word in [*seconds, 2, frame.len() as u32, frame.len() as u32] {
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
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]
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
    assert_eq!(
        read(b"\0\x01x\0\0", Framing::Prefixed(LengthPrefix::U16Be)),
        (vec![b"x".to_vec(), vec![]], false)
    );
    assert_eq!(
        read(b"\x01\0\0\0x\x05\0\0\0yy", Framing::Prefixed(LengthPrefix::U32Le)),
        (vec![b"x".to_vec()], true)
    );
    let mut reader = RawReader::new(
        Path::new("raw"),
        Cursor::new(vec![0xFF; 8]),
        Framing::Prefixed(LengthPrefix::U32Be),
    );
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

fn identified(mut frame: Vec<u8>, identification: u16) -> Vec<u8> {
    frame[18..20].copy_from_slice(&identification.to_be_bytes());
    frame
}

#[test]
fn fragments_of_an_earlier_datagram_are_not_mixed_in_when_its_identification_returns() {
    let old = udp_datagram(&[0xAA; 2392]);
    let new = udp_datagram(&[0xBB; 2392]);
    let frames: Vec<_> = [(&old, 0), (&old, 1600), (&new, 0), (&new, 800), (&new, 1600)]
        .map(|(udp, offset)| fragment(udp, offset, 800))
        .into();
    let (all, counters, _) = from_bytes(pcap(&frames)).expect("a capture");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].bytes, [0xBB; 2392]);
    assert_eq!(counters.fragments_conflicting, 2);
}

#[test]
fn fragments_that_wait_too_long_are_given_up_even_where_nothing_contradicts() {
    let old = udp_datagram(&[0xAA; 2392]);
    let mut payload = vec![0xAA; 792];
    payload.extend([0xBB; 1600]);
    let new = udp_datagram(&payload);
    let mut frames = vec![fragment(&old, 0, 800), fragment(&old, 1600, 800)];
    for number in 0..2100_u16 {
        let other = udp_datagram(&[1; 1592]);
        for offset in [0, 800] {
            frames.push(identified(fragment(&other, offset, 800), 0x4000 + number));
        }
    }
    frames.extend([0, 800].map(|offset| fragment(&new, offset, 800)));
    let (all, counters, _) = from_bytes(pcap(&frames)).expect("a capture");
    assert_eq!(all.len(), 2100, "half of the new one and half of the old one are no datagram");
    assert_eq!(counters.fragments_left, 4);
}

#[test]
fn a_first_fragment_of_88_seconds_ago_is_not_joined_with_the_rest_of_another_datagram() {
    let (old, new) = (udp_datagram(&[0xAA; 1592]), udp_datagram(&[0xBB; 1592]));
    let halves = |second: u32| {
        let frames = [(100, fragment(&old, 0, 800)), (second, fragment(&new, 800, 800))];
        from_bytes(pcap_at(&frames)).expect("a capture")
    };
    for second in [188, 131, 12] {
        let (all, counters, _) = halves(second);
        assert_eq!((all.len(), counters.fragments_left), (0, 2), "at {second} s");
    }
    // The same frames in time: only a check sum, which is absent here, could show it.
    assert_eq!(halves(129).0.len(), 1);
}

/// The right check sum of a datagram between the addresses of [`fragment`].
fn with_check_sum(mut udp: Vec<u8>) -> Vec<u8> {
    udp[6..8].fill(0);
    let mut pseudo = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 17];
    pseudo.extend((udp.len() as u16).to_be_bytes());
    let words = pseudo.chunks(2).chain(udp.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    udp[6..8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    udp
}

#[test]
fn two_halves_of_different_datagrams_fail_their_check_sum_and_are_counted() {
    let [one, two] = [0xAA, 0xBB].map(|fill| with_check_sum(udp_datagram(&[fill; 1592])));
    let whole = [fragment(&one, 0, 800), fragment(&one, 800, 800)];
    let (all, counters, _) = from_bytes(pcap(&whole)).expect("a capture");
    assert_eq!((all.len(), counters.check_sum_wrong), (1, 0));
    let mixed = pcap(&[fragment(&one, 0, 800), fragment(&two, 800, 800)]);
    let (all, counters, _) = from_bytes(mixed.clone()).expect("a capture");
    assert_eq!((all.len(), counters.reassembled, counters.check_sum_wrong), (0, 1, 1));
    assert_eq!((counters.other_traffic(), counters.unusable()), (0, 0));
    let mut reader =
        CaptureReader::new(Path::new("memory"), Cursor::new(mixed)).expect("a capture");
    reader.check_sums(CheckSums::Ignore);
    assert_eq!(read_all(reader).0.len(), 1, "as they are, where nobody asks for the sums");
}

#[test]
fn a_turned_bit_in_a_whole_datagram_is_found_by_its_check_sum() {
    let udp = with_check_sum(udp_datagram(b"seven bits of eight"));
    for bit in 0..udp.len() * 8 {
        let mut wrong = udp.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let (all, counters, _) =
            from_bytes(pcap(&[fragment(&wrong, 0, udp.len())])).expect("a capture");
        assert!(all.is_empty(), "bit {bit}");
        assert_eq!(counters.malformed + counters.check_sum_wrong, 1, "bit {bit}");
    }
}

#[test]
fn overlapping_fragments_that_differ_and_ends_that_move_make_no_datagram() {
    let one = udp_datagram(&[0xAA; 1592]);
    let two = udp_datagram(&[0xBB; 1592]);
    let long = udp_datagram(&[0xAA; 2392]);
    let differ = [fragment(&one, 0, 800), fragment(&two, 400, 400), fragment(&one, 800, 800)];
    let end = [fragment(&long, 800, 1592), fragment(&one, 800, 800), fragment(&long, 0, 800)];
    let (all, counters, _) = from_bytes(pcap(&differ)).expect("a capture");
    assert!(all.is_empty());
    assert_eq!((counters.fragments_conflicting, counters.fragments_left), (1, 2));
    // The fragments after the contradiction fit together, but do not fit the length in the UDP
    // header.
    let (all, counters, _) = from_bytes(pcap(&end)).expect("a capture");
    assert!(all.is_empty());
    assert_eq!((counters.fragments_conflicting, counters.malformed), (1, 1));
    let twice = [fragment(&one, 0, 800), fragment(&one, 0, 800), fragment(&one, 800, 800)];
    let (all, counters, _) = from_bytes(pcap(&twice)).expect("a capture");
    assert_eq!((all.len(), counters.fragments_conflicting), (1, 0));
}

/// The time that a pcapng frame gets from one option of its interface.
fn time_by_option(is_big: bool, code: u16, value: &[u8], ticks: u64) -> u64 {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let padding = |bytes: &[u8]| vec![0; bytes.len().wrapping_neg() % 4];
    let block = |kind: u32, body: Vec<u8>| {
        let length = word((12 + body.len() + padding(&body).len()) as u32);
        [&word(kind)[..], &length, &body, &padding(&body), &length].concat()
    };
    let option = [&half(code)[..], &half(value.len() as u16), value, &padding(value), &[0; 4]];
    let frame = fragment(&udp_datagram(b"hello"), 0, 13);
    let length = word(frame.len() as u32);
    let (high, low) = (word((ticks >> 32) as u32), word(ticks as u32));
    let section = [&word(0x1A2B_3C4D)[..], &half(1), &half(0), &[0xFF; 8]].concat();
    let interface = [&half(1)[..], &half(0), &word(0), &option.concat()].concat();
    let packet = [&word(0)[..], &high, &low, &length, &length, &frame].concat();
    let file = [block(0x0A0D_0D0A, section), block(1, interface), block(6, packet)].concat();
    let (all, ..) = from_bytes(file).expect("a capture");
    assert_eq!(all.len(), 1);
    all[0].time.as_ns()
}

#[test]
fn resolutions_and_offsets_of_time_hold_in_both_byte_orders() {
    let offset = 100_i64;
    assert_eq!(time_by_option(false, 14, &offset.to_le_bytes(), 5_000_000), 105_000_000_000);
    assert_eq!(time_by_option(true, 14, &offset.to_be_bytes(), 5_000_000), 105_000_000_000);
    for is_big in [false, true] {
        assert_eq!(time_by_option(is_big, 9, &[9], 7), 7);
        assert_eq!(time_by_option(is_big, 9, &[0x80 | 10], 2048), 2_000_000_000);
        assert_eq!(time_by_option(is_big, 9, &[20], 200_000_000_000_000), 2_000);
    }
}

#[test]
fn a_link_type_with_the_length_of_a_check_sum_is_still_ethernet() {
    let mut file = pcap(&[fragment(&udp_datagram(b"hello"), 0, 13)]);
    file[20..24].copy_from_slice(&0x1400_0001_u32.to_le_bytes());
    assert_eq!(from_bytes(file).expect("a capture").0.len(), 1);
}

#[test]
fn the_largest_payload_and_ipv6_are_written_and_read_again() {
    let v6 = ("[fd00::1]:4000", "[fd00::2]:5000", 9000);
    for (from, to, bytes) in [v6, ("10.0.0.1:1", "10.0.0.2:2", 65_507)] {
        let payload: Vec<u8> = (0..bytes).map(|number| number as u8).collect();
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
        let (to, time) = (to.parse().expect("address"), Moment::from_ns(7));
        writer.write(from.parse().expect("address"), to, &payload, time).expect("memory");
        let (all, ..) = from_bytes(writer.finish().expect("memory")).expect("a capture");
        assert_eq!((all.len(), all[0].sender.as_str()), (1, from));
        assert_eq!(all[0].bytes, payload);
    }
}
