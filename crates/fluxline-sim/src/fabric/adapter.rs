//! The seam between a node's driver and its adapter: jobs in, reports out.

use fluxline_core::fabric::EndpointId;

use super::memory::NodeMemory;
use crate::core::agenda::Schedule;
use crate::core::interconnect::{Interconnect, SendId};
use crate::host::Status;
use crate::{Agenda, Duration, Instant};

/// The work that an adapter does for its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes bytes, at least one.
    Write {
        /// The address.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
        /// A message that the peer's driver gets when they are in place; only for adapters that
        /// [keep the order of jobs](Adapter::keeps_order).
        word: Option<Vec<u8>>,
    },
    /// Reads bytes, at least one.
    Read {
        /// The address.
        offset: u64,
        /// The length \[byte\].
        bytes: u64,
    },
    /// Adds to a word.
    FetchAdd {
        /// The address.
        offset: u64,
        /// The number to add.
        add: u64,
    },
    /// Replaces a word if it has the expected value.
    CompareSwap {
        /// The address.
        offset: u64,
        /// The expected value.
        expected: u64,
        /// The new value.
        desired: u64,
    },
    /// Brings a message of at most [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX) bytes to the
    /// peer's driver. Messages to one peer arrive in order; zeros may follow a message.
    Message(Vec<u8>),
}

/// Something to be done at another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The driver's number, below 2^31.
    pub number: u64,
    /// The node.
    pub to: u32,
    /// The action.
    pub action: Action,
    /// The repetition after a loss.
    pub repeat: Repeat,
}

/// The repetition of lost requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Until it is answered or given up.
    Yes,
    /// Never: its loss is its end.
    No,
}

/// A reason why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other side said so.
    Refused(Status),
    /// No answer.
    Lost,
}

/// A report of an adapter to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The bytes of a job are not needed any more.
    Copied {
        /// The job.
        job: u64,
    },
    /// A job is over: everything that it wrote is in place.
    Ended {
        /// The job.
        job: u64,
        /// The bytes that it read, or the old value of a word.
        result: Result<Vec<u8>, Failure>,
    },
    /// A message of another driver.
    Message {
        /// The sender.
        from: u32,
        /// The message.
        message: Vec<u8>,
    },
    /// A peer does not answer any more. Reported once; jobs to it end as lost.
    PeerGone {
        /// The peer.
        peer: u32,
    },
}

/// The counts of a node's adapter as requester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequesterCounts {
    /// Requests taken.
    pub begun: u64,
    /// Requests that ended with an answer, or without one where none is due.
    pub answered: u64,
    /// Requests that were given up.
    pub given_up: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// Overdue answers that were asked for.
    pub inquiries: u64,
    /// Answers without a waiting request.
    pub stray: u64,
}

/// The counts of a responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderCounts {
    /// Requests that were done.
    pub done: u64,
    /// Requests that were refused: address, type.
    pub refused: u64,
    /// Locks that came again and were answered from memory.
    pub locks_again: u64,
    /// Packets that make no sense: counted, not answered.
    pub malformed: u64,
}

/// The counts of a node's adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As requester.
    pub requester: RequesterCounts,
    /// As responder.
    pub responder: ResponderCounts,
}

/// The end of a send, as the network reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendEnd {
    /// The network took it.
    Done,
    /// It was lost.
    Lost,
}

/// A node's adapter with its host: it does the jobs of the driver by frames on a network, and
/// serves the frames of others on the node's memory.
pub trait Adapter {
    /// The network.
    type Wire: Interconnect;
    /// An entry of the adapter on the agenda; its component is the node.
    type Step: Copy + crate::Entry;

    /// Takes a job.
    fn submit(&mut self, job: Job, agenda: &mut impl Schedule<Self::Step>);

    /// Handles an entry that is due now.
    fn handle(&mut self, step: Self::Step, agenda: &mut impl Schedule<Self::Step>);

    /// Asks a peer for a sign of life; [`Report::PeerGone`] follows if none comes.
    fn probe(&mut self, peer: u32);

    /// Takes the end of one of its sends.
    fn send_ended(&mut self, send: SendId, end: SendEnd, agenda: &mut impl Schedule<Self::Step>);

    /// Does what follows at this moment, up to the next report; `None`: nothing more follows.
    fn next_report<E>(
        &mut self,
        memory: &mut NodeMemory,
        wire: &mut Self::Wire,
        agenda: &mut Agenda<E>,
    ) -> Option<Report>
    where
        E: From<Self::Step> + From<<Self::Wire as Interconnect>::Entry>;

    /// Forgets a peer that has started again; jobs for its former life end as lost. Worlds call it
    /// only if their nodes can start again.
    fn forget(&mut self, peer: u32) {
        let _ = peer;
    }

    /// Returns true if jobs to one peer are done in the order in which they were submitted, also
    /// while several are under way.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Stops: the node crashed. Nothing more leaves it, and nothing is answered.
    fn die(&mut self);

    /// Keeps the processor busy for a time: the program stored through a window.
    fn compute(&mut self, time: Duration, agenda: &mut impl Schedule<Self::Step>);

    /// Returns the time from a completion until a polling program sees it.
    fn poll_notice(&self) -> Duration;

    /// Returns the counts.
    fn counts(&self) -> Counts;

    /// Returns the number of requests that are not over.
    fn transactions_open(&self) -> usize;
}

/// The parts of a node that its driver works with.
pub trait Hands {
    /// Returns the time.
    fn now(&self) -> Instant;

    /// Returns the memory that others can reach.
    fn memory(&mut self) -> &mut NodeMemory;

    /// Gives the adapter a job.
    fn submit(&mut self, job: Job);

    /// Calls [`Driver::no_buffer`](super::driver::Driver::no_buffer) of an endpoint after `wait`.
    fn wait_for_buffer(&mut self, endpoint: EndpointId, wait: Duration);

    /// Keeps the processor busy for a time.
    fn compute(&mut self, time: Duration);
}
