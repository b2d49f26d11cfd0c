//! Archives of runs: a finished run folder is copied to a target, verified by reading it back, and
//! restored from there.
//!
//! ```text
//!   run folder ──▶ SHA-256 ──▶ (zstd) ──▶ place: folder or S3 ──▶ read back ──▶ SHA-256 equal?
//!       │                                                                           │
//!       └── archive.jsonl: a line before and after each file        archive.json: names and sums
//! ```
//!
//! A target has the files of one run and `archive.json`, which is written last: without it, the
//! archive is not complete. [`archive`] makes one, [`verify`] reads one back, and [`restore`] makes
//! a run folder of one. Which bytes are there is decided by check sums alone, never by a size or a
//! time (docs/adr/0049).
#![forbid(unsafe_code)]

mod check;
mod compressed;
mod copy;
mod error;
mod journal;
mod manifest;
mod names;
mod place;
mod restore;
mod source;

pub use copy::{Archived, Wanted, archive};
pub use error::ArchiveError;
pub use manifest::{FileEntry, Manifest};
pub use restore::{Restored, Verified, restore, verify};

/// A function that is called with the bytes that were worked on since its last call, and the
/// bytes of all work together \[byte\].
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64);
