//! From a checked layout to a flat program.
//!
//! Only what a role, a rule or an expression needs is loaded; the size is checked once for each run
//! of fields at fixed places; behind a conditional field or a list, places count from a register.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::expression::{Binary, Expr};
use super::instruction::{CrcPlan, FIRST_FREE, ONE, Op, PORT, REGISTERS_MAX, Register, SIZE, ZERO};
use super::layout::{FieldOffset, Item, ItemKind, Layout, List, Origin, PacketType, Rules, Stage};
use super::needed::{closure, needed_values};
use super::outcome::RejectReason;
use super::output::{Output, Pass};
use super::program::Program;
use super::scope::PACKET_BYTES_MAX;

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

/// The start of the next field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cursor {
    At(u32),
    In(Register),
}

/// Compiles one packet type.
pub(crate) struct Compiler<'a> {
    pub output: &'a mut Output,
    pub packet: &'a PacketType,
    pub layout: &'a Layout,
    /// Values that something needs.
    pub needed: Vec<bool>,
    /// Registers of values computed or loaded so far, and whether the packet has them.
    pub values: Vec<Option<Register>>,
    pub present: Vec<Register>,
    /// Values that `select` has loaded.
    pub loaded: Vec<bool>,
    next_register: usize,
    pub cursor: Cursor,
    /// The furthest end among fields at fixed places \[byte\].
    pub fixed_end: u32,
    /// The furthest end before a field jumped back.
    pub far_end: Option<Register>,
    /// Packets are known to have this number of bytes.
    pub proven: u32,
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

    pub fn emit(&mut self, op: Op) -> usize {
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

    pub fn fresh(&mut self) -> Register {
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
    pub fn expression(&mut self, expression: &Expr) -> Register {
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
                    FieldOffset::Fixed(start) => start + item.fixed_bytes().unwrap_or(0),
                    FieldOffset::FromEnd(offset) => offset,
                    FieldOffset::AfterPrevious => 0,
                });
            }
        }
        self.emit(Op::SelectNeed { bytes, otherwise: 0 });
        for (index, item) in self.layout.items.iter().enumerate() {
            let start = self.start_of(item, index, &wanted);
            for id in self.layout.values_of(index) {
                if wanted[id] {
                    self.load(item, id, start);
                    self.loaded[id] = true;
                }
            }
        }
        self.computed(Stage::Select);
        let condition = self.expression(select);
        self.not_this_type = Some(self.skip_if_zero(condition));
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
                let moves = !matches!(item.place, FieldOffset::FromEnd(_));
                if moves {
                    self.cursor_to_register();
                    if matches!(item.place, FieldOffset::Fixed(_)) {
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
    pub fn cursor_to_register(&mut self) -> Register {
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
    pub fn keep_far_end(&mut self) {
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

    /// The rules that are checked with the field; those with an expression come later.
    pub fn rules(&mut self, id: usize, rules: &Rules) {
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
        self.output.program.crcs.push(CrcPlan { sum: crc.plan, rule: crc.rule });
        self.emit(Op::Crc(index));
        if let Some(skip) = skip {
            self.land(skip);
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
