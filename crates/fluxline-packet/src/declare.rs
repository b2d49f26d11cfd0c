//! The first pass over fields as written: their shape is checked and each name gets its number.
//!
//! The second pass fills in the expressions, when all names are known.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;

use super::expression::Expr;
use super::layout::{
    BitPart, FieldOffset, Item, ItemKind, Layout, List, Origin, Pick, Picked, Rules, Stage, Value,
    ValueKind,
};
use super::model::{self, BitOrder, BitRange, FieldType};
use super::packed::{PACKED_BITS_MAX, Packed};
use super::scope::{Context, LayoutKind, Names, Resolve, Written, title};
use super::text::{Text, TextEnd};
use fluxline_toml::LoadError;

/// Most fields (bit fields, list fields and computed values included) of one file.
pub const FIELDS_MAX: usize = 1024;
/// Most values taken out of one list.
pub const PICKS_MAX: usize = 64;
/// Longest name \[byte\].
pub const NAME_BYTES_MAX: usize = 60;
/// Names that mean something else in expressions or in `source`.
const RESERVED: [&str; 7] = ["size", "port", "address", "packet", "min", "max", "gray"];

/// Checks the shape of the fields and numbers their values; `resolve` is for items of lists.
pub(crate) fn declare(
    context: &mut Context<'_>,
    written: &Written<'_>,
    resolve: Resolve,
) -> Result<(Layout, Names), LoadError> {
    let names = Names { part: written.part, known: BTreeMap::new() };
    let mut declare = Declare { context, written, resolve, layout: Layout::default(), names };
    for (index, field) in written.fields.iter().enumerate() {
        declare.field(index, field)?;
    }
    for computed in written.computed {
        let about = computed.get_ref();
        let zero = Expr::Constant(0);
        let origin = Origin::Computed { value: zero, when: None, stage: Stage::End };
        let id = declare.value(&about.name, origin, ValueKind::Unsigned, 64)?;
        let value = &mut declare.layout.values[id];
        value.unit.clone_from(&about.unit);
        value.help.clone_from(&about.help);
        declare.layout.computed_order.push(id);
    }
    Ok((declare.layout, declare.names))
}

struct Declare<'a, 'b> {
    context: &'a mut Context<'b>,
    written: &'a Written<'a>,
    resolve: Resolve,
    layout: Layout,
    names: Names,
}

impl Declare<'_, '_> {
    fn error(&self, span: core::ops::Range<usize>, message: String) -> LoadError {
        self.context.source.error(span, message)
    }

    /// Numbers a value; the name is checked and must be new.
    fn value(
        &mut self,
        name: &Spanned<String>,
        origin: Origin,
        kind: ValueKind,
        width_bits: u32,
    ) -> Result<usize, LoadError> {
        let id = self.layout.values.len();
        self.name(
            name,
            match kind {
                ValueKind::Unsigned => Ok(id),
                ValueKind::Signed => Err("is signed, and expressions are over unsigned integers"),
                ValueKind::Float => Err("is a float, and expressions are over unsigned integers"),
                ValueKind::Bytes => Err("is bytes, and expressions are over unsigned integers"),
            },
        )?;
        self.layout.values.push(Value {
            name: name.get_ref().clone(),
            origin,
            kind,
            width_bits,
            range: (0, super::word::mask(width_bits)),
            conditional: false,
            unit: None,
            help: String::new(),
        });
        Ok(id)
    }

    fn name(
        &mut self,
        name: &Spanned<String>,
        meaning: Result<usize, &'static str>,
    ) -> Result<(), LoadError> {
        let (span, text) = (name.span(), name.get_ref().as_str());
        let place = self.written.place;
        check_value_name(text)
            .map_err(|message| self.error(span.clone(), format!("{place}: {message}")))?;
        if self.context.parameters.contains_key(text) {
            let message = format!("{place}: `{text}` is also a parameter; rename one of them");
            return Err(self.error(span, message));
        }
        if self.names.known.insert(text.to_string(), meaning).is_some() {
            let message = format!("{place}: there are two fields `{text}`; rename one of them");
            return Err(self.error(span, message));
        }
        self.count_field(span)
    }

    fn count_field(&mut self, span: core::ops::Range<usize>) -> Result<(), LoadError> {
        self.context.fields += 1;
        match self.context.fields > FIELDS_MAX {
            true => Err(self.error(
                span,
                format!(
                    "there are more than {FIELDS_MAX} fields; describe repeated ones as a list \
                             or as records"
                ),
            )),
            false => Ok(()),
        }
    }

    fn field(&mut self, index: usize, written: &Spanned<model::Field>) -> Result<(), LoadError> {
        let field = written.get_ref();
        let name = field.name.as_ref().map(|name| name.get_ref().clone());
        let title = title(self.written.place, name.as_deref());
        let source = self.context.source;
        let error = |message: &str| source.error(written.span(), format!("{title}: {message}"));
        let packed = match (&field.bit_order, field.kind) {
            (None, _) => None,
            (Some(order), kind) => {
                let packed = kind.and_then(|kind| packed_of(kind, *order.get_ref()));
                Some(packed.ok_or_else(|| error(NOT_PACKED))?)
            }
        };
        let (mut kind, value_kind) = match (field.kind, &field.list) {
            (Some(_), Some(_)) => return Err(error("it has `type` and `list`; keep one of them")),
            (None, None) => {
                return Err(error(
                    "`type` is missing; write one of u8 u16 u24 u32 u40 u48 u56 u64 i8 i16 i32 \
                     i64 f32 f64 bytes decimal signed-decimal, or give it a `list`",
                ));
            }
            (Some(kind), None) => match packed {
                Some(_) => (ItemKind::Bytes { length: Expr::Constant(0) }, ValueKind::Bytes),
                None => item_kind(kind).ok_or_else(|| error(&odd_width(kind)))?,
            },
            (None, Some(list)) => (ItemKind::List(self.list(&title, list)?), ValueKind::Bytes),
        };
        if let Some(until) = &field.until {
            let marked = marked(field, until.get_ref(), &kind, value_kind);
            kind = marked.filter(|_| packed.is_none()).ok_or_else(|| error(WRONG_UNTIL))?;
        }
        self.check_shape(written, &title, &kind, value_kind)?;
        let width_bits = width_of(&kind, value_kind);
        let value = match (&field.name, &kind) {
            (Some(name), ItemKind::List(_)) => {
                self.name(name, Err("is a list; take a value out of it with `pick`"))?;
                None
            }
            (Some(name), _) => {
                let id = self.value(name, Origin::Word { item: index }, value_kind, width_bits)?;
                self.layout.values[id].unit.clone_from(&field.unit);
                self.layout.values[id].help.clone_from(&field.help);
                Some(id)
            }
            (None, _) => {
                self.count_field(written.span())?;
                None
            }
        };
        let bits = self.bits(index, width_bits, &field.bits)?;
        self.check_overlap(&bits, &field.bits)?;
        self.number_picks(index, &mut kind, field)?;
        let rules =
            self.rules(name.as_deref().unwrap_or("padding"), &field.one_of, &field.min, &field.max);
        self.layout.items.push(Item {
            name,
            value,
            kind,
            place: FieldOffset::AfterPrevious,
            byte_order: field.byte_order.unwrap_or(self.context.byte_order),
            packed,
            when: None,
            rules,
            bits,
            unit: field.unit.clone(),
            help: field.help.clone(),
        });
        Ok(())
    }

    /// Checks that the keys of a field go together.
    fn check_shape(
        &self,
        written: &Spanned<model::Field>,
        title: &str,
        kind: &ItemKind,
        value_kind: ValueKind,
    ) -> Result<(), LoadError> {
        let field = written.get_ref();
        let error = |message: &str| Err(self.error(written.span(), format!("{title}: {message}")));
        let ruled =
            |equals: bool, one_of: bool, min: bool, max: bool| equals || one_of || min || max;
        let word_rules = ruled(
            field.equals.is_some(),
            field.one_of.is_some(),
            field.min.is_some(),
            field.max.is_some(),
        );
        let bit_rules = field.bits.iter().map(Spanned::get_ref).any(|bits| {
            ruled(
                bits.equals.is_some(),
                bits.one_of.is_some(),
                bits.min.is_some(),
                bits.max.is_some(),
            )
        });
        let empty = |one_of: &Option<Spanned<Vec<u64>>>| {
            one_of.as_ref().is_some_and(|values| values.get_ref().is_empty())
        };
        if empty(&field.one_of) || field.bits.iter().any(|bits| empty(&bits.get_ref().one_of)) {
            return error("`one-of` is empty, so no packet would be right; name the values");
        }
        if field.length.is_some() != has_length(kind) {
            return error(length_remedy(field, kind));
        }
        let is_word = matches!(kind, ItemKind::Word { .. });
        let is_plain_word = is_word && value_kind == ValueKind::Unsigned;
        if !(field.bits.is_empty() || is_plain_word) {
            return error("only unsigned integers have `bits`; write type = \"u8\" to \"u64\"");
        }
        if word_rules && (value_kind != ValueKind::Unsigned || field.name.is_none()) {
            return error(
                "`equals`, `one-of`, `min` and `max` are for unsigned integers that have a name",
            );
        }
        if (word_rules || bit_rules) && self.written.part != LayoutKind::Header {
            return error("rules are checked in the header only; leave `equals` and the like out");
        }
        if self.written.part == LayoutKind::ListItem {
            let varying = field.when.is_some()
                || field.list.is_some()
                || field.length.is_some()
                || field.until.is_some();
            if varying || field.at.is_some() {
                return error(
                    "the fields of a list item follow one another and have fixed sizes; leave \
                     `when`, `at`, `list` and bytes out",
                );
            }
        }
        Ok(())
    }

    fn rules(
        &mut self,
        name: &str,
        one_of: &Option<Spanned<Vec<u64>>>,
        min: &Option<Spanned<u64>>,
        max: &Option<Spanned<u64>>,
    ) -> Rules {
        let place = self.written.place;
        let rule = match self.written.part {
            LayoutKind::Header => self.context.rule(format!("{place}, field `{name}`")),
            LayoutKind::Record | LayoutKind::ListItem => u16::MAX,
        };
        Rules {
            equals: None,
            one_of: one_of.as_ref().map_or(Vec::new(), |values| values.get_ref().clone()),
            min: min.as_ref().map(|min| *min.get_ref()),
            max: max.as_ref().map(|max| *max.get_ref()),
            rule,
        }
    }

    fn bits(
        &mut self,
        item: usize,
        word_bits: u32,
        written: &[Spanned<model::BitField>],
    ) -> Result<Vec<BitPart>, LoadError> {
        let mut parts = Vec::new();
        for bits in written.iter().map(Spanned::get_ref) {
            let name = bits.name.get_ref();
            let (high, low) = bit_range(bits.bits.get_ref(), word_bits).map_err(|message| {
                let title = title(self.written.place, Some(name));
                self.error(bits.bits.span(), format!("{title}: {message}"))
            })?;
            let width = high - low + 1;
            let origin = Origin::Bits { item, low, width };
            let value = self.value(&bits.name, origin, ValueKind::Unsigned, u32::from(width))?;
            self.layout.values[value].unit.clone_from(&bits.unit);
            self.layout.values[value].help.clone_from(&bits.help);
            let rules = self.rules(name, &bits.one_of, &bits.min, &bits.max);
            let (unit, help) = (bits.unit.clone(), bits.help.clone());
            parts.push(BitPart { name: name.clone(), value, low, width, rules, unit, help });
        }
        Ok(parts)
    }

    fn check_overlap(
        &self,
        parts: &[BitPart],
        written: &[Spanned<model::BitField>],
    ) -> Result<(), LoadError> {
        for (index, part) in parts.iter().enumerate() {
            let end = |part: &BitPart| u32::from(part.low) + u32::from(part.width);
            let clash = parts[..index].iter().find(|before| {
                u32::from(part.low) < end(before) && u32::from(before.low) < end(part)
            });
            if let Some(other) = clash {
                let title = title(self.written.place, Some(&part.name));
                let message = format!(
                    "{title}: its bits overlap those of `{}`, {}..{}; correct one of them",
                    other.name,
                    end(other) - 1,
                    other.low
                );
                return Err(self.error(written[index].get_ref().bits.span(), message));
            }
        }
        Ok(())
    }

    fn list(&mut self, title: &str, written: &Spanned<model::List>) -> Result<List, LoadError> {
        let list = written.get_ref();
        let place = format!("{title}, list item");
        let item = Written {
            part: LayoutKind::ListItem,
            place: &place,
            fields: &list.fields,
            computed: &[],
            select: None,
            size: (0, 0),
        };
        let resolved = (self.resolve)(self.context, &item)?;
        let item_bytes = resolved.layout.min_bytes;
        if item_bytes == 0 {
            let message = format!("{title}: a list item has no fields; give it `fields`");
            return Err(self.error(written.span(), message));
        }
        let pick = match &list.pick {
            None => None,
            Some(pick) => {
                let find = |name: &Spanned<String>| {
                    resolved.names.value(name.get_ref()).map_err(|message| {
                        self.error(name.span(), format!("{title}, `pick`: {message}"))
                    })
                };
                let (key, value) = (find(&pick.get_ref().key)?, find(&pick.get_ref().value)?);
                if pick.get_ref().values.len() > PICKS_MAX {
                    let message = format!("{title}: `pick` takes at most {PICKS_MAX} values");
                    return Err(self.error(pick.span(), message));
                }
                Some(Pick { key, value, values: Vec::new() })
            }
        };
        let rule = self.context.rule(title.to_string());
        Ok(List { count: Expr::Constant(0), item_bytes, item: resolved.layout, pick, rule })
    }

    /// Numbers what is taken out of a list, and completes the list's `pick`.
    fn number_picks(
        &mut self,
        item: usize,
        kind: &mut ItemKind,
        field: &model::Field,
    ) -> Result<(), LoadError> {
        let ItemKind::List(list) = kind else { return Ok(()) };
        let (Some(pick), Some(written)) = (&mut list.pick, &field.list) else { return Ok(()) };
        let written = written.get_ref().pick.as_ref().map(|pick| &pick.get_ref().values);
        let key_max = list.item.values[pick.key].range.1;
        let width_bits = list.item.values[pick.value].width_bits;
        for (number, picked) in written.into_iter().flatten().enumerate() {
            let about = picked.get_ref();
            let place = self.written.place;
            if about.is > key_max {
                let message = format!(
                    "{place}, field `{}`: `is` is {}, but the key is at most {key_max}",
                    about.name.get_ref(),
                    about.is
                );
                return Err(self.error(picked.span(), message));
            }
            let origin = Origin::Picked { item, pick: number };
            let id = self.value(&about.name, origin, ValueKind::Unsigned, width_bits)?;
            self.layout.values[id].help.clone_from(&about.help);
            let name = about.name.get_ref().clone();
            let rule = self.context.rule(format!("{place}, list value `{name}`"));
            let (is, required, help) = (about.is, about.required, about.help.clone());
            pick.values.push(Picked { name, is, required, value: id, rule, help });
        }
        Ok(())
    }
}

/// The remedy for `bit-order` beside a type that has no bits.
const NOT_PACKED: &str = "`bit-order` makes packed samples of a type from u1 to u32 or i2 to i32, \
     with `length`, the number of their bytes; correct `type`, or leave `bit-order` out";

/// Returns the samples of a type in an order of bits; `None` for types that cannot be packed.
fn packed_of(kind: FieldType, order: BitOrder) -> Option<Packed> {
    let (bits, signed) = match kind {
        FieldType::Odd { bits, signed } => (bits, signed),
        kind => match item_kind(kind)? {
            (ItemKind::Word { bytes, kind: ValueKind::Unsigned }, _) => (bytes * 8, false),
            (ItemKind::Word { bytes, kind: ValueKind::Signed }, _) => (bytes * 8, true),
            _ => return None,
        },
    };
    let fits = bits <= PACKED_BITS_MAX && !(signed && bits < 2);
    fits.then_some(Packed { bits, signed, order })
}

/// The remedy for a width that is not a whole number of bytes.
fn odd_width(kind: FieldType) -> String {
    let FieldType::Odd { bits, signed } = kind else { return String::new() };
    let letter = if signed { 'i' } else { 'u' };
    format!(
        "`{letter}{bits}` is not one of u8 u16 u24 u32 u40 u48 u56 u64 i8 i16 i32 i64 f32 f64 \
         bytes; for packed samples add `bit-order = \"msb-first\"` or \"lsb-first\" and `length`, \
         for a part of a word use `bits`"
    )
}

/// Returns the kind of item of a type; `None` when its width is not a whole number of bytes.
fn item_kind(kind: FieldType) -> Option<(ItemKind, ValueKind)> {
    let (bytes, value) = match kind {
        FieldType::U8 => (1, ValueKind::Unsigned),
        FieldType::U16 => (2, ValueKind::Unsigned),
        FieldType::U24 => (3, ValueKind::Unsigned),
        FieldType::U32 => (4, ValueKind::Unsigned),
        FieldType::U40 => (5, ValueKind::Unsigned),
        FieldType::U48 => (6, ValueKind::Unsigned),
        FieldType::U56 => (7, ValueKind::Unsigned),
        FieldType::U64 => (8, ValueKind::Unsigned),
        FieldType::I8 => (1, ValueKind::Signed),
        FieldType::I16 => (2, ValueKind::Signed),
        FieldType::I32 => (4, ValueKind::Signed),
        FieldType::I64 => (8, ValueKind::Signed),
        FieldType::F32 => (4, ValueKind::Float),
        FieldType::F64 => (8, ValueKind::Float),
        FieldType::Bytes => {
            return Some((ItemKind::Bytes { length: Expr::Constant(0) }, ValueKind::Bytes));
        }
        FieldType::Decimal | FieldType::SignedDecimal => {
            let content = match kind {
                FieldType::Decimal => ValueKind::Unsigned,
                _ => ValueKind::Signed,
            };
            let end = TextEnd::Length(Expr::Constant(0));
            return Some((ItemKind::Text(Text { content, end }), content));
        }
        FieldType::Odd { .. } => return None,
    };
    Some((ItemKind::Word { bytes, kind: value }, value))
}

/// Returns true when a field of this kind needs a length.
fn has_length(kind: &ItemKind) -> bool {
    match kind {
        ItemKind::Bytes { .. } => true,
        ItemKind::Text(text) => matches!(text.end, TextEnd::Length(_)),
        ItemKind::Word { .. } | ItemKind::List(_) => false,
    }
}

/// The remedy for a length that is missing, or in a wrong place.
fn length_remedy(field: &model::Field, kind: &ItemKind) -> &'static str {
    match (&field.bit_order, kind) {
        (Some(_), _) => "packed samples need `length`, the number of their bytes",
        (None, ItemKind::Text(_)) => {
            "a decimal number needs `length`, or `until` with the letters that end it"
        }
        (None, _) => "`length` and `type = \"bytes\"` go together; write both or neither",
    }
}

/// The bits of a field's value; 0 for bytes and lists.
fn width_of(kind: &ItemKind, value_kind: ValueKind) -> u32 {
    match (kind, value_kind) {
        (ItemKind::Word { bytes, .. }, _) => u32::from(*bytes) * 8,
        (ItemKind::Text(_), ValueKind::Unsigned | ValueKind::Signed) => 64,
        (ItemKind::Bytes { .. } | ItemKind::Text(_) | ItemKind::List(_), _) => 0,
    }
}

/// Most letters that end a text.
const MARKS_MAX: usize = 16;

/// The remedy for `until` in a wrong place or form.
const WRONG_UNTIL: &str = "`until` is one to 16 ASCII letters that end bytes or a decimal \
     number, in place of `length`; correct it, or leave one of them out";

/// The kind of a field that ends before a mark; `None`: it cannot, or the marks are wrong.
fn marked(
    field: &model::Field,
    until: &str,
    kind: &ItemKind,
    content: ValueKind,
) -> Option<ItemKind> {
    let is_text = matches!(kind, ItemKind::Bytes { .. } | ItemKind::Text(_));
    let right = (1..=MARKS_MAX).contains(&until.len()) && until.is_ascii();
    let end = TextEnd::Mark(until.as_bytes().to_vec());
    (is_text && right && field.length.is_none()).then_some(ItemKind::Text(Text { content, end }))
}

/// The highest and the lowest bit of `written`, within a word of `word_bits`.
fn bit_range(written: &BitRange, word_bits: u32) -> Result<(u8, u8), String> {
    let (high, low) = match written {
        BitRange::One(bit) => (*bit, *bit),
        BitRange::Text(text) => {
            let ends = text.split_once("..").unwrap_or((text, text));
            let number = |end: &str| {
                end.trim().parse::<u64>().map_err(|_| {
                    format!("`bits = \"{text}\"` is not \"high..low\", like \"11..6\", nor one bit")
                })
            };
            (number(ends.0)?, number(ends.1)?)
        }
    };
    if high < low {
        return Err(format!("write the higher bit first: bits = \"{low}..{high}\""));
    }
    let fits = u8::try_from(high).ok().filter(|&high| u32::from(high) < word_bits);
    match (fits, u8::try_from(low)) {
        (Some(high), Ok(low)) => Ok((high, low)),
        _ => Err(format!(
            "bit {high} lies outside its word, whose bits are {}..0",
            word_bits.saturating_sub(1)
        )),
    }
}

/// A name is a letter, then letters, digits and `_`.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let starts = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    if !starts || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return Err(format!(
            "`{name}` is not a name; write a letter, then letters, digits and `_`"
        ));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("`{name}` is longer than {NAME_BYTES_MAX} letters"));
    }
    Ok(())
}

/// The name of a value means nothing else either.
pub(crate) fn check_value_name(name: &str) -> Result<(), String> {
    check_name(name)?;
    match RESERVED.contains(&name) {
        true => Err(format!(
            "`{name}` has a meaning of its own in expressions; write for example `{name}_field`"
        )),
        false => Ok(()),
    }
}
