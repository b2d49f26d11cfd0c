//! Late fragments: recorded apart, and in their events when the run is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::builder::{Builder, BuilderConfig, Mode, Scope};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::ledger::{BatchFate, Ledger};
use fluxline_daq::readout::sequence::SequenceRule;
use fluxline_daq::readout::{FormatRules, PacketRule, Readout, ReadoutLimits};
use fluxline_daq::record::{Join, JoinReport, JoinedReader, Recorder, RunFolder, SourceLine};
use fluxline_export::{ExportConfig, ExportFormat, export};
use fluxline_packet::{Parsed, Part, SourceKey};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256StarStar;
use serde_json::json;

use crate::samples::files_of;

const MS: u64 = 1_000_000;

/// One packet of one source.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    source: u64,
    count: u64,
    key: u64,
    part: Part,
}

fn datagram_of<'a>(sent: &Sent, bytes: &'a [u8]) -> Datagram<'a> {
    let time = Moment::from_ns(sent.at);
    Datagram { bytes, sender: SenderAddress::NONE, port: 1, time }
}

/// Records packets in the order of their arrival, in small batches.
fn record(dir: &Path, packets: &[Sent]) -> (std::path::PathBuf, Ledger) {
    let folder = RunFolder::create_next(dir).unwrap();
    let run = folder.path().to_path_buf();
    let mut recorder = Recorder::open(folder, files_of(1 << 16));
    let sequence = Some(SequenceRule::of_bits(32));
    let rule = PacketRule { sequence, event_bits: 64, ..PacketRule::default() };
    let formats = vec![FormatRules { packets: vec![rule] }];
    let mut readout = Readout::new(formats, ReadoutLimits::default());
    let config = BuilderConfig {
        mode: Mode::Key(Scope::Global),
        batch_bytes: 4096,
        ..BuilderConfig::default()
    };
    let mut builder = Builder::new(config);
    let (mut ledger, mut known) = (Ledger::default(), 0);
    let mut write = |builder: &mut Builder, recorder: &mut Recorder| {
        let batch = builder.take_batch(EventBatch::default());
        recorder.write(&batch, Moment::from_ns(0)).unwrap();
        ledger.note_batch(&batch, BatchFate::Recorded);
    };
    for sent in packets {
        let bytes = [sent.source.to_le_bytes(), sent.count.to_le_bytes()].concat();
        let parsed = Parsed {
            step: None,
            counts: None,
            packet: 0,
            source: SourceKey { sender: SenderAddress::NONE, terms: sent.source },
            sequence: Some(sent.count),
            event: Some(sent.key),
            spill: None,
            part: sent.part,
            sensor_time_ns: None,
            payload_start: 0,
            payload_bytes: 16,
        };
        let now = Moment::from_ns(sent.at);
        readout.accept(0, &datagram_of(sent, &bytes), &parsed, |accepted, datagram, parsed| {
            if accepted.source >= known {
                known = accepted.source + 1;
                let label = format!("board={}", parsed.source.terms);
                builder.name_source(accepted.source, &label);
                let (parameters, details) = (BTreeMap::new(), serde_json::Map::new());
                let (source, name, format) = (accepted.source, label, "toy".to_owned());
                let line = SourceLine { source, name, format, parameters, port: None, details };
                recorder.write_source(&line).unwrap();
            }
            builder.push(now, accepted, datagram, parsed);
        });
        builder.poll(now);
        if builder.batch_is_due(now) {
            write(&mut builder, &mut recorder);
        }
    }
    builder.finish(Moment::from_ns(packets.last().map_or(0, |sent| sent.at)));
    write(&mut builder, &mut recorder);
    recorder.finish().unwrap();
    let ledger = ledger.with(&readout, &builder);
    RunFolder::open(&run).unwrap().write_run(&json!({ "ledger": ledger })).unwrap();
    (run, ledger)
}

/// Sources and numbers of the packets of an event.
type Packets = BTreeSet<(u64, u64)>;

/// All rows of a run: key, status, packets.
fn rows(run: &Path, join: Join) -> (Vec<(u64, EventStatus, Packets)>, JoinReport) {
    let mut reader = JoinedReader::open(run, join).unwrap();
    let mut rows = Vec::new();
    while let Some(recorded) = reader.next_batch().unwrap() {
        let mut batch = EventBatch::default();
        recorded.append_to(&mut batch).unwrap();
        let (mut packet, mut byte) = (0, 0);
        for event in &batch.events {
            let mut packets = Packets::new();
            for row in &batch.packets[packet..packet + event.packets as usize] {
                let bytes = &batch.bytes[byte..byte + row.bytes as usize];
                byte += bytes.len();
                let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                packets.insert((number(0), number(8)));
            }
            packet += event.packets as usize;
            rows.push((event.key.unwrap(), event.status, packets));
        }
    }
    (rows, reader.joined())
}

/// Boards of which one lags, one is off for a while, one is prescaled; some packets come late.
fn boards(seed: u64) -> Vec<Sent> {
    let mut random = Xoshiro256StarStar::seed_from_u64(seed);
    let mut packets = Vec::new();
    let lag = [0, 0, 300 * MS, 700 * MS][(random.next_u64() % 4) as usize];
    let parts = 1 + random.next_u64() % 3;
    for source in 0..4_u64 {
        let mut count = 0;
        for key in 0..800_u64 {
            let sends = match source {
                1 => key % 10 == 3,
                2 => !(200..400).contains(&key),
                _ => true,
            };
            for index in 0..if source == 3 { parts } else { 1 } {
                if !sends {
                    continue;
                }
                let late = if random.next_u64().is_multiple_of(50) { 40 * MS } else { 0 };
                let lag = if source == 3 { lag } else { 0 };
                let at = 5_000 * MS + key * 4 * MS + lag + late + source * 1000 + index * 100;
                let part = match (source, parts) {
                    (3, 2..) => Part::Index { index: index as u32, count: parts as u32 },
                    _ => Part::Whole,
                };
                packets.push(Sent { at, source, count, key, part });
                count += 1;
            }
        }
    }
    packets.sort_by_key(|sent| sent.at);
    packets
}

#[test]
fn late_fragments_are_in_their_events_when_a_run_is_read() {
    for seed in 0..40 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().unwrap();
        let packets = boards(seed);
        let (run, ledger) = record(dir.path(), &packets);
        let mut wanted: BTreeMap<u64, Packets> = BTreeMap::new();
        for sent in &packets {
            wanted.entry(sent.key).or_default().insert((sent.source, sent.count));
        }
        let late = ledger.source_totals().in_late;
        assert!(late > 0);
        let (apart, report) = rows(&run, Join::Nothing);
        assert_eq!(report, JoinReport::default());
        let is_late = |row: &&(u64, EventStatus, Packets)| row.1 == EventStatus::Late;
        assert_eq!(apart.iter().filter(is_late).count() as u64, late);
        let (joined, report) = rows(&run, Join::Late);
        assert_eq!((report.joined, report.left), (late, 0));
        let found: BTreeMap<_, _> = joined.iter().map(|row| (row.0, row.2.clone())).collect();
        assert_eq!(joined.len(), wanted.len(), "one row an event");
        assert!(found == wanted, "the events are not what arrived");
        // Nothing was lost: what is called incomplete is only what cannot be known.
        let left = joined.iter().filter(|row| row.1 == EventStatus::Incomplete);
        let lacking: Vec<u64> = left.map(|row| row.0).collect();
        assert!(lacking.len() <= 200, "{}: {lacking:?}", lacking.len());
    }
}

#[test]
fn what_a_counter_proves_later_completes_the_events_of_a_silence() {
    let dir = tempfile::tempdir().unwrap();
    let mut packets = Vec::new();
    for key in 0..1000_u64 {
        let at = 5_000 * MS + key * 4 * MS;
        packets.push(Sent { at, source: 0, count: key, key, part: Part::Whole });
        if !(300..700).contains(&key) {
            let count = if key < 300 { key } else { key - 400 };
            packets.push(Sent { at: at + 1000, source: 1, count, key, part: Part::Whole });
        }
    }
    let (run, ledger) = record(dir.path(), &packets);
    assert_eq!(ledger.amendments.len(), 1);
    let count = |join| {
        let rows = rows(&run, join).0;
        rows.iter().filter(|row| row.1 == EventStatus::Incomplete).count()
    };
    assert_eq!((count(Join::Nothing), count(Join::Late)), (401, 0));
}

#[test]
fn damaged_and_absent_batches_do_not_break_joining() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _) = record(dir.path(), &boards(3));
    let mut files: Vec<_> = fs::read_dir(&run).unwrap().map(|its| its.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|its| its == "arrows"));
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    let whole = rows(&run, Join::Late).1;
    let mut fewer = 0;
    for (number, file) in files.iter().enumerate() {
        let kept = fs::read(file).unwrap();
        let mut spoilt = kept.clone();
        let middle = spoilt.len() / 2;
        spoilt[middle..middle + 64].fill(0xA5);
        fs::write(file, &spoilt).unwrap();
        let report = rows(&run, Join::Late).1;
        assert!(report.joined <= whole.joined, "file {number}");
        fs::remove_file(file).unwrap();
        let report = rows(&run, Join::Late).1;
        assert!(report.joined <= whole.joined, "file {number}");
        fewer += usize::from(report.joined < whole.joined);
        fs::write(file, &kept).unwrap();
    }
    assert!(fewer > 0);
    // Without run.json, as after a crash, the files alone show the late fragments.
    fs::remove_file(run.join("run.json")).unwrap();
    fs::write(run.join("run.json"), "{}").unwrap();
    assert_eq!(rows(&run, Join::Late).1.joined, whole.joined);
}

#[test]
fn an_export_has_one_row_per_event_and_every_packet() {
    let dir = tempfile::tempdir().unwrap();
    let packets = boards(5);
    let (run, _) = record(dir.path(), &packets);
    for (join, events) in [(Join::Late, 800), (Join::Nothing, 801)] {
        let folder = dir.path().join(format!("{join:?}"));
        let config = ExportConfig { join, ..ExportConfig::new(ExportFormat::Csv, folder) };
        let report = export(&run, &config).unwrap();
        assert_eq!(report.tables[1].rows, packets.len() as u64);
        let rows = report.tables[0].rows;
        assert!(rows == 800 || join == Join::Nothing && rows >= events, "{rows}");
        assert_eq!(report.joined.joined > 0, join == Join::Late);
    }
}

/// Two boards, of which the second is in every other event with two packets, and sends what it
/// took in 0.9 s of silence afterwards. Packet `lost` of it never comes.
fn backlog(prescale: u64, lost: (u64, u32)) -> Vec<Sent> {
    let (mut packets, mut count) = (Vec::new(), 0);
    for key in 0..500_u64 {
        let at = 5_000 * MS + key * 10 * MS;
        packets.push(Sent { at, source: 0, count: key, key, part: Part::Whole });
        for index in (0..2).filter(|_| key.is_multiple_of(prescale)) {
            let held = (200..290).contains(&key);
            let at = if held { 5_000 * MS + 2900 * MS + count } else { at + 1000 };
            let part = Part::Index { index, count: 2 };
            if (key, index) != lost {
                packets.push(Sent { at, source: 1, count, key, part });
            }
            count += 1;
        }
    }
    packets.sort_by_key(|sent| sent.at);
    packets
}

#[test]
fn an_event_is_not_complete_when_a_late_part_of_it_came_and_another_is_lost() {
    for prescale in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let (run, _) = record(dir.path(), &backlog(prescale, (220, 1)));
        let (rows, report) = rows(&run, Join::Late);
        let row = rows.iter().find(|row| row.0 == 220).unwrap();
        assert_eq!((row.1, row.2.len()), (EventStatus::Incomplete, 2), "one of {prescale}");
        // Where the board is rare, the next event may be the one that lacks the lost packet.
        let incomplete = rows.iter().filter(|row| row.1 == EventStatus::Incomplete).count();
        assert_eq!(incomplete as u64, prescale);
        assert_eq!(report.opened > 0, prescale == 2);
    }
}

#[test]
fn an_event_is_not_complete_when_its_only_packet_of_a_silent_board_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut packets = backlog(2, (0, 9));
    packets.retain(|sent| sent.source == 0 || sent.key != 220);
    let (run, ledger) = record(dir.path(), &packets);
    assert!(ledger.amendments.iter().any(|its| its.lost), "{:?}", ledger.amendments);
    let rows = rows(&run, Join::Late).0;
    let incomplete: Vec<u64> =
        rows.iter().filter(|row| row.1 == EventStatus::Incomplete).map(|row| row.0).collect();
    assert_eq!(incomplete, [219, 220, 221], "the packet is lost in one of these");
}
