//! The surroundings of a connection while it takes a frame.

use alloc::collections::VecDeque;

use super::counters::ConnectionCounters;
use super::regions::{Granted, Regions};
use crate::Moment;
use crate::fabric::Completion;

/// Completions that the program has not polled yet.
pub(super) type CompletionQueue = VecDeque<Completion>;

/// The parts of a node that a responder uses when a frame comes.
pub(super) struct Context<'a> {
    pub now: Moment,
    pub regions: &'a Regions,
    pub granted: &'a [Granted],
    pub completions: &'a mut CompletionQueue,
    pub counters: &'a mut ConnectionCounters,
}
