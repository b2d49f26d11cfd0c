//! The value of each header field, as hardware drives it: a constant or a signal of the core.
//!
//! Constants come from `equals`, `select` and `size.equals`; signals from the roles; the rest from
//! `[packet.emulate]`. A field without any of them is refused, because nobody would fill it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::verilog;
use crate::expression::{Binary, Expr};
use crate::layout::{
    EMULATE_VARIABLES, FieldOffset, Fragment, Item, ItemKind, Origin, PacketType, Rules,
    SourceTerm, ValueKind,
};
use crate::model::ByteOrder;
use crate::word::mask;

/// The header of a packet, field after field.
pub(super) struct Header {
    /// Fields in wire order, gaps included.
    pub fields: Vec<Driven>,
    /// Its size \[byte\].
    pub bytes: u64,
}

/// One field with its signal.
pub(super) struct Driven {
    /// Its name; padding has none.
    pub name: String,
    /// Its size \[byte\].
    pub bytes: u64,
    /// The order of its bytes.
    pub byte_order: ByteOrder,
    /// SystemVerilog of as many bits.
    pub signal: String,
}

/// The origin of a value in hardware.
#[derive(Clone)]
enum Drive {
    Constant(u64),
    /// Bits of a signal of the core from `low` on, `bits` at most, and the role for which the field
    /// has it.
    Core {
        signal: &'static str,
        low: u32,
        bits: u32,
        role: &'static str,
    },
    /// An expression of `[packet.emulate]`.
    Expression(Expr),
}

/// Returns the header with the signal of each field, or the reason why it has none.
pub(super) fn header(packet: &PacketType, payload: u64) -> Result<Header, String> {
    refuse_roles(packet)?;
    let bytes = header_bytes(packet)?;
    let size = bytes + payload;
    let mut plan = Plan { packet, drives: vec![None; packet.header.values.len()], payload, size };
    plan.rules();
    plan.roles()?;
    plan.emulate();
    plan.conditions();
    plan.check_size()?;
    plan.check_rules()?;
    let mut items = Vec::new();
    for item in &packet.header.items {
        items.push((place(item)?, item));
    }
    items.sort_by_key(|((at, _), _)| *at);
    let mut fields = Vec::new();
    let mut end = 0;
    for ((at, length), item) in items {
        if at < end {
            return Err(format!("{} lies over the field before it", title(item)));
        }
        if at > end {
            fields.push(padding(at - end));
        }
        fields.push(plan.driven(item, length)?);
        end = at + length;
    }
    Ok(Header { fields, bytes })
}

fn title(item: &Item) -> String {
    item.name.as_ref().map_or("padding".to_string(), |name| format!("field `{name}`"))
}

fn padding(bytes: u64) -> Driven {
    Driven {
        name: String::new(),
        bytes,
        byte_order: ByteOrder::Big,
        signal: format!("{}'h0", 8 * bytes),
    }
}

/// Refuses roles that this hardware does not have.
fn refuse_roles(packet: &PacketType) -> Result<(), String> {
    let reason = if !matches!(packet.fragment, Fragment::Whole) {
        "`fragment`: the core sends each block as one packet; leave `fragment` out"
    } else if packet.crc.is_some() {
        "`crc`: the core makes the check sums of IP and UDP only; leave `crc` out"
    } else if packet.timestamp.as_ref().is_some_and(|stamp| stamp.seconds.is_some()) {
        "`timestamp.seconds`: the core has one counter of ticks; use `ticks` alone"
    } else if packet.payload.length.is_some() || packet.payload.trailer.is_some() {
        "`payload`: the core fills the packet with samples up to its end; leave `length` and \
         `trailer` out"
    } else {
        return match &packet.sequence {
            Some(counter) if counter.step != 1 || counter.step_of.is_some() => {
                Err("`sequence`: the core counts packets in steps of 1".to_string())
            }
            Some(counter)
                if counter.first != 0 || counter.last & counter.last.wrapping_add(1) != 0 =>
            {
                Err("`sequence`: the core's counter starts at 0 and wraps at a power of two"
                    .to_string())
            }
            _ => Ok(()),
        };
    };
    Err(reason.to_string())
}

/// Returns the size of the header, behind which the samples begin \[byte\].
fn header_bytes(packet: &PacketType) -> Result<u64, String> {
    let mut end = 0;
    for item in &packet.header.items {
        let (at, length) = place(item)?;
        end = end.max(at + length);
    }
    match &packet.payload.from {
        Some(from) if from.constant() != Some(end) => Err(format!(
            "`payload.from`: the core's samples begin behind the header, at byte {end}"
        )),
        _ => Ok(end),
    }
}

/// Returns the offset and the size of a field that each packet has at the same place.
fn place(item: &Item) -> Result<(u64, u64), String> {
    let title = title(item);
    if item.when.is_some() {
        return Err(format!(
            "{title}: `when` would be decided for each packet; hardware has no \
                            fields that come and go"
        ));
    }
    let FieldOffset::Fixed(at) = item.place else {
        return Err(format!(
            "{title}: its place differs from packet to packet, or counts from the \
                            end; hardware needs a fixed one"
        ));
    };
    match &item.kind {
        ItemKind::Word { kind: ValueKind::Float, .. } => {
            Err(format!("{title} is a floating-point number, which the core does not make"))
        }
        ItemKind::Word { bytes, .. } => Ok((at.into(), (*bytes).into())),
        ItemKind::Bytes { .. } if item.name.is_none() => {
            let bytes = item.fixed_bytes().ok_or(format!("{title}: its length is not constant"))?;
            Ok((at.into(), bytes.into()))
        }
        ItemKind::Bytes { .. } => {
            Err(format!("{title}: `bytes` have no signal; write words, or padding without a name"))
        }
        ItemKind::Text(_) => Err(format!("{title}: the core makes no decimal numbers or texts")),
        ItemKind::List(_) => Err(format!("{title}: the core makes no lists")),
    }
}

/// The drives of a header's values.
struct Plan<'a> {
    packet: &'a PacketType,
    drives: Vec<Option<Drive>>,
    payload: u64,
    size: u64,
}

impl Plan<'_> {
    /// Takes constants from `equals` and from `one-of`.
    fn rules(&mut self) {
        let constant = |rules: &Rules| {
            let equals = rules.equals.as_ref().and_then(Expr::constant);
            equals.or(rules.one_of.first().copied()).map(Drive::Constant)
        };
        for item in &self.packet.header.items {
            if let Some(id) = item.value {
                self.drives[id] = constant(&item.rules);
            }
            for part in &item.bits {
                self.drives[part.value] = constant(&part.rules);
            }
        }
    }

    fn roles(&mut self) -> Result<(), String> {
        let packet = self.packet;
        let role = |of: Option<&Expr>, signal, role| (of.cloned(), signal, role);
        // A counter whose greatest value is a rule begins anew before its field is full.
        let counter_bits = packet.sequence.as_ref().map_or(64, |its| 64 - its.last.leading_zeros());
        let counts = packet.counts.as_ref();
        let all = [
            role(packet.sequence.as_ref().map(|its| &its.value), "sequence_", "packet counter"),
            role(packet.event.as_ref().map(|its| &its.key), "key", "event key"),
            role(packet.timestamp.as_ref().and_then(|t| t.ticks.as_ref()), "ticks", "time stamp"),
            role(counts.map(|its| &its.taken), "taken", "count of taken blocks"),
            role(counts.map(|its| &its.dropped), "dropped", "count of dropped blocks"),
        ];
        for (of, signal, role) in all {
            if let Some(Expr::Value(id)) = of {
                let bits = if signal == "sequence_" { counter_bits } else { 64 };
                self.role(id, Drive::Core { signal, low: 0, bits, role })?;
            }
        }
        let mut low = 0;
        for term in packet.source.iter().rev() {
            let SourceTerm::Value { value, width_bits } = *term else { continue };
            // A constant field is the same in all boards.
            if self.drives[value].is_none()
                || matches!(self.drives[value], Some(Drive::Core { .. }))
            {
                let (signal, role) = ("source", "source number");
                self.role(value, Drive::Core { signal, low, bits: 64, role })?;
                low += width_bits;
            }
        }
        Ok(())
    }

    /// Gives a value its role; a second one is refused.
    fn role(&mut self, id: usize, drive: Drive) -> Result<(), String> {
        if matches!(self.packet.header.values[id].origin, Origin::Computed { .. }) {
            return Ok(());
        }
        if let (Some(Drive::Core { role: other, .. }), Drive::Core { role, .. }) =
            (&self.drives[id], &drive)
        {
            let name = &self.packet.header.values[id].name;
            return Err(format!(
                "field `{name}` is the {other} and the {role}: two counters do not fit in one \
                 field; give one of them a field of its own"
            ));
        }
        self.drives[id] = Some(drive);
        Ok(())
    }

    /// Takes the expressions of `[packet.emulate]` for values that no role fills.
    fn emulate(&mut self) {
        for (id, expression) in &self.packet.emulate {
            if !matches!(self.drives[*id], Some(Drive::Core { .. })) {
                self.drives[*id] = Some(Drive::Expression(expression.clone()));
            }
        }
    }

    /// Takes constants from `select` and `size.equals`, where they leave one value open.
    fn conditions(&mut self) {
        let select = self.packet.select.clone();
        select.iter().for_each(|select| self.demand(select));
        if let Some(equals) = self.packet.size.equals.clone() {
            self.solve(&equals, self.size);
        }
    }

    fn demand(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(Binary::BothTrue, left, right) => {
                self.demand(left);
                self.demand(right);
            }
            Expr::Binary(Binary::Equal, left, right) => match (&**left, &**right) {
                (of, Expr::Constant(constant)) | (Expr::Constant(constant), of) => {
                    self.solve(of, *constant);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Sets the one open value of a sum and product with constants such that it becomes `target`.
    fn solve(&mut self, expression: &Expr, target: u64) {
        match expression {
            Expr::Value(id) => {
                let drive = &mut self.drives[*id];
                drive.get_or_insert(Drive::Constant(target));
            }
            Expr::Binary(operator @ (Binary::Add | Binary::Multiply), left, right) => {
                let (of, constant) = match (&**left, &**right) {
                    (of, Expr::Constant(constant)) | (Expr::Constant(constant), of) => {
                        (of, *constant)
                    }
                    _ => return,
                };
                let back = match operator {
                    Binary::Add => target.checked_sub(constant),
                    _ if constant != 0 && target.is_multiple_of(constant) => {
                        Some(target / constant)
                    }
                    _ => None,
                };
                if let Some(back) = back {
                    self.solve(of, back);
                }
            }
            _ => {}
        }
    }

    /// Checks that packets of this size are accepted by the description.
    fn check_size(&self) -> Result<(), String> {
        let (rule, size) = (&self.packet.size, self.size);
        if !(rule.min..=rule.max).contains(&size) {
            let (min, max) = (rule.min, rule.max);
            return Err(format!("`size` allows {min} to {max} bytes; the packet has {size}"));
        }
        let Some(equals) = &rule.equals else { return Ok(()) };
        let mut open = None;
        equals.for_each_value(&mut |id| {
            if self.constant(id).is_none() {
                open = Some(id);
            }
        });
        if let Some(id) = open {
            let name = &self.packet.header.values[id].name;
            return Err(format!(
                "`size.equals` depends on field `{name}`, which is not constant; the core's \
                 packets have one size"
            ));
        }
        let says = equals.evaluate(&|id| self.constant(id).unwrap_or(0), size, 0);
        match says == size {
            true => Ok(()),
            false => Err(format!(
                "`size.equals` is {says} by the fields, and the packet has {size} bytes; correct \
                 `emulate.fields` or --payload-bytes"
            )),
        }
    }

    /// Checks that the receiver takes the constants: by their rules, and by `select`.
    fn check_rules(&self) -> Result<(), String> {
        for item in &self.packet.header.items {
            let whole = item.value.map(|id| (id, &item.rules));
            for (id, rules) in
                whole.into_iter().chain(item.bits.iter().map(|p| (p.value, &p.rules)))
            {
                let Some(value) = self.constant(id) else { continue };
                let equals = rules.equals.as_ref().and_then(|equals| self.known(equals));
                let is_allowed = equals.is_none_or(|equals| value == equals)
                    && (rules.one_of.is_empty() || rules.one_of.contains(&value))
                    && rules.min.is_none_or(|min| value >= min)
                    && rules.max.is_none_or(|max| value <= max);
                if !is_allowed {
                    let name = &self.packet.header.values[id].name;
                    return Err(format!(
                        "field `{name}` would be {value}, which its own rule rejects; correct \
                         `emulate.fields` or the rule"
                    ));
                }
            }
        }
        match self.packet.select.as_ref().and_then(|select| self.known(select)) {
            Some(0) => {
                Err("`select` is 0 by its constants, so the receiver would take its packets \
                            for another type; correct `emulate.fields`"
                    .to_string())
            }
            _ => Ok(()),
        }
    }

    /// Returns the value of an expression of constants.
    fn known(&self, of: &Expr) -> Option<u64> {
        let mut is_known = true;
        of.for_each_value(&mut |id| is_known &= self.constant(id).is_some());
        is_known.then(|| of.evaluate(&|id| self.constant(id).unwrap_or(0), self.size, 0))
    }

    /// Returns the constant that a value is.
    fn constant(&self, id: usize) -> Option<u64> {
        match self.drives[id].as_ref() {
            Some(Drive::Constant(constant)) => Some(*constant),
            Some(Drive::Expression(expression)) => self.fold(expression),
            Some(Drive::Core { .. }) => None,
            None => match &self.packet.header.values[id].origin {
                Origin::Computed { value, .. } => self.known(value),
                _ => None,
            },
        }
    }

    /// Returns the constant that an emulator's expression is.
    fn fold(&self, expression: &Expr) -> Option<u64> {
        let mut constant = true;
        expression.for_each_value(&mut |id| constant &= EMULATE_VARIABLES[id] == "payload");
        constant.then(|| expression.evaluate(&|_| self.payload, self.size, 0))
    }

    fn driven(&self, item: &Item, bytes: u64) -> Result<Driven, String> {
        let name = item.name.clone().unwrap_or_default();
        let bits = u32::try_from(8 * bytes).unwrap_or(u32::MAX);
        let whole = item.value.filter(|id| self.drives[*id].is_some());
        let parts = item.bits.iter().filter(|part| self.drives[part.value].is_some()).count();
        let signal = match (whole, item.bits.len()) {
            (Some(_), _) if parts > 0 => {
                return Err(format!("{} and its bits are both filled; keep one", title(item)));
            }
            (Some(id), _) => self.signal(id, bits)?,
            (None, 0) if item.name.is_none() => format!("{bits}'h0"),
            (None, 0) => return Err(unfilled(&name)),
            (None, _) => self.joined(item, bits)?,
        };
        Ok(Driven { name, bytes, byte_order: item.byte_order, signal })
    }

    /// Returns the parts of a word, joined; bits without a part are 0.
    fn joined(&self, item: &Item, bits: u32) -> Result<String, String> {
        let mut parts: Vec<_> = item.bits.iter().collect();
        parts.sort_by_key(|part| part.low);
        let (mut at, mut pieces) = (0, Vec::new());
        for part in parts {
            let (low, width) = (u32::from(part.low), u32::from(part.width));
            if low > at {
                pieces.push(format!("{}'h0", low - at));
            }
            pieces.push(self.signal(part.value, width)?);
            at = low + width;
        }
        if at < bits {
            pieces.push(format!("{}'h0", bits - at));
        }
        pieces.reverse();
        Ok(format!("{{{}}}", pieces.join(", ")))
    }

    /// Returns SystemVerilog of `bits` bits for a value.
    fn signal(&self, id: usize, bits: u32) -> Result<String, String> {
        let name = &self.packet.header.values[id].name;
        let constant = |value: u64| match value <= mask(bits) {
            true => Ok(format!("{bits}'h{value:x}")),
            false => Err(format!("field `{name}` would be {value}, more than {bits} bits hold")),
        };
        match self.drives[id].as_ref() {
            None => Err(unfilled(name)),
            Some(Drive::Constant(value)) => constant(*value),
            Some(Drive::Core { signal, low, bits: most, .. }) if *most < bits => {
                Ok(format!("{{{}'h0, {signal}[{}:{low}]}}", bits - most, low + most - 1))
            }
            Some(Drive::Core { signal, low, .. }) => {
                Ok(format!("{signal}[{}:{low}]", low + bits - 1))
            }
            Some(Drive::Expression(expression)) => match self.fold(expression) {
                Some(value) => constant(value),
                None => {
                    let last = self.packet.sequence.as_ref().map_or(u64::MAX, |its| its.last);
                    let text = verilog::expression(expression, self.payload, self.size, last)
                        .map_err(|reason| format!("`emulate.fields.{name}`: {reason}"))?;
                    Ok(format!("{bits}'({text})"))
                }
            },
        }
    }
}

fn unfilled(name: &str) -> String {
    format!(
        "nothing says how hardware fills field `{name}`; give it `equals`, a role, or a line in \
         [packet.emulate] fields, such as {name} = 0"
    )
}
