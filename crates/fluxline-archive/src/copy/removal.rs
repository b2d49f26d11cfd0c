//! Removes the local files of an archived run. Its record, its tags and the place of its archive
//! stay, so that `fluxline runs` lists it.

use std::path::Path;

use fluxline_daq::record::{Access, ArchivedAt};

use super::Work;
use crate::error::{ArchiveError, failed, input};
use crate::journal::Entry;
use crate::manifest::Manifest;
use crate::names::stays;
use crate::source::Stamp;

/// Removes the local files, which the caller has just compared with the archive; returns their
/// number.
///
/// Errors: a file changed since the comparison. Files that are gone by then are in the archive.
pub fn remove(
    work: &mut Work<'_>,
    manifest: &Manifest,
    archived: &ArchivedAt,
) -> Result<usize, ArchiveError> {
    // From here on the folder is a stub, whatever happens: what is removed is in the archive.
    archived.write(work.directory)?;
    let mut removed = 0;
    let is_archived = |name: &str| manifest.files.iter().any(|entry| entry.name == name);
    for file in &work.contents.files {
        if stays(&file.name) || !is_archived(&file.name) {
            continue;
        }
        let name = Path::new(&file.name);
        let now = work.directory.file(name, Access::Read)?;
        if Stamp::of(&now).ok() != Some(file.stamp) {
            return Err(failed!(
                "{} of {} changed since it was compared with the archive, and stays; call again.",
                file.name,
                work.shown
            ));
        }
        work.directory.remove(name)?;
        removed += 1;
    }
    remove_empty_folders(work);
    work.journal.add(Entry::Removed {})?;
    Ok(removed)
}

/// Removes the folders that have no file any more.
fn remove_empty_folders(work: &Work<'_>) {
    let files = work.contents.files.iter();
    let mut folders: Vec<&Path> =
        files.flat_map(|file| Path::new(&file.name).ancestors().skip(1)).collect();
    folders.retain(|folder| !folder.as_os_str().is_empty());
    // The deepest first. One that is not empty stays.
    folders.sort_unstable_by_key(|folder| std::cmp::Reverse(folder.components().count()));
    folders.dedup();
    for folder in folders {
        let _ = std::fs::remove_dir(work.directory.path().join(folder));
    }
}

/// The files of a run are not here any more.
pub fn is_removed(run: &Path, archived: &ArchivedAt) -> ArchiveError {
    let (run, at) = (run.display(), &archived.target);
    input!(
        "{run} is archived at {at}, and its files are not here; `fluxline archive --restore {at} \
         --to {run}` brings them back."
    )
}

/// The archive of a run without local files is not where it was.
pub fn is_lost(run: &str, at: &str) -> ArchiveError {
    ArchiveError::Files(format!(
        "{run} was archived at {at}, and that place has no archive.json; nothing was removed."
    ))
}
