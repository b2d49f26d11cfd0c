//! The state of a cluster: the fold of the records of its control topic.
//!
//! Nodes hold no elections. A node that sees something due writes a record; the first record in
//! the log's order that fits the state is valid, and every node ignores the later ones. So all
//! nodes that have read the same records have the same state ([`ControlState::apply`] is a pure
//! function).

use std::collections::BTreeMap;

use super::block::Role;
use super::record::{Begin, ControlRecord, Join};
pub use super::refusal::{CLOCK_MS_MAX, JoinRefusal};
pub use super::run_record::{RunReadout, RunRecord};

/// Most notes of a run.
const NOTES_MAX: usize = 1000;
/// Runs that are kept after their end.
const RUNS_KEPT: usize = 64;

/// The state of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlState {
    /// The processes that have joined, by [`Join::member`].
    members: BTreeMap<String, Join>,
    /// Processes that another one of the same name replaced: their incarnations, and the successor.
    replaced: BTreeMap<u64, Join>,
    /// Processes that may not take part.
    refused: BTreeMap<u64, JoinRefusal>,
    /// The newest runs; only the last one may be open.
    runs: Vec<RunRecord>,
    /// Records that are not ours, or that no longer fitted the state.
    ignored: u64,
}

impl Join {
    /// Returns the name that only one process of the cluster may have: the node's name, with the id
    /// for builders.
    #[must_use]
    pub fn member(&self) -> String {
        match self.role {
            Role::Readout => self.node.clone(),
            Role::Builder => format!("{}/{}", self.node, self.id),
        }
    }
}

impl ControlState {
    /// Applies a record that the brokers took at `broker_ms`, by their clock. Returns false when it
    /// is foreign or does not fit the state; it is ignored then.
    pub fn apply(&mut self, bytes: &[u8], broker_ms: i64) -> bool {
        let is_valid = match ControlRecord::read(bytes) {
            None => false,
            Some(ControlRecord::Join(join)) => self.join(join, broker_ms),
            Some(ControlRecord::Leave { incarnation }) => self.leave(incarnation),
            Some(ControlRecord::Begin(begin)) => self.begin(begin, broker_ms),
            Some(record) => self.change(record),
        };
        self.ignored += u64::from(!is_valid);
        is_valid
    }

    /// Returns the run that goes on.
    #[must_use]
    pub fn open_run(&self) -> Option<&RunRecord> {
        self.runs.last().filter(|run| !run.is_over())
    }

    /// Returns the newest runs, oldest first.
    #[must_use]
    pub fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Returns a run by its number.
    #[must_use]
    pub fn run(&self, number: u64) -> Option<&RunRecord> {
        self.runs.iter().find(|run| run.number() == number)
    }

    /// Returns the processes that have joined, by node and id.
    pub fn members(&self) -> impl Iterator<Item = &Join> {
        self.members.values()
    }

    /// Returns the process of the same name that replaced this one.
    #[must_use]
    pub fn replaced_by(&self, incarnation: u64) -> Option<&Join> {
        self.replaced.get(&incarnation)
    }

    /// Returns the reason why a process may not take part.
    #[must_use]
    pub fn refusal(&self, incarnation: u64) -> Option<&JoinRefusal> {
        self.refused.get(&incarnation)
    }

    /// Returns true when this process has joined and no other has replaced it.
    #[must_use]
    pub fn has_joined(&self, incarnation: u64) -> bool {
        self.members.values().any(|member| member.incarnation == incarnation)
    }

    /// Returns the number of records that were ignored.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the next run's number, digest and readout nodes when all of them have joined with
    /// one experiment; the offsets are left to the caller. Otherwise the names of those that are
    /// missing, or nothing while a run is open.
    pub fn next_run(&self) -> Result<Begin, Vec<String>> {
        if self.open_run().is_some() {
            return Err(Vec::new());
        }
        let readouts = || self.members.values().filter(|member| member.role == Role::Readout);
        let Some(newest) = readouts().max_by_key(|member| (member.at_ns, &member.node)) else {
            return Err(vec!["every readout node".to_owned()]);
        };
        let has_joined = |name: &&String| {
            readouts().any(|member| member.node == **name && member.digest == newest.digest)
        };
        let missing: Vec<String> =
            newest.readouts.iter().filter(|name| !has_joined(name)).cloned().collect();
        if !missing.is_empty() {
            return Err(missing);
        }
        let run = self.runs.last().map_or(1, |run| run.number() + 1);
        let (digest, readouts) = (newest.digest.clone(), newest.readouts.clone());
        Ok(Begin { run, digest, readouts, ..Begin::default() })
    }

    fn join(&mut self, join: Join, broker_ms: i64) -> bool {
        let is_old = self.replaced.contains_key(&join.incarnation);
        if is_old || self.has_joined(join.incarnation) {
            return false;
        }
        if let Some(refusal) = self.refuse(&join, broker_ms) {
            self.refused.insert(join.incarnation, refusal);
            return false;
        }
        self.refused.remove(&join.incarnation);
        if let Some(run) = self.runs.last_mut().filter(|run| !run.is_over())
            && let Some(readout) = run.readouts.get_mut(&join.node)
        {
            readout.start += 1;
            readout.incarnation = join.incarnation;
        }
        if let Some(before) = self.members.insert(join.member(), join.clone()) {
            self.replaced.insert(before.incarnation, join);
        }
        true
    }

    /// Forgets a process that waited for a run. In an open run a readout node stays, since its
    /// part is not complete.
    fn leave(&mut self, incarnation: u64) -> bool {
        let in_run = self.open_run().is_some();
        let before = self.members.len();
        self.members.retain(|_, member| {
            member.incarnation != incarnation || (in_run && member.role == Role::Readout)
        });
        self.members.len() < before
    }

    fn refuse(&self, join: &Join, broker_ms: i64) -> Option<JoinRefusal> {
        let host = join.host.clone();
        let ahead_ms = ((join.at_ns / 1_000_000) as i64).saturating_sub(broker_ms);
        let has_time = join.role == Role::Readout && !join.reads_files;
        if has_time && ahead_ms.saturating_abs() > CLOCK_MS_MAX {
            return Some(JoinRefusal::Clock { host, ahead_ms });
        }
        let run = self.open_run()?;
        let (number, node) = (run.number(), join.node.clone());
        if join.digest != run.begin.digest {
            return Some(JoinRefusal::Digest { host, run: number });
        }
        if join.role == Role::Builder {
            return None;
        }
        match run.readouts.get(&join.node) {
            None => Some(JoinRefusal::NotInRun { node, run: number }),
            Some(readout) if readout.ended => Some(JoinRefusal::Ended { node, run: number }),
            Some(_) if join.reads_files => Some(JoinRefusal::Files { node, run: number }),
            Some(_) => None,
        }
    }

    fn begin(&mut self, begin: Begin, began_ms: i64) -> bool {
        let Ok(expected) = self.next_run() else { return false };
        let fits = begin.run == expected.run
            && begin.digest == expected.digest
            && begin.readouts == expected.readouts;
        if !fits {
            return false;
        }
        let incarnation = |name: &String| self.members.get(name).map(|member| member.incarnation);
        let readouts = begin.readouts.iter().filter_map(|name| {
            let incarnation = incarnation(name)?;
            Some((name.clone(), RunReadout { incarnation, start: 0, ended: false }))
        });
        let readouts = readouts.collect();
        self.refuse_others(&begin);
        self.runs.push(RunRecord { begin, began_ms, readouts, ..RunRecord::default() });
        if self.runs.len() > RUNS_KEPT {
            self.runs.remove(0);
        }
        true
    }

    /// Refuses the processes that wait with another experiment than that of a run which begins.
    fn refuse_others(&mut self, begin: &Begin) {
        let others = self.members.values().filter(|member| member.digest != begin.digest);
        self.refused.extend(others.map(|member| {
            let (host, run) = (member.host.clone(), begin.run);
            (member.incarnation, JoinRefusal::Digest { host, run })
        }));
        self.members.retain(|_, member| member.digest == begin.digest);
    }

    /// Applies a record about the open run.
    fn change(&mut self, record: ControlRecord) -> bool {
        let Some(run) = self.runs.last_mut().filter(|run| !run.is_over()) else { return false };
        let is_this = |number: u64| number == run.begin.run;
        match record {
            ControlRecord::Stop { run: number } if is_this(number) => {
                !std::mem::replace(&mut run.stopped, true)
            }
            ControlRecord::Pause { run: number, at_ns } if is_this(number) => {
                run.change(true, at_ns)
            }
            ControlRecord::Resume { run: number, at_ns } if is_this(number) => {
                run.change(false, at_ns)
            }
            ControlRecord::Marked { run: number, is_stop } if is_this(number) => {
                let mark = if is_stop { &mut run.has_stop } else { &mut run.has_start };
                !std::mem::replace(mark, true)
            }
            ControlRecord::Shot { run: number, shot } if is_this(number) => {
                run.shot = Some(shot);
                true
            }
            ControlRecord::Note { run: number, text, at_ns } if is_this(number) => {
                let note = (at_ns, text);
                let is_new = run.notes.len() < NOTES_MAX && !run.notes.contains(&note);
                if is_new {
                    run.notes.push(note);
                }
                is_new
            }
            ControlRecord::Finished { run: number, node, incarnation } if is_this(number) => {
                let readout = run.readouts.get_mut(&node);
                let its = readout.filter(|its| its.incarnation == incarnation && !its.ended);
                its.map(|its| its.ended = true).is_some()
            }
            ControlRecord::EndNode { run: number, node, start } if is_this(number) => {
                // The end records of a node that has ended may be lost: builders take others only
                // of a new start. A record that comes twice does not fit the second time.
                let fits = |its: &&mut RunReadout| !its.ended || start == its.start.checked_add(1);
                let Some(readout) = run.readouts.get_mut(&node).filter(fits) else { return false };
                readout.start += 1;
                readout.ended = true;
                true
            }
            ControlRecord::Abandon { run: number } if is_this(number) => {
                run.abandoned = true;
                self.end_run();
                true
            }
            ControlRecord::Built { run: number, partition, .. } if is_this(number) => {
                let is_new = partition < run.partitions() && run.built.insert(partition);
                if is_new && run.is_over() {
                    self.end_run();
                }
                is_new
            }
            _ => false,
        }
    }

    /// Forgets the processes of a run that is over: each ends with it.
    fn end_run(&mut self) {
        self.members.clear();
        self.replaced.clear();
        self.refused.clear();
    }
}
