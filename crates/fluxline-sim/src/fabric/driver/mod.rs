//! The state of a node's driver: its ends of connections, its imports, its pending completions.
//!
//! Calls of the program are here. `driver/messages.rs` handles other drivers' messages,
//! `driver/work.rs` executes posted work.

mod messages;
mod work;

use std::collections::{BTreeSet, VecDeque};

use fluxline_core::fabric::{
    Completion, EndpointId, ImportError, Key, Name, Operation, PostError, RegionId, Reliability,
    RemoteId, Rights, Slice, Status, Work,
};

use super::adapter::{Action, Hands, Job, Repeat};
use super::endpoint::{Check, Endpoint, Import, Phase, QUEUE_MAX, Receive};
use super::message::Message;
use crate::core::in_order::InOrder;
use crate::{Duration, Instant};

/// Endpoints of one node. A choice.
pub const ENDPOINTS_MAX: u32 = 4096;
/// Regions of one node, and imports. A choice; the cards' address tables had 4096 entries.
pub const REGIONS_MAX: u32 = 4096;

/// A node's driver.
#[derive(Debug)]
pub struct Driver {
    endpoints: Vec<Endpoint>,
    /// The number of endpoints that are not over.
    open: usize,
    imports: Vec<Import>,
    /// The completions, with the time at which a polling program sees each.
    inbox: VecDeque<(Instant, Completion)>,
    now: Instant,
    poll_notice: Duration,
    /// True if jobs to one peer are done in order, so that puts need not wait for each other.
    keeps_order: bool,
    jobs: InOrder<u64, Purpose>,
    next_job: u64,
    gone: BTreeSet<u32>,
    /// The number of work items completed for the program, silent ones included.
    progress: u64,
}

/// The step that follows when a message is in the peer's mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    /// The message was the end of this endpoint's running work, with this status.
    End(EndpointId, Status),
}

/// The purpose of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Work(EndpointId),
    Message(Then),
}

impl Driver {
    /// Makes a driver without connections, of an adapter that keeps the order of jobs or not.
    #[must_use]
    pub fn new(poll_notice: Duration, keeps_order: bool) -> Driver {
        Driver {
            endpoints: Vec::new(),
            open: 0,
            imports: Vec::new(),
            inbox: VecDeque::new(),
            now: Instant::START,
            poll_notice,
            keeps_order,
            jobs: InOrder::default(),
            next_job: 1,
            gone: BTreeSet::new(),
            progress: 0,
        }
    }

    /// Returns the program's next completion, if any.
    pub fn next_completion(&mut self, now: Instant) -> Option<Completion> {
        if self.inbox.front()?.0 > now {
            return None;
        }
        self.inbox.pop_front().map(|of| of.1)
    }

    /// Returns the time of the next completion.
    #[must_use]
    pub fn next_completion_at(&self) -> Option<Instant> {
        self.inbox.front().map(|of| of.0)
    }

    /// Drops the completions that the program has not taken: its node crashed.
    pub fn forget_completions(&mut self) {
        self.inbox.clear();
    }

    /// Sets the time to `now`; call this before completions are made.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns the number of work items completed for the program.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.progress
    }

    fn complete(&mut self, what: Completion) {
        self.progress += 1;
        self.inbox.push_back((self.now + self.poll_notice, what));
    }

    /// Returns the number of ends that stand or are asked for.
    #[must_use]
    pub fn endpoints_open(&self) -> usize {
        self.open
    }

    /// Adds an end that stands or is asked for.
    fn add(&mut self, end: Endpoint) -> EndpointId {
        self.endpoints.push(end);
        self.open += 1;
        EndpointId(self.endpoints.len() as u32 - 1)
    }

    /// The other ends' nodes, each once.
    #[must_use]
    pub fn peers(&self) -> BTreeSet<u32> {
        let open = self.endpoints.iter().filter(|end| end.phase != Phase::Over);
        open.map(|end| end.peer).collect()
    }

    /// Returns true if an end stands or is asked for.
    #[must_use]
    pub fn has_peers(&self) -> bool {
        self.open > 0
    }

    /// Takes a node that was given up as a new one: it has started again.
    pub fn meet_again(&mut self, peer: u32) {
        self.gone.remove(&peer);
    }

    /// Returns true if a node was given up.
    #[must_use]
    pub fn is_gone(&self, peer: u32) -> bool {
        self.gone.contains(&peer)
    }

    fn open(&mut self, endpoint: EndpointId) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(endpoint.0 as usize).filter(|end| end.phase == Phase::Open)
    }

    /// Asks a node for a connection.
    pub fn connect(
        &mut self,
        hands: &mut dyn Hands,
        peer: u32,
        reliability: Reliability,
    ) -> EndpointId {
        let endpoint = self.add(Endpoint::new(Phase::Connecting, peer, 0, reliability));
        if self.gone.contains(&peer) {
            self.close(hands, endpoint, Status::PeerGone);
        } else {
            let reliable = reliability == Reliability::Reliable;
            let asks = Message::Connect { endpoint: endpoint.0, reliable };
            self.send(hands, peer, asks, Then::Nothing);
        }
        endpoint
    }

    /// Ends a connection, or the attempt at one.
    pub fn disconnect(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
    ) -> Result<(), PostError> {
        let end = self.endpoints.get(endpoint.0 as usize).ok_or(PostError::NotConnected)?;
        let (phase, peer, other) = (end.phase, end.peer, end.other);
        if phase == Phase::Over {
            return Err(PostError::NotConnected);
        }
        self.close(hands, endpoint, Status::Done);
        if phase == Phase::Open {
            self.send(hands, peer, Message::Disconnect { endpoint: other }, Then::Nothing);
        }
        Ok(())
    }

    /// Asks for a region.
    pub fn import(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        name: &Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let number = self.imports.len() as u32;
        let end = self.open(endpoint).ok_or(ImportError::NotConnected)?;
        let (peer, other) = (end.peer, end.other);
        if number >= REGIONS_MAX {
            return Err(ImportError::TooMany { max: REGIONS_MAX });
        }
        self.imports.push(Import { endpoint, region: None, rights: Rights::default() });
        let name = name.as_str().to_owned();
        let asks = Message::Import { endpoint: other, number, key: key.0, name };
        self.send(hands, peer, asks, Then::Nothing);
        Ok(RemoteId(number))
    }

    /// An imported region that can be used: the peer, and where it lies there.
    #[must_use]
    pub fn imported(&self, remote: RemoteId) -> Option<(u32, u64, Rights)> {
        let import = self.imports.get(remote.0 as usize)?;
        let end = self.endpoints.get(import.endpoint.0 as usize)?;
        let region = import.region.filter(|_| end.phase == Phase::Open)?;
        Some((end.peer, region.offset, import.rights))
    }

    /// Takes work.
    pub fn post(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        tag: u64,
        work: &Work<'_>,
    ) -> Result<(), PostError> {
        let end = self.open(endpoint).ok_or(PostError::NotConnected)?;
        let (reliability, has_space) = (end.reliability, end.has_space());
        if matches!(work, Work::Fence) {
            // Work is done in order, each piece after the one before is placed.
            self.complete(Completion::Done {
                endpoint,
                tag,
                operation: Operation::Fence,
                status: Status::Done,
                value: 0,
            });
            return Ok(());
        }
        let imports = &self.imports;
        let check = Check { memory: hands.memory(), imports, endpoint, reliability };
        let queued = check.take(tag, work)?;
        if !has_space {
            return Err(PostError::Full);
        }
        self.take(hands, endpoint, queued);
        Ok(())
    }

    /// Returns true if work or a message may still write this own region.
    #[must_use]
    pub fn fills(&self, region: RegionId) -> bool {
        self.endpoints.iter().any(|end| end.fills(region))
    }

    /// Takes a buffer for a message and sends its address to the peer.
    pub fn post_receive(
        &mut self,
        hands: &mut dyn Hands,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        let end = self.open(endpoint).ok_or(PostError::NotConnected)?;
        let place = hands.memory().place(into).map_err(PostError::Local)?;
        if end.receives.len() >= QUEUE_MAX as usize {
            return Err(PostError::Full);
        }
        end.receives.push_back(Receive { tag, into, place });
        let (peer, other) = (end.peer, end.other);
        hands.memory().open_buffer(peer, place);
        self.send(hands, peer, Message::Buffer { endpoint: other, place }, Then::Nothing);
        Ok(())
    }

    /// Closes one end: all pending work is flushed, and then its program gets the reason.
    fn close(&mut self, hands: &mut dyn Hands, endpoint: EndpointId, status: Status) {
        let end = &mut self.endpoints[endpoint.0 as usize];
        if end.phase == Phase::Over {
            return;
        }
        (end.phase, end.waits_since) = (Phase::Over, None);
        self.open -= 1;
        let running = end.running.drain(..).filter(|running| !running.reported);
        let queued = running.map(|of| of.queued).chain(end.queue.drain(..));
        let mut flushed: Vec<(u64, Operation)> =
            queued.map(|of| (of.tag, of.operation())).collect();
        flushed.extend(end.receives.iter().map(|of| (of.tag, Operation::Receive)));
        for receive in end.receives.drain(..) {
            hands.memory().close_buffer(end.peer, receive.place);
        }
        for region in end.granted.drain(..) {
            hands.memory().revoke(end.peer, region);
        }
        end.buffers.clear();
        for (tag, operation) in flushed {
            let status = Status::Flushed;
            self.complete(Completion::Done { endpoint, tag, operation, status, value: 0 });
        }
        self.complete(Completion::Broken { endpoint, status });
    }

    /// A node does not answer any more: its connections are broken, for good.
    pub fn peer_gone(&mut self, hands: &mut dyn Hands, peer: u32) {
        if !self.gone.insert(peer) {
            return;
        }
        for number in 0..self.endpoints.len() {
            if self.endpoints[number].peer == peer {
                self.close(hands, EndpointId(number as u32), Status::PeerGone);
            }
        }
    }

    /// Sends a message to a peer's driver.
    fn send(&mut self, hands: &mut dyn Hands, peer: u32, message: Message, then: Then) {
        if !self.gone.contains(&peer) {
            let action = Action::Message(message.write());
            self.submit(hands, Purpose::Message(then), peer, action, Repeat::Yes);
        }
    }

    /// Gives the adapter a job; returns its number.
    fn submit(
        &mut self,
        hands: &mut dyn Hands,
        purpose: Purpose,
        to: u32,
        action: Action,
        repeat: Repeat,
    ) -> u64 {
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, purpose);
        hands.submit(Job { number, to, action, repeat });
        number
    }

    /// Returns true while work or messages are on their way, or wait for room.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }
}
