//! An expression as a function of the independent parts of a packet, and points to try it at.

use alloc::vec;
use alloc::vec::Vec;

use super::domain::{Domain, Known, Source};
use crate::expression::Expr;
use crate::layout::{Layout, Origin};
use crate::word::extract;

/// Random points at which a function is tried.
const POINTS_RANDOM: usize = 96;
/// Constants of an expression around which it is tried.
const CONSTANTS_MAX: usize = 48;

/// For each variable the number of its value.
pub(crate) type Point = Vec<u64>;

/// A value of the layout that is read from a word.
struct Read {
    value: usize,
    word: usize,
    low: u8,
    width: u8,
}

/// An expression as a function of variables.
pub(crate) struct Function<'a> {
    layout: &'a Layout,
    expression: &'a Expr,
    pub domain: Domain,
    reads: Vec<Read>,
    /// Computed values that it needs, each after those that it depends on.
    computed: Vec<usize>,
    constants: Vec<u64>,
    /// Operations of one evaluation.
    pub cost: usize,
}

impl<'a> Function<'a> {
    pub fn of(known: &Known<'a>, expression: &'a Expr) -> Function<'a> {
        let layout = known.layout;
        let needed = crate::needed::closure(layout, &[expression]);
        let mut survey = Survey::default();
        survey.expression(expression);
        let computed: Vec<usize> =
            layout.computed_order.iter().copied().filter(|&id| needed[id]).collect();
        for &id in &computed {
            if let Origin::Computed { value, when, .. } = &layout.values[id].origin {
                survey.expression(value);
                when.iter().for_each(|when| survey.expression(when));
            }
        }
        let mut words: Vec<Source> = Vec::new();
        let mut reads = Vec::new();
        for (value, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            let (source, low, width) = match layout.values[value].origin {
                Origin::Word { item } => (Source::Item(item), 0, 64),
                Origin::Bits { item, low, width } => (Source::Item(item), low, width),
                Origin::Picked { item, pick } => (Source::Picked(item, pick), 0, 64),
                Origin::Computed { .. } => continue,
            };
            reads.push(Read { value, word: number_of(&mut words, source), low, width });
        }
        if survey.size {
            number_of(&mut words, Source::Size);
        }
        if survey.port {
            number_of(&mut words, Source::Port);
        }
        survey.constants.sort_unstable();
        survey.constants.dedup();
        survey.constants.truncate(CONSTANTS_MAX);
        let domain = Domain::of(known, words);
        let cost = survey.operations + domain.variables.len() + reads.len();
        let constants = survey.constants;
        Function { layout, expression, domain, reads, computed, constants, cost }
    }

    /// The value at a point.
    pub fn at(&self, point: &[u64]) -> u64 {
        let mut words = vec![0; self.domain.words.len()];
        for (variable, &number) in self.domain.variables.iter().zip(point) {
            words[variable.word] |= variable.values.nth(number) << variable.low;
        }
        let mut values = vec![0; self.layout.values.len()];
        for read in &self.reads {
            values[read.value] = extract(words[read.word], read.low, read.width);
        }
        let of = |source: Source| self.domain.words.iter().position(|word| *word == source);
        let (size, port) = (of(Source::Size), of(Source::Port));
        let (size, port) = (size.map_or(0, |at| words[at]), port.map_or(0, |at| words[at]));
        for &id in &self.computed {
            let Origin::Computed { value, when, .. } = &self.layout.values[id].origin else {
                continue;
            };
            let known = |id: usize| values[id];
            let there = when.as_ref().is_none_or(|when| when.evaluate(&known, size, port) != 0);
            values[id] = if there { value.evaluate(&known, size, port) } else { 0 };
        }
        self.expression.evaluate(&|id| values[id], size, port)
    }

    /// The point at which each variable has its smallest value.
    pub fn lowest(&self) -> Point {
        vec![0; self.domain.variables.len()]
    }

    pub fn last_of(&self, variable: usize) -> u64 {
        let count = self.domain.variables[variable].values.count();
        u64::try_from(count - 1).unwrap_or(u64::MAX)
    }

    /// Returns the number of points that [`Function::points`] makes.
    pub fn points_count(&self) -> usize {
        1 + POINTS_RANDOM + self.constants.len() * 3 * (1 + self.domain.words.len())
    }

    /// Points that show a function's form: random ones, the corners, and those around the constants
    /// in the expression, at which comparisons and divisions change.
    pub fn points(&self) -> Vec<Point> {
        let variables = self.domain.variables.len();
        let mut dice = Dice(0x5EED);
        let highest: Point = (0..variables).map(|variable| self.last_of(variable)).collect();
        let mut points = vec![highest];
        for number in 0..POINTS_RANDOM {
            let mut point = self.random(&mut dice);
            // Some have few values above the lowest, some few below the highest.
            for (variable, value) in point.iter_mut().enumerate() {
                match (number % 4, dice.below(8)) {
                    (0, 1..) => *value = 0,
                    (1, 1..) => *value = self.last_of(variable),
                    _ => {}
                }
            }
            points.push(point);
        }
        for constant in &self.constants {
            for near in [constant.saturating_sub(1), *constant, constant.saturating_add(1)] {
                let everywhere = self.with_words(near, |_| true, &mut dice);
                points.push(everywhere);
                for word in 0..self.domain.words.len() {
                    points.push(self.with_words(near, |of| of == word, &mut dice));
                }
            }
        }
        points
    }

    pub fn random(&self, dice: &mut Dice) -> Point {
        let variables = 0..self.domain.variables.len();
        variables.map(|variable| dice.up_to(self.last_of(variable))).collect()
    }

    /// A random point at which the chosen words have a value, or the nearest one below.
    fn with_words(&self, value: u64, is_chosen: impl Fn(usize) -> bool, dice: &mut Dice) -> Point {
        let mut point = self.random(dice);
        for (number, variable) in self.domain.variables.iter().enumerate() {
            if is_chosen(variable.word) {
                let part = value.checked_shr(variable.low.into()).unwrap_or(0);
                // A bit is one bit of the value, another variable all from its lowest bit up.
                let is_bit = variable.values.count() == 2;
                point[number] = variable.values.near(if is_bit { part & 1 } else { part });
            }
        }
        point
    }
}

fn number_of(words: &mut Vec<Source>, source: Source) -> usize {
    words.iter().position(|word| *word == source).unwrap_or_else(|| {
        words.push(source);
        words.len() - 1
    })
}

/// The contents of expressions.
#[derive(Default)]
struct Survey {
    constants: Vec<u64>,
    operations: usize,
    size: bool,
    port: bool,
}

impl Survey {
    fn expression(&mut self, expression: &Expr) {
        self.operations += 1;
        match expression {
            Expr::Constant(constant) => self.constants.push(*constant),
            Expr::Value(_) => {}
            Expr::Size => self.size = true,
            Expr::Port => self.port = true,
            Expr::Not(of) | Expr::Gray(of) => self.expression(of),
            Expr::Binary(_, left, right) => {
                self.expression(left);
                self.expression(right);
            }
        }
    }
}

/// Random numbers that are the same in each run (S. Vigna, SplitMix64).
pub(crate) struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit.max(1))) >> 64) as u64
    }

    /// A number from 0 to `last`.
    pub fn up_to(&mut self, last: u64) -> u64 {
        match last.checked_add(1) {
            Some(limit) => self.below(limit),
            None => self.next(),
        }
    }
}
