//! The state of a node's driver: its ends of connections, its imports, its pending completions.
//!
//! Calls of the program are here. `driver/messages.rs` handles other drivers' messages,
//! `driver/work.rs` executes posted work.

mod messages;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxline_core::fabric::{
    Completion, EndpointId, ImportError, Key, Name, Operation, PostError, RegionId, Reliability,
    RemoteId, Rights, Slice, Status, Work,
};

use super::address::{MAIL_AT, RemoteAddress};
use super::endpoint::{Check, Endpoint, Import, Phase, QUEUE_MAX, Receive};
use super::entry::Entry;
use super::interrupt::{self, Condition, InterruptReport};
use super::message::{Message, SLOTS};
use super::mover::{Action, Job, Mover};
use super::requester::Repeat;
use super::space::NodeSpace;
use crate::host::Host;
use crate::net::sci::NodeId;
use crate::{Agenda, Duration, Instant};

pub use messages::mail_offset;

/// Endpoints of one node. A choice.
pub const ENDPOINTS_MAX: u32 = 4096;
/// Regions of one node, and imports. A choice; the cards' address tables had 4096 entries.
pub const REGIONS_MAX: u32 = 4096;

/// The parts of a node that its driver works with.
pub struct Hands<'a> {
    /// The memory that others can reach.
    pub space: &'a mut NodeSpace,
    /// Moves bytes.
    pub mover: &'a mut Mover,
    /// With this.
    pub host: &'a mut Host,
    /// The time.
    pub agenda: &'a mut Agenda<Entry>,
}

/// A node's driver.
#[derive(Debug)]
pub struct Driver {
    /// The place of its node in the cluster: its name, in decimals.
    number: usize,
    /// Its own address.
    id: NodeId,
    /// The name of each node.
    names: BTreeMap<NodeId, usize>,
    endpoints: Vec<Endpoint>,
    imports: Vec<Import>,
    /// The completions, with the time at which a polling program sees each.
    inbox: VecDeque<(Instant, Completion)>,
    now: Instant,
    poll_notice: Duration,
    mail: BTreeMap<NodeId, Outbox>,
    jobs: BTreeMap<u64, Purpose>,
    next_job: u64,
    gone: BTreeSet<NodeId>,
    /// Triggers that are over.
    triggered: VecDeque<InterruptReport>,
    /// The number of work items completed for the program, silent ones included.
    progress: u64,
}

/// Messages to one peer.
#[derive(Debug, Default)]
struct Outbox {
    /// Messages that were given a slot.
    written: u32,
    /// Of these, whose writes are not answered: a copy of one may still come to its slot.
    open: BTreeSet<u32>,
    waiting: VecDeque<(Message, Then)>,
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
    Message(NodeId, u32, Then),
    /// A trigger of another node's interrupt.
    Trigger,
}

impl Driver {
    /// Makes a driver without connections.
    #[must_use]
    pub fn new(number: usize, ids: &[NodeId], poll_notice: Duration) -> Driver {
        Driver {
            number,
            id: ids[number],
            names: ids.iter().enumerate().map(|(place, &id)| (id, place)).collect(),
            endpoints: Vec::new(),
            imports: Vec::new(),
            inbox: VecDeque::new(),
            now: Instant::START,
            poll_notice,
            mail: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: 1,
            gone: BTreeSet::new(),
            triggered: VecDeque::new(),
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

    /// Ends that stand or are asked for.
    #[must_use]
    pub fn endpoints_open(&self) -> usize {
        self.endpoints.iter().filter(|end| end.phase != Phase::Over).count()
    }

    /// The other ends' nodes, each once.
    #[must_use]
    pub fn peers(&self) -> BTreeSet<NodeId> {
        let open = self.endpoints.iter().filter(|end| end.phase != Phase::Over);
        open.map(|end| end.peer).collect()
    }

    /// Returns true if a node was given up.
    #[must_use]
    pub fn is_gone(&self, peer: NodeId) -> bool {
        self.gone.contains(&peer)
    }

    fn open(&mut self, endpoint: EndpointId) -> Option<&mut Endpoint> {
        self.endpoints.get_mut(endpoint.0 as usize).filter(|end| end.phase == Phase::Open)
    }

    /// Asks a node for a connection.
    pub fn connect(
        &mut self,
        hands: &mut Hands<'_>,
        peer: NodeId,
        reliability: Reliability,
    ) -> EndpointId {
        let endpoint = EndpointId(self.endpoints.len() as u32);
        self.endpoints.push(Endpoint::new(Phase::Connecting, peer, 0, reliability));
        if self.gone.contains(&peer) {
            self.close(hands, endpoint, Status::PeerGone);
        } else {
            let reliable = reliability == Reliability::Reliable;
            let asks = Message::Connect { endpoint: endpoint.0, reliable };
            self.send(hands, peer, asks, Then::Nothing);
        }
        endpoint
    }

    /// Ends a connection.
    pub fn disconnect(
        &mut self,
        hands: &mut Hands<'_>,
        endpoint: EndpointId,
    ) -> Result<(), PostError> {
        let end = self.open(endpoint).ok_or(PostError::NotConnected)?;
        let (peer, other) = (end.peer, end.other);
        self.close(hands, endpoint, Status::Done);
        self.send(hands, peer, Message::Disconnect { endpoint: other }, Then::Nothing);
        Ok(())
    }

    /// Asks for a region.
    pub fn import(
        &mut self,
        hands: &mut Hands<'_>,
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
    pub fn imported(&self, remote: RemoteId) -> Option<(NodeId, u64, Rights)> {
        let import = self.imports.get(remote.0 as usize)?;
        let end = self.endpoints.get(import.endpoint.0 as usize)?;
        let region = import.region.filter(|_| end.phase == Phase::Open)?;
        Some((end.peer, region.offset, import.rights))
    }

    /// Takes work.
    pub fn post(
        &mut self,
        hands: &mut Hands<'_>,
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
        let check = Check { space: hands.space, imports: &self.imports, endpoint, reliability };
        let queued = check.take(tag, work)?;
        if !has_space {
            return Err(PostError::Full);
        }
        self.endpoints[endpoint.0 as usize].queue.push_back(queued);
        self.advance(hands, endpoint);
        Ok(())
    }

    /// Takes a buffer for a message and sends its address to the peer.
    pub fn post_receive(
        &mut self,
        hands: &mut Hands<'_>,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        let end = self.open(endpoint).ok_or(PostError::NotConnected)?;
        let place = hands.space.place(into).map_err(PostError::Local)?;
        if end.receives.len() >= QUEUE_MAX as usize {
            return Err(PostError::Full);
        }
        end.receives.push_back(Receive { tag, into, place });
        let (peer, other) = (end.peer, end.other);
        hands.space.open_buffer(peer, place);
        self.send(hands, peer, Message::Buffer { endpoint: other, place }, Then::Nothing);
        Ok(())
    }

    /// Closes one end: all pending work is flushed, and then its program gets the reason.
    fn close(&mut self, hands: &mut Hands<'_>, endpoint: EndpointId, status: Status) {
        let end = &mut self.endpoints[endpoint.0 as usize];
        if end.phase == Phase::Over {
            return;
        }
        (end.phase, end.waits_since) = (Phase::Over, None);
        let running = end.running.take().filter(|running| !running.reported);
        let queued = running.map(|of| of.queued).into_iter().chain(end.queue.drain(..));
        let mut flushed: Vec<(u64, Operation)> =
            queued.map(|of| (of.tag, of.operation())).collect();
        flushed.extend(end.receives.iter().map(|of| (of.tag, Operation::Receive)));
        for receive in end.receives.drain(..) {
            hands.space.close_buffer(end.peer, receive.place);
        }
        for region in end.granted.drain(..) {
            hands.space.revoke(end.peer, region);
        }
        end.buffers.clear();
        for (tag, operation) in flushed {
            let status = Status::Flushed;
            self.complete(Completion::Done { endpoint, tag, operation, status, value: 0 });
        }
        self.complete(Completion::Broken { endpoint, status });
    }

    /// A node does not answer any more: its connections are broken, for good.
    pub fn peer_gone(&mut self, hands: &mut Hands<'_>, peer: NodeId) {
        if !self.gone.insert(peer) {
            return;
        }
        hands.space.give_up(peer);
        self.mail.remove(&peer);
        for number in 0..self.endpoints.len() {
            if self.endpoints[number].peer == peer {
                self.close(hands, EndpointId(number as u32), Status::PeerGone);
            }
        }
    }

    /// Writes a message into the peer's mailbox, when there is a slot.
    fn send(&mut self, hands: &mut Hands<'_>, peer: NodeId, message: Message, then: Then) {
        if self.gone.contains(&peer) {
            return;
        }
        self.mail.entry(peer).or_default().waiting.push_back((message, then));
        self.write_mail(hands, peer);
    }

    /// Writes the messages for which there are slots: the peer has said how many it has read.
    pub fn write_mail(&mut self, hands: &mut Hands<'_>, peer: NodeId) {
        let read = hands.space.credit(peer);
        loop {
            let Some(outbox) = self.mail.get_mut(&peer) else { return };
            let read = outbox.open.first().map_or(read, |&first| read.min(first - 1));
            if outbox.written.wrapping_sub(read) >= SLOTS {
                return;
            }
            let Some((message, then)) = outbox.waiting.pop_front() else { return };
            outbox.written = outbox.written.wrapping_add(1);
            let number = outbox.written;
            outbox.open.insert(number);
            let offset = mail_offset(self.id, number);
            let action = Action::Write(message.blocks(number));
            let purpose = Purpose::Message(peer, number, then);
            self.submit(hands, purpose, RemoteAddress { node: peer, offset }, action, Repeat::Yes);
        }
    }

    /// Gives the mover a job; returns its number.
    fn submit(
        &mut self,
        hands: &mut Hands<'_>,
        purpose: Purpose,
        at: RemoteAddress,
        action: Action,
        repeat: Repeat,
    ) -> u64 {
        let number = self.next_job;
        self.next_job += 1;
        self.jobs.insert(number, purpose);
        let job = Job { number, to: at.node, offset: at.offset, action, repeat };
        hands.mover.submit(job, hands.host, hands.agenda);
        number
    }

    /// Triggers an interrupt of another node; the trigger's number is its job's.
    pub fn trigger(
        &mut self,
        hands: &mut Hands<'_>,
        to: NodeId,
        number: u32,
        condition: Condition,
    ) -> u64 {
        let action = match condition {
            Condition::Always => Action::Write(vec![1, 0, 0, 0]),
            Condition::WhenNull => Action::FetchAdd(1),
        };
        let at = RemoteAddress { node: to, offset: interrupt::offset_of(number, condition) };
        self.submit(hands, Purpose::Trigger, at, action, Repeat::Yes)
    }

    /// Returns true while work or messages are on their way, or messages wait for room.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || self.mail.values().any(|outbox| !outbox.waiting.is_empty())
    }

    /// The next trigger that is over.
    pub fn next_triggered(&mut self) -> Option<InterruptReport> {
        self.triggered.pop_front()
    }

    /// The program was interrupted: it is to be looked at.
    pub fn interrupted(&mut self) {
        self.progress += 1;
    }

    /// Returns the name of a node.
    fn name_of(&self, node: NodeId) -> String {
        self.names.get(&node).map_or_else(String::new, ToString::to_string)
    }

    fn region_at(space: &NodeSpace, offset: u64) -> Option<(RegionId, u64)> {
        (offset < MAIL_AT).then(|| space.find(offset)).flatten()
    }
}
