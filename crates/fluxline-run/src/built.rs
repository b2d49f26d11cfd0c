//! The results of readout and building at the end of a run, on one node or several.

use fluxline_core::Moment;
use fluxline_daq::ledger::{InputCounters, InputEntry, Ledger, PausedCounters, RejectEntry};
use fluxline_daq::pipeline::InputTaken;
use fluxline_daq::readout::Readout;
use fluxline_packet::Description;
use serde_json::Value;

use crate::periods::Periods;
use crate::sample::Delays;

/// The results of readout and building at the end of a run.
pub(crate) struct Built {
    /// Counts of sources, builder and rejected packets.
    pub counts: Ledger,
    /// The packets taken of each input.
    pub taken: Vec<InputTaken>,
    /// Counters of the armed and paused time.
    pub paused: PausedCounters,
    pub periods: Periods,
    /// The delays of all events; `None` where packets have times of another day.
    pub delays: Option<Delays>,
    /// The nodes and edges, where there are several.
    pub graph: Option<GraphEnd>,
}

/// The end of a graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphEnd {
    /// Nodes and edges, for run.json.
    pub document: Value,
    /// The block `loop` of run.json; `None`: no node of a loop was here.
    pub feedback: Option<Value>,
    /// The time at which virtual time begins.
    pub began: Moment,
    /// The virtual time at the end; `None`: the run was in the time of this host.
    pub virtual_end: Option<Moment>,
    /// For each input: its readout crashed, in a simulated world.
    pub crashed: Vec<bool>,
}

impl GraphEnd {
    /// Puts the virtual times of a run into its document, in the place of everything about this
    /// host: the same seed gives the same document everywhere.
    pub fn put_times(&self, document: &mut Value) {
        let Some(ended) = self.virtual_end else { return };
        let Some(of) = document.as_object_mut() else { return };
        of.insert("virtual".into(), true.into());
        of.insert("began_ns".into(), self.began.as_ns().into());
        of.insert("ended_ns".into(), ended.as_ns().into());
        for of_host in ["host", "clock", "memory_bytes_most", "control", "periods"] {
            of.remove(of_host);
        }
    }
}

/// Puts the rules that packets broke into words. `rejects` are those of `readout`, in its order.
pub(crate) fn name_rules<'a>(
    rejects: &mut [RejectEntry],
    readout: &Readout,
    description: impl Fn(u16) -> Option<&'a Description>,
) {
    for (entry, row) in rejects.iter_mut().zip(readout.rejects()) {
        let rule = description(row.format).map(|description| description.rule_name(row.reject));
        entry.reason = format!("{}: {}", entry.reason, rule.unwrap_or_default());
    }
}

/// Returns what a readout took of an input, as an entry of a ledger.
pub(crate) fn taken_of(taken: InputTaken) -> InputEntry {
    let counters = InputCounters {
        datagrams: taken.datagrams,
        bytes: taken.bytes,
        rejected: taken.rejected,
        sources_refused: taken.refused,
        truncated: taken.truncated,
        ..InputCounters::default()
    };
    InputEntry { counters, ..InputEntry::default() }
}
