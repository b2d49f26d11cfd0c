//! The arguments of `fluxline runs` and `fluxline sequence`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fluxline_core::Moment;

use crate::local_time;

/// `fluxline runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArguments {
    /// The request; without one, the runs are listed
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// The arguments of the list
    #[command(flatten)]
    pub list: ListArguments,
}

/// A change of what people say of a run.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// Add tags to a run, or remove them
    #[command(after_help = "Example: fluxline runs tag runs/0042 calibration hv=1100")]
    Tag(TagArguments),
    /// Set the comment on a run; an empty one removes it
    #[command(after_help = "Example: fluxline runs comment runs/0042 \"beam was unstable\"")]
    Comment(CommentArguments),
}

/// `fluxline runs tag`.
#[derive(Debug, Args)]
pub struct TagArguments {
    /// The run's folder
    pub run: PathBuf,
    /// Words without spaces and commas
    #[arg(required = true)]
    pub tags: Vec<String>,
    /// Remove the tags
    #[arg(long)]
    pub remove: bool,
}

/// `fluxline runs comment`.
#[derive(Debug, Args)]
pub struct CommentArguments {
    /// The run's folder
    pub run: PathBuf,
    /// The comment, which takes the place of the one before
    pub text: String,
}

/// The list of `fluxline runs`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// The folder that has the runs
    #[arg(default_value = "runs")]
    pub folder: PathBuf,
    /// Only runs with this text in name, experiment, notes, tags or comment, in any case
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only runs with this tag; may be given more than once
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Only runs that began at this local time (UTC with a Z behind it) or later
    #[arg(long, value_parser = local_time::parse, value_name = "TIME")]
    pub since: Option<Moment>,
    /// Only runs that began before this time
    #[arg(long, value_parser = local_time::parse, value_name = "TIME")]
    pub until: Option<Moment>,
    /// Only runs with this verdict; may be given more than once
    #[arg(long, value_name = "VERDICT")]
    pub status: Vec<RunVerdict>,
    /// The order: newest, longest, largest and most first; names by alphabet
    #[arg(long, value_name = "KEY", default_value = "start")]
    pub sort: SortKey,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// Only the first N runs of the list
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum RunVerdict {
    /// It is being recorded
    Running,
    /// Everything that this host received is in the files
    Complete,
    /// It finished, but look: status 7
    Look,
    /// Recording stopped early: status 5
    RecordingStopped,
    /// The ledger does not close: status 4
    LedgerOpen,
    /// The program or the machine stopped during the run
    NoEnd,
    /// It had no end, and was mended
    Recovered,
    /// run.json is missing or cannot be read
    Damaged,
    /// run.json does not say
    Unknown,
}

impl RunVerdict {
    /// Returns its word in tables and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            RunVerdict::Running => "running",
            RunVerdict::Complete => "complete",
            RunVerdict::Look => "look",
            RunVerdict::RecordingStopped => "recording-stopped",
            RunVerdict::LedgerOpen => "ledger-open",
            RunVerdict::NoEnd => "no-end",
            RunVerdict::Recovered => "recovered",
            RunVerdict::Damaged => "damaged",
            RunVerdict::Unknown => "unknown",
        }
    }
}

/// The key by which runs are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// By the start, runs that go on before the others
    #[default]
    Start,
    /// By the name of the folder
    Name,
    /// By the name of the experiment
    Experiment,
    /// By the shot number
    Shot,
    /// By the length
    Length,
    /// By the number of events
    Events,
    /// By the number of incomplete events
    Incomplete,
    /// By the number of lost packets
    Lost,
    /// By the size of the event files
    Size,
    /// By the verdict
    Status,
}

/// `fluxline sequence`.
#[derive(Debug, Args)]
pub struct SequenceArguments {
    /// The sequence file
    pub sequence: PathBuf,
    /// Go on after the last finished run of a sequence that was stopped or killed
    #[arg(long, conflicts_with = "restart")]
    pub resume: bool,
    /// Begin with the first run again, although the sequence before has not ended
    #[arg(long)]
    pub restart: bool,
    /// The file of the progress [default: sequence.jsonl beside the sequence file]
    #[arg(long, value_name = "FILE")]
    pub progress: Option<PathBuf>,
    /// Print the runs and their commands, and start nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::RunVerdict;

    #[test]
    fn verdicts_have_the_words_of_the_command_line() {
        for verdict in RunVerdict::value_variants() {
            let value = verdict.to_possible_value().expect("shown");
            assert_eq!(value.get_name(), verdict.word());
        }
    }
}
