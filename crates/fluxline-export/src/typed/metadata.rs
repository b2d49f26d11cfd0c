//! Metadata of columns and tables: units, meanings, roles, the run's identity.

use std::collections::HashMap;

use arrow_schema::{DataType, Field};
use fluxline_packet::decode::Column;
use fluxline_packet::expression::Expr;
use fluxline_packet::layout::{Fragment, Layout, Origin, PacketType, Rules, SourceTerm};
use fluxline_packet::model::Epoch;

/// Key of a column's metadata: the unit of its values.
pub const KEY_UNIT: &str = "unit";
/// Key of a column's metadata: its meaning.
pub const KEY_HELP: &str = "help";
/// Key of a column's metadata: `common`, `header`, `record` or `payload`.
pub const KEY_PART: &str = "part";
/// Key of a column's metadata: the field's name in the description, where the column's is another.
pub const KEY_FIELD: &str = "field";
/// Key of a column's metadata: the role of the field, such as `sequence` or `event key`.
pub const KEY_ROLE: &str = "role";
/// Key of a column's metadata: the values that the description allows, separated by commas.
pub const KEY_ALLOWED: &str = "allowed";
/// Key of a column's metadata: the name of a common column, such as `time`, under any name.
pub const KEY_COMMON: &str = "common";
/// Key of a time column's metadata: the start of its time.
pub const KEY_EPOCH: &str = "epoch";

/// The part of a packet that a column is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Common,
    Header,
    Record,
    Payload,
}

impl Part {
    const fn word(self) -> &'static str {
        match self {
            Part::Common => "common",
            Part::Header => "header",
            Part::Record => "record",
            Part::Payload => "payload",
        }
    }
}

/// A column's name, its name in the description, and its metadata so far.
pub(super) struct Label {
    pub name: String,
    metadata: HashMap<String, String>,
}

impl Label {
    pub fn new(name: String, part: Part) -> Label {
        let metadata = HashMap::from([(KEY_PART.to_owned(), part.word().to_owned())]);
        Label { name, metadata }
    }

    /// Adds a text that is not empty.
    pub fn with(mut self, key: &str, text: &str) -> Label {
        if !text.is_empty() {
            self.metadata.insert(key.to_owned(), text.to_owned());
        }
        self
    }

    /// Adds the unit and the meaning of a value of the description.
    pub fn describing(self, column: &Column) -> Label {
        let renamed = if self.name == column.name { "" } else { &column.name };
        let unit = column.unit.as_deref().unwrap_or("");
        self.with(KEY_UNIT, unit).with(KEY_HELP, &column.help).with(KEY_FIELD, renamed)
    }

    pub fn field(self, kind: DataType, nullable: bool) -> Field {
        Field::new(self.name, kind, nullable).with_metadata(self.metadata)
    }
}

/// Returns the roles of value number `id` of a packet's header, separated by commas.
pub(super) fn roles(packet: &PacketType, id: usize) -> String {
    let mut roles = Vec::new();
    let mut role = |expression: Option<&Expr>, word: &'static str| {
        if expression == Some(&Expr::Value(id)) {
            roles.push(word);
        }
    };
    role(packet.sequence.as_ref().map(|its| &its.value), "sequence");
    role(packet.event.as_ref().map(|its| &its.key), "event key");
    let spill = packet.event.as_ref().and_then(|its| its.spill.as_ref());
    role(spill.map(|its| &its.value), "spill");
    match &packet.fragment {
        Fragment::Whole => {}
        Fragment::Index { index, count, .. } => {
            role(Some(index), "fragment index");
            role(Some(count), "fragment count");
        }
        Fragment::Bytes { offset, total, .. } => {
            role(Some(offset), "fragment offset");
            role(Some(total), "fragment total");
        }
    }
    let time = packet.timestamp.as_ref();
    role(time.and_then(|its| its.seconds.as_ref()), "timestamp seconds");
    role(time.and_then(|its| its.ticks.as_ref()), "timestamp ticks");
    let term = |term: &SourceTerm| matches!(term, SourceTerm::Value { value, .. } if *value == id);
    if packet.source.iter().any(term) {
        roles.push("source");
    }
    roles.join(", ")
}

/// Returns the values that the rules of value number `id` allow, where they are listed.
pub(super) fn allowed(layout: &Layout, id: usize) -> String {
    let rules = match layout.values[id].origin {
        Origin::Word { item } => &layout.items[item].rules,
        Origin::Bits { item, .. } => {
            let part = layout.items[item].bits.iter().find(|part| part.value == id);
            let Some(part) = part else { return String::new() };
            &part.rules
        }
        Origin::Picked { .. } | Origin::Computed { .. } => return String::new(),
    };
    let Rules { equals, one_of, .. } = rules;
    let constant = equals.as_ref().and_then(Expr::constant);
    let values = constant.iter().chain(one_of).map(u64::to_string);
    values.collect::<Vec<_>>().join(",")
}

/// Returns the start of a packet type's time.
pub(super) fn epoch(packet: &PacketType) -> &'static str {
    // A start of time that packets name is added to their times: these count from 1970.
    match packet.timestamp.as_ref().map(|time| time.epoch) {
        None => "",
        Some(Epoch::Unix) => "1970-01-01 UTC",
        Some(Epoch::Tai) => "1970-01-01 TAI",
        Some(Epoch::Gps) => "1980-01-06 UTC, leap seconds counted",
        Some(Epoch::Start) => "start of the source",
    }
}
