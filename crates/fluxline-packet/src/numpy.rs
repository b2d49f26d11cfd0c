//! Python source with the NumPy dtypes of a description: header and records, for fixed layouts.
//!
//! A dtype says where bytes are, not that they may be missing: fields at a fixed place in every
//! packet are in it, words of 3, 5, 6 and 7 bytes as raw bytes, and one generated function a
//! value takes bits out of words, joins raw bytes and computes. What a dtype cannot say is listed
//! in a comment, by name, so that nothing is left out silently.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::Description;
use super::expression::{Binary, Expr};
use super::field_type::BitOrder;
use super::layout::{FieldOffset, Item, ItemKind, Layout, Origin, PacketType, ValueKind};
use super::model::ByteOrder;
use super::text::Text;

/// Python source: for each packet type a dtype of its header and, where the payload is made of
/// records of one size, one of a record, with functions for bits and computed values.
///
/// Needs nothing but NumPy. Cost: some tens of microseconds.
#[must_use]
pub fn dtypes(description: &Description) -> String {
    let mut out = String::new();
    let quoted = |text: &str| text.replace('\\', "\\\\").replace("\"\"\"", "'''");
    let _ = writeln!(
        out,
        "\"\"\"NumPy dtypes of `{}` packets: {}.\n\n\
         Made by `fluxline format numpy {0}` from: {}\n\"\"\"",
        description.name(),
        quoted(description.about()),
        quoted(description.reference())
    );
    out.push_str(PRELUDE);
    for packet in description.packet_types() {
        let name = packet.name.replace('-', "_");
        let _ = writeln!(out, "\n\n# Packet `{}`. {}", packet.name, one_line(&packet.help));
        Table { layout: &packet.header, prefix: &format!("{name}_header"), itemsize: None }
            .write(&mut out);
        write_payload(packet, &name, &mut out);
        let Some(records) = &packet.records else { continue };
        let prefix = format!("{name}_{}", records.name);
        match records.bytes.as_ref().and_then(Expr::constant) {
            Some(bytes) => {
                let _ = writeln!(out, "\n# Record `{}` of packet `{}`.", records.name, packet.name);
                let layout = &records.layout;
                Table { layout, prefix: &prefix, itemsize: Some(bytes) }.write(&mut out);
            }
            None => {
                let size = records.bytes.as_ref().map(|bytes| records.layout.text_of(bytes));
                let size = size.unwrap_or_else(|| String::from("as many as its fields"));
                let _ = writeln!(
                    out,
                    "\n# No dtype for record `{}`: its size differs from record to record \
                     ({size} bytes);\n# `fluxline export` decodes it.",
                    records.name
                );
            }
        }
    }
    out
}

/// The beginning of every generated file: words that NumPy has no type for, and Gray code.
const PRELUDE: &str = r#"
import numpy as np


def _word(raw, big):
    """Joins raw bytes, the last axis, to unsigned integers."""
    raw = raw if big else raw[..., ::-1]
    word = np.zeros(raw.shape[:-1], "<u8")
    for index in range(raw.shape[-1]):
        word = word << np.uint64(8) | raw[..., index].astype("<u8")
    return word


def _u64(value):
    return np.asarray(value).astype("<u8")


def _samples(raw, bits, signed, lowest_first):
    """Unpacks samples of some bits from raw bytes, the last axis."""
    order = "little" if lowest_first else "big"
    single = np.unpackbits(np.asarray(raw), axis=-1, bitorder=order)
    count = single.shape[-1] // bits
    single = single[..., :count * bits].reshape(*single.shape[:-1], count, bits)
    weights = 1 << np.arange(bits, dtype="<i8")
    sample = single @ (weights if lowest_first else weights[::-1])
    return np.where(sample >> (bits - 1) & 1, sample - (1 << bits), sample) if signed else sample


def _decimal(raw, kind):
    return np.char.strip(np.asarray(raw)).astype(kind)


def _gray(value):
    for shift in (1, 2, 4, 8, 16, 32):
        value = value ^ (value >> np.uint64(shift))
    return value
"#;

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Writes the start of the payload and the bytes behind it, where both are constant.
fn write_payload(packet: &PacketType, name: &str, out: &mut String) {
    let constant = |expression: &Option<Expr>, default| match expression {
        None => default,
        Some(expression) => expression.constant(),
    };
    let start = constant(&packet.payload.from, packet.header.fixed_bytes.map(u64::from));
    let trailer = constant(&packet.payload.trailer, Some(0));
    match (start, trailer, &packet.payload.length) {
        (Some(start), Some(0), None) => {
            let _ = writeln!(out, "\n{name}_payload = slice({start}, None)");
        }
        (Some(start), Some(trailer), None) => {
            let _ = writeln!(out, "\n{name}_payload = slice({start}, -{trailer})");
        }
        _ => {
            let _ = writeln!(
                out,
                "\n# No slice for the payload of `{}`: its place differs from packet to packet.",
                packet.name
            );
        }
    }
}

/// A dtype with its functions.
struct Table<'a> {
    layout: &'a Layout,
    prefix: &'a str,
    /// The size of a record; `None`: a header, as long as its fields.
    itemsize: Option<u64>,
}

impl Table<'_> {
    fn write(&self, out: &mut String) {
        self.write_list_types(out);
        let mut columns = Vec::new();
        let mut left_out = Vec::new();
        let mut paddings = 0;
        let mut end = 0;
        for item in &self.layout.items {
            let Some(name) = item.name.as_deref() else {
                paddings += 1;
                continue;
            };
            match (self.format_of(item), item.place, self.conditional_in_header(item)) {
                (Some((format, bytes)), FieldOffset::Fixed(at), None) => {
                    columns.push((String::from(name), format, at, item));
                    end = end.max(u64::from(at) + u64::from(bytes));
                }
                (_, _, Some(when)) => left_out.push(format!("`{name}`: there only when {when}")),
                (_, FieldOffset::FromEnd(before), _) => {
                    left_out.push(format!("`{name}`: {before} bytes before the end"));
                }
                (_, FieldOffset::AfterPrevious, _) => {
                    left_out.push(format!("`{name}`: its place differs from packet to packet"));
                }
                (None, _, _) => {
                    left_out.push(format!("`{name}`: its length differs, or it is a list"));
                }
            }
        }
        let padding = if paddings == 0 { "" } else { "; padding is not named" };
        let itemsize = self.itemsize.unwrap_or(end);
        for line in &left_out {
            let _ = writeln!(out, "# Not in the dtype: {line}.");
        }
        if columns.is_empty() {
            let _ =
                writeln!(out, "# No field has a fixed position, so this packet type has no dtype.");
            return;
        }
        let prefix = self.prefix;
        let _ = writeln!(out, "# {itemsize} bytes{padding}.");
        let _ = writeln!(out, "{prefix}_dtype = np.dtype({{");
        let list = |key: &str, parts: Vec<String>, out: &mut String| {
            let _ = writeln!(out, "    \"{key}\": [{}],", parts.join(", "));
        };
        let quote = |text: &String| format!("\"{text}\"");
        list("names", columns.iter().map(|c| quote(&c.0)).collect(), out);
        list("formats", columns.iter().map(|c| c.1.clone()).collect(), out);
        list("offsets", columns.iter().map(|c| c.2.to_string()).collect(), out);
        let _ = writeln!(out, "    \"itemsize\": {itemsize},\n}})");
        self.write_functions(out);
    }

    /// Writes the dtype of the entries of each list that has the same length in every packet.
    fn write_list_types(&self, out: &mut String) {
        for (index, list) in self.layout.lists() {
            let Some(name) = &self.layout.items[index].name else { continue };
            if list.count.constant().is_none() {
                continue;
            }
            let prefix = format!("{}_{name}", self.prefix);
            let _ = writeln!(out, "\n# An entry of the list `{name}`.");
            let itemsize = Some(u64::from(list.item_bytes));
            Table { layout: &list.item, prefix: &prefix, itemsize }.write(out);
            out.push('\n');
        }
    }

    /// Returns the format of a field as Python source, and its bytes.
    fn format_of(&self, item: &Item) -> Option<(String, u32)> {
        match (&item.kind, item.name.as_deref()) {
            (ItemKind::List(list), Some(name)) => {
                let count = list.count.constant()?;
                let bytes = item.fixed_bytes()?;
                Some((format!("({}_{name}_dtype, ({count},))", self.prefix), bytes))
            }
            _ => format_of(item).map(|(format, bytes)| (format!("\"{format}\""), bytes)),
        }
    }

    /// A record's overlapping fields share bytes in the dtype; those of a header may be absent.
    fn conditional_in_header(&self, item: &Item) -> Option<String> {
        let when = item.when.as_ref()?;
        self.itemsize.is_none().then(|| self.layout.text_of(when))
    }

    /// A function for each value that is not a plain column.
    fn write_functions(&self, out: &mut String) {
        let mut known: BTreeMap<usize, String> = BTreeMap::new();
        for (id, value) in self.layout.values.iter().enumerate() {
            let (item, low, width) = match value.origin {
                Origin::Word { item } => (item, 0, 64),
                Origin::Bits { item, low, width } => (item, low, width),
                Origin::Picked { .. } | Origin::Computed { .. } => continue,
            };
            let field = &self.layout.items[item];
            if matches!(field.kind, ItemKind::Text(_)) {
                if let Some(text) = self.decimal(field) {
                    let name = format!("{}_number", value.name);
                    self.function(&name, &value.help, &text, field.when.as_ref(), out);
                    known.insert(id, format!("{}_{name}(array)", self.prefix));
                }
                continue;
            }
            let Some(word) = self.word(field) else { continue };
            if value.kind != ValueKind::Unsigned {
                continue;
            }
            let plain = matches!(value.origin, Origin::Word { .. });
            let joined = matches!(field.kind, ItemKind::Word { bytes: 3 | 5 | 6 | 7, .. });
            let text = match (plain, low) {
                (true, _) => word,
                (false, 0) => format!("{word} & {}", constant(super::word::mask(width.into()))),
                (false, _) => format!(
                    "{word} >> {} & {}",
                    constant(low.into()),
                    constant(super::word::mask(width.into()))
                ),
            };
            if plain && !joined {
                known.insert(id, text);
                continue;
            }
            self.function(&value.name, &value.help, &text, field.when.as_ref(), out);
            known.insert(id, format!("{}_{}(array)", self.prefix, value.name));
        }
        for (id, value) in self.layout.values.iter().enumerate() {
            let Some(packed) = self.layout.packed(id) else { continue };
            let Origin::Word { item } = value.origin else { continue };
            let item = &self.layout.items[item];
            let fixed = matches!(item.place, FieldOffset::Fixed(_)) && format_of(item).is_some();
            if !fixed || self.conditional_in_header(item).is_some() {
                continue;
            }
            let truth = |truth| if truth { "True" } else { "False" };
            let text = format!(
                "_samples(array[\"{}\"], {}, {}, {})",
                value.name,
                packed.bits,
                truth(packed.signed),
                truth(packed.order == BitOrder::LsbFirst)
            );
            let name = format!("{}_samples", value.name);
            self.function(&name, &value.help, &text, item.when.as_ref(), out);
        }
        self.write_computed(&mut known, out);
    }

    /// A function for each computed value.
    fn write_computed(&self, known: &mut BTreeMap<usize, String>, out: &mut String) {
        for &id in &self.layout.computed_order {
            let value = &self.layout.values[id];
            let Origin::Computed { value: expression, when, .. } = &value.origin else { continue };
            match python(expression, known) {
                Some(text) => {
                    self.function(&value.name, &value.help, &text, when.as_ref(), out);
                    known.insert(id, format!("{}_{}(array)", self.prefix, value.name));
                }
                None => {
                    let _ = writeln!(
                        out,
                        "\n# No function for `{}`: it is computed from what the dtype lacks.",
                        value.name
                    );
                }
            }
        }
    }

    fn function(&self, name: &str, help: &str, text: &str, when: Option<&Expr>, out: &mut String) {
        let help = one_line(help).replace('\\', "\\\\").replace('"', "'");
        let when = when.map(|when| format!(" Meaningful only when {}.", self.layout.text_of(when)));
        let what = format!("`{name}` of an array of {}_dtype.", self.prefix);
        let (when, space) = (when.unwrap_or_default(), if help.is_empty() { "" } else { " " });
        let _ = write!(
            out,
            "\n\ndef {}_{name}(array):\n    \"\"\"{what}{space}{help}{when}\"\"\"\n    \
             return {text}\n",
            self.prefix
        );
    }

    /// A decimal number as an expression over `array`, where the dtype has the field.
    fn decimal(&self, item: &Item) -> Option<String> {
        let ItemKind::Text(Text { content, .. }) = item.kind else { return None };
        let in_dtype = matches!(item.place, FieldOffset::Fixed(_))
            && item.fixed_bytes().is_some()
            && (self.itemsize.is_some() || item.when.is_none());
        let name = item.name.as_deref().filter(|_| in_dtype)?;
        let kind = if content == ValueKind::Signed { "<i8" } else { "<u8" };
        Some(format!("_decimal(array[\"{name}\"], \"{kind}\")"))
    }

    /// The word of a field as an expression over `array`, where the dtype has the field.
    fn word(&self, item: &Item) -> Option<String> {
        let in_dtype = matches!(item.place, FieldOffset::Fixed(_))
            && (self.itemsize.is_some() || item.when.is_none());
        let (name, ItemKind::Word { bytes, .. }) = (item.name.as_deref()?, &item.kind) else {
            return None;
        };
        let big = if item.byte_order == ByteOrder::Big { "True" } else { "False" };
        in_dtype.then(|| match bytes {
            3 | 5 | 6 | 7 => format!("_word(array[\"{name}\"], {big})"),
            _ => format!("_u64(array[\"{name}\"])"),
        })
    }
}

/// The NumPy format of a field and its bytes; raw bytes where NumPy has no such word.
fn format_of(item: &Item) -> Option<(String, u32)> {
    let bytes = item.fixed_bytes()?;
    let order = match item.byte_order {
        _ if bytes == 1 => '|',
        ByteOrder::Big => '>',
        ByteOrder::Little => '<',
    };
    let format = match &item.kind {
        ItemKind::Word { bytes: bytes @ (3 | 5 | 6 | 7), .. } => format!("({bytes},)u1"),
        ItemKind::Word { bytes, kind } => match kind {
            ValueKind::Unsigned | ValueKind::Bytes => format!("{order}u{bytes}"),
            ValueKind::Signed => format!("{order}i{bytes}"),
            ValueKind::Float => format!("{order}f{bytes}"),
        },
        ItemKind::Bytes { .. } => format!("({bytes},)u1"),
        ItemKind::Text(_) => format!("S{bytes}"),
        ItemKind::List(_) => return None,
    };
    Some((format, bytes))
}

fn constant(value: u64) -> String {
    match value > 255 {
        true => format!("np.uint64({value:#x})"),
        false => format!("np.uint64({value})"),
    }
}

/// An expression in Python over unsigned 64-bit arrays; `None` when a value is not known.
fn python(expression: &Expr, known: &BTreeMap<usize, String>) -> Option<String> {
    let part = |expression: &Expr| python(expression, known);
    Some(match expression {
        Expr::Constant(value) => constant(*value),
        Expr::Value(id) => known.get(id)?.clone(),
        Expr::Size | Expr::Port => return None,
        Expr::Not(of) => format!("_u64({} == 0)", part(of)?),
        Expr::Gray(of) => format!("_gray({})", part(of)?),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (part(left)?, part(right)?);
            let symbol = operator.symbol();
            match operator {
                Binary::Minimum => format!("np.minimum({left}, {right})"),
                Binary::Maximum => format!("np.maximum({left}, {right})"),
                Binary::Divide => format!("({left} // {right})"),
                Binary::Equal
                | Binary::NotEqual
                | Binary::Less
                | Binary::LessOrEqual
                | Binary::Greater
                | Binary::GreaterOrEqual => format!("_u64({left} {symbol} {right})"),
                Binary::BothTrue => format!("_u64(({left} != 0) & ({right} != 0))"),
                Binary::AnyTrue => format!("_u64(({left} != 0) | ({right} != 0))"),
                _ => format!("({left} {symbol} {right})"),
            }
        }
    })
}
