//! Hand-made packets of real layouts, read by their descriptions; the bytes are written from the
//! layouts' public texts, not by this crate.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Description, Parsed, Part, Reject, RejectReason};

fn load(text: &str) -> Description {
    Description::load("test.toml", text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn sender() -> SenderAddress {
    SenderAddress::from("10.0.0.2:4000".parse::<SocketAddr>().expect("an address"))
}

fn parse(description: &Description, bytes: &[u8]) -> Result<Parsed, Reject> {
    let datagram = Datagram { bytes, sender: sender(), port: 9000, time: Moment::from_ns(0) };
    description.program().parse(&datagram)
}

const ESS: &str = r#"
name = "ess"
about = "ESS readout master"
reference = "event-formation-unit src/common/readout/ess/Parser.h"
byte-order = "little"
[[packet]]
name = "v0"
size = { min = 30, max = 8972, equals = "total_length" }
fields = [
  { type = "u8", name = "pad", equals = 0 },
  { type = "u8", name = "version", equals = 0 },
  { type = "u32", name = "cookie_and_type", bits = [
    { name = "type_id", bits = "31..24" },
    { name = "cookie", bits = "23..0", equals = 0x535345 },
  ] },
  { type = "u16", name = "total_length" },
  { type = "u8", name = "output_queue", max = 11 },
  { type = "u8", name = "time_source" },
  { type = "u32", name = "pulse_high", unit = "s" },
  { type = "u32", name = "pulse_low", max = 88052499 },
  { type = "u32", name = "prev_high" },
  { type = "u32", name = "prev_low" },
  { type = "u32", name = "sequence" },
]
source = ["address", "output_queue"]
sequence = { value = "sequence" }
timestamp = { seconds = "pulse_high", ticks = "pulse_low", unit = "88052500 Hz", epoch = "unix" }
"#;

fn ess_packet() -> Vec<u8> {
    let mut packet = vec![0, 0, 0x45, 0x53, 0x53, 0x34, 34, 0, 3, 0];
    for word in [100u32, 88_052_499, 99, 5, 0xFFFF_FFFF] {
        packet.extend(word.to_le_bytes());
    }
    packet.extend([1, 2, 4, 0]);
    packet
}

#[test]
fn ess_readout_yields_queue_sequence_time_and_blocks() {
    let description = load(ESS);
    let parsed = parse(&description, &ess_packet()).expect("a right packet");
    assert_eq!(parsed.source.terms, 3);
    assert_eq!(parsed.sequence, Some(0xFFFF_FFFF));
    // 88052499 ticks of 88.0525 MHz are 999_999_988.64 ns.
    assert_eq!(parsed.sensor_time_ns, Some(100_999_999_988));
    assert_eq!((parsed.payload_start, parsed.payload_bytes), (30, 4));
    assert_eq!(parsed.part, Part::Whole);
    assert_eq!(description.source_label(&parsed.source, parsed.packet), "10.0.0.2 output_queue=3");
}

#[test]
fn each_broken_rule_of_a_packet_is_named() {
    let description = load(ESS);
    let broken = |at: usize, byte: u8| {
        let mut packet = ess_packet();
        packet[at] = byte;
        let reject = parse(&description, &packet).expect_err("a wrong packet");
        (reject.reason, description.rule_name(reject))
    };
    let value = |name: &str| (RejectReason::Value, format!("packet `v0`, field `{name}`"));
    assert_eq!(broken(0, 1), value("pad"));
    assert_eq!(broken(3, 0), value("cookie"));
    assert_eq!(broken(8, 12), value("output_queue"));
    assert_eq!(broken(6, 33), (RejectReason::Size, "packet `v0`, `size`".into()));
    let reject = parse(&description, &ess_packet()[..20]).expect_err("a short packet");
    assert_eq!(reject.reason, RejectReason::Size);
}

const DUNE: &str = r#"
name = "dune"
about = "DUNE DAQ Ethernet"
reference = "detdataformats DAQEthHeader.hpp"
byte-order = "little"
[[packet]]
name = "data"
fields = [
  { type = "u64", name = "word0", bits = [
    { name = "version", bits = "5..0" }, { name = "det_id", bits = "11..6" },
    { name = "crate_id", bits = "21..12" }, { name = "slot_id", bits = "25..22" },
    { name = "stream_id", bits = "33..26" }, { name = "seq_id", bits = "51..40" },
    { name = "block_length", bits = "63..52" } ] },
  { type = "u64", name = "timestamp" },
]
source = ["det_id", "crate_id", "slot_id", "stream_id"]
sequence = { value = "seq_id" }
timestamp = { ticks = "timestamp", unit = "62.5 MHz", epoch = "start" }
"#;

#[test]
fn dune_source_is_four_bit_fields_packed_first_highest() {
    let description = load(DUNE);
    let (det, crate_id, slot, stream, sequence) = (3u64, 1023u64, 9u64, 0x81u64, 4095u64);
    let word = 1 | det << 6 | crate_id << 12 | slot << 22 | stream << 26 | sequence << 40;
    let packet: Vec<u8> =
        word.to_le_bytes().into_iter().chain(1000u64.to_le_bytes()).chain([0; 64]).collect();
    let parsed = parse(&description, &packet).expect("a right packet");
    assert_eq!(parsed.source.terms, ((det << 10 | crate_id) << 4 | slot) << 8 | stream);
    assert_eq!(parsed.source.sender, SenderAddress::NONE);
    assert_eq!(parsed.sequence, Some(4095));
    assert_eq!(description.packet_types()[0].sequence.as_ref().map(|s| s.last), Some(4095));
    assert_eq!(parsed.sensor_time_ns, Some(16_000));
    let label = description.source_label(&parsed.source, 0);
    assert_eq!(label, "det_id=3 crate_id=1023 slot_id=9 stream_id=129");
}

const SPEAD: &str = r#"
name = "spead"
about = "SPEAD 64-48"
reference = "spead2 recv_packet.cpp"
byte-order = "big"
[[packet]]
name = "heap"
select = "magic == 0x53 && version == 4 && item_bytes == 2 && address_bytes == 6"
fields = [
  { type = "u8", name = "magic" },
  { type = "u8", name = "version" },
  { type = "u8", name = "item_bytes" },
  { type = "u8", name = "address_bytes" },
  { type = "u16" },
  { type = "u16", name = "items", min = 1 },
  { name = "pointers", list = { count = "items", fields = [
      { type = "u64", name = "pointer", bits = [
        { name = "key", bits = "63..48" }, { name = "content", bits = "47..0" } ] } ],
    pick = { key = "key", value = "content", values = [
      { name = "heap_count", is = 0x8001, required = true },
      { name = "heap_length", is = 0x8002 },
      { name = "payload_offset", is = 0x8003, required = true },
      { name = "payload_length", is = 0x8004, required = true } ] } } },
]
source = ["address", "port"]
event = { key = "heap_count" }
fragment = { offset = "payload_offset", total = "heap_length" }
payload = { length = "payload_length" }
"#;

fn spead_packet(items: &[(u64, u64)], payload: usize) -> Vec<u8> {
    let mut packet = vec![0x53, 4, 2, 6, 0, 0];
    packet.extend((items.len() as u16).to_be_bytes());
    for &(key, value) in items {
        packet.extend((key << 48 | value).to_be_bytes());
    }
    packet.resize(packet.len() + payload, 0xAB);
    packet
}

#[test]
fn spead_items_are_found_in_any_order_and_required_ones_are_missed() {
    let description = load(SPEAD);
    let items = [(0x8004, 100), (0x8001, 77), (0x9999, 1), (0x8003, 200), (0x8002, 1000)];
    let parsed = parse(&description, &spead_packet(&items, 100)).expect("a right packet");
    assert_eq!(parsed.event, Some(77));
    assert_eq!(parsed.part, Part::Bytes { offset: 200, total: 1000 });
    assert_eq!((parsed.payload_start, parsed.payload_bytes), (48, 100));

    let reject = parse(&description, &spead_packet(&items[..3], 100)).expect_err("no offset");
    assert_eq!(reject.reason, RejectReason::List);
    assert_eq!(description.rule_name(reject), "packet `heap`, list value `payload_offset`");

    let mut long = spead_packet(&items, 0);
    long[6] = 0xFF;
    let reject = parse(&description, &long).expect_err("65k items in a small packet");
    assert_eq!(reject.reason, RejectReason::List);

    let mut short_total = items;
    short_total[4].1 = 299;
    let reject = parse(&description, &spead_packet(&short_total, 100)).expect_err("beyond total");
    assert_eq!(reject.reason, RejectReason::Fragment);

    let reject = parse(&description, &spead_packet(&items, 99)).expect_err("payload cut");
    assert_eq!(reject.reason, RejectReason::Payload);

    let reject = parse(&description, b"hello").expect_err("no SPEAD");
    assert_eq!(reject.reason, RejectReason::UnknownType);
    assert_eq!(description.rule_name(reject), "format `spead`");
}

const VRT: &str = r#"
name = "vrt"
about = "VITA 49.2"
reference = "VITA 49.2"
byte-order = "big"
[[packet]]
name = "data"
select = "type <= 3"
size = { equals = "words * 4" }
fields = [
  { type = "u32", name = "header", bits = [
    { name = "type", bits = "31..28" }, { name = "has_class", bits = 27 },
    { name = "has_trailer", bits = 26 }, { name = "tsi", bits = "23..22" },
    { name = "tsf", bits = "21..20" }, { name = "count", bits = "19..16" },
    { name = "words", bits = "15..0" } ] },
  { type = "u32", name = "stream_id", when = "type == 1 || type == 3" },
  { type = "u64", name = "class_id", when = "has_class" },
  { type = "u32", name = "seconds", when = "tsi != 0" },
  { type = "u64", name = "picoseconds", when = "tsf == 2" },
  { type = "u64", name = "other_fraction", when = "tsf == 1 || tsf == 3" },
]
source = ["address", "stream_id"]
sequence = { value = "count", timestamp-step-ns = 1000 }
timestamp = { seconds = "seconds", ticks = "picoseconds", unit = "1 ps",
  epoch = "unix", when = "tsi != 0 && tsf == 2" }
payload = { trailer = "has_trailer * 4" }
[[packet]]
name = "context"
select = "kind == 4"
fields = [ { type = "u8", name = "first", bits = [{ name = "kind", bits = "7..4" }] } ]
source = ["packet"]
"#;

fn vrt_packet(kind: u32, class: u32, tsi: u32, tsf: u32, payload_words: usize) -> Vec<u8> {
    let mut words = vec![0u32];
    if kind == 1 || kind == 3 {
        words.push(0xCAFE);
    }
    if class == 1 {
        words.extend([0x006A_621E, 7]);
    }
    if tsi != 0 {
        words.push(1_700_000_000);
    }
    if tsf != 0 {
        words.extend([0, 5_000_000]);
    }
    words.resize(words.len() + payload_words, 0x0101_0101);
    words[0] = kind << 28 | class << 27 | tsi << 22 | tsf << 20 | 9 << 16 | words.len() as u32;
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn vrt_payload_starts_behind_whichever_fields_are_there() {
    let description = load(VRT);
    for kind in [0, 1, 3] {
        for class in [0, 1] {
            for tsi in 0..4 {
                for tsf in 0..4 {
                    let packet = vrt_packet(kind, class, tsi, tsf, 5);
                    let parsed = parse(&description, &packet).expect("a right packet");
                    let start = packet.len() as u32 - 20;
                    assert_eq!((parsed.payload_start, parsed.payload_bytes), (start, 20));
                    assert_eq!(parsed.sequence, Some(9));
                    let id = if kind == 0 { 0 } else { 0xCAFE };
                    assert_eq!(parsed.source.terms, id);
                    let time = (tsi != 0 && tsf == 2).then_some(1_700_000_000_000_005_000);
                    assert_eq!(parsed.sensor_time_ns, time);
                }
            }
        }
    }
    let reject = parse(&description, &vrt_packet(1, 1, 1, 2, 0)[..20]).expect_err("cut");
    assert_eq!(reject.reason, RejectReason::Short);
    assert_eq!(description.rule_name(reject), "packet `data`, field `picoseconds`");
    let context = parse(&description, &[0x40]).expect("a context packet");
    assert_eq!((context.packet, context.source.terms), (1, 1));
    assert_eq!(description.source_label(&context.source, 1), "context");
}

#[test]
fn a_check_sum_over_the_packet_is_checked_and_a_flipped_bit_found() {
    let description = load(
        r#"
name = "crc"
about = "x"
reference = "x"
byte-order = "little"
[[packet]]
name = "data"
fields = [{ type = "u64", name = "value" }]
crc = { algorithm = "crc-64/xz", at = -8 }
"#,
    );
    let mut packet = b"123456789".to_vec();
    // The check value of CRC-64/XZ in the catalogue of parametrised CRC algorithms.
    packet.extend(0x995D_C9BB_DF19_39FAu64.to_le_bytes());
    assert!(parse(&description, &packet).is_ok());
    packet[3] ^= 1;
    let reject = parse(&description, &packet).expect_err("a flipped bit");
    assert_eq!(reject.reason, RejectReason::Checksum);
    assert_eq!(parse(&description, &[1, 2]).expect_err("short").reason, RejectReason::Short);
}

const SPILLS: &str = r#"
name = "spills"
about = "a board that counts its triggers anew with each spill"
reference = "this test"
byte-order = "big"
[[packet]]
name = "data"
fields = [
  { type = "u8", name = "spill" },
  { type = "u16", name = "trigger" },
  { type = "u64", name = "run" },
]
event = { key = "trigger", spill = "spill" }
"#;

#[test]
fn a_spill_number_is_found_beside_the_key() {
    let description = load(SPILLS);
    let packet = [7, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9];
    let parsed = parse(&description, &packet).expect("a right packet");
    assert_eq!((parsed.event, parsed.spill), (Some(0x0102), Some(7)));
    let event = description.packet_types()[0].event.as_ref().expect("an event");
    assert_eq!(event.spill.as_ref().map(|spill| spill.bits), Some(8));
    let none = load(&SPILLS.replace(", spill = \"spill\"", ""));
    assert_eq!(parse(&none, &packet).expect("a right packet").spill, None);
}

#[test]
fn a_spill_number_of_more_than_32_bits_is_refused() {
    let wide = SPILLS.replace("spill = \"spill\"", "spill = \"run\"");
    let error = Description::load("test.toml", &wide, &BTreeMap::new()).expect_err("too wide");
    let text = error.to_string();
    assert!(text.contains("`event.spill`: its value can be 18446744073709551615"), "{text}");
    assert!(text.contains("(run) & 0xffffffff"), "{text}");
    let masked = SPILLS.replace("spill = \"spill\"", "spill = \"run & 0xffffffff\"");
    load(&masked);
}
