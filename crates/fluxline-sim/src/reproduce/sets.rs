//! The list of all sets of published experiments.

use super::set::Set;
use super::{atoll, ethernet, links, myrinet, sci};

/// All sets.
pub const SETS: [&Set; 5] = [&sci::SET, &atoll::SET, &myrinet::SET, &links::SET, &ethernet::SET];

/// The error of an unknown set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a set of published experiments; give one of: {}", names())]
pub struct UnknownSet {
    /// The name that was given.
    pub name: String,
}

/// Returns the names of all sets.
fn names() -> String {
    SETS.map(|set| set.name).join(", ")
}

impl Set {
    /// Returns the set of a name.
    ///
    /// # Errors
    /// [`UnknownSet`]; it lists all sets.
    pub fn named(name: &str) -> Result<&'static Set, UnknownSet> {
        let found = SETS.into_iter().find(|set| set.name == name);
        found.ok_or_else(|| UnknownSet { name: name.to_string() })
    }
}
