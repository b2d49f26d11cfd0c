//! The verdict on a run over several machines, in one sentence.

use fluxline_daq::experiment::{
    CLOCK_APART, NOT_ACKNOWLEDGED, NOTHING_KEPT, SILENT, UNDECIDED, accepts,
};
use fluxline_daq::ledger::{InputCounters, InputEntry, LawResult, Ledger};
use fluxline_run::link_reasons;

use super::block::Role;
use super::ledger::{ClusterLedger, NodeRow};
use super::life::Life;
use super::places::{DEAD_READOUT, Fate, is_gone};
use super::sources::Sources;
use super::table::printable;

/// The word of `accept` for events that are larger than a record of their topic may be.
const EVENTS_REFUSED: &str = "events_refused";

/// The verdict on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterVerdict {
    /// The run has ended, and all received data is in events, or where the experiment accepts it.
    Complete,
    /// A law does not hold.
    LedgerOpen(String),
    /// The run goes on.
    Running(String),
    /// The run has ended, and received data is in no event.
    LookNeeded(String),
}

impl ClusterVerdict {
    /// Returns the sentence, if there is something to say.
    #[must_use]
    pub fn sentence(&self) -> Option<&str> {
        match self {
            ClusterVerdict::Complete => None,
            ClusterVerdict::LedgerOpen(sentence)
            | ClusterVerdict::Running(sentence)
            | ClusterVerdict::LookNeeded(sentence) => Some(sentence),
        }
    }
}

impl ClusterLedger {
    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> ClusterVerdict {
        let laws = self.check();
        if let Some(law) = laws.iter().find(|law| !law.holds()) {
            let LawResult { name, left, right } = law;
            return ClusterVerdict::LedgerOpen(format!(
                "the ledger of run {} of {} does not close: {}: {left} is not {right}.",
                self.run,
                printable(&self.cluster),
                printable(name)
            ));
        }
        if self.abandoned {
            return ClusterVerdict::LookNeeded(self.abandoned_sentence());
        }
        if !self.is_over() {
            return ClusterVerdict::Running(self.running_sentence());
        }
        let mut reasons: Vec<String> = self.losses().into_iter().collect();
        let refused = self.committed.refused;
        if refused > 0 && !accepts(&self.accept, EVENTS_REFUSED) {
            reasons.push(format!(
                "{refused} events are larger than a record may be and are not in the topic of \
                 events: gather the builders' folders, which have them where output = \"both\"; \
                 for later runs, raise max.message.bytes of the topic"
            ));
        }
        reasons.extend(self.source_reasons());
        reasons.extend(self.sink_reasons());
        reasons.extend(self.filter_reasons());
        reasons.extend(self.clock_reasons());
        reasons.extend(self.deaths());
        if reasons.is_empty() {
            return ClusterVerdict::Complete;
        }
        ClusterVerdict::LookNeeded(format!(
            "run {} of {} has ended, but {}.",
            self.run,
            printable(&self.cluster),
            reasons.join("; ")
        ))
    }

    fn abandoned_sentence(&self) -> String {
        let open = |partition: &u32| self.built.get(partition).is_none_or(|row| !row.is_over());
        let open: Vec<String> =
            (0..self.partitions).filter(open).map(|partition| partition.to_string()).collect();
        let lost = self.sum_of(Fate::InFlight).saturating_add(self.sum_of(Fate::Lost));
        format!(
            "run {} of {} was abandoned before partitions {} were built: {lost} packets are in no \
             committed event.",
            self.run,
            printable(&self.cluster),
            open.join(", ")
        )
    }

    fn losses(&self) -> Option<String> {
        let lost = self.places().into_iter().filter(|place| {
            place.fate == Fate::Lost && place.count > 0 && !accepts(&self.accept, place.name)
        });
        let lost: Vec<_> = lost.collect();
        let sum = lost.iter().map(|place| place.count).fold(0, u64::saturating_add);
        let each: Vec<_> =
            lost.iter().map(|place| format!("{} {}", place.words, place.count)).collect();
        let unit = if sum == 1 { "packet is" } else { "packets are" };
        (sum > 0).then(|| format!("{sum} {unit} in no event ({})", each.join(", ")))
    }

    /// Returns the reasons to look at the inputs and sources, as for a run on one machine.
    fn source_reasons(&self) -> Vec<String> {
        let Sources { remote, faults, require, .. } = &self.sources;
        let totals = self.readout_totals();
        let counters = InputCounters {
            frames_unusable: totals.frames_unusable,
            check_sum_wrong: totals.check_sum_wrong,
            ..InputCounters::default()
        };
        let input = InputEntry { counters, remote: remote.clone(), ..InputEntry::default() };
        let ledger = Ledger { inputs: vec![input], ..Ledger::default() };
        let mut reasons = link_reasons(&ledger, &self.accept, faults);
        if let Some(require) = require.as_ref().filter(|_| !accepts(&self.accept, SILENT)) {
            reasons.extend(self.sources.silence().absent(require));
        }
        reasons
    }

    /// Returns the reasons to look at the topic of `[sink.kafka]`.
    fn sink_reasons(&self) -> Vec<String> {
        let sink = self.committed.sink;
        let mut reasons = Vec::new();
        if sink.refused > 0 && !accepts(&self.accept, EVENTS_REFUSED) {
            reasons.push(format!(
                "{} events are larger than a record may be and are not in the topic of \
                 [sink.kafka]; raise its max.message.bytes and `record-bytes`",
                sink.refused
            ));
        }
        if sink.misfits > 0 && !accepts(&self.accept, NOT_ACKNOWLEDGED) {
            reasons.push(format!(
                "{} values do not fit into the schema of [sink.kafka] and are not in its topic",
                sink.misfits
            ));
        }
        reasons
    }

    /// Returns the reasons to look at the filter.
    fn filter_reasons(&self) -> Vec<String> {
        let totals = self.partition_totals();
        let mut reasons = Vec::new();
        let undecided = totals.events_undecided;
        if undecided > 0 && !accepts(&self.accept, UNDECIDED) {
            reasons.push(format!(
                "the filter failed on {undecided} events; they are recorded, and `missing` says \
                 \"filter: no decision\""
            ));
        }
        let kept = totals.events_kept.saturating_add(undecided);
        if kept == 0 && totals.events_filtered > 0 && !accepts(&self.accept, NOTHING_KEPT) {
            reasons.push(format!("the filter rejected all {} events", totals.events_filtered));
        }
        reasons
    }

    /// Returns the reasons to look at the clocks.
    fn clock_reasons(&self) -> Vec<String> {
        if accepts(&self.accept, CLOCK_APART) {
            return Vec::new();
        }
        let reason = |row: &NodeRow| {
            row.seen.block.readout.as_ref()?.wrong_times(&format!("packets of {}", name_of(row)))
        };
        self.readouts().filter_map(reason).collect()
    }

    /// Returns true when a readout may have received packets that are in no block.
    pub(super) fn has_uncounted(&self) -> bool {
        let is_killed = |row: &NodeRow| is_gone(row) && row.life != Life::Failed;
        self.readouts().any(is_killed) || (self.is_over() && !self.silent.is_empty())
    }

    fn deaths(&self) -> Vec<String> {
        if accepts(&self.accept, DEAD_READOUT) {
            return Vec::new();
        }
        let silent = self.silent.iter().map(|node| {
            let node = printable(node);
            format!("{node} died before its first block: its packets cannot be counted")
        });
        self.readouts().filter(|row| is_gone(row)).map(death).chain(silent).collect()
    }

    fn running_sentence(&self) -> String {
        let in_flight = self.sum_of(Fate::InFlight);
        let state = format!(
            "run {} of {} has not ended: {in_flight} packets are in flight",
            self.run,
            printable(&self.cluster)
        );
        let silent: Vec<String> = self.silent.iter().map(|name| printable(name)).collect();
        let silent =
            (!silent.is_empty()).then(|| format!("no block came from {}", silent.join(", ")));
        let parts: Vec<String> = std::iter::once(state)
            .chain(self.dead_readouts_in_words())
            .chain(self.builders_in_words())
            .chain(silent)
            .collect();
        format!("{}.", parts.join("; "))
    }

    /// Returns what to do about each dead readout.
    fn dead_readouts_in_words(&self) -> impl Iterator<Item = String> {
        self.readouts().filter(|row| row.life == Life::Dead).map(|row| {
            format!(
                "{} is dead: start it again, or end it with `fluxline ctl kafka://BROKER/{} end {}`",
                name_of(row),
                printable(&self.cluster),
                printable(&row.seen.block.node)
            )
        })
    }

    /// Returns what to do about builders; `None`: nothing.
    fn builders_in_words(&self) -> Option<String> {
        let builders = || self.nodes.iter().filter(|row| row.seen.block.role == Role::Builder);
        let dead: Vec<String> =
            builders().filter(|row| row.life == Life::Dead).map(name_of).collect();
        let mut parts = Vec::new();
        let (verb, whose) = if dead.len() == 1 { ("is", "its") } else { ("are", "their") };
        if !dead.is_empty() {
            parts.push(format!("{} {verb} dead", dead.join(", ")));
        }
        let missing = (self.partitions as usize).saturating_sub(self.built.len());
        match builders().any(|row| row.life == Life::Alive) {
            false => parts.push("no builder is running: start one".to_owned()),
            true if !dead.is_empty() => parts.push(format!("others do {whose} work")),
            true if missing > 0 => {
                parts.push(format!("no builder has reported {missing} of its partitions"));
            }
            true => {}
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Returns the sentence about a readout that stopped early.
fn death(row: &NodeRow) -> String {
    let block = &row.seen.block;
    let name = name_of(row);
    match row.life {
        Life::Failed => format!("{name} stopped early ({})", printable(&block.sentence)),
        _ => format!(
            "{name} died: packets that it received after its last block and did not hand over \
             cannot be counted"
        ),
    }
}

/// Returns a process in words: name, start or id, host and process id.
pub(super) fn name_of(row: &NodeRow) -> String {
    let block = &row.seen.block;
    let node = printable(&block.node);
    let name = match block.role {
        Role::Readout => format!("{node} (start {}", block.start),
        Role::Builder => format!("{node} {} (", printable(&block.id)),
    };
    let separator = if name.ends_with('(') { "" } else { ", " };
    format!("{name}{separator}pid {} on {})", block.pid, printable(&block.host))
}
