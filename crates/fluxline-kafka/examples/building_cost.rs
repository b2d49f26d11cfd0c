//! demonstrates: the processor time of distributed building beside that of one process
//!
//! run: cargo run --release -p fluxline-kafka --example building_cost -- 1000
//! (the argument is the size of a packet's payload; the log is in memory, so brokers cost nothing)

use std::collections::BTreeMap;
use std::time::Instant;

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_daq::formats;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_kafka::build::{Log, MemoryLog, NodeConfig, PartitionBuilder, ReadoutNode};
use fluxline_packet::Description;

const BOARDS: u16 = 8;
const KEYS: u64 = 20_000;
const BEGIN: u64 = 1_700_000_000_000_000_000;
const PERIOD_NS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let payload = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let packets = packets(payload);
    let count = packets.len() as f64;
    let per_packet = |began: Instant| began.elapsed().as_nanos() as f64 / count;
    println!("{count} packets of {} bytes, {BOARDS} boards; ns per packet:", packets[0].1.len());
    for round in 0..3 {
        let began = Instant::now();
        let events = one_process(&packets)?;
        println!("round {round}: one process {:.0}", per_packet(began));
        for partitions in [1, 4, 16] {
            let mut log = MemoryLog::new(partitions);
            let began = Instant::now();
            let bytes = read_out(&packets, &mut log)?;
            let node = per_packet(began);
            let began = Instant::now();
            let built = build(&mut log)?;
            let builders = per_packet(began);
            println!(
                "round {round}: {partitions:2} partitions: readout node {node:.0}, builders \
                 {builders:.0} together, log {:.0} bytes a packet more than the packet",
                bytes as f64 / count - packets[0].1.len() as f64
            );
            assert_eq!(built, events, "distributed building gives other events");
        }
    }
    Ok(())
}

fn config() -> BuilderConfig {
    BuilderConfig { mode: Mode::Key(Scope::Global), ..BuilderConfig::default() }
}

fn description() -> Result<Description, Box<dyn std::error::Error>> {
    Ok(formats::load("counter", &BTreeMap::new())?.description)
}

/// Returns packets of all boards with their times, one for each board and key.
fn packets(payload: usize) -> Vec<(u64, Vec<u8>)> {
    let mut packets = Vec::new();
    for key in 0..KEYS {
        for board in 0..BOARDS {
            let mut bytes = Vec::with_capacity(32 + payload);
            bytes.extend(0x4358_4C46u32.to_le_bytes());
            bytes.extend([1, 0]);
            bytes.extend(board.to_le_bytes());
            bytes.extend((key as u32).to_le_bytes());
            bytes.extend([0, 0, 1, 0]);
            bytes.extend(key.to_le_bytes());
            bytes.extend((key * PERIOD_NS).to_le_bytes());
            bytes.resize(32 + payload, 0);
            packets.push((BEGIN + key * PERIOD_NS + u64::from(board), bytes));
        }
    }
    packets
}

fn datagram(at: u64, bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 0, time: Moment::from_ns(at) }
}

fn one_process(packets: &[(u64, Vec<u8>)]) -> Result<u64, Box<dyn std::error::Error>> {
    let inputs = vec![("boards".to_owned(), description()?)];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), config());
    let (mut spare, mut events) = (EventBatch::default(), 0);
    let mut end = Moment::default();
    for (at, bytes) in packets {
        end = Moment::from_ns(*at);
        pipeline.take(0, end, &datagram(*at, bytes));
        if pipeline.batch_is_due(end) {
            spare = pipeline.take_batch(spare);
            events += spare.events.len() as u64;
        }
    }
    pipeline.end_input(0);
    pipeline.finish(end);
    Ok(events + pipeline.take_batch(spare).events.len() as u64)
}

fn read_out(
    packets: &[(u64, Vec<u8>)],
    log: &mut MemoryLog,
) -> Result<u64, Box<dyn std::error::Error>> {
    let config = NodeConfig {
        run: 1,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 256 << 10,
        record_age: Span::from_ms(20),
        memory_bytes: 1 << 30,
    };
    let inputs = vec![("boards".to_owned(), description()?)];
    let mut node = ReadoutNode::new(config, inputs, log.partitions());
    let mut end = Moment::default();
    for (at, bytes) in packets {
        end = Moment::from_ns(*at);
        node.take(0, end, &datagram(*at, bytes));
        node.hand_over(log)?;
    }
    node.finish(end);
    node.hand_over(log)?;
    Ok(node.counts().bytes)
}

fn build(log: &mut MemoryLog) -> Result<u64, Box<dyn std::error::Error>> {
    let mut events = 0;
    for partition in 0..log.partitions() {
        let mut builder = PartitionBuilder::new(1, 1, config());
        while let Some(record) = log.read(partition, builder.next_offset())? {
            if let Some(batch) = builder.take(record.offset, &record.bytes) {
                events += batch.events.events.len() as u64;
            }
        }
    }
    Ok(events)
}
