//! The files of a run folder that are archived.

use std::path::Path;

use fluxline_daq::record::{Access, Directory, FolderError};
use serde::{Deserialize, Serialize};

use crate::error::{ArchiveError, failed, input};
use crate::names::{FIRST_FILE, check_name, is_own};

/// Most folders in one another.
const DEPTH_MAX: usize = 16;

/// A file of a run folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, with `/` between folders.
    pub name: String,
    /// Its size and time.
    pub stamp: Stamp,
}

/// The size and the time of the last change of a file: they tell whether it changed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its size \[byte\].
    pub bytes: u64,
    /// The time of its last change \[ns since 1970\].
    pub changed_ns: i64,
}

/// The contents of a run folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its files, `run.json` first.
    pub files: Vec<SourceFile>,
    /// Links, pipes and devices, which are left out.
    pub left_out: Vec<String>,
}

impl Stamp {
    /// Returns the stamp of an open file.
    pub fn of(file: &std::fs::File) -> std::io::Result<Stamp> {
        use std::os::unix::fs::MetadataExt;
        let of = file.metadata()?;
        // Beyond the year 2262 it wraps, and still differs from another time.
        let changed_ns = of.mtime().wrapping_mul(1_000_000_000).wrapping_add(of.mtime_nsec());
        Ok(Stamp { bytes: of.len(), changed_ns })
    }
}

impl Contents {
    /// Lists a run folder. Links are not followed.
    ///
    /// Errors: a folder cannot be read, or a name is not UTF-8.
    pub fn of(folder: &Directory) -> Result<Contents, ArchiveError> {
        let mut contents = Contents::default();
        contents.add(folder, "", 0)?;
        contents.files.sort_by_key(|file| (file.name != FIRST_FILE, file.name.clone()));
        contents.left_out.sort_unstable();
        Ok(contents)
    }

    fn add(&mut self, folder: &Directory, above: &str, depth: usize) -> Result<(), ArchiveError> {
        if depth > DEPTH_MAX {
            return Err(input!("{} is too deep.", folder.path().display()));
        }
        for name in folder.names()? {
            let full = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
            if is_own(&full) {
                continue;
            }
            let shown = folder.path().join(&name);
            check_name(&full)
                .map_err(|what| input!("{shown:?} {what}, so it cannot be archived; rename it."))?;
            if let Ok(below) = folder.directory(Path::new(&name)) {
                self.add(&below, &full, depth + 1)?;
                continue;
            }
            match folder.file(Path::new(&name), Access::Read) {
                Ok(file) => {
                    let stamp = Stamp::of(&file)
                        .map_err(|error| failed!("{} cannot be read: {error}.", shown.display()))?;
                    self.files.push(SourceFile { name: full, stamp });
                }
                // A directory that is not opened lacks the right for it: that is an error.
                Err(FolderError::NotAFile { what, .. }) if what != "a directory" => {
                    self.left_out.push(full);
                }
                Err(FolderError::Link(_)) => {
                    self.left_out.push(full);
                }
                Err(FolderError::Missing(_)) => {
                    return Err(input!(
                        "{shown:?} was removed meanwhile, or its name is not UTF-8; rename it."
                    ));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the size of all files \[byte\].
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.stamp.bytes).sum()
    }
}
