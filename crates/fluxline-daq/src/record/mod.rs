//! Recording: a run is a folder that is readable after any crash, up to the last complete batch.
//!
//! A run folder holds `run.json` (configuration, host, ledger; replaced atomically),
//! `sources.jsonl` (one line per source), `formats/NAME.toml` (the descriptions of the run) and
//! Arrow IPC stream files, `events-000000.arrows` and so on, rotated by size. One Arrow record
//! batch is one unit of safety: its message carries the batch's number and CRC-32C, so that a
//! reader can verify every byte. The format is Arrow, because every language already reads it.
//!
//! [`Directory`] opens files in folders from anywhere, [`folder`] makes and opens run folders,
//! [`writer`] records, [`reader`] reads back, [`mod@join`] puts late fragments into their events,
//! [`mod@recover`] mends a run that did not end, [`integrity`] compares the files with `run.json`.
//! [`Marks`] are the tags and the comment of a run, [`RunSummary`] is its line in a list,
//! [`ArchivedAt`] the place of its archive.
//! `fluxline-export` decodes packets and converts runs for other tools.
//! Source: Apache Arrow Columnar Format 1.5, "Serialization and Interprocess Communication".

mod archived;
mod columns;
mod directory;
mod file;
pub mod folder;
mod folder_error;
mod history;
pub mod integrity;
pub mod join;
mod lock;
mod marks;
mod message;
pub mod reader;
pub mod recover;
mod reserve;
mod scan;
pub mod schema;
mod slow;
mod storage;
mod stream;
mod summary;
mod ways;
pub mod writer;

pub use archived::{ARCHIVE_FILE, ArchivedAt};
pub use directory::{Access, Directory};
pub use file::DIRECT_MEMORY_BYTES;
pub use folder::{FolderError, RunFolder, SourceLine};
pub use history::{
    HISTORY_COLUMNS, HISTORY_FILE, History, HistoryRow, HistoryWriter, SourceRow, read_history,
};
pub use integrity::{Integrity, RunEnd};
pub use join::{Join, JoinReport, JoinedReader};
pub use lock::is_recording;
pub use marks::{Author, Comment, MARKS_FILE, Mark, MarkError, Marks, check_tag};
pub use reader::{
    BatchMark, Damage, ReadError, ReadReport, RecordedBatch, RunReader, Tail, Unreadable,
};
pub use recover::{Cut, RecoverError, RecoverReport, recover};
pub use reserve::EndReserve;
pub use slow::{SLOW_FILE, SlowRow, SlowValue, SlowWriter};
pub use storage::{Disk, Storage};
pub use stream::{BatchDigest, StreamEncoder};
pub use summary::{FoundFolders, RunSummary, folders_of};
pub use ways::WriteMode;
pub use writer::{Recorder, RecorderConfig, RecorderCounts, RecorderState, SyncPolicy, WriteFault};
