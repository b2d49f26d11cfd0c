//! demonstrates: the cost of checkpoints beside that of building, and the time of a takeover
//!
//! run: cargo run --release -p fluxline-kafka --example takeover_cost -- 1000 0
//! (the arguments are the size of a packet's payload, and the milliseconds for which events stay
//! open because one board is silent; the log is in memory, so brokers cost nothing)

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::formats;
use fluxline_kafka::build::{Log, MemoryLog, NodeConfig, PartitionBuilder, ReadoutNode};

const BOARDS: u16 = 8;
const KEYS: u64 = 40_000;
const BEGIN: u64 = 1_700_000_000_000_000_000;
const PERIOD_NS: u64 = 50_000;
/// Checkpoints that are measured; a run has far fewer for its bytes.
const CHECKPOINTS: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |number: usize, usual: u64| {
        std::env::args().nth(number).map_or(Ok(usual), |text| text.parse())
    };
    let (payload, silence_ms) = (argument(1, 1000)? as usize, argument(2, 0)?);
    let config = BuilderConfig {
        mode: Mode::Key(Scope::Global),
        time_out: Span::from_ms(silence_ms.max(500)),
        ..BuilderConfig::default()
    };
    let mut log = MemoryLog::new(1);
    let bytes = read_out(payload, silence_ms > 0, &mut log)?;
    let mut builder = PartitionBuilder::new(1, 1, config.clone());
    let (mut saving, mut size, mut last) = (Duration::ZERO, 0, None);
    let began = Instant::now();
    let every = log.end(0) / CHECKPOINTS;
    while let Some(record) = log.read(0, builder.next_offset())? {
        let _ = builder.take(record.offset, &record.bytes);
        if record.offset % every == every - 1 {
            let began = Instant::now();
            let checkpoint = builder.save().ok_or("the state is too long")?;
            saving += began.elapsed();
            size = size.max(checkpoint.bytes.len());
            last = Some(checkpoint);
        }
    }
    let building = began.elapsed() - saving;
    let began = Instant::now();
    let checkpoint = last.ok_or("no checkpoint")?;
    PartitionBuilder::restore(1, 1, &config, &checkpoint.bytes)?;
    let restoring = began.elapsed();
    let rate = bytes as f64 / building.as_secs_f64();
    // A checkpoint is due after 512 MiB of records and 64 times its own size.
    let between = f64::from(512 << 20).max(size as f64 * 64.0) / rate;
    let share = saving.as_secs_f64() / CHECKPOINTS as f64 / between;
    println!(
        "{bytes} bytes of records, built at {:.0} MB/s; a whole replay takes {building:.2?}\n\
         a checkpoint has at most {size} bytes, is made in {:.2?} and read in {restoring:.2?}\n\
         one is due every {between:.2} s of building: {:.2} % of the time",
        rate / 1e6,
        saving / CHECKPOINTS as u32,
        share * 100.0,
    );
    Ok(())
}

/// Writes a run into the log; returns the bytes of its records.
fn read_out(
    payload: usize,
    is_one_silent: bool,
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
    let description = formats::load("counter", &BTreeMap::new())?.description;
    let mut node = ReadoutNode::new(config, vec![("boards".to_owned(), description)], 1);
    let mut bytes = vec![0; 32 + payload];
    let mut end = Moment::default();
    for key in 0..KEYS {
        for board in 0..BOARDS {
            if is_one_silent && board == 1 && key > KEYS / 8 {
                continue;
            }
            bytes[..4].copy_from_slice(&0x4358_4C46u32.to_le_bytes());
            bytes[4] = 1;
            bytes[6..8].copy_from_slice(&board.to_le_bytes());
            bytes[8..12].copy_from_slice(&(key as u32).to_le_bytes());
            bytes[14] = 1;
            bytes[16..24].copy_from_slice(&key.to_le_bytes());
            bytes[24..32].copy_from_slice(&(key * PERIOD_NS).to_le_bytes());
            end = Moment::from_ns(BEGIN + key * PERIOD_NS + u64::from(board));
            let datagram =
                Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 0, time: end };
            node.take(0, end, &datagram);
        }
        node.hand_over(log)?;
    }
    node.finish(end);
    node.hand_over(log)?;
    Ok(node.counts().bytes)
}
