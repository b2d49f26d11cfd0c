//! Filter expressions: values, levels, absent fields, and sentences for mistakes.

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_seed};
use fluxline_packet::Description;

use super::*;
use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};

const BOARD: &str = r#"
name = "board"
about = "a board"
reference = "none"
byte-order = "big"
[[packet]]
name = "wave"
select = "kind == 0"
fields = [
  { name = "kind", type = "u8" },
  { name = "board", type = "u8" },
  { name = "flags", type = "u16", bits = [
    { name = "gain", bits = "15..12" }, { name = "offset", bits = "11..0" },
  ] },
]
source = ["board"]
[packet.records]
name = "sample"
bytes = 2
fields = [{ name = "adc", type = "i16" }]
[[packet]]
name = "status-word"
select = "kind == 1"
fields = [
  { name = "kind", type = "u8" },
  { name = "board", type = "u8" },
  { name = "temperature", type = "f32" },
  { name = "length", type = "u8" },
  { name = "note", type = "bytes", length = "length" },
  { name = "after", type = "u16" },
]
source = ["board"]
"#;

fn description() -> Description {
    Description::load("board.toml", BOARD, &BTreeMap::new()).expect("a description")
}

fn compile(text: &str) -> Result<EventExpression, String> {
    let description = description();
    let mut keep =
        EventExpression::compile(text, &[FilterInput { name: "tpc", description: &description }])?;
    for board in 0..4 {
        keep.add_source(board, 0, &format!("board={board}"));
    }
    Ok(keep)
}

/// A wave of a board: gain, offset and samples.
#[derive(Clone, Debug)]
struct Wave {
    board: u8,
    gain: u16,
    samples: Vec<i16>,
}

fn push_packet(batch: &mut EventBatch, board: u8, packet_type: u8, bytes: &[u8], header: u32) {
    batch.bytes.extend_from_slice(bytes);
    batch.packets.push(PacketRow {
        source: board.into(),
        packet_type,
        sequence: None,
        time: fluxline_core::Moment::default(),
        sensor_time_ns: None,
        part: 0,
        payload_start: header,
        payload_bytes: bytes.len() as u32 - header,
        bytes: bytes.len() as u32,
    });
}

fn push_wave(batch: &mut EventBatch, wave: &Wave) {
    let mut bytes = vec![0, wave.board];
    bytes.extend((wave.gain << 12 | 7).to_be_bytes());
    wave.samples.iter().for_each(|sample| bytes.extend(sample.to_be_bytes()));
    push_packet(batch, wave.board, 0, &bytes, 4);
}

fn push_status(batch: &mut EventBatch, board: u8, temperature: f32, after: u16) {
    let mut bytes = vec![1, board];
    bytes.extend(temperature.to_be_bytes());
    bytes.extend([3, b'a', b'b', b'c']);
    bytes.extend(after.to_be_bytes());
    push_packet(batch, board, 1, &bytes, 12);
}

fn close(mut batch: EventBatch, row: EventRow) -> EventBatch {
    let packets = batch.packets.len() as u32;
    batch.events.push(EventRow { packets, ..row });
    batch
}

fn event(waves: &[Wave]) -> EventBatch {
    let mut batch = EventBatch::default();
    waves.iter().for_each(|wave| push_wave(&mut batch, wave));
    close(batch, EventRow { key: Some(41), ..EventRow::default() })
}

fn wave(board: u8, samples: &[i16]) -> Wave {
    Wave { board, gain: u16::from(board), samples: samples.to_vec() }
}

fn keeps(text: &str, batch: &EventBatch) -> bool {
    let keep = compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    keep.is_true(&batch.views().next().expect("an event"))
}

#[test]
fn every_operator_and_level_has_its_value() {
    let mut batch = EventBatch::default();
    push_wave(&mut batch, &wave(1, &[-5, 300, 20]));
    push_wave(&mut batch, &wave(2, &[1, 2]));
    push_status(&mut batch, 2, 36.5, 513);
    let row = EventRow { key: Some(41), status: EventStatus::Incomplete, ..EventRow::default() };
    let batch = close(batch, row);
    for text in [
        "true && !false && 1 + 2 * 3 == 7 && (1 + 2) * 3 == 9",
        "-2 < -1 && 7 / 2 == 3.5 && 7 % 4 == 3 && 1e3 == 1000 && 0xFF == 255 && 1 << 4 == 16",
        "abs(-3) == 3 && min(3, 1, 2) == 1 && max(3, 1, 2) == 3 && 6 & 3 == 2 && 6 | 1 == 7",
        "event.key == 41 && event.packets == 3 && event.sources == 2 && !event.complete",
        "event.status == 'incomplete' && event.status != \"complete\" && event.generation == 0",
        "any(adc > 299) && !any(adc > 300) && !all(adc > 0) && all(adc < 301)",
        "max(adc) == 300 && min(adc) == -5 && sum(adc) == 318 && count(adc > 0) == 4",
        "mean(adc) == 318 / 5 && mean(adc) > 63.5",
        "count(max(adc) > 100) == 1 && sources(adc > 0) == 2 && sources(adc > 100) == 1",
        "any(adc > 10 * mean(adc) / 4 && board == 1)",
        "sum(gain) == 3 && any(wave.gain == 2) && any(offset == 7)",
        "max(temperature) == 36.5 && any(after == 513) && any(status-word.after > 512)",
        "count(1) == 3 && count(packet.type == 'wave') == 2 && all(packet.input == 'tpc')",
        "any(packet.source == 'board=2' && temperature > 36) && count(packet.bytes) == 3",
        "any(packet.source == 'board=1' && adc == 300) && !any(packet.source == 'x')",
        "sum(packet.payload_bytes) == 10 && any(packet.type != 'wave') && event.bytes == 30",
        "count(board) == 3 && count(wave.board) == 2 && sum(min(adc)) == -4",
    ] {
        assert!(keeps(text, &batch), "{text}");
        assert!(!keeps(&format!("!({text})"), &batch), "{text}");
    }
}

#[test]
fn an_event_without_the_field_has_no_maximum_and_no_comparison_is_true() {
    let batch = event(&[]);
    for (text, kept) in [
        ("max(adc) > 0", false),
        ("max(adc) <= 0", false),
        ("max(adc) != 5", false),
        ("!(max(adc) > 0)", true),
        ("any(adc > 0)", false),
        ("all(adc > 0)", true),
        ("count(adc > 0) == 0 && sum(adc) == 0", true),
        ("mean(adc) < 1 || mean(adc) >= 1", false),
        ("1 / 0 == 1 / 0", false),
        ("max(temperature) + 1 > 0", false),
        ("max(adc)", false),
    ] {
        assert_eq!(keeps(text, &batch), kept, "{text}");
    }
    let mut unknown = event(&[wave(1, &[9])]);
    unknown.packets[0].source = 77;
    assert!(!keeps("any(adc == 9)", &unknown), "a source that was not announced");
}

#[test]
fn cut_packets_and_wrong_rows_have_absent_fields() {
    let full = event(&[wave(1, &[9, 10])]);
    let status = {
        let mut batch = EventBatch::default();
        push_status(&mut batch, 1, 1.0, 5);
        close(batch, EventRow::default())
    };
    for whole in [full, status] {
        for cut in 0..whole.bytes.len() {
            let mut batch = whole.clone();
            batch.bytes.truncate(cut);
            let packet = &mut batch.packets[0];
            packet.bytes = cut as u32;
            for text in ["max(adc) > 0", "any(after > 1)", "sum(temperature) > 0", "all(gain > 9)"]
            {
                let _ = keeps(text, &batch);
            }
        }
    }
    let mut wrong = event(&[wave(1, &[9])]);
    wrong.packets[0].packet_type = 200;
    wrong.packets[0].payload_start = 5000;
    wrong.events[0].packets = 900;
    assert!(!keeps("any(adc == 9)", &wrong));
}

/// Compares the fast loop and the walk over decoded samples with a plain loop.
#[test]
fn aggregates_agree_with_a_plain_loop() {
    let mut random = Draw::new(test_seed!(11));
    for _ in 0..500 {
        let waves: Vec<Wave> = (0..random.below(5))
            .map(|_| {
                let board = random.below(4) as u8;
                let samples = (0..random.below(6)).map(|_| random.below(7) as i16 - 3);
                wave(board, &samples.collect::<Vec<_>>())
            })
            .collect();
        let batch = event(&waves);
        let limit = random.below(7) as i16 - 3;
        let all = || waves.iter().flat_map(|wave| &wave.samples).copied();
        let above = |wave: &&Wave| wave.samples.iter().any(|adc| *adc > limit);
        let mut boards: Vec<u8> = waves.iter().filter(above).map(|wave| wave.board).collect();
        boards.sort_unstable();
        boards.dedup();
        let sum: i64 = all().map(i64::from).sum();
        let mut facts = vec![
            (format!("count(adc > {limit})"), all().filter(|adc| *adc > limit).count() as i64),
            ("sum(adc)".to_owned(), sum),
            ("sum(adc + 0)".to_owned(), sum),
            ("count(adc)".to_owned(), all().filter(|adc| *adc != 0).count() as i64),
            (format!("count(any(adc > {limit}))"), waves.iter().filter(above).count() as i64),
            (format!("sources(adc > {limit})"), boards.len() as i64),
            (format!("any(adc == {limit})"), i64::from(all().any(|adc| adc == limit))),
            (format!("all(adc < {limit})"), i64::from(all().all(|adc| adc < limit))),
        ];
        if let (Some(most), Some(least)) = (all().max(), all().min()) {
            facts.push(("max(adc)".to_owned(), most.into()));
            facts.push(("min(adc * 1)".to_owned(), least.into()));
        }
        for (text, value) in facts {
            assert!(keeps(&format!("{text} == {value}"), &batch), "{text} {value} {waves:?}");
        }
    }
}

#[test]
fn mistakes_are_named_with_their_place_and_the_nearest_name() {
    for (text, parts) in [
        ("max(adk) > 3", ["character 5", "did you mean `adc`?"].as_slice()),
        ("adc > 3", &["character 1", "any(adc > 0)"]),
        ("packet.bytes > 3", &["aggregate"]),
        ("maxx(adc) > 3", &["`maxx` is not a function", "did you mean `max`?"]),
        ("max(adc) = 3", &["character 10", "write `==`"]),
        ("max(adc > 3", &["the end is where `)` is expected"]),
        ("event.complet", &["did you mean `event.complete`?"]),
        ("event.status == 'full'", &["is never \"full\"", "\"incomplete\""]),
        ("event.status > 'stopped'", &["`==` or `!=`"]),
        ("event.status", &["compare it"]),
        ("any(packet.type == 'wav')", &["\"wave\" or \"status-word\""]),
        ("any(packet.input == 'x')", &["write \"tpc\""]),
        ("any(note == 3)", &["raw bytes"]),
        ("any(max(sum(adc)) > 3)", &["nest twice"]),
        ("any(sources(adc) > 3)", &["one source"]),
        ("'text'", &["a text is compared"]),
        ("any(adc == 'x')", &["is not a text"]),
        ("1 +", &["the end is where a number"]),
        ("1 2", &["after the end"]),
        ("true and false", &["write `&&`"]),
        ("1 § 2", &["has no meaning"]),
        ("'open", &["has no end"]),
        ("12ab > 3", &["`12ab` is not a number"]),
        ("max() > 3", &["a number, a name"]),
        ("abs(1, 2)", &["takes one operand"]),
        ("", &["the end is where"]),
    ] {
        let error = compile(text).expect_err(text);
        parts.iter().for_each(|part| assert!(error.contains(part), "{text}: {error}"));
    }
    let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
    assert!(compile(&deep).expect_err("deep").contains("nested"));
    assert!(compile(&"1+".repeat(200_000)).expect_err("long").contains("bytes"));
}

#[test]
fn any_text_is_an_expression_or_an_error_and_never_a_panic() {
    let mut random = Draw::new(test_seed!(13));
    let words = [
        "adc",
        "max",
        "(",
        ")",
        "any",
        "1",
        "-",
        "'a'",
        "event.key",
        "==",
        "&&",
        "!",
        ",",
        "é",
        "packet.type",
        "0x",
        "1e",
        "wave.",
        ".",
        "\"",
        "<<",
        "70",
    ];
    let batch = event(&[wave(1, &[1, 2])]);
    for _ in 0..3000 {
        let text: String = (0..random.below(9))
            .map(|_| words[random.below(words.len() as u64) as usize])
            .collect::<Vec<_>>()
            .join(if random.below(2) == 0 { " " } else { "" });
        if let Ok(keep) = compile(&text) {
            let _ = keep.is_true(&batch.views().next().expect("an event"));
        }
    }
}
