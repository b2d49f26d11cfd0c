//! From a checked layout to a flat program.
//!
//! Only what a role, a rule or an expression needs is loaded; the size is checked once for each run
//! of fields at fixed places; behind a conditional field or a list, places count from a register.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::expression::{Binary, Expr};
use super::layout::{
    Fragment, Item, ItemKind, Layout, List, Origin, PacketType, Place, Rules, SourceTerm, Stage,
};
use super::model::ByteOrder;
use super::needed::{closure, needed_values};
use super::outcome::RejectReason;
use super::program::{
    CrcPlan, FIRST_FREE, FragmentPlan, Keep, ListLoad, ListPlan, Load, NO_RULE, ONE, Op, PORT,
    Part64, PickPlan, Program, REGISTERS_MAX, Register, Role, Roles, SIZE, WindowLoad, ZERO,
};
use super::resolve::PACKET_BYTES_MAX;

/// Compiles all packet types; `rule_packets` says to which packet type each rule belongs.
///
/// Errors: the name of the packet type that needs more registers or instructions than there are.
pub(crate) fn compile(packets: &[PacketType], rule_packets: Vec<u8>) -> Result<Program, String> {
    // The first pass only finds the constants, which get the lowest registers.
    let mut constants = Vec::new();
    for pass in [Pass::CollectConstants, Pass::Emit] {
        let mut output = Output::new(core::mem::take(&mut constants), pass);
        for (number, packet) in packets.iter().enumerate() {
            let number = u8::try_from(number).unwrap_or(u8::MAX);
            Compiler::new(&mut output, packet).packet(number);
            if output.overflow {
                return Err(format!(
                    "packet `{}` needs more than {REGISTERS_MAX} values at once or too many \
                     steps; use fewer fields in roles, rules and expressions",
                    packet.name
                ));
            }
        }
        if pass == Pass::CollectConstants {
            constants = output.constants;
            continue;
        }
        output.program.rule_packets = rule_packets;
        return Ok(output.program);
    }
    Err(String::from("nothing was compiled"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    CollectConstants,
    Emit,
}

/// The program as it grows, shared by the packet types.
struct Output {
    program: Program,
    constants: Vec<u64>,
    pass: Pass,
    overflow: bool,
}

impl Output {
    fn new(constants: Vec<u64>, pass: Pass) -> Output {
        let mut template = [0; REGISTERS_MAX];
        template[usize::from(ONE)] = 1;
        for (register, &constant) in template[FIRST_FREE..].iter_mut().zip(&constants) {
            *register = constant;
        }
        let overflow = FIRST_FREE + constants.len() > REGISTERS_MAX;
        let program = Program {
            ops: Vec::new(),
            template,
            registers: FIRST_FREE + constants.len(),
            window_loads: Vec::new(),
            one_of: Vec::new(),
            lists: Vec::new(),
            crcs: Vec::new(),
            roles: Vec::new(),
            rule_packets: Vec::new(),
        };
        Output { program, constants, pass, overflow }
    }

    fn constant(&mut self, value: u64) -> Register {
        match value {
            0 => return ZERO,
            1 => return ONE,
            _ => {}
        }
        let found = self.constants.iter().position(|&constant| constant == value);
        let index = found.unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        });
        // In the first pass the number is of no consequence.
        match self.pass {
            Pass::CollectConstants => ZERO,
            Pass::Emit => self.register(FIRST_FREE + index),
        }
    }

    fn register(&mut self, index: usize) -> Register {
        self.overflow |= index >= REGISTERS_MAX;
        let register = u8::try_from(index).unwrap_or(u8::MAX);
        self.program.registers = self.program.registers.max(usize::from(register) + 1);
        register
    }
}

/// Where the next field starts.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    At(u32),
    In(Register),
}

/// Compiles one packet type.
struct Compiler<'a> {
    output: &'a mut Output,
    packet: &'a PacketType,
    layout: &'a Layout,
    /// Values that something needs.
    needed: Vec<bool>,
    /// Registers of values computed or loaded so far, and whether the packet has them.
    values: Vec<Option<Register>>,
    present: Vec<Register>,
    /// Values that `select` has loaded.
    loaded: Vec<bool>,
    next_register: usize,
    cursor: Cursor,
    /// The furthest end among fields at fixed places [byte].
    fixed_end: u32,
    /// The furthest end before a field jumped back.
    far_end: Option<Register>,
    /// Packets are known to have so many bytes.
    proven: u32,
    /// The jump to the next packet type.
    not_this_type: Option<usize>,
}

impl<'a> Compiler<'a> {
    fn new(output: &'a mut Output, packet: &'a PacketType) -> Compiler<'a> {
        let layout = &packet.header;
        let count = layout.values.len();
        let next_register = match output.pass {
            Pass::CollectConstants => FIRST_FREE,
            Pass::Emit => FIRST_FREE + output.constants.len(),
        };
        Compiler {
            output,
            packet,
            layout,
            needed: needed_values(packet),
            values: vec![None; count],
            present: vec![ONE; count],
            loaded: vec![false; count],
            next_register,
            cursor: Cursor::At(0),
            fixed_end: 0,
            far_end: None,
            proven: 0,
            not_this_type: None,
        }
    }

    fn emit(&mut self, op: Op) -> usize {
        self.output.program.ops.push(op);
        self.here() - 1
    }

    fn here(&mut self) -> usize {
        let here = self.output.program.ops.len();
        self.output.overflow |= here >= usize::from(u16::MAX);
        here
    }

    fn here_u16(&mut self) -> u16 {
        u16::try_from(self.here()).unwrap_or(u16::MAX)
    }

    fn fresh(&mut self) -> Register {
        self.next_register += 1;
        self.output.register(self.next_register - 1)
    }

    /// Emits a jump over what comes until [`Compiler::land`], taken when the register is 0.
    fn skip_if_zero(&mut self, condition: Register) -> usize {
        self.emit(Op::SkipIfZero { condition, to: 0 })
    }

    fn land(&mut self, skip: usize) {
        let here = self.here_u16();
        if let Some(Op::SkipIfZero { to, .. }) = self.output.program.ops.get_mut(skip) {
            *to = here;
        }
    }

    /// Computes an expression; the register is a value's own where it is one.
    fn expression(&mut self, expression: &Expr) -> Register {
        match expression {
            Expr::Constant(constant) => self.output.constant(*constant),
            Expr::Value(id) => self.values[*id].unwrap_or(ZERO),
            Expr::Size => SIZE,
            Expr::Port => PORT,
            _ => {
                let to = self.fresh();
                self.expression_into(expression, to);
                to
            }
        }
    }

    fn expression_into(&mut self, expression: &Expr, to: Register) {
        // Registers of parts are free again once the whole is computed.
        let mark = self.next_register;
        let op = match expression {
            Expr::Not(of) => Op::Not { to, from: self.expression(of) },
            Expr::Gray(of) => Op::Gray { to, from: self.expression(of) },
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.expression(left), self.expression(right));
                binary(*operator, to, left, right)
            }
            simple => Op::Copy { to, from: self.expression(simple) },
        };
        self.emit(op);
        self.next_register = mark;
    }

    fn packet(&mut self, number: u8) {
        let begin = self.here();
        self.select();
        let size = &self.packet.size;
        if size.min > 0 || size.max < u64::from(PACKET_BYTES_MAX) {
            let limit = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
            let (min, max, rule) = (limit(size.min), limit(size.max), size.rule);
            self.emit(Op::RequireSize { min, max, rule });
        }
        for index in 0..self.layout.items.len() {
            self.computed(Stage::AfterItems(index));
            self.item(index);
        }
        self.computed(Stage::AfterItems(self.layout.items.len()));
        self.computed(Stage::End);
        self.late_rules();
        self.crc();
        let roles = self.roles(number);
        let index = u16::try_from(self.output.program.roles.len()).unwrap_or(u16::MAX);
        self.output.program.roles.push(roles);
        self.emit(Op::Finish(index));
        let after = self.here_u16();
        for op in &mut self.output.program.ops[begin..] {
            if let Op::SelectNeed { otherwise, .. } = op {
                *otherwise = after;
            }
        }
        if let Some(skip) = self.not_this_type {
            self.land(skip);
        }
    }

    fn select(&mut self) {
        let Some(select) = &self.packet.select else { return };
        let wanted = closure(self.layout, &[select]);
        let mut bytes = 0;
        for (index, item) in self.layout.items.iter().enumerate() {
            if self.layout.values_of(index).any(|id| wanted[id]) {
                bytes = bytes.max(match item.place {
                    Place::Fixed(start) => start + item.fixed_bytes().unwrap_or(0),
                    Place::FromEnd(offset) => offset,
                    Place::AfterPrevious => 0,
                });
            }
        }
        self.emit(Op::SelectNeed { bytes, otherwise: 0 });
        for (index, item) in self.layout.items.iter().enumerate() {
            let base = self.base_of(item, index, &wanted);
            for id in self.layout.values_of(index) {
                if wanted[id] {
                    self.load(item, id, base);
                    self.loaded[id] = true;
                }
            }
        }
        self.computed(Stage::Select);
        let condition = self.expression(select);
        self.not_this_type = Some(self.skip_if_zero(condition));
    }

    /// The register and offset at which a field starts; emits what that takes if it is wanted.
    fn base_of(&mut self, item: &Item, index: usize, wanted: &[bool]) -> (Register, u16) {
        match (item.place, self.cursor) {
            (Place::Fixed(start), _) => (ZERO, u16::try_from(start).unwrap_or(u16::MAX)),
            (Place::FromEnd(bytes), _) => {
                let mut values = self.layout.values_of(index);
                if values.any(|id| wanted[id] && !self.loaded[id]) {
                    let to = self.fresh();
                    self.emit(Op::FromEnd { to, bytes });
                    (to, 0)
                } else {
                    (ZERO, 0)
                }
            }
            (Place::AfterPrevious, Cursor::In(register)) => (register, 0),
            (Place::AfterPrevious, Cursor::At(start)) => {
                (ZERO, u16::try_from(start).unwrap_or(u16::MAX))
            }
        }
    }

    /// The register that a value lives in, a new one at its first use.
    fn home(&mut self, id: usize) -> Register {
        match self.values[id] {
            Some(register) => register,
            None => {
                let register = self.fresh();
                self.values[id] = Some(register);
                register
            }
        }
    }

    fn load(&mut self, item: &Item, id: usize, (base, at): (Register, u16)) {
        let ItemKind::Word { bytes, .. } = item.kind else { return };
        let (low, width) = match self.layout.values[id].origin {
            Origin::Bits { low, width, .. } => (low, width),
            _ => (0, bytes * 8),
        };
        let load = Load { to: self.home(id), base, at, part: Part64::new(low, width) };
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

    /// Computes the needed values of a stage.
    fn computed(&mut self, now: Stage) {
        let layout = self.layout;
        for &id in &layout.computed_order {
            let Origin::Computed { value, when, stage } = &layout.values[id].origin else {
                continue;
            };
            if *stage != now || !self.needed[id] {
                continue;
            }
            let Some(when) = when else {
                self.values[id] = Some(self.expression(value));
                continue;
            };
            let condition = self.expression(when);
            let to = self.home(id);
            self.present[id] = condition;
            self.emit(Op::Copy { to, from: ZERO });
            let skip = self.skip_if_zero(condition);
            self.expression_into(value, to);
            self.land(skip);
        }
    }

    fn item(&mut self, index: usize) {
        let item = &self.layout.items[index];
        match &item.when {
            None => self.present_item(index, item),
            Some(when) => {
                let condition = self.expression(when);
                for id in self.layout.values_of(index) {
                    if self.needed[id] {
                        self.present[id] = condition;
                        let to = self.home(id);
                        self.emit(Op::Copy { to, from: ZERO });
                    }
                }
                let moves = !matches!(item.place, Place::FromEnd(_));
                if moves {
                    self.cursor_to_register();
                    if matches!(item.place, Place::Fixed(_)) {
                        self.keep_far_end();
                    }
                }
                self.clear_presence(item);
                let skip = self.skip_if_zero(condition);
                self.present_item(index, item);
                self.land(skip);
            }
        }
    }

    /// The picks of a conditional list have presence registers of their own, cleared before it.
    fn clear_presence(&mut self, item: &Item) {
        let ItemKind::List(List { pick: Some(pick), .. }) = &item.kind else { return };
        for picked in &pick.values {
            if !self.needed[picked.value] {
                continue;
            }
            let to = self.fresh();
            self.emit(Op::Copy { to, from: ZERO });
            self.present[picked.value] = to;
        }
    }

    /// From here on the cursor is a register: what follows starts at different places.
    fn cursor_to_register(&mut self) -> Register {
        match self.cursor {
            Cursor::In(register) => register,
            Cursor::At(value) => {
                let to = self.fresh();
                self.emit(Op::AddConstant { to, from: ZERO, value });
                self.fixed_end = self.fixed_end.max(value);
                self.cursor = Cursor::In(to);
                to
            }
        }
    }

    /// A field with `at` follows: the end of what came before may be further.
    fn keep_far_end(&mut self) {
        let Cursor::In(cursor) = self.cursor else { return };
        let to = match self.far_end {
            Some(far_end) => far_end,
            None => {
                let to = self.fresh();
                self.emit(Op::Copy { to, from: ZERO });
                self.far_end = Some(to);
                to
            }
        };
        let operator = Binary::Maximum;
        self.emit(Op::Binary { operator, to, left: to, right: cursor });
    }

    /// A field in a packet that has it.
    fn present_item(&mut self, index: usize, item: &Item) {
        match (&item.kind, item.fixed_bytes()) {
            (ItemKind::List(list), _) => self.list(item, list),
            (_, Some(bytes)) => self.fixed_item(index, item, bytes),
            (ItemKind::Bytes { length }, None) => self.varying_bytes(item, length),
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
            Place::Fixed(start) => start + bytes,
            Place::FromEnd(offset) => offset,
            Place::AfterPrevious => 0,
        };
        match (item.place, self.cursor) {
            (Place::AfterPrevious, Cursor::In(base)) => {
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
        let base = self.base_of(item, index, &needed);
        for id in self.layout.values_of(index) {
            if needed[id] && !self.loaded[id] {
                self.load(item, id, base);
            }
        }
        self.needed = needed;
        match (item.place, self.cursor, &item.when) {
            (Place::FromEnd(_), ..) => {}
            (Place::Fixed(_), Cursor::At(_), None) => {
                self.fixed_end = self.fixed_end.max(end);
                self.cursor = Cursor::At(end);
            }
            (Place::Fixed(_), Cursor::In(_), None) => {
                self.keep_far_end();
                self.fixed_end = self.fixed_end.max(end);
                self.cursor = Cursor::At(end);
            }
            (Place::Fixed(_), Cursor::In(to), Some(_)) => {
                self.emit(Op::AddConstant { to, from: ZERO, value: end });
            }
            (Place::AfterPrevious, Cursor::In(to), _) => {
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
                (Place::Fixed(start), Some(bytes), None, _) => start + bytes,
                (Place::FromEnd(offset), Some(_), None, _) => offset,
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
            let (Place::Fixed(start), ItemKind::Word { bytes, .. }) = (item.place, &item.kind)
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
                let bits = match layout.values[id].origin {
                    Origin::Bits { low, width, .. } => (low, width),
                    _ => (0, bytes * 8),
                };
                self.loaded[id] = true;
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

    /// The cursor as a register that holds where `item` starts.
    fn start_register(&mut self, item: &Item) -> Register {
        if let (Place::Fixed(_), Cursor::In(_), None) = (item.place, self.cursor, &item.when) {
            self.keep_far_end();
        }
        let cursor = self.cursor_to_register();
        if let Place::Fixed(value) = item.place {
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
        if let (Place::Fixed(start), Some(bytes), None) =
            (item.place, item.fixed_bytes(), &item.when)
        {
            self.fixed_end = self.fixed_end.max(start + bytes);
            self.proven = self.proven.max(start + bytes);
            self.cursor = Cursor::At(start + bytes);
        }
    }

    /// The rules that are checked with the field; those with an expression come later.
    fn rules(&mut self, id: usize, rules: &Rules) {
        let Some(value) = self.values[id] else { return };
        let rule = rules.rule;
        if let Some(expected) = rules.equals.as_ref().and_then(Expr::constant) {
            self.emit(Op::RequireEqual { value, rule, expected });
        }
        if !rules.one_of.is_empty() {
            let table = &mut self.output.program.one_of;
            let (first, count) = (u16::try_from(table.len()), u16::try_from(rules.one_of.len()));
            table.extend_from_slice(&rules.one_of);
            match (first, count) {
                (Ok(first), Ok(count)) => {
                    self.emit(Op::RequireOneOf { value, rule, first, count });
                }
                _ => self.output.overflow = true,
            }
        }
        if let Some(least) = rules.min {
            self.emit(Op::RequireAtLeast { value, rule, least });
        }
        if let Some(most) = rules.max {
            self.emit(Op::RequireAtMost { value, rule, most });
        }
    }

    /// Rules with expressions, when everything is known, then the size.
    fn late_rules(&mut self) {
        let layout = self.layout;
        for item in &layout.items {
            let word = core::iter::once((item.value, &item.rules));
            for (value, rules) in word.chain(item.bits.iter().map(|b| (Some(b.value), &b.rules))) {
                let (Some(id), Some(equals)) = (value, &rules.equals) else { continue };
                if equals.constant().is_some() {
                    continue;
                }
                let condition = self.present[id];
                let skip = item.when.as_ref().map(|_| self.skip_if_zero(condition));
                let (value, rule) = (self.home(id), rules.rule);
                let (mark, reason) = (self.next_register, RejectReason::Value);
                let expected = self.expression(equals);
                self.emit(Op::RequireSame { value, expected, rule, reason });
                self.next_register = mark;
                if let Some(skip) = skip {
                    self.land(skip);
                }
            }
        }
        if let Some(equals) = &self.packet.size.equals {
            let expected = self.expression(equals);
            let (rule, reason) = (self.packet.size.rule, RejectReason::Size);
            self.emit(Op::RequireSame { value: SIZE, expected, rule, reason });
        }
    }

    fn crc(&mut self) {
        let Some(crc) = &self.packet.crc else { return };
        let skip = crc.when.as_ref().map(|when| {
            let condition = self.expression(when);
            self.skip_if_zero(condition)
        });
        let index = u16::try_from(self.output.program.crcs.len()).unwrap_or(u16::MAX);
        self.output.program.crcs.push(CrcPlan {
            algorithm: crc.code,
            bytes: crc.bytes,
            at: crc.at,
            byte_order: crc.byte_order,
            from: crc.from,
            to: crc.to,
            rule: crc.rule,
        });
        self.emit(Op::Crc(index));
        if let Some(skip) = skip {
            self.land(skip);
        }
    }

    /// Where the header ends.
    fn header_end(&mut self) -> Register {
        let maximum = Binary::Maximum;
        match (self.cursor, self.far_end) {
            (Cursor::At(_), None) => {
                let end = self.layout.fixed_bytes.unwrap_or(self.fixed_end).max(self.fixed_end);
                self.output.constant(u64::from(end))
            }
            (cursor, far_end) => {
                let fixed = self.output.constant(u64::from(self.fixed_end));
                let mut end = fixed;
                let cursor = match cursor {
                    Cursor::In(register) => Some(register),
                    Cursor::At(_) => None,
                };
                for other in [cursor, far_end].into_iter().flatten() {
                    let to = self.fresh();
                    self.emit(Op::Binary { operator: maximum, to, left: end, right: other });
                    end = to;
                }
                end
            }
        }
    }

    fn role(&mut self, expression: Option<&Expr>) -> Role {
        match expression {
            None => Role { value: ZERO, present: ZERO },
            Some(Expr::Value(id)) => {
                Role { value: self.values[*id].unwrap_or(ZERO), present: self.present[*id] }
            }
            Some(expression) => Role { value: self.expression(expression), present: ONE },
        }
    }

    fn roles(&mut self, number: u8) -> Roles {
        let packet = self.packet;
        let keep = |term| if packet.source.contains(&term) { Keep::Yes } else { Keep::No };
        let fragment = match &packet.fragment {
            Fragment::Whole => FragmentPlan::Whole,
            Fragment::Index { index, count, rule } => FragmentPlan::Index {
                index: self.expression(index),
                count: self.expression(count),
                rule: *rule,
            },
            Fragment::Bytes { offset, total, rule } => FragmentPlan::Bytes {
                offset: self.expression(offset),
                total: self.expression(total),
                rule: *rule,
            },
        };
        let time = packet.timestamp.as_ref();
        let (seconds, ticks) =
            (time.and_then(|t| t.seconds.as_ref()), time.and_then(|t| t.ticks.as_ref()));
        let has_ticks = ticks.is_some();
        let (seconds, ticks) = (self.role(seconds), self.role(ticks));
        let time_present = match time.map(|time| &time.when) {
            None => ZERO,
            Some(Some(when)) => self.expression(when),
            // Without `when`, a time stamp is there when its finest field is.
            Some(None) if has_ticks => ticks.present,
            Some(None) => seconds.present,
        };
        let payload = &packet.payload;
        let payload_from = match &payload.from {
            Some(from) => self.expression(from),
            None => self.header_end(),
        };
        Roles {
            packet: number,
            address: keep(SourceTerm::Address),
            port: keep(SourceTerm::Port),
            terms: self.terms(number),
            sequence: self.role(packet.sequence.as_ref().map(|sequence| &sequence.value)),
            event: self.role(packet.event.as_ref().map(|event| &event.key)),
            fragment,
            seconds: seconds.value,
            ticks: ticks.value,
            ns_numerator: time.map_or(1, |time| time.ns_numerator),
            ns_denominator: time.map_or(1, |time| time.ns_denominator),
            time_present,
            payload_from,
            payload_length: payload.length.as_ref().map(|length| self.expression(length)),
            payload_trailer: payload.trailer.as_ref().map_or(ZERO, |t| self.expression(t)),
            payload_rule: payload.rule,
        }
    }

    /// The source terms packed into one register, the first one highest.
    fn terms(&mut self, number: u8) -> Register {
        let mut terms = Vec::new();
        for term in &self.packet.source {
            match term {
                SourceTerm::Value { value, width_bits } => {
                    terms.push((self.values[*value].unwrap_or(ZERO), *width_bits));
                }
                SourceTerm::Packet => {
                    terms.push((self.output.constant(u64::from(number)), term.width_bits()));
                }
                SourceTerm::Address | SourceTerm::Port => {}
            }
        }
        match terms.as_slice() {
            [] => ZERO,
            [(only, _)] => *only,
            [(first, _), others @ ..] => {
                let to = self.fresh();
                let mut above = *first;
                for &(from, width_bits) in others {
                    let width = u8::try_from(width_bits).unwrap_or(64);
                    self.emit(Op::Pack { to, above, from, width });
                    above = to;
                }
                to
            }
        }
    }
}

/// The instruction of an operator; the frequent ones have their own.
fn binary(operator: Binary, to: Register, left: Register, right: Register) -> Op {
    match operator {
        Binary::Add => Op::Add { to, left, right },
        Binary::Subtract => Op::Subtract { to, left, right },
        Binary::Multiply => Op::Multiply { to, left, right },
        Binary::And => Op::And { to, left, right },
        operator => Op::Binary { operator, to, left, right },
    }
}

fn list_load(item: &Layout, id: usize) -> ListLoad {
    let (index, low, width) = match item.values[id].origin {
        Origin::Bits { item, low, width } => (item, low, Some(width)),
        Origin::Word { item } => (item, 0, None),
        Origin::Picked { .. } | Origin::Computed { .. } => return ListLoad::NONE,
    };
    let field = &item.items[index];
    let (ItemKind::Word { bytes, .. }, Place::Fixed(at)) = (&field.kind, field.place) else {
        return ListLoad::NONE;
    };
    let width = width.unwrap_or(bytes * 8);
    ListLoad { at, bytes: *bytes, byte_order: field.byte_order, part: Part64::new(low, width) }
}
