//! A file of packets for `fluxline format check` and `format new`: a capture, or raw payloads.

use fluxline_core::Datagram;
use fluxline_daq::capture::raw::{Framing, LengthPrefix, RawReader};
use fluxline_daq::capture::{CaptureCounters, CaptureError, CaptureReader, CheckSums};

use crate::failure::Failure;
use crate::format_arguments::PacketFileArguments;

/// An open file of packets.
pub struct PacketFile {
    name: String,
    reader: Reader,
}

enum Reader {
    Capture(Box<CaptureReader>),
    Raw(Box<RawReader>),
}

impl PacketFile {
    /// Opens the file that the command line names.
    pub fn open(arguments: &PacketFileArguments) -> Result<PacketFile, Failure> {
        if let Some(file) = &arguments.raw {
            let prefix = arguments.length_prefix.unwrap_or(LengthPrefix::U16Le);
            let fixed = arguments.record_bytes.map(|bytes| Framing::Fixed { bytes });
            let framing = fixed.unwrap_or(Framing::Prefixed(prefix));
            let reader = RawReader::open(file, framing).map_err(Failure::input)?;
            let reader = Reader::Raw(Box::new(reader));
            return Ok(PacketFile { name: file.display().to_string(), reader });
        }
        // The command line gives one of the two.
        let file = arguments.capture.clone().unwrap_or_default();
        let mut reader = CaptureReader::open(&file).map_err(Failure::input)?;
        reader.only_ports(&arguments.ports);
        if arguments.no_check_sums {
            reader.check_sums(CheckSums::Ignore);
        }
        let reader = Reader::Capture(Box::new(reader));
        Ok(PacketFile { name: file.display().to_string(), reader })
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next packet, or `None` at the end.
    pub fn next(&mut self) -> Result<Option<Datagram<'_>>, Failure> {
        let wrong = |error: CaptureError| Failure::input(error);
        match &mut self.reader {
            Reader::Capture(reader) => reader.next().map_err(wrong),
            Reader::Raw(reader) => reader.next().map_err(wrong),
        }
    }

    /// Returns the counters of a capture; `None` for raw files.
    pub fn counters(&self) -> Option<&CaptureCounters> {
        match &self.reader {
            Reader::Capture(reader) => Some(reader.counters()),
            Reader::Raw(_) => None,
        }
    }

    /// Returns a sentence when the file ends in the middle of a packet; known at the end.
    pub fn cut(&self) -> Option<String> {
        match &self.reader {
            Reader::Capture(reader) => reader.cut(),
            Reader::Raw(reader) => reader.cut(),
        }
    }
}
