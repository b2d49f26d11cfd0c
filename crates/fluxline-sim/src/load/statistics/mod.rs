//! Statistics of a run in fixed memory: the distribution of latencies, the confidence of their
//! mean, the end of the warm-up, and the fairness between nodes.
//!
//! Nothing here depends on a network: latencies are durations, shares are numbers.

pub mod fairness;
pub mod histogram;
mod interval;
pub mod moments;
pub mod series;

pub use fairness::Fairness;
pub use histogram::Histogram;
pub use moments::Moments;
pub use series::{Estimate, Series};
