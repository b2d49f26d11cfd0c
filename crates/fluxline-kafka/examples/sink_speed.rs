//! demonstrates: the speed of the sink alone: batches of events to a topic, without a recorder
//!
//! run: tools/kafka/speed.sh, which measures Kafka's own tools beside it

use std::time::Instant;

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, PacketRow};
use fluxline_daq::experiment::Experiment;
use fluxline_kafka::sink::EventSink;
use fluxline_run::BatchSink;

const PACKETS_PER_BATCH: u64 = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, topic, megabytes, packet_bytes, record_bytes] = arguments.as_slice() else {
        return Err("usage: sink_speed BROKERS TOPIC MEGABYTES PACKET-BYTES RECORD-BYTES".into());
    };
    let packet_bytes: u32 = packet_bytes.parse()?;
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"counter\"\nemulator = {{}}\n[sink.kafka]\n\
         brokers = \"{brokers}\"\ntopic = \"{topic}\"\nrecord-bytes = {record_bytes}\n"
    );
    let experiment = Experiment::parse("speed", &text)?;
    let kafka = experiment.sink.kafka.ok_or("no sink")?;
    let mut sink = EventSink::open(&kafka, "speed", &["counter".to_owned()])?;
    let batch = batch(packet_bytes);
    let batches = megabytes.parse::<u64>()? * 1_000_000 / batch.bytes.len() as u64;
    let began = Instant::now();
    for number in 0..batches {
        // As a recorder that would otherwise leave batches out: wait for room.
        while sink.counters().queued > 24_000_000 / u64::from(packet_bytes) {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        sink.take(number, &batch);
    }
    sink.finish();
    let seconds = began.elapsed().as_secs_f64();
    let counters = sink.counters();
    if counters.acked != counters.offered {
        return Err(format!("not everything was acknowledged: {counters:?}").into());
    }
    println!(
        "{:.1} MB/s, {} records, {} events",
        counters.bytes_acked as f64 / seconds / 1e6,
        counters.records_acked,
        counters.acked
    );
    Ok(())
}

/// Returns a batch of events of one packet each.
fn batch(bytes: u32) -> EventBatch {
    let mut batch = EventBatch::default();
    let time = Moment::from_ns(1);
    for key in 0..PACKETS_PER_BATCH {
        batch.events.push(EventRow { key: Some(key), packets: 1, ..EventRow::default() });
        batch.packets.push(PacketRow {
            source: 0,
            packet_type: 0,
            sequence: Some(key),
            time,
            sensor_time_ns: None,
            part: 0,
            payload_start: 0,
            payload_bytes: bytes,
            bytes,
        });
        batch.bytes.extend((0..bytes).map(|at| (at as u64 ^ key) as u8));
    }
    batch
}
