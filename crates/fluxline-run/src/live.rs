//! A running acquisition as a page or metrics show it: its newest ledger, delays and packets.
//!
//! The threads publish these only while somebody asks ([`Watcher::live`]), ten times a second, so
//! that an acquisition without a watcher does no work for one. Counts of different threads are of
//! slightly different moments: what is between them is in flight ([`Live::in_flight`]).

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use fluxline_core::Moment;
use fluxline_daq::event::{EventBatch, PacketRow};
use fluxline_daq::ledger::Ledger;
use fluxline_packet::Description;
use hdrhistogram::Histogram;

use crate::control::{Control, RunState};
use crate::monitor::{Monitor, Stats};
use crate::plan::Plan;

/// Most sources whose newest packet is kept.
const PACKETS_MAX: usize = 256;
/// Most bytes kept of a packet.
const PACKET_BYTES_MAX: usize = 9216;
/// The longest delay that is told apart \[ns\].
const DELAY_MAX_NS: u64 = 3_600_000_000_000;

/// The delays of closed events, from the arrival of the last packet to the end of building.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Number of events.
    pub events: u64,
    /// Half of the events took at most this \[ns\].
    pub p50_ns: u64,
    /// 90 % of the events took at most this \[ns\].
    pub p90_ns: u64,
    /// 99 % of the events took at most this \[ns\].
    pub p99_ns: u64,
    /// 99.9 % of the events took at most this \[ns\].
    pub p999_ns: u64,
    /// The longest \[ns\].
    pub max_ns: u64,
}

impl Delays {
    /// Makes an empty histogram of two digits, which takes 60 KB.
    fn histogram() -> Histogram<u64> {
        let made = Histogram::new_with_bounds(1, DELAY_MAX_NS, 2);
        made.unwrap_or_else(|error| unreachable!("bounds that are constants: {error}"))
    }
}

/// A packet of an event that closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its row; `bytes` is its whole length.
    pub row: PacketRow,
    /// Its bytes, the first [`PACKET_BYTES_MAX`] of them.
    pub bytes: Vec<u8>,
}

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
    pub(crate) inputs: Arc<Vec<WatchedInput>>,
}

/// What a watcher needs to decode the packets of an input.
#[derive(Clone, Debug)]
pub struct WatchedInput {
    /// The description of its packets.
    pub description: Description,
    /// The UDP port that they were sent to; 0 where there is none.
    pub port: u16,
}

impl Watcher {
    /// Returns the newest state, at most about 0.2 s old once somebody has asked before.
    ///
    /// Cost: copies of the counters of all sources. The readout publishes them for two seconds
    /// after each call.
    #[must_use]
    pub fn live(&self) -> Live {
        let parts = self.monitor.watch();
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

/// Collects delays and packets of closed events, while somebody watches.
pub(crate) struct Sampler {
    delays: Histogram<u64>,
    shown: Delays,
    shown_at: Moment,
    packets: BTreeMap<u32, Newest>,
}

/// The period over which delays are summed \[ns\].
const DELAYS_PERIOD_NS: u64 = 1_000_000_000;

impl Sampler {
    pub fn new() -> Sampler {
        Sampler {
            delays: Delays::histogram(),
            shown: Delays::default(),
            shown_at: Moment::default(),
            packets: BTreeMap::new(),
        }
    }

    /// Takes the events of a batch.
    pub fn take(&mut self, batch: &EventBatch) {
        for event in &batch.events {
            let delay = event.built.since(event.last).as_ns();
            self.delays.saturating_record(delay.max(1));
        }
        let mut end = batch.bytes.len();
        for row in batch.packets.iter().rev() {
            let start = end - row.bytes as usize;
            let bytes = &batch.bytes[start..end];
            end = start;
            self.keep(row, bytes);
        }
    }

    /// Keeps a packet if it is newer than the one of its source.
    fn keep(&mut self, row: &PacketRow, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(PACKET_BYTES_MAX)];
        let full = self.packets.len() >= PACKETS_MAX;
        match self.packets.get_mut(&row.source) {
            Some(newest) if newest.row.time < row.time => {
                newest.row = *row;
                newest.bytes.clear();
                newest.bytes.extend_from_slice(bytes);
            }
            None if !full => {
                let newest = Newest { row: *row, bytes: bytes.to_vec() };
                self.packets.insert(row.source, newest);
            }
            _ => {}
        }
    }

    /// Returns the newest packets.
    pub fn packets(&self) -> Arc<BTreeMap<u32, Newest>> {
        Arc::new(self.packets.clone())
    }

    /// Returns the delays of the last full second.
    pub fn delays(&mut self, now: Moment) -> Delays {
        if now.since(self.shown_at).as_ns() >= DELAYS_PERIOD_NS {
            let of = |quantile| match self.delays.is_empty() {
                true => 0,
                false => self.delays.value_at_quantile(quantile),
            };
            self.shown = Delays {
                events: self.delays.len(),
                p50_ns: of(0.5),
                p90_ns: of(0.9),
                p99_ns: of(0.99),
                p999_ns: of(0.999),
                max_ns: if self.delays.is_empty() { 0 } else { self.delays.max() },
            };
            self.shown_at = now;
            self.delays.reset();
        }
        self.shown
    }
}
