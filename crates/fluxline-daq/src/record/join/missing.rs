//! The text about an event's missing parts, and its change when more of them have come.
//!
//! The text is a list of items, separated by "; ", each with its source's label before ": "
//! (docs/events.md). Unknown items are left unchanged: an event is complete only when every item is
//! resolved.

use std::fmt::Write;

use crate::builder::{LOST, SENT_NOTHING};
use crate::event::{MARKED, UNDECIDED};

/// The mark of a text that was cut.
const CUT: char = '…';

/// Missing parts of a fragment: packet numbers or bytes, both ends included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Returns all parts of a fragment of `total`.
    pub(super) fn all(total: u64) -> Ranges {
        Ranges(if total == 0 { Vec::new() } else { vec![(0, total - 1)] })
    }

    fn parse(text: &str) -> Option<Ranges> {
        let ranges = text.split(", ").map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let pair = (first.parse().ok()?, last.parse().ok()?);
            (pair.0 <= pair.1).then_some(pair)
        });
        ranges.collect::<Option<_>>().map(Ranges)
    }

    /// Removes the parts from `first` to `last`, which came.
    pub(super) fn remove(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let old = std::mem::take(&mut self.0);
        for (from, to) in old {
            if last < from || to < first {
                self.0.push((from, to));
                continue;
            }
            if from < first {
                self.0.push((from, first - 1));
            }
            if last < to {
                self.0.push((last + 1, to));
            }
        }
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for (first, last) in &self.0 {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = match first == last {
                true => write!(text, "{comma}{first}"),
                false => write!(text, "{comma}{first}-{last}"),
            };
        }
        text
    }
}

/// The unit of parts, as texts name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Packets,
    Bytes,
}

impl Unit {
    fn as_str(self) -> &'static str {
        match self {
            Unit::Packets => "packets",
            Unit::Bytes => "bytes",
        }
    }
}

/// The part of its fragment that a late packet is, by the text of its row; whole without a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatePart {
    Whole,
    Part { unit: Unit, first: u64, last: u64, total: u64 },
}

impl LatePart {
    /// Reads "packet 3 of 64", "bytes 100-199 of 4096" or "no bytes of 4096".
    pub(super) fn parse(text: &str) -> Option<LatePart> {
        if text.is_empty() {
            return Some(LatePart::Whole);
        }
        let (parts, total) = text.split_once(" of ")?;
        let total = total.parse().ok()?;
        if parts == "no bytes" {
            return Some(LatePart::Part { unit: Unit::Bytes, first: 1, last: 0, total });
        }
        let (unit, range) = match parts.split_once(' ')? {
            ("packet", range) => (Unit::Packets, range),
            ("bytes", range) => (Unit::Bytes, range),
            _ => return None,
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(LatePart::Part { unit, first: first.parse().ok()?, last: last.parse().ok()?, total })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// Too few sources came.
    Count { came: u32, of: u32 },
    /// A source is missing as a whole.
    Absent { label: String, reason: String },
    /// Parts of a fragment are missing.
    Parts { label: String, unit: Unit, missing: Ranges, total: u64 },
    /// Something else.
    Other(String),
}

impl Item {
    fn label(&self) -> Option<&str> {
        match self {
            Item::Absent { label, .. } | Item::Parts { label, .. } => Some(label),
            Item::Count { .. } | Item::Other(_) => None,
        }
    }
}

/// The text of one event, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    items: Vec<Item>,
}

impl Missing {
    /// Takes a text apart; `labels` are those of all sources.
    pub(super) fn parse<'a>(text: &str, labels: impl Iterator<Item = &'a str> + Clone) -> Missing {
        let items = text.split("; ").filter(|item| !item.is_empty());
        Missing { items: items.map(|item| parse_item(item, labels.clone())).collect() }
    }

    /// Removes everything that is missing of a source's fragment.
    pub(super) fn came(&mut self, label: &str) {
        self.items.retain(|item| match item {
            Item::Absent { label: its, .. } | Item::Parts { label: its, .. } => its != label,
            Item::Count { .. } | Item::Other(_) => true,
        });
        self.count();
    }

    /// Begins the fragment of a source with a late part: all of a fragment of several parts is
    /// missing, unless that is known otherwise.
    pub(super) fn begin(&mut self, label: &str, part: LatePart) {
        let LatePart::Part { unit, total, .. } = part else { return };
        if !self.names(label) {
            let (label, missing) = (label.to_owned(), Ranges::all(total));
            self.insert(Item::Parts { label, unit, missing, total });
        }
    }

    /// Removes a part of a source's fragment, which came.
    pub(super) fn part_came(&mut self, label: &str, part: LatePart) {
        let LatePart::Part { unit, first, last, total } = part else { return self.came(label) };
        let is_its = |item: &Item| match item {
            Item::Absent { label: its, .. } => its == label,
            Item::Parts { label: its, unit: its_unit, total: its_total, .. } => {
                its == label && (*its_unit, *its_total) == (unit, total)
            }
            Item::Count { .. } | Item::Other(_) => false,
        };
        let Some(at) = self.items.iter().position(is_its) else { return };
        if let Item::Absent { .. } = self.items[at] {
            let (label, missing) = (label.to_owned(), Ranges::all(total));
            self.items[at] = Item::Parts { label, unit, missing, total };
        }
        if let Item::Parts { missing, .. } = &mut self.items[at] {
            missing.remove(first, last);
            if missing.0.is_empty() {
                self.items.remove(at);
                self.count();
            }
        }
    }

    /// Counts one more source.
    fn count(&mut self) {
        for item in &mut self.items {
            if let Item::Count { came, .. } = item {
                *came += 1;
            }
        }
        self.items.retain(|item| !matches!(item, Item::Count { came, of } if came >= of));
    }

    /// Removes a source that had sent nothing, whatever it was missed for.
    pub(super) fn was_not_sent(&mut self, label: &str) {
        self.items.retain(|item| {
            let is_its = matches!(item, Item::Absent { .. }) && item.label() == Some(label);
            !is_its
        });
    }

    /// States that a source had sent nothing, which is required.
    pub(super) fn required_was_not_sent(&mut self, label: &str) {
        for item in &mut self.items {
            match item {
                Item::Absent { label: its, reason } if its == label => {
                    *reason = SENT_NOTHING.to_owned();
                }
                _ => {}
            }
        }
    }

    /// Adds a source that has nothing in the event, where packets of it are lost.
    pub(super) fn was_lost(&mut self, label: &str) {
        let lost = LOST.to_owned();
        let its =
            |item: &&mut Item| matches!(item, Item::Absent { label: its, .. } if its == label);
        match self.items.iter_mut().find(its) {
            Some(Item::Absent { reason, .. }) => *reason = lost,
            _ => self.insert(Item::Absent { label: label.to_owned(), reason: lost }),
        }
    }

    /// Returns true when an item is about a source.
    fn names(&self, label: &str) -> bool {
        self.items.iter().any(|item| item.label() == Some(label))
    }

    /// Adds an item of a source, in the order of labels.
    fn insert(&mut self, item: Item) {
        let is_behind = |its: &Item| match its {
            Item::Other(_) => true,
            Item::Count { .. } => false,
            Item::Absent { .. } | Item::Parts { .. } => its.label() > item.label(),
        };
        let at = self.items.iter().position(is_behind).unwrap_or(self.items.len());
        self.items.insert(at, item);
    }

    /// Returns true when nothing is missing. The marks of filters say nothing about that.
    pub(super) fn is_empty(&self) -> bool {
        self.items
            .iter()
            .all(|item| matches!(item, Item::Other(text) if text == UNDECIDED || text == MARKED))
    }

    /// Returns the text.
    pub(super) fn to_text(&self) -> String {
        let items = self.items.iter().map(|item| match item {
            Item::Count { came, of } => format!("{came} of {of} sources came"),
            Item::Absent { label, reason } => format!("{label}: {reason}"),
            Item::Parts { label, unit, missing, total } => {
                format!("{label}: {} {} of {total} missing", unit.as_str(), missing.to_text())
            }
            Item::Other(text) => text.clone(),
        });
        items.collect::<Vec<_>>().join("; ")
    }
}

fn parse_item<'a>(text: &str, labels: impl Iterator<Item = &'a str>) -> Item {
    if text.ends_with(CUT) {
        return Item::Other(text.to_owned());
    }
    let numbers = text.strip_suffix(" sources came").and_then(|its| its.split_once(" of "));
    if let Some((Ok(came), Ok(of))) = numbers.map(|(came, of)| (came.parse(), of.parse())) {
        return Item::Count { came, of };
    }
    let rest = |label: &'a str| {
        let rest = text.strip_prefix(label)?.strip_prefix(": ")?;
        Some((label, rest))
    };
    let Some((label, reason)) = labels.filter_map(rest).max_by_key(|its| its.0.len()) else {
        return Item::Other(text.to_owned());
    };
    let label = label.to_owned();
    parse_parts(reason).map_or_else(
        || Item::Absent { label: label.clone(), reason: reason.to_owned() },
        |(unit, missing, total)| Item::Parts { label: label.clone(), unit, missing, total },
    )
}

fn parse_parts(text: &str) -> Option<(Unit, Ranges, u64)> {
    let (ranges, total) = text.strip_suffix(" missing")?.rsplit_once(" of ")?;
    let (unit, ranges) = match ranges.split_once(' ')? {
        ("packets", ranges) => (Unit::Packets, ranges),
        ("bytes", ranges) => (Unit::Bytes, ranges),
        _ => return None,
    };
    Some((unit, Ranges::parse(ranges)?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: [&str; 3] = ["board=1", "board=10", "file/board=1"];

    fn parse(text: &str) -> Missing {
        Missing::parse(text, LABELS.into_iter())
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        for text in [
            "",
            "board=1: lost",
            "board=10: silent since key 4999; board=1: packets 3, 7-9 of 64 missing",
            "2 of 6 sources came; file/board=1: sent nothing",
            "board=7: lost; something else",
            "board=1: bytes 0-99 of 100 missing; …",
        ] {
            assert_eq!(parse(text).to_text(), text);
        }
    }

    #[test]
    fn nothing_is_missing_when_every_item_is_answered() {
        let mut missing = parse("1 of 2 sources came; board=1: lost; board=10: lost");
        missing.came("board=10");
        assert_eq!(missing.to_text(), "board=1: lost");
        missing.came("board=1");
        assert!(missing.is_empty());
        let mut cut = parse("board=1: lost; …");
        cut.came("board=1");
        assert!(!cut.is_empty(), "what was cut is not known");
    }

    #[test]
    fn the_mark_of_a_filter_that_failed_stays_and_hides_nothing() {
        let mut missing = parse("board=1: lost; filter: no decision");
        assert!(!missing.is_empty());
        missing.came("board=1");
        assert!(missing.is_empty());
        assert_eq!(missing.to_text(), "filter: no decision");
    }

    #[test]
    fn parts_that_come_late_fill_a_fragment() {
        let mut missing = parse("board=1: packets 3, 7-9 of 64 missing");
        for (packet, left) in [
            (8, "board=1: packets 3, 7, 9 of 64 missing"),
            (3, "board=1: packets 7, 9 of 64 missing"),
            (7, "board=1: packets 9 of 64 missing"),
            (9, ""),
        ] {
            let part = LatePart::parse(&format!("packet {packet} of 64")).unwrap();
            missing.part_came("board=1", part);
            assert_eq!(missing.to_text(), left);
        }
        let mut absent = parse("board=1: lost");
        absent.part_came("board=1", LatePart::parse("bytes 0-49 of 100").unwrap());
        assert_eq!(absent.to_text(), "board=1: bytes 50-99 of 100 missing");
        absent.part_came("board=1", LatePart::parse("bytes 50-99 of 100").unwrap());
        assert!(absent.is_empty());
    }

    #[test]
    fn an_amendment_answers_what_a_source_was_missed_for_and_no_part_of_its_fragment() {
        for reason in ["silent since key 7", "had not come yet", "lost"] {
            let text = format!("board=1: {reason}; board=10: packets 1 of 2 missing");
            let mut missing = parse(&text);
            missing.was_not_sent("board=1");
            missing.was_not_sent("board=10");
            assert_eq!(missing.to_text(), "board=10: packets 1 of 2 missing");
            let mut missing = parse(&text);
            missing.required_was_not_sent("board=1");
            let left = "board=1: sent nothing; board=10: packets 1 of 2 missing";
            assert_eq!(missing.to_text(), left);
        }
    }

    #[test]
    fn a_loss_that_is_known_later_and_the_rest_of_a_late_fragment_are_missing() {
        let mut missing = parse("board=10: lost; filter: marked");
        missing.was_lost("board=1");
        missing.was_lost("file/board=1");
        let all = "board=1: lost; board=10: lost; file/board=1: lost; filter: marked";
        assert_eq!(missing.to_text(), all);
        let mut silent = parse("board=1: silent since key 7");
        silent.was_lost("board=1");
        assert_eq!(silent.to_text(), "board=1: lost");
        for (text, left) in [
            ("packet 0 of 2", "board=1: packets 1 of 2 missing"),
            ("bytes 10-19 of 30", "board=1: bytes 0-9, 20-29 of 30 missing"),
            ("no bytes of 30", "board=1: bytes 0-29 of 30 missing"),
            ("", ""),
        ] {
            let (mut missing, part) = (parse(""), LatePart::parse(text).unwrap());
            missing.begin("board=1", part);
            missing.part_came("board=1", part);
            assert_eq!(missing.to_text(), left);
        }
    }
}
