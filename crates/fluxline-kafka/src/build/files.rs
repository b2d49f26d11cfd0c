//! Run folders of partitions, and their way into one run.
//!
//! A builder writes each partition into a folder of its own, `pPARTITION-bBATCH-BUILDER`. It is a
//! run folder that begins with that batch. After a takeover, batches of one partition are in
//! several folders, and a few may be in two. [`gather`] takes the committed ones, each once, into
//! one run that every command reads.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{
    Recorder, RecorderConfig, RunFolder, RunReader, SourceLine, SyncPolicy,
};
use serde_json::json;

use super::log::Commit;
use super::partition::{BuiltSource, OutputBatch};
use super::worker::Output;

/// Writes the batches of a builder into run folders.
pub struct RunFolders {
    root: PathBuf,
    builder: String,
    run: u64,
    formats: Vec<(String, String)>,
    open: BTreeMap<u32, Open>,
}

/// A folder that is written.
struct Open {
    recorder: Recorder,
    next: u64,
    sources: usize,
}

impl RunFolders {
    /// Writes below `root`, which must exist. `formats` are the names and texts of the packet
    /// descriptions.
    #[must_use]
    pub fn new(root: &Path, builder: &str, run: u64, formats: Vec<(String, String)>) -> RunFolders {
        let (root, builder) = (root.to_path_buf(), builder.to_owned());
        RunFolders { root, builder, run, formats, open: BTreeMap::new() }
    }

    fn begin(&self, partition: u32, first: u64) -> Result<Open, String> {
        let name = format!("p{partition}-b{first}-{}", self.builder);
        let mut path = self.root.join(&name);
        let mut again = 1;
        while path.exists() {
            path = self.root.join(format!("{name}-{again}"));
            again += 1;
        }
        let folder = RunFolder::create(&path).map_err(|error| error.to_string())?;
        for (name, text) in &self.formats {
            folder.write_format(name, text).map_err(|error| error.to_string())?;
        }
        let document = json!({
            "state": "running",
            "partition": { "run": self.run, "number": partition, "first_batch": first,
                "builder": self.builder },
        });
        folder.write_run(&document).map_err(|error| error.to_string())?;
        // A committed batch must survive a power cut.
        let config = RecorderConfig { sync: SyncPolicy::Batch, ..RecorderConfig::default() };
        Ok(Open { recorder: Recorder::open(folder, config), next: first, sources: 0 })
    }
}

impl Output for RunFolders {
    fn write(
        &mut self,
        partition: u32,
        sources: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        let open = self.open.remove(&partition).filter(|open| open.next == batch.number);
        let mut open = match open {
            Some(open) => open,
            None => self.begin(partition, batch.number)?,
        };
        for source in &sources[open.sources.min(sources.len())..] {
            open.recorder.write_source(&line_of(source)).map_err(|fault| fault.to_string())?;
            open.sources += 1;
        }
        // A folder with a fault is left: the next batch begins another one.
        open.recorder.write(&batch.events, Moment::default()).map_err(|fault| fault.to_string())?;
        open.next += 1;
        self.open.insert(partition, open);
        Ok(())
    }
}

fn line_of(source: &BuiltSource) -> SourceLine {
    SourceLine {
        source: source.number,
        name: source.label.clone(),
        format: source.format.clone(),
        parameters: BTreeMap::new(),
        port: None,
        details: serde_json::Map::from_iter([("node".into(), source.node.into())]),
    }
}

/// The reason why batches could not be gathered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatherError {
    /// A committed batch is in no folder.
    #[error("batch {batch} of partition {partition} is committed by {builder}, and no folder below \
        {} has it; copy the folders of {builder} there", .root.display())]
    Missing {
        /// The partition.
        partition: u32,
        /// The batch.
        batch: u64,
        /// The builder that has it.
        builder: String,
        /// The searched folder.
        root: PathBuf,
    },
    /// A folder cannot be read, or the run not be written.
    #[error("{0}")]
    Files(String),
}

/// The result of gathering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Number of batches.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Batches that were left out: not committed, or there already.
    pub left_out: u64,
}

/// Gathers the committed batches of all partitions, which lie in folders below `root`, into the new
/// run folder `into`. Sources get the numbers of their first appearance.
///
/// Errors: [`GatherError::Missing`] for a committed batch that is not there; `into` then holds the
/// partitions before. Memory: one batch, and the index of the folders.
pub fn gather(root: &Path, commits: &[Commit], into: &Path) -> Result<Gathered, GatherError> {
    let files = |error: &dyn std::fmt::Display| GatherError::Files(format!("{error}"));
    let folder = RunFolder::create(into).map_err(|error| files(&error))?;
    let parts = Part::below(root)?;
    if let Some(part) = parts.first() {
        for name in part.folder.formats().unwrap_or_default() {
            let path = part.folder.path().join("formats").join(format!("{name}.toml"));
            let text = std::fs::read_to_string(path).map_err(|error| files(&error))?;
            folder.write_format(&name, &text).map_err(|error| files(&error))?;
        }
    }
    let run = Recorder::open(folder.clone(), RecorderConfig::default());
    let mut target = Target { run, numbers: HashMap::new(), gathered: Gathered::default() };
    let mut wanted: BTreeMap<(u32, u64), &Commit> =
        commits.iter().map(|commit| ((commit.partition, commit.batch), commit)).collect();
    for part in &parts {
        target.take(part, &mut wanted)?;
    }
    if let Some(((partition, batch), commit)) = wanted.pop_first() {
        let (builder, root) = (commit.builder.clone(), root.to_path_buf());
        return Err(GatherError::Missing { partition, batch, builder, root });
    }
    target.run.finish().map_err(|error| files(&error))?;
    let counts = target.run.counts();
    let document = json!({
        "state": "finished",
        "recorded": {
            "events": counts.written.events, "packets": counts.written.packets,
            "bytes": counts.written.bytes, "batches": counts.batches, "files": counts.files,
            "file_bytes": counts.file_bytes,
        },
    });
    folder.write_run(&document).map_err(|error| files(&error))?;
    Ok(target.gathered)
}

/// A folder of a partition.
struct Part {
    folder: RunFolder,
    partition: u32,
    first: u64,
    builder: String,
}

impl Part {
    /// Returns the folders of partitions below `root`, by partition and first batch.
    fn below(root: &Path) -> Result<Vec<Part>, GatherError> {
        let entries = std::fs::read_dir(root).map_err(|error| {
            GatherError::Files(format!("{} cannot be read ({error})", root.display()))
        })?;
        let mut parts: Vec<Part> =
            entries.flatten().filter_map(|entry| Part::open(&entry.path())).collect();
        parts.sort_by_key(|part| (part.partition, part.first));
        Ok(parts)
    }

    /// Returns `None` for another folder.
    fn open(path: &Path) -> Option<Part> {
        let folder = RunFolder::open(path).ok()?;
        let document = folder.read_run().ok()?;
        let of = &document["partition"];
        let partition = u32::try_from(of["number"].as_u64()?).ok()?;
        let builder = of["builder"].as_str()?.to_owned();
        Some(Part { folder, partition, first: of["first_batch"].as_u64()?, builder })
    }
}

/// The run that batches are gathered into.
struct Target {
    run: Recorder,
    /// Numbers of the sources, by label.
    numbers: HashMap<String, u32>,
    gathered: Gathered,
}

impl Target {
    /// Takes the batches of a folder that its builder has committed.
    fn take(
        &mut self,
        part: &Part,
        wanted: &mut BTreeMap<(u32, u64), &Commit>,
    ) -> Result<(), GatherError> {
        let files = |error: &dyn std::fmt::Display| GatherError::Files(format!("{error}"));
        let sources = part.folder.sources().map_err(|error| files(&error))?;
        let mut numbers = HashMap::new();
        for line in sources {
            numbers.insert(line.source, self.number_of(line).map_err(|fault| files(&fault))?);
        }
        let mut reader = RunReader::open(part.folder.path()).map_err(|error| files(&error))?;
        let mut batch = EventBatch::default();
        while let Some(recorded) = reader.next_batch().map_err(|error| files(&error))? {
            let place = (part.partition, part.first + recorded.number());
            let is_its = wanted.get(&place).is_some_and(|commit| commit.builder == part.builder);
            if !is_its {
                self.gathered.left_out += 1;
                continue;
            }
            wanted.remove(&place);
            batch.clear();
            recorded.append_to(&mut batch).map_err(|error| files(&error))?;
            let renumber = |source: &mut u32| *source = *numbers.get(source).unwrap_or(source);
            batch.packets.iter_mut().for_each(|row| renumber(&mut row.source));
            batch.events.iter_mut().filter_map(|row| row.source.as_mut()).for_each(renumber);
            self.run.write(&batch, Moment::default()).map_err(|error| files(&error))?;
            self.gathered.batches += 1;
            self.gathered.events += batch.events.len() as u64;
        }
        Ok(())
    }

    /// Returns the number of a source in the run; its line is written with its first appearance.
    fn number_of(&mut self, line: SourceLine) -> Result<u32, fluxline_daq::record::WriteFault> {
        if let Some(number) = self.numbers.get(&line.name) {
            return Ok(*number);
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(line.name.clone(), number);
        self.run.write_source(&SourceLine { source: number, ..line })?;
        Ok(number)
    }
}
