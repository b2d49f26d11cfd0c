//! What an input's thread leaves when it ends.

use fluxline::landing::RingKeeper;
use fluxline::ring::RingCounters;
use fluxline::udp::ReceiverCounters;
use fluxline_daq::ledger::{InputCounters, RemoteWriteCounters};

use super::ring::RingFate;
use super::sensors::SensorsTruth;

/// What an input's thread leaves.
#[derive(Default)]
pub struct InputEnd {
    /// Its counters.
    pub counters: InputCounters,
    /// What became of the frames that peers write into memory.
    pub remote: RemoteWriteCounters,
    /// A push ring that a producer on Ethernet filled: it counts on while the readout empties it.
    pub keeper: Option<RingKeeper>,
    /// What a ring on shared memory has come to, when the readout has emptied it.
    pub fate: RingFate,
    /// Each connection's own counters, where there are connections.
    pub connections: Option<serde_json::Value>,
    /// Its ring's counters.
    pub ring: RingCounters,
    /// The receiver's own counters, for a socket.
    pub receiver: Option<ReceiverCounters>,
    /// Frames of a capture by kind, for a capture.
    pub capture: Option<serde_json::Value>,
    /// What emulated sensors really sent.
    pub truth: Option<SensorsTruth>,
}
