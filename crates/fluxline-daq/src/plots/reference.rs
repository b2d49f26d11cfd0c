//! The plot of an earlier run.

use serde::{Deserialize, Serialize};

/// A plot of an earlier run, which is shown beside a plot with the same bins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The folder of the run, as the experiment names it.
    pub run: String,
    /// The entries of its bins.
    pub counts: Vec<u64>,
    /// The sums of `y`, of a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sums: Option<Vec<f64>>,
}
