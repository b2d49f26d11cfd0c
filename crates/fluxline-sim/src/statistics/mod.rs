//! What a run says in numbers, in fixed memory: how latencies are spread, how sure their mean is,
//! when the start is over, and whether all nodes get their share.
//!
//! Nothing here knows a network: latencies come as durations, shares as numbers.

pub mod fairness;
pub mod histogram;
pub mod moments;
pub mod series;

pub use fairness::Fairness;
pub use histogram::Histogram;
pub use moments::Moments;
pub use series::{Estimate, Series};
