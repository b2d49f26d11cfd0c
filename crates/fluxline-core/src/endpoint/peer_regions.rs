//! Regions of one peer: those that were asked for, and those that are configured.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::config::StaticRemote;
use super::context::CompletionQueue;
use super::frames::{SETUP_REPEAT_AFTER, Setup};
use super::wire::Wire;
use crate::Moment;
use crate::fabric::{Completion, Key, Name, RemoteId, Status};
use crate::port::Port;

/// A request for a region of the peer's that is not answered yet.
pub(super) struct PendingImport {
    pub request: u32,
    pub remote: RemoteId,
    pub name: Name,
    pub key: Key,
    pub sent: Option<Moment>,
}

/// The regions of one peer.
#[derive(Default)]
pub(super) struct PeerRegions {
    pending: VecDeque<PendingImport>,
    /// Regions of a peer that is configured on both sides.
    configured: Vec<StaticRemote>,
}

impl PeerRegions {
    pub fn configured(regions: &[StaticRemote]) -> PeerRegions {
        PeerRegions { pending: VecDeque::new(), configured: regions.to_vec() }
    }

    /// Adds a configured region; an earlier one with the same key is replaced.
    pub fn configure(&mut self, region: StaticRemote) {
        self.configured.retain(|of| of.key != region.key);
        self.configured.push(region);
    }

    /// Returns the configured region with this key.
    pub fn find_configured(&self, key: Key) -> Option<&StaticRemote> {
        self.configured.iter().find(|of| u64::from(of.key) == key.0)
    }

    pub fn push(&mut self, import: PendingImport) {
        self.pending.push_back(import);
    }

    /// Takes out the request with this number, which the peer has answered.
    pub fn take(&mut self, request: u32) -> Option<PendingImport> {
        let index = self.pending.iter().position(|of| of.request == request)?;
        self.pending.remove(index)
    }

    /// Returns when the oldest request is repeated.
    pub fn deadline(&self) -> Option<Moment> {
        let sent = self.pending.front()?.sent?;
        Some(sent + SETUP_REPEAT_AFTER)
    }

    /// Sends requests that are new, or were not answered in time; returns how many.
    pub fn send<P: Port>(&mut self, now: Moment, wire: &mut Wire<'_, P>) -> usize {
        let is_due =
            |of: &PendingImport| of.sent.is_none_or(|sent| now.since(sent) >= SETUP_REPEAT_AFTER);
        let mut sent = 0;
        for of in self.pending.iter_mut().filter(|of| is_due(of)) {
            let setup = Setup::Import { request: of.request, key: of.key, name: of.name.as_str() };
            if !wire.setup(&setup, 0) {
                break;
            }
            of.sent = Some(now);
            sent += 1;
        }
        sent
    }

    /// Completes all requests as flushed: the connection is over.
    pub fn flush(&mut self, completions: &mut CompletionQueue) {
        for import in self.pending.drain(..) {
            let (remote, status) = (import.remote, Status::Flushed);
            completions.push_back(Completion::Imported { remote, status, bytes: 0 });
        }
    }
}
