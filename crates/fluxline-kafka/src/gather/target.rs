//! The run folder that events are gathered into. It has a name of its own until it is complete.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::builder::Amendment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{FolderError, Recorder, RecorderConfig, RunFolder, SourceLine};
use serde_json::{Value, json};

use super::{About, GatherError, Gathered, RunCommits};
use crate::build::SinkSums;
use fluxline_cluster::AmendedSource;

/// The run that batches are gathered into.
pub(crate) struct Target {
    into: PathBuf,
    draft: PathBuf,
    about: About,
    run: Recorder,
    /// Numbers of the sources, by node and label.
    numbers: HashMap<(u64, String), u32>,
    first: Option<Moment>,
    last: Moment,
}

impl Target {
    /// Begins a run.
    ///
    /// Errors: `into` exists, or its parent does not.
    pub fn begin(into: &Path, about: About) -> Result<Target, GatherError> {
        let files = |error: FolderError| GatherError::Files(error.to_string());
        if into.symlink_metadata().is_ok() {
            return Err(files(FolderError::Exists(into.to_path_buf())));
        }
        let draft = draft_of(into);
        remove_draft(&draft)?;
        let folder = RunFolder::create(&draft).map_err(files)?;
        let document = json!({ "state": "running", "gathering": true });
        folder.write_run(&document).map_err(files)?;
        for (name, text) in &about.formats {
            folder.write_format(name, text).map_err(files)?;
        }
        let mut run = Recorder::open(folder, RecorderConfig::default());
        match about.name.as_str() {
            "" => run.name_run("run"),
            name => run.name_run(name),
        }
        let (numbers, last) = (HashMap::new(), Moment::default());
        let into = into.to_path_buf();
        Ok(Target { into, draft, about, run, numbers, first: None, last })
    }

    /// Writes a batch. Its sources get their numbers in the run, in the order of their first
    /// packets.
    pub fn write<'a>(
        &mut self,
        rows: &mut EventBatch,
        source: impl Fn(u32) -> Option<&'a SourceLine>,
    ) -> Result<(), GatherError> {
        let mut known = HashMap::new();
        let sources = rows.packets.iter_mut().map(|row| &mut row.source);
        for number in sources.chain(rows.events.iter_mut().filter_map(|row| row.source.as_mut())) {
            *number = match known.get(number) {
                Some(found) => *found,
                None => {
                    let found = self.number_of(*number, source(*number))?;
                    known.insert(*number, found);
                    found
                }
            };
        }
        for event in &rows.events {
            self.first = Some(self.first.map_or(event.first, |first| first.min(event.first)));
            self.last = self.last.max(event.last);
        }
        self.run.write(rows, Moment::default()).map_err(|fault| self.failed(&fault.what()))
    }

    fn number_of(&mut self, old: u32, line: Option<&SourceLine>) -> Result<u32, GatherError> {
        let Some(line) = line else {
            return Err(GatherError::Files(format!(
                "source {old} of a batch has no description; restore sources.jsonl, or the first \
                 records of the topic"
            )));
        };
        let node = line.details.get("node").and_then(Value::as_u64).unwrap_or(0);
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry((node, line.name.clone())).or_insert(next);
        if number == next {
            let line = SourceLine { source: number, ..line.clone() };
            self.run.write_source(&line).map_err(|fault| self.failed(&fault.what()))?;
        }
        Ok(number)
    }

    /// Completes the run and gives it its name, or removes what was written.
    pub fn finish(
        mut self,
        commits: &RunCommits,
        gathered: &Gathered,
        from: &str,
    ) -> Result<(), GatherError> {
        self.complete(commits, gathered, from).inspect_err(|_| self.abandon())
    }

    fn complete(
        &mut self,
        commits: &RunCommits,
        gathered: &Gathered,
        from: &str,
    ) -> Result<(), GatherError> {
        self.run.finish().map_err(|fault| self.failed(&fault.what()))?;
        let document = self.document(commits, gathered, from);
        let written = self.run.folder().write_run(&document);
        written.map_err(|error| self.failed(&error.to_string()))?;
        std::fs::rename(&self.draft, &self.into).map_err(|error| self.failed(&error.to_string()))
    }

    fn document(&self, commits: &RunCommits, gathered: &Gathered, from: &str) -> Value {
        let counts = self.run.counts();
        let (status, sentence) = verdict(commits, gathered);
        let of_partition = |(partition, list): (&u32, &Vec<crate::build::Commit>)| {
            let sum = |of: fn(&crate::build::Commit) -> u64| list.iter().map(of).sum::<u64>();
            json!({
                "partition": partition, "batches": list.len(),
                "events": sum(|commit| commit.events), "packets": sum(|commit| commit.packets),
                "refused": sum(|commit| commit.refused),
            })
        };
        let mut sink = SinkSums::default();
        commits.partitions.values().flatten().for_each(|commit| sink.add(&commit.sink));
        let mut document = json!({
            "state": "finished",
            "fluxline": env!("CARGO_PKG_VERSION"),
            "began_ns": self.first.unwrap_or_default().as_ns(),
            "ended_ns": self.last.as_ns(),
            "experiment": self.about.experiment,
            "status": status,
            "sentence": sentence,
            "recorded": {
                "events": counts.written.events, "packets": counts.written.packets,
                "bytes": counts.written.bytes, "batches": counts.batches, "files": counts.files,
                "file_bytes": counts.file_bytes,
            },
            "gathered": {
                "from": from, "run": commits.run, "run-id": commits.run_id, "left_out": gathered.left_out,
                "refused": gathered.refused, "sink": sink, "abandoned": commits.abandoned,
                "partitions": commits.partitions.iter().map(of_partition).collect::<Vec<_>>(),
            },
            "amendments": self.amendments(commits),
        });
        if let Value::Object(about) = &commits.about {
            about.iter().for_each(|(name, value)| document[name.as_str()] = value.clone());
        }
        if self.about.experiment.is_null() {
            document["experiment"] = json!({ "name": self.about.name });
        }
        document
    }

    /// Returns the amendments by the numbers of the sources in this run. Those of sources without
    /// packets in it explain nothing here.
    fn amendments(&self, commits: &RunCommits) -> Vec<Amendment> {
        let number = |its: &AmendedSource| {
            let source = *self.numbers.get(&(its.node.into(), its.label.clone()))?;
            Some(Amendment { source, after: its.after, before: its.before, lost: its.lost })
        };
        commits.amended.iter().filter_map(number).collect()
    }

    fn failed(&self, reason: &str) -> GatherError {
        GatherError::Disk { into: self.into.clone(), reason: reason.to_owned() }
    }

    /// Removes what was written.
    pub fn abandon(&self) {
        // What stays is marked, and the next call removes it.
        let _ = std::fs::remove_dir_all(&self.draft);
    }
}

/// Returns the status and the sentence of run.json.
fn verdict(commits: &RunCommits, gathered: &Gathered) -> (u8, Option<String>) {
    let look = match gathered.refused {
        0 => &commits.look_of_folders,
        _ => &commits.look,
    };
    if let Some((status, sentence)) = look {
        return (*status, Some(sentence.clone()));
    }
    if commits.abandoned {
        let run = commits.run;
        return (7, Some(format!("run {run} was abandoned before all its events were built.")));
    }
    match gathered.refused {
        0 => (0, None),
        refused => {
            let sentence = format!(
                "{refused} events are larger than a record of Kafka may be: the topic lacks them; \
                 gather the builders' folders where output = \"both\"."
            );
            (7, Some(sentence))
        }
    }
}

fn draft_of(into: &Path) -> PathBuf {
    let mut name = into.file_name().unwrap_or_default().to_os_string();
    name.push(".gathering");
    into.with_file_name(name)
}

/// Removes the draft of a call that was killed.
fn remove_draft(draft: &Path) -> Result<(), GatherError> {
    if draft.symlink_metadata().is_err() {
        return Ok(());
    }
    let refuse = |reason: String| {
        GatherError::Files(format!("{} is in the way ({reason}); move it away", draft.display()))
    };
    let folder = RunFolder::open(draft).map_err(|error| refuse(error.to_string()))?;
    let document = folder.read_run().map_err(|error| refuse(error.to_string()))?;
    if document["gathering"] != true {
        return Err(refuse("it is not the draft of `fluxline gather`".to_owned()));
    }
    let is_held = fluxline_daq::record::is_recording(&folder);
    if is_held {
        return Err(refuse("another `fluxline gather` writes it now".to_owned()));
    }
    std::fs::remove_dir_all(draft).map_err(|error| refuse(error.to_string()))
}
