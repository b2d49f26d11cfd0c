//! The experiment: what `experiment.toml` says, as read and as checked values.

mod check;
mod file_list;
mod model;
mod roce;

pub use check::check_seconds;
pub use file_list::FileList;
pub use model::*;
pub use roce::{PushRing, Roce, Sender, address};

use std::path::Path;

use crate::failure::Failure;
use crate::formats;
use crate::run::check_accept;

impl Experiment {
    /// Reads an experiment file; a mistake names file, line and what to write.
    pub fn load(path: &Path) -> Result<Experiment, Failure> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::input(format_args!("{name} cannot be read: {error}.")))?;
        let mut experiment = Experiment::parse(&name.to_string(), &text)?;
        experiment.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(experiment)
    }

    /// Makes the paths of input files relative to the experiment file's folder.
    fn resolve(&mut self, folder: &Path) {
        for source in &mut self.sources {
            if formats::is_path(&source.format) {
                source.format = folder.join(&source.format).display().to_string();
            }
            if let Some(pcap) = &mut source.pcap {
                pcap.file.resolve(folder);
            }
            if let Some(raw) = &mut source.raw {
                raw.file.resolve(folder);
            }
        }
    }

    /// Reads an experiment from text; `name` is what messages call it.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, Failure> {
        let experiment: Experiment = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let message = error.message().replace('\n', " ");
            Failure::input(format_args!("{name}:{line}: {message}."))
        })?;
        experiment.check().map_err(|problem| Failure::input(format_args!("{name}: {problem}")))?;
        Ok(experiment)
    }

    /// What serde cannot say: each source has one link, numbers are in range.
    pub fn check(&self) -> Result<(), String> {
        check_seconds("seconds", self.seconds)?;
        check_accept(&self.accept)?;
        if self.sources.is_empty() {
            return Err("there is no source; write a [[source]] table with a `format` and one of \
                        `udp`, `shm`, `roce`, `pcap`, `raw`, `emulator`."
                .into());
        }
        for (number, source) in self.sources.iter().enumerate() {
            let count = [
                source.udp.is_some(),
                source.shm.is_some(),
                source.roce.is_some(),
                source.pcap.is_some(),
                source.raw.is_some(),
                source.emulator.is_some(),
            ]
            .into_iter()
            .filter(|there| *there)
            .count();
            let name = &source.name;
            if count != 1 {
                return Err(format!(
                    "source `{name}` has {count} links; write exactly one of [source.udp], \
                     [source.shm], [source.roce], [source.pcap], [source.raw], \
                     [source.emulator]."
                ));
            }
            if self.sources[..number].iter().any(|other| other.name == *name) {
                return Err(format!("two sources are named `{name}`; give each `name` once."));
            }
            source.check()?;
        }
        self.events.check()?;
        self.check_windows()?;
        self.record.check()
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
