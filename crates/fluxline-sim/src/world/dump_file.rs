//! The file that a cluster's packets are dumped into: written while time goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::core::dump::{Dump, Written};

/// Bytes that are written at once. A choice.
const CHUNK_BYTES: usize = 64 << 10;

/// A file, until a write fails.
#[derive(Debug)]
pub struct DumpFile {
    file: File,
    failure: Option<io::Error>,
}

impl DumpFile {
    /// A new file. One that exists is left alone, and an error.
    pub fn create(path: &Path) -> io::Result<DumpFile> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(DumpFile { file, failure: None })
    }

    /// Writes what the network has dumped so far, when that is worth a write.
    pub fn follow(&mut self, dump: Option<&mut Dump>) {
        let Some(dump) = dump else { return };
        if dump.untaken_bytes() >= CHUNK_BYTES {
            let bytes = dump.take_bytes();
            self.write(&bytes);
        }
    }

    /// Writes the rest. Errors: the first write that failed.
    pub fn finish(mut self, dump: Dump) -> io::Result<Written> {
        let (rest, written) = dump.finish();
        self.write(&rest);
        self.failure.map_or(Ok(written), Err)
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.file.write_all(bytes).err();
        }
    }
}
