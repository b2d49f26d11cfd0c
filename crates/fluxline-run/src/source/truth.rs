//! The packets that emulated sensors really sent.

use fluxline_daq::emulator::SourceTruth;

/// The packets that the sensors really sent, for comparison with a ledger.
pub struct SensorsTruth {
    /// The packets of each sensor.
    pub sources: Vec<SourceTruth>,
    /// Datagrams that the kernel rejected.
    pub not_sent: u64,
    /// The seed that makes the same packets again.
    pub seed: u64,
}
