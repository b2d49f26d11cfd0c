//! demonstrates: the speed of the sink alone: batches of events to a topic, without a recorder
//!
//! run: tools/kafka/speed.py, which measures Kafka's own tools beside it

mod support;

use std::time::{Duration, Instant};

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, PacketRow};
use fluxline_daq::experiment::Experiment;
use fluxline_kafka::Pieces;
use fluxline_kafka::sink::EventSink;
use fluxline_run::BatchSink;
use support::{process_cpu, thread_cpu};

/// Bytes of a batch, as in a run.
const BATCH_BYTES: u64 = 4 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, topic, megabytes, packet_bytes, record_bytes, options @ ..] =
        arguments.as_slice()
    else {
        return Err("usage: sink_speed BROKERS TOPIC MEGABYTES PACKET-BYTES RECORD-BYTES \
            [OPTION=VALUE...]"
            .into());
    };
    let options = options.iter().filter_map(|text| text.split_once('='));
    let settings: String = options.map(|(name, value)| format!("{name:?} = {value:?}\n")).collect();
    let packet_bytes: u32 = packet_bytes.parse()?;
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"counter\"\nemulator = {{}}\n[sink.kafka]\n\
         brokers = \"{brokers}\"\ntopic = \"{topic}\"\nrecord-bytes = {record_bytes}\n\
         memory-bytes = 67108864\n[sink.kafka.settings]\n{settings}"
    );
    let experiment = Experiment::parse("speed", &text)?;
    let kafka = experiment.sink.kafka.ok_or("no sink")?;
    let batch = batch(packet_bytes);
    let encoding = encoding_ns_per_byte(&batch, record_bytes.parse()?);
    let mut sink = EventSink::open(&kafka, "speed", &["counter".to_owned()])?;
    let batches = megabytes.parse::<u64>()? * 1_000_000 / batch.bytes.len() as u64;
    let (began, cpu_before) = (Instant::now(), process_cpu());
    for number in 0..batches {
        // As a recorder that would otherwise leave batches out: wait for room.
        while sink.counters().queued > 48_000_000 / u64::from(packet_bytes) {
            std::thread::sleep(Duration::from_micros(200));
        }
        sink.take(number, &batch);
    }
    sink.finish();
    let seconds = began.elapsed().as_secs_f64();
    let cpu = process_cpu() - cpu_before;
    let counters = sink.counters();
    if counters.acked != counters.offered {
        return Err(format!("not everything was acknowledged: {counters:?}").into());
    }
    let megabytes = counters.bytes_acked as f64 / 1e6;
    println!(
        "{:.1} MB/s, {:.2} CPU-s/GB ({encoding:.2} of them to make records), {} records",
        megabytes / seconds,
        cpu / megabytes * 1e3,
        counters.records_acked,
    );
    Ok(())
}

/// Returns the processor time that the records alone take \[ns/byte, which is s/GB\].
fn encoding_ns_per_byte(batch: &EventBatch, record_bytes: usize) -> f64 {
    let mut pieces = Pieces::new("speed", &["counter".to_owned()], record_bytes);
    let (began, mut bytes) = (thread_cpu(), 0);
    for number in 0..100 {
        pieces.for_each(number, batch, |piece| bytes += piece.stream.map_or(0, <[u8]>::len));
    }
    (thread_cpu() - began) as f64 / bytes as f64
}

/// Returns a batch of events of one packet each.
fn batch(bytes: u32) -> EventBatch {
    let mut batch = EventBatch::default();
    let time = Moment::from_ns(1);
    for key in 0..BATCH_BYTES / u64::from(bytes) {
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
        batch.bytes.extend((0..bytes).map(|at| (u64::from(at) ^ key) as u8));
    }
    batch
}
