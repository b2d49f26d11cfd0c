//! `archive.json`: the files of an archive with their sizes and check sums.
//!
//! A manifest may come from anybody, and its names become paths at a restore. So they are checked
//! when it is read, in one place: relative, of ordinary parts, each once.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{ArchiveError, input};
use crate::names::check_name;

/// The version of the manifest that this program writes and reads.
const VERSION: u32 = 1;
/// The largest manifest that is read \[byte\].
pub const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// The end of the names of compressed files.
const COMPRESSED: &str = ".zst";

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name in the run folder, with `/` between folders.
    pub name: String,
    /// Its size in the run folder \[byte\].
    pub bytes: u64,
    /// The SHA-256 of its bytes in the run folder, as 64 hexadecimal digits.
    pub sha256: String,
    /// Its size at the target \[byte\]: smaller where it is compressed.
    pub stored_bytes: u64,
}

/// The contents of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this form.
    #[serde(rename = "fluxline-archive")]
    pub version: u32,
    /// The name of the run.
    pub run: String,
    /// True when each file is compressed by zstd; `.zst` is added to its name then.
    pub compressed: bool,
    /// The time at which it was finished \[ns since 1970\].
    pub made_ns: u64,
    /// Its files.
    pub files: Vec<FileEntry>,
    /// Names in the run folder that are not regular files, and were left out.
    pub left_out: Vec<String>,
}

impl Manifest {
    /// Makes a manifest.
    pub fn new(run: &str, compressed: bool, files: Vec<FileEntry>) -> Manifest {
        let (run, left_out) = (run.to_owned(), Vec::new());
        Manifest { version: VERSION, run, compressed, made_ns: 0, files, left_out }
    }

    /// Reads a manifest of `place`; errors are sentences.
    pub fn parse(bytes: &[u8], place: &str) -> Result<Manifest, ArchiveError> {
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(|error| {
            input!("archive.json of {place} is not the list of an archive: {error}.")
        })?;
        if manifest.version != VERSION {
            let version = manifest.version;
            return Err(input!(
                "{place} is an archive of version {version}, and this program reads version \
                 {VERSION}; use a newer program."
            ));
        }
        let mut names = BTreeSet::new();
        for file in &manifest.files {
            check_name(&file.name).map_err(|what| {
                input!("archive.json of {place} names the file {:?}, which {what}.", file.name)
            })?;
            if !names.insert(file.name.as_str()) {
                return Err(input!("archive.json of {place} names {:?} twice.", file.name));
            }
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if file.sha256.len() != 64 || !file.sha256.bytes().all(is_digit) {
                return Err(input!("archive.json of {place} has no SHA-256 of {:?}.", file.name));
            }
        }
        Ok(manifest)
    }

    /// Returns it as text.
    pub fn text(&self) -> Vec<u8> {
        // Texts and numbers are always JSON.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Returns the name of a file at the target.
    pub fn stored_name(&self, name: &str) -> String {
        stored_name(name, self.compressed)
    }

    /// Returns the size of the event files in the run folder \[byte\].
    pub fn event_bytes(&self) -> u64 {
        let events = self.files.iter().filter(has_events);
        events.fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns the size of all files in the run folder \[byte\].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// Returns true for an event file.
fn has_events(file: &&FileEntry) -> bool {
    file.name.starts_with("events-") && file.name.ends_with(".arrows")
}

/// Returns the name of a file at the target.
pub fn stored_name(name: &str, compressed: bool) -> String {
    let end = if compressed { COMPRESSED } else { "" };
    format!("{name}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NAME_BYTES_MAX;

    fn manifest_with(name: &str) -> Vec<u8> {
        let (name, sha256) = (name.to_owned(), "0".repeat(64));
        let file = FileEntry { name, bytes: 1, sha256, stored_bytes: 1 };
        Manifest::new("0042", false, vec![file]).text()
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for name in [
            "../x",
            "a/../../x",
            "/etc/passwd",
            "",
            "a//b",
            "./a",
            "a/",
            "..",
            "a\0b",
            "a\nb",
            "archive.json",
            "archive.jsonl",
            "serve.url",
            &"x".repeat(NAME_BYTES_MAX + 1),
        ] {
            let refused = Manifest::parse(&manifest_with(name), "here");
            assert!(matches!(refused, Err(ArchiveError::Input(_))), "{name:?}");
        }
        for name in ["run.json", "formats/board.toml", "a b/ü", "..a"] {
            Manifest::parse(&manifest_with(name), "here").expect(name);
        }
    }

    #[test]
    fn bytes_of_strangers_are_no_manifest() {
        let whole = manifest_with("run.json");
        for end in 0..whole.len() - 1 {
            assert!(Manifest::parse(&whole[..end], "here").is_err(), "{end}");
        }
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in [("\"fluxline-archive\": 1", "\"fluxline-archive\": 2"), ("00", "zz")] {
            assert!(Manifest::parse(text.replace(from, to).as_bytes(), "here").is_err(), "{to}");
        }
    }
}
