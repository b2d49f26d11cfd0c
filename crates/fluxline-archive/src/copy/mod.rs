//! Makes the archive of a run, or goes on with one.
//!
//! ```text
//!   no manifest at the target:   send what is not verified ──▶ read all back ──▶ manifest
//!   a manifest at the target:    sum of local files and of files read back = manifest?
//!   --remove-local:              the same comparison once more ──▶ remove
//! ```

mod removal;

use std::fs::{File, TryLockError};
use std::path::Path;

use fluxline_daq::record::{ARCHIVE_FILE, Access, ArchivedAt, Directory, RunEnd, RunFolder};

use crate::OnProgress;
use crate::check::{Summed, fault_of};
use crate::compressed;
use crate::error::{ArchiveError, failed, input};
use crate::journal::{Entry, Journal, State};
use crate::manifest::{FileEntry, Manifest, stored_name};
use crate::names::may_change;
use crate::place::{self, Place, Purpose, PutError};
use crate::source::{Contents, SourceFile, Stamp};

/// The wishes for an archive.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The target, in which the run gets a folder of its own name.
    pub to: &'a str,
    /// Compress each file by zstd.
    pub compress: bool,
    /// Remove the local files afterwards.
    pub remove_local: bool,
}

/// An archive that is complete and was read back in this call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archived {
    /// Its address.
    pub target: String,
    /// Number of its files.
    pub files: usize,
    /// Their size in the run folder \[byte\].
    pub bytes: u64,
    /// Their size at the target \[byte\].
    pub stored_bytes: u64,
    /// Number of files that this call sent.
    pub sent: usize,
    /// Names in the run folder that are not regular files.
    pub left_out: Vec<String>,
    /// Number of local files that this call removed.
    pub removed: usize,
}

/// Archives a finished run, and verifies the archive by reading it back.
///
/// Done when: each file was read back from the target in this call, and has the SHA-256 of the
/// local one. What a call before has sent is not sent again.
///
/// # Errors
/// [`ArchiveError`]. Local files are removed only if everything before succeeded.
///
/// Cost: the files are read once, and read back once; twice each with `remove_local`.
pub fn archive(
    run: &Path,
    wanted: &Wanted<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Archived, ArchiveError> {
    if wanted.compress && !compressed::IS_HERE {
        return Err(input!("--compress: {}.", compressed::ADVICE));
    }
    let folder = RunFolder::open(run)?;
    let whole = std::fs::canonicalize(run);
    let whole = whole.map_err(|error| input!("{} cannot be read: {error}.", run.display()))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| input!("{} has no name in UTF-8.", run.display()))?.to_owned();
    let _held = hold(run)?;
    check_finished(&folder)?;
    let stub = ArchivedAt::read(folder.directory()).filter(|archived| archived.removed);
    if let Some(stub) = stub.as_ref().filter(|_| !wanted.remove_local) {
        return Err(removal::is_removed(run, stub));
    }
    if std::fs::canonicalize(wanted.to).is_ok_and(|to| to.starts_with(&whole)) {
        return Err(input!("{} is in the run itself; give another target.", wanted.to));
    }
    let place = place::open(wanted.to, &name, Purpose::Write)?;
    if let Some(stub) = stub.as_ref().filter(|stub| stub.target != place.address()) {
        return Err(removal::is_removed(run, stub));
    }
    let (journal, state) = Journal::open(folder.directory(), place.address())?;
    let contents = Contents::of(folder.directory())?;
    let found = place::manifest_of(&*place)?;
    let has_comparison = found.is_some() || wanted.remove_local;
    let passes = u64::from(found.is_none()) + u64::from(has_comparison);
    let mut work = Work {
        directory: folder.directory(),
        shown: run.display().to_string(),
        name,
        place: &*place,
        journal,
        state,
        // Each pass reads both sides.
        all_bytes: contents.bytes() * 2 * passes,
        contents,
        on_progress,
        sent: 0,
    };
    let mut manifest = match found {
        Some(manifest) => manifest,
        None if stub.is_some() => return Err(removal::is_lost(&work.shown, place.address())),
        None => work.make(wanted.compress)?,
    };
    if has_comparison {
        work.compare(&mut manifest, stub.is_some())?;
    }
    let removed = work.finish(&manifest, wanted.remove_local)?;
    Ok(Archived {
        target: place.address().to_owned(),
        files: manifest.files.len(),
        bytes: manifest.bytes(),
        stored_bytes: manifest.files.iter().map(|file| file.stored_bytes).sum(),
        sent: work.sent,
        left_out: work.contents.left_out.clone(),
        removed,
    })
}

/// Holds the lock of the run, with which nobody records into it or mends it.
fn hold(run: &Path) -> Result<Option<File>, ArchiveError> {
    let Ok(handle) = File::open(run) else { return Ok(None) };
    match handle.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(input!(
            "{} is still being recorded or mended; archive it when the run has ended.",
            run.display()
        )),
        // A file system without locks lets all through.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(handle)),
    }
}

fn check_finished(folder: &RunFolder) -> Result<(), ArchiveError> {
    let run = folder.path().display();
    match RunEnd::of(folder)? {
        RunEnd::Finished | RunEnd::RecordingStopped | RunEnd::Recovered => Ok(()),
        RunEnd::Running => {
            Err(input!("{run} is still being recorded; archive it when the run has ended."))
        }
        RunEnd::Killed => {
            Err(input!("{run} has no end; `fluxline recover {run}` makes one, then archive it."))
        }
        RunEnd::Unknown => Err(input!("run.json of {run} does not say how the run ended.")),
    }
}

/// An archive at work.
pub struct Work<'a> {
    /// The run folder.
    pub directory: &'a Directory,
    /// Its path as the user gave it.
    pub shown: String,
    name: String,
    place: &'a dyn Place,
    /// The journal.
    pub journal: Journal,
    state: State,
    /// The local files.
    pub contents: Contents,
    all_bytes: u64,
    on_progress: OnProgress<'a>,
    sent: usize,
}

impl Work<'_> {
    /// Sends and verifies all files, and writes the manifest.
    fn make(&mut self, compress: bool) -> Result<Manifest, ArchiveError> {
        self.begin(compress)?;
        let mut manifest = Manifest::new(&self.name, compress, Vec::new());
        for file in self.contents.files.clone() {
            let entry = match self.kept(&manifest, &file)? {
                Some(entry) => entry,
                None => self.send(&manifest, &file)?,
            };
            manifest.files.push(entry);
        }
        let now = Contents::of(self.directory)?;
        if let Some(name) = difference(&self.contents, &now) {
            return Err(failed!(
                "{name} of {} changed while the run was archived; call again, and what is \
                 verified is not sent again.",
                self.shown
            ));
        }
        manifest.left_out.clone_from(&self.contents.left_out);
        self.write_manifest(&mut manifest, false)?;
        self.journal.add(Entry::Archived {})?;
        Ok(manifest)
    }

    /// Begins the archive, or goes on with the one that the journal has.
    fn begin(&mut self, compress: bool) -> Result<(), ArchiveError> {
        let at = self.place.address();
        if let Some(began) = self.state.compressed.filter(|began| *began != compress) {
            let with = if began { "with" } else { "without" };
            return Err(input!(
                "the archive at {at} was begun {with} --compress; call it {with} --compress again."
            ));
        }
        let mut known: Vec<String> =
            self.state.files.keys().map(|name| stored_name(name, compress)).collect();
        if self.state.compressed.is_some() {
            // A kill may have left a part of it.
            known.push(ARCHIVE_FILE.to_owned());
        }
        if let Some(other) = self.place.other_file(&known)? {
            return Err(input!(
                "{at} has a file that is not of this archive, {other:?}; nothing was written. \
                 Give another target."
            ));
        }
        match self.state.compressed {
            None => self.journal.add(Entry::Begun { compressed: compress }),
            Some(_) => Ok(()),
        }
    }

    /// Returns the entry of a file that a call before has sent, and that is still there.
    fn kept(
        &mut self,
        manifest: &Manifest,
        file: &SourceFile,
    ) -> Result<Option<FileEntry>, ArchiveError> {
        let Some(Some((entry, stamp))) = self.state.files.get(&file.name) else { return Ok(None) };
        if *stamp != file.stamp {
            return Ok(None);
        }
        let (all, on_progress) = (self.all_bytes, &mut self.on_progress);
        let fault = fault_of(self.place, manifest, entry, &mut |bytes| on_progress(bytes, all))?;
        if fault.is_some() {
            return Ok(None);
        }
        on_progress(entry.bytes, all);
        Ok(Some(entry.clone()))
    }

    /// Sends a file and reads it back.
    fn send(&mut self, manifest: &Manifest, file: &SourceFile) -> Result<FileEntry, ArchiveError> {
        let may_replace = self.state.files.contains_key(&file.name);
        if !may_replace {
            self.journal.add(Entry::Sending { name: file.name.clone() })?;
        }
        let source = self.directory.file(Path::new(&file.name), Access::Read)?;
        let (all, on_progress) = (self.all_bytes, &mut self.on_progress);
        let mut on_bytes = |bytes| on_progress(bytes, all);
        let mut summed = Summed::new(&source, &mut on_bytes);
        let name = manifest.stored_name(&file.name);
        let put = put(self.place, &name, &mut summed, file.stamp.bytes, manifest, may_replace);
        if let Some(error) = summed.error.take() {
            return Err(failed!("{} of {} cannot be read: {error}.", file.name, self.shown));
        }
        let stored_bytes = put.map_err(|error| not_put(self.place, &name, error))?;
        let (bytes, sha256) = (summed.bytes, summed.digits());
        if Stamp::of(&source).ok() != Some(file.stamp) || bytes != file.stamp.bytes {
            return Err(failed!(
                "{} of {} changed while it was sent; call again when nobody writes to it.",
                file.name,
                self.shown
            ));
        }
        let entry = FileEntry { name: file.name.clone(), bytes, sha256, stored_bytes };
        if let Some(fault) = fault_of(self.place, manifest, &entry, &mut on_bytes)? {
            return Err(ArchiveError::Files(format!(
                "{fault} at {} right after it was written; the target does not keep what it \
                 takes. The local files are untouched.",
                self.place.address()
            )));
        }
        self.journal.add(Entry::Verified { file: entry.clone(), stamp: file.stamp })?;
        self.sent += 1;
        Ok(entry)
    }

    /// Compares the local files, the manifest and the files at the target by their sums. New tags
    /// and comments are sent. Of a stub, local files may be missing.
    fn compare(&mut self, manifest: &mut Manifest, is_stub: bool) -> Result<(), ArchiveError> {
        let at = self.place.address().to_owned();
        if manifest.run != self.name {
            let run = &manifest.run;
            return Err(input!("{at} is the archive of run {run:?}; give another target."));
        }
        let now = Contents::of(self.directory)?;
        let mut changed = Vec::new();
        for file in &now.files {
            let entry = manifest.files.iter().find(|entry| entry.name == file.name);
            if entry.is_some_and(|entry| self.is_same(entry, file).unwrap_or(false)) {
                continue;
            }
            if !may_change(&file.name) {
                return Err(input!(
                    "{} of {} is not the one in the archive {at}; nothing was changed. Give \
                     another target.",
                    file.name,
                    self.shown
                ));
            }
            changed.push(file.clone());
        }
        let is_here = |name: &str| now.files.iter().any(|file| file.name == name);
        let missing = manifest.files.iter().find(|entry| !is_here(&entry.name));
        if let Some(missing) = missing.filter(|_| !is_stub) {
            let (name, run) = (&missing.name, &self.shown);
            return Err(input!("the archive {at} has {name}, which {run} lacks; compare the two."));
        }
        self.contents = now;
        self.read_back(manifest, &changed)?;
        for file in changed {
            // The name is known now: it may be replaced.
            let known = manifest.files.iter().any(|entry| entry.name == file.name);
            if known {
                self.state.files.entry(file.name.clone()).or_insert(None);
            }
            let entry = self.send(manifest, &file)?;
            manifest.files.retain(|of| of.name != entry.name);
            manifest.files.push(entry);
            self.write_manifest(manifest, true)?;
        }
        Ok(())
    }

    /// Reads all files of the archive back but those that changed.
    fn read_back(
        &mut self,
        manifest: &Manifest,
        changed: &[SourceFile],
    ) -> Result<(), ArchiveError> {
        let (all, on_progress) = (self.all_bytes, &mut self.on_progress);
        for entry in &manifest.files {
            if changed.iter().any(|file| file.name == entry.name) {
                continue;
            }
            let on_bytes = &mut |bytes| on_progress(bytes, all);
            if let Some(fault) = fault_of(self.place, manifest, entry, on_bytes)? {
                return Err(ArchiveError::Files(format!(
                    "{fault} in the archive {}; the local files are untouched. Archive the run to \
                     another target.",
                    self.place.address()
                )));
            }
        }
        Ok(())
    }

    /// Returns true when a local file has the sum of the archive and did not change meanwhile.
    fn is_same(&mut self, entry: &FileEntry, file: &SourceFile) -> Result<bool, ArchiveError> {
        let source = self.directory.file(Path::new(&file.name), Access::Read)?;
        let (all, on_progress) = (self.all_bytes, &mut self.on_progress);
        let mut on_bytes = |bytes| on_progress(bytes, all);
        let sum = crate::check::sum_of(&source, entry.bytes, &mut on_bytes);
        let (bytes, sha256) =
            sum.map_err(|error| failed!("{} cannot be read: {error}.", file.name))?;
        let is_still = Stamp::of(&source).ok() == Some(file.stamp);
        Ok(bytes == entry.bytes && sha256 == entry.sha256 && is_still)
    }

    fn write_manifest(
        &mut self,
        manifest: &mut Manifest,
        may_replace: bool,
    ) -> Result<(), ArchiveError> {
        manifest.made_ns = fluxline::clock::now().as_ns();
        let text = manifest.text();
        let bytes = text.len() as u64;
        let put = self.place.put(ARCHIVE_FILE, &mut text.as_slice(), bytes, may_replace);
        put.map_err(|error| not_put(self.place, ARCHIVE_FILE, error))?;
        match place::manifest_of(self.place)? {
            Some(read) if read == *manifest => Ok(()),
            _ => Err(ArchiveError::Files(format!(
                "archive.json at {} is not what was written there; archive the run again.",
                self.place.address()
            ))),
        }
    }

    /// Notes the archive in the run folder, and removes the local files if wanted; returns their
    /// number.
    fn finish(&mut self, manifest: &Manifest, remove: bool) -> Result<usize, ArchiveError> {
        let archived = ArchivedAt {
            target: self.place.address().to_owned(),
            removed: remove,
            event_bytes: manifest.event_bytes(),
        };
        if remove {
            return removal::remove(self, manifest, &archived);
        }
        archived.write(self.directory)?;
        Ok(0)
    }
}

/// Sends the bytes of a reader, compressed if the archive is.
fn put(
    place: &dyn Place,
    name: &str,
    source: &mut dyn std::io::Read,
    bytes: u64,
    manifest: &Manifest,
    may_replace: bool,
) -> Result<u64, PutError> {
    if !manifest.compressed {
        return place.put(name, source, bytes, may_replace);
    }
    let encoder = compressed::encoder(source);
    let mut encoder = encoder.map_err(|error| PutError::Failed(error.to_string()))?;
    place.put(name, &mut encoder, bytes, may_replace)
}

fn not_put(place: &dyn Place, name: &str, error: PutError) -> ArchiveError {
    let at = place.address();
    match error {
        PutError::Exists => input!(
            "{at} has a file {name} that is not of this archive; nothing was written over. Give \
             another target."
        ),
        PutError::Failed(reason) => failed!(
            "{name} cannot be written to {at} ({reason}); free some space or mend the target, and \
             call again: what is verified is not sent again."
        ),
    }
}

/// Returns the name of a file by which two lists of contents differ.
fn difference(before: &Contents, now: &Contents) -> Option<String> {
    let lacks = |of: &Contents, file: &SourceFile| !of.files.contains(file);
    let new = now.files.iter().find(|file| lacks(before, file));
    let gone = || before.files.iter().find(|file| lacks(now, file));
    new.or_else(gone).map(|file| file.name.clone())
}
