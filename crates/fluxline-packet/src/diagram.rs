//! A packet for the eye: a table of its fields, a drawing 32 bits wide, and what the roles are.
//!
//! The drawing shows bytes in the order of the wire, as the figures of RFCs do; bits are numbered
//! within their word, as descriptions number them, so that byte order does not matter to them.
//! The same table is there for machines: everything here is `Serialize`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;

use super::Description;
use super::drawing;
use super::ess_text;
use super::expression::Expr;
use super::layout::{
    Edge, FieldOffset, Fragment, Item, ItemKind, Layout, Origin, PacketType, Records, Rules,
    SourceTerm, Timestamp,
};
use super::model::{ByteOrder, Epoch};

/// A description as tables; `Display` draws it for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagram {
    /// The format's name.
    pub name: String,
    /// The sensor that sends such packets.
    pub about: String,
    /// The reference for the layout.
    pub reference: String,
    /// `"little-endian"` or `"big-endian"`, where a field does not say otherwise.
    pub byte_order: &'static str,
    /// The parameters with the values used here.
    pub parameters: Vec<ParameterLine>,
    /// The packet types, in the order in which they are tried.
    pub packets: Vec<PacketDiagram>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParameterLine {
    /// Its name.
    pub name: String,
    /// Its value here.
    pub value: u64,
    /// The meaning.
    pub help: String,
}

/// One packet type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacketDiagram {
    /// Its name.
    pub name: String,
    /// The content.
    pub help: String,
    /// The condition for this type of packet; `None`: always.
    pub select: Option<String>,
    /// The header.
    pub fields: Vec<FieldLine>,
    /// The meaning of the values, as `role`, `how`.
    pub roles: Vec<(&'static str, String)>,
    /// The records of the payload.
    pub records: Option<RecordDiagram>,
    /// The drawing, a line each.
    pub drawing: Vec<String>,
}

/// The records of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordDiagram {
    /// The name of one.
    pub name: String,
    /// The size of one \[byte\]: a number, or an expression over its fields.
    pub bytes: String,
    /// The fields of one.
    pub fields: Vec<FieldLine>,
    /// The drawing, a line each.
    pub drawing: Vec<String>,
}

/// One line of a table: a field, bits of one, a field of a list, or a computed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldLine {
    /// Offset of its first byte; `None` where that differs from packet to packet.
    pub offset: Option<u32>,
    /// Its offset in words: `8`, `end - 8`, `next`; empty for bits and computed values.
    pub place: String,
    /// Its length \[byte\]; `None` where that differs, and for bits and computed values.
    pub bytes: Option<u32>,
    /// `high..low` within the word; empty where it is all of it.
    pub bits: String,
    /// `u16`, `u32 little-endian`, `bytes`, `list`, `bits`, `item`, `picked`, `computed`.
    pub kind: String,
    /// Its name; padding has none.
    pub name: String,
    /// Its rules: value, condition, length, computation.
    pub rule: String,
    /// The unit.
    pub unit: String,
    /// The meaning.
    pub help: String,
}

impl Diagram {
    /// The tables and drawings of `description`. Cost: some tens of microseconds.
    #[must_use]
    pub fn of(description: &Description) -> Diagram {
        let parameters = description.parameters().iter().map(|parameter| ParameterLine {
            name: parameter.name.clone(),
            value: parameter.value,
            help: parameter.help.clone(),
        });
        let order = description.byte_order();
        Diagram {
            name: description.name().to_string(),
            about: description.about().to_string(),
            reference: description.reference().to_string(),
            byte_order: byte_order(order),
            parameters: parameters.collect(),
            packets: description.packet_types().iter().map(|p| packet(p, order)).collect(),
        }
    }
}

fn packet(packet: &PacketType, order: ByteOrder) -> PacketDiagram {
    let layout = &packet.header;
    let mut drawing = drawing::draw(layout, drawing::Tail::Payload(packet));
    if drawing.is_empty() {
        drawing.push(String::from("(no fields)"));
    }
    PacketDiagram {
        name: packet.name.clone(),
        help: packet.help.clone(),
        select: packet.select.as_ref().map(|select| layout.text_of(select)),
        fields: lines(layout, order),
        roles: roles(packet),
        records: packet.records.as_ref().map(|of| records(of, order)),
        drawing,
    }
}

fn records(records: &Records, order: ByteOrder) -> RecordDiagram {
    RecordDiagram {
        name: records.name.clone(),
        bytes: match &records.bytes {
            Some(bytes) => records.layout.text_of(bytes),
            None => String::from("as many as its fields"),
        },
        fields: lines(&records.layout, order),
        drawing: drawing::draw(&records.layout, drawing::Tail::None),
    }
}

fn byte_order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
}

/// The table of a layout.
fn lines(layout: &Layout, order: ByteOrder) -> Vec<FieldLine> {
    let mut out = Vec::new();
    for item in &layout.items {
        out.push(item_line(layout, item, order));
        for part in &item.bits {
            out.push(FieldLine {
                bits: bits(part.low, part.width),
                rule: rules_text(layout, &part.rules),
                unit: part.unit.clone().unwrap_or_default(),
                ..plain("bits", &part.name, &part.help)
            });
        }
        if let ItemKind::List(list) = &item.kind {
            for mut line in lines(&list.item, order) {
                line.kind = format!("item {}", line.kind);
                line.offset = None;
                out.push(line);
            }
            let Some(pick) = &list.pick else { continue };
            let key = &list.item.values[pick.key].name;
            let value = &list.item.values[pick.value].name;
            for picked in &pick.values {
                let need = if picked.required { ", must be there" } else { "" };
                let rule = format!("{value} where {key} = {:#x}{need}", picked.is);
                out.push(FieldLine { rule, ..plain("picked", &picked.name, &picked.help) });
            }
        }
    }
    for value in &layout.values {
        let Origin::Computed { value: expression, when, .. } = &value.origin else { continue };
        let when = when.as_ref().map(|when| format!(", when {}", layout.text_of(when)));
        let rule = format!("= {}{}", layout.text_of(expression), when.unwrap_or_default());
        let unit = value.unit.clone().unwrap_or_default();
        out.push(FieldLine { rule, unit, ..plain("computed", &value.name, &value.help) });
    }
    out
}

fn plain(kind: &str, name: &str, help: &str) -> FieldLine {
    FieldLine {
        offset: None,
        place: String::new(),
        bytes: None,
        bits: String::new(),
        kind: String::from(kind),
        name: String::from(name),
        rule: String::new(),
        unit: String::new(),
        help: String::from(help),
    }
}

fn item_line(layout: &Layout, item: &Item, order: ByteOrder) -> FieldLine {
    let (offset, place) = match item.place {
        FieldOffset::Fixed(at) => (Some(at), at.to_string()),
        FieldOffset::FromEnd(before) => (None, format!("end - {before}")),
        FieldOffset::AfterPrevious => (None, String::from("next")),
    };
    let mut kind = drawing::type_name(item);
    let wide = matches!(item.kind, ItemKind::Word { bytes, .. } if bytes > 1);
    if wide && item.byte_order != order {
        kind = format!("{kind} {}", byte_order(item.byte_order));
    }
    let mut rule = Vec::new();
    if let Some(when) = &item.when {
        rule.push(format!("when {}", layout.text_of(when)));
    }
    match &item.kind {
        ItemKind::Word { .. } => {}
        ItemKind::Bytes { length } if length.constant().is_none() => {
            rule.push(format!("{} bytes", layout.text_of(length)));
        }
        ItemKind::Bytes { .. } => {}
        ItemKind::Text(text) => rule.push(drawing::end_of(layout, text)),
        ItemKind::List(list) => {
            let count = layout.text_of(&list.count);
            rule.push(format!("{count} items of {} bytes", list.item_bytes));
        }
    }
    let own = rules_text(layout, &item.rules);
    if !own.is_empty() {
        rule.push(own);
    }
    FieldLine {
        offset,
        place,
        bytes: item.fixed_bytes(),
        rule: rule.join("; "),
        unit: item.unit.clone().unwrap_or_default(),
        ..plain(&kind, item.name.as_deref().unwrap_or(""), &item.help)
    }
}

/// `high..low`, or the number of the one bit.
pub(super) fn bits(low: u8, width: u8) -> String {
    match width {
        0 | 1 => low.to_string(),
        _ => format!("{}..{low}", u32::from(low) + u32::from(width) - 1),
    }
}

/// Returns the rules in words; large constants in hexadecimal too.
pub(super) fn rules_text(layout: &Layout, rules: &Rules) -> String {
    let mut parts = Vec::new();
    if let Some(equals) = &rules.equals {
        parts.push(match equals {
            Expr::Constant(constant) if *constant > 255 => format!("= {constant:#x}"),
            other => format!("= {}", layout.text_of(other)),
        });
    }
    if !rules.one_of.is_empty() {
        let all: Vec<String> = rules.one_of.iter().map(ToString::to_string).collect();
        parts.push(format!("one of {}", all.join(" ")));
    }
    if let Some(min) = rules.min {
        parts.push(format!(">= {min}"));
    }
    if let Some(max) = rules.max {
        parts.push(format!("<= {max}"));
    }
    parts.join(", ")
}

/// Returns the meaning of the values.
fn roles(packet: &PacketType) -> Vec<(&'static str, String)> {
    let text = |expression: &Expr| packet.header.text_of(expression);
    let mut out = Vec::new();
    let terms = packet.source.iter().map(|term| match term {
        SourceTerm::Value { value, .. } => packet.header.values[*value].name.clone(),
        SourceTerm::Address => String::from("address"),
        SourceTerm::Port => String::from("port"),
        SourceTerm::Packet => String::from("packet"),
    });
    out.push(("source", terms.collect::<Vec<_>>().join(", ")));
    if let Some(sequence) = &packet.sequence {
        let step = match &sequence.step_of {
            Some(step) => Some(format!(", in steps of {}", text(step))),
            None => (sequence.step != 1).then(|| format!(", in steps of {}", sequence.step)),
        };
        let (value, step) = (text(&sequence.value), step.unwrap_or_default());
        let wraps = match sequence.last.checked_add(1) {
            Some(count) if !count.is_power_of_two() => {
                format!("begins anew after {}", sequence.largest)
            }
            _ => format!("wraps after {} bits", 64 - sequence.last.leading_zeros()),
        };
        out.push(("sequence", format!("{value}, {wraps}{step}")));
    }
    if let Some(event) = &packet.event {
        let spill = event.spill.as_ref();
        let spill = spill.map_or(String::new(), |its| format!(", in spill {}", text(&its.value)));
        out.push(("event", format!("{}, {} bits{spill}", text(&event.key), event.bits)));
    }
    match &packet.fragment {
        Fragment::Whole => {}
        Fragment::Index { index, count, .. } => {
            out.push(("fragment", format!("number {} of {}", text(index), text(count))));
        }
        Fragment::Bytes { offset, total, .. } => {
            out.push(("fragment", format!("from byte {} of {}", text(offset), text(total))));
        }
    }
    if let Some(timestamp) = &packet.timestamp {
        out.push(("timestamp", timestamp_text(packet, timestamp)));
    }
    out.push(("payload", drawing::payload_text(packet)));
    if let Some(crc) = &packet.crc {
        let edge = |edge: Edge| match edge {
            Edge::Start(at) => at.to_string(),
            Edge::End(before) => format!("end - {before}"),
        };
        let when = crc.when.as_ref().map(|when| format!(", when {}", text(when)));
        let [at, from, to] = crc.edges().map(edge);
        let over = format!("{} over bytes {from} to {to}, at {at}", crc.algorithm);
        out.push(("crc", format!("{over}{}", when.unwrap_or_default())));
    }
    if let Some(equals) = &packet.size.equals {
        out.push(("size", format!("= {}", text(equals))));
    }
    out.extend(ess_text::lines(packet));
    out
}

fn timestamp_text(packet: &PacketType, timestamp: &Timestamp) -> String {
    let text = |expression: &Expr| packet.header.text_of(expression);
    let (length, per) = (timestamp.ns_numerator, timestamp.ns_denominator);
    let unit = match per {
        1 => format!("{length} ns"),
        _ => format!("{length}/{per} ns"),
    };
    let seconds = timestamp.seconds.as_ref().map(|s| format!("{} s", text(s)));
    let ticks = timestamp.ticks.as_ref().map(|t| format!("({}) x {unit}", text(t)));
    let sum: Vec<String> = [seconds, ticks].into_iter().flatten().collect();
    let since = match (&timestamp.field_epoch, timestamp.epoch) {
        (Some(epoch), _) => {
            let (months, days) = (text(&epoch.months), text(&epoch.days));
            match &epoch.parts {
                Some([year, month, day]) => {
                    format!("the date ({})-({})-({})", text(year), text(month), text(day))
                }
                None => format!("{} UTC + ({months}) months + ({days}) days", epoch.date),
            }
        }
        (None, Epoch::Unix) => String::from("1970-01-01 UTC"),
        (None, Epoch::Tai) => String::from("1970-01-01 TAI"),
        (None, Epoch::Gps) => String::from("1980-01-06 (GPS)"),
        (None, Epoch::Start) => String::from("the sensor's start"),
    };
    let when = timestamp.when.as_ref().map(|when| format!(", when {}", text(when)));
    format!("{} since {since}{}", sum.join(" + "), when.unwrap_or_default())
}

impl fmt::Display for Diagram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}: {}", self.name, self.about)?;
        writeln!(out, "{}; from {}", self.byte_order, self.reference)?;
        for parameter in &self.parameters {
            writeln!(
                out,
                "parameter {} = {}: {}",
                parameter.name, parameter.value, parameter.help
            )?;
        }
        for packet in &self.packets {
            writeln!(out, "\npacket {}{}", packet.name, colon(&packet.help))?;
            if let Some(select) = &packet.select {
                writeln!(out, "  chosen when {select}")?;
            }
            show(out, &packet.drawing, &packet.fields)?;
            for (role, how) in &packet.roles {
                writeln!(out, "  {role:<9}  {how}")?;
            }
            if let Some(records) = &packet.records {
                writeln!(out, "\n  record {}, {} bytes each", records.name, records.bytes)?;
                show(out, &records.drawing, &records.fields)?;
            }
        }
        Ok(())
    }
}

fn colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

fn show(out: &mut fmt::Formatter<'_>, drawing: &[String], fields: &[FieldLine]) -> fmt::Result {
    writeln!(out)?;
    for line in drawing {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)?;
    let cells = |line: &FieldLine| {
        let mut meaning = Vec::new();
        let unit = (!line.unit.is_empty()).then(|| format!("[{}]", line.unit));
        let texts = [line.rule.clone(), unit.unwrap_or_default(), line.help.clone()];
        meaning.extend(texts.into_iter().filter(|text| !text.is_empty()));
        let bytes = line.bytes.map_or(String::new(), |bytes| bytes.to_string());
        let name = if line.name.is_empty() { "-" } else { &line.name };
        let (place, bits, kind) = (line.place.clone(), line.bits.clone(), line.kind.clone());
        [place, bytes, bits, kind, String::from(name), meaning.join("  ")]
    };
    let heads = ["offset", "bytes", "bits", "type", "name", "meaning"].map(String::from);
    let rows: Vec<[String; 6]> = core::iter::once(heads).chain(fields.iter().map(cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 5] = core::array::from_fn(width);
    for row in &rows {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!(" {cell:<width$} "));
        }
        line.push_str(&format!(" {}", row[5]));
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::{String, ToString};

    use super::Diagram;
    use crate::Description;
    use crate::shipped::{names, shipped};

    fn shown(name: &str) -> String {
        let text = shipped(name).expect("a shipped format");
        let description = Description::load(name, text, &BTreeMap::new()).expect("a right format");
        Diagram::of(&description).to_string()
    }

    #[test]
    fn every_named_value_of_every_shipped_format_is_in_its_diagram() {
        for name in names() {
            let text = shipped(name).expect("a shipped format");
            let description = Description::load(name, text, &BTreeMap::new()).expect("loads");
            let diagram = Diagram::of(&description);
            for (packet, drawn) in description.packet_types().iter().zip(&diagram.packets) {
                for value in &packet.header.values {
                    let listed = drawn.fields.iter().any(|line| line.name == value.name);
                    assert!(listed, "{name} {} lacks {}", packet.name, value.name);
                }
                let width = drawn.drawing.iter().map(|line| line.chars().count()).max();
                assert!(width <= Some(70), "{name}: {width:?}");
            }
        }
    }

    #[test]
    fn a_plain_header_is_drawn_in_rows_of_32_bits() {
        let shown = shown("counter");
        for line in [
            "  | magic                                                         |",
            "  | version       | flags         | source_id                     |",
            "  | event_number                                                  |",
            "  : payload: bytes 32 to the end, records `sample` of 2 bytes     :",
            "u32   magic           = 0x43584c46  The letters FLXC in memory order.",
            "  sequence   packet_number, wraps after 32 bits",
            "  fragment   number fragment_index of fragment_count",
        ] {
            assert!(shown.contains(line), "{line}\n{shown}");
        }
    }

    #[test]
    fn conditional_fields_lists_and_bits_are_shown_in_words() {
        let vrt = shown("vita-49-2");
        assert!(vrt.contains("? seconds, u32, when tsi != 0"), "{vrt}");
        assert!(vrt.contains("31..28"), "{vrt}");
        assert!(vrt.contains("end - 4"), "{vrt}");
        let spead = shown("spead");
        assert!(spead.contains("items: item_count items of 8 bytes"), "{spead}");
        assert!(spead.contains("item_value where item_id = 0x8001, must be there"), "{spead}");
        let ouster = shown("ouster");
        assert!(ouster.contains("CRC-64/XZ over bytes 0 to end - 8, at end - 8"), "{ouster}");
    }
}
