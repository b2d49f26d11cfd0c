//! The recorder against a plain buffered write of the same bytes to the same directory.
//!
//! The recorder writes through the page cache, then past it, then the plain write has its turn,
//! trial by trial, since the speed of a page cache changes from minute to minute; medians of the
//! rates and of each trial's ratios are printed. The target is 0.8.
//!
//! `cargo bench -p fluxline-daq --bench recorder -- [DIRECTORY] [MEBIBYTES]`; the directory may
//! come from FLUXLINE_BENCH_DIR, the default is a temporary one. Files are removed after each
//! trial.

#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder, SyncPolicy, WriteMode};
use median::median;

const TRIALS: usize = 15;
const BATCH_BYTES: usize = 4 << 20;
const WRITE_BYTES: usize = 1 << 20;
const PACKETS_PER_EVENT: u32 = 8;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let directory = arguments.next().or_else(|| std::env::var("FLUXLINE_BENCH_DIR").ok());
    let mebibytes: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(256);
    let kept = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.map_or_else(|| kept.path().to_path_buf(), PathBuf::from);
    println!("{}", machine());
    println!("{TRIALS} trials of {mebibytes} MiB each, interleaved, in {}", directory.display());
    for payload_bytes in [1472, 8972] {
        compare(&directory, payload_bytes, mebibytes << 20);
    }
}

fn compare(directory: &Path, payload_bytes: usize, total_bytes: usize) {
    let batch = batch_of(payload_bytes);
    let batches = total_bytes.div_ceil(batch.bytes.len());
    let (mut plain, mut buffered, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for trial in 0..TRIALS + 1 {
        let (through, file_bytes) = record(directory, &batch, batches, WriteMode::Buffered);
        let (past, _) = record(directory, &batch, batches, WriteMode::Direct);
        bytes = file_bytes;
        let plainly = write_plainly(directory, file_bytes);
        // The first trial warms caches and the allocator of the file system.
        if trial > 0 {
            buffered.push(through);
            direct.push(past);
            plain.push(plainly);
        }
    }
    // Trial by trial, since all three share what the machine was doing just then.
    let ratio = |rates: &[f64]| {
        median(rates.iter().zip(&plain).map(|(rate, plain)| rate / plain).collect::<Vec<_>>())
    };
    let ratios = (ratio(&buffered), ratio(&direct));
    println!(
        "payload {payload_bytes} B: plain write {:.2} GB/s; recorder buffered {:.2} GB/s, ratio \
         {:.2}; past the cache {:.2} GB/s, ratio {:.2} (target 0.8); overhead of the files {:.2} %",
        median(plain.clone()),
        median(&mut buffered),
        ratios.0,
        median(&mut direct),
        ratios.1,
        (bytes as f64 / (batches * batch.bytes.len()) as f64 - 1.0) * 100.0,
    );
}

/// Rate [GB/s of file bytes] and size of the files \[byte\].
fn record(directory: &Path, batch: &EventBatch, batches: usize, write: WriteMode) -> (f64, u64) {
    let run = RunFolder::create_next(&directory.join("fluxline-bench")).expect("a run folder");
    let path = run.path().to_path_buf();
    let config = RecorderConfig { file_bytes: 1 << 40, sync: SyncPolicy::None, write };
    let begin = Instant::now();
    let mut recorder = Recorder::open(run, config);
    for _ in 0..batches {
        recorder.write(batch, Moment::from_ns(0)).expect("space on the disk");
    }
    recorder.finish().expect("space on the disk");
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = recorder.counts().file_bytes;
    fs::remove_dir_all(&path).expect("the run folder");
    (bytes as f64 / seconds / 1e9, bytes)
}

fn write_plainly(directory: &Path, bytes: u64) -> f64 {
    let path = directory.join("fluxline-bench/plain");
    let buffer = vec![0xA5; WRITE_BYTES];
    let begin = Instant::now();
    let mut file = File::create(&path).expect("a file");
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(WRITE_BYTES);
        file.write_all(&buffer[..now]).expect("space on the disk");
        left -= now;
    }
    drop(file);
    let seconds = begin.elapsed().as_secs_f64();
    fs::remove_file(&path).expect("the file");
    bytes as f64 / seconds / 1e9
}

fn batch_of(payload_bytes: usize) -> EventBatch {
    let mut batch = EventBatch::default();
    let moment = Moment::from_ns(1_700_000_000_000_000_000);
    let events = BATCH_BYTES / (payload_bytes * PACKETS_PER_EVENT as usize);
    for event in 0..events.max(1) as u64 {
        batch.events.push(EventRow {
            key: Some(event),
            status: EventStatus::Complete,
            first: moment,
            last: moment,
            built: moment,
            packets: PACKETS_PER_EVENT,
            ..EventRow::default()
        });
        for source in 0..PACKETS_PER_EVENT {
            batch.bytes.extend((0..payload_bytes).map(|byte| (byte as u32 ^ source) as u8));
            batch.packets.push(PacketRow {
                source,
                packet_type: 0,
                sequence: Some(event),
                time: moment,
                sensor_time_ns: Some(event),
                part: 0,
                payload_start: 16,
                payload_bytes: payload_bytes as u32 - 16,
                bytes: payload_bytes as u32,
            });
        }
    }
    batch
}

/// Describes the machine, on which each measured number depends.
fn machine() -> String {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let model = text("/proc/cpuinfo");
    let model = model.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("?");
    format!("machine: {model}, Linux {}", text("/proc/sys/kernel/osrelease").trim())
}
