//! Messages of the ESS schemas against a model: every value of a packet is in exactly one message,
//! and what does not fit is counted by name.

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_seed};
use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::event::{EventBatch, EventRow, PacketRow};
use fluxline_kafka::ess::{Encoder, RunMessages, Schema};
use fluxline_packet::Description;

use crate::support::ess::{Table, identifier};

const BOARD: &str = r#"
name = "board"
about = "A board with detector events, waveforms and slow control"
reference = "this test"
byte-order = "big"
[[packet]]
name = "hits"
select = "kind == 1"
fields = [
  { name = "kind", type = "u8" }, { name = "board", type = "u8" }, { name = "time", type = "u64" },
]
source = ["board"]
timestamp = { ticks = "time", unit = "1 ns", epoch = "unix" }
[packet.records]
name = "hit"
bytes = 8
fields = [
  { name = "tof", type = "u32" }, { name = "pixel", type = "u16" },
  { name = "flags", type = "u16" },
]
[packet.ess.ev44]
source-name = "det-{board}"
time-of-flight = "tof"
pixel-id = "board * 65536 + pixel"
when = "(flags & 1) == 0"
[[packet]]
name = "wave"
select = "kind == 2"
fields = [
  { name = "kind", type = "u8" }, { name = "board", type = "u8" }, { name = "index", type = "u16" },
]
source = ["board"]
[packet.records]
name = "sample"
bytes = 2
fields = [{ name = "voltage", type = "i16", unit = "mV", help = "At the input." }]
[packet.ess.da00]
source-name = "wave-{board}"
axes = ["row", "column"]
inner-shape = [4]
join = true
[[packet]]
name = "slow"
select = "kind == 3"
fields = [
  { name = "kind", type = "u8" }, { name = "board", type = "u8" }, { name = "time", type = "u32" },
  { name = "temperature", type = "i16" }, { name = "pressure", type = "f32" },
]
source = ["board"]
[packet.records]
name = "monitor"
bytes = 2
fields = [{ name = "current", type = "i16" }]
[[packet.ess.f144]]
source-name = "T"
value = "temperature"
[[packet.ess.f144]]
source-name = "p{board}"
timestamp = "time * 1000"
value = "pressure"
[[packet.ess.f144]]
source-name = "I"
value = "current"
[[packet]]
name = "heartbeat"
fields = [{ name = "kind", type = "u8" }]
"#;

fn board() -> Description {
    Description::load("board.toml", BOARD, &BTreeMap::new()).unwrap_or_else(|e| panic!("{e}"))
}

/// The values that messages must have.
#[derive(Debug, Default, PartialEq)]
struct Values {
    /// Name: reference time, time of flight, pixel.
    hits: BTreeMap<String, Vec<(i64, i32, i32)>>,
    /// Name, samples, parts, key.
    waves: Vec<(String, Vec<i16>, Vec<u64>, u64)>,
    /// Name, time, type, bytes.
    logs: Vec<(String, i64, u8, Vec<u8>)>,
    misfits: BTreeMap<String, u64>,
    unmapped: u64,
}

struct World {
    draw: Draw,
    description: Description,
    expected: Values,
}

impl World {
    fn batch(&mut self, events: u64) -> EventBatch {
        let mut batch = EventBatch::default();
        for key in 0..events {
            let before = batch.packets.len();
            let waves = self.draw.chance(0.3);
            let kind = self.draw.below(4);
            match kind {
                0 => self.heartbeat(&mut batch),
                1 | 2 => {
                    for _ in 0..1 + self.draw.below(3) {
                        self.hits(&mut batch);
                    }
                }
                _ => self.slow(&mut batch),
            }
            let has_wave = waves && self.waves(&mut batch, key);
            self.expected.unmapped += u64::from(kind == 0 && !has_wave);
            let packets = (batch.packets.len() - before) as u32;
            batch.events.push(EventRow { key: Some(key), packets, ..EventRow::default() });
        }
        batch
    }

    fn push(&self, batch: &mut EventBatch, bytes: &[u8], board: u8, part: u64) {
        let time = Moment::from_ns(1_000_000 + batch.packets.len() as u64);
        let sender = SenderAddress::NONE;
        let datagram = Datagram { bytes, sender, port: 0, time };
        let parsed = self.description.program().parse(&datagram).expect("a packet");
        batch.bytes.extend_from_slice(bytes);
        batch.packets.push(PacketRow {
            source: board.into(),
            packet_type: parsed.packet,
            sequence: None,
            time,
            sensor_time_ns: parsed.sensor_time_ns,
            part,
            payload_start: parsed.payload_start,
            payload_bytes: parsed.payload_bytes,
            bytes: bytes.len() as u32,
        });
    }

    fn heartbeat(&mut self, batch: &mut EventBatch) {
        self.push(batch, &[9], 0, 0);
    }

    fn hits(&mut self, batch: &mut EventBatch) {
        let board = self.draw.below(3) as u8;
        let time = 1_700_000_000_000_000_000 + self.draw.below(4) * 71_000_000;
        let mut bytes = vec![1, board];
        bytes.extend(time.to_be_bytes());
        let hits = self.expected.hits.entry(format!("det-{board}")).or_default();
        for _ in 0..self.draw.below(300) {
            let wrong = self.draw.chance(0.01);
            let tof = if wrong { 1 << 31 } else { self.draw.below(71_000_000) as u32 };
            let (pixel, flags) = (self.draw.below(65536) as u16, self.draw.below(4) as u16);
            bytes.extend(tof.to_be_bytes());
            bytes.extend(pixel.to_be_bytes());
            bytes.extend(flags.to_be_bytes());
            match (flags & 1, i32::try_from(tof)) {
                (1, _) => {}
                (_, Ok(tof)) => {
                    hits.push((time as i64, tof, i32::from(board) * 65536 + i32::from(pixel)));
                }
                (_, Err(_)) => {
                    let name = "hits.ess.ev44.time-of-flight".to_owned();
                    *self.expected.misfits.entry(name).or_default() += 1;
                }
            }
        }
        self.push(batch, &bytes, board, 0);
    }

    /// Pushes the packets of a fragment, whose parts come in any order; returns true when they
    /// make an array.
    fn waves(&mut self, batch: &mut EventBatch, key: u64) -> bool {
        let board = self.draw.below(3) as u8;
        let mut parts: Vec<u64> = (0..1 + self.draw.below(4)).collect();
        if self.draw.chance(0.5) {
            parts.reverse();
        }
        let (mut packets, mut samples) = (BTreeMap::new(), Vec::new());
        for part in &parts {
            let of: Vec<i16> = (0..self.draw.below(50)).map(|_| self.draw.bits() as i16).collect();
            let mut bytes = vec![2, board];
            bytes.extend((*part as u16).to_be_bytes());
            bytes.extend(of.iter().flat_map(|sample| sample.to_be_bytes()));
            self.push(batch, &bytes, board, *part);
            packets.insert(*part, of);
        }
        packets.values().for_each(|of| samples.extend_from_slice(of));
        if samples.len() % 4 != 0 {
            let name = "wave.ess.da00.inner-shape".to_owned();
            *self.expected.misfits.entry(name).or_default() += samples.len() as u64;
            return false;
        }
        let name = format!("wave-{board}");
        self.expected.waves.push((name, samples, packets.into_keys().collect(), key));
        true
    }

    fn slow(&mut self, batch: &mut EventBatch) {
        let board = self.draw.below(3) as u8;
        let arrival = 1_000_000 + batch.packets.len() as i64;
        let (time, temperature) = (self.draw.bits() as u32, self.draw.bits() as i16);
        let pressure = self.draw.below(1000) as f32 / 7.0;
        let currents: Vec<i16> = (0..self.draw.below(6)).map(|_| self.draw.bits() as i16).collect();
        let mut bytes = vec![3, board];
        bytes.extend(time.to_be_bytes());
        bytes.extend(temperature.to_be_bytes());
        bytes.extend(pressure.to_be_bytes());
        bytes.extend(currents.iter().flat_map(|current| current.to_be_bytes()));
        self.push(batch, &bytes, board, 0);
        let list = currents.iter().flat_map(|current| current.to_le_bytes()).collect();
        self.expected.logs.extend([
            ("T".to_owned(), arrival, 3, temperature.to_le_bytes().to_vec()),
            (format!("p{board}"), i64::from(time) * 1000, 9, pressure.to_le_bytes().to_vec()),
            ("I".to_owned(), arrival, 13, list),
        ]);
    }
}

/// Puts the values of a message where the model has them.
fn note(found: &mut Values, schema: Schema, message: &[u8]) {
    assert_eq!(identifier(message), schema.identifier());
    let root = Table::root(message);
    let name = root.text(0).expect("a name").to_owned();
    match schema {
        Schema::Ev44 => {
            let (times, starts) = (root.i64s(2), root.i32s(3));
            let (tof, pixels) = (root.i32s(4), root.i32s(5));
            assert!(times.len() == starts.len() && tof.len() == pixels.len());
            let hits = found.hits.entry(name).or_default();
            for (number, (time, start)) in times.iter().zip(&starts).enumerate() {
                let end = starts.get(number + 1).map_or(tof.len(), |end| *end as usize);
                let rows = *start as usize..end;
                hits.extend(rows.map(|row| (*time, tof[row], pixels[row])));
            }
        }
        Schema::Da00 => {
            let variables = root.tables(2);
            let of = |name: &str| {
                let mut found = variables.iter().filter(|of| of.text(0) == Some(name));
                *found.next().expect("the variable")
            };
            let (signal, parts, key) = (of("signal"), of("part"), of("event"));
            assert_eq!((signal.text(1), signal.text(2)), (Some("mV"), Some("At the input.")));
            assert_eq!(
                (signal.number(4), signal.texts(5)),
                ([3], vec!["row".into(), "column".into()])
            );
            let bytes = signal.bytes(7, 1).expect("samples");
            assert_eq!(signal.i64s(6), [bytes.len() as i64 / 8, 4]);
            let words = bytes.as_chunks().0.iter();
            let samples = words.map(|word| i16::from_le_bytes(*word)).collect();
            let u64s = |of: Table<'_>| -> Vec<u64> {
                let bytes = of.bytes(7, 1).expect("numbers");
                bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
            };
            assert!(key.i64s(6).is_empty() && key.texts(5).is_empty(), "a single number");
            found.waves.push((name, samples, u64s(parts), u64s(key)[0]));
        }
        Schema::F144 => {
            let [kind] = root.number(2);
            let value = root.table(3);
            let bytes = match kind {
                13 => value.bytes(0, 2).expect("a list").to_vec(),
                3 => value.number::<2>(0).to_vec(),
                9 => value.number::<4>(0).to_vec(),
                other => panic!("type {other}"),
            };
            found.logs.push((name, i64::from_le_bytes(root.number(1)), kind, bytes));
        }
        other => panic!("{other:?} in a batch"),
    }
}

/// Encodes a batch, and checks everything that holds for each message.
fn encode(encoder: &mut Encoder, batch: &EventBatch, bytes_max: usize, found: &mut Values) {
    let (mut events, mut next, mut last_id) = (0, 0, -1);
    encoder.encode(5, batch, |group| {
        assert_eq!(group.too_large, 0);
        events += group.all_events();
        found.unmapped += group.unmapped;
        for message in group.messages() {
            assert_eq!(message.piece, next);
            next += 1;
            assert!(message.bytes.len() <= bytes_max, "{} bytes", message.bytes.len());
            note(found, message.schema, message.bytes);
            if message.schema == Schema::Ev44 {
                let id = i64::from_le_bytes(Table::root(message.bytes).number(1));
                assert!(id > last_id && id >> 32 == 5, "{id} after {last_id}");
                last_id = id;
            }
        }
    });
    assert_eq!(events, batch.events.len() as u64);
    found.misfits = encoder.take_misfits();
}

fn encoder(description: &Description, bytes_max: usize) -> Encoder {
    let mut encoder = Encoder::new(std::slice::from_ref(description), bytes_max);
    (0..3).for_each(|source| encoder.add_source(source, 0, 0));
    encoder
}

#[test]
fn no_value_is_lost_doubled_or_wrapped_on_its_way_into_messages() {
    let mut draw = Draw::new(test_seed!(44));
    for round in 0..40 {
        let description = board();
        let bytes_max = 1024 + draw.below(20_000) as usize;
        let inner = Draw::new(draw.bits());
        let mut world = World { draw: inner, description, expected: Values::default() };
        let events = draw.below(60);
        let batch = world.batch(events);
        let World { description, mut expected, .. } = world;
        expected.hits.retain(|_, hits| !hits.is_empty());
        let mut encoder = encoder(&description, bytes_max);
        let (mut first, mut second) = (Values::default(), Values::default());
        encode(&mut encoder, &batch, bytes_max, &mut first);
        encode(&mut encoder, &batch, bytes_max, &mut second);
        assert_eq!(first, second, "round {round}");
        first.hits.retain(|_, hits| !hits.is_empty());
        assert_eq!(first, expected, "round {round}, at most {bytes_max} bytes");
    }
}

#[test]
fn an_array_that_is_larger_than_a_record_is_counted_and_the_rest_is_sent() {
    let description = board();
    let inner = Draw::new(1);
    let mut world = World { draw: inner, description, expected: Values::default() };
    let mut batch = EventBatch::default();
    world.slow(&mut batch);
    let mut large = vec![2, 0, 0, 0];
    large.extend(vec![0; 4000]);
    world.push(&mut batch, &large, 0, 0);
    batch.events.push(EventRow { key: Some(1), packets: 2, ..EventRow::default() });
    let mut encoder = encoder(&world.description, 2048);
    let mut seen = (0, 0, 0);
    encoder.encode(0, &batch, |group| {
        seen = (seen.0 + group.events, seen.1 + group.too_large, seen.2 + group.messages().len());
    });
    assert_eq!(seen, (0, 1, 3));
}

#[test]
fn a_header_value_that_a_packet_lacks_is_not_logged_as_zero() {
    let text = "name = \"slow\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n\
                [[packet]]\nname = \"data\"\nfields = [\n\
                { name = \"has\", type = \"u8\" },\n\
                { name = \"level\", type = \"u8\", when = \"has == 1\" },\n]\n\
                [[packet.ess.f144]]\nsource-name = \"L\"\nvalue = \"level\"\n\
                [[packet.ess.f144]]\nsource-name = \"L2\"\nvalue = \"level * 2\"\n";
    let slow = Description::load("slow.toml", text, &BTreeMap::new());
    let slow = slow.unwrap_or_else(|error| panic!("{error}"));
    for (bytes, messages) in [(&[1, 7][..], 2), (&[0], 0)] {
        let mut batch = EventBatch::default();
        let world =
            World { draw: Draw::new(1), description: slow.clone(), expected: Values::default() };
        world.push(&mut batch, bytes, 0, 0);
        batch.events.push(EventRow { key: Some(1), packets: 1, ..EventRow::default() });
        let mut found = 0;
        encoder(&slow, 4096).encode(0, &batch, |group| found += group.messages().len());
        assert_eq!(found, messages, "{bytes:?}");
    }
}

#[test]
fn packets_that_contradict_their_rows_make_no_panic() {
    let mut draw = Draw::new(test_seed!(45));
    for _ in 0..200 {
        let mut batch = EventBatch::default();
        for key in 0..20 {
            let bytes: Vec<u8> = (0..draw.below(40)).map(|_| draw.bits() as u8).collect();
            batch.bytes.extend_from_slice(&bytes);
            batch.packets.push(PacketRow {
                source: draw.below(5) as u32,
                packet_type: draw.below(6) as u8,
                sequence: None,
                time: Moment::from_ns(draw.bits()),
                sensor_time_ns: draw.chance(0.5).then(|| draw.bits()),
                part: draw.bits(),
                payload_start: draw.below(50) as u32,
                payload_bytes: draw.below(50) as u32,
                bytes: bytes.len() as u32,
            });
            batch.events.push(EventRow { key: Some(key), packets: 1, ..EventRow::default() });
        }
        let mut events = 0;
        encoder(&board(), 4096).encode(u64::MAX, &batch, |group| events += group.all_events());
        assert_eq!(events, 20);
    }
}

#[test]
fn start_and_stop_name_the_same_job_and_describe_a_file() {
    let formats = [board()];
    let mut messages = RunMessages::new("lab-1700000000123000000", "lab", "events", &formats)
        .for_writer("10.0.0.5:9092", "writer-2");
    let start = messages.start().to_vec();
    let stop = messages.stop(1_700_000_009_000_000_001).to_vec();
    let (start, stop) = (Table::root(&start), Table::root(&stop));
    assert_eq!(u64::from_le_bytes(start.number(0)), 1_700_000_000_123);
    assert_eq!(u64::from_le_bytes(stop.number(0)), 1_700_000_009_001, "not before the end");
    assert_eq!((start.text(2), start.text(5)), (stop.text(1), stop.text(2)));
    assert_eq!((start.text(6), start.text(7)), (Some("10.0.0.5:9092"), Some("writer-2")));
    assert_eq!(start.text(8), Some("lab-1700000000123000000.nxs"));
    let structure: serde_json::Value =
        serde_json::from_str(start.text(4).expect("a structure")).expect("JSON");
    let groups = structure["children"][0]["children"].as_array().expect("groups");
    let sources: Vec<_> =
        groups.iter().map(|group| group["children"][0]["config"]["source"].clone()).collect();
    assert_eq!(sources, ["T", "I"], "names without fields");
}
