//! What the values of a packet mean: source, sequence, event, fragment, time, payload, check sum.
//!
//! Each role is checked against the resolved header: that its expressions are proven, that widths
//! fit, and that keys which need one another are both there.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use crc_fast::CrcAlgorithm;
use toml::Spanned;

use super::declare::check_name;
use super::error::LoadError;
use super::expression::Expr;
use super::interval::{Known, Range};
use super::layout::{
    Crc, EMULATE_VARIABLES, Edge, Event, Fragment, Origin, PacketType, Payload, Records, Sequence,
    SizeRule, SourceTerm, Spill, Timestamp,
};
use super::model;
use super::names::nearest;
use super::resolve::{Resolved, fold, resolve};
use super::scope::{Context, PACKET_BYTES_MAX, Part, Written};
use super::time_unit;
use super::word::mask;

type Span = core::ops::Range<usize>;

/// The widest spill number \[bit\].
const SPILL_BITS_MAX: u32 = 32;

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
        part: Part::Header,
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
    let mut resolved = PacketType {
        name: packet.name.get_ref().clone(),
        help: packet.help.clone(),
        select: None,
        size,
        source: roles.source(packet)?,
        sequence: roles.sequence(packet.sequence.as_ref(), timestamp.is_some())?,
        event: roles.event(packet.event.as_ref())?,
        fragment: roles.fragment(packet.fragment.as_ref(), packet.event.is_some())?,
        timestamp,
        payload: roles.payload(packet.payload.as_ref())?,
        records,
        crc: roles.crc(packet.crc.as_ref())?,
        emulate: roles.emulate(packet.emulate.as_ref())?,
        emulate_payload_bytes: 1024,
        header: super::layout::Layout::default(),
    };
    let payload_bytes = packet.emulate.as_ref().and_then(|e| e.get_ref().payload_bytes.as_ref());
    if let Some(bytes) = payload_bytes {
        resolved.emulate_payload_bytes = *bytes.get_ref();
    }
    resolved.select = roles.header.select;
    resolved.header = roles.header.layout;
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
        part: Part::Record,
        place: &place,
        fields: &records.fields,
        computed: &records.computed,
        select: None,
        size: (0, 0),
    };
    let resolved = resolve(context, &fields)?;
    let span = records.bytes.span();
    let what = format!("{place}, `bytes`");
    let bytes =
        context.expression(records.bytes.get_ref(), span.clone(), &what, &resolved.names)?;
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
    Ok(Records { name: name.clone(), bytes, layout })
}

/// The roles of one packet type, over its header.
struct Roles<'a, 'b> {
    context: &'a mut Context<'b>,
    place: &'a str,
    header: Resolved,
}

impl Roles<'_, '_> {
    fn error(&self, span: Span, message: &str) -> LoadError {
        self.context.source.error(span, format!("{}, {message}", self.place))
    }

    fn range(&self, expression: &Expr, span: Span, what: &str) -> Result<Range, LoadError> {
        let values = &self.header.layout.values;
        let known = Known {
            value: &|id| Ok(values[id].range),
            name: &|id| values[id].name.clone(),
            size: self.header.size,
        };
        let error = |message| self.context.source.error(span, format!("{what}: {message}"));
        known.range(expression).map_err(error)
    }

    /// A proven expression with its range.
    fn expression(
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
                    let value = self.header.names.value(name).map_err(|message| {
                        self.error(term.span(), &format!("`source`: {message}"))
                    })?;
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

    /// The width of an expression that is a field's value alone.
    fn field_bits(&self, expression: &Expr) -> Option<u32> {
        let Expr::Value(id) = expression else { return None };
        let value = self.header.layout.values.get(*id)?;
        (!matches!(value.origin, Origin::Computed { .. })).then_some(value.width_bits)
    }

    fn width(
        &self,
        key: &str,
        (value, range): (&Expr, Range),
        (bits, span): (Option<&Spanned<u64>>, Span),
        (least, default): (u64, Option<u32>),
    ) -> Result<u8, LoadError> {
        let width = match (bits, self.field_bits(value).or(default)) {
            (Some(bits), _) => *bits.get_ref(),
            (None, Some(width)) => u64::from(width),
            (None, None) => {
                let message = format!("{key}: `bits` is missing; say after how many bits it wraps");
                return Err(self.error(span, &message));
            }
        };
        let span = bits.map_or(span, Spanned::span);
        if width < least || width > 64 {
            let message = format!("{key}: `bits` is {width}; it can be {least} to 64");
            return Err(self.error(span, &message));
        }
        let width_bits = u32::try_from(width).unwrap_or(64);
        if range.1 > mask(width_bits) {
            let message = format!(
                "{key}: its value can be {}, more than {width} bits hold; mask it, like \
                 `({}) & {:#x}`",
                range.1,
                self.header.layout.text_of(value),
                mask(width_bits)
            );
            return Err(self.error(span, &message));
        }
        Ok(u8::try_from(width).unwrap_or(64))
    }

    fn sequence(
        &self,
        written: Option<&Spanned<model::Sequence>>,
        has_time: bool,
    ) -> Result<Option<Sequence>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        let sequence = written.get_ref();
        let (value, range) = self.expression(&sequence.value, "`sequence.value`")?;
        let widths = (sequence.bits.as_ref(), sequence.value.span());
        let bits = self.width("`sequence`", (&value, range), widths, (4, None))?;
        let step = match &sequence.step {
            None => 1,
            Some(step) => match self.expression(step, "`sequence.step`")?.0 {
                Expr::Constant(step) if step > 0 && step <= mask(u32::from(bits)) => step,
                _ => {
                    let message = format!(
                        "`sequence.step` must be a constant from 1 to {}",
                        mask(u32::from(bits))
                    );
                    return Err(self.error(step.span(), &message));
                }
            },
        };
        let timestamp_step_ns = match &sequence.timestamp_step_ns {
            Some(step) if !has_time => {
                let message = "`sequence.timestamp-step-ns` needs a `timestamp`; add one";
                return Err(self.error(step.span(), message));
            }
            Some(step) if *step.get_ref() == 0 => {
                return Err(self.error(step.span(), "`sequence.timestamp-step-ns` is 0"));
            }
            step => step.as_ref().map(|step| *step.get_ref()),
        };
        Ok(Some(Sequence { value, bits, step, timestamp_step_ns }))
    }

    fn event(&self, written: Option<&Spanned<model::Event>>) -> Result<Option<Event>, LoadError> {
        let Some(written) = written else { return Ok(None) };
        let event = written.get_ref();
        let (key, range) = self.expression(&event.key, "`event.key`")?;
        let widths = (event.bits.as_ref(), event.key.span());
        let bits = self.width("`event`", (&key, range), widths, (1, Some(64)))?;
        let spill = event.spill.as_ref().map(|spill| self.spill(spill)).transpose()?;
        Ok(Some(Event { key, bits, spill }))
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

    fn fragment(
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
        let index = self.optional(&fragment.index, "`fragment.index`")?;
        let count = self.optional(&fragment.count, "`fragment.count`")?;
        let offset = self.optional(&fragment.offset, "`fragment.offset`")?;
        let total = self.optional(&fragment.total, "`fragment.total`")?;
        match (index, count, offset, total) {
            (Some(index), Some(count), None, None) => {
                if matches!(count, Expr::Constant(count) if count == 0 || count > 1 << 20) {
                    let message = "`fragment.count` must be from 1 to 1048576";
                    return Err(self.error(written.span(), message));
                }
                Ok(Fragment::Index { index, count, rule })
            }
            (None, None, Some(offset), Some(total)) => Ok(Fragment::Bytes { offset, total, rule }),
            _ => Err(self.error(
                written.span(),
                "`fragment` is either `index` and `count` or `offset` and `total`; write both \
                 keys of one pair",
            )),
        }
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
        let epoch = time.epoch;
        Ok(Some(Timestamp { seconds, ticks, ns_numerator, ns_denominator, epoch, when }))
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
        let name = crc.algorithm.get_ref().to_ascii_uppercase();
        let code = CrcAlgorithm::from_str(&name).map_err(|()| {
            let hint = nearest(&name, CRC_NAMES)
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let message = format!(
                "`crc.algorithm`: there is no `{}`{hint} Known are {}",
                crc.algorithm.get_ref(),
                CRC_NAMES.join(", ")
            );
            self.error(crc.algorithm.span(), &message)
        })?;
        let bytes = match name.get(..6) {
            Some("CRC-16") => 2,
            Some("CRC-32") => 4,
            _ => 8,
        };
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
            let message = format!(
                "`crc.at`: {} has {bytes} bytes, so it starts at -{bytes} or before",
                crc.algorithm.get_ref()
            );
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
        Ok(Some(Crc { algorithm: name, code, bytes, at, byte_order, from, to, when, rule }))
    }

    /// What an emulator writes; its expressions wrap, so they need no proof.
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
    /// How many bits of the packed key it takes; address and port are kept beside it.
    #[must_use]
    pub fn width_bits(self) -> u32 {
        match self {
            SourceTerm::Value { width_bits, .. } => width_bits,
            SourceTerm::Address | SourceTerm::Port => 0,
            SourceTerm::Packet => 8,
        }
    }
}

/// The names that `crc.algorithm` takes, from the catalogue of parametrised CRC algorithms.
pub const CRC_NAMES: [&str; 50] = [
    "CRC-16/ARC",
    "CRC-16/CDMA2000",
    "CRC-16/CMS",
    "CRC-16/DDS-110",
    "CRC-16/DECT-R",
    "CRC-16/DECT-X",
    "CRC-16/DNP",
    "CRC-16/EN-13757",
    "CRC-16/GENIBUS",
    "CRC-16/GSM",
    "CRC-16/IBM-3740",
    "CRC-16/IBM-SDLC",
    "CRC-16/ISO-IEC-14443-3-A",
    "CRC-16/KERMIT",
    "CRC-16/LJ1200",
    "CRC-16/M17",
    "CRC-16/MAXIM-DOW",
    "CRC-16/MCRF4XX",
    "CRC-16/MODBUS",
    "CRC-16/NRSC-5",
    "CRC-16/OPENSAFETY-A",
    "CRC-16/OPENSAFETY-B",
    "CRC-16/PROFIBUS",
    "CRC-16/RIELLO",
    "CRC-16/SPI-FUJITSU",
    "CRC-16/T10-DIF",
    "CRC-16/TELEDISK",
    "CRC-16/TMS37157",
    "CRC-16/UMTS",
    "CRC-16/USB",
    "CRC-16/XMODEM",
    "CRC-32/AIXM",
    "CRC-32/AUTOSAR",
    "CRC-32/BASE91-D",
    "CRC-32/BZIP2",
    "CRC-32/CD-ROM-EDC",
    "CRC-32/CKSUM",
    "CRC-32/ISCSI",
    "CRC-32/ISO-HDLC",
    "CRC-32/JAMCRC",
    "CRC-32/MEF",
    "CRC-32/MPEG-2",
    "CRC-32/XFER",
    "CRC-64/ECMA-182",
    "CRC-64/GO-ISO",
    "CRC-64/MS",
    "CRC-64/NVME",
    "CRC-64/REDIS",
    "CRC-64/WE",
    "CRC-64/XZ",
];
