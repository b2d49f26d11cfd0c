//! Check sums while bytes pass, and of what a place gives back.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

use crate::compressed;
use crate::error::ArchiveError;
use crate::manifest::{FileEntry, Manifest};
use crate::place::{PIECE_BYTES, Place};

/// A reader that adds up what passes through it.
pub struct Summed<'a, R> {
    inner: R,
    sum: Sha256,
    /// Number of bytes so far.
    pub bytes: u64,
    /// The first error of the reader.
    pub error: Option<io::Error>,
    on_bytes: &'a mut dyn FnMut(u64),
}

impl<'a, R: Read> Summed<'a, R> {
    /// Makes it; `on_bytes` is called with the size of each piece \[byte\].
    pub fn new(inner: R, on_bytes: &'a mut dyn FnMut(u64)) -> Summed<'a, R> {
        Summed { inner, sum: Sha256::new(), bytes: 0, error: None, on_bytes }
    }

    /// Returns the SHA-256 of all bytes that passed, as hexadecimal digits.
    pub fn digits(self) -> String {
        self.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads to the end, at most `bytes_max` \[byte\]; what is behind them counts as one more.
    fn drain(&mut self, bytes_max: u64) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        while self.bytes <= bytes_max {
            if self.read(&mut piece)? == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Summed<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = loop {
            match self.inner.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.error = Some(io::Error::new(error.kind(), error.to_string()));
                    return Err(error);
                }
                Ok(read) => break read,
            }
        };
        self.sum.update(&into[..read]);
        self.bytes += read as u64;
        (self.on_bytes)(read as u64);
        Ok(read)
    }
}

/// Returns the SHA-256 of a reader's bytes, at most one piece more than `bytes_max`, and their
/// number.
pub fn sum_of(
    reader: impl Read,
    bytes_max: u64,
    on_bytes: &mut dyn FnMut(u64),
) -> io::Result<(u64, String)> {
    let mut summed = Summed::new(reader, on_bytes);
    summed.drain(bytes_max)?;
    Ok((summed.bytes, summed.digits()))
}

/// Opens the bytes of a file as they were in the run folder; `None` where the place lacks it.
///
/// Errors: the place cannot be read.
pub fn original<'a>(
    place: &'a dyn Place,
    manifest: &Manifest,
    name: &str,
) -> Result<Option<Box<dyn Read + 'a>>, ArchiveError> {
    let Some(stored) = place.get(&manifest.stored_name(name))? else { return Ok(None) };
    if !manifest.compressed {
        return Ok(Some(stored));
    }
    match compressed::decoder(stored) {
        Ok(original) => Ok(Some(original)),
        Err(error) => Ok(Some(Box::new(Unreadable(Some(error))))),
    }
}

/// A reader that only has an error.
struct Unreadable(Option<io::Error>);

impl Read for Unreadable {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Reads a file back from the place and compares its check sum; returns the fault as a clause, if
/// there is one.
///
/// Errors: the place does not answer. Cost: the whole file is read.
pub fn fault_of(
    place: &dyn Place,
    manifest: &Manifest,
    entry: &FileEntry,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<Option<String>, ArchiveError> {
    let name = manifest.stored_name(&entry.name);
    let Some(reader) = original(place, manifest, &entry.name)? else {
        return Ok(Some(format!("{name} is missing")));
    };
    let fault = match sum_of(reader, entry.bytes, on_bytes) {
        Err(error) => format!("{name} cannot be read ({error})"),
        Ok((bytes, _)) if bytes > entry.bytes => format!("{name} is longer than it was"),
        Ok((bytes, _)) if bytes < entry.bytes => {
            format!("{name} has {bytes} of {} bytes", entry.bytes)
        }
        Ok((_, sha256)) if sha256 != entry.sha256 => format!("{name} has another check sum"),
        Ok(_) => return Ok(None),
    };
    Ok(Some(fault))
}
