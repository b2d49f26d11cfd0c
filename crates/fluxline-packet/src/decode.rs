//! Everything that a packet holds, by name: for export, inspection and the emulator.
//!
//! An interpreter over the layout, a value at a time: not the hot path, which is `program`. It
//! tolerates any bytes: what does not lie in the packet is absent.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::expression::Expr;
use super::layout::{
    FieldOffset, Item, ItemKind, Layout, Origin, PacketType, Records, Stage, Value as LayoutValue,
    ValueKind,
};
use super::packed::Packed;
use super::text::{Text, TextEnd, decimal, up_to_mark, write_decimal};
use super::word::{extract, insert, read_word, sign_extend, write_word};

/// A value as read from a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// The packet does not have it.
    Null,
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// Raw bytes.
    Bytes(&'a [u8]),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum ColumnKind {
    U64,
    I64,
    F32,
    F64,
    Bytes,
}

/// One column of decoded values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The value's name.
    pub name: String,
    /// Its type; a value may be [`Value::Null`] all the same.
    pub kind: ColumnKind,
    /// The bits of it that are used, 0 for bytes.
    pub width_bits: u32,
    /// The samples that its bytes are.
    pub packed: Option<Packed>,
    /// The unit.
    pub unit: Option<String>,
    /// The meaning.
    pub help: String,
}

impl Column {
    /// Returns the column of value number `id`, which the layout has.
    pub(crate) fn of(layout: &Layout, id: usize) -> Column {
        let value = &layout.values[id];
        let kind = match (value.kind, value.width_bits) {
            (ValueKind::Unsigned, _) => ColumnKind::U64,
            (ValueKind::Signed, _) => ColumnKind::I64,
            (ValueKind::Float, 32) => ColumnKind::F32,
            (ValueKind::Float, _) => ColumnKind::F64,
            (ValueKind::Bytes, _) => ColumnKind::Bytes,
        };
        Column {
            name: value.name.clone(),
            kind,
            width_bits: value.width_bits,
            packed: layout.packed(id),
            unit: value.unit.clone(),
            help: value.help.clone(),
        }
    }
}

/// The places of the fields of one packet or record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Bytes of each item of the layout; `None` where the packet does not have it.
    pub items: Vec<Option<Range<usize>>>,
    /// The start of each item, also of those that the packet does not have.
    pub starts: Vec<usize>,
    /// The end of the furthest field \[byte\]; fields placed from the end do not count.
    pub end: usize,
    /// No field is missing.
    pub complete: bool,
}

impl PacketType {
    /// One column per named value of the header, in the order of the file.
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        columns_of(&self.header)
    }

    /// One column per named value of a record; empty when the payload has no records.
    #[must_use]
    pub fn record_columns(&self) -> Vec<Column> {
        self.records.as_ref().map_or(Vec::new(), |records| columns_of(&records.layout))
    }

    /// Decodes the header into `out`, one value per column.
    ///
    /// `port` is the UDP port the packet was sent to, 0 when unknown. What lies beyond the packet
    /// is [`Value::Null`]. Cost: some hundred nanoseconds; `out` is reused by the caller.
    pub fn decode_header<'a>(&self, bytes: &'a [u8], port: u16, out: &mut Vec<Value<'a>>) {
        decode(&self.header, bytes, port, out);
    }

    /// Returns the place of each field of the header in `bytes`.
    #[must_use]
    pub fn locate(&self, bytes: &[u8], port: u16) -> Located {
        Walk::over(&self.header, bytes, port).located
    }

    /// The records of a payload.
    #[must_use]
    pub fn records_in<'a>(&'a self, payload: &'a [u8]) -> RecordIterator<'a> {
        RecordIterator { records: self.records.as_ref(), rest: payload }
    }

    /// Writes `value` to the place of header value number `id`; the rest of its word is kept.
    ///
    /// Fields before it must have been written, since their presence and length may decide where
    /// it is. A picked value is written into the list item that has its key. Errors: `false` when
    /// this packet does not have it (absent, beyond the end, computed).
    pub fn set_value(&self, bytes: &mut [u8], port: u16, id: usize, value: u64) -> bool {
        let located = self.locate(bytes, port);
        let Some(about) = self.header.values.get(id) else { return false };
        let (item, low, width) = match about.origin {
            Origin::Word { item } => (item, 0, 64),
            Origin::Bits { item, low, width } => (item, low, width),
            Origin::Picked { item, pick } => {
                return self.set_picked(bytes, &located, PickedValue { list: item, pick }, value);
            }
            Origin::Computed { .. } => return false,
        };
        let Some(Some(range)) = located.items.get(item) else { return false };
        let field = &self.header.items[item];
        match field.kind {
            ItemKind::Word { .. } => store(field, &mut bytes[range.clone()], low, width, value),
            ItemKind::Text(ref text) if text.content == ValueKind::Unsigned => {
                let content = content_of(text, bytes, range.clone());
                write_decimal(&mut bytes[content], value);
                true
            }
            ItemKind::Bytes { .. } | ItemKind::Text(_) | ItemKind::List(_) => false,
        }
    }

    /// Writes a number of zeros and the mark of a text where there are none yet: header item number
    /// `item`.
    pub fn lay_out_text(&self, bytes: &mut [u8], port: u16, item: usize) {
        let located = self.locate(bytes, port);
        let Some(ItemKind::Text(text)) = self.header.items.get(item).map(|item| &item.kind) else {
            return;
        };
        let Some(&start) = located.starts.get(item) else { return };
        let digits = self.digits_of(item, text);
        let there = bytes.get_mut(start..).unwrap_or_default();
        match &text.end {
            TextEnd::Length(_) => {
                let length = located.items.get(item).cloned().flatten().map_or(0, |at| at.len());
                there.iter_mut().take(length).for_each(|byte| *byte = b'0');
            }
            // A text that was laid out before has no zero bytes.
            TextEnd::Mark(marks) => {
                let (_, content) = up_to_mark(there, marks);
                if there.iter().take(content.max(1)).any(|byte| *byte == 0) {
                    there.iter_mut().take(digits).for_each(|byte| *byte = b'0');
                    there.iter_mut().skip(digits).take(1).for_each(|byte| *byte = marks[0]);
                }
            }
        }
    }

    /// The digits that a number up to a mark is given: those of its largest value.
    fn digits_of(&self, item: usize, text: &Text) -> usize {
        let largest = self.header.items[item].value.map_or(0, |id| self.header.values[id].range.1);
        match text.content {
            ValueKind::Bytes => 0,
            _ => largest.checked_ilog10().map_or(1, |log| log as usize + 1),
        }
    }

    /// Bytes that [`PacketType::lay_out_text`] adds to those that each packet has.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let items = self.header.items.iter().enumerate();
        let marked = items.filter_map(|(number, item)| match &item.kind {
            ItemKind::Text(text @ Text { end: TextEnd::Mark(_), .. }) => {
                Some(self.digits_of(number, text) + 1)
            }
            _ => None,
        });
        marked.sum()
    }

    /// Returns the place of the content of a text in a packet; `None`: item `item` is not a text,
    /// or the packet does not have it.
    #[must_use]
    pub fn text_content(&self, bytes: &[u8], port: u16, item: usize) -> Option<Range<usize>> {
        let ItemKind::Text(text) = &self.header.items.get(item)?.kind else { return None };
        let range = self.locate(bytes, port).items.get(item)?.clone()?;
        Some(content_of(text, bytes, range))
    }

    /// Writes value number `id` of entry number `index` of the list that is header item `item`.
    ///
    /// Errors: `false` when there is no such list, entry or value.
    pub fn set_list_value(
        &self,
        bytes: &mut [u8],
        port: u16,
        entry: ListEntry,
        id: usize,
        value: u64,
    ) -> bool {
        let located = self.locate(bytes, port);
        let Some(Some(range)) = located.items.get(entry.item) else { return false };
        let Some(ItemKind::List(list)) = self.header.items.get(entry.item).map(|i| &i.kind) else {
            return false;
        };
        let entries = &mut bytes[range.clone()];
        let Some(entry) = entries.chunks_exact_mut(list.item_bytes as usize).nth(entry.index)
        else {
            return false;
        };
        store_in(&list.item, entry, id, value)
    }

    fn set_picked(&self, bytes: &mut [u8], located: &Located, of: PickedValue, value: u64) -> bool {
        let ItemKind::List(list) = &self.header.items[of.list].kind else { return false };
        let (Some(Some(range)), Some(picks)) = (located.items.get(of.list), &list.pick) else {
            return false;
        };
        let Some(picked) = picks.values.get(of.pick) else { return false };
        let entries = bytes[range.clone()].chunks_exact_mut(list.item_bytes as usize);
        let found =
            entries.rev().find(|entry| fetch_from(&list.item, entry, picks.key) == picked.is);
        found.is_some_and(|entry| store_in(&list.item, entry, picks.value, value))
    }
}

/// Returns the columns of all values of a layout.
pub(crate) fn columns_of(layout: &Layout) -> Vec<Column> {
    (0..layout.values.len()).map(|id| Column::of(layout, id)).collect()
}

/// One entry of a list in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Number of the list in the header's items.
    pub item: usize,
    /// Number of the entry, from 0.
    pub index: usize,
}

/// A value that a list's entries are searched for.
#[derive(Clone, Copy)]
struct PickedValue {
    /// Number of the list in the header's items.
    list: usize,
    /// Number of the value among those that the list's `pick` names.
    pick: usize,
}

/// The place of a text without its mark.
fn content_of(text: &Text, bytes: &[u8], range: Range<usize>) -> Range<usize> {
    match &text.end {
        TextEnd::Mark(marks) => {
            let (_, content) = up_to_mark(&bytes[range.clone()], marks);
            range.start..range.start + content
        }
        TextEnd::Length(_) => range,
    }
}

fn store(field: &Item, word: &mut [u8], low: u8, width: u8, value: u64) -> bool {
    let before = read_word(word, field.byte_order);
    write_word(word, field.byte_order, insert(before, low, width, value));
    true
}

/// The word of a fixed field of a list item, with the bits of value number `id` in it.
fn place_in(item: &Layout, id: usize) -> Option<(&Item, Range<usize>, u8, u8)> {
    let (field, low, width) = match item.values.get(id)?.origin {
        Origin::Word { item } => (item, 0, 64),
        Origin::Bits { item, low, width } => (item, low, width),
        Origin::Picked { .. } | Origin::Computed { .. } => return None,
    };
    let field = &item.items[field];
    let (FieldOffset::Fixed(start), Some(bytes)) = (field.place, field.fixed_bytes()) else {
        return None;
    };
    Some((field, start as usize..(start + bytes) as usize, low, width))
}

fn store_in(item: &Layout, entry: &mut [u8], id: usize, value: u64) -> bool {
    let Some((field, range, low, width)) = place_in(item, id) else { return false };
    entry.get_mut(range).is_some_and(|word| store(field, word, low, width, value))
}

fn fetch_from(item: &Layout, entry: &[u8], id: usize) -> u64 {
    let Some((field, range, low, width)) = place_in(item, id) else { return 0 };
    entry.get(range).map_or(0, |word| extract(read_word(word, field.byte_order), low, width))
}

/// The walk over one packet: values as far as they are known, `None` where they are absent.
struct Walk<'l, 'b> {
    layout: &'l Layout,
    bytes: &'b [u8],
    port: u64,
    values: Vec<Option<u64>>,
    located: Located,
}

impl<'l, 'b> Walk<'l, 'b> {
    fn over(layout: &'l Layout, bytes: &'b [u8], port: u16) -> Walk<'l, 'b> {
        let values = vec![None; layout.values.len()];
        let located = Located { complete: true, ..Located::default() };
        let mut walk = Walk { layout, bytes, port: u64::from(port), values, located };
        walk.read_for_select();
        let mut cursor = 0;
        for (index, item) in layout.items.iter().enumerate() {
            walk.compute(|stage| stage == Stage::AfterItems(index));
            let range = walk.range_of(item, cursor);
            walk.located.starts.push(range.as_ref().map_or(cursor, |range| range.start));
            if let (Some(range), false) = (&range, matches!(item.place, FieldOffset::FromEnd(_))) {
                cursor = range.end;
                walk.located.end = walk.located.end.max(cursor);
            }
            let range = range.filter(|range| range.end <= bytes.len());
            walk.located.complete &= range.is_some() || !walk.present(item);
            if let Some(range) = &range {
                walk.read(index, item, &bytes[range.clone()]);
            }
            walk.located.items.push(range);
        }
        let items = layout.items.len();
        walk.compute(|stage| stage == Stage::AfterItems(items) || stage == Stage::End);
        walk
    }

    /// Reads the fields of `select` first, like the program; later fields may depend on them.
    fn read_for_select(&mut self) {
        let for_select = |value: &LayoutValue| {
            matches!(value.origin, Origin::Computed { stage: Stage::Select, .. })
        };
        if !self.layout.values.iter().any(for_select) {
            return;
        }
        for (index, item) in self.layout.items.iter().enumerate() {
            let fixed = item.place != FieldOffset::AfterPrevious && item.when.is_none();
            let word = matches!(item.kind, ItemKind::Word { .. });
            let range = self.range_of(item, 0).filter(|_| fixed && word);
            if let Some(bytes) = range.and_then(|range| self.bytes.get(range)) {
                self.read(index, item, bytes);
            }
        }
        self.compute(|stage| stage == Stage::Select);
    }

    fn evaluate(&self, expression: &super::expression::Expr) -> u64 {
        let value = |id: usize| self.values[id].unwrap_or(0);
        expression.evaluate(&value, self.bytes.len() as u64, self.port)
    }

    fn present(&self, item: &Item) -> bool {
        item.when.as_ref().is_none_or(|when| self.evaluate(when) != 0)
    }

    /// Returns the place of an item, which may reach beyond the packet.
    fn range_of(&self, item: &Item, cursor: usize) -> Option<Range<usize>> {
        if !self.present(item) {
            return None;
        }
        let start = match item.place {
            FieldOffset::Fixed(start) => start as usize,
            FieldOffset::AfterPrevious => cursor,
            FieldOffset::FromEnd(offset) => self.bytes.len().checked_sub(offset as usize)?,
        };
        let length = match &item.kind {
            ItemKind::Word { bytes, .. } => u64::from(*bytes),
            ItemKind::Bytes { length } => self.evaluate(length),
            ItemKind::Text(Text { end: TextEnd::Length(length), .. }) => self.evaluate(length),
            ItemKind::Text(Text { end: TextEnd::Mark(marks), .. }) => {
                up_to_mark(self.bytes.get(start..).unwrap_or_default(), marks).0 as u64
            }
            ItemKind::List(list) => {
                self.evaluate(&list.count).saturating_mul(u64::from(list.item_bytes))
            }
        };
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        Some(start..end)
    }

    fn read(&mut self, index: usize, item: &Item, bytes: &[u8]) {
        match &item.kind {
            ItemKind::Word { .. } => {
                let word = read_word(bytes, item.byte_order);
                if let Some(id) = item.value {
                    self.values[id] = Some(word);
                }
                for part in &item.bits {
                    self.values[part.value] = Some(extract(word, part.low, part.width));
                }
            }
            ItemKind::Text(text) if text.content != ValueKind::Bytes => {
                if let Some(id) = item.value {
                    self.values[id] =
                        decimal(&bytes[content_of(text, bytes, 0..bytes.len())], text.content);
                }
            }
            ItemKind::Bytes { .. } | ItemKind::Text(_) => {
                if let Some(id) = item.value {
                    self.values[id] = Some(index as u64);
                }
            }
            ItemKind::List(list) => {
                let Some(pick) = &list.pick else { return };
                for entry in bytes.chunks_exact(list.item_bytes as usize) {
                    let key = fetch_from(&list.item, entry, pick.key);
                    for picked in pick.values.iter().filter(|picked| picked.is == key) {
                        let value = fetch_from(&list.item, entry, pick.value);
                        self.values[picked.value] = Some(value);
                    }
                }
            }
        }
    }

    fn compute(&mut self, stage_is: impl Fn(Stage) -> bool) {
        for &id in &self.layout.computed_order {
            let Origin::Computed { value, when, stage } = &self.layout.values[id].origin else {
                continue;
            };
            if !stage_is(*stage) {
                continue;
            }
            let there = when.as_ref().is_none_or(|when| self.evaluate(when) != 0);
            self.values[id] = there.then(|| self.evaluate(value));
        }
    }

    fn is_text(&self, value: &LayoutValue) -> bool {
        matches!(value.origin, Origin::Word { item }
            if matches!(self.layout.items[item].kind, ItemKind::Text(_)))
    }

    fn value(&self, id: usize) -> Value<'b> {
        let about = &self.layout.values[id];
        let Some(bits) = self.values[id] else { return Value::Null };
        match (about.kind, about.width_bits) {
            (ValueKind::Unsigned, _) => Value::U64(bits),
            (ValueKind::Signed, _) if self.is_text(about) => Value::I64(bits.cast_signed()),
            (ValueKind::Signed, width_bits) => Value::I64(sign_extend(bits, width_bits)),
            (ValueKind::Float, 32) => Value::F32(f32::from_bits(bits as u32)),
            (ValueKind::Float, _) => Value::F64(f64::from_bits(bits)),
            (ValueKind::Bytes, _) => {
                let range = self.located.items.get(bits as usize).cloned().flatten();
                let range = range.map(|range| match &self.layout.items[bits as usize].kind {
                    ItemKind::Text(text) => content_of(text, self.bytes, range),
                    _ => range,
                });
                range.and_then(|range| self.bytes.get(range)).map_or(Value::Null, Value::Bytes)
            }
        }
    }
}

fn decode<'a>(layout: &Layout, bytes: &'a [u8], port: u16, out: &mut Vec<Value<'a>>) {
    decode_located(layout, bytes, port, out);
}

/// Decodes all values of a layout into `out`, and returns the places of its fields.
pub(crate) fn decode_located<'a>(
    layout: &Layout,
    bytes: &'a [u8],
    port: u16,
    out: &mut Vec<Value<'a>>,
) -> Located {
    let walk = Walk::over(layout, bytes, port);
    out.clear();
    out.extend((0..layout.values.len()).map(|id| walk.value(id)));
    walk.located
}

/// The records of one payload, in order; ends before the first that does not fit.
#[derive(Clone, Debug)]
pub struct RecordIterator<'a> {
    records: Option<&'a Records>,
    rest: &'a [u8],
}

impl<'a> RecordIterator<'a> {
    /// Decodes the next record into `out`, one value per record column; `false` at the end.
    ///
    /// The end is where the rest is shorter than a record, or a record says that it has no bytes:
    /// [`RecordIterator::remainder`] is then not zero.
    pub fn decode_next(&mut self, out: &mut Vec<Value<'a>>) -> bool {
        let Some(record) = self.next() else { return false };
        if let Some(records) = self.records {
            decode(&records.layout, record, 0, out);
        }
        true
    }

    /// Bytes behind the last whole record.
    #[must_use]
    pub fn remainder(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for RecordIterator<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let records = self.records?;
        let bytes = match &records.bytes {
            Some(Expr::Constant(bytes)) => *bytes,
            Some(bytes) => Walk::over(&records.layout, self.rest, 0).evaluate(bytes),
            None => {
                let located = Walk::over(&records.layout, self.rest, 0).located;
                if located.complete { located.end as u64 } else { 0 }
            }
        };
        let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?;
        if bytes > self.rest.len() || bytes < records.layout.min_bytes as usize {
            return None;
        }
        let (record, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Some(record)
    }
}
