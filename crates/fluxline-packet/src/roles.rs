//! The roles of a packet's values: source, sequence, event, fragment, time, payload, check sum.
//!
//! Each role is checked against the resolved header: that its expressions are proven, that widths
//! fit, and that keys which need one another are both there.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use toml::Spanned;

use super::check_sum::{Algorithm, CheckSum, EXTRA_BYTES_MAX, Extra};
use super::crc_names::crc_names_like;
use super::declare::check_name;
use super::epoch::{Date, FieldEpoch, YEAR_MAX};
use super::ess;
use super::ess_resolve;
use super::expression::{Binary, Expr};
use super::interval::{Range, ValueRanges};
use super::layout::{
    Crc, EMULATE_VARIABLES, Edge, ItemKind, Origin, PacketType, Payload, Records, SizeRule,
    SourceTerm, Timestamp, ValueKind,
};
use super::model::{self, CountedEpoch, WrittenEpoch};
use super::resolve::{fold, resolve};
use super::scope::{Context, LayoutKind, PACKET_BYTES_MAX, Resolved, Written};
use super::time_unit;
use fluxline_toml::LoadError;

type Span = core::ops::Range<usize>;

/// Checks one packet type.
pub(crate) fn packet_type(
    context: &mut Context<'_>,
    written: &Spanned<model::Packet>,
) -> Result<PacketType, LoadError> {
    let packet = written.get_ref();
    let place = format!("packet `{}`", packet.name.get_ref());
    check_name(&packet.name.get_ref().replace('-', "_")).map_err(|message| {
        context.source.error(packet.name.span(), format!("{place}: {message}"))
    })?;
    let size = size_limits(context, &place, packet)?;
    let fields = Written {
        part: LayoutKind::Header,
        place: &place,
        fields: &packet.fields,
        computed: &packet.computed,
        select: packet.select.as_ref(),
        size: (size.min, size.max),
    };
    let header = resolve(context, &fields)?;
    let records = match &packet.records {
        Some(records) => Some(self::records(context, &place, records)?),
        None => None,
    };
    let mut roles = Roles { context, place: &place, header };
    let size = roles.size_equals(size, packet)?;
    let timestamp = roles.timestamp(packet.timestamp.as_ref())?;
    let source = roles.source(packet)?;
    let event = roles.event(packet.event.as_ref())?;
    let fragment = roles.fragment(packet.fragment.as_ref(), event.is_some())?;
    let sequence = roles.sequence(packet.sequence.as_ref(), timestamp.as_ref(), &fragment)?;
    roles.check_source(packet, &source, sequence.as_ref(), event.as_ref(), &fragment)?;
    let counts = roles.counts(packet.counts.as_ref(), sequence.is_some())?;
    let mut resolved = PacketType {
        name: packet.name.get_ref().clone(),
        help: packet.help.clone(),
        select: None,
        size,
        source,
        sequence,
        event,
        fragment,
        timestamp,
        counts,
        payload: roles.payload(packet.payload.as_ref())?,
        records,
        crc: roles.crc(packet.crc.as_ref())?,
        emulate: roles.emulate(packet.emulate.as_ref())?,
        emulate_payload_bytes: 1024,
        ess: ess::Ess::default(),
        header: super::layout::Layout::default(),
    };
    let payload_bytes = packet.emulate.as_ref().and_then(|e| e.get_ref().payload_bytes.as_ref());
    if let Some(bytes) = payload_bytes {
        resolved.emulate_payload_bytes = *bytes.get_ref();
    }
    resolved.select = roles.header.select;
    resolved.header = roles.header.layout;
    let parts = ess_resolve::Parts {
        place: &place,
        header: &resolved.header,
        records: resolved.records.as_ref().map(|records| &records.layout),
        timestamp: resolved.timestamp.as_ref(),
    };
    resolved.ess = ess_resolve::resolve(context, parts, packet.ess.as_ref())?;
    Ok(resolved)
}

fn size_limits(
    context: &mut Context<'_>,
    place: &str,
    packet: &model::Packet,
) -> Result<SizeRule, LoadError> {
    let rule = context.rule(format!("{place}, `size`"));
    let mut size = SizeRule { min: 0, max: u64::from(PACKET_BYTES_MAX), equals: None, rule };
    let Some(written) = &packet.size else { return Ok(size) };
    let limits = written.get_ref();
    let constant = match &limits.equals {
        Some(model::Expression::Integer(constant)) => Some(*constant),
        _ => None,
    };
    size.min = limits.min.or(constant).unwrap_or(0);
    size.max = limits.max.or(constant).unwrap_or(size.max).min(size.max);
    if size.min > size.max {
        let message = format!(
            "{place}, `size`: `min` is {} and `max` is {}; no packet can be so",
            size.min, size.max
        );
        return Err(context.source.error(written.span(), message));
    }
    Ok(size)
}

fn records(
    context: &mut Context<'_>,
    place: &str,
    written: &Spanned<model::Records>,
) -> Result<Records, LoadError> {
    let records = written.get_ref();
    let name = records.name.get_ref();
    let place = format!("{place}, record `{name}`");
    check_name(name).map_err(|message| {
        context.source.error(records.name.span(), format!("{place}: {message}"))
    })?;
    let fields = Written {
        part: LayoutKind::Record,
        place: &place,
        fields: &records.fields,
        computed: &records.computed,
        select: None,
        size: (0, 0),
    };
    let resolved = resolve(context, &fields)?;
    let Some(written) = &records.bytes else {
        if resolved.layout.min_bytes == 0 {
            let message = format!("{place}: without `bytes` its fields must take some bytes");
            return Err(context.source.error(records.name.span(), message));
        }
        return Ok(Records { name: name.clone(), bytes: None, layout: resolved.layout });
    };
    let span = written.span();
    let what = format!("{place}, `bytes`");
    let bytes = context.expression(written.get_ref(), span.clone(), &what, &resolved.names)?;
    let bytes = fold(bytes);
    let roles = Roles { context, place: &place, header: resolved };
    let range = roles.range(&bytes, span.clone(), &what)?;
    let least = u64::from(roles.header.layout.min_bytes);
    if range.1 == 0 {
        return Err(context.source.error(span, format!("{what}: a record of 0 bytes never ends")));
    }
    if range.1 < least {
        let message = format!("{what} is {}, but its fields take {least} bytes", range.1);
        return Err(context.source.error(span, message));
    }
    let layout = roles.header.layout;
    Ok(Records { name: name.clone(), bytes: Some(bytes), layout })
}

/// The roles of one packet type, over its header.
pub(super) struct Roles<'a, 'b> {
    pub(super) context: &'a mut Context<'b>,
    pub(super) place: &'a str,
    pub(super) header: Resolved,
}

impl Roles<'_, '_> {
    pub(super) fn error(&self, span: Span, message: &str) -> LoadError {
        self.context.source.error(span, format!("{}, {message}", self.place))
    }

    pub(super) fn range(
        &self,
        expression: &Expr,
        span: Span,
        what: &str,
    ) -> Result<Range, LoadError> {
        let error = |message| self.context.source.error(span, format!("{what}: {message}"));
        self.range_with(expression, &|_, range| range).map_err(error)
    }

    /// The range of an expression over values whose own ranges `narrow` may cut.
    pub(super) fn range_with(
        &self,
        expression: &Expr,
        narrow: &dyn Fn(usize, Range) -> Range,
    ) -> Result<Range, String> {
        let values = &self.header.layout.values;
        let known = ValueRanges {
            value: &|id| Ok(narrow(id, values[id].range)),
            name: &|id| values[id].name.clone(),
            definition: &|id| self.header.layout.definition(id),
            size: self.header.size,
        };
        known.range(expression)
    }

    /// A proven expression with its range.
    pub(super) fn expression(
        &self,
        written: &Spanned<model::Expression>,
        key: &str,
    ) -> Result<(Expr, Range), LoadError> {
        let what = format!("{}, {key}", self.place);
        let (text, span) = (written.get_ref(), written.span());
        let parsed = self.context.expression(text, span.clone(), &what, &self.header.names)?;
        let range = self.range(&parsed, span, &what)?;
        Ok((fold(parsed), range))
    }

    fn optional(
        &self,
        written: &Option<Spanned<model::Expression>>,
        key: &str,
    ) -> Result<Option<Expr>, LoadError> {
        written.as_ref().map(|w| Ok(self.expression(w, key)?.0)).transpose()
    }

    fn size_equals(
        &self,
        mut size: SizeRule,
        packet: &model::Packet,
    ) -> Result<SizeRule, LoadError> {
        let Some(written) = &packet.size else { return Ok(size) };
        if let Some(equals) = &written.get_ref().equals {
            let what = format!("{}, `size.equals`", self.place);
            let span = written.span();
            let names = &self.header.names;
            let expression = self.context.expression(equals, span.clone(), &what, names)?;
            self.range(&expression, span, &what)?;
            size.equals = Some(fold(expression));
        }
        Ok(size)
    }

    fn source(&self, packet: &model::Packet) -> Result<Vec<SourceTerm>, LoadError> {
        let Some(written) = &packet.source else {
            return Ok(vec![SourceTerm::Address, SourceTerm::Port]);
        };
        let mut terms = Vec::new();
        let mut width = 0;
        for term in written {
            let resolved = match term.get_ref().as_str() {
                "address" => SourceTerm::Address,
                "port" => SourceTerm::Port,
                "packet" => SourceTerm::Packet,
                name => {
                    let value = match self.signed_word(name) {
                        Some(value) => value,
                        None => self.header.names.value(name).map_err(|message| {
                            self.error(term.span(), &format!("`source`: {message}"))
                        })?,
                    };
                    let width_bits = self.header.layout.values[value].width_bits;
                    SourceTerm::Value { value, width_bits }
                }
            };
            if terms.contains(&resolved) {
                let message = format!("`source`: `{}` is there twice", term.get_ref());
                return Err(self.error(term.span(), &message));
            }
            width += resolved.width_bits();
            if width > 64 {
                let message = format!(
                    "`source`: with `{}` the key is {width} bits wide, and 64 are the most; use \
                     narrower fields, or a computed value that joins them",
                    term.get_ref()
                );
                return Err(self.error(term.span(), &message));
            }
            terms.push(resolved);
        }
        Ok(terms)
    }

    /// A signed field, which distinguishes sources by its bits.
    fn signed_word(&self, name: &str) -> Option<usize> {
        let layout = &self.header.layout;
        let value = layout.find(name)?;
        let Origin::Word { item } = layout.values[value].origin else { return None };
        let is_word = matches!(layout.items[item].kind, ItemKind::Word { .. });
        (is_word && layout.values[value].kind == ValueKind::Signed).then_some(value)
    }

    /// The width of an expression that is a field's value alone.
    pub(super) fn field_bits(&self, expression: &Expr) -> Option<u32> {
        let Expr::Value(id) = expression else { return None };
        let value = self.header.layout.values.get(*id)?;
        // The digits of a decimal number are not bits.
        let has_bits = match value.origin {
            Origin::Computed { .. } => false,
            Origin::Word { item } => {
                !matches!(self.header.layout.items[item].kind, ItemKind::Text(_))
            }
            Origin::Bits { .. } | Origin::Picked { .. } => true,
        };
        has_bits.then_some(value.width_bits)
    }

    fn timestamp(
        &self,
        written: Option<&Spanned<model::Timestamp>>,
    ) -> Result<Option<Timestamp>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        let time = written.get_ref();
        let seconds = self.optional(&time.seconds, "`timestamp.seconds`")?;
        let ticks = self.optional(&time.ticks, "`timestamp.ticks`")?;
        let when = self.optional(&time.when, "`timestamp.when`")?;
        let (ns_numerator, ns_denominator) = match (&ticks, &time.unit) {
            (Some(_), Some(unit)) => time_unit::parse(unit.get_ref()).map_err(|message| {
                self.error(unit.span(), &format!("`timestamp.unit`: {message}"))
            })?,
            (None, None) if seconds.is_some() => (1, 1),
            (Some(_), None) => {
                let message = "`timestamp.unit` is missing; say how long a tick is, like \"100 \
                ns\" \
                               or \"88052500 Hz\"";
                return Err(self.error(written.span(), message));
            }
            (None, Some(_)) => {
                let message =
                    "`timestamp.unit` is the length of a tick; add `ticks`, or leave it out";
                return Err(self.error(written.span(), message));
            }
            (None, None) => {
                let message = "`timestamp` needs `seconds` or `ticks`, or both";
                return Err(self.error(written.span(), message));
            }
        };
        let (epoch, field_epoch) = match &time.epoch {
            WrittenEpoch::Named(epoch) => (*epoch, None),
            WrittenEpoch::Counted(counted) => {
                (model::Epoch::Unix, Some(self.field_epoch(counted, written.span())?))
            }
        };
        let wrap_ns = None;
        let mut stamp = Timestamp {
            seconds,
            ticks,
            ns_numerator,
            ns_denominator,
            wrap_ns,
            epoch,
            field_epoch,
            when,
        };
        stamp.wrap_ns = self.wrap_ns(&stamp);
        Ok(Some(stamp))
    }

    fn field_epoch(&self, written: &CountedEpoch, span: Span) -> Result<FieldEpoch, LoadError> {
        let CountedEpoch { date, year, month, day, months, days } = written;
        let error = |message: &str| Err(self.error(span.clone(), message));
        let date = match (date, year) {
            (Some(date), None) => date,
            (None, Some(year)) => return self.date_of_packet(year, written),
            _ => {
                return error(
                    "`timestamp.epoch` is a `date` with `months` or `days`, or a `year` with \
                     `month` and `day`; write one of the two",
                );
            }
        };
        if month.is_some() || day.is_some() {
            return error("`timestamp.epoch`: `month` and `day` go with a `year`");
        }
        let first = Date::parse(date.get_ref()).map_err(|message| {
            self.error(date.span(), &format!("`timestamp.epoch.date`: {message}"))
        })?;
        let months = self.optional(months, "`timestamp.epoch.months`")?;
        let days = self.optional(days, "`timestamp.epoch.days`")?;
        if months.is_none() && days.is_none() {
            let message = "`timestamp.epoch` needs `months` or `days` that a field counts; for a \
                           date of convention write \"unix\", \"tai\" or \"gps\"";
            return Err(self.error(date.span(), message));
        }
        let none = || Expr::Constant(0);
        let (months, days) = (months.unwrap_or_else(none), days.unwrap_or_else(none));
        Ok(FieldEpoch { date: first, months, days, parts: None })
    }

    /// A date of which packets have year, month and day: counted from the year 0.
    fn date_of_packet(
        &self,
        year: &Spanned<model::Expression>,
        written: &CountedEpoch,
    ) -> Result<FieldEpoch, LoadError> {
        let CountedEpoch { month, day, months, days, .. } = written;
        if months.is_some() || days.is_some() {
            let message = "`timestamp.epoch`: `months` and `days` count from a `date`; beside a \
                           `year` write `month` and `day`";
            return Err(self.error(year.span(), message));
        }
        let year = self.expression(year, "`timestamp.epoch.year`")?.0;
        let month = self.optional(month, "`timestamp.epoch.month`")?.unwrap_or(Expr::Constant(1));
        let day = self.optional(day, "`timestamp.epoch.day`")?.unwrap_or(Expr::Constant(1));
        let binary = |operator, left: Expr, right: u64| {
            Expr::Binary(operator, Box::new(left), Box::new(Expr::Constant(right)))
        };
        let from_0 =
            |number: &Expr| binary(Binary::Subtract, binary(Binary::Maximum, number.clone(), 1), 1);
        // A year beyond all calendars must not overflow.
        let years = binary(Binary::Minimum, year.clone(), YEAR_MAX);
        let months = binary(Binary::Multiply, years, 12);
        let months = Expr::Binary(Binary::Add, Box::new(months), Box::new(from_0(&month)));
        let days = from_0(&day);
        Ok(FieldEpoch { date: Date::YEAR_0, months, days, parts: Some([year, month, day]) })
    }

    /// After how long a time stamp begins anew: after its largest value.
    fn wrap_ns(&self, stamp: &Timestamp) -> Option<u64> {
        if stamp.field_epoch.is_some() {
            // The sensor counts on from its next epoch before its seconds wrap.
            return None;
        }
        let (coarsest, tick) = match (&stamp.seconds, &stamp.ticks) {
            (Some(seconds), _) => (seconds, (1_000_000_000, 1)),
            (None, ticks) => (ticks.as_ref()?, (stamp.ns_numerator, stamp.ns_denominator)),
        };
        let high = self.range(coarsest, 0..0, "").ok()?.1;
        let ticks = u128::from(high) + 1;
        u64::try_from(ticks * u128::from(tick.0) / u128::from(tick.1)).ok()
    }

    fn payload(&mut self, written: Option<&Spanned<model::Payload>>) -> Result<Payload, LoadError> {
        let rule = self.context.rule(format!("{}, `payload`", self.place));
        let none = model::Payload { from: None, length: None, trailer: None };
        let payload = written.map_or(&none, Spanned::get_ref);
        Ok(Payload {
            from: self.optional(&payload.from, "`payload.from`")?,
            length: self.optional(&payload.length, "`payload.length`")?,
            trailer: self.optional(&payload.trailer, "`payload.trailer`")?,
            rule,
        })
    }

    fn crc(&mut self, written: Option<&Spanned<model::Crc>>) -> Result<Option<Crc>, LoadError> {
        let rule = self.context.rule(format!("{}, `crc`", self.place));
        let Some(written) = written else { return Ok(None) };
        let crc = written.get_ref();
        let name = crc.algorithm.get_ref();
        let (algorithm, bytes) = Algorithm::of_name(name).ok_or_else(|| {
            let near = crc_names_like(name).map(|near| format!("`{near}`"));
            let message = format!(
                "`crc.algorithm`: `{name}` is unknown; did you mean {}, {} or {}?",
                near[0], near[1], near[2]
            );
            self.error(crc.algorithm.span(), &message)
        })?;
        let extra = Extra::of(&crc.extra).ok_or_else(|| {
            let message = format!("`crc.extra` has more than {EXTRA_BYTES_MAX} bytes");
            self.error(written.span(), &message)
        })?;
        let edge = |place: i64| {
            let offset = u32::try_from(place.unsigned_abs()).unwrap_or(u32::MAX);
            match offset > PACKET_BYTES_MAX {
                true => Err(self.error(written.span(), "`crc` lies more than 65535 bytes away")),
                false if place < 0 => Ok(Edge::End(offset)),
                false => Ok(Edge::Start(offset)),
            }
        };
        let at = edge(*crc.at.get_ref())?;
        if matches!(at, Edge::End(offset) if offset < u32::from(bytes)) {
            let message =
                format!("`crc.at`: {name} has {bytes} bytes, so it starts at -{bytes} or before");
            return Err(self.error(crc.at.span(), &message));
        }
        let from = edge(crc.from.unwrap_or(0))?;
        let to = match crc.to {
            Some(to) => edge(to)?,
            None => at,
        };
        let reversed = match (from, to) {
            (Edge::Start(from), Edge::Start(to)) => from >= to,
            (Edge::End(from), Edge::End(to)) => from <= to,
            _ => false,
        };
        if reversed {
            let message = "`crc`: it covers no bytes; `from` must be before `to` (by default `at`)";
            return Err(self.error(written.span(), message));
        }
        let when = self.optional(&crc.when, "`crc.when`")?;
        let byte_order = crc.byte_order.unwrap_or(self.context.byte_order);
        let complement = crc.complement;
        let plan = CheckSum { algorithm, bytes, at, byte_order, from, to, extra, complement };
        Ok(Some(Crc { algorithm: name.to_ascii_uppercase(), plan, when, rule }))
    }

    /// Resolves the values that an emulator writes; its expressions wrap, so they need no proof.
    fn emulate(
        &self,
        written: Option<&Spanned<model::Emulate>>,
    ) -> Result<Vec<(usize, Expr)>, LoadError> {
        let Some(written) = written else { return Ok(Vec::new()) };
        let known: BTreeMap<&str, usize> =
            EMULATE_VARIABLES.iter().enumerate().map(|(id, &name)| (name, id)).collect();
        let mut fields = Vec::new();
        for (name, expression) in &written.get_ref().fields {
            let value = self.header.names.value(name.get_ref()).map_err(|message| {
                self.error(name.span(), &format!("`emulate.fields`: {message}"))
            })?;
            if matches!(self.header.layout.values[value].origin, Origin::Computed { .. }) {
                let message = format!(
                    "`emulate.fields`: `{}` is computed; set the fields that it is computed from",
                    name.get_ref()
                );
                return Err(self.error(name.span(), &message));
            }
            let resolve = |word: &str| match (word, self.context.parameters.get(word)) {
                ("size", _) => Ok(Expr::Size),
                (_, Some(&constant)) => Ok(Expr::Constant(constant)),
                _ => known.get(word).map(|&id| Expr::Value(id)).ok_or_else(|| {
                    format!(
                        "`{word}` is neither a parameter nor one of {}, size",
                        EMULATE_VARIABLES.join(", ")
                    )
                }),
            };
            let parsed = match expression {
                model::Expression::Integer(constant) => Ok(Expr::Constant(*constant)),
                model::Expression::Text(text) => super::expression::parse(text, &resolve),
            };
            let parsed = parsed.map_err(|message| {
                let key = name.get_ref();
                self.error(name.span(), &format!("`emulate.fields.{key}`: {message}"))
            })?;
            fields.push((value, parsed));
        }
        Ok(fields)
    }
}

impl SourceTerm {
    /// Returns the bits of the packed key that it takes; address and port are kept beside it.
    #[must_use]
    pub fn width_bits(self) -> u32 {
        match self {
            SourceTerm::Value { width_bits, .. } => width_bits,
            SourceTerm::Address | SourceTerm::Port => 0,
            SourceTerm::Packet => 8,
        }
    }
}
