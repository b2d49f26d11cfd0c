//! Walks the messages of one events file in any state.
//!
//! A file may end anywhere (a crash), hold zeros or old bytes instead of data (a power cut), or
//! have flipped bits. Each message carries check sums over its metadata and its body, so every byte
//! is either proven or not. Where the chain of lengths breaks, the walk searches for the next
//! message that proves itself: damage in the middle costs only the batches that it hit. Bytes
//! without a good message behind them are the torn tail. Every length is compared with the file's
//! size before memory is allocated. Holes of the file are passed over without being read.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{FieldNode, Message, MessageHeader, MetadataVersion};

use crate::extents::next_data;

use super::directory::{Access, Directory};
use super::folder::FolderError;
use super::message::{CONTINUATION, END_OF_STREAM, PREFIX_BYTES, metadata_value, verified_message};
use super::schema::{
    BUFFERS, EVENT_NODES, KEY_BATCH, KEY_CRC, KEY_LAYOUT, LAYOUT_VERSION, NODES, event_fields,
    event_schema,
};

/// The longest metadata that is believed \[byte\]; ours has some 1300, and the schema the names of
/// the formats.
pub(super) const METADATA_BYTES_MAX: usize = 1 << 16;
/// The longest metadata of a batch that a search believes \[byte\]: bounds the search's cost.
const SEARCH_METADATA_BYTES_MAX: usize = 1 << 12;
/// The longest body that is believed \[byte\]: the recorder splits at 2 GiB per buffer.
const BODY_BYTES_MAX: u64 = 1 << 33;
/// Messages start at multiples of this in the file \[byte\].
const STEP: usize = 8;
/// Size of the reads of a search \[byte\].
const WINDOW_BYTES: usize = 1 << 16;

/// Damaged bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub bytes: Range<u64>,
    pub batch: Option<u64>,
    pub reason: &'static str,
}

/// A complete batch with both check sums right.
#[derive(Clone, Debug)]
pub(super) struct Good {
    pub number: u64,
    pub bytes: Range<u64>,
    pub record_batch: RecordBatch,
}

/// The reason why the walk cannot go on in a file.
#[derive(Debug)]
pub(super) enum ScanFault {
    Io(io::Error),
    /// It is intact, but not ours or of a later version.
    Foreign(String),
}

impl From<io::Error> for ScanFault {
    fn from(error: io::Error) -> ScanFault {
        ScanFault::Io(error)
    }
}

/// A walk through one file.
#[derive(Debug)]
pub(super) struct Scan {
    file: File,
    path: PathBuf,
    size: u64,
    position: u64,
    good_end: u64,
    last_batch: Option<u64>,
    ended: bool,
    torn: bool,
    metadata: HashMap<String, String>,
    /// Bad bytes that nothing good has followed yet.
    pending: Vec<Bad>,
    /// Bad bytes before good ones.
    bad: Vec<Bad>,
}

impl Scan {
    /// Opens a file that lies directly in a run folder; the walk ends at its present size. Batches
    /// up to `last_batch` came before.
    pub fn open(
        folder: &Directory,
        path: &Path,
        last_batch: Option<u64>,
    ) -> Result<Scan, FolderError> {
        let name = path.file_name().unwrap_or_default();
        let file = folder.file(Path::new(name), Access::Read)?;
        let metadata = file.metadata().map_err(|reason| FolderError::explain(path, reason))?;
        let size = metadata.len();
        Ok(Scan {
            file,
            path: path.to_path_buf(),
            size,
            position: 0,
            good_end: 0,
            last_batch,
            ended: false,
            torn: false,
            metadata: HashMap::new(),
            pending: Vec::new(),
            bad: Vec::new(),
        })
    }

    /// Opens a file a second time, at a batch that was found good.
    pub fn open_at(folder: &Directory, path: &Path, position: u64) -> Result<Scan, FolderError> {
        let mut scan = Scan::open(folder, path, None)?;
        scan.position = position.min(scan.size);
        Ok(scan)
    }

    /// Returns the next good batch; `None` at the end of what is good.
    pub fn next_batch(&mut self) -> Result<Option<Good>, ScanFault> {
        while self.position < self.size && !self.torn {
            match self.step()? {
                Found::Batch(good) => {
                    self.accept(good.bytes.end);
                    self.last_batch = Some(good.number);
                    return Ok(Some(good));
                }
                Found::Schema(end) => self.accept(end),
                Found::End => {
                    self.accept(self.position + END_OF_STREAM.len() as u64);
                    self.ended = true;
                }
                Found::BadBatch(bad) => {
                    self.position = bad.bytes.end;
                    self.pending.push(bad);
                }
                Found::Cut => self.torn = true,
                Found::Broken => self.search()?,
            }
        }
        Ok(None)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bad bytes that good ones follow.
    pub fn bad(&self) -> &[Bad] {
        &self.bad
    }

    /// Returns the end of the last good message \[byte from the start\]; after the walk, the start
    /// of the tail.
    pub fn good_end(&self) -> u64 {
        self.good_end
    }

    /// Returns the number of bytes behind the last good message; after the walk, the torn tail.
    pub fn torn_bytes(&self) -> u64 {
        self.size - self.good_end
    }

    /// Returns true when the file ends with its end mark.
    pub fn is_ended(&self) -> bool {
        self.ended && self.good_end == self.size
    }

    /// Returns true when the last good message is the end mark.
    pub fn has_end(&self) -> bool {
        self.ended
    }

    /// Returns the file's metadata, once its schema was read.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }

    fn accept(&mut self, end: u64) {
        self.position = end;
        self.good_end = end;
        self.ended = false;
        self.bad.append(&mut self.pending);
    }

    fn step(&mut self) -> Result<Found, ScanFault> {
        let Some(prefix) = self.read_small(self.position, PREFIX_BYTES)? else {
            return Ok(Found::Broken);
        };
        if prefix == END_OF_STREAM {
            return Ok(Found::End);
        }
        let Some(metadata_bytes) = metadata_length(&prefix, METADATA_BYTES_MAX) else {
            return Ok(Found::Broken);
        };
        let start = self.position + PREFIX_BYTES as u64;
        let Some(mut metadata) = self.read_small(start, metadata_bytes)? else {
            return Ok(Found::Broken);
        };
        let Some(message) = verified_message(&mut metadata) else { return Ok(Found::Broken) };
        let body_start = start + metadata_bytes as u64;
        match message.header_type() {
            MessageHeader::Schema => {
                self.metadata = schema_metadata(&message)?;
                Ok(Found::Schema(body_start))
            }
            MessageHeader::RecordBatch => Ok(self.batch(&message, body_start)?),
            _ => Ok(Found::Broken),
        }
    }

    fn batch(&self, message: &Message<'_>, body_start: u64) -> Result<Found, io::Error> {
        let Some(head) = BatchHead::parse(message) else { return Ok(Found::Broken) };
        let Some(end) = body_start.checked_add(head.body_bytes).filter(|end| *end <= self.size)
        else {
            return Ok(Found::Cut);
        };
        let bytes = self.position..end;
        let bad = |reason| {
            Found::BadBatch(Bad { bytes: bytes.clone(), batch: Some(head.number), reason })
        };
        if next_data(&self.file, body_start)?.is_none_or(|data| data >= end) && head.body_bytes > 0
        {
            return Ok(bad("the batch is a hole of the file"));
        }
        let mut body = MutableBuffer::from_len_zeroed(head.body_bytes as usize);
        self.file.read_exact_at(body.as_slice_mut(), body_start)?;
        if crc_fast::crc32_iscsi(body.as_slice()) != head.crc && !cfg!(fuzzing) {
            return Ok(bad("the check sum of the batch is wrong"));
        }
        if self.last_batch.is_some_and(|last| head.number <= last) {
            return Ok(bad("the batch's number is not above the one before"));
        }
        match decode(message, &body.into()) {
            Some(record_batch) => {
                Ok(Found::Batch(Good { number: head.number, bytes, record_batch }))
            }
            None => Ok(bad("the batch does not have the columns of a run")),
        }
    }

    /// Searches for the next batch that proves itself, and notes the skipped bytes.
    fn search(&mut self) -> Result<(), ScanFault> {
        let broken = self.position;
        let mut window_start = (broken + 1).next_multiple_of(STEP as u64);
        while let Some(data) = next_data(&self.file, window_start)?.filter(|at| *at < self.size) {
            window_start = data - data % STEP as u64;
            let bytes = (self.size - window_start).min(WINDOW_BYTES as u64) as usize;
            let mut window = vec![0; bytes];
            self.file.read_exact_at(&mut window, window_start)?;
            for (index, prefix) in window.chunks_exact(STEP).enumerate() {
                let place = window_start + (index * STEP) as u64;
                if prefix[..4] == CONTINUATION && self.is_batch_at(place, prefix)? {
                    let reason = "no message of a run";
                    self.pending.push(Bad { bytes: broken..place, batch: None, reason });
                    self.position = place;
                    return Ok(());
                }
            }
            window_start += bytes as u64;
        }
        self.torn = true;
        Ok(())
    }

    fn is_batch_at(&self, place: u64, prefix: &[u8]) -> io::Result<bool> {
        let Some(metadata_bytes) = metadata_length(prefix, SEARCH_METADATA_BYTES_MAX) else {
            return Ok(false);
        };
        let Some(mut metadata) = self.read_small(place + PREFIX_BYTES as u64, metadata_bytes)?
        else {
            return Ok(false);
        };
        let head = verified_message(&mut metadata).and_then(|message| BatchHead::parse(&message));
        Ok(head.is_some_and(|head| self.last_batch.is_none_or(|last| head.number > last)))
    }

    /// Reads bytes from `start` on, `None` when the file ends before.
    fn read_small(&self, start: u64, bytes: usize) -> io::Result<Option<Vec<u8>>> {
        if start > self.size || self.size - start < bytes as u64 {
            return Ok(None);
        }
        let mut found = vec![0; bytes];
        self.file.read_exact_at(&mut found, start)?;
        Ok(Some(found))
    }
}

enum Found {
    Schema(u64),
    Batch(Good),
    BadBatch(Bad),
    End,
    /// A message that proves itself, and the file ends within its body.
    Cut,
    /// No message is provably intact.
    Broken,
}

pub(super) struct BatchHead {
    pub number: u64,
    pub crc: u32,
    pub body_bytes: u64,
}

impl BatchHead {
    pub fn parse(message: &Message<'_>) -> Option<BatchHead> {
        message.header_as_record_batch()?;
        let number = metadata_value(message, KEY_BATCH)?.parse().ok()?;
        let crc = u32::from_str_radix(metadata_value(message, KEY_CRC)?, 16).ok()?;
        let body_bytes = u64::try_from(message.bodyLength()).ok()?;
        (body_bytes <= BODY_BYTES_MAX).then_some(BatchHead { number, crc, body_bytes })
    }
}

pub(super) fn metadata_length(prefix: &[u8], max: usize) -> Option<usize> {
    let (continuation, length) = prefix.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length.first_chunk()?) as usize;
    let sound = *continuation == CONTINUATION && length > 0 && length <= max;
    (sound && length.is_multiple_of(STEP)).then_some(length)
}

pub(super) fn schema_metadata(message: &Message<'_>) -> Result<HashMap<String, String>, ScanFault> {
    let foreign = |reason: String| ScanFault::Foreign(reason);
    let schema = message
        .header_as_schema()
        .ok_or_else(|| foreign("its schema is missing".to_owned()))
        .and_then(|schema| {
            arrow_ipc::convert::try_fb_to_schema(schema).map_err(|error| foreign(error.to_string()))
        })?;
    let layout = schema.metadata().get(KEY_LAYOUT).map(String::as_str);
    if layout != Some(LAYOUT_VERSION.to_string().as_str()) {
        let layout = layout.unwrap_or("none");
        return Err(foreign(format!(
            "its layout is {layout}, this program reads {LAYOUT_VERSION}"
        )));
    }
    if *schema.fields() != event_fields() {
        return Err(foreign("its columns are not those of a run".to_owned()));
    }
    Ok(schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The contents of a buffer of a column.
#[derive(Clone, Copy)]
enum Holds {
    /// A bit per row; empty when no row is null.
    Validity,
    /// A value of this many bytes per row.
    Values(i64),
    /// The start of each row's part of the next buffer (or of the list), and the end.
    Offsets,
    /// Text or bytes of all rows.
    Data,
}

impl Holds {
    fn takes(self, bytes: i64, node: &FieldNode) -> bool {
        let rows = node.length();
        match self {
            Holds::Validity if node.null_count() == 0 => bytes == 0 || bytes == (rows + 7) / 8,
            Holds::Validity => bytes == (rows + 7) / 8,
            Holds::Values(width) => bytes == rows * width,
            Holds::Offsets => bytes == (rows + 1) * size_of::<u32>() as i64,
            Holds::Data => bytes >= 0,
        }
    }
}

const WORDS: &[Holds] = &[Holds::Validity, Holds::Values(8)];
const HALF_WORDS: &[Holds] = &[Holds::Validity, Holds::Values(4)];
const BYTES: &[Holds] = &[Holds::Validity, Holds::Values(1)];
const TEXT: &[Holds] = &[Holds::Validity, Holds::Offsets, Holds::Data];
const LIST: &[Holds] = &[Holds::Validity, Holds::Offsets];
const STRUCT: &[Holds] = &[Holds::Validity];

/// The buffers of each node, in the order of `event_fields` and `packet_fields`.
const COLUMN_BUFFERS: [&[Holds]; NODES] = [
    WORDS, HALF_WORDS, HALF_WORDS, TEXT, TEXT, WORDS, WORDS, WORDS, LIST, STRUCT, HALF_WORDS,
    BYTES, WORDS, WORDS, WORDS, WORDS, HALF_WORDS, HALF_WORDS, TEXT,
];

/// Decodes the batch in a body whose check sum is right; `None` without the columns of a run.
///
/// The check sum keeps accidents out, not intent: lengths are checked all the same.
pub(super) fn decode(message: &Message<'_>, body: &Buffer) -> Option<RecordBatch> {
    let batch = message.header_as_record_batch()?;
    let (nodes, buffers) = (batch.nodes()?, batch.buffers()?);
    if nodes.len() != NODES || buffers.len() != BUFFERS || batch.compression().is_some() {
        return None;
    }
    let body_bytes = i64::try_from(body.len()).ok()?;
    let packets = nodes.get(EVENT_NODES).length();
    for (index, node) in nodes.iter().enumerate() {
        let rows = if index < EVENT_NODES - 1 { batch.length() } else { packets };
        let nulls_sound = node.null_count() >= 0 && node.null_count() <= rows;
        if node.length() != rows || rows < 0 || rows > body_bytes || !nulls_sound {
            return None;
        }
    }
    let mut buffers = buffers.iter();
    for (node, kinds) in nodes.iter().zip(COLUMN_BUFFERS) {
        for kind in kinds {
            let buffer = buffers.next()?;
            let end = buffer.offset().checked_add(buffer.length())?;
            let aligned = buffer.offset() >= 0 && buffer.offset() % STEP as i64 == 0;
            if !aligned || end > body_bytes || !kind.takes(buffer.length(), node) {
                return None;
            }
        }
    }
    let version = MetadataVersion::V5;
    let dictionaries = HashMap::new();
    RecordBatchDecoder::try_new(body, batch, event_schema(), &dictionaries, &version)
        .and_then(RecordBatchDecoder::read_record_batch)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};
    use crate::record::message::forge::reseal;
    use crate::record::{Recorder, RecorderConfig, RunFolder, RunReader};
    use fluxline_core::Moment;

    fn batch() -> EventBatch {
        let time = Moment::from_ns(1);
        let mut batch = EventBatch::default();
        for key in [Some(1), None] {
            let (status, packets) = (EventStatus::Complete, 2);
            let (first, last, built) = (time, time, time);
            let (generation, source) = (3, key.map(|key| key as u32));
            batch.events.push(EventRow {
                key,
                generation,
                source,
                status,
                first,
                last,
                built,
                packets,
                missing_bytes: 3,
            });
            batch.missing.push_str("two");
            for source in 0..2 {
                let (sequence, sensor_time_ns) = (key, Some(7));
                let (payload_start, payload_bytes, bytes) = (1, 4, 5);
                batch.packets.push(PacketRow {
                    source,
                    packet_type: 0,
                    sequence,
                    time,
                    sensor_time_ns,
                    part: 0,
                    payload_start,
                    payload_bytes,
                    bytes,
                });
                batch.bytes.extend([1, 2, 3, 4, 5]);
            }
        }
        batch
    }

    #[test]
    fn lies_with_right_check_sums_are_no_panic() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::create_next(dir.path()).unwrap();
        let run = folder.path().to_path_buf();
        let mut recorder = Recorder::open(folder, RecorderConfig::default());
        recorder.write(&batch(), Moment::from_ns(0)).unwrap();
        drop(recorder);
        let file = run.join("events-000000.arrows");
        let whole = std::fs::read(&file).unwrap();
        let length =
            |at: usize| u32::from_le_bytes(whole[at + 4..at + 8].try_into().unwrap()) as usize;
        let start = PREFIX_BYTES + length(0);
        let metadata_bytes = length(start);
        let body_bytes = whole.len() - start - PREFIX_BYTES - metadata_bytes;
        let mut read = 0;
        for place in start + PREFIX_BYTES..whole.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF, whole[place] ^ 2] {
                let mut spoilt = whole.clone();
                spoilt[place] = value;
                reseal(&mut spoilt, start, metadata_bytes, body_bytes);
                std::fs::write(&file, &spoilt).unwrap();
                let mut rows = EventBatch::default();
                let mut reader = RunReader::open(&run).unwrap();
                while let Ok(Some(found)) = reader.next_batch() {
                    read += 1;
                    if found.append_to(&mut rows).is_ok() {
                        assert_eq!(rows.events.len(), found.record_batch().num_rows());
                    }
                }
            }
        }
        assert!(read > 1000, "the check sums are not made right: {read} batches read");
    }
}
