//! The recorder's files as a seam: the disk is one storage, a failing one in a test is another.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fluxline_core::Moment;

use super::file::{MessageFile, Stage};
use super::ways::{Ways, WriteMode};

/// The files of a run as its recorder writes them: one event file at a time, and lines.
pub trait Storage: Debug {
    /// Makes an event file, which must not exist; the following calls concern it.
    fn create(&mut self, path: &Path) -> io::Result<()>;

    /// Writes a message at `end`, the file's end; returns the number of bytes that were written
    /// past the page cache.
    ///
    /// On an error the file may be longer than `end`; the bytes before `end` are unchanged.
    fn append(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64>;

    /// Returns true when somebody removed the event file.
    fn is_removed(&self) -> bool;

    /// Cuts the event file to its first `bytes`.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Forces the event file to the disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Closes the event file.
    fn close(&mut self);

    /// Removes a file.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Appends a line, whole or not at all, to a file that is made if it does not exist.
    fn append_line(&mut self, path: &Path, line: &str) -> io::Result<()>;

    /// Forces the appended lines to the disk.
    fn sync_lines(&mut self) -> io::Result<()>;

    /// Forces a folder's entries to the disk.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()>;
}

impl<S: Storage + ?Sized> Storage for Box<S> {
    fn create(&mut self, path: &Path) -> io::Result<()> {
        (**self).create(path)
    }

    fn append(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64> {
        (**self).append(end, parts)
    }

    fn is_removed(&self) -> bool {
        (**self).is_removed()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        (**self).cut(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        (**self).sync()
    }

    fn close(&mut self) {
        (**self).close();
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        (**self).remove(path)
    }

    fn append_line(&mut self, path: &Path, line: &str) -> io::Result<()> {
        (**self).append_line(path, line)
    }

    fn sync_lines(&mut self) -> io::Result<()> {
        (**self).sync_lines()
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        (**self).sync_folder(path)
    }
}

/// The file system.
#[derive(Debug)]
pub struct Disk {
    file: Option<MessageFile>,
    lines: Option<File>,
    stage: Stage,
    ways: Ways,
}

impl Disk {
    /// Returns a storage that writes in this mode.
    #[must_use]
    pub fn new(mode: WriteMode) -> Disk {
        Disk { file: None, lines: None, stage: Stage::default(), ways: Ways::new(mode) }
    }

    /// Sets a clock to measure with: [`WriteMode::Auto`] then finds the faster way to the disk.
    pub fn measure_with(&mut self, clock: fn() -> Moment) {
        self.ways.measure_with(clock);
    }

    fn open(&self) -> io::Result<&MessageFile> {
        self.file.as_ref().ok_or_else(no_file)
    }
}

fn no_file() -> io::Error {
    io::Error::other("no event file is open")
}

impl Storage for Disk {
    fn create(&mut self, path: &Path) -> io::Result<()> {
        self.file = Some(MessageFile::create(path, self.ways.may_go_past_cache())?);
        Ok(())
    }

    fn append(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64> {
        let file = self.file.as_mut().ok_or_else(no_file)?;
        file.append(end, parts, &mut self.stage, &mut self.ways)
    }

    fn is_removed(&self) -> bool {
        let links = self.open().and_then(|open| open.file().metadata());
        matches!(links.map(|metadata| metadata.nlink()), Ok(0))
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.open()?.file().set_len(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.open()?.file().sync_data()
    }

    fn close(&mut self) {
        self.file = None;
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn append_line(&mut self, path: &Path, line: &str) -> io::Result<()> {
        let file = match &mut self.lines {
            Some(file) => file,
            none => none.insert(OpenOptions::new().append(true).create(true).open(path)?),
        };
        let before = file.metadata()?.len();
        file.write_all(format!("{line}\n").as_bytes()).inspect_err(|_| {
            // If the cut fails as well, readers leave out a line that has no end.
            let _ = file.set_len(before);
        })
    }

    fn sync_lines(&mut self) -> io::Result<()> {
        self.lines.as_ref().map_or(Ok(()), File::sync_data)
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
