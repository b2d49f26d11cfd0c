//! Rows of equal layout at equal distances: a loop per column.

use alloc::vec;
use alloc::vec::Vec;

use super::evaluate::Environment;
use super::numbers::WordPart;
use super::{ColumnValues, Columns, Content};
use crate::layout::{FieldOffset, Item, ItemKind, Layout, Origin, Stage};
use crate::model::ByteOrder;

/// Memory that is kept from call to call.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    /// A word per row of each value that an expression uses; absent values are 0.
    values: Vec<Vec<u64>>,
    /// The word of the field that is being read.
    words: Vec<u64>,
    /// One per value: an expression uses it.
    used: Option<Vec<bool>>,
}

/// A layout whose fields have the same places in every row.
pub(super) struct Strided<'a> {
    layout: &'a Layout,
    stride: usize,
}

/// The rows of one call.
struct Rows<'a> {
    bytes: &'a [u8],
    count: usize,
    stride: usize,
}

/// A field's place in each row.
struct Field {
    at: usize,
    bytes: usize,
}

impl<'a> Strided<'a> {
    /// Returns the layout as a strided one, if its fields have fixed places.
    pub fn of(layout: &'a Layout, stride: usize) -> Option<Strided<'a>> {
        let fixed = |item: &Item| {
            let is_text = matches!(item.kind, ItemKind::Text(_));
            matches!(item.place, FieldOffset::Fixed(_)) && item.fixed_bytes().is_some() && !is_text
        };
        let picks = |item: &Item| matches!(&item.kind, ItemKind::List(list) if list.pick.is_some());
        let strided = layout.items.iter().all(|item| fixed(item) && !picks(item));
        strided.then_some(Strided { layout, stride })
    }

    /// Appends all whole rows in `bytes` to `columns`.
    pub fn extend(&self, columns: &mut Columns, bytes: &[u8]) {
        let count = bytes.len() / self.stride;
        let bytes = &bytes[..count * self.stride];
        let rows = Rows { bytes, count, stride: self.stride };
        let values = self.layout.values.len();
        let mut scratch = core::mem::take(&mut columns.scratch);
        scratch.values.resize(values, Vec::new());
        let used = scratch.used.take().unwrap_or_else(|| used_values(self.layout));
        scratch.values.iter_mut().for_each(Vec::clear);
        let mut walk = Walk { strided: self, columns, rows, scratch, used, incomplete: false };
        for index in 0..self.layout.items.len() {
            walk.compute(|stage| stage == Stage::AfterItems(index));
            walk.item(index);
        }
        let items = self.layout.items.len();
        walk.compute(|stage| stage == Stage::AfterItems(items) || stage == Stage::End);
        let Walk { mut scratch, used, incomplete, .. } = walk;
        scratch.used = Some(used);
        columns.scratch = scratch;
        columns.rows += count;
        columns.incomplete_rows += if incomplete { count } else { 0 };
    }
}

/// The values that expressions of a layout use.
fn used_values(layout: &Layout) -> Vec<bool> {
    let mut used = vec![false; layout.values.len()];
    let mut mark = |id: usize| used[id] = true;
    for item in &layout.items {
        item.when.iter().for_each(|when| when.for_each_value(&mut mark));
    }
    for value in &layout.values {
        if let Origin::Computed { value, when, .. } = &value.origin {
            value.for_each_value(&mut mark);
            when.iter().for_each(|when| when.for_each_value(&mut mark));
        }
    }
    used
}

struct Walk<'s, 'l, 'c, 'b> {
    strided: &'s Strided<'l>,
    columns: &'c mut Columns,
    rows: Rows<'b>,
    scratch: Scratch,
    used: Vec<bool>,
    incomplete: bool,
}

impl Walk<'_, '_, '_, '_> {
    fn evaluate(&self, expression: &crate::expression::Expr) -> Vec<u64> {
        let size = self.rows.stride as u64;
        let values = &self.scratch.values;
        Environment { values, rows: self.rows.count, size }.column(expression)
    }

    fn compute(&mut self, stage_is: impl Fn(Stage) -> bool) {
        let layout = self.strided.layout;
        for &id in &layout.computed_order {
            let Origin::Computed { value, when, stage } = &layout.values[id].origin else {
                continue;
            };
            let wanted = self.columns.values.get(id).is_some_and(Option::is_some);
            if !stage_is(*stage) || !(wanted || self.used[id]) {
                continue;
            }
            let mut words = self.evaluate(value);
            let present = when.as_ref().map(|when| self.evaluate(when));
            keep(&mut words, present.as_deref());
            self.store(id, &words, WordPart { low: 0, width: 64 }, present.as_deref());
        }
    }

    fn item(&mut self, index: usize) {
        let item = &self.strided.layout.items[index];
        let FieldOffset::Fixed(at) = item.place else { return };
        let Some(bytes) = item.fixed_bytes() else { return };
        let field = Field { at: at as usize, bytes: bytes as usize };
        let present = item.when.as_ref().map(|when| self.evaluate(when));
        if field.at + field.bytes > self.rows.stride {
            let ought = present.is_none_or(|flags| flags.iter().any(|flag| *flag != 0));
            self.incomplete |= ought;
            self.absent(index);
            return;
        }
        match &item.kind {
            ItemKind::Word { .. } => self.word(item, &field, present.as_deref()),
            // A layout with a text is read row by row.
            ItemKind::Text(_) => {}
            ItemKind::Bytes { .. } => self.bytes(item, &field, present.as_deref()),
            ItemKind::List(_) => self.list(index, &field, present.as_deref()),
        }
    }

    /// Appends rows without the values of a field.
    fn absent(&mut self, index: usize) {
        let (layout, count) = (self.strided.layout, self.rows.count);
        for id in layout.values_of(index) {
            if let Some(column) = self.columns.values.get_mut(id).and_then(Option::as_mut) {
                match &mut column.content {
                    Content::Numbers(numbers) => numbers.push_zeros(count),
                    Content::Bytes(strings) => (0..count).for_each(|_| strings.push(&[])),
                    Content::Samples(arrays) => (0..count).for_each(|_| arrays.push(&[])),
                }
                column.presence.extend(core::iter::repeat_n(false, count));
            }
        }
        if let Some(list) = self.columns.lists.iter_mut().find(|list| list.item == index) {
            list.ends.resize(list.ends.len() + count, list.entries.rows);
            list.presence.extend(core::iter::repeat_n(false, count));
        }
    }

    fn word(&mut self, item: &Item, field: &Field, present: Option<&[u64]>) {
        if !self.is_needed(item) || self.only_dense_word(item, field, present) {
            return;
        }
        let mut words = core::mem::take(&mut self.scratch.words);
        words.clear();
        gather(&self.rows, field, item.byte_order, &mut words);
        keep(&mut words, present);
        let width = (field.bytes * 8) as u8;
        if let Some(id) = item.value {
            self.store(id, &words, WordPart { low: 0, width }, present);
        }
        for part in &item.bits {
            let bits = WordPart { low: part.low, width: part.width };
            self.store(part.value, &words, bits, present);
        }
        self.scratch.words = words;
    }

    fn is_needed(&self, item: &Item) -> bool {
        let wanted = |id: usize| self.columns.values.get(id).is_some_and(Option::is_some);
        let mut values = item.value.into_iter().chain(item.bits.iter().map(|part| part.value));
        values.any(|id| wanted(id) || self.used[id])
    }

    /// Reads a field that fills its rows, and that nothing else is made from; the way of samples.
    fn only_dense_word(&mut self, item: &Item, field: &Field, present: Option<&[u64]>) -> bool {
        let dense = field.at == 0 && field.bytes == self.rows.stride;
        let Some(id) = item.value.filter(|_| dense && item.bits.is_empty()) else { return false };
        if present.is_some() || self.used[id] {
            return false;
        }
        let Some(column) = self.columns.values.get_mut(id).and_then(Option::as_mut) else {
            return true;
        };
        let Content::Numbers(numbers) = &mut column.content else { return false };
        let done = numbers.extend_dense(self.rows.bytes, field.bytes, item.byte_order);
        if done {
            column.presence.present(self.rows.count);
        }
        done
    }

    /// Appends a value's words, and keeps them for expressions.
    fn store(&mut self, id: usize, words: &[u64], part: WordPart, present: Option<&[u64]>) {
        if self.used[id] {
            let mask = crate::word::mask(u32::from(part.width));
            let kept = &mut self.scratch.values[id];
            kept.clear();
            kept.extend(words.iter().map(|word| word >> (part.low & 63) & mask));
        }
        let Some(column) = self.columns.values.get_mut(id).and_then(Option::as_mut) else { return };
        if let Content::Numbers(numbers) = &mut column.content {
            numbers.extend_words(words, part);
        }
        mark(column, self.rows.count, present);
    }

    fn bytes(&mut self, item: &Item, field: &Field, present: Option<&[u64]>) {
        let id = item.value.unwrap_or(usize::MAX);
        let Some(column) = self.columns.values.get_mut(id).and_then(Option::as_mut) else { return };
        for (number, row) in self.rows.bytes.chunks_exact(self.rows.stride).enumerate() {
            let there = present.is_none_or(|flags| flags[number] != 0);
            let end = if there { field.at + field.bytes } else { field.at };
            match &mut column.content {
                Content::Bytes(strings) => strings.push(&row[field.at..end]),
                Content::Samples(arrays) => arrays.push(&row[field.at..end]),
                Content::Numbers(_) => {}
            }
        }
        mark(column, self.rows.count, present);
    }

    fn list(&mut self, index: usize, field: &Field, present: Option<&[u64]>) {
        let ItemKind::List(list) = &self.strided.layout.items[index].kind else { return };
        let Some(columns) = self.columns.lists.iter_mut().find(|its| its.item == index) else {
            return;
        };
        for (number, row) in self.rows.bytes.chunks_exact(self.rows.stride).enumerate() {
            if present.is_none_or(|flags| flags[number] != 0) {
                let entries = &row[field.at..field.at + field.bytes];
                columns.entries.extend(&list.item, entries, list.item_bytes as usize);
            }
            columns.ends.push(columns.entries.rows);
        }
        match present {
            None => columns.presence.present(self.rows.count),
            Some(flags) => columns.presence.extend(flags.iter().map(|flag| *flag != 0)),
        }
    }
}

fn mark(column: &mut ColumnValues, rows: usize, present: Option<&[u64]>) {
    match present {
        None => column.presence.present(rows),
        Some(flags) => column.presence.extend(flags.iter().map(|flag| *flag != 0)),
    }
}

/// Sets the words of absent rows to 0.
fn keep(words: &mut [u64], present: Option<&[u64]>) {
    for (word, flag) in words.iter_mut().zip(present.unwrap_or_default()) {
        *word = if *flag == 0 { 0 } else { *word };
    }
}

/// Reads a word of each row.
fn gather(rows: &Rows<'_>, field: &Field, order: ByteOrder, out: &mut Vec<u64>) {
    match field.bytes {
        1 => gather_width::<1>(rows, field, order, out),
        2 => gather_width::<2>(rows, field, order, out),
        3 => gather_width::<3>(rows, field, order, out),
        4 => gather_width::<4>(rows, field, order, out),
        5 => gather_width::<5>(rows, field, order, out),
        6 => gather_width::<6>(rows, field, order, out),
        7 => gather_width::<7>(rows, field, order, out),
        _ => gather_width::<8>(rows, field, order, out),
    }
}

fn gather_width<const N: usize>(
    rows: &Rows<'_>,
    field: &Field,
    order: ByteOrder,
    out: &mut Vec<u64>,
) {
    let words = rows.bytes.chunks_exact(rows.stride).map(|row| {
        let mut word = [0; N];
        word.copy_from_slice(&row[field.at..field.at + N]);
        word
    });
    let little = |word: [u8; N]| {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&word);
        u64::from_le_bytes(wide)
    };
    let big = |word: [u8; N]| {
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&word);
        u64::from_be_bytes(wide)
    };
    match order {
        ByteOrder::Little => out.extend(words.map(little)),
        ByteOrder::Big => out.extend(words.map(big)),
    }
}
