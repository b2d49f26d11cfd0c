//! The ledger: where every packet went.

mod counters;

pub use counters::{BuilderCounters, HostCounters, InputCounters, SourceCounters};
