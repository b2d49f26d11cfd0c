//! Run folders of partitions, and their way into one run.
//!
//! A builder writes each partition into a folder of its own, `pPARTITION-bBATCH-BUILDER`. It is a
//! run folder that begins with that batch. After a takeover, batches of one partition are in
//! several folders, and a few may be in two. `fluxline gather` takes the committed ones, each once,
//! into one run that every command reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fluxline_core::Moment;
use fluxline_daq::record::{Recorder, RecorderConfig, RunFolder, SourceLine, SyncPolicy};
use serde_json::{Value, json};

use super::sink::line_of;
use super::worker::Output;
use fluxline_cluster::{BuiltSource, OutputBatch};

/// Writes the batches of a builder into run folders.
pub struct RunFolders {
    root: PathBuf,
    builder: String,
    run: u64,
    formats: Vec<(String, String)>,
    /// For each input of the experiment, the part of its sources' lines that is the same.
    inputs: Vec<SourceLine>,
    /// The run's name in event files, and the experiment.
    experiment: Option<(String, Value)>,
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
        RunFolders {
            root,
            builder,
            run,
            formats,
            inputs: Vec::new(),
            experiment: None,
            open: BTreeMap::new(),
        }
    }

    /// Keeps the run's name in event files and the experiment, without secrets, in each folder.
    #[must_use]
    pub fn of_experiment(mut self, name: &str, experiment: Value) -> RunFolders {
        self.experiment = Some((name.to_owned(), experiment));
        self
    }

    /// Keeps the parameters of the packet descriptions with each source: `inputs` has, for each
    /// input of the experiment, the part of its sources' lines that is the same.
    #[must_use]
    pub fn with_inputs(mut self, inputs: Vec<SourceLine>) -> RunFolders {
        self.inputs = inputs;
        self
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
        let mut document = json!({
            "state": "running",
            "partition": { "run": self.run, "number": partition, "first_batch": first,
                "builder": self.builder },
        });
        if let Some((name, experiment)) = &self.experiment {
            document["partition"]["name"] = name.as_str().into();
            document["experiment"] = experiment.clone();
        }
        folder.write_run(&document).map_err(|error| error.to_string())?;
        // `make_durable` forces the batches of a group together.
        let sync = SyncPolicy::EverySeconds(f64::INFINITY);
        let config = RecorderConfig { sync, ..RecorderConfig::default() };
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
            open.recorder
                .write_source(&line_of(source, &self.inputs))
                .map_err(|fault| fault.what())?;
            open.sources += 1;
        }
        // A folder with a fault is left: the next batch begins another one.
        open.recorder.write(&batch.events, Moment::default()).map_err(|fault| fault.what())?;
        open.next += 1;
        self.open.insert(partition, open);
        Ok(())
    }

    /// A committed batch survives a power cut.
    fn make_durable(&mut self, partition: u32) -> Result<(), String> {
        let Some(open) = self.open.get_mut(&partition) else { return Ok(()) };
        let forced = open.recorder.force();
        if forced.is_err() {
            self.open.remove(&partition);
        }
        forced.map_err(|fault| fault.what())
    }
}

#[cfg(test)]
mod tests {
    use fluxline_daq::record::WriteFault;

    #[test]
    fn a_full_disk_of_a_builder_never_asks_for_a_new_run() {
        let fault = WriteFault::NoSpace { file: "runs/lab-0001-b1/p0-b7-b1/events.arrows".into() };
        let reason = fault.what();
        assert_eq!(reason, "no space left for runs/lab-0001-b1/p0-b7-b1/events.arrows");
        let error = super::super::WorkError::Output { partition: 0, batch: 7, reason };
        let said = error.to_string();
        assert!(
            said.contains("other builders make it again") && !said.contains("new run"),
            "{said}"
        );
    }
}
