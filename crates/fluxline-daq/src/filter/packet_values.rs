//! The values of expressions for each packet or sample, which plots fill.
//!
//! The expressions are those of the body of an aggregate over packets: fields and `packet.*` have
//! a value in each packet, `event.*` that of its event, and an aggregate is over the samples of
//! the packet. One that names a field of samples outside an aggregate has a value for each sample.

use super::compile::{CompiledValues, Expression, OverPackets, WrongValue, compile_values};
use super::evaluate::EventScope;
use super::{EventExpression, FilterInput};
use crate::event::{EventView, PacketRow};

/// Most numbers of one value: the axes of a plot.
const NUMBERS_MAX: usize = 2;

/// A condition and up to two numbers for each packet or sample.
#[derive(Clone, Debug)]
pub struct PacketExpressions {
    /// The names and sources.
    names: EventExpression,
    over: OverPackets,
    cut: Option<Expression>,
    numbers: Vec<Expression>,
}

/// Takes the values of packets.
pub trait TakeValues {
    /// Takes a packet of a type that lacks a field of the expressions.
    fn other_packet(&mut self);

    /// Takes a packet; its values follow.
    fn packet(&mut self, packet: &PacketRow);

    /// Takes a value for which the condition is not true.
    fn cut(&mut self);

    /// Takes the numbers of a value, in the order of the expressions; `None`: absent.
    fn numbers(&mut self, numbers: &[Option<f64>]);
}

impl PacketExpressions {
    /// Compiles a condition, if there is one, and up to two numbers, over the packets of these
    /// inputs, numbered in this order.
    ///
    /// # Errors
    /// The number of the wrong expression, the condition last, and a sentence as of
    /// [`EventExpression::compile`].
    ///
    /// # Panics
    /// With more than two numbers.
    pub fn compile(
        numbers: &[&str],
        cut: Option<&str>,
        inputs: &[FilterInput<'_>],
    ) -> Result<PacketExpressions, WrongValue> {
        assert!(numbers.len() <= NUMBERS_MAX, "a plot has two axes at most");
        let texts: Vec<&str> = numbers.iter().copied().chain(cut).collect();
        let CompiledValues { names, mut bodies, over } = compile_values(&texts, inputs)?;
        let cut = cut.and_then(|_| bodies.pop());
        let names = EventExpression { compiled: names, sources: Vec::new() };
        Ok(PacketExpressions { names, over, cut, numbers: bodies })
    }

    /// Adds a source, as [`EventExpression::add_source`] does.
    pub fn add_source(&mut self, number: u32, input: u16, label: &str) {
        self.names.add_source(number, input, label);
    }

    /// Gives the values of each packet of an event to `take`.
    ///
    /// Cost: an evaluation for each packet or sample; no allocation where all fields are at fixed
    /// places and no aggregate is used.
    pub fn each(&self, event: &EventView<'_>, take: &mut impl TakeValues) {
        let scope = EventScope { of: &self.names, event };
        for (row, bytes) in event.each_packet() {
            let Some(packet) = scope.packet(row, bytes, &self.over.needed) else {
                take.other_packet();
                continue;
            };
            take.packet(row);
            let values = packet.values(&self.over);
            values.each_sample(&self.over.direct, |sample| {
                let is_true = |cut: &Expression| values.value(cut, sample).is_true();
                if !self.cut.as_ref().is_none_or(is_true) {
                    return take.cut();
                }
                let mut numbers = [None; NUMBERS_MAX];
                for (number, expression) in numbers.iter_mut().zip(&self.numbers) {
                    *number = values.value(expression, sample).float();
                }
                take.numbers(&numbers[..self.numbers.len()]);
            });
        }
    }
}
