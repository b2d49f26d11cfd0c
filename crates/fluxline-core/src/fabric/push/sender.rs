//! The end of a push ring that writes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use super::RING_TAG;
use super::native::NativeSender;
use super::puts::{
    COUNTED_CREDIT_BYTES, HEADER_BYTES, NOT_ADMITTED, NOT_COUNTED, Producer, ProducerPlaces,
    TAKEN_OFFSET, credit_key, credit_name,
};
use super::types::{Broken, PushCounters, PushOpenError, PushRefused, Waits};
use crate::fabric::{
    Completion, ConnectError, EndpointId, ExportError, Fabric, Grant, Key, Memory, Name, Operation,
    RegionId, Reliability, RemoteId, Rights, Status, Work,
};
use crate::{Moment, Span};

/// Time between two tries to reach a receiver that is not there, or that has another sender.
const RETRY_EVERY: Span = Span::from_ms(20);
/// Time between two greetings of a receiver that has not admitted the sender.
const GREET_EVERY: Span = Span::from_ms(100);
/// Rings by puts that one node pushes into, at most.
const CREDITS_MAX: u16 = 4096;

/// The place of a ring, for its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingAddress {
    /// The receiver's node, as [`Fabric::connect`] takes it.
    pub peer: String,
    /// The ring's name.
    pub name: Name,
    /// The ring's key.
    pub key: Key,
}

/// The end that writes; a ring has one at a time.
///
/// It connects by itself, reliably, and tries again while the receiver is not there. Once it is
/// open, a receiver that closes or dies ends it for good: open another one then.
pub struct Sender {
    to: RingAddress,
    endpoint: Option<EndpointId>,
    state: State,
    waits: Waits,
    /// The time of the last poll.
    now: Moment,
    stalled_since: Option<Moment>,
    /// Published as far as the program knows, and not posted yet.
    owes: bool,
    ended: Option<PushRefused>,
    /// The own region in which the receiver of a ring by puts puts its head.
    credit: Option<OwnCredit>,
    /// The counters of a sender that was never open.
    none: PushCounters,
}

enum State {
    /// The next try is then.
    Waiting(Moment),
    Connecting,
    Connected,
    Importing(RemoteId),
    /// The region is there.
    Imported(Region),
    Greeting {
        ring: Box<Producer>,
        began: Moment,
        again: Moment,
    },
    Native(Box<dyn NativeSender>),
    Puts(Box<Producer>),
    /// All was pushed; the flush behind it is not complete.
    Flushing(Box<Producer>),
    Closed(PushCounters),
}

#[derive(Clone, Copy)]
struct Region {
    remote: RemoteId,
    bytes: u64,
    /// No try before.
    not_before: Moment,
}

#[derive(Clone, Copy)]
struct OwnCredit {
    region: RegionId,
    key: Key,
}

impl Sender {
    /// Begins to connect to a ring; [`Sender::poll`] until [`Sender::is_open`].
    ///
    /// Errors: [`PushOpenError::Connect`], when no try can succeed on this link.
    pub fn open(
        fabric: &mut dyn Fabric,
        to: RingAddress,
        now: Moment,
    ) -> Result<Sender, PushOpenError> {
        let mut sender = Sender {
            to,
            endpoint: None,
            state: State::Waiting(now),
            waits: Waits::Peer,
            now,
            stalled_since: None,
            owes: false,
            ended: None,
            credit: None,
            none: PushCounters::default(),
        };
        match sender.connect(fabric) {
            Ok(()) | Err(ConnectError::Host { .. }) => Ok(sender),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the place of the ring.
    #[must_use]
    pub fn address(&self) -> &RingAddress {
        &self.to
    }

    /// Returns true when records may be pushed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Native(_) | State::Puts(_)) && self.ended().is_none()
    }

    /// True from the opening to the end, flushes included.
    pub(super) fn was_open(&self) -> bool {
        matches!(self.state, State::Native(_) | State::Puts(_) | State::Flushing(_))
    }

    /// Returns the number of the first record that this sender should push, if its program counts
    /// records from 0: as many of earlier senders were published, and are read or will be. A
    /// program that comes back and pushes from there on loses and doubles none; one that has no
    /// copy of them any more knows which are missing.
    ///
    /// `None`: the sender is not open, or its receiver does not count.
    #[must_use]
    pub fn resumes_from(&self) -> Option<u64> {
        match &self.state {
            State::Native(ring) => ring.resumes_from(),
            State::Puts(puts) | State::Flushing(puts) => puts.resumes_from(),
            _ => None,
        }
    }

    /// Returns true when the link's own ring carries the records.
    #[must_use]
    pub fn is_native(&self) -> bool {
        matches!(self.state, State::Native(_))
    }

    /// Returns the reason why the sender is not open yet; `None`: it is open, or has ended.
    #[must_use]
    pub fn waits_for(&self) -> Option<Waits> {
        (self.ended.is_none() && !self.was_open()).then_some(self.waits)
    }

    /// Returns the reason why each push fails from now on; `None`: pushing may work.
    #[must_use]
    pub fn ended(&self) -> Option<PushRefused> {
        let native = match &self.state {
            State::Native(ring) => ring.ended(),
            _ => None,
        };
        self.ended.or(native)
    }

    /// Returns true when all published records are posted; else [`Sender::poll`] posts the rest.
    #[must_use]
    pub fn is_posted(&self) -> bool {
        !self.owes
    }

    /// Since when there has been no room, by the times given to [`Sender::poll`]; `None`: there
    /// was, when last asked for.
    #[must_use]
    pub fn stalled_since(&self) -> Option<Moment> {
        self.stalled_since
    }

    /// Returns the length of the longest record \[byte\]; 0 while the sender is not open.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        match &self.state {
            State::Native(ring) => ring.record_bytes_max(),
            State::Puts(puts) => puts.record_bytes_max(),
            _ => 0,
        }
    }

    /// Drives the ring and the link, and returns the next completion that is the program's.
    ///
    /// A sender by puts learns from it of new room, and of the end of its receiver.
    pub fn poll(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Option<Completion> {
        self.progress(fabric, now);
        while let Some(what) = fabric.poll(now) {
            let programs = self.handle(what);
            self.progress(fabric, now);
            if programs.is_some() {
                return programs;
            }
        }
        None
    }

    /// Takes a completion of the fabric; returns it when it is not the ring's.
    pub fn handle(&mut self, what: Completion) -> Option<Completion> {
        match &what {
            Completion::Imported { remote, status, bytes } => {
                if !matches!(self.state, State::Importing(of) if of == *remote) {
                    return Some(what);
                }
                self.imported(*remote, *status, *bytes);
            }
            Completion::Connected { endpoint, .. } if self.endpoint == Some(*endpoint) => {
                self.state = State::Connected;
            }
            Completion::Broken { endpoint, status } if self.endpoint == Some(*endpoint) => {
                self.broken(*status);
            }
            Completion::Done { endpoint, operation, status, .. }
                if self.endpoint == Some(*endpoint) =>
            {
                self.done(*operation, *status);
            }
            Completion::Notified { endpoint, .. } if self.endpoint == Some(*endpoint) => {}
            _ => return Some(what),
        }
        None
    }

    fn imported(&mut self, remote: RemoteId, status: Status, bytes: u64) {
        let not_before = self.now;
        self.state = match status {
            Status::Done => State::Imported(Region { remote, bytes, not_before }),
            Status::NoSuchRegion | Status::Withdrawn => self.later(Waits::Ring),
            Status::NoRoom => self.later(Waits::Turn),
            Status::NoResources => self.later(Waits::Host),
            Status::Flushed | Status::PeerGone | Status::Disconnected => State::Connected,
            status => {
                self.ended = Some(PushRefused::NotAdmitted(status));
                State::Closed(PushCounters::default())
            }
        };
    }

    /// Notes the end of the own connection.
    fn broken(&mut self, status: Status) {
        self.endpoint = None;
        match core::mem::replace(&mut self.state, State::Connecting) {
            // A native ring notices by itself.
            State::Native(ring) => self.state = State::Native(ring),
            State::Puts(puts) | State::Flushing(puts) => {
                self.ended.get_or_insert(PushRefused::ConsumerGone);
                self.state = State::Closed(puts.counters().clone());
            }
            State::Closed(counters) => self.state = State::Closed(counters),
            _ if status == Status::Version => {
                self.ended = Some(PushRefused::NotAdmitted(status));
                self.state = State::Closed(PushCounters::default());
            }
            _ => self.state = self.later(Waits::Peer),
        }
    }

    fn done(&mut self, operation: Operation, status: Status) {
        match &self.state {
            State::Flushing(puts) if operation == Operation::Flush && status.is_done() => {
                self.state = State::Closed(puts.counters().clone());
            }
            // A put that failed: the ring is not there any more.
            State::Puts(_) if operation == Operation::Put && status != Status::Flushed => {
                self.ended.get_or_insert(PushRefused::ConsumerGone);
            }
            _ => {}
        }
    }

    fn later(&mut self, waits: Waits) -> State {
        self.waits = waits;
        State::Waiting(self.now + RETRY_EVERY)
    }

    /// Does what is next: connects, imports, greets, publishes what is owed. Never waits.
    pub fn progress(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        self.now = now;
        if let (Some(_), Some(endpoint)) = (self.ended, self.endpoint) {
            let _ = fabric.disconnect(endpoint); // an error says that it is over
        }
        match &mut self.state {
            State::Puts(puts) if !self.owes => puts.count_delivered(),
            State::Puts(_) => {
                let _ = self.publish(fabric); // the end is kept
            }
            State::Native(ring) => ring.count_delivered(),
            State::Connecting | State::Importing(_) => {}
            _ => self.set_up(fabric),
        }
    }

    fn set_up(&mut self, fabric: &mut dyn Fabric) {
        match &mut self.state {
            State::Waiting(at) if self.now >= *at => match self.endpoint {
                Some(endpoint) => self.import(fabric, endpoint),
                None => {
                    if self.connect(fabric).is_err() {
                        self.state = self.later(Waits::Peer);
                    }
                }
            },
            State::Connected => {
                if let Some(endpoint) = self.endpoint {
                    self.import(fabric, endpoint);
                }
            }
            State::Imported(region) if self.now >= region.not_before => {
                let region = *region;
                self.state = self.attach(fabric, region);
            }
            State::Greeting { ring, began, again } => {
                if ring.is_admitted() {
                    let State::Greeting { ring, .. } =
                        core::mem::replace(&mut self.state, State::Connecting)
                    else {
                        return;
                    };
                    self.state = State::Puts(ring);
                } else if self.now >= *again {
                    if let Some(credit) = self.credit {
                        let _ = ring.greet(fabric, credit.key); // it is tried again
                    }
                    if *again > *began {
                        self.waits = Waits::Turn; // an idle receiver would have answered
                    }
                    *again = self.now + GREET_EVERY;
                }
            }
            _ => {}
        }
    }

    fn connect(&mut self, fabric: &mut dyn Fabric) -> Result<(), ConnectError> {
        self.endpoint = Some(fabric.connect(&self.to.peer, Reliability::Reliable)?);
        self.waits = Waits::Peer;
        self.state = State::Connecting;
        Ok(())
    }

    fn import(&mut self, fabric: &mut dyn Fabric, endpoint: EndpointId) {
        self.state = match fabric.import(endpoint, self.to.name.clone(), self.to.key) {
            Ok(remote) => {
                if self.waits == Waits::Peer {
                    self.waits = Waits::Answer; // any other reason stays until it is gone
                }
                State::Importing(remote)
            }
            // The connection is over: the next completion reports it.
            Err(_) => self.later(Waits::Peer),
        };
    }

    /// Takes the link's own ring, or greets the receiver of a ring by puts.
    fn attach(&mut self, fabric: &mut dyn Fabric, region: Region) -> State {
        match fabric.rings().map(|link| link.attach(region.remote)) {
            Some(Ok(ring)) => return State::Native(ring),
            None | Some(Err(PushOpenError::NoRing)) => {}
            Some(Err(error)) => return self.not_attached(fabric, region, &error),
        }
        let Some(endpoint) = self.endpoint else { return self.later(Waits::Peer) };
        let size = region.bytes.wrapping_sub(HEADER_BYTES);
        let Some(memory) = self.own_credit(fabric) else {
            return self.try_again(region, Waits::Host);
        };
        let places = ProducerPlaces { endpoint, ring: region.remote, size, credit: memory };
        let Some(ring) = Producer::new(fabric, places) else {
            self.ended = Some(PushRefused::NoRing);
            return State::Closed(PushCounters::default());
        };
        self.waits = Waits::Answer;
        State::Greeting { ring: Box::new(ring), began: self.now, again: self.now }
    }

    fn try_again(&mut self, region: Region, waits: Waits) -> State {
        self.waits = waits;
        State::Imported(Region { not_before: self.now + RETRY_EVERY, ..region })
    }

    fn not_attached(
        &mut self,
        fabric: &mut dyn Fabric,
        region: Region,
        error: &PushOpenError,
    ) -> State {
        match error {
            PushOpenError::Claimed { .. } => self.try_again(region, Waits::Turn),
            PushOpenError::Broken(broken) => {
                self.ended = Some(PushRefused::Broken(*broken));
                State::Closed(PushCounters::default())
            }
            PushOpenError::ConsumerGone => {
                // Another receiver may take its place, under another region.
                if let Some(endpoint) = self.endpoint {
                    let _ = fabric.disconnect(endpoint); // an error says that it is over
                }
                self.later(Waits::Ring)
            }
            _ => self.try_again(region, Waits::Host),
        }
    }

    /// Returns the memory of the credit, which says that the sender is not admitted; `None`: the
    /// host has no region left.
    fn own_credit(&mut self, fabric: &mut dyn Fabric) -> Option<Arc<dyn Memory>> {
        if self.credit.is_none() {
            self.credit = make_credit(fabric, self.to.key);
        }
        let memory = fabric.memory(self.credit?.region).ok()?;
        memory.store(0, NOT_ADMITTED).ok()?;
        memory.store(TAKEN_OFFSET, NOT_COUNTED).ok()?;
        Some(memory)
    }

    /// Copies a record behind the last one; the receiver sees it after [`Sender::publish`], or when
    /// a batch is full.
    ///
    /// Errors: [`PushRefused`]. Cost: one copy.
    #[inline]
    pub fn push(&mut self, fabric: &mut dyn Fabric, bytes: &[u8]) -> Result<(), PushRefused> {
        self.push_any(fabric, None, bytes)
    }

    /// The same with a time stamp before the bytes, for [`super::Receiver::next_stamped`]: all
    /// records of a ring have one, or none has.
    ///
    /// Errors: [`PushRefused`]; the stamp takes 8 bytes of the longest record.
    #[inline]
    pub fn push_stamped(
        &mut self,
        fabric: &mut dyn Fabric,
        at: Moment,
        bytes: &[u8],
    ) -> Result<(), PushRefused> {
        self.push_any(fabric, Some(at), bytes)
    }

    #[inline]
    fn push_any(
        &mut self,
        fabric: &mut dyn Fabric,
        stamp: Option<Moment>,
        bytes: &[u8],
    ) -> Result<(), PushRefused> {
        let pushed = match &mut self.state {
            State::Native(ring) => ring.push(stamp, bytes),
            State::Puts(puts) if self.ended.is_none() => {
                puts.push(fabric, stamp.map(Moment::as_ns), bytes)
            }
            _ => Err(self.refusal()),
        };
        if pushed.is_err() || self.stalled_since.is_some() {
            self.note(pushed);
        }
        pushed
    }

    /// Keeps a stall, or the end.
    #[cold]
    fn note(&mut self, pushed: Result<(), PushRefused>) {
        match pushed {
            Ok(()) => {
                if let (Some(since), State::Puts(puts)) =
                    (self.stalled_since.take(), &mut self.state)
                {
                    puts.add_stall(self.now.since(since).as_ns());
                }
            }
            Err(PushRefused::Full) => {
                self.stalled_since.get_or_insert(self.now);
            }
            Err(why @ (PushRefused::ConsumerGone | PushRefused::Broken(Broken))) => {
                self.ended.get_or_insert(why);
            }
            Err(_) => {}
        }
    }

    fn refusal(&self) -> PushRefused {
        let closed = matches!(self.state, State::Flushing(_) | State::Closed(_));
        match self.ended {
            Some(why) => why,
            None if closed => PushRefused::Finished,
            None => PushRefused::NotOpen(self.waits),
        }
    }

    /// Shows all records to the receiver; call once per batch. What the link does not take now
    /// follows with [`Sender::poll`].
    ///
    /// Errors: [`PushRefused`], for good.
    #[inline]
    pub fn publish(&mut self, fabric: &mut dyn Fabric) -> Result<(), PushRefused> {
        match &mut self.state {
            State::Native(ring) => {
                ring.publish();
                ring.ended().map_or(Ok(()), Err)
            }
            State::Puts(puts) if self.ended.is_none() => {
                let posted = puts.publish(fabric);
                self.owes = posted == Ok(false);
                let posted = posted.map(|_| ());
                if posted.is_err() {
                    self.note(posted);
                }
                posted
            }
            _ => Err(self.refusal()),
        }
    }

    /// Publishes all records and ends the sender; returns true once they are in the receiver's
    /// memory and the connection is over. Until then: poll, and call it again.
    ///
    /// Errors: [`PushRefused`], when the sender had ended before.
    pub fn finish(&mut self, fabric: &mut dyn Fabric) -> Result<bool, PushRefused> {
        if matches!(self.state, State::Puts(_)) && self.ended.is_none() {
            let posted = self.publish(fabric);
            if posted.is_ok() && !self.owes {
                self.flush(fabric);
            }
        }
        if self.ended.is_none() && matches!(self.state, State::Puts(_) | State::Flushing(_)) {
            return Ok(false);
        }
        self.ended = self.ended();
        self.end(fabric);
        match self.ended {
            _ if self.endpoint.is_some() => Ok(false),
            Some(why) => Err(why),
            None => Ok(true),
        }
    }

    /// Posts the flush behind all records, if the link's queue has room.
    fn flush(&mut self, fabric: &mut dyn Fabric) {
        let Some(endpoint) = self.endpoint else { return };
        let is_posted = fabric.post(endpoint, RING_TAG, Work::Flush).is_ok();
        let is_puts = matches!(self.state, State::Puts(_));
        if is_posted
            && is_puts
            && let State::Puts(ring) = core::mem::replace(&mut self.state, State::Connecting)
        {
            self.state = State::Flushing(ring);
        }
    }

    /// Gives everything back.
    fn end(&mut self, fabric: &mut dyn Fabric) {
        let counters = self.counters().clone();
        drop(core::mem::replace(&mut self.state, State::Closed(counters)));
        if let Some(endpoint) = self.endpoint {
            let _ = fabric.disconnect(endpoint); // an error says that it is over
        }
        if let Some(credit) = self.credit.take() {
            let _ = fabric.withdraw(credit.region); // the program may have withdrawn it
        }
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        match &self.state {
            State::Native(ring) => ring.counters(),
            State::Puts(of) | State::Flushing(of) => of.counters(),
            State::Greeting { ring, .. } => ring.counters(),
            State::Closed(counters) => counters,
            _ => &self.none,
        }
    }
}

/// Makes the region of a credit, under the first free name.
fn make_credit(fabric: &mut dyn Fabric, ring: Key) -> Option<OwnCredit> {
    let region = fabric.register(COUNTED_CREDIT_BYTES).ok()?;
    for number in 1..CREDITS_MAX {
        let key = credit_key(ring, number);
        match fabric.export(region, credit_name(key), Grant { rights: Rights::PUT, key }) {
            Ok(()) => return Some(OwnCredit { region, key }),
            Err(ExportError::NameTaken { .. }) => {}
            Err(_) => break,
        }
    }
    let _ = fabric.withdraw(region); // it was just made
    None
}
