//! The meaning of an expression: the numbers that it takes, whatever its spelling.
//!
//! The expression is a function of independent parts of the packet (`domain`). It is tried at
//! points (`function`), and its form follows from the values alone: a sum of digits, such a sum
//! modulo a number, or a sum of small functions, each counted out or linear over bits. So
//! `2 * frame`, `frame << 1` and a computed value that says the same have one verdict. A form is
//! believed when it yields the right value at every point tried: random ones, corners, and those
//! around each constant of the expression.

mod domain;
mod function;
mod pieces;
mod progression;

use alloc::vec::Vec;

pub(crate) use domain::{Known, Source};
pub(crate) use progression::{Digit, Fault, Part, Progression};

use crate::expression::Expr;
use crate::interval::Range;
use function::{Dice, Function, Point};
use progression::{is_uniform, of_sum};

/// Most operations of one analysis.
const OPERATIONS_MAX: usize = 1 << 23;

/// A value that a rule of its role keeps at most so large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrow {
    pub value: usize,
    pub most: u64,
}

/// Returns the numbers of an expression, if they are such as a counter has.
pub(crate) fn numbers_of(
    known: &Known<'_>,
    expression: &Expr,
    range: Range,
) -> Result<Progression, Fault> {
    let function = Function::of(known, expression);
    let tried = Tried::of(function)?;
    if let Some(weights) = tried.weights() {
        let base = i128::from(tried.base);
        return of_sum(base, tried.digits(&weights));
    }
    tried.modulo(range).map_or_else(|| pieces::numbers_of(&tried), Ok)
}

/// Returns true when `key` alone decides the value of `counter`: each number of the counter would
/// have a key of its own.
pub(crate) fn decides(known: &Known<'_>, key: &Expr, counter: &Expr) -> bool {
    let of = |expression| Tried::of(Function::of(known, expression)).ok();
    let (Some(key), Some(counter)) = (of(key), of(counter)) else { return false };
    let Some(weights) = key.weights() else { return false };
    let mut digits = key.digits(&weights);
    digits.retain(|digit| digit.weight != 0);
    digits.sort_by_key(|digit| digit.weight.unsigned_abs());
    let mut covered = 0;
    for digit in &digits {
        if digit.weight.unsigned_abs() <= covered {
            return false;
        }
        covered += digit.weight.unsigned_abs() * (digit.count - 1);
    }
    let used = counter.used();
    let of_key = |variable: &domain::Variable, source: Source| {
        let same = |number: usize| {
            let other = &key.function.domain.variables[number];
            key.function.domain.words[other.word] == source && other.low == variable.low
        };
        (0..weights.len()).any(|number| weights[number] != 0 && same(number))
    };
    let domain = &counter.function.domain;
    let mut variables = domain.variables.iter().zip(&used).filter(|(_, used)| **used).peekable();
    variables.peek().is_some()
        && variables.all(|(variable, _)| of_key(variable, domain.words[variable.word]))
}

/// A function with its values at the points at which it was tried.
struct Tried<'a> {
    function: Function<'a>,
    points: Vec<Point>,
    values: Vec<u64>,
    /// The value where all variables have their smallest.
    base: u64,
}

impl<'a> Tried<'a> {
    fn of(function: Function<'a>) -> Result<Tried<'a>, Fault> {
        if function.cost.saturating_mul(function.points_count()) > OPERATIONS_MAX {
            return Err(Fault::Unclear);
        }
        let points = function.points();
        let values = points.iter().map(|point| function.at(point)).collect();
        let base = function.at(&function.lowest());
        Ok(Tried { function, points, values, base })
    }

    /// The value where one variable has a value and all others have their smallest.
    fn with(&self, variable: usize, number: u64) -> u64 {
        let mut point = self.function.lowest();
        point[variable] = number;
        self.function.at(&point)
    }

    /// Growth of the value with each variable alone.
    fn slopes(&self) -> Vec<i128> {
        let variables = 0..self.function.domain.variables.len();
        let slope = |variable| match self.function.last_of(variable) {
            0 => 0,
            _ => i128::from(self.with(variable, 1)) - i128::from(self.base),
        };
        variables.map(slope).collect()
    }

    /// The weights of the variables, where the function is their sum.
    fn weights(&self) -> Option<Vec<i128>> {
        let weights = self.slopes();
        let sum = |point: &Point| {
            let each = weights.iter().zip(point);
            each.fold(i128::from(self.base), |sum, (weight, number)| {
                sum.wrapping_add(weight.wrapping_mul(i128::from(*number)))
            })
        };
        let mut tried = self.points.iter().zip(&self.values);
        tried.all(|(point, value)| sum(point) == i128::from(*value)).then_some(weights)
    }

    /// The numbers of a sum modulo the size of its range, where the function is one and takes all
    /// of them.
    fn modulo(&self, range: Range) -> Option<Progression> {
        let modulus = u128::from(range.1 - range.0) + 1;
        let low = i128::from(range.0);
        let reduced = |number: i128| number.rem_euclid(modulus as i128) as u128;
        let weights: Vec<u128> = self.slopes().into_iter().map(reduced).collect();
        let base = reduced(i128::from(self.base) - low);
        let sum = |point: &Point| {
            let each = weights.iter().zip(point);
            each.fold(base, |sum, (weight, number)| {
                (sum + weight * u128::from(*number) % modulus) % modulus
            })
        };
        let mut tried = self.points.iter().zip(&self.values);
        if !tried.all(|(point, value)| sum(point) == reduced(i128::from(*value) - low)) {
            return None;
        }
        let counts = self.function.domain.variables.iter().map(|of| of.values.count());
        let digits = weights.iter().copied().zip(counts);
        is_uniform(modulus, digits).then(|| Progression {
            first: range.0,
            stride: 1,
            count: modulus,
            digits: Vec::new(),
        })
    }

    /// The digits of a sum with these weights: neighbouring bits of one word are joined.
    fn digits(&self, weights: &[i128]) -> Vec<Digit> {
        let domain = &self.function.domain;
        let mut digits: Vec<Digit> = Vec::new();
        let mut before: Option<(usize, u8)> = None;
        for (variable, &weight) in domain.variables.iter().zip(weights) {
            let (word, low, count) = (variable.word, variable.low, variable.values.count());
            let is_next = count == 2 && before == Some((word, low.wrapping_sub(1)));
            before = (count == 2).then_some((word, low));
            if let Some(last) = digits.last_mut().filter(|last| {
                is_next
                    && weight != 0
                    && Some(weight) == last.weight.checked_mul(last.count as i128)
            }) {
                last.count *= 2;
                continue;
            }
            let part = Part { source: domain.words[word], low, first: variable.values.nth(0) };
            digits.push(Digit { weight, count, part: Some(part) });
        }
        digits
    }

    /// Returns for each variable whether the value changes with it.
    fn used(&self) -> Vec<bool> {
        let mut dice = Dice(0xCAFE);
        let variables = 0..self.function.domain.variables.len();
        let few = self.points.iter().take(12);
        let mut changes = |variable: usize| {
            few.clone().chain([&self.function.lowest()]).any(|point| {
                let mut other = point.clone();
                other[variable] = 0;
                let at_lowest = self.function.at(&other);
                let last = self.function.last_of(variable);
                other[variable] = if last == 0 { 0 } else { 1 + dice.up_to(last - 1) };
                self.function.at(&other) != at_lowest
            })
        };
        variables.map(&mut changes).collect()
    }
}
