//! Records batches of events: one write per batch, straight from the packets' memory.
//!
//! The recorder must keep up with the readout, and a failing disk must not stop the readout. So the
//! packets' bytes are written from their place (`file.rs` explains how they reach the disk); the
//! rest is built in small buffers that are reused. When the disk fails or is full, the torn end is
//! cut off, recording stops with a reason that stays, and every event after that is counted as
//! failed; the readout goes on.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use fluxline_core::{Moment, Span, planted};

use crate::event::EventBatch;

use super::columns::{Columns, Piece, RowFault, for_each_piece};
use super::folder::{RunFolder, SOURCES_FILE, SourceLine, event_file_name};
use super::lock::lock;
use super::message::{END_OF_STREAM, MessageEncoder};
use super::schema::file_schema;
use super::storage::{Disk, Storage};
use super::ways::WriteMode;

/// The longest buffer in one message \[byte\]. Source: Arrow's 32-bit offsets.
pub(super) const BUFFER_BYTES_MAX: usize = i32::MAX as usize;

/// The moments at which recorded bytes are forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SyncPolicy {
    /// At the operating system's choice: a crash of the program loses nothing, a power cut may lose
    /// the last half minute.
    None,
    /// Before `write` returns: a power cut loses no batch that was reported as written.
    Batch,
    /// After every span of this many seconds, rounded up, with the first batch that comes then.
    EverySeconds(f64),
}

/// Configuration of a recorder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecorderConfig {
    /// Size that a file does not exceed \[byte\], except by a single larger batch; then a new file
    /// is begun.
    pub file_bytes: u64,
    /// The moments at which recorded bytes are forced to the disk.
    pub sync: SyncPolicy,
    /// Through the page cache, or past it.
    pub write: WriteMode,
}

impl Default for RecorderConfig {
    /// Files of 1 GiB, forced to the disk every 5 s.
    fn default() -> RecorderConfig {
        RecorderConfig {
            file_bytes: 1 << 30,
            sync: SyncPolicy::EverySeconds(5.0),
            write: WriteMode::Auto,
        }
    }
}

/// The state of a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecorderState {
    /// It records.
    Recording,
    /// A fault stopped it for good.
    Stopped {
        /// The fault in a sentence.
        reason: WriteFault,
    },
    /// The run's files are complete.
    Finished,
}

/// The reason why events were not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteFault {
    /// The disk is full, or the quota is used up.
    #[error("{}: recording has stopped, what was recorded before is safe; free some space and \
        start a new run", no_space(.file))]
    NoSpace {
        /// The file that was written.
        file: PathBuf,
    },
    /// Somebody removed the file during the run; its batches count as failed.
    #[error("{}: recording has stopped; start a new run", removed(.file))]
    Removed {
        /// The file that is gone.
        file: PathBuf,
    },
    /// The disk failed.
    #[error("{}: recording has stopped, what was recorded before is safe; check the disk and \
        start a new run", not_written(.file, .reason))]
    Disk {
        /// The file that was written.
        file: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// The bytes are written, but the disk did not confirm them.
    #[error("{}: recording has stopped, and its last {bytes} bytes may be lost at a power cut; \
        check the disk and start a new run", not_confirmed(.file, .reason))]
    NotConfirmed {
        /// The file that was forced to the disk.
        file: PathBuf,
        /// Number of its bytes that are not confirmed.
        bytes: u64,
        /// The system's message.
        reason: String,
    },
    /// One event is too large for the format; its batch is not written, recording goes on.
    #[error(
        "an event of 2 GiB or more cannot be recorded: its batch was left out; \
        choose smaller events"
    )]
    EventTooLarge,
    /// The batch contradicts itself; it is not written, recording goes on.
    #[error("a batch whose rows do not add up was left out; this is an error of the program")]
    Inconsistent,
    /// The run is over.
    #[error("the run is finished: nothing more can be recorded")]
    Finished,
}

fn no_space(file: &Path) -> String {
    format!("no space left for {}", file.display())
}

fn removed(file: &Path) -> String {
    format!("{} was removed while it was written", file.display())
}

fn not_written(file: &Path, reason: &str) -> String {
    format!("{} cannot be written ({reason})", file.display())
}

fn not_confirmed(file: &Path, reason: &str) -> String {
    format!("the disk did not confirm {} ({reason})", file.display())
}

impl WriteFault {
    /// Returns what happened, without the advice. The advice is for a run on one machine.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            WriteFault::NoSpace { file } => no_space(file),
            WriteFault::Removed { file } => removed(file),
            WriteFault::Disk { file, reason } => not_written(file, reason),
            WriteFault::NotConfirmed { file, reason, .. } => not_confirmed(file, reason),
            WriteFault::EventTooLarge | WriteFault::Inconsistent | WriteFault::Finished => {
                self.to_string()
            }
        }
    }
}

impl From<RowFault> for WriteFault {
    fn from(fault: RowFault) -> WriteFault {
        match fault {
            RowFault::Inconsistent => WriteFault::Inconsistent,
            RowFault::TooLarge => WriteFault::EventTooLarge,
        }
    }
}

/// The fate of the events: every one that `write` was given is in exactly one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Complete in a file.
    pub written: Amount,
    /// Not in any file.
    pub failed: Amount,
    /// Batches (messages) in the files.
    pub batches: u64,
    /// Files begun and kept.
    pub files: u32,
    /// Size of the files together \[byte\].
    pub file_bytes: u64,
    /// Bytes that were written past the page cache.
    pub direct_bytes: u64,
}

impl RecorderCounts {
    fn given(&self) -> Amount {
        let mut given = self.written;
        given.add(self.failed);
        given
    }
}

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Number of events.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of those packets (UDP payloads).
    pub bytes: u64,
}

impl Amount {
    fn of(events: usize, packets: usize, bytes: usize) -> Amount {
        Amount { events: events as u64, packets: packets as u64, bytes: bytes as u64 }
    }

    fn add(&mut self, other: Amount) {
        self.events += other.events;
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    fn subtract(&mut self, other: Amount) {
        self.events -= other.events;
        self.packets -= other.packets;
        self.bytes -= other.bytes;
    }
}

/// Writes a run's events.
#[derive(Debug)]
pub struct Recorder<S = Disk> {
    /// The lock that shows other programs that the run is being recorded.
    _lock: Option<File>,
    folder: RunFolder,
    /// The run's name in event files.
    name: String,
    config: RecorderConfig,
    state: RecorderState,
    counts: RecorderCounts,
    file: Option<EventFile>,
    next_file: u32,
    next_batch: u64,
    forced: Option<Moment>,
    /// Number of the first batches that were forced to the disk.
    safe_batches: u64,
    columns: Columns,
    messages: MessageEncoder,
    storage: S,
}

#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    /// Size up to the last complete message.
    bytes: u64,
    /// Of these, confirmed by the disk.
    forced_bytes: u64,
    batches: u64,
    held: Amount,
}

impl Recorder {
    /// Begins the recording of a new run. Files are begun with the first batch.
    #[must_use]
    pub fn open(folder: RunFolder, config: RecorderConfig) -> Recorder {
        Recorder::open_on(folder, config, Disk::new(config.write))
    }

    /// Sets a clock to measure with: [`WriteMode::Auto`] then finds the faster way to the disk.
    pub fn measure_with(&mut self, clock: fn() -> Moment) {
        self.storage.measure_with(clock);
    }
}

impl<S: Storage> Recorder<S> {
    /// Begins the recording of a new run, as [`Recorder::open`] does, on another storage.
    #[must_use]
    pub fn open_on(folder: RunFolder, config: RecorderConfig, storage: S) -> Recorder<S> {
        Recorder {
            // The folder was made for this run: nobody else can hold its lock.
            _lock: lock(&folder).ok().flatten(),
            name: folder.id(),
            folder,
            config,
            state: RecorderState::Recording,
            counts: RecorderCounts::default(),
            file: None,
            next_file: 0,
            next_batch: 0,
            forced: None,
            safe_batches: 0,
            columns: Columns::default(),
            messages: MessageEncoder::default(),
            storage,
        }
    }

    /// Sets the run's name in event files; without it, they have the folder's. The same name in
    /// each run makes files of the same events equal, byte for byte.
    pub fn name_run(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Notes a source. Call it before the first batch that names the source.
    ///
    /// The operating system has the line afterwards; the disk has it too, unless the choice is
    /// [`SyncPolicy::None`]. Errors: as [`Recorder::write`]; a fault stops recording.
    pub fn write_source(&mut self, source: &SourceLine) -> Result<(), WriteFault> {
        self.check_state()?;
        let path = self.folder.path().join(SOURCES_FILE);
        let line = serde_json::to_string(source);
        let force = self.config.sync != SyncPolicy::None;
        let written = line.map_err(io::Error::from).and_then(|line| {
            self.storage.append_line(&path, &line)?;
            if force { self.storage.sync_lines() } else { Ok(()) }
        });
        written.map_err(|error| self.stop(disk_fault(&path, &error)))
    }

    /// Writes a batch. `now` is the caller's clock.
    ///
    /// Afterwards the operating system has the whole batch, which survives the program's end;
    /// [`RecorderConfig::sync`] decides when it is on the disk and survives a power cut. Errors: a
    /// [`WriteFault`] of the disk stops recording: the end of the file is cut to the last complete
    /// batch, and later calls fail at once, without touching the disk. In every case
    /// [`Recorder::counts`] gives the exact contents of the files: a batch above 2 GiB is written
    /// in parts, and some of them may have been written. Cost: one write, one pass for the check
    /// sum, about 60 bytes copied per packet.
    pub fn write(&mut self, batch: &EventBatch, now: Moment) -> Result<(), WriteFault> {
        let mut all = self.counts.given();
        all.add(Amount::of(batch.events.len(), batch.packets.len(), batch.bytes.len()));
        let result = self.check_state().and_then(|()| {
            for_each_piece(batch, BUFFER_BYTES_MAX, |piece| self.write_piece(&piece))?;
            self.force_when_due(now)
        });
        all.subtract(self.counts.given());
        self.counts.failed.add(all);
        result
    }

    /// Completes the files; safe to call twice.
    ///
    /// The end mark is written afterwards, and on the disk unless the choice is
    /// [`SyncPolicy::None`]. Errors: as [`Recorder::write`]; after an earlier fault, that fault.
    pub fn finish(&mut self) -> Result<(), WriteFault> {
        match &self.state {
            RecorderState::Finished => return Ok(()),
            RecorderState::Stopped { reason } => return Err(reason.clone()),
            RecorderState::Recording => {}
        }
        self.close_file()?;
        self.state = RecorderState::Finished;
        Ok(())
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> &RecorderState {
        &self.state
    }

    /// Returns the fate of the events so far.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        self.counts
    }

    /// Returns the run's folder.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Returns the number of batches that are as safe as [`RecorderConfig::sync`] asks for: on the
    /// disk, or with the operating system.
    #[must_use]
    pub fn safe_batches(&self) -> u64 {
        match self.config.sync {
            SyncPolicy::None => self.counts.batches,
            _ => self.safe_batches,
        }
    }

    fn check_state(&self) -> Result<(), WriteFault> {
        match &self.state {
            RecorderState::Recording => Ok(()),
            RecorderState::Stopped { reason } => Err(reason.clone()),
            RecorderState::Finished => Err(WriteFault::Finished),
        }
    }

    fn write_piece(&mut self, piece: &Piece<'_>) -> Result<(), WriteFault> {
        self.columns.fill(piece);
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        let padding = &[0; 8][..self.columns.padding(piece)];
        for part in [&self.columns.bytes, piece.bytes, padding] {
            digest.update(part);
        }
        let crc = digest.finalize() as u32;
        let rows = piece.events.len();
        let head = self.messages.batch(&self.columns, rows, self.next_batch, crc).len();
        let bytes = (head + self.columns.body_bytes) as u64;
        let full =
            |file: &EventFile| file.batches > 0 && file.bytes + bytes > self.config.file_bytes;
        if self.file.as_ref().is_some_and(full) {
            self.close_file()?;
        }
        if self.file.is_none() {
            self.begin_file()?;
        }
        let file = self.file.as_mut().expect("a file was begun for the batch");
        let parts = &mut [
            IoSlice::new(self.messages.head()),
            IoSlice::new(&self.columns.bytes),
            IoSlice::new(piece.bytes),
            IoSlice::new(padding),
        ];
        match file.append(parts, &mut self.storage) {
            Ok(direct) => self.counts.direct_bytes += direct,
            Err(_) if planted!(9) => {}
            Err(fault) => return Err(self.stop(fault)),
        }
        let amount = Amount::of(rows, piece.packets.len(), piece.bytes.len());
        file.batches += 1;
        file.held.add(amount);
        self.next_batch += 1;
        self.counts.written.add(amount);
        self.counts.batches += 1;
        self.counts.file_bytes += bytes;
        if self.config.sync == SyncPolicy::Batch { self.force() } else { Ok(()) }
    }

    fn begin_file(&mut self) -> Result<(), WriteFault> {
        let path = self.folder.path().join(event_file_name(self.next_file));
        let formats = self.folder.formats().unwrap_or_default();
        let schema = file_schema(&self.name, &formats);
        let created = self.storage.create(&path);
        let begun = created.map_err(|error| disk_fault(&path, &error)).and_then(|()| {
            let path = path.clone();
            let mut file =
                EventFile { path, bytes: 0, forced_bytes: 0, batches: 0, held: Amount::default() };
            let schema = MessageEncoder::default().schema(&schema).to_vec();
            file.append(&mut [IoSlice::new(&schema)], &mut self.storage)?;
            Ok(file)
        });
        let file = begun.map_err(|fault| self.stop(fault))?;
        self.next_file += 1;
        self.counts.files += 1;
        self.counts.file_bytes += file.bytes;
        self.file = Some(file);
        if self.config.sync == SyncPolicy::None {
            return Ok(());
        }
        let folder = self.folder.path();
        let synced = self.storage.sync_folder(folder);
        synced.map_err(|error| disk_fault(folder, &error)).map_err(|fault| self.stop(fault))
    }

    fn close_file(&mut self) -> Result<(), WriteFault> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if let Err(fault) = file.append(&mut [IoSlice::new(&END_OF_STREAM)], &mut self.storage) {
            return Err(self.stop(fault));
        }
        self.counts.file_bytes += END_OF_STREAM.len() as u64;
        if self.config.sync != SyncPolicy::None {
            self.force()?;
        }
        self.file = None;
        self.storage.close();
        Ok(())
    }

    fn force_when_due(&mut self, now: Moment) -> Result<(), WriteFault> {
        let SyncPolicy::EverySeconds(seconds) = self.config.sync else { return Ok(()) };
        let span = Span::from_ms(u64::from(seconds.ceil() as u32) * 1000);
        let last = *self.forced.get_or_insert(now);
        if now.since(last) < span {
            return Ok(());
        }
        self.forced = Some(now);
        self.force()
    }

    /// Forces all recorded batches to the disk, whatever [`RecorderConfig::sync`] is.
    ///
    /// Errors: [`WriteFault::NotConfirmed`], which stops recording.
    pub fn force(&mut self) -> Result<(), WriteFault> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match if planted!(11) { Ok(()) } else { self.storage.sync() } {
            Ok(()) => {
                file.forced_bytes = file.bytes;
                self.safe_batches = self.counts.batches;
                Ok(())
            }
            Err(error) => {
                let fault = WriteFault::NotConfirmed {
                    file: file.path.clone(),
                    bytes: file.bytes - file.forced_bytes,
                    reason: error.to_string(),
                };
                Err(self.stop(fault))
            }
        }
    }

    /// Stops for good; the contents of a removed file are moved from written to failed.
    fn stop(&mut self, fault: WriteFault) -> WriteFault {
        if let (WriteFault::Removed { .. }, Some(file)) = (&fault, &self.file) {
            self.counts.written.subtract(file.held);
            self.counts.failed.add(file.held);
            self.counts.batches -= file.batches;
            self.counts.files -= 1;
            self.counts.file_bytes -= file.bytes;
        }
        self.file = None;
        self.storage.close();
        self.state = RecorderState::Stopped { reason: fault.clone() };
        fault
    }
}

impl EventFile {
    /// Appends a message, whole or not at all; returns the number of bytes that were written past
    /// the page cache.
    fn append(
        &mut self,
        parts: &mut [IoSlice<'_>],
        storage: &mut impl Storage,
    ) -> Result<u64, WriteFault> {
        let message: usize = parts.iter().map(|part| part.len()).sum();
        let written = storage.append(self.bytes, parts);
        if storage.is_removed() {
            return Err(WriteFault::Removed { file: self.path.clone() });
        }
        if written.is_err() && !planted!(10) {
            self.cut(storage);
        }
        let direct = written.map_err(|error| disk_fault(&self.path, &error))?;
        self.bytes += message as u64;
        Ok(direct)
    }

    /// Cuts off an incomplete message. If that fails too, readers see a torn tail.
    fn cut(&mut self, storage: &mut impl Storage) {
        let _ = match self.bytes {
            0 => storage.remove(&self.path),
            bytes => storage.cut(bytes),
        };
    }
}

fn disk_fault(path: &Path, error: &io::Error) -> WriteFault {
    let file = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => WriteFault::NoSpace { file },
        io::ErrorKind::NotFound => WriteFault::Removed { file },
        _ => WriteFault::Disk { file, reason: error.to_string() },
    }
}
