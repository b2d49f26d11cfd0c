//! What an input's thread leaves when it ends.

use fluxline::ring::RingCounters;
use fluxline::udp::ReceiverCounters;
use fluxline_daq::ledger::InputCounters;

use super::sensors::SensorsTruth;

/// What an input's thread leaves.
#[derive(Default)]
pub struct InputEnd {
    /// Its counters.
    pub counters: InputCounters,
    /// Its ring's counters.
    pub ring: RingCounters,
    /// The receiver's own counters, for a socket.
    pub receiver: Option<ReceiverCounters>,
    /// Frames of a capture by kind, for a capture.
    pub capture: Option<serde_json::Value>,
    /// What emulated sensors really sent.
    pub truth: Option<SensorsTruth>,
}
