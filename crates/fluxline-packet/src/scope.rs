//! The names that an expression may use in its place, and the name of that place in messages.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

use super::expression::{Expr, parse};
use super::interval::Range;
use super::layout::Layout;
use super::model;
use fluxline_toml::nearest;
use fluxline_toml::{LoadError, TomlText};

/// Largest UDP payload \[byte\].
pub const PACKET_BYTES_MAX: u32 = 65_535;

/// The file around a layout while it is resolved, and the numbers that are given out.
pub(crate) struct Context<'a> {
    pub source: TomlText<'a>,
    pub byte_order: model::ByteOrder,
    pub parameters: BTreeMap<String, u64>,
    /// Names of the rules so far, by number.
    pub rules: Vec<String>,
    /// The packet type that each rule belongs to.
    pub rule_packets: Vec<u8>,
    /// The packet type that is being resolved.
    pub packet: u8,
    /// The number of fields so far.
    pub fields: usize,
}

impl Context<'_> {
    /// A number for a rule, with the name a report shows for it.
    pub fn rule(&mut self, name: String) -> u16 {
        self.rules.push(name);
        self.rule_packets.push(self.packet);
        u16::try_from(self.rules.len() - 1).unwrap_or(u16::MAX)
    }

    /// Parses an expression over `layout`'s values; `what` says where in the file it stands.
    pub fn expression(
        &self,
        written: &model::Expression,
        span: core::ops::Range<usize>,
        what: &str,
        names: &Names,
    ) -> Result<Expr, LoadError> {
        let text = match written {
            model::Expression::Integer(constant) => return Ok(Expr::Constant(*constant)),
            model::Expression::Text(text) => text,
        };
        let parsed = parse(text, &|name| match self.parameters.get(name) {
            Some(&value) => Ok(Expr::Constant(value)),
            None => names.resolve(name, self.parameters.keys().map(String::as_str)),
        });
        parsed.map_err(|message| self.source.error(span, format!("{what}: {message}")))
    }
}

/// The part of a description that a layout is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutKind {
    Header,
    Record,
    ListItem,
}

/// A checked layout and its names.
pub(crate) struct Resolved {
    pub layout: Layout,
    pub select: Option<Expr>,
    pub names: Names,
    /// Range of `size` after the header.
    pub size: Range,
}

/// Resolves the fields of one part; lists call it for their items.
pub(crate) type Resolve = fn(&mut Context<'_>, &Written<'_>) -> Result<Resolved, LoadError>;

/// The fields of one part, as written.
pub(crate) struct Written<'a> {
    pub part: LayoutKind,
    /// Its name in messages: ``packet `data` ``.
    pub place: &'a str,
    pub fields: &'a [Spanned<model::Field>],
    pub computed: &'a [Spanned<model::Computed>],
    pub select: Option<&'a Spanned<model::Expression>>,
    /// The range of `size` by the size rule.
    pub size: Range,
}

/// The meaning of each name of a layout.
pub(crate) struct Names {
    pub part: LayoutKind,
    /// The number of the value, or why it has none.
    pub known: BTreeMap<String, Result<usize, &'static str>>,
}

impl Names {
    /// Returns the meaning of `name` in an expression.
    pub fn resolve<'a>(
        &'a self,
        name: &str,
        parameters: impl Iterator<Item = &'a str>,
    ) -> Result<Expr, String> {
        match (name, self.part) {
            ("size", LayoutKind::Header) => return Ok(Expr::Size),
            ("port", LayoutKind::Header) => return Ok(Expr::Port),
            ("size" | "port", _) => {
                return Err(format!("`{name}` is known in the header only, not in records"));
            }
            _ => {}
        }
        match self.known.get(name) {
            Some(Ok(id)) => Ok(Expr::Value(*id)),
            Some(Err(why)) => Err(format!("`{name}` {why}")),
            None => {
                let known = self.known.keys().map(String::as_str).chain(parameters);
                let hint = nearest(name, known.chain(["size", "port"]));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                Err(format!("no field, computed value or parameter is called `{name}`{hint}"))
            }
        }
    }

    /// The number of the value of that name, else what to write.
    pub fn value(&self, name: &str) -> Result<usize, String> {
        match self.resolve(name, core::iter::empty())? {
            Expr::Value(id) => Ok(id),
            _ => Err(format!("`{name}` is not a field")),
        }
    }
}

/// Returns a field's name for messages.
pub(crate) fn title(place: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{place}, field `{name}`"),
        None => format!("{place}, padding field"),
    }
}
