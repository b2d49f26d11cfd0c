//! The roles that count: packet counter, event key, fragment; and what contradicts them.
//!
//! A counter begins anew after the largest value that it can have. A description that says
//! otherwise would hide losses at each wrap, so it is refused: too many `bits`, a bit in the middle
//! that is always 0, a part of a fragment that can never come, a source that is the counter.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

use super::expression::Expr;
use super::interval::Range;
use super::layout::{
    Event, Fragment, Origin, Sequence, SequenceDigit, SourceTerm, Spill, Timestamp,
};
use super::meaning::{Digit, Fault, Known, Narrow, Part, Progression, Source, decides, numbers_of};
use super::model;
use super::roles::Roles;
use super::word::{bits_over, mask};
use fluxline_toml::LoadError;

type Span = core::ops::Range<usize>;

/// Fewer values cannot tell a lost packet from a repeated one.
const COUNTER_VALUES_MIN: u64 = 16;
/// Most packets of one fragment. Source: [`super::instruction::FRAGMENT_COUNT_MAX`].
const FRAGMENT_COUNT_MAX: u64 = super::instruction::FRAGMENT_COUNT_MAX;

/// The widest spill number \[bit\].
const SPILL_BITS_MAX: u32 = 32;

/// A value that counts, as written and as proven.
struct Counted<'a> {
    /// The role's name in messages.
    key: &'a str,
    value: &'a Expr,
    range: Range,
    span: Span,
    bits: Option<&'a Spanned<u64>>,
}

impl Roles<'_, '_> {
    /// The packet counter, checked against the time stamp and the fragment of the same packet.
    pub(super) fn sequence(
        &self,
        written: Option<&Spanned<model::Sequence>>,
        timestamp: Option<&Timestamp>,
        fragment: &Fragment,
    ) -> Result<Option<Sequence>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        let sequence = written.get_ref();
        let (value, range) = self.expression(&sequence.value, "`sequence.value`")?;
        let narrow = self.index_below_count(fragment);
        let range = self.range_within(&value, narrow).unwrap_or(range);
        let counted = Counted {
            key: "`sequence`",
            value: &value,
            range,
            span: sequence.value.span(),
            bits: sequence.bits.as_ref(),
        };
        self.check_bits(&counted, 4)?;
        let numbers = numbers_of(&self.known(&value, narrow), &value, range)
            .map_err(|fault| self.no_counter(&counted, &fault))?;
        if let Some(bits) = counted.bits {
            self.check_whole(&counted, &numbers, mask(*bits.get_ref() as u32))?;
        }
        // The modulus of the counter, less one.
        let last = u128::from(numbers.stride) * numbers.count - 1;
        let Ok(last) = u64::try_from(last) else {
            return Err(self.no_counter(&counted, &Fault::Unclear));
        };
        let Step { step, step_of } = self.step(sequence.step.as_ref(), last)?;
        if last / step < COUNTER_VALUES_MIN - 1 {
            let message = format!(
                "`sequence`: its value has {} different numbers, and fewer than \
                 {COUNTER_VALUES_MIN} cannot tell a lost packet from a repeated one",
                (last / step + 1).min(u64::try_from(numbers.count).unwrap_or(u64::MAX))
            );
            return Err(self.error(counted.span, &message));
        }
        if !step.is_multiple_of(numbers.stride) {
            let message = format!(
                "`sequence`: its value counts in steps of {0}, and `step` is {step}: what lies \
                 between would be taken for losses; write `step = {0}`",
                numbers.stride
            );
            return Err(self.error(counted.span, &message));
        }
        let timestamp_step_ns =
            self.timestamp_step(sequence, timestamp, TimedCounter { last, step })?;
        if step_of.is_some() && timestamp_step_ns.is_some() {
            let message = "`sequence`: `timestamp-step-ns` needs a constant `step`; leave it out";
            return Err(self.error(written.span(), message));
        }
        let (first, largest) = (numbers.first, numbers.largest());
        let digits = self.digits(&numbers);
        Ok(Some(Sequence { value, first, last, largest, step, step_of, timestamp_step_ns, digits }))
    }

    /// The knowledge about the values of the header, for an expression.
    fn known(&self, expression: &Expr, narrow: Option<Narrow>) -> Known<'_> {
        let layout = &self.header.layout;
        // A field alone has its role only where it is present.
        let is_field = matches!(expression, Expr::Value(id)
            if !matches!(layout.values[*id].origin, Origin::Computed { .. }));
        Known { layout, size: self.header.size, narrow, absent_is_zero: !is_field }
    }

    /// The fields that are the digits of a counter, the lowest first; empty if a digit is not one.
    fn digits(&self, numbers: &Progression) -> Vec<SequenceDigit> {
        let digit = |digit: &Digit| {
            let weight = u64::try_from(digit.weight).ok()?;
            let (part, count) = (digit.part?, digit.count);
            Some(SequenceDigit { value: self.value_at(&part)?, weight, count, first: part.first })
        };
        numbers.digits.iter().map(digit).collect::<Option<_>>().unwrap_or_default()
    }

    /// The value that begins at the lowest bit of a part, the widest one.
    fn value_at(&self, part: &Part) -> Option<usize> {
        let values = self.header.layout.values.iter().enumerate();
        let found = values.filter(|(_, value)| match (part.source, &value.origin) {
            (Source::Item(of), Origin::Word { item }) => of == *item && part.low == 0,
            (Source::Item(of), Origin::Bits { item, low, .. }) => of == *item && part.low == *low,
            (Source::Picked(of, number), Origin::Picked { item, pick }) => {
                (of, number) == (*item, *pick) && part.low == 0
            }
            _ => false,
        });
        found.max_by_key(|(_, value)| value.width_bits).map(|(id, _)| id)
    }

    /// The error for a value that cannot be a counter.
    fn no_counter(&self, counted: &Counted<'_>, fault: &Fault) -> LoadError {
        let message = match fault {
            Fault::Overlaps { upper, lower } => format!(
                "`{}` and `{}` overlap, so nothing says when their sum begins anew; give the \
                 lower part a `max`, or mask the sum",
                self.text_of(upper),
                self.text_of(lower)
            ),
            Fault::Skips { missing, next } => format!(
                "its value is never {missing}, and the next number is {next}: it skips numbers \
                 that would be taken for losses; put its parts together without a gap"
            ),
            Fault::Uneven => String::from(
                "some of its numbers come from more values of the fields than others, so nothing \
                 says when it begins anew; use a power of two, or give the field a `max`",
            ),
            Fault::Unclear => format!(
                "nothing says which numbers `{}` takes, and when it begins anew; use sums, \
                 products with constants, masks and shifts of fields",
                self.header.layout.text_of(counted.value)
            ),
        };
        self.error(counted.span.clone(), &format!("{}: {message}", counted.key))
    }

    fn text_of(&self, digit: &Digit) -> String {
        let name = |part: Part| {
            let by_name = self.value_at(&part).map(|id| self.header.layout.values[id].name.clone());
            by_name.or_else(|| {
                let word = Part { low: 0, ..part };
                let id = self.value_at(&word)?;
                Some(format!("{} >> {}", self.header.layout.values[id].name, part.low))
            })
        };
        let name = match digit.part {
            Some(Part { source: Source::Size, .. }) => Some(String::from("size")),
            Some(Part { source: Source::Port, .. }) => Some(String::from("port")),
            part => part.and_then(name),
        };
        let name = name.unwrap_or_else(|| String::from("a part"));
        match digit.weight {
            1 => name,
            weight if name.contains(' ') => format!("({name}) * {weight}"),
            weight => format!("{name} * {weight}"),
        }
    }

    /// The width that is given holds the value, and is not wider than it.
    fn check_bits(&self, counted: &Counted<'_>, least: u64) -> Result<(), LoadError> {
        let (key, high) = (counted.key, counted.range.1);
        let Some(bits) = counted.bits else { return Ok(()) };
        let width = *bits.get_ref();
        let wrong = |message: String| Err(self.error(bits.span(), &message));
        if width < least || width > 64 {
            return wrong(format!("{key}: `bits` is {width}; it can be {least} to 64"));
        }
        let (width_bits, needed) = (width as u32, bits_over(high).max(1));
        if high > mask(width_bits) {
            return wrong(format!(
                "{key}: its value can be {high}, more than {width} bits hold; mask it, like `({}) \
                 & {:#x}`",
                self.header.layout.text_of(counted.value),
                mask(width_bits)
            ));
        }
        if width_bits > needed {
            return wrong(format!(
                "{key}: `bits` is {width}, but its value is at most {high}: it begins anew after \
                 {needed} bits, and what is lost there would be hidden; leave `bits` out"
            ));
        }
        Ok(())
    }

    /// A counter whose width is given takes all values of that width.
    fn check_whole(
        &self,
        counted: &Counted<'_>,
        numbers: &Progression,
        all: u64,
    ) -> Result<(), LoadError> {
        let (low, high) = (numbers.first, numbers.largest());
        // Below its stride, a counter's bits are always 0.
        if low == 0 && all - high < numbers.stride {
            return Ok(());
        }
        let span = counted.bits.map_or(counted.span.clone(), Spanned::span);
        let message = format!(
            "{}: its value goes from {low} to {high}, not from 0 to {all}; leave `bits` out, and \
             the counter begins anew after {high}",
            counted.key
        );
        Err(self.error(span, &message))
    }

    /// A fragment's index is below its count in every packet that is accepted.
    fn index_below_count(&self, fragment: &Fragment) -> Option<Narrow> {
        let Fragment::Index { index: Expr::Value(value), count, .. } = fragment else {
            return None;
        };
        let most = self.range(count, 0..0, "").ok()?.1.checked_sub(1)?;
        Some(Narrow { value: *value, most })
    }

    fn range_within(&self, expression: &Expr, narrow: Option<Narrow>) -> Option<Range> {
        let narrowed = |of: usize, (low, high): Range| match narrow {
            Some(Narrow { value, most }) if value == of => (low.min(most), high.min(most)),
            _ => (low, high),
        };
        self.range_with(expression, &narrowed).ok()
    }

    fn step(
        &self,
        written: Option<&Spanned<model::Expression>>,
        last: u64,
    ) -> Result<Step, LoadError> {
        let Some(written) = written else { return Ok(Step { step: 1, step_of: None }) };
        let (expression, range) = self.expression(written, "`sequence.step`")?;
        let wrong = |message: String| Err(self.error(written.span(), &message));
        match expression {
            Expr::Constant(step) if (1..=last.max(1)).contains(&step) => {
                Ok(Step { step, step_of: None })
            }
            Expr::Constant(_) => {
                wrong(format!("`sequence.step` must be a constant from 1 to {last}"))
            }
            _ if range.1 > last / COUNTER_VALUES_MIN => wrong(format!(
                "`sequence.step` can be {}, and the counter begins anew after {last}: it must be \
                 at most {}; give the field a `max`, or mask it",
                range.1,
                last / COUNTER_VALUES_MIN
            )),
            step_of => Ok(Step { step: 1, step_of: Some(step_of) }),
        }
    }

    fn timestamp_step(
        &self,
        sequence: &model::Sequence,
        timestamp: Option<&Timestamp>,
        counter: TimedCounter,
    ) -> Result<Option<u64>, LoadError> {
        let Some(written) = &sequence.timestamp_step_ns else { return Ok(None) };
        let wrong = |message: &str| {
            Err(self.error(written.span(), &format!("`sequence.timestamp-step-ns` {message}")))
        };
        let Some(timestamp) = timestamp else {
            return wrong("needs a `timestamp`; add one");
        };
        let step_ns = *written.get_ref();
        if step_ns == 0 {
            return wrong("is 0; write the time from packet to packet in nanoseconds");
        }
        if !counter.step_divides() {
            return wrong(&format!(
                "needs a `step` that divides the {} numbers of the counter; leave it out",
                u128::from(counter.last) + 1
            ));
        }
        let wrap_ns = counter.wrap_ns(step_ns);
        let tick_ns = match timestamp.ticks {
            Some(_) => timestamp.ns_numerator / timestamp.ns_denominator,
            None => 1_000_000_000,
        };
        if u128::from(tick_ns) > wrap_ns / 4 {
            return wrong(&format!(
                "cannot help: the counter begins anew after {wrap_ns} ns, and one tick of the \
                 time stamp is {tick_ns} ns; leave it out"
            ));
        }
        if timestamp.wrap_ns.is_some_and(|wrap| u128::from(wrap) / 2 < wrap_ns) {
            return wrong(&format!(
                "cannot help: the counter begins anew after {wrap_ns} ns, and the time stamp after \
                 {} ns; it needs twice as long as the counter",
                timestamp.wrap_ns.unwrap_or(0)
            ));
        }
        Ok(Some(step_ns))
    }

    /// Resolves the value that joins packets to an event.
    pub(super) fn event(
        &self,
        written: Option<&Spanned<model::Event>>,
    ) -> Result<Option<Event>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        let event = written.get_ref();
        let (key, range) = self.expression(&event.key, "`event.key`")?;
        let counted = Counted {
            key: "`event`",
            value: &key,
            range,
            span: event.key.span(),
            bits: event.bits.as_ref(),
        };
        self.check_bits(&counted, 1)?;
        if range.1 - range.0 < COUNTER_VALUES_MIN - 1 {
            let message = format!(
                "`event`: its key has {} different values, and fewer than {COUNTER_VALUES_MIN} \
                 cannot tell one event from the next of the same key",
                range.1 - range.0 + 1
            );
            return Err(self.error(counted.span, &message));
        }
        let bits = match (event.bits.as_ref(), self.field_bits(&key)) {
            (Some(bits), _) => *bits.get_ref() as u32,
            (None, Some(width)) => width,
            (None, None) => self.whole_bits(&key, range).unwrap_or(64),
        };
        let spill = event.spill.as_ref().map(|spill| self.spill(spill)).transpose()?;
        Ok(Some(Event { key, bits: u8::try_from(bits).unwrap_or(64), spill }))
    }

    /// The width of a computed key that takes all values of that width.
    fn whole_bits(&self, key: &Expr, range: Range) -> Option<u32> {
        let numbers = numbers_of(&self.known(key, None), key, range).ok()?;
        let is_whole = numbers.first == 0 && numbers.stride == 1 && numbers.count.is_power_of_two();
        is_whole.then(|| numbers.count.trailing_zeros())
    }

    fn spill(&self, written: &Spanned<model::Expression>) -> Result<Spill, LoadError> {
        let (value, range) = self.expression(written, "`event.spill`")?;
        let bits = self.field_bits(&value).unwrap_or(SPILL_BITS_MAX);
        if bits > SPILL_BITS_MAX || range.1 > mask(SPILL_BITS_MAX) {
            let message = format!(
                "`event.spill`: its value can be {}, more than {SPILL_BITS_MAX} bits hold; mask \
                 it, like `({}) & {:#x}`",
                range.1,
                self.header.layout.text_of(&value),
                mask(SPILL_BITS_MAX)
            );
            return Err(self.error(written.span(), &message));
        }
        Ok(Spill { value, bits: bits as u8 })
    }

    /// Resolves the part of its source's fragment that a packet is.
    pub(super) fn fragment(
        &mut self,
        written: Option<&Spanned<model::Fragment>>,
        has_event: bool,
    ) -> Result<Fragment, LoadError> {
        let rule = self.context.rule(format!("{}, `fragment`", self.place));
        let Some(written) = written else { return Ok(Fragment::Whole) };
        if !has_event {
            let message =
                "`fragment` needs an `event`: say by which key its packets belong together";
            return Err(self.error(written.span(), message));
        }
        let fragment = written.get_ref();
        let proven = |part: &Option<Spanned<model::Expression>>, key: &str| {
            part.as_ref().map(|part| self.expression(part, key)).transpose()
        };
        let index = proven(&fragment.index, "`fragment.index`")?;
        let count = proven(&fragment.count, "`fragment.count`")?;
        let offset = proven(&fragment.offset, "`fragment.offset`")?;
        let total = proven(&fragment.total, "`fragment.total`")?;
        match (index, count, offset, total) {
            (Some((index, indexes)), Some((count, counts)), None, None) => {
                self.check_counts(indexes, counts, written.span())?;
                self.check_indexes(&index, counts, written.span())?;
                Ok(Fragment::Index { index, count, rule })
            }
            (None, None, Some((offset, offsets)), Some((total, _))) => {
                self.check_first("`fragment.offset`", offsets.0, written.span())?;
                Ok(Fragment::Bytes { offset, total, rule })
            }
            _ => Err(self.error(
                written.span(),
                "`fragment` is either `index` and `count` or `offset` and `total`; write both \
                 keys of one pair",
            )),
        }
    }

    /// Checks that a fragment has packets, and that its index reaches all of them.
    fn check_counts(&self, indexes: Range, counts: Range, span: Span) -> Result<(), LoadError> {
        if counts.1 == 0 || counts.0 > FRAGMENT_COUNT_MAX {
            let message = format!("`fragment.count` must be from 1 to {FRAGMENT_COUNT_MAX}");
            return Err(self.error(span, &message));
        }
        self.check_first("`fragment.index`", indexes.0, span.clone())?;
        let last = counts.0.saturating_sub(1);
        if indexes.1 < last {
            let message = format!(
                "`fragment.index` is at most {}, and a fragment has at least {} packets: none \
                 would ever be complete; correct `index` or `count`",
                indexes.1, counts.0
            );
            return Err(self.error(span, &message));
        }
        Ok(())
    }

    /// Checks that a fragment's index reaches the numbers of all its packets.
    fn check_indexes(&self, index: &Expr, counts: Range, span: Span) -> Result<(), LoadError> {
        let last = counts.0.saturating_sub(1);
        let range = self.range(index, 0..0, "").unwrap_or((0, u64::MAX));
        let missing = match numbers_of(&self.known(index, None), index, range) {
            Ok(numbers) if numbers.stride > 1 => Some(numbers.first + 1),
            Err(Fault::Skips { missing, .. }) => Some(missing),
            // A number of an unclear form, or one that comes in several ways, may come.
            Ok(_) | Err(_) => None,
        };
        let Some(missing) = missing.filter(|missing| *missing <= last) else { return Ok(()) };
        let message = format!(
            "`fragment.index` can never be {missing}, and a fragment has at least {} packets: none \
             would ever be complete; correct `index`",
            counts.0
        );
        Err(self.error(span, &message))
    }

    fn check_first(&self, key: &str, least: u64, span: Span) -> Result<(), LoadError> {
        if least == 0 {
            return Ok(());
        }
        let message = format!(
            "{key} is at least {least}, and it counts from 0: the first part would never come; \
             subtract {least}"
        );
        Err(self.error(span, &message))
    }

    /// Checks that no term of the source key changes from packet to packet.
    pub(super) fn check_source(
        &self,
        packet: &model::Packet,
        terms: &[SourceTerm],
        sequence: Option<&Sequence>,
        event: Option<&Event>,
        fragment: &Fragment,
    ) -> Result<(), LoadError> {
        let index = match fragment {
            Fragment::Index { index, count, .. } if count.constant() != Some(1) => Some(index),
            Fragment::Bytes { offset, .. } => Some(offset),
            Fragment::Index { .. } | Fragment::Whole => None,
        };
        let counting = [
            ("packet counter", sequence.map(|sequence| &sequence.value)),
            ("event key", event.map(|event| &event.key)),
            ("fragment index", index),
        ];
        let written = packet.source.iter().flatten();
        for (name, term) in written.zip(terms) {
            let SourceTerm::Value { value, .. } = *term else { continue };
            let term = Expr::Value(value);
            for (role, expression) in &counting {
                let known = self.known(&term, None);
                if expression.is_some_and(|expression| decides(&known, &term, expression)) {
                    let message = format!(
                        "`source`: `{}` holds the {role}, so each of its values would be a source \
                         of its own; name what stays the same in all packets of one source",
                        name.get_ref()
                    );
                    return Err(self.error(name.span(), &message));
                }
            }
        }
        Ok(())
    }
}

/// The growth of a counter.
struct Step {
    step: u64,
    step_of: Option<Expr>,
}

/// A counter that goes with a time stamp.
#[derive(Clone, Copy)]
struct TimedCounter {
    last: u64,
    step: u64,
}

impl TimedCounter {
    /// Returns true when the counter meets the same numbers in every round.
    fn step_divides(self) -> bool {
        self.last % self.step == self.step - 1
    }

    /// After how long it begins anew, at `step_ns` from packet to packet.
    fn wrap_ns(self, step_ns: u64) -> u128 {
        (u128::from(self.last / self.step) + 1) * u128::from(step_ns)
    }
}
