//! Messages of the builder during a run: one per change, and at most one a second of each kind.

use std::fmt;

use fluxline_core::{Moment, Span};
use serde::{Deserialize, Serialize};

/// Shortest time between two reports of one kind.
const PERIOD: Span = Span::from_ms(1000);
/// Most reports of one kind that wait; of further ones only the number is shown.
const WAITING_MAX: usize = 8;

/// A change that a user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A source sent its first key while others were sending.
    Joined {
        /// The source.
        source: String,
        /// Its first key.
        key: u64,
        /// Time after the first source.
        after: Span,
    },
    /// Events go on without a source.
    Silent {
        /// The source.
        source: String,
        /// Its last key.
        key: u64,
    },
    /// A silent source sends again.
    Back {
        /// The source.
        source: String,
        /// Its first key after the silence.
        key: u64,
    },
    /// Events wait for a source that lags.
    Behind {
        /// The source.
        source: String,
        /// A source that was first.
        other: String,
        /// Time by which it is behind.
        by: Span,
    },
    /// Keys began anew.
    Anew {
        /// The number of the generation that begins.
        generation: u32,
    },
    /// Two sources began at different keys and at the same time.
    OffByOne {
        /// The source.
        source: String,
        /// Its first key.
        key: u64,
        /// The other source.
        other: String,
        /// The other source's first key.
        other_key: u64,
        /// Time between the two.
        apart: Span,
    },
    /// Waiting for a silent source would exceed the memory limit.
    Memory {
        /// Bytes of packets and their rows that come in a second.
        bytes_per_second: u64,
        /// Time for which an event waits.
        wait: Span,
        /// The value to write for `bytes-max`.
        bytes_max: u64,
    },
}

/// A span in the unit that suits it.
struct Short(Span);

impl fmt::Display for Short {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ns() {
            ns @ ..1000 => write!(out, "{ns} ns"),
            ns @ ..1_000_000 => write!(out, "{} us", ns / 1000),
            ns @ ..100_000_000 => write!(out, "{} ms", ns / 1_000_000),
            ns @ ..10_000_000_000 => {
                write!(out, "{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10)
            }
            ns => write!(out, "{} s", ns / 1_000_000_000),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Joined { source, key, after } => {
                write!(out, "{source} joined at key {key}, {} after the others", Short(*after))
            }
            Report::Silent { source, key } => {
                write!(out, "{source} silent since key {key}: events go on without it")
            }
            Report::Back { source, key } => {
                write!(out, "{source} sends again from key {key} on: events wait for it")
            }
            Report::Behind { source, other, by } => {
                write!(out, "{source} is {} behind {other}: events wait for it", Short(*by))
            }
            Report::Anew { generation } => {
                write!(out, "keys count anew (spill {generation})")
            }
            Report::OffByOne { source, key, other, other_key, apart } => write!(
                out,
                "{source} began at key {key} and {other} at key {other_key}, {} apart: its \
                 trigger number may be off by {}",
                Short(*apart),
                key.abs_diff(*other_key)
            ),
            Report::Memory { bytes_per_second, wait, bytes_max } => write!(
                out,
                "at {} MB/s an event cannot wait {} for a silent source: write `[events] \
                 bytes-max = {bytes_max}`, or a shorter `timeout-ms`",
                bytes_per_second / 1_000_000,
                Short(*wait)
            ),
        }
    }
}

impl Report {
    fn kind(&self) -> usize {
        match self {
            Report::Joined { .. } => 0,
            Report::Silent { .. } => 1,
            Report::Back { .. } => 2,
            Report::Behind { .. } => 3,
            Report::Anew { .. } => 4,
            Report::OffByOne { .. } => 5,
            Report::Memory { .. } => 6,
        }
    }
}

const KINDS: usize = 7;

/// A report, and the number of further reports of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The report.
    pub report: Report,
    /// Number of further reports of its kind.
    pub more: u64,
}

impl fmt::Display for Said {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.more {
            0 => write!(out, "{}", self.report),
            more => write!(out, "{} ({more} more of this kind)", self.report),
        }
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kind {
    waiting: Vec<Report>,
    more: u64,
    said: Option<Moment>,
}

/// Reports that wait to be handed out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reports {
    kinds: [Kind; KINDS],
}

impl Reports {
    pub(super) fn new() -> Reports {
        Reports { kinds: std::array::from_fn(|_| Kind::default()) }
    }

    /// Adds a report.
    pub(super) fn say(&mut self, report: Report) {
        let kind = &mut self.kinds[report.kind()];
        match kind.waiting.len() < WAITING_MAX {
            true => kind.waiting.push(report),
            false => kind.more += 1,
        }
    }

    /// Returns the next report that is due at `now`; at the end of a run all are.
    pub(super) fn next(&mut self, now: Moment, ended: Ended) -> Option<Said> {
        let due = |kind: &&mut Kind| {
            let rested = kind.said.is_none_or(|said| now.since(said) >= PERIOD);
            !kind.waiting.is_empty() && (rested || ended == Ended::Yes)
        };
        let kind = self.kinds.iter_mut().find(due)?;
        kind.said = Some(now);
        let report = kind.waiting.remove(0);
        Some(Said { report, more: std::mem::take(&mut kind.more) })
    }
}

/// The state of the run when reports are handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has ended: no reports are held back.
    Yes,
    /// It goes on.
    #[default]
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_said_once_a_second_and_what_is_left_out_is_counted() {
        let at = |ms: u64| Moment::from_ns(ms * 1_000_000);
        let mut reports = Reports::new();
        for generation in 0..20 {
            reports.say(Report::Anew { generation });
        }
        reports.say(Report::Silent { source: "board=2".to_owned(), key: 4999 });
        let texts = |reports: &mut Reports, ms, ended| {
            std::iter::from_fn(|| reports.next(at(ms), ended))
                .map(|said| said.to_string())
                .collect()
        };
        let first: Vec<String> = texts(&mut reports, 5000, Ended::No);
        let silent = "board=2 silent since key 4999: events go on without it";
        assert_eq!(first, [silent, "keys count anew (spill 0) (12 more of this kind)"]);
        assert_eq!(texts(&mut reports, 5999, Ended::No), Vec::<String>::new());
        let second: Vec<String> = texts(&mut reports, 6000, Ended::No);
        assert_eq!(second, ["keys count anew (spill 1)"]);
        let rest: Vec<String> = texts(&mut reports, 6000, Ended::Yes);
        assert_eq!(rest.len(), 6);
    }
}
