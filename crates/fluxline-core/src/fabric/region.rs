//! Regions: their names, keys and rights, and ranges in them.

use alloc::string::{String, ToString};

/// The longest name of a region \[byte\]. Source: leaves room for a node's name in a file name.
pub const NAME_BYTES_MAX: usize = 64;

/// The name of a region: 1 to 64 letters, digits, `-`, `_` and `.`, not beginning with a dot.
///
/// Such a name is safe as a part of a file name, as some links use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// The reason why a name was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a name: write 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', not \
     beginning with a dot"
)]
pub struct NameError {
    /// The rejected name, cut to a readable length.
    pub name: String,
}

impl Name {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Name, NameError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let good = (1..=NAME_BYTES_MAX).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(legal);
        if good {
            Ok(Name(text.to_string()))
        } else {
            Err(NameError { name: text.chars().take(NAME_BYTES_MAX).collect() })
        }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::fmt::Display for Name {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str(&self.0)
    }
}

/// A region of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

/// An imported region of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteId(pub u32);

/// The key that an importer of a region must show. Comparing takes constant time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub u64);

impl core::fmt::Debug for Key {
    /// Hides the key, so that it does not get into logs.
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.write_str("Key(..)")
    }
}

/// The rights of peers to a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The right to write: put, put with notify, stores through a window.
    pub put: bool,
    /// The right to read: get, loads through a window.
    pub get: bool,
    /// The right to change words by `fetch_add` and `compare_swap`.
    pub atomic: bool,
}

impl Rights {
    /// All rights.
    pub const ALL: Rights = Rights { put: true, get: true, atomic: true };
    /// Only the right to write, as a sensor needs.
    pub const PUT: Rights = Rights { put: true, get: false, atomic: false };
}

impl Rights {
    /// Returns true when peers may change the region.
    #[must_use]
    pub const fn changes(self) -> bool {
        self.put || self.atomic
    }
}

/// The terms on which a region is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The rights of peers.
    pub rights: Rights,
    /// The key that they must show.
    pub key: Key,
}

/// A piece of an own region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The region.
    pub region: RegionId,
    /// The offset of its first byte \[byte\].
    pub offset: u64,
    /// The length \[byte\].
    pub bytes: u64,
}

/// A place in a peer's region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The region.
    pub remote: RemoteId,
    /// The offset in the region \[byte\].
    pub offset: u64,
}
