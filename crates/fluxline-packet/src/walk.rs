//! A walk over the fields as a packet would be read: places, and the proof of each expression.
//!
//! An expression is proven with what is known at the moment at which the program computes it:
//! rules already checked narrow the ranges, and fields already read put a floor under `size`.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::expression::Expr;
use super::interval::{Range, ValueRanges};
use super::layout::{FieldOffset, Item, ItemKind, Layout, Origin, Rules, Stage, ValueKind};
use super::scope::{Context, LayoutKind, PACKET_BYTES_MAX, Written, title};
use super::text::{Text, TextEnd};
use super::word::{bits_over, mask};
use fluxline_toml::LoadError;

type Span = core::ops::Range<usize>;

/// Gives each field its place and proves every expression; yields the range of `size` at the end.
pub(crate) fn prove(
    context: &Context<'_>,
    written: &Written<'_>,
    layout: Layout,
    select: Option<&Expr>,
) -> Result<(Layout, Range), LoadError> {
    let ranges = vec![None; layout.values.len()];
    let mut walk = Walk { context, written, ranges, layout, size: written.size };
    walk.place_items()?;
    walk.prove_select(select)?;
    walk.prove_items()?;
    walk.prove_end()?;
    Ok((walk.layout, walk.size))
}

struct Walk<'a, 'b> {
    context: &'a Context<'b>,
    written: &'a Written<'a>,
    layout: Layout,
    /// Ranges of the values read so far.
    ranges: Vec<Option<Range>>,
    size: Range,
}

impl Walk<'_, '_> {
    fn range(&self, expression: &Expr, span: Span, what: &str) -> Result<Range, LoadError> {
        let known = ValueRanges {
            value: &|id| {
                self.ranges[id].ok_or_else(|| {
                    let name = &self.layout.values[id].name;
                    format!("`{name}` is read only after this; move its field before this one")
                })
            },
            name: &|id| self.layout.values[id].name.clone(),
            definition: &|id| self.layout.definition(id),
            size: self.size,
        };
        let error = |message| self.context.source.error(span, format!("{what}: {message}"));
        known.range(expression).map_err(error)
    }

    fn title_of(&self, item: usize) -> String {
        title(self.written.place, self.layout.items[item].name.as_deref())
    }

    fn error(&self, item: usize, message: &str) -> LoadError {
        let span = self.written.fields[item].span();
        self.context.source.error(span, format!("{}: {message}", self.title_of(item)))
    }

    /// Places each field, and checks that no two fields claim the same bytes.
    fn place_items(&mut self) -> Result<(), LoadError> {
        let mut cursor = Some(0u32);
        let mut end = Some(0u32);
        let mut taken: Vec<(u32, u32, usize)> = Vec::new();
        for index in 0..self.layout.items.len() {
            let item = &self.layout.items[index];
            let bytes = item.fixed_bytes();
            let beyond = "it ends beyond byte 65535, the largest UDP payload";
            let place =
                match self.written.fields[index].get_ref().at.as_ref().map(|at| *at.get_ref()) {
                    None => cursor.map_or(FieldOffset::AfterPrevious, FieldOffset::Fixed),
                    Some(at) if at >= 0 => {
                        FieldOffset::Fixed(u32::try_from(at).unwrap_or(u32::MAX))
                    }
                    Some(at) => self.place_from_end(index, at)?,
                };
            if let (FieldOffset::Fixed(start), Some(bytes)) = (place, bytes) {
                let until = start.checked_add(bytes).filter(|&until| until <= PACKET_BYTES_MAX);
                let until = until.ok_or_else(|| self.error(index, beyond))?;
                let clash = taken.iter().find(|&&(from, to, _)| start < to && from < until);
                if let (Some(&(from, to, other)), None) = (clash, &item.when) {
                    let other = self.layout.items[other].name.as_deref().unwrap_or("padding");
                    let message = format!(
                        "it takes bytes {start}..{until}, and `{other}` has {from}..{to}; correct \
                         `at`, or say with `when` which of them is there"
                    );
                    return Err(self.error(index, &message));
                }
                if item.when.is_none() {
                    taken.push((start, until, index));
                }
            }
            if !matches!(place, FieldOffset::FromEnd(_)) {
                cursor = match (place, bytes, &item.when) {
                    (FieldOffset::Fixed(start), Some(bytes), None) => Some(start + bytes),
                    _ => None,
                };
                end = end.and_then(|end| cursor.map(|cursor| end.max(cursor)));
            }
            self.layout.items[index].place = place;
        }
        self.layout.fixed_bytes = end;
        Ok(())
    }

    fn place_from_end(&self, index: usize, at: i64) -> Result<FieldOffset, LoadError> {
        if self.written.part != LayoutKind::Header {
            return Err(self.error(index, "`at` from the end is for fields of a packet only"));
        }
        let offset = u32::try_from(at.unsigned_abs()).unwrap_or(u32::MAX);
        match self.layout.items[index].fixed_bytes() {
            _ if offset > PACKET_BYTES_MAX => {
                Err(self.error(index, "`at` lies more than 65535 bytes before the end"))
            }
            Some(bytes) if bytes <= offset => Ok(FieldOffset::FromEnd(offset)),
            Some(bytes) => {
                let message = format!(
                    "it would end beyond the packet: {bytes} bytes long, so `at` is -{bytes} or \
                    less"
                );
                Err(self.error(index, &message))
            }
            None => {
                Err(self.error(index, "a field placed from the end must have a constant length"))
            }
        }
    }

    /// `select` sees fields at fixed places, with no rule checked yet.
    fn prove_select(&mut self, select: Option<&Expr>) -> Result<(), LoadError> {
        let (Some(select), Some(written)) = (select, self.written.select) else { return Ok(()) };
        for (index, item) in self.layout.items.iter().enumerate() {
            let is_text = matches!(item.kind, ItemKind::Text(_));
            let fixed = item.place != FieldOffset::AfterPrevious && item.when.is_none() && !is_text;
            for id in self.layout.values_of(index).filter(|_| fixed) {
                let value = &self.layout.values[id];
                let picked = matches!(value.origin, Origin::Picked { .. });
                self.ranges[id] = (!picked).then(|| (0, mask(value.width_bits)));
            }
        }
        let (span, what) = (written.span(), format!("{}, `select`", self.written.place));
        let narrow = |error: LoadError| match error.message.contains("is read only after this") {
            true => self.context.source.error(
                span.clone(),
                format!("{what}: it may use only fields at fixed places that every packet has"),
            ),
            false => error,
        };
        let select_stage = |stage| stage == Stage::Select;
        self.prove_computed(select_stage, Some((span.clone(), what.clone()))).map_err(narrow)?;
        let narrow = |error: LoadError| match error.message.contains("is read only after this") {
            true => self.context.source.error(
                span.clone(),
                format!("{what}: it may use only fields at fixed places that every packet has"),
            ),
            false => error,
        };
        self.range(select, span.clone(), &what).map_err(narrow)?;
        for (range, value) in self.ranges.iter_mut().zip(&self.layout.values) {
            if !matches!(value.origin, Origin::Computed { .. }) {
                *range = None;
            }
        }
        Ok(())
    }

    /// Proves the computed values of a stage, in the order of computing.
    fn prove_computed(
        &mut self,
        stage_is: impl Fn(Stage) -> bool,
        place: Option<(Span, String)>,
    ) -> Result<(), LoadError> {
        for id in self.layout.computed_order.clone() {
            let Origin::Computed { value, when, stage } = &self.layout.values[id].origin else {
                continue;
            };
            if !stage_is(*stage) {
                continue;
            }
            let name = &self.layout.values[id].name;
            let written = self.written.computed.iter().map(toml::Spanned::get_ref);
            let written = written.into_iter().find(|written| written.name.get_ref() == name);
            let own = written.map_or(0..0, |written| written.value.span());
            let (span, what) =
                place.clone().unwrap_or((own, title(self.written.place, Some(name))));
            let mut range = self.range(value, span.clone(), &what)?;
            let conditional = when.is_some();
            if let Some(when) = when {
                self.range(when, span, &format!("{what}, `when`"))?;
                range.0 = 0;
            }
            self.ranges[id] = Some(range);
            let value = &mut self.layout.values[id];
            value.range = range;
            value.width_bits = (64 - range.1.leading_zeros()).max(1);
            value.conditional = conditional;
        }
        Ok(())
    }

    fn prove_items(&mut self) -> Result<(), LoadError> {
        let mut least = 0u32;
        for index in 0..self.layout.items.len() {
            self.prove_computed(|stage| stage == Stage::AfterItems(index), None)?;
            let item = self.layout.items[index].clone();
            let title = self.title_of(index);
            let field = self.written.fields[index].get_ref();
            let span = |written: &Option<toml::Spanned<super::model::Expression>>| {
                written.as_ref().map_or(self.written.fields[index].span(), toml::Spanned::span)
            };
            if let Some(when) = &item.when {
                self.range(when, span(&field.when), &format!("{title}, `when`"))?;
            }
            let bytes = self.least_bytes(&item, index)?;
            let start = match item.place {
                FieldOffset::Fixed(start) => start,
                FieldOffset::AfterPrevious | FieldOffset::FromEnd(_) => least,
            };
            let end = start.saturating_add(bytes);
            match (item.place, &item.when) {
                (FieldOffset::FromEnd(offset), None) => self.need(index, offset)?,
                (FieldOffset::FromEnd(_), Some(_)) => {}
                (_, None) => {
                    least = end;
                    self.need(index, end)?;
                }
                (_, Some(_)) => least = least.min(end),
            }
            self.prove_rules(index, &item)?;
        }
        let items = self.layout.items.len();
        self.prove_computed(|stage| stage == Stage::AfterItems(items), None)
    }

    /// The least number of bytes that a field takes where it is there.
    fn least_bytes(&self, item: &Item, index: usize) -> Result<u32, LoadError> {
        let span = self.written.fields[index].span();
        let title = self.title_of(index);
        let low = match &item.kind {
            ItemKind::Word { bytes, .. } => u64::from(*bytes),
            ItemKind::Bytes { length } => match length.constant() {
                Some(0) => return Err(self.error(index, "`length` is 0; leave the field out")),
                _ => self.range(length, span, &format!("{title}, `length`"))?.0,
            },
            ItemKind::Text(Text { end: TextEnd::Length(length), .. }) => match length.constant() {
                Some(0) => return Err(self.error(index, "`length` is 0; leave the field out")),
                _ => self.range(length, span, &format!("{title}, `length`"))?.0,
            },
            // A number has a digit at least; the end of the packet may stand for the mark.
            ItemKind::Text(text) => u64::from(text.content != ValueKind::Bytes),
            ItemKind::List(list) => {
                let count = self.range(&list.count, span, &format!("{title}, `list.count`"))?;
                if count.1 == 0 {
                    return Err(self.error(index, "`list.count` is 0; leave the list out"));
                }
                count.0.saturating_mul(u64::from(list.item_bytes))
            }
        };
        u32::try_from(low).ok().filter(|&low| low <= PACKET_BYTES_MAX).ok_or_else(|| {
            self.error(index, "it is longer than 65535 bytes, the largest UDP payload")
        })
    }

    /// Every packet has at least `bytes`.
    fn need(&mut self, index: usize, bytes: u32) -> Result<(), LoadError> {
        self.layout.min_bytes = self.layout.min_bytes.max(bytes);
        if self.written.part == LayoutKind::Header {
            self.size.0 = self.size.0.max(u64::from(bytes));
            if self.size.0 > self.size.1 {
                let message = format!(
                    "it needs a packet of {bytes} bytes or more, and `size` allows {}; correct \
                     `size` or the fields",
                    self.size.1
                );
                return Err(self.error(index, &message));
            }
        }
        if bytes > PACKET_BYTES_MAX {
            return Err(self.error(index, "it ends beyond byte 65535, the largest UDP payload"));
        }
        Ok(())
    }

    /// The ranges of an item's values, narrowed by the rules that are checked with it.
    fn prove_rules(&mut self, index: usize, item: &Item) -> Result<(), LoadError> {
        if let Some(word) = item.value {
            self.narrow(index, word, &item.rules, item.when.is_some())?;
        }
        for part in &item.bits {
            self.narrow(index, part.value, &part.rules, item.when.is_some())?;
        }
        if let ItemKind::List(list) = &item.kind {
            for picked in list.pick.iter().flat_map(|pick| &pick.values) {
                let value = &mut self.layout.values[picked.value];
                value.conditional = !picked.required || item.when.is_some();
                value.range = (0, mask(value.width_bits));
                self.ranges[picked.value] = Some(value.range);
            }
        }
        Ok(())
    }

    fn narrow(
        &mut self,
        index: usize,
        id: usize,
        rules: &Rules,
        conditional: bool,
    ) -> Result<(), LoadError> {
        if let ItemKind::Text(text) = &self.layout.items[index].kind {
            let bits = bits_over(text.largest()).max(1);
            self.layout.values[id].width_bits =
                if text.content == ValueKind::Bytes { 0 } else { bits };
        }
        let value = &self.layout.values[id];
        let widest = match &self.layout.items[index].kind {
            ItemKind::Text(text) => text.largest(),
            _ => mask(value.width_bits),
        };
        let (mut low, mut high) = (0, widest);
        let allowed = [rules.equals.as_ref().and_then(Expr::constant), rules.min, rules.max];
        let largest = allowed.into_iter().flatten().chain(rules.one_of.iter().copied()).max();
        if largest.is_some_and(|largest| largest > widest) {
            let message = format!(
                "a rule of `{}` names {}, but {} bits hold at most {widest}; correct the rule or \
                 the width",
                value.name,
                largest.unwrap_or(0),
                value.width_bits
            );
            return Err(self.error(index, &message));
        }
        if let (Some(&least), Some(&most)) = (rules.one_of.iter().min(), rules.one_of.iter().max())
        {
            (low, high) = (least, most);
        }
        low = low.max(rules.min.unwrap_or(0));
        high = high.min(rules.max.unwrap_or(u64::MAX));
        if let Some(constant) = rules.equals.as_ref().and_then(Expr::constant) {
            (low, high) = (low.max(constant), high.min(constant));
        }
        if low > high {
            let message = format!("no value of `{}` can satisfy its rules together", value.name);
            return Err(self.error(index, &message));
        }
        let value = &mut self.layout.values[id];
        value.conditional = conditional;
        value.range = if conditional { (0, high) } else { (low, high) };
        self.ranges[id] = Some(value.range);
        Ok(())
    }

    /// Proves what is computed after all fields: the remaining values, then rules with expressions.
    fn prove_end(&mut self) -> Result<(), LoadError> {
        self.prove_computed(|stage| stage == Stage::End, None)?;
        for (index, item) in self.layout.items.iter().enumerate() {
            let parts = item.bits.iter().map(|part| (&part.rules, part.name.as_str()));
            let word = (&item.rules, item.name.as_deref().unwrap_or("padding"));
            for (rules, name) in parts.chain([word]) {
                let Some(equals) = &rules.equals else { continue };
                let what = format!("{}, `equals` of `{name}`", self.title_of(index));
                self.range(equals, self.written.fields[index].span(), &what)?;
            }
        }
        Ok(())
    }
}
