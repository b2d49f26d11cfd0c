//! demonstrates: the processor time of distributed building beside that of one process
//!
//! run: cargo run --release -p fluxline-kafka --example building_cost -- 1000
//! (the arguments are the size of a packet's payload, the packets of a board for each event, the
//! number of rounds, and the number of readout nodes, whose packets alternate; the log is in
//! memory, so brokers cost nothing)

mod support;

use std::collections::BTreeMap;

use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_daq::formats;
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;
use fluxline_daq::record::BatchDigest;
use fluxline_kafka::build::{Log, LogError, MemoryLog, NodeConfig, PartitionBuilder, ReadoutNode};
use fluxline_packet::Description;
use support::{datagram, median, packet, thread_cpu};

type Failure = Box<dyn std::error::Error>;

const BOARDS: u16 = 8;
const PARTITIONS: [u32; 3] = [1, 4, 16];
const TOTAL_BYTES: usize = 200_000_000;
const BEGIN: u64 = 1_700_000_000_000_000_000;

/// A packet of a board.
struct Packet {
    at: Moment,
    board: u16,
    bytes: Vec<u8>,
}

/// The packets of a run, and the number of readout nodes that take them.
struct Load {
    packets: Vec<Packet>,
    nodes: u16,
}

/// Costs of a round \[ns of processor time for each packet\].
struct Costs {
    one_process: f64,
    /// For each number of partitions.
    distributed: Vec<Distributed>,
}

struct Distributed {
    node: f64,
    builders: f64,
    log_bytes: f64,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let argument = |at: usize, default| arguments.get(at).copied().unwrap_or(default);
    let (payload, parts, rounds) = (argument(0, 1000), argument(1, 1) as u16, argument(2, 5));
    let nodes = (argument(3, 1) as u16).clamp(1, BOARDS);
    let load = Load { packets: packets(payload, parts.max(1)), nodes };
    let costs: Vec<Costs> = (0..rounds).map(|_| round(&load)).collect::<Result<_, _>>()?;
    print(&load, &costs);
    Ok(())
}

fn round(load: &Load) -> Result<Costs, Failure> {
    let packets = &load.packets;
    let (mut events, mut distributed) = (0, Vec::new());
    let one_process = timed(packets.len(), || {
        events = build_in_one_process(packets)?;
        Ok(())
    })?;
    for partitions in PARTITIONS {
        let mut taken = 0;
        let node = timed(packets.len(), || {
            read_out(load, partitions, |_, bytes| {
                taken += bytes.len();
                Ok(())
            })
        })?;
        let log_bytes = taken as f64 / packets.len() as f64;
        let mut log = MemoryLog::new(partitions);
        read_out(load, partitions, |partition, bytes| log.append(partition, bytes))?;
        let mut built = 0;
        let builders = timed(packets.len(), || {
            built = build(&mut log, load.nodes)?;
            Ok(())
        })?;
        assert_eq!(built, events, "distributed building gives other events");
        distributed.push(Distributed { node, builders, log_bytes });
    }
    Ok(Costs { one_process, distributed })
}

fn print(load: &Load, costs: &[Costs]) {
    let Load { packets, nodes } = load;
    let bytes = packets[0].bytes.len() as f64;
    let rate = |ns: f64| format!("{ns:6.0} ns ({:.2} GB/s)", bytes / ns);
    let of = |value: &dyn Fn(&Costs) -> f64| median(costs.iter().map(value).collect());
    println!(
        "{} packets of {bytes} bytes, {BOARDS} boards, {nodes} readout nodes, {} rounds; processor \
         time of a packet, medians:",
        packets.len(),
        costs.len()
    );
    let one = of(&|costs| costs.one_process);
    println!("one process                    {}", rate(one));
    let first = of(&|costs| costs.distributed[0].builders);
    for (at, partitions) in PARTITIONS.into_iter().enumerate() {
        let node = of(&|costs| costs.distributed[at].node);
        let builders = of(&|costs| costs.distributed[at].builders);
        let more = of(&|costs| costs.distributed[at].log_bytes) - bytes;
        println!("{partitions:2} partitions: readout node     {}", rate(node));
        println!(
            "               builders together {builders:6.0} ns, {:.2} of one process; the log \
             has {more:.0} bytes a packet more",
            builders / one
        );
        if partitions > 1 {
            let followed = (builders - first) / f64::from(partitions - 1);
            println!("               to follow a packet {followed:5.0} ns");
        }
    }
}

/// Returns the processor time of `work` for each packet \[ns\].
fn timed(packets: usize, work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let began = thread_cpu();
    work()?;
    Ok((thread_cpu() - began) as f64 / packets as f64)
}

fn config() -> BuilderConfig {
    BuilderConfig { mode: Mode::Key(Scope::Global), ..BuilderConfig::default() }
}

fn description() -> Result<Description, Failure> {
    Ok(formats::load("counter", &BTreeMap::new())?.description)
}

/// Returns packets of all boards with their times, `parts` for each board and key.
fn packets(payload: usize, parts: u16) -> Vec<Packet> {
    let per_key = usize::from(BOARDS) * usize::from(parts);
    let keys = (TOTAL_BYTES / (payload + 32) / per_key).clamp(1000, 20_000) as u64;
    let period_ns = 2500 * per_key as u64;
    let mut packets = Vec::new();
    for key in 0..keys {
        for board in 0..BOARDS {
            for part in 0..parts {
                let number = key as u32 * u32::from(parts) + u32::from(part);
                let at = Moment::from_ns(BEGIN + key * period_ns + u64::from(board));
                let bytes = packet(board, number, key, (part, parts), payload);
                packets.push(Packet { at, board, bytes });
            }
        }
    }
    packets
}

fn build_in_one_process(packets: &[Packet]) -> Result<u64, Failure> {
    let inputs = vec![("boards".to_owned(), description()?)];
    let mut pipeline = Pipeline::new(inputs, ReadoutLimits::default(), config());
    let (mut spare, mut events) = (EventBatch::default(), 0);
    let mut end = Moment::default();
    for Packet { at, bytes, .. } in packets {
        end = *at;
        pipeline.take(0, end, &datagram(end, bytes));
        if pipeline.batch_is_due(end) {
            spare = pipeline.take_batch(spare);
            events += spare.events.len() as u64;
        }
    }
    pipeline.end_input(0);
    pipeline.finish(end);
    Ok(events + pipeline.take_batch(spare).events.len() as u64)
}

fn node(number: u16, partitions: u32) -> Result<ReadoutNode, Failure> {
    let config = NodeConfig {
        run: 1,
        node: number,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 256 << 10,
        record_age: Span::from_ms(20),
        memory_bytes: 1 << 30,
    };
    let inputs = vec![("boards".to_owned(), description()?)];
    Ok(ReadoutNode::new(config, inputs, partitions))
}

/// Reads all packets out and gives the records to `append`.
fn read_out(
    load: &Load,
    partitions: u32,
    mut append: impl FnMut(u32, &[u8]) -> Result<(), LogError>,
) -> Result<(), Failure> {
    let nodes: Result<Vec<_>, _> = (0..load.nodes).map(|of| node(of, partitions)).collect();
    let (mut nodes, mut end) = (nodes?, Moment::default());
    for Packet { at, board, bytes } in &load.packets {
        end = *at;
        let node = &mut nodes[usize::from(board % load.nodes)];
        node.take(0, end, &datagram(end, bytes));
        node.hand_over_to(&mut append)?;
    }
    for node in &mut nodes {
        node.finish(end);
        node.hand_over_to(&mut append)?;
    }
    Ok(())
}

fn build(log: &mut MemoryLog, nodes: u16) -> Result<u64, Failure> {
    let (mut events, mut digest) = (0, BatchDigest::default());
    for partition in 0..log.partitions() {
        let mut builder = PartitionBuilder::new(1, usize::from(nodes), config());
        while let Some(record) = log.read(partition, builder.next_offset())? {
            for batch in builder.take(record.offset, &record.bytes) {
                events += batch.events.events.len() as u64;
                // The check sum of its commit.
                std::hint::black_box(digest.of(&batch.events, batch.number)?);
            }
        }
    }
    Ok(events)
}
