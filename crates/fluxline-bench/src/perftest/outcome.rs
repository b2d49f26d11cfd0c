//! The result of one test.

use std::net::IpAddr;
use std::time::Duration;

use fluxline_core::endpoint::counters::ConnectionCounters;

use super::message::Report;
use super::plan::Plan;
use super::program::Program;
use crate::statistics::{Summary, percentile};

/// The peer, and what both ends agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerTerms {
    /// Its address for remote memory.
    pub address: IpAddr,
    /// The version that it said.
    pub version: String,
    /// The payload of a frame at most \[byte\].
    pub path_mtu: usize,
    /// The number of queue pairs.
    pub pairs: usize,
}

/// Frames that were lost, and sent again, as this end saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Frames of this end that it sent again.
    pub repeated: u64,
    /// Frames of the peer that had come before.
    pub duplicate: u64,
    /// Frames of the peer that came after a missing one, or on an unreliable connection never.
    pub missing: u64,
    /// Frames of another transport, or to another queue pair.
    pub foreign: u64,
}

impl Frames {
    /// Returns those of one connection.
    pub(super) fn of(counters: &ConnectionCounters) -> Frames {
        Frames {
            repeated: counters.frames_repeated,
            duplicate: counters.frames_duplicate,
            missing: counters.frames_ahead + counters.frames_lost,
            foreign: counters.frames_foreign,
        }
    }

    /// Returns the sum of two connections.
    pub(super) fn plus(self, other: Frames) -> Frames {
        Frames {
            repeated: self.repeated + other.repeated,
            duplicate: self.duplicate + other.duplicate,
            missing: self.missing + other.missing,
            foreign: self.foreign + other.foreign,
        }
    }
}

/// The times of single operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The shortest \[us\].
    pub least_us: f64,
    /// Half took no longer \[us\].
    pub median_us: f64,
    /// 99 of 100 took no longer \[us\].
    pub high_us: f64,
    /// The longest \[us\].
    pub most_us: f64,
}

impl Latency {
    /// Summarizes times \[us\]; `None`: there are none.
    pub(super) fn of(times: &[f64]) -> Option<Latency> {
        let Summary { least, median, most, .. } = Summary::of(times)?;
        let high_us = percentile(times, 0.99)?;
        Some(Latency { least_us: least, median_us: median, high_us, most_us: most })
    }
}

/// The result of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The program.
    pub program: Program,
    /// The peer.
    pub peer: PeerTerms,
    /// The size of an operation \[byte\]; `None`: the peer used several.
    pub bytes: Option<u64>,
    /// The number of operations: those of the peer, or at the client this end's.
    pub operations: u64,
    /// The time from the first to the last of them.
    pub took: Duration,
    /// The times of single operations, where this end measured them; half of those of two messages.
    pub latency: Option<Latency>,
    /// Lost and repeated frames.
    pub frames: Frames,
}

impl Outcome {
    /// Takes the size of an operation from the client's results.
    pub(super) fn set_sizes(&mut self, report: &Report) {
        // With `--all`, the report has the operations of the last size. Some versions count those
        // of all queue pairs.
        let of_all = report.operations.checked_mul(self.peer.pairs as u64);
        let is_one_size = report.operations == self.operations || of_all == Some(self.operations);
        self.bytes = is_one_size.then_some(report.bytes);
    }

    /// Returns the rate \[MB/s\], 10^6 bytes; `None`: there was one operation, or several sizes.
    #[must_use]
    pub fn mb_per_s(&self) -> Option<f64> {
        let seconds = self.took.as_secs_f64();
        let bytes = self.bytes? as f64 * self.operations as f64;
        (seconds > 0.0).then(|| bytes / seconds / 1e6)
    }
}

/// Operations that were done, and the time that they took.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub operations: u64,
    pub began: Option<std::time::Instant>,
    pub took: Duration,
}

impl Progress {
    /// Adds operations that were done by now.
    pub fn add(&mut self, operations: u64) {
        let began = *self.began.get_or_insert_with(std::time::Instant::now);
        self.operations += operations;
        self.took = began.elapsed();
    }

    /// Returns the result of a test of this plan.
    pub fn outcome(self, plan: &Plan, peer: PeerTerms, frames: Frames) -> Outcome {
        Outcome {
            program: plan.program,
            peer,
            bytes: Some(plan.bytes),
            operations: self.operations,
            took: self.took,
            latency: None,
            frames,
        }
    }
}
