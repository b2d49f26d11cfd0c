//! Evaluates a compiled expression over one event.

use fluxline_packet::decode;

use super::compile::{Compiled, Expression, OverPackets, OverSamples, TypePlan};
use super::load::Access;
use super::names::{Aggregate, EventName, PacketName};
use super::sum::Sum;
use super::sweep::{self, Packed};
use super::value::{NO_TEXT, Value};
use super::{EventExpression, KnownSource};
use crate::event::{EventView, PacketRow};

/// Returns true when the expression is true for the event.
pub(super) fn is_true(of: &EventExpression, event: &EventView<'_>) -> bool {
    let scope = EventScope { of, event };
    scope.value(&of.compiled.root).is_true()
}

/// Returns the value of the expression for the event; `None`: absent, or a text.
pub(super) fn number(of: &EventExpression, event: &EventView<'_>) -> Option<f64> {
    let scope = EventScope { of, event };
    scope.value(&of.compiled.root).float()
}

/// An event.
pub(super) struct EventScope<'a> {
    pub of: &'a EventExpression,
    pub event: &'a EventView<'a>,
}

impl<'a> EventScope<'a> {
    fn compiled(&self) -> &'a Compiled {
        &self.of.compiled
    }

    fn value(&self, expression: &Expression) -> Value {
        match expression {
            Expression::Constant(value) => *value,
            Expression::Event(name) => self.property(*name),
            Expression::Aggregate(number) => self.aggregate(&self.compiled().aggregates[*number]),
            Expression::Binary(operator, left, right) => {
                operate(*operator, left, right, &|of| self.value(of))
            }
            Expression::Not(of) => Value::of_bool(!self.value(of).is_true()),
            Expression::Negative(of) => self.value(of).negated(),
            Expression::Magnitude(of) => self.value(of).magnitude(),
            // These are rejected when the expression is compiled.
            Expression::Packet(_) | Expression::Field(_) => Value::Absent,
        }
    }

    fn property(&self, name: EventName) -> Value {
        let EventView { row, packets, bytes } = self.event;
        match name {
            EventName::Key => row.key.map_or(Value::Absent, |key| Value::Integer(key.into())),
            EventName::Generation => Value::Integer(row.generation.into()),
            EventName::Status => Value::Text(row.status as u32),
            EventName::Complete => Value::of_bool(row.status.as_str() == "complete"),
            EventName::Packets => Value::Integer(packets.len() as i128),
            EventName::Sources => Value::Integer(self.sources().into()),
            EventName::Bytes => Value::Integer(bytes.len() as i128),
            EventName::DurationNs => Value::Integer(row.last.since(row.first).as_ns().into()),
            EventName::TimeNs => Value::Integer(row.first.as_ns().into()),
        }
    }

    fn sources(&self) -> u32 {
        let mut seen = Vec::new();
        self.event.packets.iter().for_each(|packet| note_source(&mut seen, packet.source));
        seen.len() as u32
    }

    fn aggregate(&self, of: &OverPackets) -> Value {
        let mut sum = Sum::new(of.aggregate);
        let mut sources = Vec::new();
        for (row, bytes) in self.event.each_packet() {
            let Some(packet) = self.packet(row, bytes, &of.needed) else { continue };
            let taken = packet.add_to(of, &mut sum);
            if taken {
                note_source(&mut sources, row.source);
            }
            if sum.is_decided() {
                break;
            }
        }
        match of.aggregate {
            Aggregate::Sources => Value::Integer(sources.len() as i128),
            _ => sum.value(),
        }
    }
}

impl EventScope<'_> {
    /// Returns a packet of the event; `None`: its type lacks one of the fields `needed`.
    pub fn packet<'a>(
        &'a self,
        row: &'a PacketRow,
        bytes: &'a [u8],
        needed: &[usize],
    ) -> Option<PacketScope<'a>> {
        let known = self.of.sources.get(row.source as usize).copied();
        let known = known.unwrap_or(KnownSource { input: u16::MAX, label: NO_TEXT });
        let input = self.of.compiled.inputs.get(usize::from(known.input))?;
        let plan = input.types.get(usize::from(row.packet_type))?;
        let has_all = needed.iter().all(|field| plan.fields[*field].is_some());
        let input_name = input.name;
        has_all.then_some(PacketScope { event: self, row, bytes, plan, known, input_name })
    }
}

/// Events have few sources, so a list is faster than a set.
fn note_source(seen: &mut Vec<u32>, source: u32) {
    if !seen.contains(&source) {
        seen.push(source);
    }
}

/// Returns the result of an operator; `&&` and `||` evaluate the right operand only if they must.
fn operate(
    operator: fluxline_packet::expression::Binary,
    left: &Expression,
    right: &Expression,
    value: &dyn Fn(&Expression) -> Value,
) -> Value {
    use fluxline_packet::expression::Binary;
    let left = value(left);
    match operator {
        Binary::BothTrue if !left.is_true() => Value::of_bool(false),
        Binary::AnyTrue if left.is_true() => Value::of_bool(true),
        _ => Value::binary(operator, left, value(right)),
    }
}

/// A packet of an event.
pub(super) struct PacketScope<'a> {
    event: &'a EventScope<'a>,
    row: &'a PacketRow,
    bytes: &'a [u8],
    plan: &'a TypePlan,
    known: KnownSource,
    input_name: u32,
}

/// Values of a packet that its samples share.
pub(super) struct PacketValues<'a> {
    packet: &'a PacketScope<'a>,
    /// The values of the aggregates over its samples.
    inner: Vec<Value>,
    /// The decoded header, where a field needs it.
    header: Vec<decode::Value<'a>>,
}

/// One sample, or none for expressions over the packet alone.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    bytes: &'a [u8],
    decoded: &'a [decode::Value<'a>],
}

impl Sample<'_> {
    const NONE: Sample<'static> = Sample { bytes: &[], decoded: &[] };
}

impl<'a> PacketScope<'a> {
    /// Returns its samples as they lie in its bytes.
    fn packed(&self) -> Packed<'_> {
        let (fields, sample_bytes) = (self.plan.fields.as_slice(), self.plan.sample_bytes);
        Packed { payload: self.payload(), sample_bytes, fields }
    }

    /// Returns the payload: the bytes of the samples.
    fn payload(&self) -> &'a [u8] {
        let start = self.row.payload_start as usize;
        let payload = self.bytes.get(start..).unwrap_or_default();
        payload.get(..self.row.payload_bytes as usize).unwrap_or(payload)
    }

    /// Returns the place of a field.
    fn access(&self, field: usize) -> Option<Access> {
        self.plan.fields[field]
    }

    /// Adds the packet, or each of its samples; returns true when a value of them was true.
    fn add_to(&self, of: &OverPackets, sum: &mut Sum) -> bool {
        let before = std::mem::take(&mut sum.any_true);
        if !(of.inner.is_empty() && sweep::add(&self.packed(), &of.body, sum)) {
            let values = self.values(of);
            values.each_sample(&of.direct, |sample| sum.add(values.value(&of.body, sample)));
        }
        let is_true = sum.any_true;
        sum.any_true |= before;
        is_true
    }

    /// Returns the values that its samples share.
    pub fn values(&self, of: &OverPackets) -> PacketValues<'_> {
        let header = self.header(&of.needed);
        let inner = of.inner.iter().map(|inner| self.over_samples(inner, &header)).collect();
        PacketValues { packet: self, inner, header }
    }

    fn over_samples(&self, of: &OverSamples, header: &[decode::Value<'a>]) -> Value {
        let mut sum = Sum::new(of.aggregate);
        if !sweep::add(&self.packed(), &of.body, &mut sum) {
            let header = header.to_vec();
            let values = PacketValues { packet: self, inner: Vec::new(), header };
            values.each_sample(&of.fields, |sample| sum.add(values.value(&of.body, sample)));
        }
        sum.value()
    }

    fn header(&self, fields: &[usize]) -> Vec<decode::Value<'a>> {
        let is_decoded =
            |field: &usize| matches!(self.plan.fields[*field], Some(Access::DecodedHeader(_)));
        let mut values = Vec::new();
        if fields.iter().any(is_decoded) {
            self.plan.packet.decode_header(self.bytes, 0, &mut values);
        }
        values
    }

    fn property(&self, name: PacketName) -> Value {
        match name {
            PacketName::Source => Value::Text(self.known.label),
            PacketName::Input => Value::Text(self.input_name),
            PacketName::Type => Value::Text(self.plan.name),
            PacketName::Bytes => Value::Integer(self.row.bytes.into()),
            PacketName::PayloadBytes => Value::Integer(self.row.payload_bytes.into()),
            PacketName::Sequence => {
                self.row.sequence.map_or(Value::Absent, |number| Value::Integer(number.into()))
            }
            PacketName::Part => Value::Integer(self.row.part.into()),
        }
    }
}

impl PacketValues<'_> {
    /// Calls `take` for each sample if one of the fields is of samples, else once.
    pub fn each_sample(&self, fields: &[usize], mut take: impl FnMut(Sample<'_>)) {
        let accesses = || fields.iter().filter_map(|field| self.packet.access(*field));
        if !accesses().any(Access::is_of_samples) {
            return take(Sample::NONE);
        }
        let payload = self.packet.payload();
        let is_decoded = accesses().any(|of| matches!(of, Access::DecodedSample(_)));
        match self.packet.plan.sample_bytes {
            Some(bytes) if !is_decoded => {
                for bytes in payload.chunks_exact(bytes) {
                    take(Sample { bytes, decoded: &[] });
                }
            }
            _ => self.each_decoded(payload, take),
        }
    }

    fn each_decoded(&self, payload: &[u8], mut take: impl FnMut(Sample<'_>)) {
        let mut samples = self.packet.plan.packet.records_in(payload);
        let mut start = payload.len();
        let mut decoded = Vec::new();
        while samples.decode_next(&mut decoded) {
            let rest = samples.remainder();
            let bytes = &payload[payload.len() - start..payload.len() - rest];
            start = rest;
            take(Sample { bytes, decoded: &decoded });
        }
    }

    pub fn value(&self, expression: &Expression, sample: Sample<'_>) -> Value {
        match expression {
            Expression::Constant(value) => *value,
            Expression::Event(name) => self.packet.event.property(*name),
            Expression::Packet(name) => self.packet.property(*name),
            Expression::Field(field) => self.field(*field, sample),
            Expression::Aggregate(number) => {
                self.inner.get(*number).copied().unwrap_or(Value::Absent)
            }
            Expression::Not(of) => Value::of_bool(!self.value(of, sample).is_true()),
            Expression::Negative(of) => self.value(of, sample).negated(),
            Expression::Magnitude(of) => self.value(of, sample).magnitude(),
            Expression::Binary(operator, left, right) => {
                operate(*operator, left, right, &|of| self.value(of, sample))
            }
        }
    }

    fn field(&self, field: usize, sample: Sample<'_>) -> Value {
        let decoded = |values: &[decode::Value<'_>], id: usize| {
            values.get(id).map_or(Value::Absent, Value::of_decoded)
        };
        match self.packet.access(field) {
            Some(Access::Header(fixed)) => fixed.read(self.packet.bytes),
            Some(Access::DecodedHeader(id)) => decoded(&self.header, id),
            Some(Access::Sample(fixed)) => fixed.read(sample.bytes),
            Some(Access::DecodedSample(id)) => decoded(sample.decoded, id),
            None => Value::Absent,
        }
    }
}
