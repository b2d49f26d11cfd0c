//! The arguments of `fluxline runs`, `fluxline archive` and `fluxline sequence`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fluxline_core::Moment;
use fluxline_run::runs::{RunOrder, RunVerdict};
use fluxline_serve::ServerConfig;

use crate::local_time;
use crate::words::{Word, words};

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
    #[arg(long, value_parser = words::<RunVerdict>(VERDICTS), value_name = "VERDICT")]
    pub status: Vec<RunVerdict>,
    /// The order: newest, longest, largest and most first; names by alphabet
    #[arg(long, value_parser = words::<RunOrder>(ORDERS), value_name = "KEY")]
    #[arg(default_value = "start")]
    pub sort: RunOrder,
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

/// The verdicts on the command line.
const VERDICTS: &[Word] = &[
    ("running", "It is being recorded"),
    ("complete", "Everything that this host received is in the files"),
    ("look", "It finished, but look: status 7"),
    ("recording-stopped", "Recording stopped early: status 5"),
    ("ledger-open", "The ledger does not close: status 4"),
    ("no-end", "The program or the machine stopped during the run"),
    ("recovered", "It had no end, and was mended"),
    ("damaged", "run.json is missing or cannot be read"),
    ("unknown", "run.json does not say"),
];

/// The orders on the command line.
const ORDERS: &[Word] = &[
    ("start", "By the start, runs that go on before the others"),
    ("name", "By the name of the folder"),
    ("experiment", "By the name of the experiment"),
    ("shot", "By the shot number"),
    ("length", "By the length"),
    ("events", "By the number of events"),
    ("incomplete", "By the number of incomplete events"),
    ("lost", "By the number of lost packets"),
    ("size", "By the size of the event files"),
    ("status", "By the verdict"),
];

/// `fluxline archive`.
#[derive(Debug, Args)]
pub struct ArchiveArguments {
    /// The finished run's folder
    #[arg(required_unless_present_any = ["verify", "restore"], requires = "to")]
    pub run: Option<PathBuf>,
    /// The target: a folder, or s3://BUCKET/PREFIX; the run gets a folder of its name there. With
    /// --restore: the new run folder
    #[arg(long, value_name = "TARGET")]
    pub to: Option<String>,
    /// Compress each file by zstd
    #[arg(long, requires = "run")]
    pub compress: bool,
    /// Remove the local files after the archive was read back once more; run.json, tags and
    /// comments stay
    #[arg(long, requires = "run")]
    pub remove_local: bool,
    /// Read this archive back, and compare its check sums
    #[arg(long, value_name = "ARCHIVE", conflicts_with_all = ["run", "to"])]
    pub verify: Option<String>,
    /// Make a run folder of this archive
    #[arg(long, value_name = "ARCHIVE", conflicts_with_all = ["run", "verify"], requires = "to")]
    pub restore: Option<String>,
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
    /// Show each run on a page at this address, one after the other, and take commands from it.
    /// Without an address: loopback, port 8040 or the next free one
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    #[arg(default_missing_value = ServerConfig::ANY_PORT)]
    pub serve: Option<SocketAddr>,
    /// Print the runs and their commands, and start nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::{RunVerdict, VERDICTS};

    #[test]
    fn verdicts_have_the_words_of_the_command_line() {
        for (word, _) in VERDICTS {
            let verdict: RunVerdict = serde_json::from_str(&format!("{word:?}")).expect(word);
            assert_eq!(verdict.word(), *word);
        }
    }
}
