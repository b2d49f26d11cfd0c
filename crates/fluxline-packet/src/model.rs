//! The description language in TOML: what serde reads from TOML, with the places kept.
//!
//! Nothing here is checked beyond shape; `load` turns a [`Document`] into a checked description.
//! docs/packet-descriptions.md is the manual of this language.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

pub use super::field_type::{BitOrder, FieldType};

/// A whole description file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Document {
    /// The format's name, as `--format` takes it: lower case, digits and hyphens.
    pub name: Spanned<String>,
    /// The sensor that sends such packets, in one line.
    pub about: String,
    /// The public source that the layout was read from.
    pub reference: String,
    /// Byte order of every field that does not say otherwise.
    pub byte_order: ByteOrder,
    /// Integers that an experiment may set; expressions use them by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
    /// The packet types, tried in this order.
    pub packet: Vec<Spanned<Packet>>,
}

/// An integer that an experiment may set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Parameter {
    /// The value when the experiment sets none.
    pub default: Spanned<u64>,
    /// The smallest value allowed.
    #[serde(default)]
    pub min: u64,
    /// The largest value allowed.
    pub max: Option<u64>,
    /// The meaning.
    pub help: String,
}

/// Order of the bytes of a word.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first (network order).
    Big,
}

/// One type of packet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Packet {
    /// The type's name, unique in the file.
    pub name: Spanned<String>,
    /// The content.
    #[serde(default)]
    pub help: String,
    /// The packet is of this type when this expression is not zero; every type but the last needs
    /// one.
    /// Fields it uses are read first; a packet too short for them is not of this type.
    pub select: Option<Spanned<Expression>>,
    /// The rule for the packet's size.
    pub size: Option<Spanned<SizeRule>>,
    /// The fields of the header, one after the other.
    #[serde(default)]
    pub fields: Vec<Spanned<Field>>,
    /// Values computed from fields.
    #[serde(default)]
    pub computed: Vec<Spanned<Computed>>,
    /// The terms that tell one source from another: field or computed names, `address`, `port` (of
    /// the
    /// sender),
    /// `packet` (the packet type). Default: `["address", "port"]`.
    pub source: Option<Vec<Spanned<String>>>,
    /// The packet counter, one per source.
    pub sequence: Option<Spanned<Sequence>>,
    /// The value that joins packets to an event.
    pub event: Option<Spanned<Event>>,
    /// The part of the event's fragment that this packet is.
    pub fragment: Option<Spanned<Fragment>>,
    /// The sensor's time.
    pub timestamp: Option<Spanned<Timestamp>>,
    /// The board's own cumulative counts.
    pub counts: Option<Spanned<Counts>>,
    /// The payload. Default: from the end of the header to the end of the packet.
    pub payload: Option<Spanned<Payload>>,
    /// The layout of the payload: records, one after the other.
    pub records: Option<Spanned<Records>>,
    /// A check sum in the packet.
    pub crc: Option<Spanned<Crc>>,
    /// The values with which an emulator fills such a packet; the roles give the others.
    pub emulate: Option<Spanned<Emulate>>,
    /// The mapping to the schemas of the European Spallation Source.
    pub ess: Option<Spanned<Ess>>,
}

/// An expression as written: an integer, or text like `"measurement_id / columns_per_packet"`.
///
/// Unsigned integers; `+ - * / % & | ^ << >> == != < <= > >= && || !`, `min(a, b)`, `max(a, b)`,
/// `gray(a)`
/// (Gray code to binary), parentheses, decimal and 0x literals, names of fields, computed values
/// and parameters, and `size` (of the UDP payload \[byte\]) and `port` (that it was sent to).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A constant.
    Integer(u64),
    /// To be parsed.
    Text(String),
}

/// Reads an integer from 0 or a text, and says in words what else may stand there.
struct IntegerOrText<T>(&'static str, fn(u64) -> T, fn(String) -> T);

impl<T> Visitor<'_> for IntegerOrText<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        Ok(self.1(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        let negative = |_| E::invalid_value(de::Unexpected::Signed(value), &self);
        u64::try_from(value).map_err(negative).map(self.1)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<T, E> {
        Ok(self.2(String::from(value)))
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expression, D::Error> {
        const EXPECTED: &str = "an integer from 0 or an expression as text, like \"size - 16\"";
        let visitor = IntegerOrText(EXPECTED, Expression::Integer, Expression::Text);
        deserializer.deserialize_any(visitor)
    }
}

/// The rule for the UDP payload's size \[byte\].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SizeRule {
    /// At least this number.
    pub min: Option<u64>,
    /// At most this number.
    pub max: Option<u64>,
    /// Exactly this number (an expression: the length field's check).
    pub equals: Option<Expression>,
}

/// One field: a whole number of bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Field {
    /// The field's name: a letter, then letters, digits and `_`. Left out: padding, not shown.
    pub name: Option<Spanned<String>>,
    /// The kind of value; absent when `list` is there.
    #[serde(rename = "type")]
    pub kind: Option<FieldType>,
    /// For `type = "bytes"`, decimal numbers and packed samples: the number of bytes.
    pub length: Option<Spanned<Expression>>,
    /// For bytes and decimal numbers, instead of a length: it ends before one of these letters.
    pub until: Option<Spanned<String>>,
    /// Its offset \[byte\]; negative: from the end of the packet. Default: after the one
    /// before.
    pub at: Option<Spanned<i64>>,
    /// The byte order, if it differs from the file's.
    pub byte_order: Option<ByteOrder>,
    /// The bytes are packed samples of the type, in this order.
    pub bit_order: Option<Spanned<BitOrder>>,
    /// The field is there only when this is not zero; absent fields read as 0 in expressions.
    pub when: Option<Spanned<Expression>>,
    /// The value must be this; else the packet is rejected, counted under the field's name.
    pub equals: Option<Spanned<Expression>>,
    /// The value must be one of these.
    pub one_of: Option<Spanned<Vec<u64>>>,
    /// The value must be at least this.
    pub min: Option<Spanned<u64>>,
    /// The value must be at most this.
    pub max: Option<Spanned<u64>>,
    /// Parts of the word, the highest bit of the word being number 8·bytes − 1.
    #[serde(default)]
    pub bits: Vec<Spanned<BitField>>,
    /// A list of equal items, instead of one value.
    pub list: Option<Spanned<List>>,
    /// The unit of the value.
    pub unit: Option<String>,
    /// The meaning.
    #[serde(default)]
    pub help: String,
}

/// A part of a word.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BitField {
    /// The part's name.
    pub name: Spanned<String>,
    /// `"hi..lo"`, both included, or one bit's number.
    pub bits: Spanned<BitRange>,
    /// The value must be this; else the packet is rejected, counted under the field's name.
    pub equals: Option<Spanned<Expression>>,
    /// The value must be one of these.
    pub one_of: Option<Spanned<Vec<u64>>>,
    /// The value must be at least this.
    pub min: Option<Spanned<u64>>,
    /// The value must be at most this.
    pub max: Option<Spanned<u64>>,
    /// The unit of the value.
    pub unit: Option<String>,
    /// The meaning.
    #[serde(default)]
    pub help: String,
}

/// `"63..52"`, `"7"` or `7`.
#[derive(Clone, Debug)]
pub enum BitRange {
    /// One bit.
    One(u64),
    /// As text.
    Text(String),
}

impl<'de> Deserialize<'de> for BitRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BitRange, D::Error> {
        const EXPECTED: &str = "the number of a bit or \"high..low\", both included";
        deserializer.deserialize_any(IntegerOrText(EXPECTED, BitRange::One, BitRange::Text))
    }
}

/// A list of equal items in the header.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct List {
    /// The number of items.
    pub count: Spanned<Expression>,
    /// The fields of one item, all of fixed size.
    pub fields: Vec<Spanned<Field>>,
    /// Values taken out of the list by a key.
    pub pick: Option<Spanned<Pick>>,
}

/// Takes values out of a list: of the items whose `key` is so and so, the `value`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pick {
    /// The item's field that says what it is.
    pub key: Spanned<String>,
    /// The item's field that is taken.
    pub value: Spanned<String>,
    /// The values to take.
    pub values: Vec<Spanned<Picked>>,
}

/// One value taken out of a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Picked {
    /// The name it gets; usable like a field's.
    pub name: Spanned<String>,
    /// The key of its item.
    pub is: u64,
    /// A packet without it is rejected.
    #[serde(default)]
    pub required: bool,
    /// The meaning.
    #[serde(default)]
    pub help: String,
}

/// A value computed from fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Computed {
    /// Its name.
    pub name: Spanned<String>,
    /// The value.
    pub value: Spanned<Expression>,
    /// It is there only when this is not zero.
    pub when: Option<Spanned<Expression>>,
    /// The unit of the value.
    pub unit: Option<String>,
    /// The meaning.
    #[serde(default)]
    pub help: String,
}

/// The packet counter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sequence {
    /// The value.
    pub value: Spanned<Expression>,
    /// Its width \[bit\], 4 to 64, after which it wraps; default: the field's, where `value` is
    /// one.
    pub bits: Option<Spanned<u64>>,
    /// The growth from packet to packet: a constant, or what a packet says; default 1.
    pub step: Option<Spanned<Expression>>,
    /// The growth of the time stamp from packet to packet \[ns\]: finds losses of whole wraps.
    pub timestamp_step_ns: Option<Spanned<u64>>,
}

/// The value that joins packets to an event.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Event {
    /// The key: packets of one event have the same.
    pub key: Spanned<Expression>,
    /// Its width \[bit\]; default: the field's, where `key` is one, else 64.
    pub bits: Option<Spanned<u64>>,
    /// The number of the spill (or run) within which keys are unique, where packets carry one: a
    /// field of at most 32 bits.
    pub spill: Option<Spanned<Expression>>,
}

/// The part of its source's fragment that a packet is: `index` and `count`, or a byte
/// range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fragment {
    /// The packet's number within the fragment, from 0.
    pub index: Option<Spanned<Expression>>,
    /// The number of packets of a fragment.
    pub count: Option<Spanned<Expression>>,
    /// The offset of the payload in the fragment \[byte\].
    pub offset: Option<Spanned<Expression>>,
    /// The size of the whole fragment \[byte\].
    pub total: Option<Spanned<Expression>>,
}

/// The board's own cumulative counts, in packets' worth of data before this packet's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Counts {
    /// The count of blocks that the board took, those that it dropped included.
    pub taken: Spanned<Expression>,
    /// The count of blocks that the board dropped, its FIFO being full.
    pub dropped: Spanned<Expression>,
}

/// The sensor's time: seconds and ticks, or one of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: Option<Spanned<Expression>>,
    /// Ticks (after the second, where `seconds` is there).
    pub ticks: Option<Spanned<Expression>>,
    /// The length of a tick: `"100 ns"`, `"1 ps"`, or its frequency: `"88052500 Hz"`.
    pub unit: Option<Spanned<String>>,
    /// The start of time.
    pub epoch: WrittenEpoch,
    /// The condition: the packet has a time stamp only when this is not zero.
    pub when: Option<Spanned<Expression>>,
}

/// The start of time as written: its name, or a date and counts.
#[derive(Clone, Debug)]
pub enum WrittenEpoch {
    /// `"unix"` and so on.
    Named(Epoch),
    /// `{ date = "2000-01-01", months = "6 * reference_epoch" }`.
    Counted(Box<CountedEpoch>),
}

/// A date, and the months and days that a packet counts from it; or the date that a packet has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedEpoch {
    /// The date, `YYYY-MM-DD`, from 1970 on unless `days` are counted.
    pub date: Option<Spanned<String>>,
    /// The year in the packet, instead of a date.
    pub year: Option<Spanned<Expression>>,
    /// The month in it, from 1.
    pub month: Option<Spanned<Expression>>,
    /// The day in it, from 1: of the month, or of the year where there is no month.
    pub day: Option<Spanned<Expression>>,
    /// Months after it.
    pub months: Option<Spanned<Expression>>,
    /// Days after it.
    pub days: Option<Spanned<Expression>>,
}

impl<'de> Deserialize<'de> for WrittenEpoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenEpoch, D::Error> {
        struct OfEpoch;
        impl<'de> Visitor<'de> for OfEpoch {
            type Value = WrittenEpoch;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(
                    "\"unix\", \"tai\", \"gps\", \"start\", { date = \"2000-01-01\", months = \
                     \"...\" } or { year = \"...\", month = \"...\", day = \"...\" }",
                )
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<WrittenEpoch, E> {
                Epoch::deserialize(de::value::StrDeserializer::new(word)).map(WrittenEpoch::Named)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenEpoch, A::Error> {
                let counted = CountedEpoch::deserialize(MapAccessDeserializer::new(map))?;
                Ok(WrittenEpoch::Counted(Box::new(counted)))
            }
        }
        deserializer.deserialize_any(OfEpoch)
    }
}

/// The start of a sensor's time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Epoch {
    /// 1970-01-01 UTC, leap seconds not counted.
    Unix,
    /// 1970-01-01 TAI, leap seconds counted.
    Tai,
    /// 1980-01-06 UTC, leap seconds counted from there.
    Gps,
    /// The time at which the sensor was switched on, or unknown.
    Start,
}

/// The bytes of the payload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Payload {
    /// Its offset \[byte\]; default: after the last field.
    pub from: Option<Spanned<Expression>>,
    /// Its length \[byte\]; default: up to the trailer.
    pub length: Option<Spanned<Expression>>,
    /// Bytes at the end of the packet that do not belong to it.
    pub trailer: Option<Spanned<Expression>>,
}

/// The payload as records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Records {
    /// The name of one record.
    pub name: Spanned<String>,
    /// The size of one record \[byte\]: a constant or parameter expression, or one over the
    /// record's own fields. Without it, a record is as long as its fields.
    pub bytes: Option<Spanned<Expression>>,
    /// The fields of one record.
    pub fields: Vec<Spanned<Field>>,
    /// Values computed from them.
    #[serde(default)]
    pub computed: Vec<Spanned<Computed>>,
}

/// A check sum in the packet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Crc {
    /// The name in the CRC catalogue, for example `"CRC-64/XZ"`, `"CRC-32/ISO-HDLC"`,
    /// `"CRC-32/ISCSI"`; or that of a sum, for example `"sum-16"`, `"xor-8"`, `"internet"`.
    pub algorithm: Spanned<String>,
    /// The offset of the check sum \[byte\]; negative: from the end.
    pub at: Spanned<i64>,
    /// Order of its bytes, where it differs from the file's.
    pub byte_order: Option<ByteOrder>,
    /// The first byte that it covers; negative: from the end. Default 0.
    pub from: Option<i64>,
    /// The end of what it covers (not included); negative: from the end. Default: `at`.
    pub to: Option<i64>,
    /// Bytes that are not in the packet and count behind the covered ones.
    #[serde(default)]
    pub extra: Vec<u8>,
    /// The complement of the sum that the packet has.
    #[serde(default)]
    pub complement: Complement,
    /// It is checked only when this is not zero.
    pub when: Option<Spanned<Expression>>,
}

/// The complement of a check sum.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Complement {
    /// The sum itself.
    #[default]
    None,
    /// All bits turned.
    Ones,
    /// Its negative: with it, the sum of all is 0.
    Twos,
}

/// The values with which an emulator fills a packet.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Emulate {
    /// Values of fields. Besides parameters the expressions may use `source` (number of the
    /// emulated
    /// source), `sequence`, `event`, `index`, `count`, `offset` (payload bytes of the fragment
    /// before
    /// this packet), `total` (payload bytes of the fragment), `payload` (payload bytes of this
    /// packet),
    /// `size` (bytes of the whole packet), `seconds` and `ticks` (time since the epoch).
    #[serde(default)]
    pub fields: BTreeMap<Spanned<String>, Expression>,
    /// Payload bytes of a packet by default; 1024 when absent.
    pub payload_bytes: Option<Spanned<u64>>,
}

/// `[packet.ess]`: the mapping of one packet type.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ess {
    /// Detector events.
    pub ev44: Option<Spanned<EssEvents>>,
    /// Arrays of samples.
    pub da00: Option<Spanned<EssArray>>,
    /// Logged values.
    #[serde(default)]
    pub f144: Vec<Spanned<EssLogValue>>,
}

/// `[packet.ess.ev44]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EssEvents {
    /// The name of the data; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time from which times of flight count: `"sensor-time"`, `"arrival-time"` or an
    /// expression over the header \[ns since 1970\].
    pub reference_time: Option<Spanned<Expression>>,
    /// The time of flight \[ns\].
    pub time_of_flight: Spanned<Expression>,
    /// The detector's pixel.
    pub pixel_id: Option<Spanned<Expression>>,
    /// A record is an event only when this is not 0.
    pub when: Option<Spanned<Expression>>,
}

/// `[packet.ess.da00]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EssArray {
    /// The name of the data; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time of the first sample, as `reference-time` of ev44.
    pub timestamp: Option<Spanned<Expression>>,
    /// The samples: a field of the records, or `payload`.
    pub signal: Option<Spanned<String>>,
    /// Names of the axes, the slowest first; default: `["sample"]`.
    pub axes: Option<Spanned<Vec<String>>>,
    /// Sizes of all axes but the first.
    pub inner_shape: Option<Spanned<Vec<u64>>>,
    /// The packets of one source in an event make one array.
    #[serde(default)]
    pub join: bool,
}

/// `[[packet.ess.f144]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EssLogValue {
    /// The name of the value; `{field}` stands for a value of the header.
    pub source_name: Spanned<String>,
    /// The time of the value, as `reference-time` of ev44.
    pub timestamp: Option<Spanned<Expression>>,
    /// The value.
    pub value: Spanned<Expression>,
}
