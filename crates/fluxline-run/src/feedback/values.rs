//! The function of `[loop] values`: the values of expressions over the event.

use fluxline_daq::event::EventView;
use fluxline_daq::experiment::{Experiment, loop_sentence};
use fluxline_daq::filter::{EventExpression, FilterInput};
use fluxline_daq::formats::LoadedFormat;

use super::Decide;
use crate::error::Error;
use crate::filter::RunSource;

/// Decides by expressions: 8 bytes for each, a float in little-endian order. While one is absent,
/// nothing is written.
#[derive(Clone, Debug)]
pub(super) struct Values(Vec<EventExpression>);

impl Values {
    /// Compiles the expressions of an experiment.
    ///
    /// # Errors
    /// A sentence on the mistake.
    pub fn of(
        texts: &[String],
        experiment: &Experiment,
        loaded: &[LoadedFormat],
    ) -> Result<Values, Error> {
        let pairs = experiment.sources.iter().zip(loaded);
        let inputs: Vec<_> = pairs
            .map(|(of, format)| FilterInput { name: &of.name, description: &format.description })
            .collect();
        let compiled = texts.iter().map(|text| EventExpression::compile(text, &inputs));
        let compiled = compiled.collect::<Result<_, _>>();
        compiled.map(Values).map_err(|error| Error::input(loop_sentence(&error)))
    }
}

impl Decide for Values {
    fn add_source(&mut self, source: &RunSource) {
        let RunSource { number, input, label } = source;
        self.0.iter_mut().for_each(|of| of.add_source(*number, *input, label));
    }

    fn decide(&mut self, event: &EventView<'_>, decision: &mut Vec<u8>) -> Result<(), String> {
        for of in &self.0 {
            match of.number(event) {
                Some(value) => decision.extend(value.to_le_bytes()),
                None => {
                    decision.clear();
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
