//! The plan of a feedback loop: its functions, made before the run folder is.

use std::sync::Mutex;

use fluxline_daq::experiment::{Experiment, Feedback, Sampled};
use fluxline_daq::formats::LoadedFormat;
use fluxline_packet::model::Epoch;

use super::program::Program;
use super::values::Values;
use super::{Decide, MakeDecide};
use crate::error::Error;

/// The feedback loop of a run, with the function of each builder of this process.
pub(crate) struct LoopPlan {
    pub of_file: Feedback,
    /// The functions by builder; each is taken once.
    functions: Mutex<Vec<Option<Box<dyn Decide>>>>,
}

impl LoopPlan {
    /// Makes the functions of the builders with these numbers; `None`: the experiment has no loop.
    ///
    /// # Errors
    /// There is not exactly one function, or it cannot be made.
    pub fn of(
        experiment: &Experiment,
        loaded: &[LoadedFormat],
        of_caller: Option<MakeDecide>,
        builders: std::ops::Range<usize>,
    ) -> Result<Option<LoopPlan>, Error> {
        let Some(of_file) = experiment.feedback.clone() else {
            return match of_caller {
                None => Ok(None),
                Some(_) => Err(Error::input(
                    "the program gives a function that decides, and the experiment has no [loop]; \
                     write the table, which may be empty.",
                )),
            };
        };
        if of_file.sampled == Sampled::Sensor {
            check_times(experiment, loaded)?;
        }
        let values = match of_file.values.is_empty() {
            true => None,
            false => Some(Values::of(&of_file.values, experiment, loaded)?),
        };
        let make = |builder: usize| -> Result<Box<dyn Decide>, Error> {
            match (&values, of_file.program.is_empty(), &of_caller) {
                (Some(values), true, None) => Ok(Box::new(values.clone())),
                (None, false, None) => Ok(Box::new(Program::start(&of_file)?)),
                (None, true, Some(make)) => Ok(make(builder)),
                (None, true, None) => Err(Error::input(
                    "[loop] has no function; write `values` (expressions) or `program` (a program \
                     and its arguments), or start the run from Rust with Options::decide.",
                )),
                _ => Err(Error::input(
                    "[loop] has `values` or `program`, and the program that starts the run gives a \
                     function, too; remove one of them.",
                )),
            }
        };
        let mut functions: Vec<Option<Box<dyn Decide>>> = Vec::new();
        functions.resize_with(builders.end, || None);
        for builder in builders {
            functions[builder] = Some(make(builder)?);
        }
        Ok(Some(LoopPlan { functions: Mutex::new(functions), of_file }))
    }

    /// Returns the function of a builder of this process, once.
    pub fn function(&self, builder: usize) -> Box<dyn Decide> {
        let mut functions = self.functions.lock().unwrap_or_else(|held| held.into_inner());
        let function = functions.get_mut(builder).and_then(Option::take);
        function.unwrap_or_else(|| unreachable!("builder-{builder} takes its function once"))
    }
}

impl std::fmt::Debug for LoopPlan {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LoopPlan").field("of_file", &self.of_file).finish_non_exhaustive()
    }
}

/// Checks that each packet of an event has a time that counts from 1970.
fn check_times(experiment: &Experiment, loaded: &[LoadedFormat]) -> Result<(), Error> {
    for (source, format) in experiment.sources.iter().zip(loaded) {
        for packet in format.description.packet_types() {
            let epoch = packet.timestamp.as_ref().map(|timestamp| timestamp.epoch);
            if packet.event.is_some() && epoch != Some(Epoch::Unix) {
                return Err(Error::input(format_args!(
                    "[loop] sampled = \"sensor\": packets `{}` of source `{}` have no time since \
                     1970 (`timestamp` with epoch = \"unix\"); write sampled = \"arrival\".",
                    packet.name, source.name
                )));
            }
        }
    }
    Ok(())
}
