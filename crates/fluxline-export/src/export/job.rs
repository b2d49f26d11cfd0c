//! An export in steps, for callers that show progress or encode on several threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::encode::{DecodeCounts, EncodedGroup, Encoder, Group, NumberedBatch};
use super::journal::{JOURNAL_FILE, Journal, Part, PartTable, identity, schemas};
use super::layout;
use super::table::TableFile;
use super::{Existing, ExportConfig, ExportError, ExportReport, ExportedTable};
use crate::typed::plan::{EVENTS, PACKETS, TablePlan};
use crate::typed::selection::RowFilter;
use crate::typed::{TableKind, TypedRun};
use fluxline_daq::record::Directory;
use fluxline_daq::record::folder::{FolderError, RunFolder};
use fluxline_daq::record::integrity::{Integrity, RunEnd};
use fluxline_daq::record::join::JoinedReader;

/// Bytes of packets in a group.
const GROUP_BYTES: u64 = 64 << 20;

/// An export in progress.
///
/// Groups may be encoded in any order and by any thread; [`ExportJob::write`] takes them in the
/// order of [`ExportJob::next_group`].
pub struct ExportJob {
    config: ExportConfig,
    folder: Directory,
    run: TypedRun,
    reader: JoinedReader,
    plans: Vec<Arc<TablePlan>>,
    encoder: Arc<Encoder>,
    filter: RowFilter,
    journal: Journal,
    /// All files together fit into one part.
    is_single: bool,
    next_event: u64,
    reading: PartPosition,
    resumed_parts: u64,
    /// Number of batches of each part that was read and is not complete.
    batches_of_parts: BTreeMap<u64, u64>,
    open: Option<OpenPart>,
    run_bytes: u64,
    read_bytes: u64,
    ended_early: bool,
}

/// The position of the reader in its part.
#[derive(Clone, Copy, Debug, Default)]
struct PartPosition {
    part: u64,
    batches: u64,
    bytes: u64,
}

/// A part that is being written.
struct OpenPart {
    number: u64,
    counts: DecodeCounts,
    files: Vec<Option<TableFile>>,
}

impl ExportJob {
    /// Opens a run and the folder of its export.
    ///
    /// Errors: [`ExportError`]: among others files that exist, and names that the run lacks.
    pub fn open(run: &Path, config: &ExportConfig) -> Result<ExportJob, ExportError> {
        let typed = TypedRun::open(run, config.join)?;
        let plans = layout::tables(&typed, config)?;
        let filter = config.selection.rows(typed.known_sources())?;
        let encoder = Encoder::new(config, &plans, typed.known_sources(), &filter)?;
        let folder = RunFolder::open(run)?;
        let run_bytes = event_bytes(&folder)?;
        let identity = identity(&folder, config)?;
        let reader = JoinedReader::open(run, config.join)?;
        let out = folder.directory().make_named(&config.folder)?;
        let tables = schemas(plans.iter().map(Arc::as_ref));
        let journal = Journal { export: identity, tables, ..Journal::default() };
        let mut job = ExportJob {
            config: config.clone(),
            folder: out,
            run: typed,
            reader,
            plans,
            encoder: Arc::new(encoder),
            filter,
            journal,
            is_single: config.part_bytes == 0 || run_bytes <= config.part_bytes,
            next_event: 0,
            reading: PartPosition::default(),
            resumed_parts: 0,
            batches_of_parts: BTreeMap::new(),
            open: None,
            run_bytes,
            read_bytes: 0,
            ended_early: false,
        };
        job.continue_or_begin()?;
        job.skip_complete_parts()?;
        Ok(job)
    }

    /// Takes over the complete parts of an interrupted export, or makes sure that there are none.
    fn continue_or_begin(&mut self) -> Result<(), ExportError> {
        let before = Journal::read(&self.folder);
        let before = before.filter(|before| before.export == self.journal.export);
        match (before, self.config.existing) {
            (Some(before), Existing::Refuse) if !before.complete && self.has_all_files(&before) => {
                self.resumed_parts = before.parts.len() as u64;
                self.journal.parts = before.parts;
            }
            (_, Existing::Refuse) => self.refuse_existing()?,
            (_, Existing::Replace) => {}
        }
        self.journal.write(&self.folder)
    }

    fn has_all_files(&self, journal: &Journal) -> bool {
        let files = journal.parts.iter().flat_map(|part| part.tables.values());
        files.into_iter().all(|table| self.folder.file_bytes(&table.file).is_some())
    }

    fn refuse_existing(&self) -> Result<(), ExportError> {
        let mut files: Vec<PathBuf> =
            self.plans.iter().map(|plan| self.file_name(plan, 0)).collect();
        files.push(PathBuf::from(JOURNAL_FILE));
        match files.into_iter().find(|file| self.folder.has(file)) {
            Some(file) => Err(ExportError::Exists(self.folder.path().join(file))),
            None => Ok(()),
        }
    }

    /// Reads over the batches of complete parts.
    fn skip_complete_parts(&mut self) -> Result<(), ExportError> {
        let batches: u64 = self.journal.parts.iter().map(|part| part.batches).sum();
        for _ in 0..batches {
            let Some(batch) = self.reader.next_batch()? else { break };
            self.next_event += batch.record_batch().num_rows() as u64;
            self.read_bytes += batch.data_bytes();
        }
        self.reading.part = self.journal.parts.len() as u64;
        Ok(())
    }

    /// Returns the encoder of the groups.
    #[must_use]
    pub fn encoder(&self) -> Arc<Encoder> {
        Arc::clone(&self.encoder)
    }

    /// Returns the size of the run's event files \[byte\].
    #[must_use]
    pub fn run_bytes(&self) -> u64 {
        self.run_bytes
    }

    /// Returns the number of bytes of packets that were read.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Reads the next group; `None` at the end. Memory: the group, some 64 MiB.
    pub fn next_group(&mut self) -> Result<Option<Group>, ExportError> {
        let part = self.reading.part;
        let mut group = Group { part, ..Group::default() };
        loop {
            if self.filter.ends_before(self.next_event) {
                self.ended_early = true;
                break;
            }
            let Some(batch) = self.reader.next_batch()? else { break };
            let first_event = self.next_event;
            self.next_event += batch.record_batch().num_rows() as u64;
            let bytes = batch.data_bytes();
            self.read_bytes += bytes;
            group.bytes += bytes;
            group.batches.push(NumberedBatch { batch, first_event });
            self.reading.batches += 1;
            self.reading.bytes += bytes;
            *self.batches_of_parts.entry(part).or_default() += 1;
            if !self.is_single && self.reading.bytes >= self.config.part_bytes {
                self.reading = PartPosition { part: part + 1, ..PartPosition::default() };
                break;
            }
            if group.bytes >= GROUP_BYTES {
                break;
            }
        }
        Ok((!group.batches.is_empty()).then_some(group))
    }

    /// Writes an encoded group.
    pub fn write(&mut self, group: EncodedGroup) -> Result<(), ExportError> {
        if self.open.as_ref().is_some_and(|open| open.number != group.part) {
            self.close_part()?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin_part(group.part)?);
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.counts.add(&group.counts);
        for (index, table) in group.tables.into_iter().enumerate() {
            let Some(table) = table else { continue };
            if open.files[index].is_none() {
                open.files[index] = Some(self.create(&self.plans[index], group.part)?);
            }
            if let Some(file) = &mut open.files[index] {
                file.write(table)?;
            }
        }
        self.open = Some(open);
        Ok(())
    }

    /// Begins a part; the tables of events and packets exist in each, even if they are empty.
    fn begin_part(&self, number: u64) -> Result<OpenPart, ExportError> {
        let mut files = Vec::new();
        for plan in &self.plans {
            let always = matches!(plan.kind, TableKind::Events | TableKind::Packets);
            files.push(if always { Some(self.create(plan, number)?) } else { None });
        }
        Ok(OpenPart { number, counts: DecodeCounts::default(), files })
    }

    fn create(&self, plan: &TablePlan, part: u64) -> Result<TableFile, ExportError> {
        let file = self.file_name(plan, part);
        let folder = self.folder.make(file.parent().unwrap_or(Path::new("")))?;
        let name = Path::new(file.file_name().unwrap_or_default());
        TableFile::create(self.config.format, &folder, name, plan.schema())
    }

    fn file_name(&self, plan: &TablePlan, part: u64) -> PathBuf {
        let (name, extension) = (&plan.name, self.config.format.extension());
        match self.is_single {
            true => PathBuf::from(format!("{name}.{extension}")),
            false => PathBuf::from(name).join(format!("{part:04}.{extension}")),
        }
    }

    /// Completes the files of the open part, and lists it.
    fn close_part(&mut self) -> Result<(), ExportError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let batches = self.batches_of_parts.remove(&open.number).unwrap_or(0);
        let mut part = Part { batches, counts: open.counts, tables: BTreeMap::new() };
        for (plan, file) in self.plans.iter().zip(open.files) {
            let Some(file) = file else { continue };
            let finished = file.finish()?;
            let file = self.file_name(plan, open.number);
            let table = PartTable { file, rows: finished.rows, left_out: finished.left_out };
            part.tables.insert(plan.name.clone(), table);
        }
        self.journal.parts.push(part);
        self.journal.write(&self.folder)
    }

    /// Completes the export.
    pub fn finish(mut self) -> Result<ExportReport, ExportError> {
        if self.open.is_none() && self.journal.parts.is_empty() {
            self.open = Some(self.begin_part(0)?);
        }
        self.close_part()?;
        self.journal.complete = true;
        self.journal.write(&self.folder)?;
        let found = self.reader.report().clone();
        let integrity = match self.ended_early {
            true => Integrity::default(),
            false => Integrity::of(self.reader.folder(), &found),
        };
        Ok(ExportReport {
            tables: self.tables(),
            joined: self.reader.joined(),
            notes: self.notes(&integrity),
            resumed_parts: self.resumed_parts,
            found,
            integrity,
        })
    }

    fn tables(&self) -> Vec<ExportedTable> {
        let mut tables = Vec::new();
        for plan in &self.plans {
            let mut table = ExportedTable { name: plan.name.clone(), ..ExportedTable::default() };
            for part in self.journal.parts.iter().filter_map(|part| part.tables.get(&plan.name)) {
                if table.parts == 0 {
                    table.file = self.folder.path().join(&part.file);
                    table.left_out.clone_from(&part.left_out);
                }
                table.parts += 1;
                table.rows += part.rows;
            }
            if table.parts > 0 {
                tables.push(table);
            }
        }
        debug_assert!(
            tables
                .iter()
                .all(|table| { table.rows > 0 || table.name == EVENTS || table.name == PACKETS })
        );
        tables
    }

    fn notes(&self, integrity: &Integrity) -> Vec<String> {
        let mut notes = self.run.notes().to_vec();
        let mut counts = DecodeCounts::default();
        self.journal.parts.iter().for_each(|part| counts.add(&part.counts));
        let DecodeCounts { undescribed_packets, misfits, short_packets, remainder_bytes } = counts;
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        };
        note(
            undescribed_packets,
            "packets are of sources or packet types without description, and not decoded; the \
             table `packets` has their bytes",
        );
        note(
            misfits,
            "packets do not fit their description, and are not decoded; the table `packets` has \
             their bytes",
        );
        note(short_packets, "packets lack fields of their header, which are 0 in the tables");
        note(
            remainder_bytes,
            "payload bytes lie behind the last whole record; the table `packets` has them",
        );
        if integrity.end == RunEnd::Running {
            notes.push(
                "the run is still being recorded: the export has what was complete when it began"
                    .to_owned(),
            );
        }
        notes
    }
}

/// Returns the size of a run's event files.
fn event_bytes(folder: &RunFolder) -> Result<u64, FolderError> {
    Ok(folder.event_sizes()?.iter().map(|(_, bytes)| bytes).sum())
}
