//! A compiled description: one flat list of small instructions over 64-bit registers.
//!
//! One match in one loop; per packet no allocation, no call through a pointer, and only the fields
//! that a role, a rule or an expression needs. The registers start as a copy of a template that
//! holds the constants, so a constant costs nothing per packet. Idea: register machines for packet
//! filters (McCanne and Jacobson, "The BSD Packet Filter", 1993), with checked fields in place of
//! raw loads, and bounds checked once per run of fixed fields.

use alloc::vec::Vec;

use super::expression::gray_to_binary;
use super::instruction::{
    CrcPlan, DecimalLoad, EpochPlan, FRAGMENT_COUNT_MAX, FragmentPlan, Keep, ListLoad, ListPlan,
    Load, NO_RULE, Op, PORT, REGISTERS_MAX, REGISTERS_SMALL, Register, Role, Roles, SIZE, TextPlan,
    WindowLoad,
};
use super::layout::ValueKind;
use super::model::ByteOrder;
use super::outcome::{BoardCounts, Parsed, Part, Reject, RejectReason, SourceKey};
use super::text::{decimal, up_to_mark};
use super::word::read_word;
use fluxline_core::{Datagram, SenderAddress};

/// A compiled description. `Sync`: threads may share one.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) ops: Vec<Op>,
    /// The registers at the start of each packet.
    pub(crate) template: [u64; REGISTERS_MAX],
    /// The number of registers in use.
    pub(crate) registers: usize,
    pub(crate) window_loads: Vec<WindowLoad>,
    pub(crate) one_of: Vec<u64>,
    pub(crate) lists: Vec<ListPlan>,
    pub(crate) texts: Vec<TextPlan>,
    pub(crate) crcs: Vec<CrcPlan>,
    pub(crate) roles: Vec<Roles>,
    /// The packet type that each rule belongs to.
    pub(crate) rule_packets: Vec<u8>,
}

impl Program {
    /// Runs the program on one packet: its values, or the rule that it breaks.
    ///
    /// Any bytes may come: nothing panics and nothing loops for longer than the packet is long.
    /// Cost: about 1 ns per field used, and the CRC's pass over its range; no allocation.
    #[inline]
    pub fn parse(&self, datagram: &Datagram<'_>) -> Result<Parsed, Reject> {
        if self.registers <= REGISTERS_SMALL {
            self.run::<REGISTERS_SMALL>(datagram)
        } else {
            self.run::<REGISTERS_MAX>(datagram)
        }
    }

    /// Returns the number of instructions.
    #[must_use]
    pub fn instructions(&self) -> usize {
        self.ops.len()
    }

    fn packet_of(&self, rule: u16) -> u8 {
        self.rule_packets.get(usize::from(rule)).copied().unwrap_or(u8::MAX)
    }

    fn run<const N: usize>(&self, datagram: &Datagram<'_>) -> Result<Parsed, Reject> {
        let mut machine = Machine::<N>::start(self, datagram);
        let m = &mut machine;
        let mut next = 0;
        while let Some(op) = self.ops.get(next) {
            next += 1;
            // Fields are taken out of `op` one by one: a copy of all of it goes over the stack.
            match *op {
                Op::Need { bytes, rule } => m.need(u64::from(bytes), rule)?,
                Op::NeedFrom { base, bytes, rule } => {
                    m.need(m.at(base).saturating_add(u64::from(bytes)), rule)?;
                }
                Op::NeedLength { base, length, rule } => {
                    m.need(m.at(base).saturating_add(m.at(length)), rule)?;
                }
                Op::SelectNeed { bytes, otherwise } => {
                    next = if m.bytes.len() < bytes as usize { otherwise.into() } else { next };
                }
                Op::SkipIfZero { condition, to } => {
                    next = if m.at(condition) == 0 { to.into() } else { next };
                }
                Op::Loads { first, count } => m.loads(first, count)?,
                Op::Load8(load) => m.load(load, |[byte]| byte.into())?,
                Op::LoadLittle16(load) => m.load(load, |b| u16::from_le_bytes(b).into())?,
                Op::LoadBig16(load) => m.load(load, |b| u16::from_be_bytes(b).into())?,
                Op::LoadLittle32(load) => m.load(load, |b| u32::from_le_bytes(b).into())?,
                Op::LoadBig32(load) => m.load(load, |b| u32::from_be_bytes(b).into())?,
                Op::LoadLittle64(load) => m.load(load, u64::from_le_bytes)?,
                Op::LoadBig64(load) => m.load(load, u64::from_be_bytes)?,
                Op::LoadOdd { load, bytes, byte_order } => m.load_odd(load, bytes, byte_order)?,
                Op::Add { to, left, right } => m.set(to, m.at(left).wrapping_add(m.at(right))),
                Op::Subtract { to, left, right } => m.join(to, left, right, u64::wrapping_sub),
                Op::Multiply { to, left, right } => m.join(to, left, right, u64::wrapping_mul),
                Op::And { to, left, right } => m.set(to, m.at(left) & m.at(right)),
                Op::Binary { operator, to, left, right } => {
                    m.set(to, operator.apply(m.at(left), m.at(right)));
                }
                Op::Not { to, from } => m.set(to, u64::from(m.at(from) == 0)),
                Op::Gray { to, from } => m.set(to, gray_to_binary(m.at(from))),
                Op::Copy { to, from } => m.set(to, m.at(from)),
                Op::AddConstant { to, from, value } => {
                    m.set(to, m.at(from).saturating_add(value.into()));
                }
                Op::FromEnd { to, bytes } => m.set(to, m.at(SIZE).saturating_sub(bytes.into())),
                Op::Pack { to, above, from, width } => {
                    // All terms together have at most 64 bits, so this one has fewer.
                    m.set(to, m.at(above) << (width & 63) | m.at(from));
                }
                Op::RequireEqual { value, rule, expected } => m.equal(value, expected, rule)?,
                Op::RequireAtLeast { value, rule, least } => m.at_least(value, least, rule)?,
                Op::RequireAtMost { value, rule, most } => m.at_most(value, most, rule)?,
                Op::RequireOneOf { value, rule, first, count } => {
                    m.one_of(value, rule, first, count)?
                }
                Op::RequireSame { value, expected, rule, reason } => {
                    m.require(m.at(value) == m.at(expected), reason, rule)?;
                }
                Op::RequireSize { min, max, rule } => m.size(min, max, rule)?,
                Op::List(list) => m.list(&self.lists[usize::from(list)])?,
                Op::Decimal(number) => m.decimal_at(number)?,
                Op::Text(text) => m.text(&self.texts[usize::from(text)])?,
                Op::Crc(crc) => m.crc(&self.crcs[usize::from(crc)])?,
                Op::Finish(roles) => return m.finish(&self.roles[usize::from(roles)], datagram),
            }
        }
        Err(machine.reject(RejectReason::UnknownType, NO_RULE))
    }
}

/// The registers and the packet of one run.
struct Machine<'a, const N: usize> {
    registers: [u64; N],
    bytes: &'a [u8],
    program: &'a Program,
}

impl<'a, const N: usize> Machine<'a, N> {
    #[inline(always)]
    fn start(program: &'a Program, datagram: &Datagram<'a>) -> Machine<'a, N> {
        // N is at most the template's length, so this copies; it is the array's type that needs it.
        let mut registers = program.template.first_chunk::<N>().copied().unwrap_or([0; N]);
        registers[usize::from(SIZE)] = datagram.bytes.len() as u64;
        registers[usize::from(PORT)] = u64::from(datagram.port);
        Machine { registers, bytes: datagram.bytes, program }
    }

    // N is a power of two and every register of the program is below it: the mask only spares the
    // bounds check.
    #[inline(always)]
    fn at(&self, register: Register) -> u64 {
        self.registers[usize::from(register) & (N - 1)]
    }

    #[inline(always)]
    fn set(&mut self, register: Register, value: u64) {
        self.registers[usize::from(register) & (N - 1)] = value;
    }

    #[inline(always)]
    fn join(&mut self, to: Register, left: Register, right: Register, of: fn(u64, u64) -> u64) {
        self.set(to, of(self.at(left), self.at(right)));
    }

    #[cold]
    fn reject(&self, reason: RejectReason, rule: u16) -> Reject {
        Reject { reason, packet: self.program.packet_of(rule), field: rule }
    }

    #[inline(always)]
    fn require(&self, right: bool, reason: RejectReason, rule: u16) -> Result<(), Reject> {
        if right { Ok(()) } else { Err(self.reject(reason, rule)) }
    }

    #[inline(always)]
    fn need(&self, bytes: u64, rule: u16) -> Result<(), Reject> {
        self.require(self.bytes.len() as u64 >= bytes, RejectReason::Short, rule)
    }

    #[inline(always)]
    fn load<const BYTES: usize>(
        &mut self,
        load: Load,
        join: impl Fn([u8; BYTES]) -> u64,
    ) -> Result<(), Reject> {
        let start = self.at(load.base).wrapping_add(u64::from(load.at)) as usize;
        let word = self.bytes.get(start..).and_then(|rest| rest.first_chunk::<BYTES>());
        // A `Need` came before: the packet does have the word.
        let Some(word) = word else { return Err(self.reject(RejectReason::Short, NO_RULE)) };
        self.set(load.to, load.part.of(join(*word)));
        Ok(())
    }

    #[inline(always)]
    fn loads(&mut self, first: u16, count: u16) -> Result<(), Reject> {
        let first = usize::from(first);
        let loads = self.program.window_loads.get(first..first + usize::from(count));
        for load in loads.unwrap_or_default() {
            let window = self.bytes.get(usize::from(load.at)..).and_then(|b| b.first_chunk::<8>());
            // A `Need` came before: the packet does have the window.
            let Some(window) = window else {
                return Err(self.reject(RejectReason::Short, NO_RULE));
            };
            let little = u64::from_le_bytes(*window);
            let word = match load.byte_order {
                ByteOrder::Little => little,
                ByteOrder::Big => little.swap_bytes(),
            };
            self.set(load.to, load.part.of(word));
        }
        Ok(())
    }

    fn load_odd(&mut self, load: Load, bytes: u8, order: ByteOrder) -> Result<(), Reject> {
        let start = self.at(load.base).wrapping_add(u64::from(load.at)) as usize;
        let word = self.bytes.get(start..).and_then(|rest| rest.get(..usize::from(bytes)));
        let Some(word) = word else { return Err(self.reject(RejectReason::Short, NO_RULE)) };
        self.set(load.to, load.part.of(read_word(word, order)));
        Ok(())
    }

    #[inline(always)]
    fn equal(&self, value: Register, expected: u64, rule: u16) -> Result<(), Reject> {
        self.require(self.at(value) == expected, RejectReason::Value, rule)
    }

    #[inline(always)]
    fn at_least(&self, value: Register, least: u64, rule: u16) -> Result<(), Reject> {
        self.require(self.at(value) >= least, RejectReason::Value, rule)
    }

    #[inline(always)]
    fn at_most(&self, value: Register, most: u64, rule: u16) -> Result<(), Reject> {
        self.require(self.at(value) <= most, RejectReason::Value, rule)
    }

    fn one_of(&self, value: Register, rule: u16, first: u16, count: u16) -> Result<(), Reject> {
        let (first, count) = (usize::from(first), usize::from(count));
        let allowed = self.program.one_of.get(first..first + count).unwrap_or_default();
        self.require(allowed.contains(&self.at(value)), RejectReason::Value, rule)
    }

    #[inline(always)]
    fn size(&self, min: u32, max: u32, rule: u16) -> Result<(), Reject> {
        let size = self.bytes.len();
        let right = size >= min as usize && size <= max as usize;
        self.require(right, RejectReason::Size, rule)
    }

    fn list(&mut self, plan: &ListPlan) -> Result<(), Reject> {
        let start = self.at(plan.base);
        let length = self.at(plan.count).checked_mul(u64::from(plan.item_bytes));
        let end = length.and_then(|length| start.checked_add(length));
        let end = end.unwrap_or(u64::MAX);
        let entries = match (usize::try_from(start), usize::try_from(end)) {
            (Ok(start), Ok(end)) => self.bytes.get(start..end),
            _ => None,
        };
        let Some(entries) = entries else {
            return Err(self.reject(RejectReason::List, plan.rule));
        };
        self.set(plan.end, end);
        if plan.picks.is_empty() {
            return Ok(());
        }
        for pick in &plan.picks {
            self.set(pick.to, 0);
        }
        let mut found = 0u64;
        for entry in entries.chunks_exact(plan.item_bytes as usize) {
            let key = plan.key.read(entry);
            for (bit, pick) in plan.picks.iter().enumerate() {
                if pick.is == key {
                    self.set(pick.to, plan.value.read(entry));
                    found |= 1 << (bit & 63);
                    break;
                }
            }
        }
        for (bit, pick) in plan.picks.iter().enumerate() {
            self.set(pick.present, found >> (bit & 63) & 1);
        }
        let lacking = plan.required & !found;
        if lacking != 0 {
            let pick = plan.picks.get(lacking.trailing_zeros() as usize);
            let rule = pick.map_or(plan.rule, |pick| pick.rule);
            return Err(self.reject(RejectReason::List, rule));
        }
        Ok(())
    }

    fn decimal_at(&mut self, of: DecimalLoad) -> Result<(), Reject> {
        let start = self.at(of.base).saturating_add(of.at.into());
        self.decimal(of.to, start, u64::from(of.bytes), of.rule)
    }

    /// Reads a decimal number.
    fn decimal(&mut self, to: Register, start: u64, bytes: u64, rule: u16) -> Result<(), Reject> {
        let end = start.saturating_add(bytes);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let text = range.and_then(|(start, end)| self.bytes.get(start..end));
        let Some(text) = text else { return Err(self.reject(RejectReason::Short, rule)) };
        let Some(number) = decimal(text, ValueKind::Unsigned) else {
            return Err(self.reject(RejectReason::Value, rule));
        };
        self.set(to, number);
        Ok(())
    }

    /// Reads a text of any length, and goes behind it.
    fn text(&mut self, plan: &TextPlan) -> Result<(), Reject> {
        let start = self.at(plan.base);
        let rest = usize::try_from(start).ok().and_then(|start| self.bytes.get(start..));
        let Some(rest) = rest else { return Err(self.reject(RejectReason::Short, plan.rule)) };
        let (whole, content) = match plan.length {
            Some(length) => (self.at(length), self.at(length)),
            None => {
                let (whole, content) = up_to_mark(rest, &plan.marks);
                (whole as u64, content as u64)
            }
        };
        self.require(whole <= rest.len() as u64, RejectReason::Short, plan.rule)?;
        self.set(plan.base, start.saturating_add(whole));
        match plan.to {
            Some(to) => self.decimal(to, start, content, plan.rule),
            None => Ok(()),
        }
    }

    fn crc(&self, plan: &CrcPlan) -> Result<(), Reject> {
        let right = plan.sum.is_right(self.bytes);
        let Some(right) = right else { return Err(self.reject(RejectReason::Short, plan.rule)) };
        self.require(right, RejectReason::Checksum, plan.rule)
    }

    #[inline(always)]
    fn finish(&self, roles: &Roles, datagram: &Datagram<'_>) -> Result<Parsed, Reject> {
        let (payload_start, payload_bytes) = self.payload(roles)?;
        let part = self.part(roles.fragment, payload_bytes)?;
        let present = |role: Role| (self.at(role.present) != 0).then(|| self.at(role.value));
        let sender = match (roles.address, roles.port) {
            (Keep::Yes, Keep::Yes) => datagram.sender,
            (Keep::No, Keep::No) => SenderAddress::NONE,
            (Keep::Yes, Keep::No) => datagram.sender.without_port(),
            (Keep::No, Keep::Yes) => datagram.sender.without_ip(),
        };
        Ok(Parsed {
            packet: roles.packet,
            source: SourceKey { sender, terms: self.at(roles.terms) },
            sequence: present(roles.sequence),
            step: present(roles.step),
            event: present(roles.event),
            spill: present(roles.spill),
            part,
            sensor_time_ns: (self.at(roles.time_present) != 0).then(|| self.time_ns(roles)),
            counts: present(roles.taken)
                .zip(present(roles.dropped))
                .map(|(taken, dropped)| BoardCounts { taken, dropped }),
            payload_start,
            payload_bytes,
        })
    }

    #[inline(always)]
    fn payload(&self, roles: &Roles) -> Result<(u32, u32), Reject> {
        let size = self.bytes.len() as u64;
        let from = self.at(roles.payload_from);
        let limit = size.checked_sub(self.at(roles.payload_trailer));
        let end = match roles.payload_length {
            Some(length) => from.checked_add(self.at(length)),
            None => limit,
        };
        match (end, limit) {
            (Some(end), Some(limit)) if from <= end && end <= limit => {
                // Both are at most the packet's size, which a slice of 4 GiB or more is not.
                Ok((from as u32, (end - from) as u32))
            }
            _ => Err(self.reject(RejectReason::Payload, roles.payload_rule)),
        }
    }

    #[inline(always)]
    fn part(&self, plan: FragmentPlan, payload_bytes: u32) -> Result<Part, Reject> {
        match plan {
            FragmentPlan::Whole => Ok(Part::Whole),
            FragmentPlan::Index { index, count, rule } => {
                let (index, count) = (self.at(index), self.at(count));
                let right = index < count && count <= FRAGMENT_COUNT_MAX;
                self.require(right, RejectReason::Fragment, rule)?;
                Ok(Part::Index { index: index as u32, count: count as u32 })
            }
            FragmentPlan::Bytes { offset, total, rule } => {
                let (offset, total) = (self.at(offset), self.at(total));
                let end = offset.checked_add(u64::from(payload_bytes));
                let right = end.is_some_and(|end| end <= total);
                self.require(right, RejectReason::Fragment, rule)?;
                Ok(Part::Bytes { offset, total })
            }
        }
    }

    /// Seconds and ticks in nanoseconds; what is beyond 584 years becomes `u64::MAX`.
    ///
    /// Whole `ns_denominator`s of ticks and the rest are taken apart, so that 64 bits suffice: the
    /// product of numerator and denominator fits by the check at load.
    #[inline(always)]
    fn time_ns(&self, roles: &Roles) -> u64 {
        let ticks = self.at(roles.ticks);
        let ticks_ns = if roles.ns_denominator == 1 {
            ticks.saturating_mul(roles.ns_numerator)
        } else {
            let (whole, rest) = (ticks / roles.ns_denominator, ticks % roles.ns_denominator);
            let rest_ns = rest * roles.ns_numerator / roles.ns_denominator;
            whole.saturating_mul(roles.ns_numerator).saturating_add(rest_ns)
        };
        let ns = self.at(roles.seconds).saturating_mul(1_000_000_000).saturating_add(ticks_ns);
        match roles.epoch {
            None => ns,
            Some(EpochPlan { date, months, days }) => {
                date.later_ns(self.at(months), self.at(days)).saturating_add(ns)
            }
        }
    }
}

impl ListLoad {
    #[inline(always)]
    fn read(self, entry: &[u8]) -> u64 {
        let rest = entry.get(self.at as usize..).unwrap_or_default();
        let word = match (self.bytes, rest.first_chunk()) {
            (8, Some(word)) if self.byte_order == ByteOrder::Big => u64::from_be_bytes(*word),
            (8, Some(word)) => u64::from_le_bytes(*word),
            (bytes, _) => {
                rest.get(..usize::from(bytes)).map_or(0, |word| read_word(word, self.byte_order))
            }
        };
        self.part.of(word)
    }
}
