//! The managed connections of a node: calls, answers, and the states of connection management.

use alloc::vec::Vec;

use super::config::StaticPeer;
use super::management::mad::RejectReason;
use super::management::manager::Manager;
use super::wire::Ends;
use crate::Moment;
use crate::fabric::EndpointId;

/// Ends of calls that the program has not looked at, at most.
const ANSWERS_MAX: usize = 256;

/// The answer to a request of this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The peer accepted, with this data of its program.
    Accepted(Vec<u8>),
    /// The peer refused, or did not answer.
    Refused(RejectReason),
}

/// A call that is not answered yet.
pub(super) struct PendingCall {
    pub endpoint: EndpointId,
    pub peer: StaticPeer,
    pub ends: Ends,
}

/// An answer that the program has not looked at.
pub(super) struct KeptAnswer {
    pub endpoint: EndpointId,
    pub answer: CallAnswer,
}

/// The managed connections of a node.
#[derive(Default)]
pub(super) struct Managed {
    pub manager: Manager,
    pub calls: Vec<PendingCall>,
    pub answers: Vec<KeptAnswer>,
    /// The PSN of the next datagram.
    pub psn: u32,
}

impl Managed {
    /// Returns true when datagrams are expected.
    pub fn is_used(&self) -> bool {
        self.manager.is_used()
    }

    /// Returns when there is work although no frame arrives.
    pub fn deadline(&self) -> Option<Moment> {
        self.manager.deadline()
    }

    /// Keeps an answer for the program.
    pub fn keep(&mut self, endpoint: EndpointId, answer: CallAnswer) {
        if self.answers.len() >= ANSWERS_MAX {
            self.answers.remove(0);
        }
        self.answers.push(KeptAnswer { endpoint, answer });
    }
}
