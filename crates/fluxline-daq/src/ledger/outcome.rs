//! The ends of the data that this host received: one row for each.
//!
//! Laws show that the ledger closes. A closed ledger does not make a good run: a run in which all
//! packets were rejected also closes. So each end states if the data is in the files, and the
//! summary begins with the sum.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::remedies::remedy;
use super::{Ledger, SinkCounters};

/// An end that received data can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutcomeRow {
    /// The counter, as laws name it: `input.rejected`.
    pub counter: &'static str,
    /// Its name in reports.
    pub words: &'static str,
    /// The place of the data.
    pub fate: Fate,
    /// The unit of the count.
    pub of: Counted,
}

/// The place of received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// In the files.
    Recorded,
    /// In the files, by another packet with the same number or the same part of the event.
    Duplicate,
    /// Not in the files of this node: a builder in another process has them.
    HandedOn,
    /// Handed to a builder in another process that has gone: in its files, or lost with it.
    InDoubt,
    /// Not in the files: the experiment records nothing.
    Unwanted,
    /// Not in the files: the experiment's filter rejected their event.
    Filtered,
    /// Not in the files.
    Dropped,
}

/// The unit of an end's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Datagrams: these ends add up to what was received.
    Datagrams,
    /// Frames of captures and of remote writes, some of which never became a datagram.
    Frames,
}

const fn datagrams(counter: &'static str, words: &'static str, fate: Fate) -> OutcomeRow {
    OutcomeRow { counter, words, fate, of: Counted::Datagrams }
}

const fn frames(counter: &'static str, words: &'static str) -> OutcomeRow {
    OutcomeRow { counter, words, fate: Fate::Dropped, of: Counted::Frames }
}

/// All ends, in the order of the tables.
pub const OUTCOMES: &[OutcomeRow] = &[
    datagrams("source.recorded", "recorded", Fate::Recorded),
    datagrams("edge.handed_on", "handed to builders", Fate::HandedOn),
    datagrams("edge.inherited", "recorded by another builder", Fate::HandedOn),
    datagrams("edge.in_doubt", "in doubt with a node", Fate::InDoubt),
    datagrams("source.not_recorded", "counted only", Fate::Unwanted),
    datagrams("source.filtered", "filtered", Fate::Filtered),
    datagrams("source.duplicate", "duplicate", Fate::Duplicate),
    datagrams("source.event_duplicate", "duplicate in its event", Fate::Duplicate),
    datagrams("source.late", "too old", Fate::Dropped),
    datagrams("source.held", "held", Fate::Dropped),
    datagrams("source.late_dropped", "late dropped", Fate::Dropped),
    datagrams("source.builder_full", "builder full", Fate::Dropped),
    datagrams("source.inconsistent", "inconsistent", Fate::Dropped),
    datagrams("source.write_failed", "write failed", Fate::Dropped),
    datagrams("edge.lost", "lost with a node", Fate::Dropped),
    datagrams("input.rejected", "rejected", Fate::Dropped),
    datagrams("input.truncated", "truncated", Fate::Dropped),
    datagrams("input.sources_refused", "sources refused", Fate::Dropped),
    datagrams("input.ring_full", "ring full", Fate::Dropped),
    datagrams("input.socket_dropped", "socket dropped", Fate::Dropped),
    frames("input.frames_unusable", "frames unusable"),
    frames("input.check_sum_wrong", "check sum wrong"),
    frames("remote.frames_wrong_check", "frames wrong check"),
    frames("remote.frames_unknown_pair", "frames unknown pair"),
    frames("remote.frames_wrong_sender", "frames wrong sender"),
    frames("remote.frames_out_of_bounds", "frames out of bounds"),
    frames("remote.frames_overrun", "frames overrun"),
    frames("remote.frames_broken_off", "frames broken off"),
    frames("remote.frames_other", "frames other"),
    frames("remote.frames_unannounced", "frames unannounced"),
];

impl OutcomeRow {
    /// Returns the counter's name without its place: `rejected`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.counter.split_once('.').map_or(self.counter, |(_, name)| name)
    }

    /// Returns the name of a source's counter; `None` for data that ended before its source was
    /// known.
    pub(super) fn source_counter(&self) -> Option<&'static str> {
        self.counter.strip_prefix("source.")
    }
}

/// The amount of the received data that had one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The end.
    pub row: &'static OutcomeRow,
    /// Number of datagrams or frames.
    pub count: u64,
}

impl Outcome {
    /// Returns the remedy; may be empty.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        remedy(self.row.counter)
    }
}

impl Ledger {
    /// Returns the number of datagrams that this host received: those taken, those that the
    /// kernel dropped at a full socket, and those that readouts in other processes sent.
    #[must_use]
    pub fn received(&self) -> u64 {
        let input = self.input_totals();
        let came_in = self.edges.as_ref().map_or(0, |edges| edges.came_in);
        input.datagrams + input.socket_dropped + came_in
    }

    /// Returns every end that is not zero, in the order of the tables.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Outcome> {
        let counted = |row| Outcome { row, count: self.total(row.counter).unwrap_or(0) };
        OUTCOMES.iter().map(counted).filter(|outcome| outcome.count > 0).collect()
    }

    /// Returns the first sentences of a summary: the amount received, and its ends.
    #[must_use]
    pub fn headline(&self) -> String {
        let outcomes = self.outcomes();
        let of = |fate: Fate| {
            let of_fate = outcomes.iter().filter(move |outcome| outcome.row.fate == fate);
            of_fate.filter(|outcome| outcome.row.of == Counted::Datagrams)
        };
        let sum = |fate| of(fate).map(|outcome| outcome.count).sum::<u64>();
        let received = self.received();
        let mut out = match received {
            0 => "Nothing was received".to_owned(),
            _ => format!(
                "Received {}: {} recorded",
                of_unit(received, "datagram"),
                sum(Fate::Recorded)
            ),
        };
        if sum(Fate::HandedOn) > 0 {
            let _ = write!(out, ", {} handed to builders", sum(Fate::HandedOn));
        }
        if sum(Fate::InDoubt) > 0 {
            let _ = write!(out, ", {} to a builder that has gone", sum(Fate::InDoubt));
        }
        if sum(Fate::Unwanted) > 0 {
            let _ = write!(out, ", {} counted only", sum(Fate::Unwanted));
        }
        if sum(Fate::Filtered) > 0 {
            let _ = write!(out, ", {} filtered", sum(Fate::Filtered));
        }
        if sum(Fate::Duplicate) > 0 {
            let _ = write!(out, ", {}", of_unit(sum(Fate::Duplicate), "duplicate"));
        }
        if sum(Fate::Dropped) > 0 {
            let _ = write!(
                out,
                ", {} not recorded ({})",
                sum(Fate::Dropped),
                listed(of(Fate::Dropped))
            );
        }
        let frames: Vec<_> =
            outcomes.iter().filter(|outcome| outcome.row.of == Counted::Frames).collect();
        if !frames.is_empty() {
            let _ = write!(out, ". Frames without a datagram: {}", listed(frames.into_iter()));
        }
        let _ = write!(out, ". {}. ", self.loss_sentence());
        match self.source_totals().board_dropped {
            0 => {}
            count => {
                let blocks = of_unit(count, "block");
                let _ = write!(out, "Dropped in the board's FIFO, by its counts: {blocks}. ");
            }
        }
        let _ = write!(out, "{}.", self.event_sentence());
        out.push_str(&self.paused_sentence());
        if let Some(sink) = &self.sink {
            let _ = write!(out, " {}.", sink_sentence(sink));
        }
        out
    }

    fn loss_sentence(&self) -> String {
        let totals = self.source_totals();
        let numbered = totals.to_builder.saturating_sub(totals.unsequenced);
        let unseen = match (numbered, totals.unsequenced) {
            (0, 0) if self.edges.as_ref().is_some_and(|edges| edges.came_in > 0) => {
                return "Missing packets are counted by the readouts".to_owned();
            }
            (0, 0) => {
                return "No packet counter was read: lost packets cannot be counted".to_owned();
            }
            (0, _) => return "Packets have no counter: lost packets cannot be counted".to_owned(),
            (_, 0) => String::new(),
            (_, count) => format!(" ({} without a counter)", of_unit(count, "packet")),
        };
        match self.lost() {
            0 => format!("No packet is missing by the packet counters{unseen}"),
            lost => format!("Missing by the packet counters: {lost}{unseen}"),
        }
    }

    fn event_sentence(&self) -> String {
        let (events, incomplete) = (self.events(), self.events_incomplete());
        let late = self.source_totals().in_late.saturating_sub(self.paused.in_late);
        let late =
            if late > 0 { format!(", {}", of_unit(late, "late fragment")) } else { String::new() };
        let has_evidence = !late.is_empty() || !self.amendments.is_empty();
        let then = match self.incomplete_in_files {
            None if has_evidence => " when they closed",
            _ => "",
        };
        format!("Events: {events}, {incomplete} incomplete{then}{late}{}", self.filter_words())
    }

    /// Returns the sentence on armed and paused time; empty without such.
    fn paused_sentence(&self) -> String {
        match (self.events_paused(), self.paused.lost) {
            (0, 0) => String::new(),
            (events, lost) => format!(
                " While armed or paused: {}, {lost} missing packets; not in the files.",
                of_unit(events, "event")
            ),
        }
    }

    /// Returns the filter's share of the sentence on events; empty without a filter.
    fn filter_words(&self) -> String {
        let filter = &self.filter;
        let undecided = match filter.events_undecided {
            0 => String::new(),
            count => format!(", failed on {count} (kept)"),
        };
        let marked = match filter.events_marked {
            0 => String::new(),
            count => format!(", marked {count}"),
        };
        match filter.events_kept + filter.events_filtered + filter.events_undecided {
            0 => String::new(),
            _ => format!(
                "; the filter kept {}, rejected {}{undecided}{marked}",
                filter.events_kept, filter.events_filtered
            ),
        }
    }

    /// Returns the number of packets that are missing by the packet counters, of the time in which
    /// the run was not armed or paused.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.source_totals().lost.saturating_sub(self.paused.lost)
    }

    /// Returns the number of closed events, of the same time.
    #[must_use]
    pub fn events(&self) -> u64 {
        let complete = self.builder.events_complete;
        complete.saturating_sub(self.paused.events_complete) + self.closed_incomplete()
    }

    /// Returns the number of events that closed while the run was armed or paused.
    #[must_use]
    pub fn events_paused(&self) -> u64 {
        self.paused.events_complete + self.paused.events_incomplete
    }

    /// Returns the number of events that lack something, of the same time, by all that is known.
    #[must_use]
    pub fn events_incomplete(&self) -> u64 {
        self.incomplete_in_files.unwrap_or_else(|| self.closed_incomplete())
    }

    /// Returns the number of events that lacked something when they closed.
    fn closed_incomplete(&self) -> u64 {
        let builder = &self.builder;
        let incomplete = builder.events_incomplete + builder.events_stopped;
        incomplete.saturating_sub(self.paused.events_incomplete)
    }
}

/// Returns the places of the events that a sink was given, in a sentence.
fn sink_sentence(sink: &SinkCounters) -> String {
    let places = [
        ("waiting", sink.queued),
        ("refused", sink.refused),
        ("too large for a record", sink.too_large),
        ("timed out", sink.timed_out),
        ("left out", sink.left_out),
        ("without a mapping", sink.unmapped),
        ("values that do not fit", sink.misfits),
        ("messages of start or stop lost", sink.marks_lost),
    ];
    let others = places.iter().filter(|place| place.1 > 0);
    let others: Vec<_> = others.map(|(name, count)| format!("{name} {count}")).collect();
    let rest = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    format!("The sink has acknowledged {} of {} events{rest}", sink.acked, sink.offered)
}

/// Returns a count with its unit: `1 packet`, `2 packets`.
fn of_unit(count: u64, unit: &str) -> String {
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// Returns ends as a list: `rejected 100, truncated 3`.
pub fn listed<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let each = outcomes.map(|outcome| format!("{} {}", outcome.row.words, outcome.count));
    each.collect::<Vec<_>>().join(", ")
}
