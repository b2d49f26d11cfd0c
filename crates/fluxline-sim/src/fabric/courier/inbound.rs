//! The requests of one peer: each is done once, in order; results are kept until the peer has them.

use std::collections::BTreeMap;

use super::frame::{Frame, Kept};
use super::line::REQUESTS_MAX;
use crate::Instant;
use crate::host::Status;

/// The place of a request in the order of its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was done before.
    Past,
    /// It is the next one.
    Now,
    /// Others come first.
    Later,
}

/// The requests of one peer.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// The last one that is done.
    last: u64,
    /// Results that are more than "done", by number.
    kept: Vec<Kept>,
    /// Requests that came before an earlier one.
    early: BTreeMap<u64, Frame>,
    /// The number of its last inquiry.
    pub heard: u32,
    /// The time until which the peer is to be answered.
    pub owed_by: Option<Instant>,
    /// True if a timer is running.
    pub is_timed: bool,
    /// Frames without results to the peer that have not left: each says what is done by then.
    pub leaving: u32,
}

impl Inbound {
    /// Learns from a frame which requests are over for the peer. One that it gave up is not done
    /// any more.
    pub(super) fn learn(&mut self, oldest: u64) {
        self.last = self.last.max(oldest.saturating_sub(1));
        self.kept.retain(|kept| kept.request >= oldest);
        self.early = self.early.split_off(&(self.last + 1));
    }

    pub(super) fn turn(&self, request: u64) -> Turn {
        match request {
            past if past <= self.last => Turn::Past,
            next if next == self.last + 1 => Turn::Now,
            _ => Turn::Later,
        }
    }

    /// Keeps a request for its turn, unless it cannot be one of those under way.
    pub(super) fn wait(&mut self, frame: Frame) {
        if frame.request - self.last <= REQUESTS_MAX as u64 {
            self.early.insert(frame.request, frame);
        }
    }

    /// Takes out the request whose turn it is, if it came early.
    pub(super) fn next_early(&mut self) -> Option<Frame> {
        self.early.remove(&(self.last + 1))
    }

    /// Counts the next request as done.
    pub(super) fn did(&mut self, result: Result<Vec<u8>, Status>) {
        self.last += 1;
        if result.as_ref().map_or(true, |bytes| !bytes.is_empty()) {
            self.kept.push(Kept { request: self.last, result });
        }
    }

    /// Returns true if results are kept for the peer.
    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Returns the results for an answer, and the last request that is done.
    pub(super) fn answer(&mut self) -> (u64, Vec<Kept>) {
        self.owed_by = None;
        (self.last, self.kept.clone())
    }

    /// Returns the last request of which a frame without results can say that it is done.
    pub(super) fn plainly_done(&mut self) -> u64 {
        match self.kept.first() {
            Some(kept) => kept.request - 1,
            None => {
                self.owed_by = None;
                self.last
            }
        }
    }
}
