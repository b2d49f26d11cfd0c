//! Proof at load time that an expression stays within 64 bits: interval arithmetic.
//!
//! Each value has a range, from its width and its rules; the range of each sub-expression follows
//! (Moore, "Interval Analysis", 1966). Sums and products are taken in 128 bits; one that can leave
//! 0..=u64::MAX, a divisor that can be 0 and a shift that can exceed 63 are refused by name.

use alloc::format;
use alloc::string::String;

use super::expression::{Binary, Expr};
use super::word::ones_over;

/// Smallest and largest value.
pub(crate) type Range = (u64, u64);

/// Most comparisons of two expressions.
const COMPARISONS_MAX: u32 = 4096;

/// The ranges of the values in an expression.
pub(crate) struct ValueRanges<'a> {
    /// Range of a value; the error says why it cannot be used here.
    pub value: &'a dyn Fn(usize) -> Result<Range, String>,
    /// Its name.
    pub name: &'a dyn Fn(usize) -> String,
    /// The expression that it always is, where it is computed.
    pub definition: &'a dyn Fn(usize) -> Option<&'a Expr>,
    /// Range of `size`.
    pub size: Range,
}

impl ValueRanges<'_> {
    /// The range of `expression`, or which part of it can go wrong and what to write.
    pub fn range(&self, expression: &Expr) -> Result<Range, String> {
        match expression {
            Expr::Constant(constant) => Ok((*constant, *constant)),
            Expr::Value(id) => (self.value)(*id),
            Expr::Size => Ok(self.size),
            Expr::Port => Ok((0, 0xFFFF)),
            Expr::Not(of) => match self.range(of)? {
                (0, 0) => Ok((1, 1)),
                (0, _) => Ok((0, 1)),
                _ => Ok((0, 0)),
            },
            Expr::Gray(of) => Ok((0, ones_over(self.range(of)?.1))),
            Expr::Binary(operator, left, right) => {
                let (a, b) = (self.range(left)?, self.range(right)?);
                if *operator == Binary::Subtract && self.never_less(left, right) {
                    return Ok((a.0.saturating_sub(b.1), a.1.saturating_sub(b.0)));
                }
                let (left, right) = (self.text(left), self.text(right));
                let left = Operand { text: &left, range: a };
                let right = Operand { text: &right, range: b };
                combine(*operator, a, b)
                    .map_err(|fault| fault.message(&self.text(expression), left, right))
            }
        }
    }

    /// Returns true when `left` is at least `right` for all values, by its form: `max(a, b) - b`,
    /// `a - min(a, b)`, `a - (a & b)`, `a - a % b`, also by way of computed names. Ranges alone
    /// cannot see that.
    fn never_less(&self, left: &Expr, right: &Expr) -> bool {
        let (left, right) = (self.plain(left), self.plain(right));
        let same = |a: &Expr, b: &Expr| self.same(a, b, &mut COMPARISONS_MAX.clone());
        let from_left =
            matches!(left, Expr::Binary(Binary::Maximum, a, b) if same(a, right) || same(b, right));
        let from_right = match right {
            Expr::Binary(Binary::Minimum | Binary::And, a, b) => same(a, left) || same(b, left),
            Expr::Binary(Binary::Remainder | Binary::Divide | Binary::ShiftRight, a, _) => {
                same(a, left)
            }
            _ => false,
        };
        from_left || from_right
    }

    /// An expression without the names of computed values around it.
    fn plain<'e>(&'e self, mut expression: &'e Expr) -> &'e Expr {
        while let Expr::Value(id) = expression {
            match (self.definition)(*id) {
                Some(definition) => expression = definition,
                None => break,
            }
        }
        expression
    }

    /// Returns true when both are written alike, names of computed values and the order of
    /// operands aside; `left` bounds the comparisons.
    fn same(&self, a: &Expr, b: &Expr, left: &mut u32) -> bool {
        let (a, b) = (self.plain(a), self.plain(b));
        *left = left.saturating_sub(1);
        if *left == 0 {
            return false;
        }
        match (a, b) {
            (Expr::Not(a), Expr::Not(b)) | (Expr::Gray(a), Expr::Gray(b)) => self.same(a, b, left),
            (Expr::Binary(one, a, b), Expr::Binary(other, c, d)) if one == other => {
                self.same(a, c, left) && self.same(b, d, left)
                    || one.is_symmetric() && self.same(a, d, left) && self.same(b, c, left)
            }
            (a, b) => a == b,
        }
    }

    fn text(&self, expression: &Expr) -> String {
        let text = expression.to_text(self.name);
        match text.char_indices().nth(80) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// An operand as a message shows it.
#[derive(Clone, Copy)]
struct Operand<'a> {
    text: &'a str,
    range: Range,
}

/// A fault of one operation.
enum Fault {
    Overflow(u128),
    Negative(i128),
    DivideByZero,
    Shift,
}

impl Fault {
    fn message(&self, whole: &str, left: Operand<'_>, right: Operand<'_>) -> String {
        let Operand { text: right_text, range: (right_low, right_high) } = right;
        let Operand { text: left_text, range: (left_low, left_high) } = left;
        match self {
            Fault::Overflow(high) => format!(
                "`{whole}` can be as large as {high}, more than 64 bits hold (`{left_text}` is \
                 {left_low}..={left_high}, `{right_text}` is {right_low}..={right_high}); mask an \
                 operand, like `({left_text} & 0xffffffff)`, or give its field a `max`"
            ),
            Fault::Negative(low) => format!(
                "`{whole}` can be as low as {low} (`{left_text}` is {left_low}..={left_high}, \
                 `{right_text}` is {right_low}..={right_high}); write `max({left_text}, \
                 {right_text}) - {right_text}`, or give the field of `{left_text}` a `min`"
            ),
            Fault::DivideByZero => format!(
                "`{whole}` can divide by zero: `{right_text}` is {right_low}..={right_high}; write \
                 `max({right_text}, 1)`, or give its field `min = 1`"
            ),
            Fault::Shift => format!(
                "`{whole}` can shift by more than 63: `{right_text}` is \
                 {right_low}..={right_high}; mask it, like `({right_text} & 63)`"
            ),
        }
    }
}

fn within(low: u64, high: u128) -> Result<Range, Fault> {
    u64::try_from(high).map(|high| (low, high)).map_err(|_| Fault::Overflow(high))
}

fn truth(always: bool, never: bool) -> Result<Range, Fault> {
    Ok((u64::from(always), u64::from(!never)))
}

fn combine(operator: Binary, a: Range, b: Range) -> Result<Range, Fault> {
    let wide = |value: u64| u128::from(value);
    match operator {
        Binary::Add => within(a.0.saturating_add(b.0), wide(a.1) + wide(b.1)),
        Binary::Multiply => within(a.0.saturating_mul(b.0), wide(a.1) * wide(b.1)),
        Binary::Subtract => match a.0.checked_sub(b.1) {
            Some(low) => Ok((low, a.1 - b.0)),
            None => Err(Fault::Negative(i128::from(a.0) - i128::from(b.1))),
        },
        Binary::Divide | Binary::Remainder if b.0 == 0 => Err(Fault::DivideByZero),
        Binary::Divide => Ok((a.0 / b.1, a.1 / b.0)),
        Binary::Remainder if a.1 < b.0 => Ok(a),
        Binary::Remainder => Ok((0, a.1.min(b.1 - 1))),
        Binary::ShiftLeft | Binary::ShiftRight if b.1 > 63 => Err(Fault::Shift),
        Binary::ShiftLeft => within(a.0 << b.0, wide(a.1) << b.1),
        Binary::ShiftRight => Ok((a.0 >> b.1, a.1 >> b.0)),
        Binary::And => Ok((0, a.1.min(b.1))),
        Binary::Or => Ok((a.0.max(b.0), ones_over(a.1 | b.1))),
        Binary::ExclusiveOr => Ok((0, ones_over(a.1 | b.1))),
        Binary::Equal => truth(a.0 == a.1 && a == b, a.1 < b.0 || b.1 < a.0),
        Binary::NotEqual => truth(a.1 < b.0 || b.1 < a.0, a.0 == a.1 && a == b),
        Binary::Less => truth(a.1 < b.0, a.0 >= b.1),
        Binary::LessOrEqual => truth(a.1 <= b.0, a.0 > b.1),
        Binary::Greater => truth(a.0 > b.1, a.1 <= b.0),
        Binary::GreaterOrEqual => truth(a.0 >= b.1, a.1 < b.0),
        Binary::BothTrue => truth(a.0 > 0 && b.0 > 0, a.1 == 0 || b.1 == 0),
        Binary::AnyTrue => truth(a.0 > 0 || b.0 > 0, a.1 == 0 && b.1 == 0),
        Binary::Minimum => Ok((a.0.min(b.0), a.1.min(b.1))),
        Binary::Maximum => Ok((a.0.max(b.0), a.1.max(b.1))),
    }
}
