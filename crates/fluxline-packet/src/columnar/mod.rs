//! Decodes many packets or records into columns, a whole column at a time.
//!
//! [`super::decode`] yields one [`super::decode::Value`] at a time, which is far slower than the
//! memory. Here a column of a payload is one loop over equal steps: the loop for 16-bit samples in
//! network order compiles to a byte swap of whole vectors. Layouts whose places differ from record
//! to record take the way of `decode`, row by row; both ways yield the same columns.

mod evaluate;
mod numbers;
mod strided;
mod unpack;

use alloc::vec::Vec;

pub use numbers::Numbers;

use super::decode::{Column, Located, Value, columns_of};
use super::expression::Expr;
use super::layout::{ItemKind, Layout, PacketType};
use super::packed::Packed;
use strided::Strided;

/// The presence of each row of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Empty while every row is present.
    flags: Vec<bool>,
    rows: usize,
}

impl Presence {
    /// Returns a flag per row; `None` when every row is present.
    #[must_use]
    pub fn flags(&self) -> Option<&[bool]> {
        (!self.flags.is_empty()).then_some(&self.flags)
    }

    /// Appends rows that are present.
    fn present(&mut self, rows: usize) {
        self.rows += rows;
        if !self.flags.is_empty() {
            self.flags.resize(self.rows, true);
        }
    }

    fn push(&mut self, present: bool) {
        self.extend(core::iter::once(present));
    }

    fn extend(&mut self, flags: impl Iterator<Item = bool> + Clone) {
        if self.flags.is_empty() && flags.clone().all(|flag| flag) {
            self.rows += flags.count();
            return;
        }
        if self.flags.is_empty() {
            self.flags.resize(self.rows, true);
        }
        self.flags.extend(flags);
        self.rows = self.flags.len();
    }
}

/// Byte strings one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteStrings {
    /// The end of each string in `bytes`.
    pub ends: Vec<usize>,
    /// All strings.
    pub bytes: Vec<u8>,
}

/// The values of a column; 0 or empty where a row is absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Numbers of one type.
    Numbers(Numbers),
    /// Raw bytes.
    Bytes(ByteStrings),
    /// Packed samples of each row.
    Samples(SampleArrays),
}

/// Arrays of unpacked samples one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleArrays {
    /// The end of each array in `samples`.
    pub ends: Vec<usize>,
    /// All samples.
    pub samples: Numbers,
    packed: Packed,
}

impl SampleArrays {
    fn push(&mut self, bytes: &[u8]) {
        self.samples.extend_packed(&self.packed, bytes);
        self.ends.push(self.samples.len());
    }
}

/// One column of a layout.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnValues {
    /// The values.
    pub content: Content,
    /// The presence of each row.
    pub presence: Presence,
}

impl ColumnValues {
    fn of(column: &Column) -> ColumnValues {
        let content = match (column.packed, Numbers::of(column.kind, column.width_bits)) {
            (Some(packed), _) => {
                let samples = Numbers::of_samples(&packed);
                Content::Samples(SampleArrays { ends: Vec::new(), samples, packed })
            }
            (None, Some(numbers)) => Content::Numbers(numbers),
            (None, None) => Content::Bytes(ByteStrings::default()),
        };
        ColumnValues { content, presence: Presence::default() }
    }

    fn push(&mut self, value: Value<'_>) {
        match (&mut self.content, value) {
            (Content::Bytes(strings), Value::Bytes(bytes)) => strings.push(bytes),
            (Content::Bytes(strings), _) => strings.push(&[]),
            (Content::Samples(arrays), Value::Bytes(bytes)) => arrays.push(bytes),
            (Content::Samples(arrays), _) => arrays.push(&[]),
            (Content::Numbers(numbers), value) => numbers.push(value),
        }
        match value {
            Value::Null => self.presence.push(false),
            _ => self.presence.present(1),
        }
    }
}

impl ByteStrings {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }
}

/// The lists that one field of a layout holds.
#[derive(Clone, Debug)]
pub struct ListColumns {
    /// Number of the field in the layout's items.
    pub item: usize,
    /// The end of each row's list in `entries`.
    pub ends: Vec<usize>,
    /// The presence of each row's list; an absent one is empty.
    pub presence: Presence,
    /// The entries of all lists.
    pub entries: Columns,
}

/// The columns of a layout, a row for each packet, record or list entry.
#[derive(Clone, Debug)]
pub struct Columns {
    /// One per value of the layout; `None` for a column that is not wanted.
    pub values: Vec<Option<ColumnValues>>,
    /// One per list of the layout, in order.
    pub lists: Vec<ListColumns>,
    rows: usize,
    incomplete_rows: usize,
    scratch: strided::Scratch,
}

/// The choice of columns of a layout.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// One per value: its column, or `None` when it is not wanted.
    pub values: Vec<Option<Column>>,
    /// One per list, in order.
    pub lists: Vec<Wanted>,
}

impl Wanted {
    /// Returns the choice of all columns of a layout.
    #[must_use]
    pub fn all(layout: &Layout) -> Wanted {
        Wanted {
            values: columns_of(layout).into_iter().map(Some).collect(),
            lists: layout.lists().map(|(_, list)| Wanted::all(&list.item)).collect(),
        }
    }

    /// Returns the choice of these values of a layout, without lists.
    #[must_use]
    pub fn only(layout: &Layout, ids: &[usize]) -> Wanted {
        let values = columns_of(layout).into_iter().enumerate();
        let values = values.map(|(id, column)| ids.contains(&id).then_some(column));
        Wanted { values: values.collect(), lists: Vec::new() }
    }
}

impl Columns {
    /// Returns empty columns for `layout`.
    #[must_use]
    pub fn new(layout: &Layout, wanted: &Wanted) -> Columns {
        let value = |column: &Option<Column>| column.as_ref().map(ColumnValues::of);
        let lists = layout.lists().zip(&wanted.lists).map(|((item, list), wanted)| ListColumns {
            item,
            ends: Vec::new(),
            presence: Presence::default(),
            entries: Columns::new(&list.item, wanted),
        });
        Columns {
            values: wanted.values.iter().map(value).collect(),
            lists: lists.collect(),
            rows: 0,
            incomplete_rows: 0,
            scratch: strided::Scratch::default(),
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of rows that lack a field which they ought to have: those packets are
    /// shorter than their description.
    #[must_use]
    pub fn incomplete_rows(&self) -> usize {
        self.incomplete_rows
    }

    /// Appends one row, decoded field by field. Tolerates any bytes.
    pub fn push(&mut self, layout: &Layout, bytes: &[u8], port: u16) {
        let mut values = Vec::new();
        let located = super::decode::decode_located(layout, bytes, port, &mut values);
        for (column, value) in self.values.iter_mut().zip(values) {
            if let Some(column) = column {
                column.push(value);
            }
        }
        self.push_lists(layout, bytes, &located);
        self.rows += 1;
        self.incomplete_rows += usize::from(!located.complete);
    }

    fn push_lists(&mut self, layout: &Layout, bytes: &[u8], located: &Located) {
        for columns in &mut self.lists {
            let range = located.items.get(columns.item).cloned().flatten();
            let bytes = range.and_then(|range| bytes.get(range));
            let Some(ItemKind::List(list)) = layout.items.get(columns.item).map(|item| &item.kind)
            else {
                continue;
            };
            columns.presence.push(bytes.is_some());
            columns.entries.extend(&list.item, bytes.unwrap_or_default(), list.item_bytes as usize);
            columns.ends.push(columns.entries.rows);
        }
    }

    /// Appends the rows in `bytes`, each of `stride` bytes; bytes behind the last whole row are
    /// ignored.
    pub fn extend(&mut self, layout: &Layout, bytes: &[u8], stride: usize) {
        if stride == 0 || bytes.len() < stride {
            return;
        }
        match Strided::of(layout, stride) {
            Some(strided) => strided.extend(self, bytes),
            None => {
                bytes.chunks_exact(stride).for_each(|row| self.push(layout, row, 0));
            }
        }
    }
}

/// Returns the value of an expression in each row.
///
/// `values` has one column for each value of the layout, a word per row; columns that the
/// expression does not use may be empty.
#[must_use]
pub fn column_of(expression: &Expr, values: &[Vec<u64>], rows: usize) -> Vec<u64> {
    evaluate::Environment { values, rows, size: 0 }.column(expression)
}

impl PacketType {
    /// Appends the records of a payload to `columns`; returns the number of bytes behind the last
    /// whole record.
    ///
    /// Cost: a loop per column where all records have one layout, else a walk per record.
    pub fn append_records(&self, payload: &[u8], columns: &mut Columns) -> usize {
        let Some(records) = &self.records else { return payload.len() };
        let layout = &records.layout;
        let bytes = records.bytes.as_ref().and_then(Expr::constant);
        match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
            Some(bytes) if bytes > 0 && bytes >= layout.min_bytes as usize => {
                columns.extend(layout, payload, bytes);
                payload.len() % bytes
            }
            _ => {
                let mut iterator = self.records_in(payload);
                for record in iterator.by_ref() {
                    columns.push(layout, record, 0);
                }
                iterator.remainder()
            }
        }
    }
}
