//! Compares the files of a run with the counts in `run.json`.
//!
//! Check sums prove each batch in the files. They do not show a deleted file, or batches cut off
//! its end: only the counts that the run wrote when it ended do. A run that was killed wrote none.
//! It has every complete batch, and only a gap between batches or a damaged one is a fault.

use std::path::Path;

use serde_json::Value;

use super::folder::{FolderError, RUN_FILE, RunFolder, SOURCES_FILE, event_file_name};
use super::lock::is_recording;
use super::reader::ReadReport;

/// Most places of missing or damaged data in a sentence.
const FAULTS_SHOWN_MAX: usize = 3;

/// The end of a run, by `run.json` and by the lock of its recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunEnd {
    /// It is being recorded now.
    Running,
    /// The program or the machine stopped during the run.
    Killed,
    /// It ended by itself; all its batches were written.
    Finished,
    /// It ended by itself; recording had stopped before, because of a fault of the disk.
    RecordingStopped,
    /// It was killed or damaged, and mended afterwards.
    Recovered,
    /// `run.json` does not show it.
    #[default]
    Unknown,
}

impl RunEnd {
    /// Returns the end of a run.
    ///
    /// Errors: `run.json` cannot be read.
    pub fn of(folder: &RunFolder) -> Result<RunEnd, FolderError> {
        let run = folder.read_run()?;
        Ok(RunEnd::of_state(folder, run["state"].as_str()))
    }

    /// Returns the end of a run with this `state` in run.json.
    pub(super) fn of_state(folder: &RunFolder, state: Option<&str>) -> RunEnd {
        match state {
            Some("running") if is_recording(folder) => RunEnd::Running,
            Some("running") => RunEnd::Killed,
            Some("finished") => RunEnd::Finished,
            Some("recording-stopped") => RunEnd::RecordingStopped,
            Some("recovered") => RunEnd::Recovered,
            _ => RunEnd::Unknown,
        }
    }

    /// Returns true when every file of such a run has its end mark, and nothing behind it.
    fn has_whole_files(self) -> bool {
        matches!(self, RunEnd::Finished | RunEnd::Recovered)
    }
}

/// The contents of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of batches.
    pub batches: u64,
    /// Events in them.
    pub events: u64,
    /// Packets in them.
    pub packets: u64,
}

impl Held {
    /// Returns the counts of a JSON object; `None` where one is absent.
    pub(super) fn of(counts: &Value) -> Option<Held> {
        let count = |name: &str| counts[name].as_u64();
        Some(Held {
            batches: count("batches")?,
            events: count("events")?,
            packets: count("packets")?,
        })
    }

    fn beyond(self, other: Held) -> Held {
        Held {
            batches: self.batches.saturating_sub(other.batches),
            events: self.events.saturating_sub(other.events),
            packets: self.packets.saturating_sub(other.packets),
        }
    }
}

/// The comparison of a run's files with its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// The end of the run.
    pub end: RunEnd,
    /// The recorded contents, if the run stated them.
    pub recorded: Option<Held>,
    /// The missing contents. Without `recorded`: the batches whose numbers are missing; the number
    /// of their events and packets is then unknown, and 0 here.
    pub missing: Held,
    /// The places of missing or damaged data, one clause each; empty without such.
    pub faults: Vec<String>,
}

impl Integrity {
    /// Compares the findings of a reader, after its last batch, with the run's own files.
    #[must_use]
    pub fn of(folder: &RunFolder, found: &ReadReport) -> Integrity {
        let (run, fault) = match folder.read_run() {
            Ok(run) => (run, None),
            Err(FolderError::Missing(_)) => (Value::Null, Some(format!("{RUN_FILE} is missing"))),
            Err(error) => (Value::Null, Some(error.to_string())),
        };
        let end = RunEnd::of_state(folder, run["state"].as_str());
        let held = Held { batches: found.batches, events: found.events, packets: found.packets };
        // Counts that miss fewer batches than the batches' own numbers were made after the damage.
        let recorded = recorded_by(&run)
            .filter(|recorded| recorded.beyond(held).batches >= found.batches_missing);
        let mut missing = recorded.map_or(Held::default(), |recorded| recorded.beyond(held));
        missing.batches = missing.batches.max(found.batches_missing);
        let mut faults: Vec<String> = fault.into_iter().collect();
        faults.extend(absent_files(folder, &run));
        faults.extend(found.unreadable.iter().map(|file| file.reason.clone()));
        faults.extend(found.damages.iter().map(|damage| {
            let (file, start) = (name(&damage.file), damage.start);
            format!("{file} is damaged at byte {start} ({})", damage.reason)
        }));
        faults.extend(torn_files(end, folder, found));
        faults.extend(absent_descriptions(folder, &run, found));
        let more = recorded.map_or(Held::default(), |recorded| held.beyond(recorded));
        if more != Held::default() {
            faults.push(format!(
                "the files hold {} events with {} packets more than {RUN_FILE} says",
                more.events, more.packets
            ));
        }
        if faults.is_empty() && missing != Held::default() {
            faults.push("the numbers of the batches have a gap".to_owned());
        }
        if end == RunEnd::Unknown && faults.is_empty() {
            faults.push(format!("{RUN_FILE} does not say how the run ended"));
        }
        Integrity { end, recorded, missing, faults }
    }

    /// Returns true when the files hold everything that was recorded, as far as the files can show.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the missing and damaged data in one sentence; `None` without such.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        if self.is_sound() {
            return None;
        }
        let Held { batches, events, packets } = self.missing;
        let lead = match self.recorded {
            Some(recorded) if self.missing != Held::default() => format!(
                "{batches} of {} batches, {events} of {} events and {packets} of {} packets that \
                 were recorded cannot be read",
                recorded.batches, recorded.events, recorded.packets
            ),
            None if batches > 0 => format!("recorded batches that cannot be read: {batches}"),
            Some(_) => {
                "all recorded batches can be read, but the files are not as recorded".to_owned()
            }
            None => "how much was recorded is not known".to_owned(),
        };
        let shown = self.faults.iter().take(FAULTS_SHOWN_MAX).map(String::as_str);
        let mut places = shown.collect::<Vec<_>>().join("; ");
        if self.faults.len() > FAULTS_SHOWN_MAX {
            places.push_str(&format!("; and {} more", self.faults.len() - FAULTS_SHOWN_MAX));
        }
        Some(format!("{lead}: {places}; restore the files from a copy."))
    }
}

/// Returns the recorded contents by `run.json`; of a recovered run, those before the damage, or
/// those when it was mended.
pub(super) fn recorded_by(run: &Value) -> Option<Held> {
    Held::of(&run["recovered"]["recorded"])
        .or_else(|| Held::of(&run["recorded"]))
        .or_else(|| Held::of(&run["recovered"]))
}

/// Returns a clause about the events files of the run that are gone.
fn absent_files(folder: &RunFolder, run: &Value) -> Option<String> {
    let files = u32::try_from(run["recorded"]["files"].as_u64()?).ok()?;
    let present = folder.event_files().unwrap_or_default();
    let is_absent = |number: &u32| present.binary_search_by_key(number, |file| file.0).is_err();
    let left = present.iter().filter(|file| file.0 < files).count() as u32;
    let first = (0..files).find(is_absent)?;
    Some(match files - left {
        1 => format!("{} is missing", event_file_name(first)),
        count => {
            format!("{count} of {files} events files are missing, first {}", event_file_name(first))
        }
    })
}

/// Returns a clause about files with bytes behind the last good batch, or without their end mark.
/// The last file of a run that goes on, was killed or lost its disk may be so.
fn torn_files(end: RunEnd, folder: &RunFolder, found: &ReadReport) -> Vec<String> {
    let last = folder.event_files().unwrap_or_default().pop();
    let may_be_torn =
        |file: &Path| !end.has_whole_files() && last.as_ref().is_some_and(|(_, last)| last == file);
    let tails = found.tails.iter().filter(|tail| !may_be_torn(&tail.file)).map(|tail| {
        format!("{} ends in {} bytes that are not a batch", name(&tail.file), tail.torn_bytes)
    });
    let is_cut = |file: &&std::path::PathBuf| {
        !may_be_torn(file)
            && !found.tails.iter().any(|tail| tail.file == **file)
            && !found.unreadable.iter().any(|unreadable| unreadable.file == **file)
    };
    let cut = found.unfinished_files.iter().filter(is_cut);
    tails.chain(cut.map(|file| format!("{} is cut off before its end", name(file)))).collect()
}

/// Returns a clause about sources and descriptions that the events need and that are gone.
fn absent_descriptions(folder: &RunFolder, run: &Value, found: &ReadReport) -> Vec<String> {
    let (lines, unread) = folder.readable_sources();
    let mut faults: Vec<String> = unread.iter().map(ToString::to_string).collect();
    let described = |source: &&Value| source["counters"]["to_builder"].as_u64() > Some(0);
    let known = run["ledger"]["sources"].as_array();
    let known = known.map_or(0, |sources| sources.iter().filter(described).count());
    if faults.is_empty() && (lines.len() < known || (lines.is_empty() && found.packets > 0)) {
        faults.push(format!("{SOURCES_FILE} names {} of {} sources", lines.len(), known.max(1)));
    }
    let mut formats: Vec<&str> = lines.iter().map(|line| line.format.as_str()).collect();
    formats.sort_unstable();
    formats.dedup();
    let unread = formats.into_iter().filter_map(|format| match folder.read_format(format) {
        Ok(_) => None,
        Err(FolderError::Missing(_)) => Some(format!("formats/{format}.toml is missing")),
        Err(error) => Some(error.to_string()),
    });
    faults.extend(unread);
    faults
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
