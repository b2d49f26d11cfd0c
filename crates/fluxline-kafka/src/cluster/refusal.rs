//! The reasons why a process may not take part in a cluster.

/// The largest difference between a node's clock and the brokers' \[ms\]. Builders compare the
/// times of readout nodes, so a node beyond it cannot take part.
pub const CLOCK_MS_MAX: i64 = 1000;

/// The reason why a process may not take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// Its clock is wrong.
    #[error(
        "the clock of {host} is {} s {} the brokers' clock; events are built by time, so set the \
        clock (NTP or PTP) and start the node again", seconds(*ahead_ms),
        if *ahead_ms > 0 { "ahead of" } else { "behind" }
    )]
    Clock {
        /// The host.
        host: String,
        /// The node's clock less the brokers' \[ms\].
        ahead_ms: i64,
    },
    /// Its experiment builds other events.
    #[error(
        "run {run} began with another experiment file or description than that of {host}; copy \
        the files of the other nodes to {host}, or wait for the end of the run"
    )]
    Digest {
        /// The host.
        host: String,
        /// The run that goes on.
        run: u64,
    },
    /// The node has no part in the open run.
    #[error("run {run} has no node `{node}`; wait for its end, or `fluxline ctl … stop` it")]
    NotInRun {
        /// The node.
        node: String,
        /// The run.
        run: u64,
    },
    /// The node has ended in the open run.
    #[error("node `{node}` has already ended in run {run}; wait for the end of the run")]
    Ended {
        /// The node.
        node: String,
        /// The run.
        run: u64,
    },
    /// The node reads files, of which the run has a part.
    #[error(
        "node `{node}` reads files, and run {run} has a part of their packets: reading them again \
        would double events; end the node with `fluxline ctl kafka://BROKERS/NAME end {node}`, \
        and read the files in a new run"
    )]
    Files {
        /// The node.
        node: String,
        /// The run.
        run: u64,
    },
}

fn seconds(ms: i64) -> String {
    format!("{:.1}", ms.unsigned_abs() as f64 * 1e-3)
}
