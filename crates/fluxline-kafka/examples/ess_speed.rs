//! demonstrates: the speed of the encoder of ESS messages, beside a copy of the same packets
//!
//! run: cargo run --release -p fluxline-kafka --example ess_speed

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, PacketRow};
use fluxline_daq::formats;
use fluxline_kafka::ess::Encoder;

const PACKETS: usize = 2000;
const RECORD_BYTES: usize = 512 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("format     bytes   packets [MB/s]   copy [MB/s]   messages [MB/s]");
    // Hits of six bytes; samples of two bytes.
    for (format, header, payload) in [("srs-vmm3", 16, 8952), ("counter", 32, 8192)] {
        let description = formats::load(format, &BTreeMap::new())?.description;
        let batch = batch(header, payload);
        let mut encoder = Encoder::new(&[description], RECORD_BYTES);
        encoder.add_source(0, 0, 0);
        let (mut rounds, mut bytes) = (0, 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            encoder.encode(rounds, &batch, |group| bytes += group.bytes());
            rounds += 1;
        }
        let seconds = began.elapsed().as_secs_f64();
        let rate = |bytes: usize, seconds: f64| bytes as f64 / seconds / 1e6;
        let mut copy = vec![0; batch.bytes.len()];
        let began = Instant::now();
        for _ in 0..20 {
            black_box(&mut copy).copy_from_slice(black_box(&batch.bytes));
        }
        println!(
            "{format:10} {:5} {:16.0} {:13.0} {:17.0}",
            header + payload,
            rate(batch.bytes.len() * rounds as usize, seconds),
            rate(batch.bytes.len() * 20, began.elapsed().as_secs_f64()),
            rate(bytes, seconds)
        );
        let values = payload / if format == "counter" { 2 } else { 6 };
        let rate = (values * PACKETS) as f64 * rounds as f64 / seconds;
        println!("           {:.1} million values/s", rate / 1e6);
    }
    Ok(())
}

/// Returns a batch of events of one packet each. Every record of `srs-vmm3` is a hit.
fn batch(header: usize, payload: usize) -> EventBatch {
    let mut batch = EventBatch::default();
    for key in 0..PACKETS as u64 {
        batch.events.push(EventRow { key: Some(key), packets: 1, ..EventRow::default() });
        batch.packets.push(PacketRow {
            source: 0,
            packet_type: 0,
            sequence: Some(key),
            time: Moment::from_ns(key * 1_000_000),
            sensor_time_ns: None,
            part: 0,
            payload_start: header as u32,
            payload_bytes: payload as u32,
            bytes: (header + payload) as u32,
        });
        let bytes = (0..header + payload).map(|at| match (at + 6 - header % 6) % 6 {
            4 => 0x80 | (at as u64 ^ key) as u8,
            _ => (at as u64 ^ key) as u8,
        });
        batch.bytes.extend(bytes);
    }
    batch
}
