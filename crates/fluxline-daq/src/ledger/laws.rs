//! The laws of the ledger, as data: sums of counters that must be equal.
//!
//! A law that does not hold means that packets were counted twice or left out: a defect of the
//! program, not of the network. Loss is allowed; a packet without a place is not.

use serde::{Deserialize, Serialize};

use super::{FilterCounters, Ledger, RemoteWriteCounters, SourceEntry};

/// Two sums of counters that must be equal. A counter is written `place.name`; places are `input`,
/// `remote`, `source`, `edge`, `loop`, `builder`, `filter`, `sink` and `truth`, each summed
/// over all of its
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// The law in words.
    pub name: &'static str,
    /// The counters of the left sum.
    pub left: &'static [&'static str],
    /// The counters of the right sum.
    pub right: &'static [&'static str],
    /// The data that a run must have for it.
    pub needs: Needs,
}

/// The data that a law needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any run.
    Nothing,
    /// An emulator with its counts of sent packets.
    Truth,
    /// An input that peers write into memory.
    RemoteWrites,
    /// A filter that has decided on an event.
    Filter,
    /// A sink of events.
    Sink,
    /// Several nodes, with edges between them.
    Edges,
    /// A feedback loop.
    Loop,
    /// Sources whose packets have the board's own counts; the sums are over these alone.
    BoardCounts,
}

/// The result of a law.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LawResult {
    /// The law in words.
    pub name: String,
    /// The left sum.
    pub left: u64,
    /// The right sum.
    pub right: u64,
}

impl LawResult {
    /// Returns true when the sums are equal.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.left == self.right
    }
}

/// All laws. Each is checked at the end of a run, for the totals over all sources and inputs.
pub const LAWS: &[Law] = &[
    Law {
        name: "received = recorded + each named place",
        left: &["input.datagrams", "input.socket_dropped", "edge.came_in"],
        right: &[
            "source.recorded",
            "edge.handed_on",
            "edge.inherited",
            "edge.in_doubt",
            "source.not_recorded",
            "source.filtered",
            "source.duplicate",
            "source.event_duplicate",
            "source.late",
            "source.held",
            "source.late_dropped",
            "source.builder_full",
            "source.inconsistent",
            "source.write_failed",
            "edge.lost",
            "input.rejected",
            "input.truncated",
            "input.sources_refused",
            "input.ring_full",
            "input.socket_dropped",
        ],
        needs: Needs::Nothing,
    },
    Law {
        name: "datagrams = dropped at the ring + rejected + refused + parsed",
        left: &["input.datagrams"],
        right: &[
            "input.ring_full",
            "input.truncated",
            "input.rejected",
            "input.sources_refused",
            "source.parsed",
        ],
        needs: Needs::Nothing,
    },
    Law {
        name: "parsed = duplicate + late + held + to the builder",
        left: &["source.parsed"],
        right: &["source.duplicate", "source.late", "source.held", "source.to_builder"],
        needs: Needs::Nothing,
    },
    Law {
        name: "to the builder = in order + reordered + without a counter",
        left: &["source.to_builder"],
        right: &["source.in_order", "source.reordered", "source.unsequenced"],
        needs: Needs::Nothing,
    },
    Law {
        name: "expected = in order + reordered + lost",
        left: &["source.expected"],
        right: &["source.in_order", "source.reordered", "source.lost"],
        needs: Needs::Nothing,
    },
    Law {
        name: "taken by the boards = dropped in their FIFOs + sent by them",
        left: &["source.board_taken"],
        right: &["source.board_dropped", "source.expected"],
        needs: Needs::BoardCounts,
    },
    Law {
        name: "to the builder = in events + late + refused + duplicate + inconsistent + lost",
        left: &["source.to_builder", "edge.came_in"],
        right: &[
            "source.in_complete",
            "source.in_incomplete",
            "source.in_late",
            "source.late_dropped",
            "source.builder_full",
            "source.event_duplicate",
            "source.inconsistent",
            "edge.lost",
            "edge.handed_on",
            "edge.in_doubt",
        ],
        needs: Needs::Nothing,
    },
    Law {
        name: "to the builder = handed to builders",
        left: &["source.to_builder"],
        right: &["edge.handed"],
        needs: Needs::Edges,
    },
    Law {
        name: "in events + late = recorded + not written + not to be recorded + filtered",
        left: &["source.in_complete", "source.in_incomplete", "source.in_late"],
        right: &[
            "source.recorded",
            "edge.inherited",
            "source.write_failed",
            "source.not_recorded",
            "source.filtered",
        ],
        needs: Needs::Nothing,
    },
    Law {
        name: "closed events = kept by the filter + filtered + undecided",
        left: &["builder.events_complete", "builder.events_incomplete", "builder.events_stopped"],
        right: &["filter.events_kept", "filter.events_filtered", "filter.events_undecided"],
        needs: Needs::Filter,
    },
    Law {
        name: "sent = datagrams + dropped by the kernel at the socket + dropped elsewhere",
        left: &["truth.sent"],
        right: &["input.datagrams", "input.socket_dropped", "truth.dropped_elsewhere"],
        needs: Needs::Truth,
    },
    Law {
        name: "frames = placed + each named reason why not",
        left: &["remote.frames"],
        right: &[
            "remote.frames_placed",
            "remote.frames_duplicate",
            "remote.frames_wrong_check",
            "remote.frames_unknown_pair",
            "remote.frames_wrong_sender",
            "remote.frames_out_of_bounds",
            "remote.frames_overrun",
            "remote.frames_broken_off",
            "remote.frames_other",
            "remote.frames_put_off",
            "remote.frames_to_repeat",
        ],
        needs: Needs::RemoteWrites,
    },
    Law {
        name: "frames by PSN = placed + overrun + lost",
        left: &["remote.frames_expected"],
        right: &["remote.frames_placed", "remote.frames_overrun", "remote.frames_lost"],
        needs: Needs::RemoteWrites,
    },
    Law {
        name: "records handed to the readout = records that it took",
        left: &["remote.records"],
        right: &["remote.records_taken"],
        needs: Needs::RemoteWrites,
    },
    Law {
        name: "handed to the sink = acknowledged + waiting + each named reason why not",
        left: &["sink.offered"],
        right: &[
            "sink.acked",
            "sink.queued",
            "sink.refused",
            "sink.too_large",
            "sink.timed_out",
            "sink.left_out",
            "sink.unmapped",
        ],
        needs: Needs::Sink,
    },
    Law {
        name: "closed events = decided + declined + skipped + undecided",
        left: &["builder.events_complete", "builder.events_incomplete", "builder.events_stopped"],
        right: &["loop.decided", "loop.declined", "loop.skipped", "loop.undecided"],
        needs: Needs::Loop,
    },
    Law {
        name: "decided + come from elsewhere = arrived + not written + lost + handed on",
        left: &["loop.decided", "loop.came_in"],
        right: &["loop.arrived", "loop.not_written", "loop.lost", "loop.handed_on"],
        needs: Needs::Loop,
    },
];

impl Ledger {
    /// Checks every law that applies.
    #[must_use]
    pub fn check(&self) -> Vec<LawResult> {
        let remote = self.remote_totals() != RemoteWriteCounters::default();
        let filter = self.filter != FilterCounters::default();
        let boards = self.boards();
        LAWS.iter()
            .filter(|law| match law.needs {
                Needs::Nothing => true,
                Needs::Truth => self.truth.is_some(),
                Needs::RemoteWrites => remote,
                Needs::Filter => filter,
                Needs::Sink => self.sink.is_some(),
                Needs::Edges => self.edges.is_some(),
                Needs::Loop => self.feedback.is_some(),
                Needs::BoardCounts => boards.is_some(),
            })
            .map(|law| {
                let of = boards.as_ref().filter(|_| law.needs == Needs::BoardCounts);
                let ledger = of.unwrap_or(self);
                LawResult {
                    name: law.name.to_owned(),
                    left: ledger.sum(law.left),
                    right: ledger.sum(law.right),
                }
            })
            .collect()
    }

    /// Returns a ledger of the sources alone whose packets have the board's own counts; `None`:
    /// there are none.
    pub(super) fn boards(&self) -> Option<Ledger> {
        let counts = |entry: &&SourceEntry| entry.counters.board_taken > 0;
        let sources: Vec<_> = self.sources.iter().filter(counts).cloned().collect();
        (!sources.is_empty()).then(|| Ledger { sources, ..Ledger::default() })
    }

    /// Returns true when every law holds.
    #[must_use]
    pub fn closes(&self) -> bool {
        self.check().iter().all(LawResult::holds)
    }

    /// Returns the total of a counter over all of its place, as laws name it; `None`: no such
    /// counter exists.
    #[must_use]
    pub fn total(&self, counter: &str) -> Option<u64> {
        let (place, name) = counter.split_once('.')?;
        let input = self.input_totals();
        let source = self.source_totals();
        match place {
            "input" => input.rows().find(|row| row.0.name == name).map(|row| row.1),
            "remote" => self.remote_totals().rows().find(|row| row.0.name == name).map(|row| row.1),
            "source" => source.rows().find(|row| row.0.name == name).map(|row| row.1),
            "edge" => {
                let edges = self.edges.clone().unwrap_or_default();
                edges.rows().find(|row| row.0.name == name).map(|row| row.1)
            }
            "loop" => {
                let feedback = self.feedback.clone().unwrap_or_default();
                feedback.rows().find(|row| row.0.name == name).map(|row| row.1)
            }
            "builder" => self.builder.rows().find(|row| row.0.name == name).map(|row| row.1),
            "filter" => self.filter.rows().find(|row| row.0.name == name).map(|row| row.1),
            "host" => self.host.rows().find(|row| row.0.name == name).map(|row| row.1),
            "sink" => self.sink.as_ref()?.rows().find(|row| row.0.name == name).map(|row| row.1),
            "truth" => {
                let truth = self.truth.as_ref()?;
                match name {
                    "sent" => Some(truth.sent),
                    "numbered" => Some(truth.numbered),
                    "dropped_elsewhere" => Some(truth.dropped_elsewhere),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn sum(&self, counters: &[&str]) -> u64 {
        counters.iter().filter_map(|counter| self.total(counter)).sum()
    }
}
