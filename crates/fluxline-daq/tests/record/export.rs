//! A run in the hands of other tools: the numbers in their files are the numbers recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, EventRow, EventStatus, PacketRow};
use fluxline_daq::record::{
    Existing, ExportConfig, ExportError, ExportFormat, Join, Recorder, RunFolder, SourceLine,
    export,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::samples::{files_of, record, small_batches};

/// A header of 8 bytes, an optional word, records of 4 bytes.
const FORMAT: &str = r#"
name = "toy"
about = "a board of these tests"
reference = "none: made up"
byte-order = "big"

[[packet]]
name = "data"
source = ["board"]
[[packet.fields]]
name = "magic"
type = "u16"
equals = 0xF1F0
[[packet.fields]]
name = "board"
type = "u8"
[[packet.fields]]
name = "flags"
type = "u8"
[[packet.fields]]
name = "sequence"
type = "u32"
[[packet.fields]]
name = "gain"
type = "u16"
when = "flags & 1"
[packet.sequence]
value = "sequence"
[packet.records]
name = "hit"
bytes = 4
[[packet.records.fields]]
name = "channel"
type = "u16"
[[packet.records.fields]]
name = "charge"
type = "i16"
"#;

/// Two events of two packets of two boards; board 1 sends the optional word. Three hits each.
fn toy_run(dir: &Path) -> PathBuf {
    let folder = RunFolder::create_next(&dir.join("runs")).unwrap();
    folder.write_format("toy", FORMAT).unwrap();
    let path = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, files_of(1 << 20));
    for source in 0..2 {
        let (name, format) = (format!("board={source}"), "toy".to_owned());
        let (parameters, details) = (BTreeMap::new(), serde_json::Map::new());
        let line = SourceLine { source, name, format, parameters, port: None, details };
        recorder.write_source(&line).unwrap();
    }
    let time = Moment::from_ns(1_700_000_000_123_456_789);
    let mut batch = EventBatch::default();
    for event in 0..2u64 {
        let status = EventStatus::Complete;
        let (first, last, built) = (time, time, time);
        let key = Some(100 + event);
        batch.events.push(EventRow {
            key,
            status,
            first,
            last,
            built,
            packets: 2,
            ..EventRow::default()
        });
        for board in 0..2u8 {
            let before = batch.bytes.len();
            batch.bytes.extend([0xF1, 0xF0, board, board, 0, 0, 1, event as u8]);
            if board == 1 {
                batch.bytes.extend(700u16.to_be_bytes());
            }
            let header = batch.bytes.len() - before;
            for hit in 0..3i16 {
                batch.bytes.extend((hit as u16 + 10 * u16::from(board)).to_be_bytes());
                batch.bytes.extend((-hit).to_be_bytes());
            }
            let bytes = (batch.bytes.len() - before) as u32;
            batch.packets.push(PacketRow {
                source: u32::from(board),
                packet_type: 0,
                sequence: Some(256 + event),
                time,
                sensor_time_ns: None,
                part: 0,
                payload_start: header as u32,
                payload_bytes: bytes - header as u32,
                bytes,
            });
        }
    }
    recorder.write(&batch, time).unwrap();
    recorder.finish().unwrap();
    path
}

fn config(format: ExportFormat, folder: PathBuf) -> ExportConfig {
    ExportConfig { format, folder, existing: Existing::Refuse, join: Join::Late }
}

fn parquet(file: &Path) -> RecordBatch {
    let file = fs::File::open(file).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    assert!(batches.len() <= 1);
    batches.into_iter().next().unwrap_or_else(|| RecordBatch::new_empty(schema))
}

#[test]
fn csv_says_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("csv");
    let report = export(&run, &config(ExportFormat::Csv, out.clone())).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    let rows: Vec<u64> = report.tables.iter().map(|table| table.rows).collect();
    assert_eq!(rows, [2, 4, 4, 12]);
    let events = fs::read_to_string(out.join("events.csv")).unwrap();
    let time = "2023-11-14T22:13:20.123456789Z";
    assert_eq!(
        events,
        format!(
            "event,key,generation,source,status,missing,first_time,last_time,built_time,packets,bytes\n\
             0,100,0,,complete,,{time},{time},{time},2,42\n\
             1,101,0,,complete,,{time},{time},{time},2,42\n"
        )
    );
    let packets = fs::read_to_string(out.join("packets.csv")).unwrap();
    let first = packets.lines().nth(1).unwrap();
    let data = "f1f000000000010000000000".to_owned() + "0001ffff0002fffe";
    assert_eq!(first, format!("0,100,0,0,256,{time},,0,8,12,{data}"));
    let headers = fs::read_to_string(out.join("toy-data-headers.csv")).unwrap();
    let lines: Vec<&str> = headers.lines().collect();
    assert_eq!(
        lines[0],
        "event,event_key,source,sequence,time,magic,board,flags,sequence_field,gain"
    );
    assert_eq!(lines[1], format!("0,100,0,256,{time},61936,0,0,256,"));
    assert_eq!(lines[4], format!("1,101,1,257,{time},61936,1,1,257,700"));
    let hits = fs::read_to_string(out.join("toy-data-hit.csv")).unwrap();
    assert_eq!(hits.lines().last().unwrap(), format!("1,101,1,257,{time},2,12,-2"));
    let left: Vec<_> = fs::read_dir(&out).unwrap().collect();
    assert_eq!(left.len(), 4, "no unfinished file is left");
}

#[test]
fn parquet_says_what_was_recorded_and_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("parquet");
    let mut config = config(ExportFormat::Parquet, out.clone());
    export(&run, &config).unwrap();
    let headers = parquet(&out.join("toy-data-headers.parquet"));
    let gain = headers.column_by_name("gain").unwrap().as_primitive::<UInt16Type>();
    assert_eq!(gain.iter().collect::<Vec<_>>(), [None, Some(700), None, Some(700)]);
    let hits = parquet(&out.join("toy-data-hit.parquet"));
    let events = hits.column(0).as_primitive::<UInt64Type>();
    assert_eq!(events.values(), &[0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    assert!(matches!(export(&run, &config), Err(ExportError::Exists(_))));
    config.existing = Existing::Replace;
    export(&run, &config).unwrap();
}

#[test]
fn runs_without_events_or_descriptions_are_exported_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let empty = RunFolder::create_next(dir.path()).unwrap();
    empty.write_run(&serde_json::json!({})).unwrap();
    let raw = record(dir.path(), files_of(4000), &small_batches(3));
    for format in [ExportFormat::Parquet, ExportFormat::Csv, ExportFormat::Npy] {
        let out = dir.path().join(format!("empty-{}", format.extension()));
        let report = export(empty.path(), &config(format, out)).unwrap();
        assert_eq!(report.tables.iter().map(|table| table.rows).collect::<Vec<_>>(), [0, 0]);
        let out = dir.path().join(format!("raw-{}", format.extension()));
        let report = export(&raw, &config(format, out)).unwrap();
        assert_eq!(report.tables.iter().map(|table| table.rows).collect::<Vec<_>>(), [9, 18]);
        assert!(report.notes[0].starts_with("18 packets are of sources"), "{:?}", report.notes);
    }
}

#[test]
fn numpy_leaves_out_what_has_no_fixed_width_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("npy");
    let report = export(&run, &config(ExportFormat::Npy, out.clone())).unwrap();
    assert_eq!(report.tables[0].left_out, ["missing"]);
    assert_eq!(report.tables[1].left_out, ["data"]);
    let bytes = fs::read(out.join("toy-data-hit.npy")).unwrap();
    let head = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    assert_eq!(head % 64, 0);
    let row_bytes = 8 + 9 + 4 + 9 + 8 + 4 + 2 + 2;
    assert_eq!(bytes.len(), head + 12 * row_bytes);
    let text = String::from_utf8_lossy(&bytes[10..head]);
    assert!(text.contains("'shape': (12,)") && text.ends_with(" \n"), "{text}");
    let last = &bytes[bytes.len() - 4..];
    assert_eq!(last, [12, 0, 0xFE, 0xFF]);
}

/// `tests/python/test_pyarrow.py` over a run and its exports.
#[test]
fn pyarrow_and_numpy_read_the_files_as_they_are() {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let modules = Command::new(&python).args(["-c", "import pyarrow, numpy"]).output();
    if !modules.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "{python} has no pyarrow and numpy, and FLUXLINE_REQUIRE_TOOLS=1");
        println!("skipped: {python} has no pyarrow and numpy; FLUXLINE_PYTHON names another");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    for format in [ExportFormat::Parquet, ExportFormat::Npy] {
        export(&run, &config(format, dir.path().join(format.extension()))).unwrap();
    }
    let raw = record(dir.path(), files_of(4000), &small_batches(5));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/test_pyarrow.py");
    let output = Command::new(python).arg(script).arg(dir.path()).arg(&raw).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("5 batches, 5 check sums hold"), "{text}");
}
