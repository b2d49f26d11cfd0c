//! The rate of an export on one core, beside what the memory and the disk can do.
//!
//! Records a run of each of three kinds of packets, then exports it in turns with a copy in memory
//! and a plain write of the same number of bytes to the same directory; medians are printed.
//!
//! ```sh
//! cargo run --release -p fluxline-export --example export_rate -- [DIRECTORY] [MEBIBYTES] [FORMAT]
//! ```

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder, SourceLine};
use fluxline_export::{Existing, ExportConfig, ExportFormat, export};
use fluxline_packet::shipped;
use median::median;

const ROUNDS: usize = 5;
const PACKETS_PER_EVENT: u32 = 8;

/// A kind of packet: a shipped description, the bytes of a header that passes it, and the payload.
struct Kind {
    format: &'static str,
    header: &'static [u8],
    payload_bytes: usize,
    about: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind { format: "dca1000", header: &[0; 10], payload_bytes: 1456, about: "samples of 16 bits" },
    Kind { format: "chdr", header: &[0; 16], payload_bytes: 8000, about: "pairs of 16 bits" },
    Kind { format: "srs-vmm3", header: &[0; 16], payload_bytes: 8952, about: "hits of 6 bytes" },
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let kept = tempfile::tempdir().expect("a temporary directory");
    let directory = arguments.next().map_or_else(|| kept.path().to_path_buf(), PathBuf::from);
    let mebibytes: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(256);
    let only = arguments.next();
    println!("{ROUNDS} rounds in turns, {mebibytes} MiB of payload, one thread, medians");
    for kind in &KINDS {
        let run = record(&directory, kind, mebibytes << 20);
        for format in
            [ExportFormat::Parquet, ExportFormat::Arrow, ExportFormat::Npy, ExportFormat::Csv]
        {
            if only.as_ref().is_none_or(|only| only == format.extension()) {
                measure(&directory, &run, kind, format, mebibytes << 20);
            }
        }
        fs::remove_dir_all(run).expect("the run of this example");
    }
}

fn record(directory: &Path, kind: &Kind, bytes: usize) -> PathBuf {
    let path = directory.join(format!("run-{}", kind.format));
    let _ = fs::remove_dir_all(&path);
    let folder = RunFolder::create(&path).expect("a new folder");
    let text = shipped::shipped(kind.format).expect("a shipped description");
    folder.write_format(kind.format, text).expect("a description");
    let mut recorder = Recorder::open(folder.clone(), RecorderConfig::default());
    let line = SourceLine {
        source: 0,
        name: "source 0".to_owned(),
        format: kind.format.to_owned(),
        parameters: BTreeMap::new(),
        port: None,
        details: serde_json::Map::new(),
    };
    recorder.write_source(&line).expect("a source");
    let packets = bytes / kind.payload_bytes;
    let mut noise = 1u64;
    let mut sent = 0;
    while sent < packets {
        let batch = batch_of(kind, &mut noise);
        sent += batch.packets.len();
        recorder.write(&batch, Moment::from_ns(1)).expect("a batch");
    }
    recorder.finish().expect("the end of a run");
    folder.write_run(&serde_json::json!({"state": "finished"})).expect("a run file");
    path
}

/// Some events whose samples are a triangle with noise in their lowest 5 bits.
fn batch_of(kind: &Kind, noise: &mut u64) -> EventBatch {
    let mut batch = EventBatch::default();
    let time = Moment::from_ns(1_700_000_000_000_000_000);
    for event in 0..64 {
        let (first, last, built) = (time, time, time);
        let (key, status, packets) = (Some(event), EventStatus::Complete, PACKETS_PER_EVENT);
        let row = EventRow { key, status, first, last, built, packets, ..EventRow::default() };
        batch.events.push(row);
        for _ in 0..PACKETS_PER_EVENT {
            batch.bytes.extend_from_slice(kind.header);
            for sample in 0..kind.payload_bytes / 2 {
                *noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let level = (sample % 500) as u16 * 4 + (*noise >> 59) as u16;
                batch.bytes.extend(level.to_le_bytes());
            }
            batch.packets.push(PacketRow {
                source: 0,
                packet_type: 0,
                sequence: Some(event),
                time,
                sensor_time_ns: None,
                part: 0,
                payload_start: kind.header.len() as u32,
                payload_bytes: kind.payload_bytes as u32,
                bytes: (kind.header.len() + kind.payload_bytes) as u32,
            });
        }
    }
    batch
}

fn measure(directory: &Path, run: &Path, kind: &Kind, format: ExportFormat, payload: usize) {
    let out = directory.join("exported");
    let (mut rates, mut copies, mut writes, mut ratio) = (vec![], vec![], vec![], 0.0);
    for _ in 0..ROUNDS {
        let mut config = ExportConfig::new(format, out.clone());
        config.existing = Existing::Replace;
        let began = Instant::now();
        let report = export(run, &config).unwrap_or_else(|error| panic!("{error}"));
        rates.push(rate(payload, began));
        assert!(report.integrity.is_sound(), "{:?}", report.integrity);
        assert_eq!(report.notes, Vec::<String>::new());
        ratio = size_of(&out) as f64 / payload as f64;
        fs::remove_dir_all(&out).expect("the export of this example");
        let source = vec![1u8; payload];
        let mut copied = vec![2u8; payload];
        let began = Instant::now();
        copied.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&copied);
        copies.push(rate(payload, began));
        let began = Instant::now();
        let plain = directory.join("plain");
        let mut file = File::create(&plain).expect("a file");
        source.chunks(1 << 20).for_each(|chunk| file.write_all(chunk).expect("space"));
        file.sync_all().expect("a disk");
        writes.push(rate(payload, began));
        fs::remove_file(plain).expect("the file of this example");
    }
    println!(
        "{:>9} {:<20} to {:<8} {:>6.0} MB/s; copy in memory {:>6.0}, plain write {:>5.0}; \
         files {ratio:.2} of the payload",
        kind.format,
        kind.about,
        format.extension(),
        median(rates),
        median(copies),
        median(writes),
    );
}

fn rate(bytes: usize, began: Instant) -> f64 {
    bytes as f64 / began.elapsed().as_secs_f64() / 1e6
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").metadata().expect("a file").len()).sum()
}
