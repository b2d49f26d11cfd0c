//! The reasons why a checkpoint is not used.

use fluxline_cluster::Unresumed;

/// Version of the state's layout. Raise it when a saved type changes.
pub const VERSION: u32 = 3;

/// The reason why a builder does not go on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is cut or changed, or no checkpoint.
    #[error("it is damaged")]
    Damaged,
    /// Another version of the program wrote it.
    #[error("it has layout {0}, and this program reads layout {VERSION}")]
    Version(u32),
    /// It belongs to another run.
    #[error("it belongs to run {0}")]
    Run(u64),
    /// It was saved before the beginning of the run.
    #[error("an earlier run with the same number wrote it")]
    Earlier,
    /// The experiment is another one, or the state contradicts itself.
    #[error(transparent)]
    State(#[from] Unresumed),
}
