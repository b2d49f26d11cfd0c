//! The filters of an experiment, from which each builder of a partition makes a stage of its own.

use std::fmt;
use std::sync::Arc;

use fluxline_daq::experiment::Experiment;
use fluxline_daq::formats::LoadedFormat;

use super::{Expression, Filter, FilterStage};
use crate::error::Error;

/// Makes a filter.
type MakeFilter = Arc<dyn Fn() -> Box<dyn Filter> + Send + Sync>;

/// The filters of an experiment, compiled once.
#[derive(Clone, Default)]
pub struct FilterPlan {
    keep: Option<Expression>,
    mark: Option<Expression>,
    function: Option<(String, MakeFilter)>,
}

impl fmt::Debug for FilterPlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let function = self.function.as_ref().map(|function| &function.0);
        out.debug_struct("FilterPlan").field("function", &function).finish_non_exhaustive()
    }
}

impl FilterPlan {
    /// Compiles the expressions of an experiment.
    ///
    /// # Errors
    /// A wrong expression, with its place.
    pub fn of(experiment: &Experiment, loaded: &[LoadedFormat]) -> Result<FilterPlan, Error> {
        let keep = Expression::of(experiment, loaded)?;
        let mark = Expression::mark_of(experiment, loaded)?;
        Ok(FilterPlan { keep, mark, function: None })
    }

    /// Adds a function of the program, which sees the events that the expression keeps. Its
    /// decision must follow from the event alone: another process may decide again after a death.
    /// `version` names the function; processes with another version do not share a run.
    #[must_use]
    pub fn with_function<F: Filter + 'static>(
        self,
        version: &str,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> FilterPlan {
        let make: MakeFilter = Arc::new(move || Box::new(make()));
        FilterPlan { function: Some((version.to_owned(), make)), ..self }
    }

    /// Returns the name of the program's function and its version; `None`: the program has none.
    #[must_use]
    pub fn function_version(&self) -> Option<&str> {
        self.function.as_ref().map(|function| function.0.as_str())
    }

    /// Makes a stage.
    #[must_use]
    pub fn stage(&self) -> FilterStage {
        let function = self.function.as_ref().map(|function| (function.1)());
        FilterStage::of(self.keep.clone(), function).with_mark(self.mark.clone())
    }
}
