//! The expressions of `[filter]` in the experiment: `keep` and `mark`.

use fluxline_daq::event::{EventBatch, EventView};
use fluxline_daq::experiment::{Experiment, filter_sentence};
use fluxline_daq::filter::{EventExpression, FilterInput};
use fluxline_daq::formats::LoadedFormat;

use super::{Decisions, Filter, RunSource};
use crate::error::Error;

/// Decides by an expression.
#[derive(Clone)]
pub(crate) struct Expression(EventExpression);

impl Expression {
    /// Compiles `keep` of an experiment; `None`: it has none.
    pub fn of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<Option<Expression>, Error> {
        Expression::compile("keep", experiment.filter.keep.as_ref(), experiment, loaded)
    }

    /// Compiles `mark` of an experiment; `None`: it has none.
    pub fn mark_of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<Option<Expression>, Error> {
        Expression::compile("mark", experiment.filter.mark.as_ref(), experiment, loaded)
    }

    fn compile(
        key: &str,
        text: Option<&String>,
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<Option<Expression>, Error> {
        let Some(text) = text else { return Ok(None) };
        let pairs = experiment.sources.iter().zip(loaded);
        let inputs: Vec<_> = pairs
            .map(|(of, format)| FilterInput { name: &of.name, description: &format.description })
            .collect();
        let compiled = EventExpression::compile(text, &inputs);
        let compiled = compiled.map_err(|error| Error::input(filter_sentence(key, &error)))?;
        Ok(Some(Expression(compiled)))
    }

    /// Returns true when the expression is true for the event.
    pub fn is_true(&self, event: &EventView<'_>) -> bool {
        self.0.is_true(event)
    }
}

impl Filter for Expression {
    fn add_source(&mut self, source: &RunSource) {
        self.0.add_source(source.number, source.input, &source.label);
    }

    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        for (row, event) in batch.views().enumerate().filter(|(_, event)| !event.is_late()) {
            decisions.set(row, self.is_true(&event).into());
        }
    }
}
