//! A source as a builder knows it.

use serde::{Deserialize, Serialize};

/// A source as this builder numbers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuiltSource {
    /// Its number in the batches.
    pub number: u32,
    /// Its node.
    pub node: u16,
    /// Its input at the node.
    pub input: u16,
    /// Its label.
    pub label: String,
    /// Name of its packet description.
    pub format: String,
}
