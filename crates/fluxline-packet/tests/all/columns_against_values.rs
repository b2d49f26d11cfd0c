//! Columns decoded as a whole against values decoded one by one: random payloads, all shipped
//! formats, and descriptions that reach each way of the columnar decoder.

use std::collections::BTreeMap;

use fluxline_core::random::{test_count, test_seed};
use fluxline_packet::Description;
use fluxline_packet::columnar::{ColumnValues, Columns, Content, Numbers, Wanted};
use fluxline_packet::decode::Value;
use fluxline_packet::layout::PacketType;
use fluxline_packet::shipped;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Fields at equal distances with gaps, conditions, bits, bytes, floats, lists and computed values.
const MIXED: &str = r#"
name = "mixed"
about = "all ways of the columnar decoder"
reference = "none: made up"
byte-order = "big"
[parameters]
length = { default = 3, min = 1, max = 9, help = "Entries of a list." }
[[packet]]
name = "fixed"
select = "port == 0"
[packet.records]
name = "entry"
bytes = 32
fields = [
  { name = "flags", type = "u8", bits = [
    { name = "is_hit", bits = 7 }, { name = "low", bits = "3..0" }] },
  { type = "u8" },
  { name = "wide", type = "u24" },
  { name = "odd", type = "u56", byte-order = "little" },
  { name = "charge", type = "i16", at = 12, when = "is_hit" },
  { name = "level", type = "f32", at = 12, when = "!is_hit" },
  { name = "raw", type = "bytes", length = 3, at = 16 },
  { name = "beyond", type = "u64", at = 30, when = "low == 3" },
  { name = "long", type = "i64", at = 20 },
]
computed = [
  { name = "sum", value = "wide + low * 2", when = "low > 2" },
  { name = "code", value = "gray(low) ^ 5" },
]
[[packet]]
name = "varying"
[packet.records]
name = "piece"
bytes = "count + 4"
fields = [
  { name = "count", type = "u8" },
  { name = "tag", type = "u8" },
  { name = "text", type = "bytes", length = "count" },
  { name = "end", type = "i16", byte-order = "little" },
]
"#;

/// A value as text; absent ones as nothing.
fn text_of(value: Value<'_>) -> Option<String> {
    match value {
        Value::Null => None,
        Value::U64(value) => Some(value.to_string()),
        Value::I64(value) => Some(value.to_string()),
        Value::F32(value) => Some(format!("{:x}", value.to_bits())),
        Value::F64(value) => Some(format!("{:x}", value.to_bits())),
        Value::Bytes(bytes) => Some(format!("{bytes:?}")),
    }
}

fn texts(column: &ColumnValues) -> Vec<Option<String>> {
    let texts: Vec<String> = match &column.content {
        Content::Bytes(strings) => {
            let starts = std::iter::once(0).chain(strings.ends.iter().copied());
            let ranges = starts.zip(&strings.ends);
            ranges.map(|(start, end)| format!("{:?}", &strings.bytes[start..*end])).collect()
        }
        Content::Samples(_) => panic!("tests/packed_samples.rs has those"),
        Content::Numbers(numbers) => match numbers {
            Numbers::U8(values) => values.iter().map(u8::to_string).collect(),
            Numbers::U16(values) => values.iter().map(u16::to_string).collect(),
            Numbers::U32(values) => values.iter().map(u32::to_string).collect(),
            Numbers::U64(values) => values.iter().map(u64::to_string).collect(),
            Numbers::I8(values) => values.iter().map(i8::to_string).collect(),
            Numbers::I16(values) => values.iter().map(i16::to_string).collect(),
            Numbers::I32(values) => values.iter().map(i32::to_string).collect(),
            Numbers::I64(values) => values.iter().map(i64::to_string).collect(),
            Numbers::F32(values) => values.iter().map(|v| format!("{:x}", v.to_bits())).collect(),
            Numbers::F64(values) => values.iter().map(|v| format!("{:x}", v.to_bits())).collect(),
        },
    };
    let flags = column.presence.flags().map_or(vec![true; texts.len()], <[bool]>::to_vec);
    assert_eq!(flags.len(), texts.len());
    texts.into_iter().zip(flags).map(|(text, there)| there.then_some(text)).collect()
}

/// Decodes a payload both ways, and compares each value.
fn compare(packet: &PacketType, payloads: &[Vec<u8>]) -> usize {
    let Some(records) = &packet.records else { return 0 };
    let mut columns = Columns::new(&records.layout, &Wanted::all(&records.layout));
    let mut expected = vec![Vec::new(); records.layout.values.len()];
    let mut values = Vec::new();
    for payload in payloads {
        let mut iterator = packet.records_in(payload);
        while iterator.decode_next(&mut values) {
            for (column, value) in expected.iter_mut().zip(&values) {
                column.push(text_of(*value));
            }
        }
        assert_eq!(packet.append_records(payload, &mut columns), iterator.remainder());
    }
    for (id, expected) in expected.iter().enumerate() {
        let found = texts(columns.values[id].as_ref().expect("a wanted column"));
        assert_eq!(&found, expected, "{} {}", packet.name, records.layout.values[id].name);
    }
    columns.rows()
}

fn load(text: &str) -> Description {
    Description::load("test.toml", text, &BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn columns_are_the_values_of_random_payloads() {
    let seed = test_seed!(17);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let shipped = shipped::names().filter_map(shipped::shipped).map(load);
    let is_plain = |format: &Description| format.name() != "vdif";
    let formats: Vec<Description> = shipped.filter(is_plain).chain([load(MIXED)]).collect();
    let mut rows = 0;
    for _ in 0..test_count!(40) {
        for packet in formats.iter().flat_map(Description::packet_types) {
            let payloads: Vec<Vec<u8>> = (0..3)
                .map(|_| {
                    let mut bytes = vec![0; random.next_u32() as usize % 9000];
                    random.fill_bytes(&mut bytes);
                    bytes
                })
                .collect();
            rows += compare(packet, &payloads);
        }
    }
    assert!(rows > 100_000, "{rows} records");
}

#[test]
fn unwanted_columns_are_not_made_and_the_others_stay_the_same() {
    let description = load(MIXED);
    let packet = &description.packet_types()[0];
    let layout = &packet.records.as_ref().expect("records").layout;
    let payload: Vec<u8> = (0..32 * 40u32).map(|at| (at * 31 % 251) as u8).collect();
    let mut all = Columns::new(layout, &Wanted::all(layout));
    packet.append_records(&payload, &mut all);
    let mut wanted = Wanted::all(layout);
    let sum = layout.find("sum").expect("a value");
    let others = wanted.values.iter_mut().enumerate().filter(|(id, _)| *id != sum);
    others.for_each(|(_, column)| *column = None);
    let mut one = Columns::new(layout, &wanted);
    packet.append_records(&payload, &mut one);
    assert_eq!(one.values[sum], all.values[sum]);
    assert_eq!(one.values.iter().flatten().count(), 1);
}
