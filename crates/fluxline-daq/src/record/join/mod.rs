//! A run with its late fragments in their events, and with what became known after these closed.
//!
//! A packet that came after its event was closed is a row of its own (status `late`). Here it is
//! put back: its event gets the packet, and `judge.rs` states what is then missing, with the
//! amendments of run.json: a source had sent nothing, or packets of it are lost there. Memory: an
//! index of 32 bytes per late fragment, at most 128 MiB (fragments beyond stay rows of their own),
//! and a few batches. Unreadable parts are left out, as everywhere; a late fragment whose event is
//! missing stays a row of its own.

mod evidence;
pub(crate) mod judge;
mod late;
mod missing;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde_json::Value;

use crate::builder::Amendment;
use crate::event::{EventBatch, EventRow, EventStatus, PacketRow};
use crate::ledger::Ledger;

use super::folder::RunFolder;
use super::reader::{ReadError, ReadReport, RecordedBatch, RunReader};
use judge::{Case, Judge};
use late::{Identity, LateFragment, LateIndex};

/// The treatment of late fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// They are put into their events.
    #[default]
    Late,
    /// They stay rows of their own.
    Nothing,
}

/// The result of joining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinReport {
    /// Late fragments that are in their events.
    pub joined: u64,
    /// Late fragments that are rows of their own: their event is missing, or there are too many.
    pub left: u64,
    /// Events that were recorded as incomplete and lack nothing.
    pub completed: u64,
    /// Events that were recorded as complete and lack something, as became known later.
    pub opened: u64,
}

/// Goes through a run, batch by batch, with late fragments in their events.
#[derive(Debug)]
pub struct JoinedReader {
    reader: RunReader,
    late: LateIndex,
    judge: Judge,
    /// Run.json says something about events.
    has_evidence: bool,
    /// Batches that were joined and not returned yet.
    ready: VecDeque<RecordedBatch>,
    completed: u64,
    opened: u64,
}

impl JoinedReader {
    /// Opens a run. Cost: with late fragments, a pass over the run for their places.
    pub fn open(path: &Path, join: Join) -> Result<JoinedReader, ReadError> {
        let reader = RunReader::open(path)?;
        let run = reader.folder().read_run().ok();
        let ledger = run.as_ref().and_then(ledger_of);
        // Without a ledger (the run was killed) only the files can show it.
        let has_late = ledger.as_ref().is_none_or(|ledger| ledger.source_totals().in_late > 0);
        let late = match join {
            Join::Late if has_late => LateIndex::build(RunReader::open(path)?)?,
            Join::Late | Join::Nothing => LateIndex::default(),
        };
        let amendments = match join {
            Join::Late => amendments_of(run.as_ref(), ledger.as_ref()),
            Join::Nothing => Vec::new(),
        };
        let lines = reader.folder().sources().unwrap_or_default();
        let labels: BTreeMap<u32, String> =
            lines.into_iter().map(|line| (line.source, line.name)).collect();
        let judge = Judge::new(labels, &amendments, ledger.as_ref());
        let (ready, has_evidence) = (VecDeque::new(), !amendments.is_empty());
        Ok(JoinedReader { reader, late, judge, has_evidence, ready, completed: 0, opened: 0 })
    }

    /// Returns the run's folder.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        self.reader.folder()
    }

    /// Returns the findings in the files so far.
    #[must_use]
    pub fn report(&self) -> &ReadReport {
        self.reader.report()
    }

    /// Returns the result of joining so far.
    #[must_use]
    pub fn joined(&self) -> JoinReport {
        JoinReport {
            joined: self.late.joined(),
            left: self.late.left(),
            completed: self.completed,
            opened: self.opened,
        }
    }

    /// Returns the next batch; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordedBatch>, ReadError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let Some(recorded) = self.reader.next_batch()? else { return Ok(None) };
            if self.late.is_empty() && !self.has_evidence {
                return Ok(Some(recorded));
            }
            let mut batch = EventBatch::default();
            recorded.append_to(&mut batch)?;
            match self.changes(recorded.number(), &batch) {
                false => return Ok(Some(recorded)),
                true => self.join(&recorded, &batch)?,
            }
        }
    }

    /// Returns true when anything of a batch changes.
    fn changes(&self, number: u64, batch: &EventBatch) -> bool {
        batch.events.iter().enumerate().any(|(at, row)| match row.status {
            EventStatus::Late => self.late.is_joined(number, at, row),
            EventStatus::Complete | EventStatus::Incomplete | EventStatus::Stopped => {
                let late = Identity::of(row).is_some_and(|its| self.late.has(its));
                late || self.judge.has_evidence(row)
            }
        })
    }

    fn join(&mut self, recorded: &RecordedBatch, batch: &EventBatch) -> Result<(), ReadError> {
        let mut out = EventBatch::default();
        let (mut packet, mut byte, mut text) = (0, 0, 0);
        for (at, row) in batch.events.iter().enumerate() {
            let packets = &batch.packets[packet..packet + row.packets as usize];
            packet += packets.len();
            let bytes: usize = packets.iter().map(|its| its.bytes as usize).sum();
            let data = &batch.bytes[byte..byte + bytes];
            byte += bytes;
            let missing = &batch.missing[text..text + row.missing_bytes as usize];
            text += missing.len();
            let late = row.status == EventStatus::Late;
            if late && self.late.is_joined(recorded.number(), at, row) {
                continue;
            }
            out.packets.extend_from_slice(packets);
            out.bytes.extend_from_slice(data);
            let (mut row, mut missing) = (*row, missing.to_owned());
            if !late {
                self.complete(&mut row, &mut missing, packets, &mut out)?;
            }
            row.missing_bytes = missing.len() as u32;
            out.missing.push_str(&missing);
            out.events.push(row);
        }
        self.ready.extend(recorded.replaced_by(&out)?);
        Ok(())
    }

    /// Adds an event's late packets to the end of `out`, and states what is then missing.
    fn complete(
        &mut self,
        row: &mut EventRow,
        text: &mut String,
        packets: &[PacketRow],
        out: &mut EventBatch,
    ) -> Result<(), ReadError> {
        let mut parts = Vec::new();
        if let Some(event) = Identity::of(row) {
            self.late.take(event, &self.reader, |LateFragment { row: packet, bytes, part }| {
                row.packets += 1;
                row.first = row.first.min(packet.time);
                row.last = row.last.max(packet.time);
                parts.push((packet.source, part));
                out.packets.push(packet);
                out.bytes.extend_from_slice(&bytes);
            })?;
        }
        let before = row.status;
        self.judge.settle(&Case { packets, late: &parts }, row, text);
        match (before, row.status) {
            (EventStatus::Complete, EventStatus::Incomplete) => self.opened += 1,
            (EventStatus::Incomplete, EventStatus::Complete) => self.completed += 1,
            _ => {}
        }
        Ok(())
    }
}

fn ledger_of(run: &Value) -> Option<Ledger> {
    serde_json::from_value(run.get("ledger")?.clone()).ok()
}

/// Returns the amendments of a run: of its ledger, or beside it where the run was gathered from
/// several machines.
fn amendments_of(run: Option<&Value>, ledger: Option<&Ledger>) -> Vec<Amendment> {
    match ledger {
        Some(ledger) => ledger.amendments.clone(),
        None => {
            let gathered = run.and_then(|run| run.get("amendments")).cloned();
            gathered.and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default()
        }
    }
}
