//! Fan-outs of a node: records that are pushed to several peers.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Node, NodeError, Wait};
use crate::Span;
use crate::fabric::push::{BranchId, FanOut, Follower, PushRefused, ReceiverId, Record};

/// A record of a fan-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its number; the first of a fan-out has 0.
    pub number: u64,
    /// The bytes that were pushed.
    pub bytes: Vec<u8>,
}

impl Node {
    /// Waits until a receiver of a fan-out has joined. Others may go on without.
    ///
    /// Errors: [`NodeError`].
    pub fn wait_joined(
        &mut self,
        fan: &mut FanOut,
        branch: BranchId,
        timeout: Span,
    ) -> Result<(), NodeError> {
        let wait = waits_for_branches("a receiver", timeout);
        self.wait(wait, |node| {
            fan.progress(&mut node.rings, &mut *node.fabric);
            let state = fan.state(branch);
            match (state.is_open, state.refused) {
                (true, _) => Some(Ok(())),
                (false, Some(why)) => Some(Err(NodeError::FanOut { reason: why })),
                (false, None) => None,
            }
        })?
    }

    /// Pushes a record to all receivers of a fan-out that have joined, and publishes it; waits
    /// while one that may not miss it has no room for the record before.
    ///
    /// Errors: [`NodeError`]; then the record was pushed to none.
    pub fn fan_out(
        &mut self,
        fan: &mut FanOut,
        record: &[u8],
        timeout: Span,
    ) -> Result<(), NodeError> {
        let wait = waits_for_branches("room in a ring", timeout);
        self.wait(wait, |node| {
            let pushed = fan.push(&mut node.rings, &mut *node.fabric, record);
            fan.publish(&mut node.rings, &mut *node.fabric);
            match pushed {
                Ok(()) => Some(Ok(())),
                Err(PushRefused::Full) => None,
                Err(why) => Some(Err(NodeError::FanOut { reason: why })),
            }
        })?
    }

    /// Publishes the rest, waits until all records are in the memory of the receivers, and ends
    /// their rings.
    ///
    /// Errors: [`NodeError::Late`].
    pub fn finish_fan_out(&mut self, fan: &mut FanOut, timeout: Span) -> Result<(), NodeError> {
        let wait = waits_for_branches("the end of the rings", timeout);
        self.wait(wait, |node| fan.finish(&mut node.rings, &mut *node.fabric).then_some(()))
    }

    /// Returns the oldest record of an own ring that a fan-out fills, as [`Node::next_record`].
    ///
    /// Errors: [`NodeError`].
    pub fn next_numbered(
        &mut self,
        receiver: ReceiverId,
        follower: &mut Follower,
        timeout: Span,
    ) -> Result<Option<Numbered>, NodeError> {
        let Some(record) = self.next_record(receiver, timeout)? else { return Ok(None) };
        let ring = self.rings.receiver(receiver).map(|ring| ring.name().clone());
        let taken = follower.take(Record::own(&record));
        match (taken, ring) {
            (Ok((number, bytes)), _) => Ok(Some(Numbered { number, bytes: bytes.to_vec() })),
            (Err(broken), Some(ring)) => Err(NodeError::Next { ring, reason: broken.into() }),
            (Err(_), None) => Ok(None), // its ring has just given a record
        }
    }
}

fn waits_for_branches(waits_for: &str, timeout: Span) -> Wait {
    Wait {
        peer: String::from("a fan-out"),
        waits_for: waits_for.into(),
        remedy: "the programs of its receivers must run, and read their rings",
        timeout,
    }
}
