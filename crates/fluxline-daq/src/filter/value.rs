//! Values of filter expressions: exact integers, floats, texts, and absent values.

use std::cmp::Ordering;

use fluxline_packet::decode;
use fluxline_packet::expression::Binary;

/// The number of a text that no expression names.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// A value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// The event or packet does not have it. Comparisons with it are false.
    Absent,
    /// An integer, exact: the fields of packets have at most 64 bits.
    Integer(i128),
    /// A float.
    Float(f64),
    /// A text, by its number among those that the expression names.
    Text(u32),
}

impl Value {
    /// Returns 1 or 0.
    pub const fn of_bool(is: bool) -> Value {
        Value::Integer(is as i128)
    }

    /// Returns a decoded value of a packet.
    pub fn of_decoded(value: &decode::Value<'_>) -> Value {
        match *value {
            decode::Value::U64(value) => Value::Integer(value.into()),
            decode::Value::I64(value) => Value::Integer(value.into()),
            decode::Value::F32(value) => Value::Float(value.into()),
            decode::Value::F64(value) => Value::Float(value),
            decode::Value::Null | decode::Value::Bytes(_) => Value::Absent,
        }
    }

    /// Returns true for a number other than 0.
    pub fn is_true(self) -> bool {
        match self {
            Value::Integer(value) => value != 0,
            Value::Float(value) => value != 0.0 && !value.is_nan(),
            Value::Absent | Value::Text(_) => false,
        }
    }

    /// Returns the number as a float; `None`: it is absent or a text.
    pub fn float(self) -> Option<f64> {
        match self {
            Value::Integer(value) => Some(value as f64),
            Value::Float(value) => Some(value),
            Value::Absent | Value::Text(_) => None,
        }
    }

    /// Returns the number with the other sign.
    pub fn negated(self) -> Value {
        match self {
            Value::Integer(value) => value.checked_neg().map_or(Value::Absent, Value::Integer),
            Value::Float(value) => Value::Float(-value),
            other => other,
        }
    }

    /// Returns the number without its sign.
    pub fn magnitude(self) -> Value {
        match self {
            Value::Integer(value) => value.checked_abs().map_or(Value::Absent, Value::Integer),
            Value::Float(value) => Value::Float(value.abs()),
            other => other,
        }
    }

    /// Returns the order of two numbers; `None` where there is none.
    pub fn order(self, other: Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.float()?.partial_cmp(&b.float()?),
        }
    }

    /// Returns the larger (or smaller) of two values; an absent one is left out.
    pub fn extreme(self, other: Value, wanted: Ordering) -> Value {
        match (self, other) {
            (Value::Absent, other) => other,
            (one, Value::Absent) => one,
            (one, other) if other.order(one) == Some(wanted) => other,
            (one, _) => one,
        }
    }

    /// Returns the result of an operator. An absent operand makes comparisons false and other
    /// results absent.
    pub fn binary(operator: Binary, left: Value, right: Value) -> Value {
        match operator {
            Binary::BothTrue => Value::of_bool(left.is_true() && right.is_true()),
            Binary::AnyTrue => Value::of_bool(left.is_true() || right.is_true()),
            Binary::Equal | Binary::NotEqual => equality(operator, left, right),
            Binary::Less => compared(left, right, Ordering::is_lt),
            Binary::LessOrEqual => compared(left, right, Ordering::is_le),
            Binary::Greater => compared(left, right, Ordering::is_gt),
            Binary::GreaterOrEqual => compared(left, right, Ordering::is_ge),
            Binary::Minimum if left == Value::Absent || right == Value::Absent => Value::Absent,
            Binary::Maximum if left == Value::Absent || right == Value::Absent => Value::Absent,
            Binary::Minimum => left.extreme(right, Ordering::Less),
            Binary::Maximum => left.extreme(right, Ordering::Greater),
            Binary::Divide => quotient(left, right),
            _ => match (left, right) {
                (Value::Integer(a), Value::Integer(b)) => integers(operator, a, b),
                _ => floats(operator, left, right),
            },
        }
    }
}

fn equality(operator: Binary, left: Value, right: Value) -> Value {
    let equal = match (left, right) {
        (Value::Absent, _) | (_, Value::Absent) => return Value::of_bool(false),
        (Value::Text(a), Value::Text(b)) => a == b && a != NO_TEXT,
        _ => left.order(right) == Some(Ordering::Equal),
    };
    Value::of_bool(equal == (operator == Binary::Equal))
}

fn compared(left: Value, right: Value, passes: fn(Ordering) -> bool) -> Value {
    Value::of_bool(left.order(right).is_some_and(passes))
}

fn quotient(left: Value, right: Value) -> Value {
    match (left.float(), right.float()) {
        (Some(_), Some(0.0)) | (None, _) | (_, None) => Value::Absent,
        (Some(a), Some(b)) => Value::Float(a / b),
    }
}

/// Returns a result that leaves the integers as a float.
fn integers(operator: Binary, a: i128, b: i128) -> Value {
    let shift = u32::try_from(b).ok();
    let exact = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Subtract => a.checked_sub(b),
        Binary::Multiply => a.checked_mul(b),
        Binary::Remainder => return a.checked_rem(b).map_or(Value::Absent, Value::Integer),
        Binary::And => Some(a & b),
        Binary::Or => Some(a | b),
        Binary::ExclusiveOr => Some(a ^ b),
        Binary::ShiftLeft => {
            let shifted = shift.filter(|&b| b < 64).and_then(|b| a.checked_mul(1 << b));
            return shifted.map_or(Value::Absent, Value::Integer);
        }
        Binary::ShiftRight => {
            let shifted = shift.and_then(|b| a.checked_shr(b));
            return shifted.map_or(Value::Absent, Value::Integer);
        }
        _ => None,
    };
    let (left, right) = (Value::Integer(a), Value::Integer(b));
    exact.map_or_else(|| floats(operator, left, right), Value::Integer)
}

fn floats(operator: Binary, left: Value, right: Value) -> Value {
    let (Some(a), Some(b)) = (left.float(), right.float()) else { return Value::Absent };
    match operator {
        Binary::Add => Value::Float(a + b),
        Binary::Subtract => Value::Float(a - b),
        Binary::Multiply => Value::Float(a * b),
        Binary::Remainder if b != 0.0 => Value::Float(a % b),
        _ => Value::Absent, // bits of floats
    }
}
