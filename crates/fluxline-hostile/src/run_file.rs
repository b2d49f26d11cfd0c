//! Run files from strangers: reading, recovering and exporting any bytes ends in values or
//! sentences.
//!
//! Under cfg(fuzzing) the reader takes every check sum for right, so that the fuzzer gets behind
//! them: they keep accidents out, not intent. The run has descriptions for some sources, so that
//! packets in the file are decoded too.

use std::fs;
use std::path::Path;

use crate::shared::{RUN_FORMATS, scratch};
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{RunReader, recover};
use fluxline_export::{ExportConfig, ExportFormat, export};
use fluxline_packet::shipped::shipped;

const KINDS: [ExportFormat; 4] =
    [ExportFormat::Csv, ExportFormat::Npy, ExportFormat::Parquet, ExportFormat::Arrow];

fn make_run(run: &Path, events: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(run.join("formats"))?;
    fs::write(run.join("events-000000.arrows"), events)?;
    let mut lines = String::new();
    for (source, format) in RUN_FORMATS.iter().enumerate() {
        let text = shipped(format).unwrap_or_default();
        fs::write(run.join(format!("formats/{format}.toml")), text)?;
        let line = format!(r#"{{"source":{source},"name":"s{source}","format":"{format}"}}"#);
        lines.push_str(&line);
        lines.push('\n');
    }
    fs::write(run.join("sources.jsonl"), lines)
}

fn read(run: &Path) -> Option<(u64, u64, u64)> {
    let mut reader = RunReader::open(run).ok()?;
    let mut rows = EventBatch::default();
    while let Some(found) = reader.next_batch().ok()? {
        let before = rows.events.len();
        if found.append_to(&mut rows).is_ok() {
            assert_eq!(rows.events.len() - before, found.record_batch().num_rows());
        }
    }
    let report = reader.report();
    Some((report.batches, report.events, report.packets))
}

/// An export takes ten times as long as all the rest, so most inputs have none.
fn export_of(bytes: &[u8]) -> usize {
    let sum =
        bytes.iter().fold(0_usize, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (sum >> 3) % (4 * KINDS.len())
}

/// Any bytes as an event file of a run.
pub fn run_file(bytes: &[u8]) {
    let Ok(dir) = scratch() else { return };
    let run = dir.path().join("0000");
    make_run(&run, bytes).expect("a folder of the fuzzer's own");
    let found = read(&run);
    let holds_events = found.is_some_and(|(_, events, _)| events > 0);
    if let Some(&format) = KINDS.get(export_of(bytes)).filter(|_| holds_events) {
        let folder = dir.path().join("exported");
        let config = ExportConfig::new(format, folder);
        let _ = export(&run, &config);
    }
    if let Ok(report) = recover(&run) {
        let mended = &report.found;
        assert_eq!(found, Some((mended.batches, mended.events, mended.packets)));
        let again = recover(&run).expect("a mended run");
        assert!(!again.changed, "a second recovery changed something");
    }
}
