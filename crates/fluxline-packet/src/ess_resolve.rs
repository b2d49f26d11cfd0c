//! Checks the mapping of a packet type against its fields.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use fluxline_toml::{LoadError, nearest};
use toml::Spanned;

use super::ess::{
    Array, Ess, Events, INT32_MAX, LogValue, Mixed, NamePart, NameTemplate, Operand, Signal, Time,
};
use super::expression::{Expr, parse};
use super::interval::ValueRanges;
use super::layout::{Layout, Origin, Timestamp, Value, ValueKind};
use super::model::{self, Epoch, Expression};
use super::scope::Context;
use super::time_unit;

type Span = core::ops::Range<usize>;

/// Longest name of data \[byte\], digits of values not counted.
const NAME_BYTES_MAX: usize = 200;
/// Most axes of an array.
const AXES_MAX: usize = 8;

/// The checked parts of a packet type that a mapping uses.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The packet type in messages: ``packet `data` ``.
    pub place: &'a str,
    pub header: &'a Layout,
    pub records: Option<&'a Layout>,
    pub timestamp: Option<&'a Timestamp>,
}

/// Checks the mapping of one packet type.
pub(crate) fn resolve(
    context: &Context<'_>,
    parts: Parts<'_>,
    written: Option<&Spanned<model::Ess>>,
) -> Result<Ess, LoadError> {
    let Some(written) = written else { return Ok(Ess::default()) };
    let ess = written.get_ref();
    let resolver = Resolver { context, parts };
    let ev44 = ess.ev44.as_ref().map(|of| resolver.events(of.get_ref())).transpose()?;
    let da00 = ess.da00.as_ref().map(|of| resolver.array(of)).transpose()?;
    let f144 = ess.f144.iter().map(|of| resolver.log_value(of.get_ref()));
    let resolved = Ess { ev44, da00, f144: f144.collect::<Result<_, _>>()? };
    if resolved.is_empty() {
        let message = format!(
            "{}, `ess`: the table is empty; add `ev44`, `da00` or `f144`, or remove it",
            parts.place
        );
        return Err(context.source.error(written.span(), message));
    }
    Ok(resolved)
}

struct Resolver<'a, 'c> {
    context: &'a Context<'c>,
    parts: Parts<'a>,
}

impl<'a> Resolver<'a, '_> {
    fn error(&self, span: Span, key: &str, message: &str) -> LoadError {
        self.context.source.error(span, format!("{}, `ess.{key}`: {message}", self.parts.place))
    }

    fn record_values(&self) -> usize {
        self.parts.records.map_or(0, |records| records.values.len())
    }

    fn events(&self, written: &model::EssEvents) -> Result<Events, LoadError> {
        let when = written.when.as_ref().map(|of| self.mixed(of, "ev44.when")).transpose()?;
        let pixel_id = written.pixel_id.as_ref();
        Ok(Events {
            source_name: self.name(&written.source_name, "ev44.source-name")?,
            reference_time: self.time(written.reference_time.as_ref(), "ev44.reference-time")?,
            time_of_flight: self.int32(&written.time_of_flight, "ev44.time-of-flight", true)?,
            pixel_id: pixel_id.map(|of| self.int32(of, "ev44.pixel-id", false)).transpose()?,
            when: when.map(|of| of.0),
        })
    }

    fn array(&self, written: &Spanned<model::EssArray>) -> Result<Array, LoadError> {
        let (span, array) = (written.span(), written.get_ref());
        let signal = self.signal(array, span)?;
        let axes = array.axes.as_ref();
        let names = axes.map_or_else(|| vec!["sample".to_string()], |axes| axes.get_ref().clone());
        let inner = array.inner_shape.as_ref();
        let inner_shape = inner.map_or_else(Vec::new, |inner| inner.get_ref().clone());
        let span = inner.map(Spanned::span).or(axes.map(Spanned::span)).unwrap_or(written.span());
        if names.len() != inner_shape.len() + 1 || names.len() > AXES_MAX {
            let message = format!(
                "there are {} axes and {} sizes; `axes` names every axis (at most {AXES_MAX}), and \
                 `inner-shape` has the sizes of all but the first",
                names.len(),
                inner_shape.len()
            );
            return Err(self.error(span, "da00", &message));
        }
        if names.iter().any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            let message = format!("the name of an axis has 1 to {NAME_BYTES_MAX} bytes");
            return Err(self.error(span, "da00.axes", &message));
        }
        let product = inner_shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
        if !product.is_some_and(|product| (1..=INT32_MAX).contains(&product)) {
            let message = "the sizes must be 1 or more, and their product at most 2147483647";
            return Err(self.error(span, "da00.inner-shape", message));
        }
        Ok(Array {
            source_name: self.name(&array.source_name, "da00.source-name")?,
            timestamp: self.time(array.timestamp.as_ref(), "da00.timestamp")?,
            signal,
            axes: names,
            inner_shape,
            join: array.join,
        })
    }

    /// Returns the samples: the stated ones, or the only field of the records.
    fn signal(&self, array: &model::EssArray, span: Span) -> Result<Signal, LoadError> {
        let Some(records) = self.parts.records else {
            return match &array.signal {
                Some(name) if name.get_ref() != "payload" => {
                    let message = "the packet has no records; write \"payload\", for the bytes of \
                                   the payload, or describe the records";
                    Err(self.error(name.span(), "da00.signal", message))
                }
                _ => Ok(Signal::Payload),
            };
        };
        let Some(name) = &array.signal else {
            let words = records.values.iter().enumerate().filter(|(_, of)| is_word(of));
            let ids: Vec<usize> = words.map(|(id, _)| id).collect();
            let [id] = ids.as_slice() else {
                let message = "`signal` is missing: it names the field of the records that has the \
                               samples";
                return Err(self.error(span, "da00", message));
            };
            return self.check_signal(records, *id, span);
        };
        if name.get_ref() == "payload" {
            return Ok(Signal::Payload);
        }
        let id = records.find(name.get_ref()).ok_or_else(|| {
            let known = records.values.iter().map(|value| value.name.as_str());
            let hint = nearest(name.get_ref(), known.chain(["payload"]));
            let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = format!("the records have no field `{}`{hint}", name.get_ref());
            self.error(name.span(), "da00.signal", &message)
        })?;
        self.check_signal(records, id, name.span())
    }

    fn check_signal(&self, records: &Layout, id: usize, span: Span) -> Result<Signal, LoadError> {
        let value = &records.values[id];
        let wrong = if value.kind == ValueKind::Bytes && records.packed(id).is_none() {
            "is raw bytes, not numbers; give it a `bit-order` and the type of its samples"
        } else if value.conditional {
            "is absent in some records (`when`), so an array of it would have gaps"
        } else {
            return Ok(Signal::Record(id));
        };
        Err(self.error(span, "da00.signal", &format!("`{}` {wrong}", value.name)))
    }

    fn log_value(&self, written: &model::EssLogValue) -> Result<LogValue, LoadError> {
        let (value, _) = self.operand(&written.value, "f144.value")?;
        if let Some((layout, id)) = self.value_of(&value)
            && layout.values[id].kind == ValueKind::Bytes
            && (layout.packed(id).is_none() || matches!(value, Operand::Header(_)))
        {
            let message = format!("`{}` is raw bytes, not a number", layout.values[id].name);
            return Err(self.error(written.value.span(), "f144.value", &message));
        }
        if let Some(name) = self.conditional(&value) {
            let message = format!(
                "`{name}` is absent in some records (`when`), so a list of it would have gaps"
            );
            return Err(self.error(written.value.span(), "f144.value", &message));
        }
        Ok(LogValue {
            source_name: self.name(&written.source_name, "f144.source-name")?,
            timestamp: self.time(written.timestamp.as_ref(), "f144.timestamp")?,
            value,
        })
    }

    /// Returns the name of a value that an operand uses and that some records lack.
    fn conditional(&self, operand: &Operand) -> Option<&'a str> {
        let records = &self.parts.records?.values;
        let mut found = None;
        operand.for_each(&mut |_| (), &mut |id| {
            let value = records.get(id).filter(|value| value.conditional);
            found = found.or(value.map(|value| value.name.as_str()));
        });
        found
    }

    fn name(&self, written: &Spanned<String>, key: &str) -> Result<NameTemplate, LoadError> {
        let text = written.get_ref();
        let error = |message: &str| self.error(written.span(), key, message);
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(error(&format!(
                "write a name of 1 to {NAME_BYTES_MAX} bytes, such as \"detector-{{board}}\""
            )));
        }
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, behind) = rest.split_at(at);
            let field = behind.strip_prefix('{').and_then(|behind| behind.split_once('}'));
            let Some((field, behind)) = field else {
                return Err(error(
                    "a brace has no partner; write a field of the header as {field}",
                ));
            };
            if !before.is_empty() {
                parts.push(NamePart::Text(before.to_string()));
            }
            let header = self.parts.header;
            let id = header.find(field).ok_or_else(|| {
                let known = header.values.iter().map(|value| value.name.as_str());
                let hint = nearest(field, known);
                let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                error(&format!("the header has no field `{field}`{hint}"))
            })?;
            if header.values[id].kind != ValueKind::Unsigned {
                return Err(error(&format!("`{field}` is not an unsigned integer")));
            }
            parts.push(NamePart::Value(id));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(NamePart::Text(rest.to_string()));
        }
        Ok(NameTemplate { parts })
    }

    fn time(&self, written: Option<&Spanned<Expression>>, key: &str) -> Result<Time, LoadError> {
        let epoch = self.parts.timestamp.map(|timestamp| timestamp.epoch);
        let Some(written) = written else {
            return Ok(if epoch == Some(Epoch::Unix) { Time::Sensor } else { Time::Arrival });
        };
        let error = |message: &str| self.error(written.span(), key, message);
        match (written.get_ref(), epoch) {
            (Expression::Text(text), Some(Epoch::Unix)) if text == "sensor-time" => {
                return Ok(Time::Sensor);
            }
            (Expression::Text(text), _) if text == "sensor-time" => {
                return Err(error(
                    "the sensor's time does not count from 1970 UTC (`timestamp.epoch`); write \
                     \"arrival-time\", or an expression that yields ns since 1970",
                ));
            }
            (Expression::Text(text), _) if text == "arrival-time" => return Ok(Time::Arrival),
            _ => {}
        }
        let (mixed, least) = self.mixed(written, key)?;
        let mut of_records = false;
        mixed.for_each(&mut |_| (), &mut |_| of_records = true);
        if of_records {
            return Err(error("it is one time for a packet; use fields of the header only"));
        }
        if least > i64::MAX as u64 {
            return Err(error("it is beyond 64 bits with a sign at any time"));
        }
        Ok(Time::Header(mixed))
    }

    /// Returns an operand of ev44's 32-bit integers.
    fn int32(
        &self,
        written: &Spanned<Expression>,
        key: &str,
        is_time: bool,
    ) -> Result<Operand, LoadError> {
        let (operand, least) = self.operand(written, key)?;
        let error = |message: &str| self.error(written.span(), key, message);
        if let Some((layout, id)) = self.value_of(&operand) {
            let value = &layout.values[id];
            let name = &value.name;
            match value.kind {
                ValueKind::Unsigned | ValueKind::Signed => {}
                ValueKind::Float => {
                    return Err(error(&format!("`{name}` is a float, and ev44 has integers here")));
                }
                ValueKind::Bytes => {
                    return Err(error(&format!("`{name}` is bytes, and ev44 has integers here")));
                }
            }
            let tick = value.unit.as_deref().and_then(|unit| time_unit::parse(unit).ok());
            if let Some(tick) = tick.filter(|tick| is_time && *tick != (1, 1)) {
                let unit = value.unit.as_deref().unwrap_or_default();
                let (numerator, denominator) = tick;
                let over = match denominator {
                    1 => String::new(),
                    _ => format!(" / {denominator}"),
                };
                return Err(error(&format!(
                    "it is in ns, and `{name}` has the unit `{unit}`; write `{name} * \
                     {numerator}{over}`"
                )));
            }
        }
        if least > INT32_MAX {
            return Err(error(&format!(
                "its smallest value is {least}, and ev44 has room for at most {INT32_MAX}"
            )));
        }
        Ok(operand)
    }

    /// Returns the value that an operand is, unless it is computed here.
    fn value_of(&self, operand: &Operand) -> Option<(&'a Layout, usize)> {
        match operand {
            Operand::Header(id) => Some((self.parts.header, *id)),
            Operand::Record(id) => Some((self.parts.records?, *id)),
            Operand::Expression(_) => None,
        }
    }

    /// Returns an operand and its smallest value. A name alone keeps its type, signed or float.
    fn operand(
        &self,
        written: &Spanned<Expression>,
        key: &str,
    ) -> Result<(Operand, u64), LoadError> {
        if let Expression::Text(text) = written.get_ref() {
            let of_record = self.parts.records.and_then(|records| {
                let id = records.find(text.trim())?;
                Some((Operand::Record(id), &records.values[id]))
            });
            let header = self.parts.header;
            let of_header = || {
                let id = header.find(text.trim())?;
                Some((Operand::Header(id), &header.values[id]))
            };
            if let Some((operand, value)) = of_record.or_else(of_header) {
                let is_unsigned = value.kind == ValueKind::Unsigned;
                return Ok((operand, if is_unsigned { value.range.0 } else { 0 }));
            }
        }
        let (mixed, least) = self.mixed(written, key)?;
        Ok((Operand::Expression(mixed), least))
    }

    /// Returns a proven expression over record and header, and its smallest value.
    fn mixed(&self, written: &Spanned<Expression>, key: &str) -> Result<(Mixed, u64), LoadError> {
        let error = |message: String| self.error(written.span(), key, &message);
        let record_values = self.record_values();
        let expression = match written.get_ref() {
            Expression::Integer(constant) => Expr::Constant(*constant),
            Expression::Text(text) => {
                parse(text, &|name| self.resolve_name(name)).map_err(error)?
            }
        };
        let value = |id: usize| match (id.checked_sub(record_values), self.parts.records) {
            (Some(id), _) => self.parts.header.values.get(id),
            (None, records) => records.and_then(|records| records.values.get(id)),
        };
        let known = ValueRanges {
            value: &|id| value(id).map(|value| value.range).ok_or_else(String::new),
            name: &|id| value(id).map_or_else(String::new, |value| value.name.clone()),
            definition: &|_| None,
            size: (0, 0),
        };
        let range = known.range(&expression).map_err(error)?;
        Ok((Mixed { expression, record_values }, range.0))
    }

    fn resolve_name(&self, name: &str) -> Result<Expr, String> {
        if let Some(&constant) = self.context.parameters.get(name) {
            return Ok(Expr::Constant(constant));
        }
        let (header, records) = (self.parts.header, self.parts.records);
        let of_record = records.and_then(|of| of.find(name).map(|id| (id, &of.values[id])));
        let offset = self.record_values();
        let of_header = || header.find(name).map(|id| (id + offset, &header.values[id]));
        let Some((id, value)) = of_record.or_else(of_header) else {
            let of_records = records.into_iter().flat_map(|records| &records.values);
            let known = of_records.chain(&header.values).map(|value| value.name.as_str());
            let hint = nearest(name, known.chain(self.context.parameters.keys().map(|key| &**key)));
            let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!(
                "the description has no field, computed value or parameter `{name}`{hint}"
            ));
        };
        match value.kind {
            ValueKind::Unsigned => Ok(Expr::Value(id)),
            ValueKind::Signed => Err(format!(
                "`{name}` is signed, and expressions are over unsigned integers; write its name \
                 alone"
            )),
            ValueKind::Float | ValueKind::Bytes => {
                Err(format!("`{name}` is not an integer, and expressions are over integers"))
            }
        }
    }
}

/// Returns true for a whole field, neither bits of one nor computed.
fn is_word(value: &Value) -> bool {
    matches!(value.origin, Origin::Word { .. })
}
