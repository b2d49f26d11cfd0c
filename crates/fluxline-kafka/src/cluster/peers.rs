//! Watches the other nodes of a run in a thread of its own, by their blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluxline::clock;

use super::block::Role;
use super::control::{ControlState, RunRecord};
use super::liveness::{Expected, LEFT_OUT_AFTER, Liveness, Sign};
use super::record::Join;
use super::watch::LedgerReader;
use crate::settings::Settings;

/// Time for the first look at the ledger.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// Time without a first look after which a note says so.
const SAY_BLIND_AFTER: Duration = Duration::from_secs(30);
/// A look that takes longer than this saw nothing meanwhile: the brokers were away.
const BLIND_AFTER: Duration = Duration::from_secs(3);

/// The blocks that were seen last.
#[derive(Default)]
struct Sight {
    signs: Vec<Sign>,
    /// Number of looks.
    looks: u64,
    /// The last look saw nothing: the brokers are away.
    is_blind: bool,
    /// The reason why the first look failed.
    fault: Option<String>,
}

fn lock(sight: &Mutex<Sight>) -> MutexGuard<'_, Sight> {
    sight.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the other nodes of a run.
pub struct Peers {
    sight: Arc<Mutex<Sight>>,
    over: Arc<AtomicBool>,
    liveness: Liveness,
    looks: u64,
    /// Names of the processes that were seen, for sentences.
    names: BTreeMap<u64, Join>,
    /// Beginning of the watch.
    since: Instant,
    /// The user knows that nothing can be seen.
    said_blind: bool,
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Peers {
    /// Begins to watch the nodes of a run.
    #[must_use]
    pub fn watch(settings: &Settings, cluster: &str, run: &RunRecord) -> Peers {
        let (sight, over) =
            (Arc::new(Mutex::new(Sight::default())), Arc::new(AtomicBool::new(false)));
        let (settings, cluster, run) = (settings.clone(), cluster.to_owned(), run.clone());
        let (shared, ended) = (Arc::clone(&sight), Arc::clone(&over));
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match LedgerReader::open_nodes(&settings, &cluster, &run, FIRST_LOOK) {
                    Ok(reader) => look_on(reader, &shared, &ended),
                    Err(error) => {
                        lock(&shared).fault = Some(error.to_string());
                        std::thread::sleep(LOOK);
                    }
                }
            }
        });
        Peers {
            sight,
            over,
            liveness: Liveness::default(),
            looks: 0,
            names: BTreeMap::new(),
            since: Instant::now(),
            said_blind: false,
        }
    }

    /// Returns the sentences about nodes that died or came back since the last call. `own` is this
    /// process; `ctl` returns the command of a request to the cluster.
    pub fn news(
        &mut self,
        state: &ControlState,
        own: u64,
        ctl: impl Fn(&str) -> String,
    ) -> Vec<String> {
        let Some(run) = state.open_run() else { return Vec::new() };
        let sight = lock(&self.sight);
        if sight.looks == 0 && self.since.elapsed() > SAY_BLIND_AFTER && !self.said_blind {
            self.said_blind = true;
            let reason = sight.fault.clone().unwrap_or_else(|| "no answer".to_owned());
            return vec![format!(
                "note: the counts of the other nodes cannot be read ({reason}): no node is \
                 reported dead, and events wait for a readout that died until it is started again"
            )];
        }
        if sight.looks == self.looks {
            return Vec::new();
        }
        self.looks = sight.looks;
        let now = clock::monotonic();
        if sight.is_blind {
            self.liveness.was_blind(now);
            return Vec::new();
        }
        let signs = sight.signs.clone();
        drop(sight);
        let members: Vec<&Join> =
            state.members().filter(|member| member.incarnation != own).collect();
        for member in &members {
            self.names.insert(member.incarnation, (*member).clone());
        }
        let expected: Vec<Expected> = members.iter().map(|member| expected(member, run)).collect();
        let changes = self.liveness.observe(&expected, &signs, now);
        let sentences = changes.iter().filter_map(|change| {
            let member = self.names.get(&change.incarnation)?;
            Some(sentence(member, change.is_dead, &ctl))
        });
        sentences.collect()
    }
}

impl Peers {
    /// Returns the numbers of the readout nodes of a run that events go on without.
    #[must_use]
    pub fn dead_readouts(&self, state: &ControlState) -> BTreeSet<u16> {
        let Some(run) = state.open_run() else { return BTreeSet::new() };
        let silent: BTreeSet<u64> = self.liveness.silent(LEFT_OUT_AFTER).collect();
        let readouts = state.members().filter(|member| member.role == Role::Readout);
        let dead = readouts.filter(|member| silent.contains(&member.incarnation));
        dead.filter_map(|member| run.number_of(&member.node)).collect()
    }
}

fn look_on(mut reader: LedgerReader, shared: &Mutex<Sight>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        let is_blind = reader.look(LOOK).is_err() || began.elapsed() > BLIND_AFTER;
        let signs = reader.blocks().map(|block| Sign {
            incarnation: block.incarnation,
            sequence: block.sequence,
            is_final: block.state.is_final(),
        });
        let mut sight = lock(shared);
        sight.signs = signs.collect();
        sight.is_blind = is_blind;
        sight.looks += 1;
    }
}

/// Returns the process that a member of the cluster should be.
pub fn expected(member: &Join, run: &RunRecord) -> Expected {
    let readout = run.readouts.get(&member.node).filter(|_| member.role == Role::Readout);
    let ended = readout.is_some_and(|its| its.ended || its.incarnation != member.incarnation);
    Expected { incarnation: member.incarnation, ended }
}

fn sentence(member: &Join, is_dead: bool, ctl: &impl Fn(&str) -> String) -> String {
    let Join { node, id, host, pid, role, .. } = member;
    match (role, is_dead) {
        (Role::Readout, true) => format!(
            "node `{node}` (process {pid} on {host}) has been silent for 3 s: start it again with \
             the same command, or end its part of the run with `{}`; events wait for it for 10 s",
            ctl(&format!("end {node}"))
        ),
        (Role::Builder, true) => format!(
            "builder `{id}` (process {pid} on {host}) has been silent for 3 s: other builders take \
             its partitions over"
        ),
        (Role::Readout, false) => format!("node `{node}` (process {pid} on {host}) is back"),
        (Role::Builder, false) => format!("builder `{id}` (process {pid} on {host}) is back"),
    }
}
