//! Batches to record, and a run read back whole.

use std::fs;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{
    ReadReport, Recorder, RecorderConfig, RunFolder, RunReader, SyncPolicy,
};
use proptest::prelude::*;

/// A small configuration: nothing forced, files of this size.
pub fn files_of(file_bytes: u64) -> RecorderConfig {
    RecorderConfig { file_bytes, sync: SyncPolicy::None, ..RecorderConfig::default() }
}

/// Records batches into a new run below `dir`.
pub fn record(dir: &Path, config: RecorderConfig, batches: &[EventBatch]) -> PathBuf {
    let folder = RunFolder::create_next(&dir.join("runs")).unwrap();
    let path = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, config);
    for batch in batches {
        recorder.write(batch, Moment::from_ns(0)).unwrap();
    }
    recorder.finish().unwrap();
    path
}

/// Reads all that a run holds: number and rows of each batch, and the report.
pub fn read_all(run: &Path) -> (Vec<(u64, EventBatch)>, ReadReport) {
    let mut reader = RunReader::open(run).unwrap();
    let mut batches = Vec::new();
    while let Some(found) = reader.next_batch().unwrap() {
        let mut batch = EventBatch::default();
        found.append_to(&mut batch).unwrap();
        batches.push((found.number(), batch));
    }
    (batches, reader.report().clone())
}

/// The event files of a run, in order.
pub fn event_files(run: &Path) -> Vec<PathBuf> {
    let files = RunFolder::open(run).unwrap().event_files().unwrap();
    files.into_iter().map(|(_, path)| path).collect()
}

/// A few batches of a few events; the same for the same seed.
pub fn small_batches(count: u64) -> Vec<EventBatch> {
    (0..count)
        .map(|number| {
            let mut batch = EventBatch::default();
            for event in 0..3 {
                let incomplete = (number + event).is_multiple_of(2);
                let missing = if incomplete { "source 7: 2 packets" } else { "" };
                let packets = (event + 1) as u32;
                batch.missing.push_str(missing);
                batch.events.push(EventRow {
                    key: (event != 1).then_some(number * 10 + event),
                    generation: number as u32 / 3,
                    source: (event == 2).then_some(number as u32),
                    status: EventStatus::ALL[(number + event) as usize % 4],
                    first: Moment::from_ns(number * 1000),
                    last: Moment::from_ns(number * 1000 + event),
                    built: Moment::from_ns(number * 1000 + 500),
                    packets,
                    missing_bytes: missing.len() as u32,
                });
                for part in 0..packets {
                    let bytes = 5 + part * 3;
                    batch.bytes.extend((0..bytes).map(|byte| (byte as u64 ^ number) as u8));
                    batch.packets.push(PacketRow {
                        source: part,
                        packet_type: (part % 3) as u8,
                        sequence: (part != 1).then_some(number * 100 + u64::from(part)),
                        time: Moment::from_ns(number * 1000 + u64::from(part)),
                        sensor_time_ns: (part == 0).then_some(number),
                        part: u64::from(part),
                        payload_start: 4,
                        payload_bytes: bytes - 4,
                        bytes,
                    });
                }
            }
            batch
        })
        .collect()
}

/// Any batch whose rows add up.
pub fn any_batch() -> impl Strategy<Value = EventBatch> {
    proptest::collection::vec(any_event(), 0..12).prop_map(|events| {
        let mut batch = EventBatch::default();
        for (mut event, missing, packets) in events {
            event.packets = packets.len() as u32;
            event.missing_bytes = missing.len() as u32;
            batch.events.push(event);
            batch.missing.push_str(&missing);
            for (mut packet, data) in packets {
                packet.bytes = data.len() as u32;
                batch.packets.push(packet);
                batch.bytes.extend_from_slice(&data);
            }
        }
        batch
    })
}

type AnyEvent = (EventRow, String, Vec<(PacketRow, Vec<u8>)>);

fn any_event() -> impl Strategy<Value = AnyEvent> {
    let times = (any_time(), any_time(), any_time());
    let packets = proptest::collection::vec(any_packet(), 0..9);
    let status = proptest::sample::select(&EventStatus::ALL[..]);
    let identity = (any::<Option<u64>>(), any::<u32>(), any::<Option<u32>>());
    (identity, status, times, "\\PC{0,12}", packets).prop_map(
        |((key, generation, source), status, (first, last, built), missing, packets)| {
            let row = EventRow {
                key,
                generation,
                source,
                status,
                first,
                last,
                built,
                packets: 0,
                missing_bytes: 0,
            };
            (row, missing, packets)
        },
    )
}

fn any_packet() -> impl Strategy<Value = (PacketRow, Vec<u8>)> {
    let numbers = (any::<u32>(), any::<u8>(), any::<u64>(), any::<u32>(), any::<u32>());
    let optional = (any::<Option<u64>>(), any::<Option<u64>>());
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    (numbers, optional, any_time(), data).prop_map(|(numbers, optional, time, data)| {
        let (source, packet_type, part, payload_start, payload_bytes) = numbers;
        let (sequence, sensor_time_ns) = optional;
        let row = PacketRow {
            source,
            packet_type,
            sequence,
            time,
            sensor_time_ns,
            part,
            payload_start,
            payload_bytes,
            bytes: 0,
        };
        (row, data)
    })
}

fn any_time() -> impl Strategy<Value = Moment> {
    (0..=i64::MAX as u64).prop_map(Moment::from_ns)
}

/// Copies a run, so that a test may spoil the copy.
pub fn copy_run(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to.join("formats")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}
