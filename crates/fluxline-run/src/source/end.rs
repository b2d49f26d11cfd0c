//! The result of an input's thread.

use fluxline::landing::RingKeeper;
use fluxline::ring::RingCounters;
use fluxline::udp::ReceiverCounters;
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters};

use super::truth::SensorsTruth;
use crate::journey::Journeys;
use crate::ring::RingFate;

/// The result of an input's thread.
#[derive(Default)]
pub(crate) struct InputEnd {
    /// Its counters.
    pub counters: InputCounters,
    /// Counters of the frames that peers write into memory.
    pub remote: RemoteWriteCounters,
    /// A push ring that a producer on Ethernet filled: its counts grow while the readout empties
    /// it.
    pub keeper: Option<RingKeeper>,
    /// The end of a ring on shared memory, known when the readout has emptied it.
    pub fate: RingFate,
    /// Each connection's own counters, where there are connections.
    pub connections: Option<serde_json::Value>,
    /// Its ring's counters.
    pub ring: RingCounters,
    /// The receiver's own counters, for a socket.
    pub receiver: Option<ReceiverCounters>,
    /// Frames of a capture by kind, for a capture.
    pub capture: Option<serde_json::Value>,
    /// A sensor of a simulated world crashed, or lost its readout: packets that it had pushed may
    /// not have come.
    pub has_parted: bool,
    /// The packets that emulated sensors really sent.
    pub truth: Option<SensorsTruth>,
    /// The times from sensors to the readout, in a simulated world.
    pub journeys: Option<Journeys>,
}

impl InputEnd {
    /// Returns the counters of the frames and records that peers wrote, those included that are
    /// known only after the readout has emptied the ring.
    pub fn remote_counters(&self) -> RemoteWriteCounters {
        let mut remote = self.remote.clone();
        remote.records += self.keeper.as_ref().map_or(0, RingKeeper::records);
        // Its connection and its ring both show that a producer has died.
        remote.producers_gone = remote.producers_gone.max(self.fate.producers_died());
        remote.rings_broken += self.fate.broken();
        remote
    }
}
