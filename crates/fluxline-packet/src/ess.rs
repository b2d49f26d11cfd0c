//! The mapping of packets to the schemas of the European Spallation Source (ESS): ev44, da00, f144.
//!
//! A packet type may state which of its values make events, arrays and log values. `ess_resolve`
//! checks the mapping as written against the packet's fields. Nothing here encodes messages:
//! `fluxline-kafka` does, from this mapping and the packets' bytes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::expression::Expr;

/// The largest value of ev44's 32-bit integers.
pub const INT32_MAX: u64 = i32::MAX as u64;

/// The mapping of one packet type; all parts may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ess {
    /// Detector events.
    pub ev44: Option<Events>,
    /// Arrays of samples.
    pub da00: Option<Array>,
    /// Logged values.
    pub f144: Vec<LogValue>,
}

impl Ess {
    /// Returns true when packets of this type make no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ev44.is_none() && self.da00.is_none() && self.f144.is_empty()
    }
}

/// Detector events: one for each record, or one for a packet without records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The name of the data.
    pub source_name: NameTemplate,
    /// The time from which times of flight count.
    pub reference_time: Time,
    /// The time of flight \[ns\].
    pub time_of_flight: Operand,
    /// The detector's pixel.
    pub pixel_id: Option<Operand>,
    /// A record is an event only when this is not 0.
    pub when: Option<Mixed>,
}

/// Arrays: the samples of a packet, or of all packets of one source in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The name of the data.
    pub source_name: NameTemplate,
    /// The time of the first sample.
    pub timestamp: Time,
    /// The samples.
    pub signal: Signal,
    /// Names of the axes, the slowest first.
    pub axes: Vec<String>,
    /// Sizes of all axes but the first.
    pub inner_shape: Vec<u64>,
    /// The packets of one source in an event make one array.
    pub join: bool,
}

/// The samples of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// This value of each record.
    Record(usize),
    /// The bytes of the payload.
    Payload,
}

/// A logged value: one number for a packet, or one for each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogValue {
    /// The name of the value.
    pub source_name: NameTemplate,
    /// The time of the value.
    pub timestamp: Time,
    /// The value.
    pub value: Operand,
}

/// The source of a message's time \[ns since 1970\].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Time {
    /// The sensor's time; the time of arrival where a packet has none.
    Sensor,
    /// The time of arrival.
    Arrival,
    /// A value of the header.
    Header(Mixed),
}

/// A number of a packet or of each of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This value of the header.
    Header(usize),
    /// This value of each record.
    Record(usize),
    /// An expression over both.
    Expression(Mixed),
}

impl Operand {
    /// Calls `header` and `record` with each value that the operand uses.
    pub fn for_each(&self, header: &mut impl FnMut(usize), record: &mut impl FnMut(usize)) {
        match self {
            Operand::Header(id) => header(*id),
            Operand::Record(id) => record(*id),
            Operand::Expression(mixed) => mixed.for_each(header, record),
        }
    }

    /// Returns true when the operand differs from record to record.
    #[must_use]
    pub fn is_of_records(&self) -> bool {
        let mut is = false;
        self.for_each(&mut |_| (), &mut |_| is = true);
        is
    }
}

/// An expression over the values of a record and of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixed {
    /// Values below `record_values` are the record's, the others the header's.
    pub(crate) expression: Expr,
    pub(crate) record_values: usize,
}

impl Mixed {
    /// Calls `header` and `record` with each value that the expression uses.
    pub fn for_each(&self, header: &mut impl FnMut(usize), record: &mut impl FnMut(usize)) {
        let records = self.record_values;
        self.expression.for_each_value(&mut |id| match id.checked_sub(records) {
            Some(id) => header(id),
            None => record(id),
        });
    }

    /// Returns the expression as text, with the names of values of the header and of a record.
    #[must_use]
    pub fn to_text(
        &self,
        header: &dyn Fn(usize) -> String,
        record: &dyn Fn(usize) -> String,
    ) -> String {
        self.expression.to_text(&|id| match id.checked_sub(self.record_values) {
            Some(id) => header(id),
            None => record(id),
        })
    }

    /// Returns the expression over a record's values, with the header's values put in.
    #[must_use]
    pub fn with_header(&self, header: &dyn Fn(usize) -> u64) -> Expr {
        self.put(&self.expression, header)
    }

    /// Returns the value of an expression that uses the header alone.
    #[must_use]
    pub fn of_header(&self, header: &dyn Fn(usize) -> u64) -> u64 {
        let value = |id: usize| id.checked_sub(self.record_values).map_or(0, header);
        self.expression.evaluate(&value, 0, 0)
    }

    fn put(&self, expression: &Expr, header: &dyn Fn(usize) -> u64) -> Expr {
        let put = |of: &Expr| Box::new(self.put(of, header));
        match expression {
            Expr::Value(id) => match id.checked_sub(self.record_values) {
                Some(id) => Expr::Constant(header(id)),
                None => Expr::Value(*id),
            },
            Expr::Constant(_) | Expr::Size | Expr::Port => expression.clone(),
            Expr::Not(of) => Expr::Not(put(of)),
            Expr::Gray(of) => Expr::Gray(put(of)),
            Expr::Binary(operator, left, right) => Expr::Binary(*operator, put(left), put(right)),
        }
    }
}

/// A name with values of the header in it: `adc-{board}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate {
    /// Its parts, in order.
    pub parts: Vec<NamePart>,
}

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// Literal text.
    Text(String),
    /// This value of the header, in decimal digits.
    Value(usize),
}

impl NameTemplate {
    /// Returns the name when it is the same for all packets.
    #[must_use]
    pub fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [NamePart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Replaces `out` by the name for a packet with these header values.
    pub fn write(&self, header: &dyn Fn(usize) -> u64, out: &mut String) {
        use core::fmt::Write;
        out.clear();
        for part in &self.parts {
            match part {
                NamePart::Text(text) => out.push_str(text),
                NamePart::Value(id) => drop(write!(out, "{}", header(*id))),
            }
        }
    }
}
