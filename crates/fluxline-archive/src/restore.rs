//! Reads an archive back: to compare it with its manifest, or to make a run folder of it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use fluxline_daq::record::{Access, ArchivedAt, Directory, FolderError, RunFolder};

use crate::OnProgress;
use crate::check::{Summed, fault_of, original, sum_of};
use crate::error::{ArchiveError, failed, input};
use crate::manifest::{FileEntry, Manifest};
use crate::names::may_change;
use crate::place::folder::{Folder, copy, part_of};
use crate::place::{self, Place, Purpose};

/// An archive that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its address.
    pub target: String,
    /// The name of the run.
    pub run: String,
    /// Number of its files.
    pub files: usize,
    /// Their size in the run folder \[byte\].
    pub bytes: u64,
    /// A clause for each file that is missing or differs.
    pub faults: Vec<String>,
}

/// A run folder that was made of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The address of the archive.
    pub target: String,
    /// The run folder.
    pub folder: PathBuf,
    /// Number of files that were written.
    pub written: usize,
    /// Number of files that were there already.
    pub kept: usize,
    /// Their size \[byte\].
    pub bytes: u64,
}

/// Reads all files of an archive and compares their check sums.
///
/// # Errors
/// The place has no archive, or does not answer. Damaged files are not an error here.
pub fn verify(target: &str, on_progress: OnProgress<'_>) -> Result<Verified, ArchiveError> {
    let (place, manifest) = open(target)?;
    let all = manifest.bytes();
    let mut faults = Vec::new();
    for entry in &manifest.files {
        let on_bytes = &mut |bytes| on_progress(bytes, all);
        match fault_of(&*place, &manifest, entry, on_bytes) {
            Ok(fault) => faults.extend(fault),
            // A link or a pipe in the place of a file: the others are still compared.
            Err(ArchiveError::Files(sentence)) => {
                faults.push(sentence.trim_end_matches('.').to_owned());
            }
            Err(error) => return Err(error),
        }
    }
    let (files, run) = (manifest.files.len(), manifest.run.clone());
    Ok(Verified { target: place.address().to_owned(), run, files, bytes: all, faults })
}

fn open(target: &str) -> Result<(Box<dyn Place>, Manifest), ArchiveError> {
    let place = place::open(target, "", Purpose::Read)?;
    let Some(manifest) = place::manifest_of(&*place)? else {
        return Err(input!(
            "{} has no archive.json: it is not an archive, or one that is not complete.",
            place.address()
        ));
    };
    Ok((place, manifest))
}

/// Makes a run folder of an archive, which is compared with its check sums.
///
/// `to` must not exist, or be the folder whose files were removed. It has its name only once all
/// files are there; a second call after a kill goes on.
///
/// # Errors
/// [`ArchiveError`]. A file that differs from its check sum is never put into the folder.
pub fn restore(
    target: &str,
    to: &Path,
    on_progress: OnProgress<'_>,
) -> Result<Restored, ArchiveError> {
    let (place, manifest) = open(target)?;
    let draft = match to.symlink_metadata() {
        Ok(_) => None,
        Err(_) => Some(draft_of(to, &manifest)?),
    };
    let is_stub = draft.is_none();
    let path = draft.clone().unwrap_or_else(|| to.to_path_buf());
    let directory = if is_stub { stub_of(to)? } else { Directory::open(&path)? };
    let _held = hold(&path)?;
    let all = manifest.bytes();
    let mut into =
        Into { place: &*place, manifest: &manifest, directory, is_stub, all, on_progress };
    let (mut written, mut kept) = (0, 0);
    for entry in &manifest.files {
        match into.has(entry)? {
            true => kept += 1,
            false => {
                into.fetch(entry)?;
                written += 1;
            }
        }
    }
    let archived = ArchivedAt {
        target: place.address().to_owned(),
        removed: false,
        event_bytes: manifest.event_bytes(),
    };
    if let Some(draft) = draft {
        let named = std::fs::rename(&draft, to);
        named.map_err(|error| failed!("{} cannot be made: {error}.", to.display()))?;
    }
    archived.write(&into.directory)?;
    let (target, folder) = (place.address().to_owned(), to.to_path_buf());
    Ok(Restored { target, folder, written, kept, bytes: all })
}

/// Makes the folder that gets the name of `to` at the end; one of a killed restore is taken.
fn draft_of(to: &Path, manifest: &Manifest) -> Result<PathBuf, ArchiveError> {
    let Some(name) = to.file_name() else {
        return Err(input!("{} is not the name of a new folder.", to.display()));
    };
    let mut name = name.to_os_string();
    name.push(".restoring");
    let draft = to.with_file_name(name);
    match std::fs::create_dir(&draft) {
        Ok(()) => return Ok(draft),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            let error = FolderError::explain(&draft, error);
            return Err(input!("{error}; the folder above it must exist and be writable."));
        }
    }
    let shown = draft.display().to_string();
    let found = Folder::open(&shown, "", Purpose::Read)?;
    let known: Vec<String> = manifest.files.iter().map(|entry| entry.name.clone()).collect();
    match found.other_file(&known)? {
        Some(other) => Err(input!(
            "{shown} has a file that is not of this archive, {other:?}; move the folder away."
        )),
        None => Ok(draft),
    }
}

/// Opens the folder of a run whose files were removed.
fn stub_of(to: &Path) -> Result<Directory, ArchiveError> {
    let folder = RunFolder::open(to).map_err(|_| {
        input!("{} exists already and is not a run; give another folder.", to.display())
    })?;
    match ArchivedAt::read(folder.directory()) {
        Some(archived) if archived.removed => Ok(folder.directory().clone()),
        _ => Err(input!("{} exists already: give another folder.", to.display())),
    }
}

fn hold(path: &Path) -> Result<Option<File>, ArchiveError> {
    let Ok(handle) = File::open(path) else { return Ok(None) };
    match handle.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(failed!("another program works on {}; wait for its end.", path.display()))
        }
        // A file system without locks lets all through.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(handle)),
    }
}

/// A folder that is being filled.
struct Into<'a> {
    place: &'a dyn Place,
    manifest: &'a Manifest,
    directory: Directory,
    is_stub: bool,
    all: u64,
    on_progress: OnProgress<'a>,
}

impl Into<'_> {
    /// Returns true when the folder has the file already.
    fn has(&mut self, entry: &FileEntry) -> Result<bool, ArchiveError> {
        let name = Path::new(&entry.name);
        if !self.directory.has(name) {
            return Ok(false);
        }
        // Tags and comments may have been added since.
        if self.is_stub && may_change(&entry.name) {
            return Ok(true);
        }
        let found = self.directory.file(name, Access::Read)?;
        let sum = sum_of(found, entry.bytes, &mut |_| {});
        let sum = sum.map_err(|error| failed!("{} cannot be read: {error}.", entry.name))?;
        let is_same = sum == (entry.bytes, entry.sha256.clone());
        if self.is_stub && !is_same {
            return Err(input!(
                "{} in {} is not the one of the archive; nothing was written over. Restore into a \
                 new folder.",
                entry.name,
                self.directory.path().display()
            ));
        }
        if is_same {
            (self.on_progress)(entry.bytes, self.all);
        }
        Ok(is_same)
    }

    /// Brings a file back. It gets its name only if its check sum is right.
    fn fetch(&mut self, entry: &FileEntry) -> Result<(), ArchiveError> {
        let at = self.place.address();
        let damaged = |what: &str| {
            ArchiveError::Files(format!(
                "{} of the archive {at} {what}; `fluxline archive --verify {at}` lists all such \
                 files.",
                entry.name
            ))
        };
        let Some(stored) = original(self.place, self.manifest, &entry.name)? else {
            return Err(damaged("is missing"));
        };
        let name = Path::new(&entry.name);
        if let Some(above) = name.parent().filter(|above| !above.as_os_str().is_empty()) {
            self.directory.make(above)?;
        }
        let part = part_of(&entry.name);
        self.directory.remove(&part)?;
        let mut file = self.directory.create(&part)?;
        let (all, on_progress) = (self.all, &mut self.on_progress);
        let mut on_bytes = |bytes| on_progress(bytes, all);
        // One byte more than there should be is enough to see that it is another file.
        let stored = std::io::Read::take(stored, entry.bytes.saturating_add(1));
        let mut summed = Summed::new(stored, &mut on_bytes);
        let copied = copy(&mut summed, &mut file).and_then(|_| file.sync_all());
        let unread = summed.error.take();
        let is_same = (summed.bytes, summed.digits()) == (entry.bytes, entry.sha256.clone());
        let done = match (unread, copied) {
            (Some(error), _) => Err(damaged(&format!("cannot be read ({error})"))),
            (None, Err(error)) => Err(failed!(
                "{} cannot be written to {} ({error}); free some space, and call again.",
                entry.name,
                self.directory.path().display()
            )),
            (None, Ok(())) if !is_same => Err(damaged("has another check sum")),
            (None, Ok(())) => self.directory.rename(&part, name).map_err(ArchiveError::from),
        };
        done.inspect_err(|_| {
            let _ = self.directory.remove(&part);
        })
    }
}
