//! Files of raw payloads: what some boards' own tools write, without addresses and times.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use fluxline_proto::{Datagram, Moment, SenderAddress};

use super::CaptureError;

/// How payloads are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Every payload has the same size.
    Fixed {
        /// That size \[byte\].
        bytes: u32,
    },
    /// Its length stands before each payload: 16 bits, little-endian.
    U16Le,
    /// 16 bits, big-endian.
    U16Be,
    /// 32 bits, little-endian.
    U32Le,
    /// 32 bits, big-endian.
    U32Be,
}

/// The longest payload \[byte\]: what a UDP datagram can carry.
const PAYLOAD_BYTES_MAX: usize = 65_527;

/// Reads a file of raw payloads.
pub struct RawReader {
    file: PathBuf,
    read: Box<dyn Read + Send>,
    framing: Framing,
    payload: Vec<u8>,
    payloads: u64,
    cut: Option<String>,
}

impl RawReader {
    /// Opens a file of raw payloads.
    pub fn open(path: &Path, framing: Framing) -> Result<RawReader, CaptureError> {
        let file = File::open(path)
            .map_err(|source| CaptureError::Open { file: path.to_path_buf(), source })?;
        Ok(RawReader::new(path, BufReader::with_capacity(1 << 20, file), framing))
    }

    /// Reads raw payloads from anywhere; `name` is what messages call it.
    pub fn new(name: &Path, read: impl Read + Send + 'static, framing: Framing) -> RawReader {
        RawReader {
            file: name.to_path_buf(),
            read: Box::new(read),
            framing,
            payload: Vec::new(),
            payloads: 0,
            cut: None,
        }
    }

    /// The next payload, or `None` at the end. It has no sender, no port and no time.
    ///
    /// Errors: a length that no UDP payload has; a disk that does not answer.
    #[allow(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Result<Option<Datagram<'_>>, CaptureError> {
        let Some(length) = self.length()? else { return Ok(None) };
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
            return Ok(None);
        }
        self.payloads += 1;
        Ok(Some(Datagram {
            bytes: &self.payload,
            sender: SenderAddress::NONE,
            port: 0,
            time: Moment::default(),
        }))
    }

    /// A sentence when the file ends in the middle of a payload; known at the end.
    #[must_use]
    pub fn cut(&self) -> Option<String> {
        self.cut.clone()
    }

    fn length(&mut self) -> Result<Option<usize>, CaptureError> {
        let mut prefix = [0; 4];
        let bytes = match self.framing {
            Framing::Fixed { bytes } => return Ok(Some(bytes as usize)),
            Framing::U16Le | Framing::U16Be => &mut prefix[..2],
            Framing::U32Le | Framing::U32Be => &mut prefix[..4],
        };
        let got = self.fill(bytes)?;
        if got < bytes.len() {
            self.note_cut(got);
            return Ok(None);
        }
        let [a, b, c, d] = prefix;
        Ok(Some(match self.framing {
            Framing::U16Le => u16::from_le_bytes([a, b]).into(),
            Framing::U16Be => u16::from_be_bytes([a, b]).into(),
            Framing::U32Le => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => u32::from_be_bytes([a, b, c, d]) as usize,
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
            self.cut = Some(format!(
                "{}: the file ends in the middle of payload {}; the {} before it were used.",
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
