//! Files of raw payloads, as some boards' own tools write them, without addresses and times.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use fluxline_core::{Datagram, Moment, SenderAddress};
use serde::{Deserialize, Serialize};

use super::{CaptureError, parts};

/// The separation of payloads in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Every payload has the same size.
    Fixed {
        /// Size of a payload \[byte\].
        bytes: u32,
    },
    /// Its length stands before each payload.
    Prefixed(LengthPrefix),
}

/// The length before each raw payload.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum LengthPrefix {
    /// 16 bits, little-endian.
    U16Le,
    /// 16 bits, big-endian.
    U16Be,
    /// 32 bits, little-endian.
    U32Le,
    /// 32 bits, big-endian.
    U32Be,
}

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// The longest payload of a UDP datagram \[byte\].
const PAYLOAD_BYTES_MAX: usize = 65_527;

/// Reads a file of raw payloads.
pub struct RawReader {
    file: PathBuf,
    read: Box<dyn Read + Send>,
    framing: Framing,
    payload: Vec<u8>,
    /// Number of payloads of this file.
    payloads: u64,
    cut: Option<String>,
    /// Files to be read after this one.
    following: VecDeque<PathBuf>,
}

impl RawReader {
    /// Opens a file of raw payloads.
    pub fn open(path: &Path, framing: Framing) -> Result<RawReader, CaptureError> {
        let read = BufReader::with_capacity(BUFFER_BYTES, parts::open(path)?);
        Ok(RawReader::new(path, read, framing))
    }

    /// Opens files of raw payloads, to be read one after the other in this order. No payload goes
    /// on in the next file.
    ///
    /// Errors: [`CaptureError`] of the first file; those of the others come when they are due.
    pub fn open_parts(
        first: &Path,
        following: Vec<PathBuf>,
        framing: Framing,
    ) -> Result<RawReader, CaptureError> {
        let mut reader = RawReader::open(first, framing)?;
        reader.following = following.into();
        Ok(reader)
    }

    /// Reads raw payloads from any reader; `name` is its name in messages.
    pub fn new(name: &Path, read: impl Read + Send + 'static, framing: Framing) -> RawReader {
        RawReader {
            file: name.to_path_buf(),
            read: Box::new(read),
            framing,
            payload: Vec::new(),
            payloads: 0,
            cut: None,
            following: VecDeque::new(),
        }
    }

    /// Returns the next payload, or `None` at the end. It has no sender, no port and no time.
    ///
    /// Errors: a length that no UDP payload has; a disk that does not answer. The next call goes on
    /// with the next file, if there is one.
    #[allow(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Result<Option<Datagram<'_>>, CaptureError> {
        loop {
            match self.read_payload() {
                Ok(true) => break,
                Ok(false) if self.following.is_empty() => return Ok(None),
                Ok(false) => self.next_file()?,
                Err(error) => {
                    self.read = Box::new(io::empty()); // nothing behind it can be trusted
                    return Err(error);
                }
            }
        }
        self.payloads += 1;
        Ok(Some(Datagram {
            bytes: &self.payload,
            sender: SenderAddress::NONE,
            port: 0,
            time: Moment::default(),
        }))
    }

    /// Reads the next payload of this file; `false` at its end.
    fn read_payload(&mut self) -> Result<bool, CaptureError> {
        let Some(length) = self.length()? else { return Ok(false) };
        if length > PAYLOAD_BYTES_MAX {
            let problem = format!(
                "payload {} would have {length} bytes, and a datagram has at most \
                 {PAYLOAD_BYTES_MAX}: check the framing",
                self.payloads
            );
            return Err(self.damaged(problem));
        }
        self.payload.resize(length, 0);
        let mut payload = std::mem::take(&mut self.payload);
        let got = self.fill(&mut payload);
        self.payload = payload;
        let got = got?;
        if got < length || (length == 0 && matches!(self.framing, Framing::Fixed { .. })) {
            self.note_cut(got);
            return Ok(false);
        }
        Ok(true)
    }

    fn next_file(&mut self) -> Result<(), CaptureError> {
        if let Some(file) = self.following.pop_front() {
            self.payloads = 0;
            self.read = Box::new(BufReader::with_capacity(BUFFER_BYTES, parts::open(&file)?));
            self.file = file;
        }
        Ok(())
    }

    /// Returns a sentence for each file that ended in the middle of a payload; known at the end.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        self.cut.clone()
    }

    fn length(&mut self) -> Result<Option<usize>, CaptureError> {
        let mut prefix = [0; 4];
        let framing = match self.framing {
            Framing::Fixed { bytes } => return Ok(Some(bytes as usize)),
            Framing::Prefixed(framing) => framing,
        };
        let bytes = match framing {
            LengthPrefix::U16Le | LengthPrefix::U16Be => &mut prefix[..2],
            LengthPrefix::U32Le | LengthPrefix::U32Be => &mut prefix[..4],
        };
        let got = self.fill(bytes)?;
        if got < bytes.len() {
            self.note_cut(got);
            return Ok(None);
        }
        let [a, b, c, d] = prefix;
        Ok(Some(match framing {
            LengthPrefix::U16Le => u16::from_le_bytes([a, b]).into(),
            LengthPrefix::U16Be => u16::from_be_bytes([a, b]).into(),
            LengthPrefix::U32Le => u32::from_le_bytes([a, b, c, d]) as usize,
            LengthPrefix::U32Be => u32::from_be_bytes([a, b, c, d]) as usize,
        }))
    }

    /// Fills `out` as far as the file goes.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, CaptureError> {
        let mut done = 0;
        while done < out.len() {
            match self.read.read(&mut out[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.damaged(error.to_string())),
            }
        }
        Ok(done)
    }

    fn note_cut(&mut self, got: usize) {
        if got > 0 {
            let before = self.cut.take().map_or(String::new(), |before| format!("{before} "));
            self.cut = Some(format!(
                "{before}{}: the file ends in the middle of payload {}; the {} before it were used.",
                self.file.display(),
                self.payloads,
                self.payloads
            ));
        }
    }

    fn damaged(&self, problem: String) -> CaptureError {
        CaptureError::Damaged { file: self.file.clone(), frames: self.payloads, problem }
    }
}
