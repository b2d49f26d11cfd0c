//! Expressions over whole columns.

use alloc::vec::Vec;

use crate::expression::{Binary, Expr, gray_to_binary};

/// The columns that an expression may use, a word per row; absent values are 0.
pub(super) struct Environment<'a> {
    /// One per value of the layout; only those that an expression uses are filled.
    pub values: &'a [Vec<u64>],
    pub rows: usize,
    /// The bytes of a row.
    pub size: u64,
}

enum Operand<'a> {
    Constant(u64),
    Column(&'a [u64]),
    Computed(Vec<u64>),
}

impl Environment<'_> {
    /// Returns the value of `expression` in each row.
    pub fn column(&self, expression: &Expr) -> Vec<u64> {
        match self.operand(expression) {
            Operand::Constant(constant) => alloc::vec![constant; self.rows],
            Operand::Column(column) => column.to_vec(),
            Operand::Computed(column) => column,
        }
    }

    fn operand(&self, expression: &Expr) -> Operand<'_> {
        match expression {
            Expr::Constant(constant) => Operand::Constant(*constant),
            Expr::Value(id) => match self.values.get(*id) {
                Some(column) if column.len() == self.rows => Operand::Column(column),
                _ => Operand::Constant(0),
            },
            Expr::Size => Operand::Constant(self.size),
            Expr::Port => Operand::Constant(0),
            Expr::Not(of) => map(self.operand(of), |word| u64::from(word == 0)),
            Expr::Gray(of) => map(self.operand(of), gray_to_binary),
            Expr::Binary(operator, left, right) => {
                apply(*operator, &self.operand(left), &self.operand(right))
            }
        }
    }
}

fn map(operand: Operand<'_>, of: impl Fn(u64) -> u64) -> Operand<'static> {
    match operand {
        Operand::Constant(constant) => Operand::Constant(of(constant)),
        Operand::Column(column) => Operand::Computed(column.iter().map(|word| of(*word)).collect()),
        Operand::Computed(mut column) => {
            column.iter_mut().for_each(|word| *word = of(*word));
            Operand::Computed(column)
        }
    }
}

fn zip(left: &Operand<'_>, right: &Operand<'_>, of: impl Fn(u64, u64) -> u64) -> Operand<'static> {
    fn words<'a>(operand: &'a Operand<'_>) -> Result<&'a [u64], u64> {
        match operand {
            Operand::Constant(constant) => Err(*constant),
            Operand::Column(column) => Ok(column),
            Operand::Computed(column) => Ok(column),
        }
    }
    match (words(left), words(right)) {
        (Err(left), Err(right)) => Operand::Constant(of(left, right)),
        (Ok(left), Err(right)) => {
            Operand::Computed(left.iter().map(|left| of(*left, right)).collect())
        }
        (Err(left), Ok(right)) => {
            Operand::Computed(right.iter().map(|right| of(left, *right)).collect())
        }
        (Ok(left), Ok(right)) => {
            Operand::Computed(left.iter().zip(right).map(|(l, r)| of(*l, *r)).collect())
        }
    }
}

/// Applies an operator row by row; the operator is chosen outside the loop.
fn apply(operator: Binary, left: &Operand<'_>, right: &Operand<'_>) -> Operand<'static> {
    macro_rules! each {
        ($($name:ident)*) => {
            match operator {
                $(Binary::$name => zip(left, right, |l, r| Binary::$name.apply(l, r)),)*
            }
        };
    }
    each!(Add Subtract Multiply Divide Remainder And Or ExclusiveOr ShiftLeft ShiftRight Equal
        NotEqual Less LessOrEqual Greater GreaterOrEqual BothTrue AnyTrue Minimum Maximum)
}
