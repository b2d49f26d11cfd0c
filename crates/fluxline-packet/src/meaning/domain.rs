//! The independent parts of packets that a value is made from, each with the values that rules
//! allow it.
//!
//! A word without rules is taken apart into its bits, since each may be 0 or 1 whatever the others
//! are. A part or a word with rules is one variable, and so is the size of the packet.

use alloc::vec;
use alloc::vec::Vec;

use super::Narrow;
use crate::expression::Expr;
use crate::layout::{Item, ItemKind, Layout, Origin, Rules};
use crate::word::{extract, mask};

/// Longest word whose allowed values are listed one by one \[bit\].
const LISTED_BITS_MAX: u32 = 16;

/// A word of the packet, or a number that comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The word of item number `.0`.
    Item(usize),
    /// The value number `.1` that is taken out of the list of item number `.0`.
    Picked(usize, usize),
    Size,
    Port,
}

/// A part of a word that varies independently of all others.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// Number of its word in [`Domain::words`].
    pub word: usize,
    /// Its lowest bit there.
    pub low: u8,
    pub values: Values,
}

/// The values of a variable, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Range { first: u64, count: u128 },
    Listed(Vec<u64>),
}

impl Values {
    pub fn count(&self) -> u128 {
        match self {
            Values::Range { count, .. } => *count,
            Values::Listed(values) => values.len() as u128,
        }
    }

    /// Value number `at`, from 0; there are more than `at` values.
    pub fn nth(&self, at: u64) -> u64 {
        match self {
            Values::Range { first, .. } => first.saturating_add(at),
            Values::Listed(values) => values.get(at as usize).copied().unwrap_or(0),
        }
    }

    /// The number of the value that is nearest to `value` from below, else 0.
    pub fn near(&self, value: u64) -> u64 {
        match self {
            Values::Range { first, count } => {
                let last = u64::try_from(count - 1).unwrap_or(u64::MAX);
                value.saturating_sub(*first).min(last)
            }
            Values::Listed(values) => {
                let above = values.iter().position(|listed| *listed > value);
                above.unwrap_or(values.len()).saturating_sub(1) as u64
            }
        }
    }

    fn of_list(mut values: Vec<u64>) -> Values {
        values.sort_unstable();
        values.dedup();
        let steps_by_one = values.windows(2).all(|pair| pair[1] - pair[0] == 1);
        match values.first() {
            Some(&first) if steps_by_one => Values::Range { first, count: values.len() as u128 },
            _ => Values::Listed(values),
        }
    }
}

/// The words that an expression reads, and what varies in them.
#[derive(Debug)]
pub(crate) struct Domain {
    pub words: Vec<Source>,
    pub variables: Vec<Variable>,
}

/// The knowledge from which the values of words follow.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub layout: &'a Layout,
    /// Range of `size`.
    pub size: (u64, u64),
    pub narrow: Option<Narrow>,
    /// Absent fields read as 0.
    pub absent_is_zero: bool,
}

impl Domain {
    pub fn of(known: &Known<'_>, words: Vec<Source>) -> Domain {
        let mut variables = Vec::new();
        for (word, source) in words.iter().enumerate() {
            let parts = match *source {
                Source::Item(item) => known.word(&known.layout.items[item]),
                Source::Picked(item, pick) => bits(known.picked_bits(item, pick)),
                Source::Size => {
                    let count = u128::from(known.size.1 - known.size.0) + 1;
                    vec![(0, Values::Range { first: known.size.0, count })]
                }
                Source::Port => bits(16),
            };
            variables.extend(parts.into_iter().map(|(low, values)| Variable { word, low, values }));
        }
        Domain { words, variables }
    }
}

/// A variable's lowest bit and its values.
type Part = (u8, Values);

fn bits(width: u32) -> Vec<Part> {
    (0..width as u8).map(|low| (low, Values::Range { first: 0, count: 2 })).collect()
}

impl Known<'_> {
    fn picked_bits(&self, item: usize, pick: usize) -> u32 {
        let is_it = |origin: &Origin| *origin == Origin::Picked { item, pick };
        let found = self.layout.values.iter().find(|value| is_it(&value.origin));
        found.map_or(0, |value| value.width_bits)
    }

    fn word(&self, item: &Item) -> Vec<Part> {
        let bytes = match &item.kind {
            ItemKind::Word { bytes, .. } => *bytes,
            ItemKind::Text(text) => return self.number(item, text.largest()),
            ItemKind::Bytes { .. } | ItemKind::List(_) => return Vec::new(),
        };
        let width = u32::from(bytes) * 8;
        let has_part_rules = item.bits.iter().any(|part| self.is_bound(part.value, &part.rules));
        if item.value.is_some_and(|id| self.is_bound(id, &item.rules)) {
            let values = self.allowed(item, item.value, &item.rules, width);
            let values = match values {
                Values::Range { first, count } if has_part_rules && width <= LISTED_BITS_MAX => {
                    let all = first..first + count as u64;
                    Values::of_list(all.filter(|word| self.parts_allow(item, *word)).collect())
                }
                Values::Listed(values) => {
                    let right = |word: &u64| self.parts_allow(item, *word);
                    Values::of_list(values.into_iter().filter(right).collect())
                }
                values => values,
            };
            return vec![(0, values)];
        }
        let mut free = mask(width);
        let mut parts = Vec::new();
        for part in item.bits.iter().filter(|part| self.is_bound(part.value, &part.rules)) {
            let width = u32::from(part.width);
            free &= !mask(width).checked_shl(part.low.into()).unwrap_or(0);
            let values = self.allowed(item, Some(part.value), &part.rules, width);
            parts.push((part.low, values));
        }
        let is_free = |bit: &u8| free >> bit & 1 == 1;
        let free = (0..width as u8).filter(is_free);
        parts.extend(free.map(|low| (low, Values::Range { first: 0, count: 2 })));
        parts
    }

    /// A decimal number, whose digits are not bits.
    fn number(&self, item: &Item, largest: u64) -> Vec<Part> {
        let Values::Range { first, count } = self.allowed(item, item.value, &item.rules, 64) else {
            return vec![(0, self.allowed(item, item.value, &item.rules, 64))];
        };
        let count = count.min(u128::from(largest.saturating_sub(first)) + 1);
        vec![(0, Values::Range { first, count })]
    }

    fn is_bound(&self, id: usize, rules: &Rules) -> bool {
        let constant = rules.equals.as_ref().and_then(Expr::constant).is_some();
        let ruled = constant || !rules.one_of.is_empty() || rules.min.or(rules.max).is_some();
        ruled || self.narrow.is_some_and(|narrow| narrow.value == id)
    }

    fn parts_allow(&self, item: &Item, word: u64) -> bool {
        item.bits.iter().all(|part| {
            let (bits, rules) = (extract(word, part.low, part.width), &part.rules);
            self.allows(rules, bits) && self.most_of(part.value).is_none_or(|most| bits <= most)
        })
    }

    fn allows(&self, rules: &Rules, value: u64) -> bool {
        let equals = rules.equals.as_ref().and_then(Expr::constant);
        equals.is_none_or(|equals| value == equals)
            && (rules.one_of.is_empty() || rules.one_of.contains(&value))
            && rules.min.is_none_or(|min| value >= min)
            && rules.max.is_none_or(|max| value <= max)
    }

    fn most_of(&self, id: usize) -> Option<u64> {
        self.narrow.filter(|narrow| narrow.value == id).map(|narrow| narrow.most)
    }

    /// The values of a word or a part that its own rules allow.
    fn allowed(&self, item: &Item, id: Option<usize>, rules: &Rules, width: u32) -> Values {
        let equals = rules.equals.as_ref().and_then(Expr::constant);
        let listed: Vec<u64> = match equals {
            Some(equals) => vec![equals],
            None => rules.one_of.clone(),
        };
        let most = id.and_then(|id| self.most_of(id)).unwrap_or(u64::MAX);
        let zero = item.when.is_some() && self.absent_is_zero;
        if !listed.is_empty() {
            let right = |value: &u64| self.allows(rules, *value) && *value <= most;
            let mut values: Vec<u64> = listed.into_iter().filter(right).collect();
            if zero || values.is_empty() {
                values.push(0);
            }
            return Values::of_list(values);
        }
        let first = if zero { 0 } else { rules.min.unwrap_or(0).min(most) };
        let last = rules.max.unwrap_or(u64::MAX).min(mask(width)).min(most).max(first);
        Values::Range { first, count: u128::from(last - first) + 1 }
    }
}
