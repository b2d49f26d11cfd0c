//! Batches of events as Arrow IPC streams in memory: the bytes of a file with one batch.
//!
//! A record of a message broker is such a stream: every Arrow library reads it alone.

use crc_fast::{CrcAlgorithm, Digest};

use crate::event::EventBatch;

use super::columns::{Columns, RowFault, for_each_piece};
use super::message::{END_OF_STREAM, MessageEncoder};
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
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            for part in [&columns.bytes, piece.bytes, padding] {
                digest.update(part);
            }
            let crc = digest.finalize() as u32;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventRow, EventStatus, PacketRow};
    use crate::record::{Recorder, RecorderConfig, RunFolder};
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
    }
}
