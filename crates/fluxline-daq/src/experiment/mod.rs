//! The experiment: the values of `experiment.toml`, read and checked.

mod accept;
mod check;
mod cluster;
mod copies;
mod feedback;
mod file_list;
mod framing;
mod graph;
mod health;
mod here;
mod model;
mod plot;
mod problem;
mod requirements;
mod roce;
mod sink;
mod slow_control;
#[cfg(test)]
mod tests;
mod words;

pub use accept::{
    BROKEN, CLOCK_APART, CLUSTER_ENDS, GONE, INPUT_FAULTS, NOT_ACKNOWLEDGED, NOTHING_KEPT,
    NOTHING_RECEIVED, SILENT, UNDECIDED, accepts, check_accept,
};
pub use check::check_seconds;
pub use cluster::{BUILDER, Cluster, ClusterOutput, ClusterStart, NodeTable, check_node_name};
pub use feedback::{Feedback, Sampled};
pub use file_list::FileList;
pub use graph::{Builders, Link, Nodes, RING_BYTES_MIN, Readouts, THREADS};
pub use health::{Alarm, Health, MEASURES, Severity, Subject};
pub use here::{filter_sentence, loop_sentence};
pub use model::*;
pub use plot::{BINS_MAX, Plot, PlotExpressions, PlotKind, VALUE_MAX, check_plots};
pub use problem::Problem;
pub use requirements::{QUANTILES, Requirements};
pub use roce::{PushRing, Roce, Sender, SenderPorts, SenderReliability, address};
pub use sink::{KafkaSink, Sink, SinkSchema, check_brokers, check_topic};
pub use slow_control::{SLOW_PREFIX, SlowControl};

use std::path::Path;

use fluxline_toml::TomlText as Text;

use crate::formats;
use crate::input_error::InputError;
use crate::input_file;

impl Experiment {
    /// Reads an experiment file; a mistake names file, line and what to write.
    pub fn load(path: &Path) -> Result<Experiment, InputError> {
        let name = path.display();
        let text = input_file::read_text(path)
            .map_err(|error| InputError::new(format_args!("{name} cannot be read: {error}.")))?;
        let mut experiment = Experiment::parse(&name.to_string(), &text)?;
        experiment.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(experiment)
    }

    /// Reads an experiment file for a process that may use these cores: they and the parameters of
    /// the descriptions are checked too.
    pub fn load_for(path: &Path, cores: &[usize]) -> Result<Experiment, InputError> {
        let experiment = Experiment::load(path)?;
        let text = input_file::read_text(path).unwrap_or_default();
        let source = Text { file: &path.display().to_string(), text: &text };
        let tables = copies::tables_of(&text);
        let located = |problem: Problem| problem.of_tables(&tables).locate(source);
        experiment.check_here(cores).map_err(located)?;
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
        if let Some(program) = self.feedback.as_mut().and_then(|of| of.program.first_mut())
            && program.contains('/')
        {
            *program = folder.join(&*program).display().to_string();
        }
        if let Some(program) = self.health.command.first_mut().filter(|of| of.contains('/')) {
            *program = folder.join(&*program).display().to_string();
        }
        let file = self.sink.kafka.as_mut().and_then(|kafka| kafka.settings_file.as_mut());
        let cluster = self.cluster.as_mut().and_then(|cluster| cluster.settings_file.as_mut());
        for file in file.into_iter().chain(cluster) {
            *file = folder.join(&*file);
        }
    }

    /// Reads an experiment from text; `name` is its name in messages.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, InputError> {
        let source = Text { file: name, text };
        let mut experiment: Experiment =
            toml::from_str(text).map_err(|error| source.toml_error(&error))?;
        let tables = experiment.make_copies().map_err(|problem| problem.locate(source))?;
        experiment.check().map_err(|problem| problem.of_tables(&tables).locate(source))?;
        Ok(experiment)
    }

    /// Checks the rules beyond the syntax: each source has one link, numbers are in range.
    pub fn check(&self) -> Result<(), Problem> {
        check_seconds("seconds", self.seconds).map_err(|text| Problem::at("seconds", text))?;
        check_accept(&self.accept).map_err(|text| Problem::at("accept", text))?;
        if self.sources.is_empty() {
            let text = "the experiment has no source; write a [[source]] table with a `format` and \
                        one of `udp`, `shm`, `roce`, `pcap`, `raw`, `program`, `emulator`.";
            return Err(Problem::at("", text));
        }
        self.check_graph()?;
        self.check_feedback()?;
        self.check_requirements()?;
        self.check_slow_control()?;
        self.check_health()?;
        self.check_plots()?;
        for (number, source) in self.sources.iter().enumerate() {
            let count = [
                source.udp.is_some(),
                source.shm.is_some(),
                source.roce.is_some(),
                source.pcap.is_some(),
                source.raw.is_some(),
                source.program.is_some(),
                source.emulator.is_some(),
            ]
            .into_iter()
            .filter(|there| *there)
            .count();
            let (name, table) = (&source.name, format!("source.{number}"));
            if count != 1 {
                let text = format!(
                    "source `{name}` has {count} links; write exactly one of [source.udp], \
                     [source.shm], [source.roce], [source.pcap], [source.raw], \
                     [source.program], [source.emulator]."
                );
                return Err(Problem::at(table, text));
            }
            if self.sources[..number].iter().any(|other| other.name == *name) {
                let text = format!("two sources are named `{name}`; give each `name` once.");
                return Err(Problem::at(format!("{table}.name"), text));
            }
            source.check().map_err(|problem| problem.below(&table))?;
        }
        self.check_ports()?;
        self.events.check()?;
        self.check_windows()?;
        self.record.check()?;
        self.sink.check()?;
        self.check_cluster()
    }
}
