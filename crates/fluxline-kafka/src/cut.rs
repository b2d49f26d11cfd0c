//! Cuts batches into records of either schema: Arrow IPC streams, or messages of ESS.

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::SourceLine;

use crate::ess::{Encoder, Formats, Schema};
use crate::pieces::Pieces;

/// The form of a record's value, in its header `content-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// An Arrow IPC stream.
    Arrow,
    /// A JSON document that describes events.
    Description,
    /// A FlatBuffers message of this schema.
    Ess(Schema),
}

impl ContentType {
    /// Returns the media type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ContentType::Arrow => "application/vnd.apache.arrow.stream",
            ContentType::Description => "application/json",
            ContentType::Ess(Schema::Ev44) => "application/x-flatbuffers; schema=ev44",
            ContentType::Ess(Schema::Da00) => "application/x-flatbuffers; schema=da00",
            ContentType::Ess(Schema::F144) => "application/x-flatbuffers; schema=f144",
            ContentType::Ess(Schema::Pl72) => "application/x-flatbuffers; schema=pl72",
            ContentType::Ess(Schema::Stop6s4t) => "application/x-flatbuffers; schema=6s4t",
        }
    }
}

/// A record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Its number in the batch, from 0.
    pub piece: u32,
    /// The form of its value.
    pub content: ContentType,
    /// Its value.
    pub bytes: &'a [u8],
}

/// Some events of a batch, neighbours, with all their records.
#[derive(Clone, Copy, Debug)]
pub struct Cut<'a> {
    /// Events whose records are all here.
    pub events: u64,
    /// Events with a part that is larger than a record.
    pub too_large: u64,
    /// Events without a value that the schema takes.
    pub unmapped: u64,
    /// The records.
    pub records: &'a [Record<'a>],
}

/// Cuts batches into records.
#[derive(Debug)]
pub enum Cutter {
    /// Into Arrow IPC streams.
    Arrow(Box<Pieces>),
    /// Into messages of ESS.
    Ess(Box<Encoder>, Formats),
}

impl Cutter {
    /// Makes a cutter into messages of ESS, of at most `bytes_max` bytes.
    #[must_use]
    pub fn ess(formats: Formats, bytes_max: usize) -> Cutter {
        Cutter::Ess(Box::new(Encoder::new(formats.descriptions(), bytes_max)), formats)
    }

    /// Takes note of a source, before the first batch with its packets.
    pub fn add_source(&mut self, source: &SourceLine) {
        if let Cutter::Ess(encoder, formats) = self
            && let Some(format) = formats.of(source)
        {
            encoder.add_source(source.source, format, source.port.unwrap_or(0));
        }
    }

    /// Calls `take` for each cut of batch `number`, in order; each event is in one cut.
    pub fn for_each(&mut self, number: u64, batch: &EventBatch, mut take: impl FnMut(Cut<'_>)) {
        match self {
            Cutter::Arrow(pieces) => pieces.for_each(number, batch, |piece| {
                let content = ContentType::Arrow;
                let record =
                    piece.stream.map(|bytes| Record { piece: piece.number, content, bytes });
                let events = if record.is_some() { piece.events } else { 0 };
                let too_large = piece.events - events;
                take(Cut { events, too_large, unmapped: 0, records: record.as_slice() });
            }),
            Cutter::Ess(encoder, _) => encoder.encode(number, batch, |group| {
                let records = group.messages().map(|message| Record {
                    piece: message.piece,
                    content: ContentType::Ess(message.schema),
                    bytes: message.bytes,
                });
                take(Cut {
                    events: group.events,
                    too_large: group.too_large,
                    unmapped: group.unmapped,
                    records: &records.collect::<Vec<_>>(),
                });
            }),
        }
    }

    /// Returns the numbers of values that did not fit, by name, since the last call.
    pub fn take_misfits(&mut self) -> Vec<(String, u64)> {
        match self {
            Cutter::Arrow(_) => Vec::new(),
            Cutter::Ess(encoder, _) => encoder.take_misfits().into_iter().collect(),
        }
    }
}

/// Returns a note on values that did not fit.
#[must_use]
pub fn misfit_note(name: &str, count: u64) -> String {
    format!(
        "{count} values do not fit `{name}` of the packet description: the files have them, the \
         topic does not"
    )
}
