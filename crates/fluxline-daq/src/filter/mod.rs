//! Filters as expressions: `keep` and `mark` of `[filter]`, compiled and evaluated per event.
//!
//! ```text
//!   keep = "event.complete && count(max(adc) > 300) >= 2"
//!           └─ the event      │     └─ over the samples of each packet
//!                             └─ over the packets of the event
//! ```
//!
//! `text.rs` parses the text. `compile.rs` resolves each name for every packet type of every
//! input, and finds the fields that can be read in place. `evaluate.rs` walks the compiled
//! expression; `sweep.rs` is its fast loop over the samples of a packet. `packet_values.rs` gives
//! the values of single packets and samples to plots. docs/filters.md is the manual.

mod compile;
mod evaluate;
mod load;
mod names;
mod packet_values;
mod sum;
mod sweep;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use compile::{FilterInput, WrongValue};
pub use packet_values::{PacketExpressions, TakeValues};

use crate::event::EventView;

use compile::Compiled;

/// A compiled expression over an event and its packets.
#[derive(Clone, Debug)]
pub struct EventExpression {
    compiled: Compiled,
    /// The input of each source and its label's number among the texts, by source number.
    sources: Vec<KnownSource>,
}

/// A source, as a filter needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownSource {
    input: u16,
    label: u32,
}

impl EventExpression {
    /// Compiles an expression over the packets of these inputs, numbered in this order.
    ///
    /// # Errors
    /// One sentence: the mistake, its place in the text, and the nearest known name.
    pub fn compile(text: &str, inputs: &[FilterInput<'_>]) -> Result<EventExpression, String> {
        let compiled = compile::compile(text, inputs)?;
        Ok(EventExpression { compiled, sources: Vec::new() })
    }

    /// Adds source number `number` with its input and label. Packets of unknown sources have no
    /// fields.
    pub fn add_source(&mut self, number: u32, input: u16, label: &str) {
        let unknown = KnownSource { input: u16::MAX, label: value::NO_TEXT };
        let place = number as usize;
        if self.sources.len() <= place {
            self.sources.resize(place + 1, unknown);
        }
        self.sources[place] = KnownSource { input, label: self.compiled.text_number(label) };
    }

    /// Returns true when the expression is true for the event.
    ///
    /// Cost: one pass over the packets for each aggregate, and over their samples where the
    /// aggregate uses one; no allocation where all fields are at fixed places.
    #[must_use]
    pub fn is_true(&self, event: &EventView<'_>) -> bool {
        evaluate::is_true(self, event)
    }

    /// Returns the value of the expression for the event, true as 1 and false as 0; `None`: it is
    /// absent or a text. Cost: as [`Self::is_true`].
    #[must_use]
    pub fn number(&self, event: &EventView<'_>) -> Option<f64> {
        evaluate::number(self, event)
    }
}
