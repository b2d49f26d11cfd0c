//! The way of a message's bytes to the file: through the page cache, or past it.
//!
//! A buffered write is as fast as memory while free pages are at hand. It stalls when they are not,
//! or when the kernel decides to write back. A write past the cache (O_DIRECT) is as fast as the
//! disk, steadily, and leaves the memory to others. The faster way changes from minute to minute,
//! so `ways.rs` measures both.
//!
//! Only whole blocks can be written past the cache. The rest of a message behind its last whole
//! block is written through the cache; the next message reads it back from there and writes its
//! block whole. So the file is exact after every message, and readers need not know the way.
//! Source: Linux man-pages open(2), section NOTES, O_DIRECT.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::ways::{Way, Ways};

/// Alignment of direct writes, in memory and in the file \[byte\]: the largest logical block of
/// common disks. Source: NVMe and Advanced Format disks have 512 or 4096.
const BLOCK_BYTES: usize = 4_096;
/// Size of one direct write at most \[byte\]: large enough for the disk's full rate, small enough
/// to be filled in the cache.
const STAGE_BYTES: usize = 1 << 20;
const _: () = assert!(STAGE_BYTES.is_multiple_of(BLOCK_BYTES));
/// Messages below this go through the page cache: a direct write waits for the disk.
const DIRECT_BYTES_MIN: usize = 256 << 10;

/// Memory of the direct way \[byte\].
pub const DIRECT_MEMORY_BYTES: usize = STAGE_BYTES + BLOCK_BYTES;

/// A file that grows by messages.
#[derive(Debug)]
pub(super) struct MessageFile {
    buffered: File,
    /// The same file, opened for direct writes.
    direct: Option<File>,
}

/// An aligned piece of memory, used for all files of a run.
#[derive(Debug, Default)]
pub(super) struct Stage {
    memory: Vec<u8>,
}

impl Stage {
    /// Returns the aligned bytes, which are allocated at the first use.
    fn bytes(&mut self) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = vec![0; DIRECT_MEMORY_BYTES];
        }
        let start = self.memory.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        &mut self.memory[start..][..STAGE_BYTES]
    }
}

impl MessageFile {
    /// Makes the file, which must not exist; `past_cache`: direct writes are wanted.
    pub fn create(path: &Path, past_cache: bool) -> io::Result<MessageFile> {
        let buffered = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // A file system without direct writes fails here, or at the first write.
        let open = || OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).ok();
        Ok(MessageFile { buffered, direct: past_cache.then(open).flatten() })
    }

    /// Returns the file itself, for everything but appending.
    pub fn file(&self) -> &File {
        &self.buffered
    }

    /// Writes a message at `end`, the file's end; returns the number of bytes that were written
    /// past the page cache.
    ///
    /// On an error the file may be longer than `end`; the bytes before `end` are unchanged.
    pub fn append(
        &mut self,
        end: u64,
        parts: &mut [IoSlice<'_>],
        stage: &mut Stage,
        ways: &mut Ways,
    ) -> io::Result<u64> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if self.direct.is_none() || bytes < DIRECT_BYTES_MIN {
            return self.append_buffered(end, parts);
        }
        ways.timed(bytes, |way| match (way, &self.direct) {
            (Way::PastCache, Some(direct)) => {
                match append_direct(&self.buffered, direct, end, parts, stage.bytes()) {
                    // Some file systems open the file for direct writes and then reject every one.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                        self.direct = None;
                        self.append_buffered(end, parts)
                    }
                    written => written,
                }
            }
            _ => self.append_buffered(end, parts),
        })
    }

    fn append_buffered(&mut self, end: u64, parts: &mut [IoSlice<'_>]) -> io::Result<u64> {
        self.buffered.seek(SeekFrom::Start(end))?;
        write_all_vectored(&mut self.buffered, parts)?;
        Ok(0)
    }
}

/// Writes whole blocks past the cache, the rest through it.
fn append_direct(
    buffered: &File,
    direct: &File,
    end: u64,
    parts: &[IoSlice<'_>],
    stage: &mut [u8],
) -> io::Result<u64> {
    let mut filled = (end % BLOCK_BYTES as u64) as usize;
    let mut at = end - filled as u64;
    buffered.read_exact_at(&mut stage[..filled], at)?;
    let mut past_cache = 0;
    for part in parts {
        let mut part: &[u8] = part;
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(stage.len() - filled));
            stage[filled..filled + now.len()].copy_from_slice(now);
            filled += now.len();
            part = later;
            if filled == stage.len() {
                direct.write_all_at(stage, at)?;
                at += filled as u64;
                past_cache += filled as u64;
                filled = 0;
            }
        }
    }
    let whole = filled - filled % BLOCK_BYTES;
    direct.write_all_at(&stage[..whole], at)?;
    buffered.write_all_at(&stage[whole..filled], at + whole as u64)?;
    Ok(past_cache + whole as u64)
}

fn write_all_vectored(file: &mut File, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Empty parts are skipped, so that "nothing written" means that nothing can be.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match file.write_vectored(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut parts, bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::IoSlice;

    use super::super::ways::{Ways, WriteMode};
    use super::{MessageFile, STAGE_BYTES, Stage};

    /// Messages of these sizes, appended both ways, must make the same file at every step.
    #[test]
    fn both_ways_make_the_same_file_whatever_the_sizes() {
        let folder = tempfile::tempdir().unwrap();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = move |limit: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % limit as u64) as usize
        };
        let (left, right) = (folder.path().join("auto"), folder.path().join("buffered"));
        let mut direct = MessageFile::create(&left, true).unwrap();
        let mut buffered = MessageFile::create(&right, false).unwrap();
        let (mut stage, mut ways) = (Stage::default(), Ways::new(WriteMode::Direct));
        let (mut end, mut past_cache) = (0, 0);
        for step in 0..60_usize {
            let head = vec![step as u8; below(200)];
            let limit = [9000, 400_000, 3 * STAGE_BYTES][step % 3];
            let mut body = vec![0; below(limit)];
            body.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 + step) as u8);
            let parts = || [IoSlice::new(&head), IoSlice::new(&[]), IoSlice::new(&body)];
            past_cache += direct.append(end, &mut parts(), &mut stage, &mut ways).unwrap();
            let through = buffered.append(end, &mut parts(), &mut stage, &mut ways);
            assert_eq!(through.unwrap(), 0);
            end += (head.len() + body.len()) as u64;
            assert_eq!(direct.file().metadata().unwrap().len(), end, "step {step}");
        }
        assert!(fs::read(&left).unwrap() == fs::read(&right).unwrap());
        println!("{past_cache} of {end} bytes went past the page cache");
    }
}
