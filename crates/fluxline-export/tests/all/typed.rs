//! Typed tables: the arrays hold the fields that were recorded, and their metadata.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::DataType;
use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, PacketRow};
use fluxline_daq::record::{Join, RunFolder};
use fluxline_export::typed::{Selection, TableKind, TypedError, TypedRun};

use crate::boards::{begin_run_of_boards, complete_event};

/// A header with a field called `time`, a list, an optional word, and records of 4 bytes.
pub const FORMAT: &str = r#"
name = "arrays"
about = "a board of these tests"
reference = "none: made up"
byte-order = "big"
[[packet]]
name = "data"
source = ["board"]
fields = [
  { name = "magic", type = "u16", equals = 0xF1F0 },
  { name = "board", type = "u8" },
  { name = "temperatures", type = "u8", help = "Number of temperatures." },
  { name = "time", type = "u32", unit = "8 ns", help = "Since switch-on." },
  { name = "temperature", list = { count = "temperatures", fields = [
    { name = "value", type = "i16", unit = "K" }] } },
]
sequence = { value = "time" }
timestamp = { ticks = "time", unit = "8 ns", epoch = "start" }
[packet.records]
name = "sample"
bytes = 4
fields = [
  { name = "adc", type = "i16", unit = "count", help = "Amplitude." },
  { name = "time", type = "u16", when = "time < 900" },
]
"#;

/// Records a run: each packet has samples 0 to `board + 2` and temperatures 0 to `board`.
pub fn arrays_run(dir: &Path, events: u64) -> PathBuf {
    let description = FORMAT.replace("when = \"time < 900\"", "unit = \"tick\"");
    let (mut recorder, path) = begin_run_of_boards(dir, "arrays", &description, 3);
    for event in 0..events {
        let mut batch = EventBatch::default();
        let time = Moment::from_ns(1_700_000_000_000_000_000 + event * 1_000_000_000);
        batch.events.push(complete_event(100 + event, time, 3));
        for board in 0..3u8 {
            let packet = packet_of(event, board);
            let payload_start = 8 + 2 * u32::from(board);
            let bytes = packet.len() as u32;
            batch.bytes.extend(packet);
            batch.packets.push(PacketRow {
                source: u32::from(board),
                packet_type: 0,
                sequence: Some(event),
                time,
                sensor_time_ns: Some(8 * event),
                part: 0,
                payload_start,
                payload_bytes: bytes - payload_start,
                bytes,
            });
        }
        recorder.write(&batch, time).unwrap();
    }
    recorder.finish().unwrap();
    path
}

fn packet_of(event: u64, board: u8) -> Vec<u8> {
    let mut bytes = vec![0xF1, 0xF0, board, board];
    bytes.extend((event as u32).to_be_bytes());
    (0..i16::from(board)).for_each(|value| bytes.extend((value - 1).to_be_bytes()));
    for sample in 0..i16::from(board) + 3 {
        bytes.extend((-sample).to_be_bytes());
        bytes.extend((event as u16 * 10 + sample as u16).to_be_bytes());
    }
    bytes
}

fn open(run: &Path) -> TypedRun {
    TypedRun::open(run, Join::Late).unwrap()
}

fn all(run: &TypedRun, table: &str, selection: &Selection) -> Vec<RecordBatch> {
    run.batches(table, selection).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_packet_is_a_row_and_its_records_are_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let run = open(&arrays_run(dir.path(), 40));
    let names: Vec<&str> = run.tables().iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["events", "packets", "arrays-data", "arrays-data-sample"]);
    assert_eq!(run.table("arrays-data").unwrap().kind, TableKind::PacketType);
    let batches = all(&run, "arrays-data", &Selection::default());
    assert_eq!(batches.len(), 1, "small recorded batches become one");
    let batch = &batches[0];
    assert_eq!(batch.num_rows(), 120);
    let adc = batch.column_by_name("adc").unwrap().as_list::<i32>();
    let tags = batch.column_by_name("sample_time").unwrap().as_list::<i32>();
    let temperature = batch.column_by_name("temperature_value").unwrap().as_list::<i32>();
    let names = batch.column_by_name("source_name").unwrap().as_dictionary::<Int32Type>();
    let time = batch.column_by_name("time").unwrap().as_primitive::<UInt32Type>();
    for row in 0..120 {
        let (event, board) = (row as u64 / 3, row % 3);
        let samples = board as i16 + 3;
        let expected: Vec<i16> = (0..samples).map(|sample| -sample).collect();
        assert_eq!(adc.value(row).as_primitive::<Int16Type>().values(), &expected);
        let expected: Vec<u16> = (0..samples as u16).map(|s| event as u16 * 10 + s).collect();
        assert_eq!(tags.value(row).as_primitive::<UInt16Type>().values(), &expected);
        let expected: Vec<i16> = (0..board as i16).map(|value| value - 1).collect();
        assert_eq!(temperature.value(row).as_primitive::<Int16Type>().values(), &expected);
        assert_eq!(u64::from(time.value(row)), event, "the field keeps its name");
        let name = names.keys().value(row) as usize;
        assert_eq!(names.values().as_string::<i32>().value(name), format!("board={board}"));
    }
}

#[test]
fn metadata_hold_units_meanings_roles_and_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = open(&arrays_run(dir.path(), 1));
    let schema = &run.table("arrays-data").unwrap().schema;
    let key = |column: &str, key: &str| {
        let field = schema.field_with_name(column).unwrap();
        field.metadata().get(key).cloned().unwrap_or_default()
    };
    assert_eq!(key("adc", "unit"), "count");
    assert_eq!(key("adc", "help"), "Amplitude.");
    assert_eq!(key("adc", "part"), "record");
    assert_eq!(key("time", "role"), "sequence, timestamp ticks");
    assert_eq!(key("board", "role"), "source");
    assert_eq!(key("magic", "allowed"), "61936");
    assert_eq!(key("sample_time", "field"), "time");
    assert_eq!(key("packet_time", "common"), "time");
    assert_eq!(key("sensor_time_ns", "epoch"), "start of the source");
    assert_eq!(key("temperature_value", "unit"), "K");
    assert_eq!(schema.metadata()["fluxline.format"], "arrays");
    assert_eq!(schema.metadata()["fluxline.packet_type"], "data");
    assert_eq!(schema.metadata()["fluxline.run"], "0000");
    let sources: serde_json::Value =
        serde_json::from_str(&schema.metadata()["fluxline.sources"]).unwrap();
    assert_eq!(sources["2"], "board=2");
}

#[test]
fn a_selection_takes_columns_sources_events_and_times() {
    let dir = tempfile::tempdir().unwrap();
    let run = open(&arrays_run(dir.path(), 40));
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    let selection = Selection {
        columns: names(&["adc", "event"]),
        sources: names(&["board=1", "2"]),
        events: Some(5..20),
        since: Some(Moment::from_ns(1_700_000_010_000_000_000)),
        until: Some(Moment::from_ns(1_700_000_012_000_000_000)),
    };
    let batches = all(&run, "arrays-data", &selection);
    let events: Vec<u64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec())
        .collect();
    assert_eq!(events, [10, 10, 11, 11]);
    assert_eq!(batches[0].schema().fields().len(), 2);
    let rows = |table: &str, selection: &Selection| {
        all(&run, table, selection).iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    let plain = Selection { columns: None, ..selection };
    assert_eq!(rows("events", &plain), 2);
    assert_eq!(rows("packets", &plain), 4);
    assert_eq!(rows("arrays-data-sample", &plain), 2 * (4 + 5));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let run = open(&arrays_run(dir.path(), 2));
    let text = |table: &str, selection: &Selection| match run.batches(table, selection) {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    };
    let names = |name: &str| Some(vec![name.to_owned()]);
    let all = Selection::default();
    assert_eq!(
        text("arrays-dat", &all),
        "the run has no table `arrays-dat`; did you mean `arrays-data`?"
    );
    let wrong = Selection { columns: names("acd"), ..Selection::default() };
    assert_eq!(
        text("arrays-data", &wrong),
        "table `arrays-data` has no column `acd`; did you mean `adc`?"
    );
    let wrong = Selection { sources: names("board=9"), ..Selection::default() };
    assert_eq!(
        text("arrays-data", &wrong),
        "the run has no source `board=9`; did you mean `board=0`?"
    );
    let empty = Selection { events: Some(5..5), ..Selection::default() };
    assert!(matches!(run.batches("events", &empty), Err(TypedError::Selection(_))));
}

#[test]
fn a_count_that_the_description_fixes_makes_arrays_of_fixed_size() {
    let dir = tempfile::tempdir().unwrap();
    let run = open(&arrays_run(dir.path(), 2));
    let fixed = FORMAT.replace("name = \"data\"", "name = \"data\"\nsize = { equals = 24 }");
    let fixed = fixed.replace("count = \"temperatures\"", "count = 2");
    let folder = RunFolder::open(run.path()).unwrap();
    folder.write_format("arrays", &fixed.replace(", when = \"time < 900\"", "")).unwrap();
    let run = open(run.path());
    let schema = run.table("arrays-data").unwrap().schema.clone();
    let kind = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
    assert!(matches!(kind("adc"), DataType::FixedSizeList(_, 3)), "{}", kind("adc"));
    assert!(matches!(kind("temperature_value"), DataType::FixedSizeList(_, 2)));
    let mut batches = run.batches("arrays-data", &Selection::default()).unwrap();
    let mut rows = 0;
    while let Some(batch) = batches.next_batch().unwrap() {
        rows += batch.num_rows();
    }
    // Boards 1 and 2 send 4 and 5 samples behind 10 and 12 bytes of header.
    assert_eq!((rows, batches.misfits()), (2, 4));
}
