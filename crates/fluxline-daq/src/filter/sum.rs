//! The value of an aggregate, built of one value after the other.

use std::cmp::Ordering;

use fluxline_packet::expression::Binary;

use super::names::Aggregate;
use super::value::Value;

/// Collects the values of an aggregate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    aggregate: Aggregate,
    /// The sum or the extreme so far.
    so_far: Value,
    /// Values that are numbers, or that are true for `count`.
    count: u64,
    pub any_true: bool,
    all_true: bool,
}

impl Sum {
    pub fn new(aggregate: Aggregate) -> Sum {
        let so_far = match aggregate {
            Aggregate::Sum | Aggregate::Mean => Value::Integer(0),
            _ => Value::Absent,
        };
        Sum { aggregate, so_far, count: 0, any_true: false, all_true: true }
    }

    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: Value) {
        match self.aggregate {
            Aggregate::Any | Aggregate::All | Aggregate::Count | Aggregate::Sources => {
                self.add_truths(1, u64::from(value.is_true()));
            }
            Aggregate::Minimum => self.so_far = self.so_far.extreme(value, Ordering::Less),
            Aggregate::Maximum => self.so_far = self.so_far.extreme(value, Ordering::Greater),
            Aggregate::Sum | Aggregate::Mean => {
                if value != Value::Absent {
                    let add = Binary::Add;
                    self.so_far = Value::binary(add, self.so_far, value);
                    self.count += 1;
                }
            }
        }
    }

    /// Adds `of` truth values, of which `count` are true.
    pub fn add_truths(&mut self, of: u64, count: u64) {
        self.count += count;
        self.any_true |= count > 0;
        self.all_true &= count == of;
    }

    /// Adds `count` numbers with this sum, least and greatest.
    pub fn add_numbers(&mut self, numbers: &Numbers) {
        match self.aggregate {
            _ if numbers.count == 0 => {}
            Aggregate::Minimum => self.add(Value::Integer(numbers.least)),
            Aggregate::Maximum => self.add(Value::Integer(numbers.greatest)),
            Aggregate::Sum | Aggregate::Mean => {
                self.add(Value::Integer(numbers.sum));
                self.count += numbers.count - 1;
            }
            _ => self.add_truths(numbers.count, numbers.count - numbers.zeros),
        }
    }

    /// Returns true for the aggregates that ask if values are true.
    pub fn is_of_truths(&self) -> bool {
        use Aggregate::{All, Any, Count, Sources};
        matches!(self.aggregate, Any | All | Count | Sources)
    }

    /// Returns true when more values do not change the result.
    pub fn is_decided(&self) -> bool {
        match self.aggregate {
            Aggregate::Any => self.any_true,
            Aggregate::All => !self.all_true,
            _ => false,
        }
    }

    pub fn value(&self) -> Value {
        match self.aggregate {
            Aggregate::Any => Value::of_bool(self.any_true),
            Aggregate::All => Value::of_bool(self.all_true),
            Aggregate::Count | Aggregate::Sources => Value::Integer(self.count.into()),
            Aggregate::Mean if self.count == 0 => Value::Absent,
            Aggregate::Mean => match self.so_far.float() {
                Some(sum) => Value::Float(sum / self.count as f64),
                None => Value::Absent,
            },
            Aggregate::Sum | Aggregate::Minimum | Aggregate::Maximum => self.so_far,
        }
    }
}

/// Integers in short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub count: u64,
    pub zeros: u64,
    pub sum: i128,
    pub least: i128,
    pub greatest: i128,
}
