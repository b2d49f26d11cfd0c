//! The missing parts of an incomplete event as a text of bounded length: `fec 2: sent nothing; fec
//! 1: packets 3, 7-9 of 64 missing`. Items are separated by "; ", each begins with its source's
//! label.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::coverage::Coverage;

/// The longest text for one event \[byte\]; a longer one is cut, and ends with "…".
const TEXT_BYTES_MAX: usize = 512;

/// The words for [`Reason::Lost`].
pub(crate) const LOST: &str = "lost";
/// The words for [`Reason::SentNothing`].
pub(crate) const SENT_NOTHING: &str = "sent nothing";

/// The reason why an event lacks a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    /// It sent nothing, although the experiment requires it.
    SentNothing,
    /// Packets of it were lost there.
    Lost,
    /// It has been silent since this key.
    Silent { since: u64 },
    /// It had not come yet when the event was closed.
    NotCome,
    /// A packet of it found no room in the memory of open events.
    NoRoom,
}

/// The text of one event, with a limit.
pub(super) struct Text<'a> {
    out: &'a mut String,
    start: usize,
    cut: bool,
}

impl Text<'_> {
    /// Begins a text at the end of `out`.
    pub(super) fn new(out: &mut String) -> Text<'_> {
        let start = out.len();
        Text { out, start, cut: false }
    }

    /// Adds a missing source.
    pub(super) fn source(&mut self, label: &str, reason: Reason) {
        self.separate();
        match reason {
            Reason::SentNothing => self.add(format_args!("{label}: {SENT_NOTHING}")),
            Reason::Lost => self.add(format_args!("{label}: {LOST}")),
            Reason::Silent { since } => self.add(format_args!("{label}: silent since key {since}")),
            Reason::NotCome => self.add(format_args!("{label}: had not come yet")),
            Reason::NoRoom => self.add(format_args!("{label}: found no room")),
        }
    }

    /// Adds the lack of sources.
    pub(super) fn count(&mut self, came: u32, required: u32) {
        self.separate();
        self.add(format_args!("{came} of {required} sources came"));
    }

    /// Adds the missing parts of a fragment.
    pub(super) fn parts(&mut self, label: &str, coverage: &Coverage) {
        if self.cut {
            return;
        }
        let (parts, count) = coverage.parts();
        self.separate();
        self.add(format_args!("{label}: {parts} "));
        let mut comma = "";
        coverage.missing(|first, last| {
            if first == last {
                self.add(format_args!("{comma}{first}"));
            } else {
                self.add(format_args!("{comma}{first}-{last}"));
            }
            comma = ", ";
            !self.cut
        });
        self.add(format_args!(" of {count} missing"));
    }

    /// Returns the length of the text \[byte\].
    pub(super) fn bytes(&self) -> u32 {
        (self.out.len() - self.start) as u32
    }

    fn add(&mut self, arguments: std::fmt::Arguments<'_>) {
        if self.cut {
            return;
        }
        let before = self.out.len();
        // Writing into a String cannot fail.
        let _ = self.out.write_fmt(arguments);
        if self.out.len() - self.start > TEXT_BYTES_MAX {
            self.out.truncate(before);
            self.out.push('…');
            self.cut = true;
        }
    }

    fn separate(&mut self) {
        if self.out.len() > self.start {
            self.add(format_args!("; "));
        }
    }
}
