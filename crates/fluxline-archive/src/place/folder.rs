//! An archive in a folder: a mounted server, a disk, a tape library with a file system.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use fluxline_daq::record::{Access, Directory, FolderError};
use rustix::fs::{Advice, fadvise};

use super::{PIECE_BYTES, Place, Purpose, PutError};
use crate::error::{ArchiveError, failed, input};

/// The end of the names of files that are being written.
const PART: &str = ".part";
/// Most folders in one another.
const DEPTH_MAX: usize = 16;

/// A folder with the files of one archive.
pub struct Folder {
    address: String,
    directory: Directory,
}

impl Folder {
    /// Opens the folder of the run `name` in `to`. To write, `to` must exist: a server that is not
    /// mounted must not become a folder of the local disk.
    pub fn open(to: &str, name: &str, purpose: Purpose) -> Result<Folder, ArchiveError> {
        let absent = |error: FolderError| match error {
            FolderError::Missing(_) | FolderError::NotAFolder(_) => {
                input!("{to} is not a folder: mount it, make it, or give another target.")
            }
            error => input!("{error}."),
        };
        let directory = Directory::open(Path::new(to)).map_err(absent)?;
        let directory = match (name, purpose) {
            ("", _) => directory,
            (name, Purpose::Write) => directory.make(Path::new(name)).map_err(|error| {
                failed!("{to} does not take the folder {name}: {error}; free it, or give another.")
            })?,
            (name, Purpose::Read) => directory.directory(Path::new(name))?,
        };
        let whole = std::fs::canonicalize(directory.path());
        let whole = whole.unwrap_or_else(|_| directory.path().to_path_buf());
        let address = whole.to_string_lossy().into_owned();
        Ok(Folder { address, directory })
    }

    fn write(&self, part: &Path, reader: &mut dyn Read) -> Result<u64, PutError> {
        let failed = |error: &dyn std::fmt::Display| PutError::Failed(error.to_string());
        if let Some(above) = part.parent().filter(|above| !above.as_os_str().is_empty()) {
            self.directory.make(above).map_err(|error| failed(&error))?;
        }
        // A killed program may have left one.
        self.directory.remove(part).map_err(|error| failed(&error))?;
        let mut file = self.directory.create(part).map_err(|error| failed(&error))?;
        let bytes = copy(reader, &mut file).map_err(|error| failed(&error))?;
        file.sync_all().map_err(|error| failed(&error))?;
        Ok(bytes)
    }

    fn other_below(
        &self,
        at: &Directory,
        above: &str,
        known: &[String],
        depth: usize,
    ) -> Result<Option<String>, ArchiveError> {
        let is_known = |full: &str| {
            let whole = full.strip_suffix(PART).unwrap_or(full);
            known.iter().any(|known| known == full || known == whole)
        };
        for name in at.names()? {
            let full = if above.is_empty() { name.clone() } else { format!("{above}/{name}") };
            let below = at.directory(Path::new(&name));
            if let Some(below) = below.ok().filter(|_| depth < DEPTH_MAX) {
                if let Some(other) = self.other_below(&below, &full, known, depth + 1)? {
                    return Ok(Some(other));
                }
            } else if !is_known(&full) {
                return Ok(Some(full));
            }
        }
        Ok(None)
    }
}

/// Copies all bytes of a reader.
pub fn copy(reader: &mut dyn Read, into: &mut File) -> io::Result<u64> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            return Ok(bytes);
        }
        into.write_all(&piece[..read])?;
        bytes += read as u64;
    }
}

/// Returns the name of a file while it is written.
pub fn part_of(name: &str) -> PathBuf {
    PathBuf::from(format!("{name}{PART}"))
}

impl Place for Folder {
    fn address(&self) -> &str {
        &self.address
    }

    fn put(
        &self,
        name: &str,
        reader: &mut dyn Read,
        _bytes: u64,
        may_replace: bool,
    ) -> Result<u64, PutError> {
        if !may_replace && self.directory.has(Path::new(name)) {
            return Err(PutError::Exists);
        }
        let part = part_of(name);
        let written = self.write(&part, reader).and_then(|bytes| {
            let named = self.directory.rename(&part, Path::new(name));
            named.map_err(|error| PutError::Failed(error.to_string()))?;
            Ok(bytes)
        });
        written.inspect_err(|_| {
            // Of a full disk, the rest would only take room.
            let _ = self.directory.remove(&part);
        })
    }

    fn get(&self, name: &str) -> Result<Option<Box<dyn Read + '_>>, ArchiveError> {
        match self.directory.file(Path::new(name), Access::Read) {
            Ok(file) => {
                // The bytes were forced to the disk, so the kernel may forget its copy: reading
                // asks the disk or the server then. A file system may decline; it is only advice.
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
                Ok(Some(Box::new(file)))
            }
            Err(FolderError::Missing(_)) => Ok(None),
            Err(error) => Err(ArchiveError::Files(format!("{error}."))),
        }
    }

    fn other_file(&self, known: &[String]) -> Result<Option<String>, ArchiveError> {
        self.other_below(&self.directory, "", known, 0)
    }
}
