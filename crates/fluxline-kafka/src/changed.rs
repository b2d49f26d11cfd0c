//! The number of partitions changed during a run: keys of events would change their builder.

/// Somebody gave a topic of the cluster more partitions during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the number of partitions changed from {expected} to {found} during run {run}: keys would \
    change their builder; `fluxline ctl … abandon {run}` ends the run; later runs need the same \
    number in all topics of the cluster, or another `name` below [cluster]"
)]
pub struct PartitionsChanged {
    /// The run.
    pub run: u64,
    /// The number at the beginning.
    pub expected: u32,
    /// The number now.
    pub found: u32,
}
