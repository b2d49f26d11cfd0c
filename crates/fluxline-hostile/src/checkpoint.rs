//! Checkpoints from strangers: refused, or a builder that is saved again as it was read.

use std::collections::BTreeMap;

use fluxline_cluster::{NodeConfig, PartitionBuilder, ReadoutNode};
use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::formats;
use fluxline_kafka::build::log::hand_over;
use fluxline_kafka::build::{Checkpoint, Log, MemoryLog};

const RUN: u64 = 7;
/// Magic, version, run and digest: right in every input, else nothing behind them is read.
const FIXED_BYTES: usize = 24;

fn config() -> BuilderConfig {
    BuilderConfig {
        mode: Mode::Key(Scope::Global),
        closed_keys_max: 64,
        ..BuilderConfig::default()
    }
}

fn restore(bytes: &[u8]) -> Option<PartitionBuilder> {
    Checkpoint::restore(RUN, 1, &config(), bytes).ok()
}

/// Any bytes as a checkpoint: as they are, and behind a right head with a right check sum.
///
/// # Panics
/// When a state that was read is not the same after it was saved again.
pub fn checkpoint(bytes: &[u8]) {
    let _ = restore(bytes);
    let first =
        Checkpoint::of(&PartitionBuilder::new(RUN, 1, config())).expect("a new builder is short");
    let mut sealed = first.bytes[..FIXED_BYTES].to_vec();
    sealed.extend_from_slice(bytes);
    sealed.extend_from_slice(&crc_fast::crc32_iscsi(&sealed).to_le_bytes());
    let Some(builder) = restore(&sealed) else { return };
    let again = Checkpoint::of(&builder).expect("not longer than it was");
    let same = restore(&again.bytes).expect("it was read, so it can be read again");
    assert_eq!(Checkpoint::of(&same), Some(again), "another state");
}

/// Returns a checkpoint behind this many packets, without the head and the check sum that
/// [`checkpoint`] adds.
#[must_use]
pub fn checkpoint_seed(packets: u64) -> Vec<u8> {
    let node = NodeConfig {
        run: RUN,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 256,
        record_age: Span::from_ms(5),
        memory_bytes: 1 << 20,
    };
    let format = formats::load("counter", &BTreeMap::new()).expect("shipped").description;
    let mut node = ReadoutNode::new(node, vec![("boards".to_owned(), format)], 1);
    let mut log = MemoryLog::new(1);
    for number in 0..packets {
        let (key, board) = (number / 3, number % 3);
        let mut bytes = vec![0x46, 0x4C, 0x58, 0x43, 1, 0, board as u8, 0];
        bytes.extend((key as u32).to_le_bytes());
        bytes.extend([0, 0, 1, 0]);
        bytes.extend(key.to_le_bytes());
        bytes.extend((key * 1000).to_le_bytes());
        let time = Moment::from_ns(1_700_000_000_000_000_000 + number * 1_000_000);
        let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 0, time };
        // The second board stops halfway.
        if board != 1 || number < packets / 2 {
            node.take(0, time, &datagram);
        }
        hand_over(&mut node, &mut log).expect("a log in memory");
    }
    let mut builder = PartitionBuilder::new(RUN, 1, config());
    while let Ok(Some(record)) = log.read(0, builder.next_offset()) {
        let _ = builder.take(record.offset, &record.bytes);
    }
    let bytes = Checkpoint::of(&builder).expect("short").bytes;
    bytes[FIXED_BYTES..bytes.len() - 4].to_vec()
}
