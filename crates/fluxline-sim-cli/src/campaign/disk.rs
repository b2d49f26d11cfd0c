//! A disk that fails at a drawn moment, around the real one.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fluxline_core::random::Draw;
use fluxline_daq::record::{Disk, Storage, WriteMode};

/// The fault of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// It has room for this many bytes.
    Full(u64),
    /// The write with this number fails, and those behind it.
    Error(u64),
    /// The write with this number stops in its middle.
    Torn(u64),
    /// It does not confirm from this sync on.
    Sync(u64),
    /// Power fails behind the write with this number: what was not confirmed is torn.
    Power(u64),
}

impl DiskFault {
    /// Draws a fault in one of four cases. The end of power comes twice as often as each other one:
    /// it alone shows what the disk had confirmed.
    pub fn draw(draw: &mut Draw) -> Option<DiskFault> {
        let (has_fault, kind, number) = (draw.chance(0.25), draw.below(6), 1 + draw.below(12));
        let fault = match kind {
            0 => DiskFault::Full(1_000 + draw.below(40_000)),
            1 => DiskFault::Error(number),
            2 => DiskFault::Torn(number),
            3 => DiskFault::Sync(number),
            _ => DiskFault::Power(number),
        };
        has_fault.then_some(fault)
    }

    /// Reads a fault; returns `None` for an empty text.
    ///
    /// # Errors
    /// A sentence with the texts that are right.
    pub fn parse(text: &str) -> Result<Option<DiskFault>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            format!(
                "`disk={text}` is not a fault; write full:BYTES, error:N, torn:N, sync:N or power:N"
            )
        };
        let (kind, number) = text.split_once(':').ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        Ok(Some(match kind {
            "full" => DiskFault::Full(number),
            "error" => DiskFault::Error(number),
            "torn" => DiskFault::Torn(number),
            "sync" => DiskFault::Sync(number),
            "power" => DiskFault::Power(number),
            _ => return Err(wrong()),
        }))
    }
}

/// As [`DiskFault::parse`] reads it.
impl fmt::Display for DiskFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskFault::Full(bytes) => write!(out, "full:{bytes}"),
            DiskFault::Error(number) => write!(out, "error:{number}"),
            DiskFault::Torn(number) => write!(out, "torn:{number}"),
            DiskFault::Sync(number) => write!(out, "sync:{number}"),
            DiskFault::Power(number) => write!(out, "power:{number}"),
        }
    }
}

/// An event file as the disk knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileOnDisk {
    pub path: PathBuf,
    /// Its size, and the part of it that the disk confirmed \[byte\].
    pub bytes: u64,
    pub confirmed: u64,
}

/// The event files that a disk was given, in order; clones share them.
#[derive(Clone, Debug, Default)]
pub struct OnDisk(Arc<Mutex<Vec<FileOnDisk>>>);

impl OnDisk {
    /// Returns the files.
    pub fn files(&self) -> Vec<FileOnDisk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with_last(&self, change: impl FnOnce(&mut FileOnDisk)) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.last_mut() {
            change(file);
        }
    }
}

/// A disk with a fault.
#[derive(Debug)]
pub struct FaultyDisk {
    disk: Disk,
    fault: Option<DiskFault>,
    writes: u64,
    syncs: u64,
    written: u64,
    on_disk: OnDisk,
}

impl FaultyDisk {
    /// Makes a disk with a fault; `on_disk` gets its files.
    pub fn new(fault: Option<DiskFault>, on_disk: OnDisk) -> FaultyDisk {
        let disk = Disk::new(WriteMode::Buffered);
        FaultyDisk { disk, fault, writes: 0, syncs: 0, written: 0, on_disk }
    }

    /// Returns how many of `bytes` the next write takes, and the error behind them.
    fn room(&self, bytes: u64) -> (u64, Option<io::Error>) {
        let broken = || io::Error::other("input/output error");
        match self.fault {
            Some(DiskFault::Full(most)) if self.written + bytes > most => {
                (most.saturating_sub(self.written), Some(ErrorKind::StorageFull.into()))
            }
            Some(DiskFault::Error(number)) if self.writes >= number => (0, Some(broken())),
            Some(DiskFault::Torn(number)) if self.writes >= number => (bytes / 2, Some(broken())),
            Some(DiskFault::Power(number)) if self.writes > number => (0, Some(broken())),
            _ => (bytes, None),
        }
    }
}

impl Storage for FaultyDisk {
    fn create(&mut self, path: &Path) -> io::Result<()> {
        self.disk.create(path)?;
        let file = FileOnDisk { path: path.to_path_buf(), ..FileOnDisk::default() };
        self.on_disk.0.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(())
    }

    fn append(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64> {
        let message: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.writes += 1;
        let (fits, error) = self.room(message.len() as u64);
        let written = self.disk.append(end, &mut [IoSlice::new(&message[..fits as usize])])?;
        self.written += fits;
        self.on_disk.with_last(|file| file.bytes = end + fits);
        error.map_or(Ok(written), Err)
    }

    fn is_removed(&self) -> bool {
        self.disk.is_removed()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.cut(bytes)?;
        self.on_disk.with_last(|file| file.bytes = bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        match self.fault {
            Some(DiskFault::Sync(number)) if self.syncs >= number => {
                Err(io::Error::other("input/output error"))
            }
            Some(DiskFault::Power(number)) if self.writes >= number => {
                Err(io::Error::other("input/output error"))
            }
            _ => {
                self.on_disk.with_last(|file| file.confirmed = file.bytes);
                Ok(())
            }
        }
    }

    fn close(&mut self) {
        self.disk.close();
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)?;
        let mut files = self.on_disk.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.path != path);
        Ok(())
    }

    fn append_line(&mut self, path: &Path, line: &str) -> io::Result<()> {
        self.disk.append_line(path, line)
    }

    fn sync_lines(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&mut self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}
