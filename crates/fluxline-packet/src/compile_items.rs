//! Compiling one field: size checks, loads, lists, and where the next field starts.

use alloc::vec::Vec;

use super::compile::{Compiler, Cursor};
use super::expression::{Binary, Expr};
use super::instruction::{
    BitRange, DecimalLoad, ListLoad, ListPlan, Load, NO_RULE, Op, Part64, PickPlan, Register,
    TextPlan, WindowLoad, ZERO,
};
use super::layout::{FieldOffset, Item, ItemKind, Layout, List, Origin, ValueKind};
use super::model::ByteOrder;
use super::text::{Text, TextEnd};

/// The start of a field: `at` bytes behind the address in register `base`.
#[derive(Clone, Copy)]
pub(super) struct FieldStart {
    base: Register,
    at: u16,
}

impl FieldStart {
    fn fixed(start: u32) -> FieldStart {
        FieldStart { base: ZERO, at: u16::try_from(start).unwrap_or(u16::MAX) }
    }

    fn in_register(base: Register) -> FieldStart {
        FieldStart { base, at: 0 }
    }
}

impl Compiler<'_> {
    /// Returns the start of a field. Emits the instruction that computes it when a value of the
    /// field is wanted.
    pub fn start_of(&mut self, item: &Item, index: usize, wanted: &[bool]) -> FieldStart {
        match (item.place, self.cursor) {
            (FieldOffset::Fixed(start), _) => FieldStart::fixed(start),
            (FieldOffset::FromEnd(bytes), _) => {
                let mut values = self.layout.values_of(index);
                if values.any(|id| wanted[id] && !self.loaded[id]) {
                    let to = self.fresh();
                    self.emit(Op::FromEnd { to, bytes });
                    FieldStart::in_register(to)
                } else {
                    FieldStart::fixed(0)
                }
            }
            (FieldOffset::AfterPrevious, Cursor::In(register)) => FieldStart::in_register(register),
            (FieldOffset::AfterPrevious, Cursor::At(start)) => FieldStart::fixed(start),
        }
    }

    /// The register that a value lives in, a new one at its first use.
    pub fn home(&mut self, id: usize) -> Register {
        match self.values[id] {
            Some(register) => register,
            None => {
                let register = self.fresh();
                self.values[id] = Some(register);
                register
            }
        }
    }

    /// Loads one value of a word.
    pub fn load(&mut self, item: &Item, id: usize, start: FieldStart) {
        if let (ItemKind::Text(_), Some(bytes)) = (&item.kind, item.fixed_bytes()) {
            let (to, rule) = (self.home(id), item.rules.rule);
            let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
            let (base, at) = (start.base, start.at);
            self.emit(Op::Decimal(DecimalLoad { to, base, at, bytes, rule }));
        }
        let ItemKind::Word { bytes, .. } = item.kind else { return };
        let part = Part64::new(self.bits_of(id, bytes));
        let load = Load { to: self.home(id), base: start.base, at: start.at, part };
        self.emit(match (bytes, item.byte_order) {
            (1, _) => Op::Load8(load),
            (2, ByteOrder::Little) => Op::LoadLittle16(load),
            (2, ByteOrder::Big) => Op::LoadBig16(load),
            (4, ByteOrder::Little) => Op::LoadLittle32(load),
            (4, ByteOrder::Big) => Op::LoadBig32(load),
            (8, ByteOrder::Little) => Op::LoadLittle64(load),
            (8, ByteOrder::Big) => Op::LoadBig64(load),
            (bytes, byte_order) => Op::LoadOdd { load, bytes, byte_order },
        });
    }

    /// Returns the bits of a value in its word of `bytes` bytes.
    fn bits_of(&self, id: usize, bytes: u8) -> BitRange {
        match self.layout.values[id].origin {
            Origin::Bits { low, width, .. } => BitRange { low, width },
            _ => BitRange { low: 0, width: bytes * 8 },
        }
    }

    /// A field in a packet that has it.
    pub fn present_item(&mut self, index: usize, item: &Item) {
        match (&item.kind, item.fixed_bytes()) {
            (ItemKind::List(list), _) => self.list(item, list),
            (_, Some(bytes)) => self.fixed_item(index, item, bytes),
            (ItemKind::Bytes { length }, None) => self.varying_bytes(item, length),
            (ItemKind::Text(text), None) => self.text(item, text),
            (ItemKind::Word { .. }, None) => {}
        }
        let rules = core::iter::once((item.value, &item.rules));
        for (value, rules) in rules.chain(item.bits.iter().map(|b| (Some(b.value), &b.rules))) {
            if let Some(value) = value {
                self.rules(value, rules);
            }
        }
    }

    fn fixed_item(&mut self, index: usize, item: &Item, bytes: u32) {
        let rule = item.rules.rule;
        let end = match item.place {
            FieldOffset::Fixed(start) => start + bytes,
            FieldOffset::FromEnd(offset) => offset,
            FieldOffset::AfterPrevious => 0,
        };
        match (item.place, self.cursor) {
            (FieldOffset::AfterPrevious, Cursor::In(base)) => {
                self.emit(Op::NeedFrom { base, bytes, rule });
            }
            _ if end > self.proven => match item.when {
                None => self.need_run(index),
                Some(_) => {
                    self.emit(Op::Need { bytes: end, rule });
                }
            },
            _ => {}
        }
        let needed = core::mem::take(&mut self.needed);
        let start = self.start_of(item, index, &needed);
        for id in self.layout.values_of(index) {
            if needed[id] && !self.loaded[id] {
                self.load(item, id, start);
            }
        }
        self.needed = needed;
        match (item.place, self.cursor, &item.when) {
            (FieldOffset::FromEnd(_), ..) => {}
            (FieldOffset::Fixed(_), Cursor::At(_), None) => {
                self.fixed_end = self.fixed_end.max(end);
                self.cursor = Cursor::At(end);
            }
            (FieldOffset::Fixed(_), Cursor::In(_), None) => {
                self.keep_far_end();
                self.fixed_end = self.fixed_end.max(end);
                self.cursor = Cursor::At(end);
            }
            (FieldOffset::Fixed(_), Cursor::In(to), Some(_)) => {
                self.emit(Op::AddConstant { to, from: ZERO, value: end });
            }
            (FieldOffset::AfterPrevious, Cursor::In(to), _) => {
                self.emit(Op::AddConstant { to, from: to, value: bytes });
            }
            (_, Cursor::At(_), _) => {}
        }
    }

    /// One size check for this field and those that follow it at fixed places.
    fn need_run(&mut self, first: usize) {
        let mut bytes = self.proven;
        let mut rule = NO_RULE;
        for item in &self.layout.items[first..] {
            let end = match (item.place, item.fixed_bytes(), &item.when, &item.kind) {
                (_, _, _, ItemKind::List(_)) => break,
                (FieldOffset::Fixed(start), Some(bytes), None, _) => start + bytes,
                (FieldOffset::FromEnd(offset), Some(_), None, _) => offset,
                _ => break,
            };
            if end > bytes {
                (bytes, rule) = (end, item.rules.rule);
            }
        }
        self.proven = bytes;
        self.emit(Op::Need { bytes, rule });
        self.load_run(first);
    }

    /// Loads what is needed of the fields behind one size check, through windows of 8 bytes.
    fn load_run(&mut self, first: usize) {
        let layout = self.layout;
        let begin = self.output.program.window_loads.len();
        for (index, item) in layout.items.iter().enumerate().skip(first) {
            let (FieldOffset::Fixed(start), ItemKind::Word { bytes, .. }) =
                (item.place, &item.kind)
            else {
                continue;
            };
            let behind = start + u32::from(*bytes) > self.proven || self.proven < 8;
            if item.when.is_some() || behind {
                continue;
            }
            let at = start.min(self.proven - 8);
            let skip = u8::try_from(start - at).unwrap_or(0);
            for id in layout.values_of(index) {
                if !self.needed[id] || self.loaded[id] {
                    continue;
                }
                self.loaded[id] = true;
                let bits = self.bits_of(id, *bytes);
                let part = Part64::in_window(skip, *bytes, item.byte_order, bits);
                let (to, byte_order) = (self.home(id), item.byte_order);
                let at = u16::try_from(at).unwrap_or(u16::MAX);
                self.output.program.window_loads.push(WindowLoad { to, byte_order, at, part });
            }
        }
        let count = self.output.program.window_loads.len() - begin;
        if let (Ok(first), Ok(count @ 1..)) = (u16::try_from(begin), u16::try_from(count)) {
            self.emit(Op::Loads { first, count });
        }
    }

    fn varying_bytes(&mut self, item: &Item, length: &Expr) {
        let length = self.expression(length);
        let base = self.start_register(item);
        self.emit(Op::NeedLength { base, length, rule: item.rules.rule });
        let operator = Binary::Add;
        self.emit(Op::Binary { operator, to: base, left: base, right: length });
    }

    /// A text whose length differs from packet to packet.
    fn text(&mut self, item: &Item, text: &Text) {
        let (length, marks) = match &text.end {
            TextEnd::Length(length) => (Some(self.expression(length)), Vec::new()),
            TextEnd::Mark(marks) => (None, marks.clone()),
        };
        let base = self.start_register(item);
        let value = item.value.filter(|&id| self.needed[id]);
        let value = value.filter(|_| text.content == ValueKind::Unsigned);
        let to = value.map(|id| self.home(id));
        let index = u16::try_from(self.output.program.texts.len()).unwrap_or(u16::MAX);
        let rule = item.rules.rule;
        self.output.program.texts.push(TextPlan { base, length, marks, to, rule });
        self.emit(Op::Text(index));
    }

    /// The cursor as a register that holds where `item` starts.
    fn start_register(&mut self, item: &Item) -> Register {
        if let (FieldOffset::Fixed(_), Cursor::In(_), None) = (item.place, self.cursor, &item.when)
        {
            self.keep_far_end();
        }
        let cursor = self.cursor_to_register();
        if let FieldOffset::Fixed(value) = item.place {
            self.emit(Op::AddConstant { to: cursor, from: ZERO, value });
        }
        cursor
    }

    fn list(&mut self, item: &Item, list: &List) {
        let count = self.expression(&list.count);
        let base = self.start_register(item);
        let mut picks = Vec::new();
        let mut required = 0;
        let (mut key, mut value) = (ListLoad::NONE, ListLoad::NONE);
        if let Some(pick) = &list.pick {
            key = list_load(&list.item, pick.key);
            value = list_load(&list.item, pick.value);
            for picked in &pick.values {
                let id = picked.value;
                if !self.needed[id] && !picked.required {
                    continue;
                }
                let to = self.home(id);
                if item.when.is_none() {
                    self.present[id] = self.fresh();
                }
                let present = match item.when {
                    Some(_) if !self.needed[id] => self.fresh(),
                    _ => self.present[id],
                };
                required |= u64::from(picked.required) << (picks.len() & 63);
                picks.push(PickPlan { is: picked.is, to, present, rule: picked.rule });
            }
        }
        let plan = ListPlan {
            base,
            count,
            end: base,
            item_bytes: list.item_bytes,
            key,
            value,
            picks,
            required,
            rule: list.rule,
        };
        let index = u16::try_from(self.output.program.lists.len()).unwrap_or(u16::MAX);
        self.output.program.lists.push(plan);
        self.emit(Op::List(index));
        // A list of a constant count at a fixed place: what follows has a fixed place again.
        if let (FieldOffset::Fixed(start), Some(bytes), None) =
            (item.place, item.fixed_bytes(), &item.when)
        {
            self.fixed_end = self.fixed_end.max(start + bytes);
            self.proven = self.proven.max(start + bytes);
            self.cursor = Cursor::At(start + bytes);
        }
    }
}

fn list_load(item: &Layout, id: usize) -> ListLoad {
    let (index, low, width) = match item.values[id].origin {
        Origin::Bits { item, low, width } => (item, low, Some(width)),
        Origin::Word { item } => (item, 0, None),
        Origin::Picked { .. } | Origin::Computed { .. } => return ListLoad::NONE,
    };
    let field = &item.items[index];
    let (ItemKind::Word { bytes, .. }, FieldOffset::Fixed(at)) = (&field.kind, field.place) else {
        return ListLoad::NONE;
    };
    let part = Part64::new(BitRange { low, width: width.unwrap_or(bytes * 8) });
    ListLoad { at, bytes: *bytes, byte_order: field.byte_order, part }
}
