//! The place of a run's archive, in the run folder: `archive.json`.
//!
//! It stays when the local files are removed, and `fluxline runs` reads it. The archive itself has
//! a file of the same name, with the sums of all files.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::directory::{Access, Directory};
use super::folder_error::FolderError;

/// The file of the place of a run's archive; and, in an archive, of its contents.
pub const ARCHIVE_FILE: &str = "archive.json";
/// The largest file \[byte\].
const BYTES_MAX: u64 = 64 << 10;

/// The place of a run's archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedAt {
    /// Its address: a folder, or `s3://BUCKET/PREFIX`.
    pub target: String,
    /// True when the local files were removed, or are being removed.
    pub removed: bool,
    /// Size of the event files in it \[byte\].
    pub event_bytes: u64,
}

impl ArchivedAt {
    /// Reads it; `None` without a file that can be read.
    #[must_use]
    pub fn read(folder: &Directory) -> Option<ArchivedAt> {
        let file = folder.file(Path::new(ARCHIVE_FILE), Access::Read).ok()?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Replaces it; it is on the disk afterwards.
    ///
    /// Errors: the disk is full, or the folder cannot be written.
    pub fn write(&self, folder: &Directory) -> Result<(), FolderError> {
        // Texts and numbers are always JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        folder.replace(Path::new(ARCHIVE_FILE), &text)
    }
}
