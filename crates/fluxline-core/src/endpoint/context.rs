//! A received frame, and the surroundings in which a connection takes it.

use alloc::collections::VecDeque;

use super::counters::ConnectionCounters;
use super::regions::{Granted, GrantedRange, Regions, RemoteRange};
use crate::Moment;
use crate::fabric::{Completion, Rights, Status};
use crate::roce::Packet;

/// Completions that the program has not polled yet.
pub(super) type CompletionQueue = VecDeque<Completion>;

/// A packet of the standard as it was received.
pub(super) struct ReceivedFrame<'a> {
    pub packet: &'a Packet<'a>,
    /// The frame without its ICRC.
    pub bytes: &'a [u8],
    /// A switch on its way marked it: congestion.
    pub is_marked: bool,
}

/// The parts of a node that a responder uses when a frame comes.
pub(super) struct Context<'a> {
    pub now: Moment,
    pub regions: &'a Regions,
    pub granted: &'a [Granted],
    pub completions: &'a mut CompletionQueue,
    pub counters: &'a mut ConnectionCounters,
}

impl Context<'_> {
    /// Returns the memory that a packet names; checks key, right and bounds.
    #[inline]
    pub fn granted_range(
        &self,
        range: RemoteRange,
        right: fn(Rights) -> bool,
    ) -> Result<GrantedRange<'_>, Status> {
        self.regions.granted_range(self.granted, range, right)
    }
}
