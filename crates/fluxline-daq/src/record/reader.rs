//! Reads every complete batch of a run, also after a crash or damage.
//!
//! A torn tail is not an error: a crash leaves one, and the report has its length. A damaged batch
//! is skipped and reported. So a reader gets everything that is proven, and a list of the rest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StructArray};
use arrow_buffer::Buffer;
use fluxline_core::Moment;

use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};

use super::columns::{Columns, RowFault, for_each_piece};
use super::folder::{FolderError, RunFolder};
use super::message::{MessageEncoder, PREFIX_BYTES, verified_message};
use super::scan::{Bad, Scan, ScanFault, decode};
use super::schema::event_column;
use super::stream::read_stream;
use super::writer::BUFFER_BYTES_MAX;

/// The reason why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The folder or a file beside the events.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// It is intact, but not an events file of a run, or of a later version.
    #[error("{} is not an events file that this program can read: {reason}; \
        read it with the program that wrote it", .file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The difference.
        reason: String,
    },
    /// A batch is intact, but holds a value that no recorder writes.
    #[error("batch {batch}: {reason}; read it with the program that wrote it")]
    Value {
        /// Number of the batch in the run.
        batch: u64,
        /// The fault of the value.
        reason: String,
    },
}

/// The end of a file behind its last complete batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The file.
    pub file: PathBuf,
    /// Number of bytes at its start that are proven, or lie before proven ones.
    pub good_bytes: u64,
    /// Number of bytes that follow them.
    pub torn_bytes: u64,
}

/// Damaged bytes within a file; good ones follow them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Their first byte in the file.
    pub start: u64,
    /// Their number.
    pub bytes: u64,
    /// Number of the batch in the run, where it is known.
    pub batch: Option<u64>,
    /// The finding.
    pub reason: &'static str,
}

/// A file that cannot be read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub file: PathBuf,
    /// The reason, in words that name the file.
    pub reason: String,
}

/// The findings of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// Complete batches.
    pub batches: u64,
    /// Batches whose numbers are missing, up to the last one found.
    pub batches_missing: u64,
    /// Events in them.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// Damage in the middle of files.
    pub damages: Vec<Damage>,
    /// Torn tails.
    pub tails: Vec<Tail>,
    /// Files that the operating system does not open, or that are not regular files.
    pub unreadable: Vec<Unreadable>,
    /// Files without the mark of a proper end; one that is being written has none.
    pub unfinished_files: Vec<PathBuf>,
}

/// A complete batch.
#[derive(Clone, Debug)]
pub struct RecordedBatch {
    number: u64,
    place: Place,
    record_batch: RecordBatch,
}

/// A batch's number and place, by which it is read again ([`RunReader::read_marked`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMark {
    number: u64,
    place: Place,
}

/// The place of a batch in the files of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the file among those that existed when the run was opened.
    file: u32,
    start: u64,
}

/// Goes through a run, batch by batch.
///
/// ```no_run
/// # fn main() -> Result<(), fluxline_daq::record::ReadError> {
/// let mut reader = fluxline_daq::record::RunReader::open("runs/0042".as_ref())?;
/// while let Some(batch) = reader.next_batch()? {
///     println!("batch {}: {} events", batch.number(), batch.record_batch().num_rows());
/// }
/// println!("{:?}", reader.report());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RunReader {
    folder: RunFolder,
    files: Vec<PathBuf>,
    /// Number of files that were opened.
    opened: usize,
    scan: Option<Scan>,
    last_batch: Option<u64>,
    metadata: HashMap<String, String>,
    report: ReadReport,
}

impl RunReader {
    /// Opens a run, finished or not. The existing files are read, up to their size when each is
    /// reached.
    pub fn open(path: &Path) -> Result<RunReader, ReadError> {
        let folder = RunFolder::open(path)?;
        folder.check_is_here()?;
        let files = folder.event_files()?.into_iter().map(|its| its.1).collect();
        Ok(RunReader {
            folder,
            files,
            opened: 0,
            scan: None,
            last_batch: None,
            metadata: HashMap::new(),
            report: ReadReport::default(),
        })
    }

    /// Opens a run behind a batch that was read before: a run that is being written has more now.
    /// Its report counts from there. It has no batch when the marked one no longer exists.
    pub fn open_after(path: &Path, mark: BatchMark) -> Result<RunReader, ReadError> {
        let mut reader = RunReader::open(path)?;
        let Place { file, start } = mark.place;
        let Some(path) = reader.files.get(file as usize) else {
            reader.opened = reader.files.len();
            return Ok(reader);
        };
        let mut scan = Scan::open_at(reader.folder.directory(), path, start)?;
        let found = scan.next_batch().map_err(|fault| explain(path, fault))?;
        let is_there = found.is_some_and(|good| good.number == mark.number);
        reader.opened = if is_there { file as usize + 1 } else { reader.files.len() };
        reader.scan = is_there.then_some(scan);
        reader.last_batch = Some(mark.number);
        Ok(reader)
    }

    /// Reads a marked batch again; `None` if it no longer exists.
    ///
    /// Cost: reads and checks the whole batch.
    pub fn read_marked(&self, mark: BatchMark) -> Result<Option<RecordedBatch>, ReadError> {
        let again = self.read_again(mark.place)?;
        Ok(again.filter(|batch| batch.number == mark.number))
    }

    /// Returns the run's folder.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Returns the next complete batch; `None` at the end. Cost: reads and checks the whole batch;
    /// its memory is the batch's, no more is held.
    pub fn next_batch(&mut self) -> Result<Option<RecordedBatch>, ReadError> {
        loop {
            let Some(scan) = &mut self.scan else {
                let Some(path) = self.files.get(self.opened) else { return Ok(None) };
                self.opened += 1;
                match Scan::open(self.folder.directory(), path, self.last_batch) {
                    Ok(scan) => self.scan = Some(scan),
                    Err(error) => self.report.unreadable.push(unreadable(path, &error)),
                }
                continue;
            };
            let found = match scan.next_batch() {
                Err(ScanFault::Io(reason)) => {
                    // The rest of this file is out of reach; the others may be sound.
                    let error = FolderError::explain(scan.path(), reason);
                    self.report.unreadable.push(unreadable(scan.path(), &error));
                    None
                }
                found => found.map_err(|fault| explain(scan.path(), fault))?,
            };
            if self.metadata.is_empty() {
                self.metadata.clone_from(scan.metadata());
            }
            let Some(good) = found else {
                self.close_file();
                continue;
            };
            let expected = self.last_batch.map_or(0, |last| last + 1);
            self.report.batches_missing += good.number.saturating_sub(expected);
            self.last_batch = Some(good.number);
            let place = Place { file: self.opened as u32 - 1, start: good.bytes.start };
            let batch =
                RecordedBatch { number: good.number, place, record_batch: good.record_batch };
            self.report.batches += 1;
            self.report.events += batch.record_batch.num_rows() as u64;
            self.report.packets += batch.packets().len() as u64;
            self.report.bytes += batch.data_bytes();
            return Ok(Some(batch));
        }
    }

    /// Reads a batch a second time; `None` if it no longer exists.
    pub(super) fn read_again(&self, place: Place) -> Result<Option<RecordedBatch>, ReadError> {
        let Some(path) = self.files.get(place.file as usize) else { return Ok(None) };
        let Ok(mut scan) = Scan::open_at(self.folder.directory(), path, place.start) else {
            return Ok(None);
        };
        match scan.next_batch() {
            Err(ScanFault::Io(_)) => Ok(None),
            Err(fault) => Err(explain(path, fault)),
            Ok(good) => Ok(good.filter(|good| good.bytes.start == place.start).map(|good| {
                RecordedBatch { number: good.number, place, record_batch: good.record_batch }
            })),
        }
    }

    /// Returns the findings so far; complete once `next_batch` returned `None`.
    #[must_use]
    pub fn report(&self) -> &ReadReport {
        &self.report
    }

    /// Returns the metadata of the files (keys in [`super::schema`]), once a batch was read.
    #[must_use]
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }

    fn close_file(&mut self) {
        let Some(scan) = self.scan.take() else { return };
        let file = scan.path();
        self.report.damages.extend(scan.bad().iter().map(|bad| damage(file, bad)));
        if scan.torn_bytes() > 0 {
            self.report.tails.push(Tail {
                file: file.to_path_buf(),
                good_bytes: scan.good_end(),
                torn_bytes: scan.torn_bytes(),
            });
        }
        if !scan.is_ended() {
            self.report.unfinished_files.push(file.to_path_buf());
        }
    }
}

impl Iterator for RunReader {
    type Item = Result<RecordedBatch, ReadError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// Returns rows as Arrow record batches, as if they had been recorded and read.
fn in_memory(rows: &EventBatch) -> Result<Vec<RecordBatch>, String> {
    let (mut columns, mut messages) = (Columns::default(), MessageEncoder::default());
    let mut batches = Vec::new();
    for_each_piece(rows, BUFFER_BYTES_MAX, |piece| {
        columns.fill(&piece);
        let mut body = Vec::with_capacity(columns.body_bytes);
        body.extend_from_slice(&columns.bytes);
        body.extend_from_slice(piece.bytes);
        body.resize(columns.body_bytes, 0);
        messages.batch(&columns, piece.events.len(), 0, 0);
        let mut head = messages.head()[PREFIX_BYTES..].to_vec();
        let batch = verified_message(&mut head)
            .and_then(|message| decode(&message, &Buffer::from_vec(body)))
            .ok_or(RowFault::Inconsistent)?;
        batches.push(batch);
        Ok::<(), RowFault>(())
    })
    .map_err(|fault| format!("its rows do not fit into a batch ({fault:?})"))?;
    Ok(batches)
}

pub(super) fn unreadable(file: &Path, error: &FolderError) -> Unreadable {
    Unreadable { file: file.to_path_buf(), reason: error.to_string() }
}

pub(super) fn damage(file: &Path, bad: &Bad) -> Damage {
    Damage {
        file: file.to_path_buf(),
        start: bad.bytes.start,
        bytes: bad.bytes.end - bad.bytes.start,
        batch: bad.batch,
        reason: bad.reason,
    }
}

pub(super) fn explain(file: &Path, fault: ScanFault) -> ReadError {
    match fault {
        ScanFault::Io(reason) => FolderError::explain(file, reason).into(),
        ScanFault::Foreign(reason) => ReadError::Foreign { file: file.to_path_buf(), reason },
    }
}

impl RecordedBatch {
    /// Returns rows as if they had been recorded and read; in pieces, if they are too many for
    /// one.
    ///
    /// # Errors
    /// A sentence, where one event alone is too large for a batch.
    pub fn of_events(rows: &EventBatch) -> Result<Vec<RecordedBatch>, String> {
        let place = Place { file: 0, start: 0 };
        let recorded = |record_batch| RecordedBatch { number: 0, place, record_batch };
        Ok(in_memory(rows)?.into_iter().map(recorded).collect())
    }

    /// Reads a stream in memory that [`super::StreamEncoder`] made.
    ///
    /// # Errors
    /// A clause about the first thing that is wrong; every byte is checked.
    pub fn of_stream(stream: &[u8]) -> Result<RecordedBatch, String> {
        let (number, record_batch) = read_stream(stream)?;
        Ok(RecordedBatch { number, place: Place { file: 0, start: 0 }, record_batch })
    }

    /// Returns its number in the run, from 0.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the time at which its first event was closed; `None` without events.
    #[must_use]
    pub fn first_closed(&self) -> Option<Moment> {
        let closed = self.record_batch.column(event_column::TIMES[2]);
        let closed = closed.as_primitive::<TimestampNanosecondType>();
        (!closed.is_empty()).then(|| moment(closed.value(0)))
    }

    /// Returns the mark by which it is read again.
    #[must_use]
    pub fn mark(&self) -> BatchMark {
        BatchMark { number: self.number, place: self.place }
    }

    /// Returns its place.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Returns true when any of its rows is a late fragment.
    #[must_use]
    pub fn has_late(&self) -> bool {
        let status = self.record_batch.column(event_column::STATUS).as_string::<i32>();
        let late = EventStatus::Late.as_str();
        (0..status.len()).any(|row| status.value(row) == late)
    }

    /// Returns the same batch with other rows; in pieces, if they are too many for one.
    pub(super) fn replaced_by(&self, rows: &EventBatch) -> Result<Vec<RecordedBatch>, ReadError> {
        let (number, place) = (self.number, self.place);
        let batches =
            in_memory(rows).map_err(|reason| ReadError::Value { batch: number, reason })?;
        let replaced = |record_batch| RecordedBatch { number, place, record_batch };
        Ok(batches.into_iter().map(replaced).collect())
    }

    /// Returns it as an Arrow record batch of [`super::schema::event_schema`].
    #[must_use]
    pub fn record_batch(&self) -> &RecordBatch {
        &self.record_batch
    }

    /// Returns the packets of all its events, one row each, in order:
    /// [`super::schema::packet_fields`].
    #[must_use]
    pub fn packets(&self) -> StructArray {
        let list = self.record_batch.column(event_column::PACKETS).as_list::<i32>();
        let offsets = list.value_offsets();
        let (start, end) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
        list.values().as_struct().slice(start, end - start)
    }

    /// Returns the number of packets of the event in `row`.
    #[must_use]
    pub fn packets_of(&self, row: usize) -> usize {
        self.record_batch.column(event_column::PACKETS).as_list::<i32>().value_length(row) as usize
    }

    /// Appends its rows to `batch`, as they were given to the recorder.
    ///
    /// Errors: [`ReadError::Value`] for an unknown status; `batch` then holds the rows before.
    pub fn append_to(&self, batch: &mut EventBatch) -> Result<(), ReadError> {
        let columns = &self.record_batch;
        let key = columns.column(event_column::KEY).as_primitive::<UInt64Type>();
        let generation = columns.column(event_column::GENERATION).as_primitive::<UInt32Type>();
        let source = columns.column(event_column::SOURCE).as_primitive::<UInt32Type>();
        let status = columns.column(event_column::STATUS).as_string::<i32>();
        let missing = columns.column(event_column::MISSING).as_string::<i32>();
        let times = event_column::TIMES
            .map(|at| columns.column(at).as_primitive::<TimestampNanosecondType>());
        for row in 0..columns.num_rows() {
            let word = status.value(row);
            let status = EventStatus::ALL.into_iter().find(|status| status.as_str() == word);
            let status = status.ok_or_else(|| ReadError::Value {
                batch: self.number,
                reason: format!("an event's status is {word:?}"),
            })?;
            batch.missing.push_str(missing.value(row));
            batch.events.push(EventRow {
                key: optional(key, row),
                generation: generation.value(row),
                source: optional(source, row),
                status,
                first: moment(times[0].value(row)),
                last: moment(times[1].value(row)),
                built: moment(times[2].value(row)),
                packets: self.packets_of(row) as u32,
                missing_bytes: missing.value_length(row) as u32,
            });
        }
        self.append_packets(batch);
        Ok(())
    }

    fn append_packets(&self, batch: &mut EventBatch) {
        let packets = self.packets();
        let column = |at: usize| packets.column(at);
        let source = column(0).as_primitive::<UInt32Type>();
        let packet_type = column(1).as_primitive::<UInt8Type>();
        let sequence = column(2).as_primitive::<UInt64Type>();
        let time = column(3).as_primitive::<TimestampNanosecondType>();
        let sensor_time_ns = column(4).as_primitive::<UInt64Type>();
        let part = column(5).as_primitive::<UInt64Type>();
        let payload_start = column(6).as_primitive::<UInt32Type>();
        let payload_bytes = column(7).as_primitive::<UInt32Type>();
        let data = column(8).as_binary::<i32>();
        for row in 0..packets.len() {
            batch.bytes.extend_from_slice(data.value(row));
            batch.packets.push(PacketRow {
                source: source.value(row),
                packet_type: packet_type.value(row),
                sequence: optional(sequence, row),
                time: moment(time.value(row)),
                sensor_time_ns: optional(sensor_time_ns, row),
                part: part.value(row),
                payload_start: payload_start.value(row),
                payload_bytes: payload_bytes.value(row),
                bytes: data.value_length(row) as u32,
            });
        }
    }

    /// Returns the number of bytes of its packets.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let packets = self.packets();
        let offsets = packets.column(DATA).as_binary::<i32>().value_offsets();
        (i64::from(offsets[offsets.len() - 1]) - i64::from(offsets[0])) as u64
    }
}

const DATA: usize = 8;

fn optional<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    column.is_valid(row).then(|| column.value(row))
}

fn moment(ns: i64) -> Moment {
    Moment::from_ns(u64::try_from(ns).unwrap_or(0))
}
