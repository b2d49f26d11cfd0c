//! A run in the hands of other tools: the numbers in their files are the numbers recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, UInt16Type};
use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, PacketRow};
use fluxline_daq::record::RunFolder;
use fluxline_export::{
    Existing, ExportConfig, ExportError, ExportFormat, ExportJob, RawBytes, RowsOf, export,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::boards::{begin_run_of_boards, complete_event};
use crate::samples::{files_of, record, small_batches};
use crate::typed::arrays_run;

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
    let (mut recorder, path) = begin_run_of_boards(dir, "toy", FORMAT, 2);
    let time = Moment::from_ns(1_700_000_000_123_456_789);
    let mut batch = EventBatch::default();
    for event in 0..2u64 {
        batch.events.push(complete_event(100 + event, time, 2));
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
    ExportConfig::new(format, folder)
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
    let mut config = config(ExportFormat::Csv, out.clone());
    config.rows = RowsOf::Records;
    config.raw = RawBytes::All;
    let report = export(&run, &config).unwrap();
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
    assert_eq!(first, format!("0,100,0,board=0,0,256,{time},,0,8,12,{data}"));
    let headers = fs::read_to_string(out.join("toy-data.csv")).unwrap();
    let lines: Vec<&str> = headers.lines().collect();
    assert_eq!(
        lines[0],
        "event,event_key,source,source_name,packet_sequence,time,sensor_time_ns,\
         magic,board,flags,sequence,gain"
    );
    assert_eq!(lines[1], format!("0,100,0,board=0,256,{time},,61936,0,0,256,"));
    assert_eq!(lines[4], format!("1,101,1,board=1,257,{time},,61936,1,1,257,700"));
    let hits = fs::read_to_string(out.join("toy-data-hit.csv")).unwrap();
    assert_eq!(hits.lines().last().unwrap(), format!("1,101,1,board=1,257,{time},,2,12,-2"));
    let mut left: Vec<_> =
        fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    let expected = ["events.csv", "export.json", "packets.csv", "toy-data-hit.csv", "toy-data.csv"];
    assert_eq!(left, expected, "no unfinished file is left");
}

#[test]
fn an_array_is_one_cell_and_decoded_bytes_are_not_kept_twice() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("csv");
    let report = export(&run, &config(ExportFormat::Csv, out.clone())).unwrap();
    assert_eq!(report.tables.len(), 3);
    let table = fs::read_to_string(out.join("toy-data.csv")).unwrap();
    assert!(table.lines().next().unwrap().ends_with(",gain,channel,charge"), "{table}");
    assert!(table.lines().last().unwrap().ends_with(",700,10 11 12,0 -1 -2"), "{table}");
    let packets = fs::read_to_string(out.join("packets.csv")).unwrap();
    assert!(packets.lines().skip(1).all(|line| line.ends_with(',')), "{packets}");
}

#[test]
fn parquet_says_what_was_recorded_and_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("parquet");
    let mut config = config(ExportFormat::Parquet, out.clone());
    export(&run, &config).unwrap();
    let table = parquet(&out.join("toy-data.parquet"));
    let gain = table.column_by_name("gain").unwrap().as_primitive::<UInt16Type>();
    assert_eq!(gain.iter().collect::<Vec<_>>(), [None, Some(700), None, Some(700)]);
    let charge = table.column_by_name("charge").unwrap().as_list::<i32>();
    assert_eq!(charge.value(3).as_primitive::<Int16Type>().values(), &[0, -1, -2]);
    let file = fs::File::open(out.join("toy-data.parquet")).unwrap();
    let schema = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().schema().clone();
    let allowed = &schema.field_with_name("magic").unwrap().metadata()["allowed"];
    assert_eq!((allowed.as_str(), schema.metadata()["fluxline.run"].as_str()), ("61936", "0000"));
    assert!(matches!(export(&run, &config), Err(ExportError::Exists(_))));
    config.existing = Existing::Replace;
    export(&run, &config).unwrap();
}

/// All files below a folder with their bytes, but for the journal.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false if path.ends_with("export.json") => {}
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_path_buf();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// Writes groups of an export, as a program that is killed behind the last of them.
fn interrupted(run: &Path, config: &ExportConfig, groups: usize) {
    let mut job = ExportJob::open(run, config).unwrap();
    for _ in 0..groups {
        let Some(group) = job.next_group().unwrap() else { break };
        let encoded = job.encoder().encode(group).unwrap();
        job.write(encoded).unwrap();
    }
}

#[test]
fn an_interrupted_export_goes_on_and_its_files_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = arrays_run(dir.path(), 60);
    for format in [ExportFormat::Parquet, ExportFormat::Arrow, ExportFormat::Csv, ExportFormat::Npy]
    {
        let out = |word: &str| dir.path().join(format!("{word}-{}", format.extension()));
        let mut whole = config(format, out("whole"));
        whole.part_bytes = 500;
        let report = export(&run, &whole).unwrap();
        assert!(report.tables[0].parts > 5 && report.resumed_parts == 0, "{report:?}");
        let mut again = whole.clone();
        again.folder = out("again");
        for groups in [1, 3, 2] {
            interrupted(&run, &again, groups);
        }
        let report = export(&run, &again).unwrap();
        assert!(report.resumed_parts >= 3, "{report:?}");
        assert_eq!(report.tables[0].rows, 60);
        let (whole, again) = (files(&whole.folder), files(&again.folder));
        assert_eq!(whole.keys().collect::<Vec<_>>(), again.keys().collect::<Vec<_>>());
        assert!(whole == again, "{format:?}: the same bytes");
    }
}

#[test]
fn an_export_does_not_go_on_with_another_choice_or_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = arrays_run(dir.path(), 60);
    let mut config = config(ExportFormat::Csv, dir.path().join("out"));
    config.part_bytes = 500;
    interrupted(&run, &config, 3);
    let other = ExportConfig { rows: RowsOf::Records, ..config.clone() };
    assert!(matches!(export(&run, &other), Err(ExportError::Exists(_))));
    // A part whose file has gone is made again.
    fs::remove_file(config.folder.join("events/0000.csv")).unwrap();
    assert!(matches!(export(&run, &config), Err(ExportError::Exists(_))));
    config.existing = Existing::Replace;
    assert_eq!(export(&run, &config).unwrap().tables[0].rows, 60);
}

#[test]
fn columns_are_chosen_in_every_table_that_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let mut config = config(ExportFormat::Csv, dir.path().join("out"));
    config.selection.columns = Some(vec!["charge".to_owned(), "event".to_owned()]);
    export(&run, &config).unwrap();
    let table = fs::read_to_string(config.folder.join("toy-data.csv")).unwrap();
    assert_eq!(table.lines().nth(1), Some("0,0 -1 -2"));
    assert_eq!(fs::read_to_string(config.folder.join("events.csv")).unwrap(), "event\n0\n1\n");
    config.selection.columns = Some(vec!["charg".to_owned()]);
    let error = export(&run, &config).unwrap_err().to_string();
    assert_eq!(error, "no table has a column `charg`; did you mean `charge`?");
}

#[test]
fn runs_without_events_or_descriptions_are_exported_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let empty = RunFolder::create_next(dir.path()).unwrap();
    empty.write_run(&serde_json::json!({})).unwrap();
    let raw = record(dir.path(), files_of(4000), &small_batches(3));
    for format in [ExportFormat::Parquet, ExportFormat::Arrow, ExportFormat::Csv, ExportFormat::Npy]
    {
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
fn numpy_has_an_array_per_column_of_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    let out = dir.path().join("npy");
    let report = export(&run, &config(ExportFormat::Npy, out.clone())).unwrap();
    assert_eq!(report.tables[0].left_out, ["missing"]);
    assert_eq!(report.tables[1].left_out, ["source_name"]);
    let bytes = fs::read(out.join("toy-data.charge.npy")).unwrap();
    let head = usize::from(u16::from_le_bytes([bytes[8], bytes[9]])) + 10;
    assert_eq!(head % 64, 0);
    assert_eq!(bytes.len(), head + 4 * 3 * 2);
    let text = String::from_utf8_lossy(&bytes[10..head]);
    assert!(text.contains("'shape': (4, 3,)") && text.ends_with(" \n"), "{text}");
    assert_eq!(bytes[bytes.len() - 4..], [0xFF, 0xFF, 0xFE, 0xFF]);
    assert!(!out.join("toy-data.charge.offsets.npy").exists(), "equal lengths need none");
    let run = arrays_run(dir.path(), 2);
    export(&run, &config(ExportFormat::Npy, dir.path().join("uneven"))).unwrap();
    let name = dir.path().join("uneven/arrays-data.adc.offsets.npy");
    let offsets = fs::read(name).unwrap();
    let numbers = offsets[offsets.len() - 7 * 8..].chunks_exact(8);
    let numbers: Vec<u64> =
        numbers.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(numbers, [0, 3, 7, 12, 15, 19, 24]);
}

/// `tests/python/test_pyarrow.py` over a run and its exports.
#[test]
#[ignore = "all: needs pyarrow and NumPy"]
fn pyarrow_and_numpy_read_the_files_as_they_are() {
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let dir = tempfile::tempdir().unwrap();
    let run = toy_run(dir.path());
    for format in [ExportFormat::Parquet, ExportFormat::Arrow, ExportFormat::Npy] {
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
