//! The time of a header program per packet, beside a parser of the same header written by hand.
//!
//! Packets differ and lie in a buffer of 1024 slots; program and floor run in turns, and the
//! median of the turns counts. Targets: 25 ns for a fixed header, 60 ns for SPEAD with 8 items.
//! Run: `cargo bench -p fluxline-core --bench program`.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::disallowed_methods, reason = "a benchmark is where the clock is read")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_packet::{Description, Parsed, Part, Program, SourceKey};
use median::median;

const SLS: &str = r#"
name = "sls"
about = "SLS detectors"
reference = "slsDetectorPackage docs/src/udpheader.rst"
byte-order = "little"
[[packet]]
name = "data"
fields = [
  { type = "u64", name = "frame" }, { type = "u32", name = "exposure" },
  { type = "u32", name = "packet_number" }, { type = "u64", name = "detector1" },
  { type = "u64", name = "time" }, { type = "u16", name = "module" },
  { type = "u16", name = "row" }, { type = "u16", name = "column" },
  { type = "u16", name = "detector2" }, { type = "u32", name = "detector3" },
  { type = "u16", name = "detector4" }, { type = "u8", name = "detector_type" },
  { type = "u8", name = "version", equals = 2 },
]
source = ["module", "row", "column"]
sequence = { value = "(frame & 0xffffffffffff) * 64 + (packet_number & 63)", bits = 64 }
event = { key = "frame" }
fragment = { index = "packet_number", count = 64 }
timestamp = { ticks = "time", unit = "100 ns", epoch = "start" }
"#;

/// The same with every role a field as it stands.
const SLS_PLAIN: (&str, &str) =
    ("(frame & 0xffffffffffff) * 64 + (packet_number & 63)\", bits = 64", "frame\"");

const SPEAD: &str = r#"
name = "spead"
about = "SPEAD 64-48"
reference = "spead2 recv_packet.cpp"
byte-order = "big"
[[packet]]
name = "heap"
fields = [
  { type = "u32", name = "magic", equals = 0x53040206 }, { type = "u16" },
  { type = "u16", name = "items" },
  { name = "pointers", list = { count = "items", fields = [
      { type = "u64", name = "pointer", bits = [
        { name = "key", bits = "63..48" }, { name = "content", bits = "47..0" } ] } ],
    pick = { key = "key", value = "content", values = [
      { name = "heap_count", is = 0x8001, required = true },
      { name = "heap_length", is = 0x8002, required = true },
      { name = "payload_offset", is = 0x8003, required = true },
      { name = "payload_length", is = 0x8004, required = true } ] } } },
]
event = { key = "heap_count" }
fragment = { offset = "payload_offset", total = "heap_length" }
payload = { length = "payload_length" }
"#;

const PACKETS: usize = 1024;
const SLOT_BYTES: usize = 256;

struct Packets {
    bytes: Vec<u8>,
    used: usize,
}

impl Packets {
    fn datagram(&self, index: usize) -> Datagram<'_> {
        let start = index * SLOT_BYTES;
        Datagram {
            bytes: &self.bytes[start..start + self.used],
            sender: SenderAddress::NONE,
            port: 50_001,
            time: Moment::from_ns(index as u64),
        }
    }
}

fn sls_packets() -> Packets {
    let mut bytes = vec![0; PACKETS * SLOT_BYTES];
    for (index, slot) in bytes.chunks_exact_mut(SLOT_BYTES).enumerate() {
        slot[0..8].copy_from_slice(&(index as u64 / 64 + 1000).to_le_bytes());
        slot[12..16].copy_from_slice(&(index as u32 % 64).to_le_bytes());
        slot[24..32].copy_from_slice(&(index as u64 * 7919).to_le_bytes());
        slot[32..34].copy_from_slice(&(index as u16 % 8).to_le_bytes());
        slot[47] = 2;
    }
    Packets { bytes, used: 112 }
}

fn spead_packets() -> Packets {
    let mut bytes = vec![0; PACKETS * SLOT_BYTES];
    for (index, slot) in bytes.chunks_exact_mut(SLOT_BYTES).enumerate() {
        slot[..8].copy_from_slice(&[0x53, 4, 2, 6, 0, 0, 0, 8]);
        let heap = index as u64 / 16;
        let values = [heap, 16 * 100, index as u64 % 16 * 100, 100, 5, 6, 7, 8];
        for (item, value) in values.into_iter().enumerate() {
            let key = 0x8001 + item as u64;
            slot[8 + item * 8..][..8].copy_from_slice(&(key << 48 | value).to_be_bytes());
        }
    }
    Packets { bytes, used: 8 + 64 + 100 }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The floor: what a programmer writes for this one header, with the same checks.
fn sls_by_hand(datagram: &Datagram<'_>) -> Option<Parsed> {
    let header: &[u8; 48] = datagram.bytes.first_chunk()?;
    let frame = u64::from_le_bytes(part(header, 0)?);
    let index = u32::from_le_bytes(part(header, 12)?);
    let ticks = u64::from_le_bytes(part(header, 24)?);
    let module = u64::from(u16::from_le_bytes(part(header, 32)?));
    let row = u64::from(u16::from_le_bytes(part(header, 34)?));
    let column = u64::from(u16::from_le_bytes(part(header, 36)?));
    if header[47] != 2 || index >= 64 {
        return None;
    }
    Some(Parsed {
        step: None,
        counts: None,
        packet: 0,
        source: SourceKey {
            sender: SenderAddress::NONE,
            terms: (module << 16 | row) << 16 | column,
        },
        sequence: Some((frame & 0xFFFF_FFFF_FFFF) * 64 + u64::from(index & 63)),
        event: Some(frame),
        spill: None,
        part: Part::Index { index, count: 64 },
        sensor_time_ns: Some(ticks.saturating_mul(100)),
        payload_start: 48,
        payload_bytes: datagram.bytes.len() as u32 - 48,
    })
}

fn sls_plain_by_hand(datagram: &Datagram<'_>) -> Option<Parsed> {
    let parsed = sls_by_hand(datagram)?;
    Some(Parsed { sequence: parsed.event, ..parsed })
}

fn spead_by_hand(datagram: &Datagram<'_>) -> Option<Parsed> {
    let bytes = datagram.bytes;
    let header = u64::from_be_bytes(part(bytes, 0)?);
    if header >> 32 != 0x5304_0206 {
        return None;
    }
    let payload_start = 8 + (header & 0xFFFF) as usize * 8;
    let (mut values, mut found) = ([0u64; 4], 0);
    for item in bytes.get(8..payload_start)?.chunks_exact(8) {
        let item = u64::from_be_bytes(part(item, 0)?);
        let slot = (item >> 48).wrapping_sub(0x8001) as usize;
        if slot < 4 {
            values[slot] = item & 0xFFFF_FFFF_FFFF;
            found |= 1 << slot;
        }
    }
    let [heap, total, offset, length] = values;
    let fits = payload_start as u64 + length <= bytes.len() as u64 && offset + length <= total;
    (found == 15 && fits).then_some(Parsed {
        step: None,
        counts: None,
        packet: 0,
        source: SourceKey { sender: datagram.sender, terms: 0 },
        sequence: None,
        event: Some(heap),
        spill: None,
        part: Part::Bytes { offset, total },
        sensor_time_ns: None,
        payload_start: payload_start as u32,
        payload_bytes: length as u32,
    })
}

/// Nanoseconds per packet of one turn over all packets.
fn turn<R>(packets: &Packets, mut parse: impl FnMut(&Datagram<'_>) -> R) -> f64 {
    const ROUNDS: usize = 200;
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for index in 0..PACKETS {
            black_box(parse(black_box(&packets.datagram(index))));
        }
    }
    start.elapsed().as_nanos() as f64 / (ROUNDS * PACKETS) as f64
}

fn compare(
    name: &str,
    target_ns: f64,
    text: &str,
    packets: &Packets,
    by_hand: fn(&Datagram<'_>) -> Option<Parsed>,
) {
    let load = Description::load(name, text, &BTreeMap::new());
    let description = load.unwrap_or_else(|error| panic!("{error}"));
    let program: &Program = description.program();
    for index in 0..PACKETS {
        let datagram = packets.datagram(index);
        assert_eq!(program.parse(&datagram).ok(), by_hand(&datagram), "packet {index}");
        assert!(by_hand(&datagram).is_some());
    }
    let (mut programs, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..31 {
        programs.push(turn(packets, |datagram| black_box(program).parse(datagram)));
        floors.push(turn(packets, by_hand));
    }
    let least = programs.iter().copied().fold(f64::INFINITY, f64::min);
    let (program_ns, floor_ns) = (median(programs), median(floors));
    let verdict = if program_ns <= target_ns { "met" } else { "MISSED" };
    println!(
        "{name:22} program {program_ns:6.2} ns/packet (least {least:5.2}, {} instructions), by hand {floor_ns:5.2} \
         ns/packet, ratio {:.1}; target {target_ns} ns {verdict}",
        program.instructions(),
        program_ns / floor_ns
    );
}

fn main() {
    println!("medians of 31 interleaved turns, {PACKETS} distinct packets");
    let plain = SLS.replace(SLS_PLAIN.0, SLS_PLAIN.1);
    assert_ne!(plain, SLS);
    compare("sls", 25.0, &plain, &sls_packets(), sls_plain_by_hand);
    compare("sls, computed sequence", 25.0, SLS, &sls_packets(), sls_by_hand);
    compare("spead", 60.0, SPEAD, &spead_packets(), spead_by_hand);
}
