//! A running acquisition as a page or metrics show it: its newest ledger, delays and packets.
//!
//! The threads publish these only while somebody asks ([`Watcher::live`]), ten times a second, and
//! once a second for the health of the run: an acquisition without a watcher keeps no packets.
//! Counts of different threads are of slightly different moments: what is between them is in flight
//! ([`Live::in_flight`]).

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_daq::ledger::Ledger;
use fluxline_packet::Description;

use crate::alarms::Health;
use crate::control::{Control, RunState};
use crate::monitor::{Monitor, Stats};
use crate::plan::Plan;
use crate::plots::Plots;
use crate::sample::{DelayCount, Delays, Newest};
use crate::slow::SlowValues;

/// The state of an acquisition at a moment.
#[derive(Clone, Debug)]
pub struct Live {
    /// The moment.
    pub at: Moment,
    /// The run's state.
    pub state: RunState,
    /// The counters of the acquisition's line on the terminal.
    pub stats: Stats,
    /// The ledger so far. Lists of missing numbers are left out.
    pub ledger: Ledger,
    /// The time at which the readout published the ledger, for rates.
    pub counted_at: Moment,
    /// Delays of the events that closed in the last second.
    pub delays: Delays,
    /// The same delays by class.
    pub delay_counts: Arc<[DelayCount]>,
    /// The newest packet of each source, by its number.
    pub packets: Arc<BTreeMap<u32, Newest>>,
    /// Free space of the run folder's disk \[byte\]; `None`: nothing is recorded.
    pub free_bytes: Option<u64>,
}

impl Live {
    /// Returns the number of received datagrams that have no place yet: they are in rings, in open
    /// events, or in batches on the way to the disk.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        use fluxline_daq::ledger::{Counted, OUTCOMES};
        let counted = OUTCOMES.iter().filter(|row| row.of == Counted::Datagrams);
        let ended: u64 = counted.filter_map(|row| self.ledger.total(row.counter)).sum();
        self.ledger.received().saturating_sub(ended)
    }
}

/// Watches and controls an acquisition from other threads; clones watch the same one.
#[derive(Clone, Debug)]
pub struct Watcher {
    pub(crate) plan: Arc<Plan>,
    pub(crate) monitor: Monitor,
    pub(crate) control: Control,
    pub(crate) health: Health,
    pub(crate) slow: Option<SlowValues>,
    pub(crate) plots: Plots,
    pub(crate) inputs: Arc<Vec<WatchedInput>>,
}

/// The description by which the packets of an input are decoded, and their port.
#[derive(Clone, Debug)]
pub struct WatchedInput {
    /// The description of its packets.
    pub description: Description,
    /// The UDP port that they were sent to; 0 where there is none.
    pub port: u16,
}

impl Watcher {
    /// Makes the watcher of an acquisition.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        monitor: &Monitor,
        control: &Control,
        inputs: Arc<Vec<WatchedInput>>,
    ) -> Watcher {
        let (plan, monitor, control) = (plan.clone(), monitor.clone(), control.clone());
        let (health, plots) = (Health::default(), Plots::default());
        Watcher { plan, monitor, control, health, slow: None, plots, inputs }
    }

    /// Returns the newest state, at most about 0.2 s old once somebody has asked before.
    ///
    /// Cost: copies of the counters of all sources. The readout publishes them for two seconds
    /// after each call.
    #[must_use]
    pub fn live(&self) -> Live {
        self.monitor.watch();
        self.seen()
    }

    /// Returns the state that the threads published last, without asking them for more.
    pub(crate) fn seen(&self) -> Live {
        let parts = self.monitor.parts();
        let mut ledger = parts.ledger;
        for (entry, input) in ledger.inputs.iter_mut().zip(&self.plan.inputs) {
            entry.name.clone_from(&input.name);
        }
        Live {
            at: fluxline::clock::now(),
            state: self.control.state(),
            stats: self.monitor.stats(),
            ledger,
            counted_at: parts.at,
            delays: parts.delays,
            delay_counts: parts.delay_counts,
            packets: parts.packets,
            free_bytes: self.plan.folder.as_deref().and_then(free_bytes),
        }
    }

    /// Returns addresses, folder and bounds of memory.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the notes from number `first` on: problems that a user should see, each once.
    #[must_use]
    pub fn notes(&self, first: usize) -> Vec<String> {
        self.monitor.notes(first)
    }

    /// Returns the inputs, in the order of the experiment; a source's `format` in the ledger is the
    /// number of its input.
    #[must_use]
    pub fn inputs(&self) -> &[WatchedInput] {
        &self.inputs
    }

    /// Returns the health of the run, with its alarms.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Returns the slow control values; `None`: the run takes none.
    #[must_use]
    pub fn slow_values(&self) -> Option<&SlowValues> {
        self.slow.as_ref()
    }

    /// Returns the plots over the whole run.
    #[must_use]
    pub fn plots(&self) -> &Plots {
        &self.plots
    }

    /// Returns the control of the run's state.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    fluxline::host::free_bytes(&path).ok()
}
