//! Batches in run folders of builders, which were copied to this machine.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fluxline_core::Moment;
use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{BatchMark, ReadError, RunFolder, RunReader, SourceLine};
use serde_json::Value;

use super::target::Target;
use super::{About, Feed, GatherError, Gathered, Progress, RunCommits, into_target};
use crate::build::Commit;

/// Deepest folder below a given one that is searched.
const DEPTH_MAX: usize = 4;

/// Gathers the committed batches, which lie in folders below `root`, into the new run `into`.
///
/// Errors: as [`gather_folders`].
pub fn gather(root: &Path, commits: &[Commit], into: &Path) -> Result<Gathered, GatherError> {
    let mut of_run = RunCommits { run: run_below(root)?, ..RunCommits::default() };
    for commit in commits {
        of_run.partitions.entry(commit.partition).or_default().push(commit.clone());
    }
    gather_folders(&[root.to_path_buf()], &of_run, into, &mut |_, _| {})
}

/// Returns the run of the first folder of a builder below `root`.
fn run_below(root: &Path) -> Result<u64, GatherError> {
    let parts = Part::below(&[root.to_path_buf()])?;
    Ok(parts.first().map_or(0, |part| part.run))
}

/// Gathers the committed batches, which lie in folders below `roots`, into the new run `into`.
///
/// Errors: [`GatherError`]; there is no run then. Memory: one batch, and 50 bytes a batch. Cost:
/// the files are read twice.
pub fn gather_folders(
    roots: &[PathBuf],
    commits: &RunCommits,
    into: &Path,
    progress: Progress<'_>,
) -> Result<Gathered, GatherError> {
    let mut parts = Part::below(roots)?;
    parts.retain(|part| part.run == commits.run);
    let about = about(&parts)?;
    let mut found = Found::default();
    for part in parts {
        found.index(part, commits)?;
    }
    found.check(commits, roots)?;
    let left_out = found.left_out;
    let from: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    let target = Target::begin(into, about)?;
    into_target(target, commits, found.feeds, |_| left_out, &from.join(" "), progress)
}

fn files(error: &dyn std::fmt::Display) -> GatherError {
    GatherError::Files(error.to_string())
}

/// Returns the name, the experiment and the packet descriptions of the run.
fn about(parts: &[Part]) -> Result<About, GatherError> {
    let mut about = About::default();
    for part in parts {
        if about.name.is_empty() {
            about.name.clone_from(&part.name);
            about.experiment = part.experiment.clone();
        }
        for name in part.folder.formats().unwrap_or_default() {
            if let Entry::Vacant(place) = about.formats.entry(name) {
                let text = part.folder.read_format(place.key()).map_err(|error| files(&error))?;
                place.insert(text);
            }
        }
    }
    Ok(about)
}

/// A folder of a partition.
struct Part {
    folder: RunFolder,
    run: u64,
    partition: u32,
    first: u64,
    builder: String,
    name: String,
    experiment: Value,
}

impl Part {
    /// Returns the folders of partitions below `roots`, by partition and first batch.
    fn below(roots: &[PathBuf]) -> Result<Vec<Part>, GatherError> {
        let mut parts = Vec::new();
        for root in roots {
            Part::search(root, 0, &mut parts)?;
        }
        parts.sort_by(|a, b| {
            let key = |part: &Part| (part.partition, part.first, part.folder.path().to_path_buf());
            key(a).cmp(&key(b))
        });
        parts.dedup_by(|a, b| a.folder == b.folder);
        Ok(parts)
    }

    fn search(path: &Path, depth: usize, parts: &mut Vec<Part>) -> Result<(), GatherError> {
        if let Some(part) = Part::open(path) {
            parts.push(part);
            return Ok(());
        }
        let unread = |error: std::io::Error| {
            GatherError::Files(format!(
                "{} cannot be read ({error}); give folders of builders",
                path.display()
            ))
        };
        for entry in std::fs::read_dir(path).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            // Links are not followed: they may lead anywhere, also back.
            if depth < DEPTH_MAX && entry.file_type().is_ok_and(|of| of.is_dir()) {
                Part::search(&entry.path(), depth + 1, parts)?;
            }
        }
        Ok(())
    }

    /// Returns `None` for another folder.
    fn open(path: &Path) -> Option<Part> {
        let folder = RunFolder::open(path).ok()?;
        let document = folder.read_run().ok()?;
        let of = &document["partition"];
        Some(Part {
            folder,
            run: of["run"].as_u64()?,
            partition: u32::try_from(of["number"].as_u64()?).ok()?,
            first: of["first_batch"].as_u64()?,
            builder: of["builder"].as_str()?.to_owned(),
            name: of["name"].as_str().unwrap_or_default().to_owned(),
            experiment: document["experiment"].clone(),
        })
    }
}

/// The committed batches that were found.
#[derive(Default)]
struct Found {
    feeds: BTreeMap<u32, FolderFeed>,
    left_out: u64,
}

/// An open folder.
struct OpenPart {
    reader: RunReader,
    sources: HashMap<u32, SourceLine>,
}

/// A batch in a folder.
struct Place {
    part: Rc<OpenPart>,
    mark: BatchMark,
    closed: Moment,
    is_of_committer: bool,
}

/// The batches of one partition.
#[derive(Default)]
struct FolderFeed {
    batches: BTreeMap<u64, Place>,
    next: u64,
}

impl Found {
    /// Notes the committed batches in a folder. The folder of the builder that committed a batch
    /// comes before others that have it too.
    fn index(&mut self, part: Part, commits: &RunCommits) -> Result<(), GatherError> {
        let mut reader = RunReader::open(part.folder.path()).map_err(|error| files(&error))?;
        let mut marks = Vec::new();
        while let Some(batch) = reader.next_batch().map_err(|error| files(&error))? {
            marks.extend(batch.first_closed().map(|closed| (batch.mark(), batch.number(), closed)));
        }
        let lines = part.folder.sources().map_err(|error| files(&error))?;
        let sources = lines.into_iter().map(|line| (line.source, line)).collect();
        let open = Rc::new(OpenPart { reader, sources });
        let committed = commits.partitions.get(&part.partition).map_or(&[][..], Vec::as_slice);
        let feed = self.feeds.entry(part.partition).or_default();
        for (mark, number, closed) in marks {
            let number = part.first + number;
            let at = committed.binary_search_by_key(&number, |commit| commit.batch);
            let commit = at.ok().and_then(|at| committed.get(at));
            let is_of_committer = commit.is_some_and(|commit| commit.builder == part.builder);
            // Without the run's name, equal content cannot be proven: only the committer's counts.
            let is_wanted = commit.is_some() && (is_of_committer || !part.name.is_empty());
            let known = feed.batches.get(&number).map(|place| place.is_of_committer);
            if !is_wanted || known.is_some_and(|known| known || !is_of_committer) {
                self.left_out += 1;
                continue;
            }
            self.left_out += u64::from(known.is_some());
            let part = Rc::clone(&open);
            feed.batches.insert(number, Place { part, mark, closed, is_of_committer });
        }
        Ok(())
    }

    fn check(&self, commits: &RunCommits, roots: &[PathBuf]) -> Result<(), GatherError> {
        let has = |commit: &Commit| {
            let feed = self.feeds.get(&commit.partition);
            feed.is_some_and(|feed| feed.batches.contains_key(&commit.batch))
        };
        let all = || commits.partitions.values().flatten();
        let Some(first) = all().find(|commit| !has(commit)) else { return Ok(()) };
        let places: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
        Err(GatherError::Missing {
            more: all().filter(|commit| !has(commit)).count() as u64 - 1,
            place: places.join(" "),
            batch: first.batch,
            partition: first.partition,
            builder: first.builder.clone(),
            remedy: "copy the folders of that builder there",
        })
    }
}

impl Feed for FolderFeed {
    fn next_closed(&mut self) -> Result<Option<Moment>, GatherError> {
        Ok(self.batches.get(&self.next).map(|place| place.closed))
    }

    fn take(&mut self, rows: &mut EventBatch) -> Result<(), GatherError> {
        let Some(place) = self.batches.get(&self.next) else { return Ok(()) };
        let again = |error: ReadError| files(&error);
        let read = place.part.reader.read_marked(place.mark).map_err(again)?;
        let changed = || {
            let path = place.part.reader.folder().path().display();
            GatherError::Files(format!("{path} was changed while it was read; try again"))
        };
        read.ok_or_else(changed)?.append_to(rows).map_err(again)?;
        self.next += 1;
        Ok(())
    }

    fn source(&self, number: u32) -> Option<&SourceLine> {
        // `take` has stepped to the next batch.
        let place = self.batches.get(&self.next.checked_sub(1)?)?;
        place.part.sources.get(&number)
    }

    fn place(&self) -> String {
        let place = self.next.checked_sub(1).and_then(|last| self.batches.get(&last));
        place.map_or(String::new(), |place| place.part.reader.folder().path().display().to_string())
    }

    fn lacks_refused(&self) -> bool {
        false
    }
}
