//! The reason why a command failed, in one sentence, and its exit status.
//!
//! Scripts decide by the status, so its meaning is one table. It makes `--help`, and a test
//! compares docs/exit-status.md with it.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use fluxline_daq::InputError;
use fluxline_run::Verdict;

use crate::{inform, output};

/// The kinds of failure of a command; the number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Any other failure.
    Failed = 1,
    /// The command line is wrong in a way that its parser does not see.
    Usage = 2,
    /// An input file (experiment, description, capture, run) is wrong or absent.
    Input = 3,
    /// The run's ledger does not close.
    Ledger = 4,
    /// Recording stopped before the run did.
    Recording = 5,
    /// A link could not be opened.
    Link = 6,
    /// It finished, but received data is not recorded, a source is silent, or no link fits.
    Look = 7,
    /// Files of a run are missing or damaged.
    Files = 8,
}

/// Every exit status, in order, with its meaning.
const STATUSES: [(u8, &str); 9] = [
    (0, "done; after `run`: everything that this host received is in the files"),
    (FailureKind::Failed as u8, "failed"),
    (FailureKind::Usage as u8, "wrong command line"),
    (FailureKind::Input as u8, "wrong input file"),
    (FailureKind::Ledger as u8, "the ledger does not close"),
    (FailureKind::Recording as u8, "recording stopped early"),
    (FailureKind::Link as u8, "a link could not be opened"),
    (
        FailureKind::Look as u8,
        "finished, but look: received data is not recorded, a run has no end, or no link fits",
    ),
    (FailureKind::Files as u8, "files of a run are missing or damaged"),
];

/// The exit statuses for `--help`.
pub fn status_help() -> String {
    let mut out = String::from("Exit status:\n");
    for (status, meaning) in STATUSES {
        let _ = writeln!(out, "  {status}  {}", meaning.replace('`', ""));
    }
    out.push_str("\nExample: fluxline run --pcap capture.pcapng --format srs-vmm3");
    out
}

/// The failure of a command.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind, which is the exit status.
    pub kind: FailureKind,
    /// One sentence: what happened, where, what to do. Lines before it show the place in a file.
    pub message: String,
}

/// The end of a command whose report is printed; a failure's sentence was printed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ending {
    /// Without a failure.
    Well,
    /// With this failure.
    Failed(FailureKind),
}

impl Failure {
    /// Makes a failure; a question at the end, such as the nearest name, gets no full stop.
    fn new(kind: FailureKind, message: impl fmt::Display) -> Failure {
        let mut message = message.to_string();
        if message.ends_with("?.") {
            message.pop();
        }
        Failure { kind, message }
    }

    /// The command line is wrong.
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    /// An input file is wrong.
    pub fn input(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Input, message)
    }

    /// A link could not be opened.
    pub fn link(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Link, message)
    }

    /// It finished, but data is not where it should be.
    pub fn look(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Look, message)
    }

    /// The ledger does not close.
    pub fn ledger(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Ledger, message)
    }

    /// Recording stopped before the run did.
    pub fn recording(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Recording, message)
    }

    /// Files of a run are missing or damaged.
    pub fn files(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Files, message)
    }

    /// Returns the failure of a run by its verdict; a complete run has none.
    pub fn of_verdict(verdict: &Verdict) -> Option<Failure> {
        let kind = match verdict {
            Verdict::Complete => return None,
            Verdict::LedgerOpen(_) => FailureKind::Ledger,
            Verdict::RecordingStopped(_) => FailureKind::Recording,
            Verdict::LookNeeded(_) => FailureKind::Look,
        };
        let message = verdict.sentence().unwrap_or_default().to_owned();
        Some(Failure { kind, message })
    }

    /// Returns the failure that a run's own verdict was, by its run.json.
    pub fn of_run(run: &Path, document: &serde_json::Value) -> Option<Failure> {
        let status = document["status"].as_u64()?;
        let verdicts = [FailureKind::Ledger, FailureKind::Recording, FailureKind::Look];
        let kind = verdicts.into_iter().find(|kind| *kind as u64 == status)?;
        let sentence = document["sentence"].as_str().unwrap_or("run.json has no sentence for it.");
        Some(Failure::new(kind, format_args!("{}: {sentence}", run.display())))
    }

    /// Any other failure.
    pub fn failed(message: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Failed, message)
    }

    /// Prints the sentence to standard error, which may be closed.
    pub fn say(&self, json: bool) {
        let (shown, sentence) = self.message.rsplit_once('\n').unwrap_or(("", &self.message));
        if json {
            let status = self.kind as u8;
            let mut document = serde_json::json!({ "error": sentence, "status": status });
            if !shown.is_empty() {
                document["shown"] = shown.into();
            }
            inform!("{document}");
            return;
        }
        if !shown.is_empty() {
            inform!("{shown}");
        }
        inform!("fluxline: {sentence}");
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Failure {
        Failure::input(error)
    }
}

impl From<fluxline_run::Error> for Failure {
    fn from(error: fluxline_run::Error) -> Failure {
        use fluxline_run::Error;
        match error {
            Error::Input(error) => Failure::input(error),
            Error::Link(sentence) => Failure::link(sentence),
            error @ (Error::Folder(_) | Error::Failed(_)) => Failure::failed(error),
        }
    }
}

/// The status of a report that may lack a failure, for its JSON document.
pub fn status_of(failure: Option<&Failure>) -> u8 {
    failure.map_or(0, |failure| failure.kind as u8)
}

/// Prints a failure's sentence, if there is one, and then the report.
pub fn report(failure: Option<&Failure>, json: bool, print: impl FnOnce()) -> Ending {
    let Some(failure) = failure else {
        print();
        return Ending::Well;
    };
    failure.say(json);
    output::end_with(failure.kind as u8);
    print();
    Ending::Failed(failure.kind)
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        match ending {
            Ending::Well => ExitCode::SUCCESS,
            Ending::Failed(kind) => ExitCode::from(kind as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use fluxline_run::Verdict;

    use super::{Failure, STATUSES, status_of};

    #[test]
    fn a_question_at_the_end_gets_no_full_stop() {
        assert_eq!(
            Failure::input("no `a`; did you mean `b`?.").message,
            "no `a`; did you mean `b`?"
        );
        assert_eq!(Failure::input("a sentence.").message, "a sentence.");
    }

    #[test]
    fn run_json_and_the_program_have_the_same_status() {
        let sentence = || "a reason.".to_owned();
        let verdicts = [
            Verdict::Complete,
            Verdict::LedgerOpen(sentence()),
            Verdict::RecordingStopped(sentence()),
            Verdict::LookNeeded(sentence()),
        ];
        for verdict in verdicts {
            let failure = Failure::of_verdict(&verdict);
            assert_eq!(status_of(failure.as_ref()), verdict.status(), "{verdict:?}");
        }
    }

    #[test]
    fn page_of_exit_statuses_has_each_status_once_with_its_meaning() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exit-status.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| {
                line.strip_prefix("| ").is_some_and(|row| row.starts_with(char::is_numeric))
            })
            .collect();
        assert_eq!(rows.len(), STATUSES.len(), "{rows:#?}");
        for (row, (status, meaning)) in rows.iter().zip(STATUSES) {
            assert!(row.starts_with(&format!("| {status} | {meaning} |")), "{row}");
        }
    }
}
