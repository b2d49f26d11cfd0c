//! The file that a cluster's packets are dumped into: written while time goes on.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::core::dump::{Dump, Written};
use crate::core::interconnect::Interconnect;

/// Bytes that are written at once. A choice.
const CHUNK_BYTES: usize = 64 << 10;

/// The dump of a cluster's network into a file, while there is one.
#[derive(Debug, Default)]
pub struct FrameDump {
    file: Option<DumpFile>,
}

impl FrameDump {
    /// Writes every frame of the network into a new file from now on. Returns false if the network
    /// has no dumps; no file is made then.
    pub fn begin(
        &mut self,
        path: &Path,
        wire: &mut impl Interconnect,
        dump: Dump,
    ) -> io::Result<bool> {
        if !wire.begin_dump(dump) {
            return Ok(false);
        }
        match DumpFile::create(path) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                wire.end_dump();
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Writes what the network has dumped so far, when that is worth a write.
    pub fn follow(&mut self, wire: &mut impl Interconnect) {
        if let Some(file) = &mut self.file {
            file.follow(wire.dump_mut());
        }
    }

    /// Completes the file, if there is one. Errors: the first write that failed.
    pub fn end(&mut self, wire: &mut impl Interconnect) -> io::Result<Option<Written>> {
        match (self.file.take(), wire.end_dump()) {
            (Some(file), Some(dump)) => file.finish(dump).map(Some),
            _ => Ok(None),
        }
    }
}

/// A file, until a write fails.
#[derive(Debug)]
struct DumpFile {
    file: File,
    failure: Option<io::Error>,
}

impl DumpFile {
    /// A new file. One that exists is left alone, and an error.
    fn create(path: &Path) -> io::Result<DumpFile> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(DumpFile { file, failure: None })
    }

    fn follow(&mut self, dump: Option<&mut Dump>) {
        let Some(dump) = dump else { return };
        if dump.untaken_bytes() >= CHUNK_BYTES {
            let bytes = dump.take_bytes();
            self.write(&bytes);
        }
    }

    /// Writes the rest. Errors: the first write that failed.
    fn finish(mut self, dump: Dump) -> io::Result<Written> {
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
