//! Each thing that a description can say, from the emulator to the ledger: sums, dates, decimal
//! text, digits, steps.

use std::collections::BTreeMap;

use fluxline_core::{Datagram, Moment, SenderAddress};
use fluxline_daq::emulator::{Emulator, EmulatorConfig, Faults, Pattern};
use fluxline_packet::columnar::{Columns, Wanted};
use fluxline_packet::decode::Value;
use fluxline_packet::{Description, Parsed, Reject};

use crate::description_faults::play;

const PERIOD_NS: u64 = 100_000;

fn load(packet: &str) -> Description {
    let text = format!(
        "name = \"t\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"p\"\n{packet}\n"
    );
    Description::load("t.toml", &text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

fn config(sources: u32) -> EmulatorConfig {
    EmulatorConfig {
        sources,
        packet: None,
        payload_bytes: Some(32),
        pattern: Pattern::Counter,
        rate: 1e9 / PERIOD_NS as f64,
        jitter: 0.0,
        packets: 3000,
        seed: 11,
        epoch_start: Moment::from_ns(1_700_000_000_000_000_000),
        faults: Faults { drop: 0.03, duplicate: 0.02, reorder: 0.03, ..Faults::default() },
    }
}

/// Emulates and reads: every drop is found, and nothing else.
#[track_caller]
fn assert_found(packet: &str, sources: u32) {
    let played = play(load(packet), &config(sources), PERIOD_NS);
    let (found, meant) = played.unwrap_or_else(|error| panic!("{error}\n{packet}"));
    assert_eq!(found, meant, "{packet}");
}

fn parse(description: &Description, bytes: &[u8]) -> Result<Parsed, Reject> {
    let (sender, time) = (SenderAddress::NONE, Moment::default());
    description.program().parse(&Datagram { bytes, sender, port: 0, time })
}

#[test]
fn every_sum_is_written_and_checked() {
    let names = [
        "sum-8",
        "sum-16",
        "sum-32",
        "word-sum-16",
        "word-sum-32",
        "xor-8",
        "xor-16",
        "xor-32",
        "fletcher-16",
        "fletcher-32",
        "adler-32",
        "internet",
        "CRC-16/MCRF4XX",
    ];
    for name in names {
        for more in ["", ", extra = [50]", ", complement = \"twos\"", ", to = -6"] {
            let packet = format!(
                "fields = [{{ name = \"counter\", type = \"u16\" }}]\n\
                 sequence = {{ value = \"counter\" }}\npayload = {{ trailer = 8 }}\n\
                 crc = {{ algorithm = \"{name}\", at = -8{more} }}"
            );
            assert_found(&packet, 2);
            let description = load(&packet);
            let mut emulator = Emulator::new(&description, config(1)).expect("packets");
            let bytes = emulator.next().expect("one").bytes.to_vec();
            assert!(parse(&description, &bytes).is_ok(), "{name}{more}");
            let wrong = (0..bytes.len() - 8).filter(|&at| {
                let mut turned = bytes.clone();
                turned[at] ^= 4;
                parse(&description, &turned).is_ok()
            });
            assert_eq!(wrong.count(), 0, "{name}{more}");
        }
    }
}

#[test]
fn a_date_of_year_month_and_day_is_a_time() {
    let packet = r#"
        fields = [
          { name = "counter", type = "u16" }, { name = "year", type = "u16" },
          { name = "month", type = "u8" }, { name = "day", type = "u8" },
          { name = "ms", type = "u32" },
        ]
        sequence = { value = "counter" }
        [packet.timestamp]
        ticks = "ms"
        unit = "1 ms"
        epoch = { year = "year", month = "month", day = "day" }
    "#;
    assert_found(packet, 2);
    let description = load(packet);
    let time = |year: u16, month: u8, day: u8, ms: u32| {
        let bytes = [&[0, 0][..], &year.to_be_bytes(), &[month, day], &ms.to_be_bytes()].concat();
        parse(&description, &bytes).expect("right").sensor_time_ns.expect("a time")
    };
    assert_eq!(time(2023, 11, 14, 80_000_000), 1_699_920_000_000_000_000 + 80_000_000_000_000);
    assert_eq!(time(2024, 2, 29, 0), 1_709_164_800_000_000_000);
    assert_eq!(time(1970, 1, 1, 5), 5_000_000);
    // Numbers that are not a date still yield a time.
    for (year, month, day) in [(0, 0, 0), (65_535, 255, 255), (0, 1, 1), (2024, 13, 40)] {
        time(year, month, day, u32::MAX);
    }
    let mut emulator = Emulator::new(&description, config(1)).expect("packets");
    while let Some(emission) = emulator.next() {
        let due = 1_700_000_000_000_000_000 + emission.at.as_ns();
        let read = parse(&description, emission.bytes).expect("right").sensor_time_ns;
        let late = due.abs_diff(read.expect("a time"));
        assert!(late < 2_000_000, "{late} ns");
    }
}

#[test]
fn digits_and_steps_are_emulated_without_a_word_about_it() {
    assert_found(
        r#"
        fields = [{ name = "w", type = "u16", bits = [
          { name = "q3", bits = "15..12", max = 9 }, { name = "q2", bits = "11..8", max = 9 },
          { name = "q1", bits = "7..4", max = 9 }, { name = "q0", bits = "3..0", max = 9 },
        ] }]
        sequence = { value = "1000 * q3 + 100 * q2 + 10 * q1 + q0" }
        "#,
        3,
    );
    for value in ["2 * frame", "frame * 2", "frame << 1"] {
        assert_found(
            &format!(
                "fields = [{{ name = \"frame\", type = \"u8\" }}]\n\
                 sequence = {{ value = \"{value}\", step = 2 }}"
            ),
            3,
        );
    }
    assert_found(
        r#"
        fields = [{ name = "n", type = "u8", min = 1, max = 100 }, { name = "frame", type = "u16" }]
        computed = [{ name = "all", value = "frame * 100 + n" }]
        sequence = { value = "all - 1" }
        "#,
        2,
    );
}

#[test]
fn a_counter_of_samples_grows_by_what_each_packet_says() {
    for width in ["u16", "u32", "u64"] {
        assert_found(
            &format!(
                "fields = [{{ name = \"first\", type = \"{width}\" }}, \
                 {{ name = \"samples\", type = \"u8\" }}]\n\
                 sequence = {{ value = \"first\", step = \"samples\" }}\n\
                 emulate = {{ fields = {{ samples = \"payload / 2\" }} }}"
            ),
            3,
        );
    }
    let first = r#"
        fields = [{ name = "byte", type = "u32" }]
        sequence = { value = "byte", step = "size - 4" }
    "#;
    assert_found(first, 2);
}

#[test]
fn a_signed_field_distinguishes_sources_and_is_shown_with_its_sign() {
    let packet = r#"
        fields = [{ name = "side", type = "i8" }, { name = "counter", type = "u16" }]
        source = ["side"]
        sequence = { value = "counter" }
    "#;
    assert_found(packet, 200);
    let description = load(packet);
    let parsed = parse(&description, &[0xFE, 0, 1]).expect("right");
    assert_eq!(description.source_label(&parsed.source, 0), "side=-2");
}

const BLOCKS: &str = r#"
    fields = [{ name = "board", type = "u16" }, { name = "first_number", type = "u32", at = 6 }]
    source = ["board"]
    sequence = { value = "first_number" }
    payload = { from = 2 }
    [packet.records]
    name = "block"
    bytes = "max(length, 8)"
    fields = [
      { name = "kind", type = "u16" }, { name = "length", type = "u16" },
      { name = "number", type = "u32" },
      { name = "hits", when = "kind == 1", list = {
        count = "(max(length, 8) - 8) / 3",
        fields = [{ name = "pixel", type = "u16" }, { name = "adc", type = "u8" }],
      } },
      { name = "temperature", type = "i16", when = "kind == 2" },
      { name = "text", type = "bytes", when = "kind == 3", length = "max(length, 8) - 8" },
    ]
"#;

#[test]
fn blocks_choose_their_layout_by_kind_and_length_and_give_the_packet_its_counter() {
    assert_found(BLOCKS, 2);
    let description = load(BLOCKS);
    let blocks = [
        &[0, 1, 0, 14, 0, 0, 0, 9, 1, 1, 7, 1, 2, 8][..],
        &[0, 2, 0, 10, 0, 0, 0, 10, 0xFF, 0xFE],
        &[0, 3, 0, 11, 0, 0, 0, 11, b'a', b'b', b'c'],
    ];
    let bytes = [&[0, 5][..], &blocks.concat()].concat();
    let parsed = parse(&description, &bytes).expect("right");
    assert_eq!(parsed.sequence, Some(9), "the counter of the first block");
    let packet = &description.packet_types()[0];
    let records = packet.records.as_ref().expect("blocks");
    let at = |name: &str| records.layout.find(name).expect(name);
    let payload = &bytes[parsed.payload_start as usize..];
    let mut iterator = packet.records_in(payload);
    let (mut rows, mut row) = (Vec::new(), Vec::new());
    while iterator.decode_next(&mut row) {
        rows.push(row.clone());
    }
    assert_eq!(iterator.remainder(), 0);
    let column = |name: &str| rows.iter().map(|row| row[at(name)]).collect::<Vec<_>>();
    assert_eq!(column("number"), [9, 10, 11].map(Value::U64));
    assert_eq!(column("temperature"), [Value::Null, Value::I64(-2), Value::Null]);
    assert_eq!(column("text"), [Value::Null, Value::Null, Value::Bytes(b"abc")]);
    let mut columns = Columns::new(&records.layout, &Wanted::all(&records.layout));
    assert_eq!(packet.append_records(payload, &mut columns), 0);
    assert_eq!((columns.rows(), columns.lists[0].entries.rows()), (3, 2));
}

const SHAKE: &str = r#"
    fields = [
      { type = "bytes", until = "'" }, { name = "channel", type = "bytes", until = "'" },
      { type = "bytes", until = "," },
      { name = "seconds", type = "decimal", until = "." },
      { name = "ms", type = "decimal", until = "," },
    ]
    timestamp = { seconds = "seconds", ticks = "ms", unit = "1 ms", epoch = "unix" }
    records = { name = "sample", fields = [
      { name = "adc", type = "signed-decimal", until = ",}" },
    ] }
"#;

#[test]
fn a_line_of_decimal_text_is_read_with_its_samples() {
    let description = load(SHAKE);
    let line = b"{'EHZ', 1582315130.292, 14168, -14927, 16112, 17537}";
    let parsed = parse(&description, line).expect("right");
    assert_eq!(parsed.sensor_time_ns, Some(1_582_315_130_292_000_000));
    let packet = &description.packet_types()[0];
    let mut header = Vec::new();
    packet.decode_header(line, 0, &mut header);
    let at = |name: &str| packet.header.find(name).expect(name);
    assert_eq!(header[at("channel")], Value::Bytes(b"EHZ"));
    assert_eq!(header[at("seconds")], Value::U64(1_582_315_130));
    let payload = &line[parsed.payload_start as usize..];
    let mut records = packet.records_in(payload);
    let (mut samples, mut row) = (Vec::new(), Vec::new());
    while records.decode_next(&mut row) {
        samples.extend_from_slice(&row);
    }
    assert_eq!(samples, [14_168, -14_927, 16_112, 17_537].map(Value::I64));
    assert_eq!(records.remainder(), 0);
    let wrong = parse(&description, b"{'EHZ', 15x.292, 14168}").expect_err("no number");
    assert!(description.rule_name(wrong).contains("field `seconds`"));
    assert!(parse(&description, b"").is_err());
}

#[test]
fn counters_keys_and_sources_in_decimal_are_emulated() {
    assert_found(
        r#"
        fields = [
          { name = "board", type = "decimal", until = ";" },
          { name = "counter", type = "decimal", length = 4 }, { type = "bytes", until = "!" },
          { name = "trigger", type = "decimal", until = " " },
        ]
        source = ["board"]
        sequence = { value = "counter" }
        event = { key = "trigger" }
        "#,
        3,
    );
}

#[test]
fn captured_lines_of_a_seismometer_are_read() {
    let root = std::env::var_os("FLUXLINE_SHARED").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        std::path::PathBuf::from,
    );
    let path = root.join("cases/true/text_shake.pcap");
    if !path.exists() {
        println!("skipped: optional test data shared/cases");
        return;
    }
    let description = load(SHAKE);
    let mut reader = fluxline_daq::capture::CaptureReader::open(&path).expect("a capture");
    let mut times = Vec::new();
    while let Some(datagram) = reader.next().expect("a good file") {
        let parsed = description.program().parse(&datagram).expect("it fits");
        times.push(parsed.sensor_time_ns.expect("a time"));
    }
    assert_eq!(times.len(), 5);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 250_000_000), "{times:?}");
}
