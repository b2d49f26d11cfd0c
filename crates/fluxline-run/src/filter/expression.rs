//! The filter of `[filter] keep` in the experiment.

use fluxline_daq::event::EventBatch;
use fluxline_daq::experiment::{Experiment, keep_sentence};
use fluxline_daq::filter::{FilterInput, KeepExpression};
use fluxline_daq::formats::LoadedFormat;

use super::{Decisions, Filter, RunSource};
use crate::error::Error;

/// Decides by an expression.
pub(crate) struct Expression(KeepExpression);

impl Expression {
    /// Compiles the expression of an experiment; `None`: it has none.
    pub fn of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<Option<Expression>, Error> {
        let Some(keep) = &experiment.filter.keep else { return Ok(None) };
        let pairs = experiment.sources.iter().zip(loaded);
        let inputs: Vec<_> = pairs
            .map(|(of, format)| FilterInput { name: &of.name, description: &format.description })
            .collect();
        let compiled = KeepExpression::compile(keep, &inputs);
        let compiled = compiled.map_err(|error| Error::input(keep_sentence(&error)))?;
        Ok(Some(Expression(compiled)))
    }
}

impl Filter for Expression {
    fn add_source(&mut self, source: &RunSource) {
        self.0.add_source(source.number, source.input, &source.label);
    }

    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        for (row, event) in batch.views().enumerate().filter(|(_, event)| !event.is_late()) {
            decisions.set(row, self.0.keeps(&event).into());
        }
    }
}
