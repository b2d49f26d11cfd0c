//! Batches of events as Arrow IPC streams in memory: the bytes of a file with one batch.
//!
//! A record of a message broker is such a stream: every Arrow library reads it alone. Streams may
//! come from anybody: reading compares every length with the stream's size.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use crc_fast::{CrcAlgorithm, Digest};

use crate::event::EventBatch;

use super::columns::{Columns, RowFault, for_each_piece};
use super::message::{END_OF_STREAM, MessageEncoder, PREFIX_BYTES, verified_message};
use super::scan::{
    BatchHead, METADATA_BYTES_MAX, ScanFault, decode, metadata_length, schema_metadata,
};
use super::schema::file_schema;
use super::writer::{BUFFER_BYTES_MAX, WriteFault};

/// Makes streams of batches; its memory is reused.
#[derive(Debug)]
pub struct StreamEncoder {
    schema: Vec<u8>,
    columns: Columns,
    messages: MessageEncoder,
}

impl StreamEncoder {
    /// Makes an encoder for a run of this name and these packet descriptions.
    #[must_use]
    pub fn new(run: &str, formats: &[String]) -> StreamEncoder {
        let mut messages = MessageEncoder::default();
        let schema = messages.schema(&file_schema(run, formats)).to_vec();
        StreamEncoder { schema, columns: Columns::default(), messages }
    }

    /// Returns an upper limit of a stream's size with these amounts in it \[byte\].
    #[must_use]
    pub fn bytes_max(&self, events: usize, packets: usize, bytes: usize) -> usize {
        /// Columns of an event with its longest status; of a packet; their padding and the head.
        const EVENT_BYTES: usize = 72;
        const PACKET_BYTES: usize = 64;
        const HEAD_BYTES: usize = 2048;
        self.schema.len() + HEAD_BYTES + events * EVENT_BYTES + packets * PACKET_BYTES + bytes
    }

    /// Replaces `out` by a whole stream with one batch, number `number` of its run.
    ///
    /// Errors: [`WriteFault`] when the rows contradict each other or exceed 2 GiB.
    pub fn encode(
        &mut self,
        batch: &EventBatch,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), WriteFault> {
        out.clear();
        out.extend_from_slice(&self.schema);
        let StreamEncoder { columns, messages, .. } = self;
        let mut pieces = 0;
        for_each_piece(batch, BUFFER_BYTES_MAX, |piece| {
            pieces += 1;
            if pieces > 1 {
                return Err(RowFault::TooLarge);
            }
            columns.fill(&piece);
            let padding = &[0; 8][..columns.padding(&piece)];
            let crc = digest(&[&columns.bytes, piece.bytes, padding]);
            let head = messages.batch(columns, piece.events.len(), number, crc);
            for part in [head, &columns.bytes, piece.bytes, padding] {
                out.extend_from_slice(part);
            }
            Ok(())
        })?;
        out.extend_from_slice(&END_OF_STREAM);
        Ok(())
    }
}

/// Computes check sums of batches; its memory is reused.
#[derive(Debug, Default)]
pub struct BatchDigest {
    columns: Columns,
}

impl BatchDigest {
    /// Returns the CRC-32C of a batch and its number: of everything that files have of it.
    ///
    /// Errors: as [`StreamEncoder::encode`].
    pub fn of(&mut self, batch: &EventBatch, number: u64) -> Result<u32, WriteFault> {
        let (mut crc, mut pieces) = (0, 0);
        for_each_piece(batch, BUFFER_BYTES_MAX, |piece| {
            pieces += 1;
            if pieces > 1 {
                return Err(RowFault::TooLarge);
            }
            self.columns.fill(&piece);
            crc = digest(&[&number.to_le_bytes(), &self.columns.bytes, piece.bytes]);
            Ok(())
        })?;
        Ok(crc)
    }
}

/// Returns the CRC-32C of these parts.
fn digest(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// Reads a stream with one batch; returns the batch's number and rows.
///
/// Errors: a clause about the first thing that is wrong.
pub(super) fn read_stream(stream: &[u8]) -> Result<(u64, RecordBatch), String> {
    let broken = || "it is not a stream of events".to_owned();
    let (mut schema, rest) = take_metadata(stream).ok_or_else(broken)?;
    let message = verified_message(&mut schema).ok_or_else(broken)?;
    schema_metadata(&message).map_err(|fault| match fault {
        ScanFault::Foreign(reason) => reason,
        ScanFault::Io(error) => error.to_string(),
    })?;
    let (mut metadata, rest) = take_metadata(rest).ok_or_else(broken)?;
    let message = verified_message(&mut metadata).ok_or_else(broken)?;
    let head = BatchHead::parse(&message).ok_or_else(broken)?;
    let body_bytes = usize::try_from(head.body_bytes).map_err(|_| broken())?;
    let (body, end) = rest.split_at_checked(body_bytes).ok_or_else(broken)?;
    if end != END_OF_STREAM {
        return Err(broken());
    }
    if crc_fast::crc32_iscsi(body) != head.crc {
        return Err("the check sum of its batch is wrong".to_owned());
    }
    let rows = decode(&message, &Buffer::from(body));
    let rows = rows.ok_or_else(|| "its batch does not have the columns of a run".to_owned())?;
    Ok((head.number, rows))
}

/// Returns the metadata of the message at the start, and the bytes behind it.
fn take_metadata(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX_BYTES)?;
    let (metadata, rest) = rest.split_at_checked(metadata_length(prefix, METADATA_BYTES_MAX)?)?;
    Some((metadata.to_vec(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventRow, EventStatus, PacketRow};
    use crate::record::{RecordedBatch, Recorder, RecorderConfig, RunFolder};
    use fluxline_core::Moment;

    #[test]
    fn a_stream_is_the_file_of_a_run_with_that_batch() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = RunFolder::create(&scratch.path().join("0001")).expect("a run");
        let mut batch = EventBatch::default();
        for key in 0..20u64 {
            let time = Moment::from_ns(key);
            let status = EventStatus::Incomplete;
            batch.missing.push_str("board=2: lost");
            batch.events.push(EventRow {
                key: Some(key),
                status,
                first: time,
                last: time,
                built: time,
                packets: 1,
                missing_bytes: 13,
                ..EventRow::default()
            });
            batch.bytes.extend_from_slice(&[key as u8; 100]);
            batch.packets.push(PacketRow {
                source: 0,
                packet_type: 0,
                sequence: None,
                time,
                sensor_time_ns: None,
                part: 0,
                payload_start: 0,
                payload_bytes: 100,
                bytes: 100,
            });
        }
        let mut recorder = Recorder::open(folder.clone(), RecorderConfig::default());
        recorder.name_run("x");
        recorder.write(&batch, Moment::default()).expect("written");
        recorder.finish().expect("finished");
        let file = std::fs::read(folder.path().join("events-000000.arrows")).expect("a file");
        let mut encoder = StreamEncoder::new("x", &[]);
        let mut stream = Vec::new();
        encoder.encode(&batch, 0, &mut stream).expect("encoded");
        assert_eq!(stream, file);
        assert!(stream.len() <= encoder.bytes_max(20, 20, 2000), "{}", stream.len());

        let read = RecordedBatch::of_stream(&stream).expect("readable");
        let mut rows = EventBatch::default();
        read.append_to(&mut rows).expect("rows");
        assert_eq!((read.number(), &rows), (0, &batch));
        for cut in 0..stream.len() {
            assert!(RecordedBatch::of_stream(&stream[..cut]).is_err(), "{cut}");
        }
        for at in 0..stream.len() {
            let mut spoilt = stream.clone();
            spoilt[at] ^= 0x10;
            assert!(RecordedBatch::of_stream(&spoilt).is_err(), "byte {at}");
        }
    }
}
