//! The bits of an expression that can be 1, and the bits of the packet that it reads.
//!
//! A range says how large a value can be; it does not say that bits 16 to 23 are always 0, nor that
//! a counter and a source are the same bits. Both analyses look at the form alone and stay on the
//! safe side: a bit counts as possible unless it provably is not.

use super::expression::{Binary, Expr};
use super::interval::Range;
use super::layout::{Layout, Origin};
use super::word::{mask, ones_over};

/// The bits that `expression` can set; `range` yields the range of any of its parts.
pub(crate) fn possible_bits(
    layout: &Layout,
    expression: &Expr,
    range: &dyn Fn(&Expr) -> Option<Range>,
) -> u64 {
    let bits = |part: &Expr| possible_bits(layout, part, range);
    let by_range = range(expression).map_or(u64::MAX, |(_, high)| ones_over(high));
    let by_form = match expression {
        Expr::Constant(constant) => *constant,
        Expr::Value(id) => match &layout.values[*id].origin {
            Origin::Computed { value, .. } => bits(value),
            _ => mask(layout.values[*id].width_bits),
        },
        Expr::Binary(operator, left, right) => of_operator(*operator, left, right, &bits),
        Expr::Size | Expr::Port | Expr::Not(_) | Expr::Gray(_) => u64::MAX,
    };
    by_form & by_range
}

fn of_operator(operator: Binary, left: &Expr, right: &Expr, bits: &dyn Fn(&Expr) -> u64) -> u64 {
    match (operator, right.constant()) {
        (Binary::And, _) => bits(left) & bits(right),
        (Binary::Or | Binary::ExclusiveOr, _) => bits(left) | bits(right),
        (Binary::Minimum | Binary::Maximum, _) => bits(left) | bits(right),
        (Binary::Add, _) if bits(left) & bits(right) == 0 => bits(left) | bits(right),
        (Binary::ShiftLeft, Some(by @ 0..64)) => bits(left) << by,
        (Binary::ShiftRight, Some(by @ 0..64)) => bits(left) >> by,
        (Binary::Multiply, Some(by)) if by.is_power_of_two() => {
            bits(left).checked_shl(by.trailing_zeros()).unwrap_or(0)
        }
        (Binary::Divide, Some(by)) if by.is_power_of_two() => bits(left) >> by.trailing_zeros(),
        (Binary::Remainder, Some(by)) if by.is_power_of_two() => bits(left) & (by - 1),
        _ => u64::MAX,
    }
}

/// Bits of one word of the packet, as a value reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordBits {
    /// Number of the item, and of the picked value where the item is a list.
    word: (usize, Option<usize>),
    mask: u64,
    shift: u32,
}

impl WordBits {
    /// The bits that `expression` reads, where it is a field or a part of one; else `None`.
    pub fn of(layout: &Layout, expression: &Expr) -> Option<WordBits> {
        match expression {
            Expr::Value(id) => WordBits::of_value(layout, *id),
            Expr::Binary(operator, of, by) => {
                WordBits::of(layout, of)?.after(*operator, by.constant()?)
            }
            _ => None,
        }
    }

    fn of_value(layout: &Layout, id: usize) -> Option<WordBits> {
        let value = &layout.values[id];
        let all = mask(value.width_bits);
        match &value.origin {
            Origin::Word { item } => Some(WordBits { word: (*item, None), mask: all, shift: 0 }),
            Origin::Bits { item, low, .. } => {
                let shift = u32::from(*low);
                let mask = all.checked_shl(shift).unwrap_or(0);
                Some(WordBits { word: (*item, None), mask, shift })
            }
            Origin::Picked { item, pick } => {
                Some(WordBits { word: (*item, Some(*pick)), mask: all, shift: 0 })
            }
            Origin::Computed { value, when: None, .. } => WordBits::of(layout, value),
            Origin::Computed { .. } => None,
        }
    }

    /// The bits that are left after an operation with a constant.
    fn after(mut self, operator: Binary, constant: u64) -> Option<WordBits> {
        let power = constant.is_power_of_two();
        let (kept, by) = match operator {
            Binary::And => (constant, 0),
            Binary::Remainder if power => (constant - 1, 0),
            Binary::ShiftRight => (u64::MAX, u32::try_from(constant).ok()?),
            Binary::Divide if power => (u64::MAX, constant.trailing_zeros()),
            _ => return None,
        };
        self.shift += by;
        self.mask &= kept.checked_shl(self.shift - by)?;
        self.mask &= u64::MAX.checked_shl(self.shift)?;
        Some(self)
    }

    /// Returns true when all these bits are among those of `other`.
    pub fn within(self, other: WordBits) -> bool {
        self.word == other.word && self.mask & !other.mask == 0 && self.mask != 0
    }
}
