//! The end of a push ring that reads.

use alloc::boxed::Box;

use super::native::{NativeReceiver, NativeRing};
use super::puts::{
    COUNTED_CREDIT_BYTES, CREDIT_BYTES, Consumer, Credit, HEADER_BYTES, credit_name,
};
use super::record::Record;
use super::types::{Broken, NextError, PushCounters, PushOpenError};
use super::{RING_TAG, RingPath, RingPlan};
use crate::Moment;
use crate::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Name, RegionId, RemoteId, Rights, Status,
};

/// The end that reads; it owns the ring's region.
///
/// It has one sender at a time. When that has closed or died, another may come, and goes on behind
/// it. A program that ends a ring before its fabric calls [`Receiver::close`].
pub struct Receiver {
    name: Name,
    region: RegionId,
    way: Way,
    /// Deaths of senders that the program knows of.
    deaths_taken: u64,
}

enum Way {
    Native(Box<dyn NativeReceiver>),
    Puts(Box<PutsReceiver>),
}

/// A ring by puts, and its sender.
struct PutsReceiver {
    ring: Consumer,
    session: Session,
    /// The last sender has left, and another has not come.
    is_left: bool,
}

/// The sender of a ring by puts.
#[derive(Clone, Copy)]
enum Session {
    None,
    /// It has greeted.
    Greeted(EndpointId),
    /// Its region is being imported.
    Asked(Credit),
    /// It is admitted.
    Open(EndpointId),
    /// Its connection is over; its records are still being read.
    Over,
}

impl Session {
    fn endpoint(self) -> Option<EndpointId> {
        match self {
            Session::Greeted(endpoint) | Session::Open(endpoint) => Some(endpoint),
            Session::Asked(credit) => Some(credit.endpoint),
            Session::None | Session::Over => None,
        }
    }
}

impl Receiver {
    /// Makes a ring and exports it under the plan's name and key.
    ///
    /// Errors: [`PushOpenError`]; then nothing was made. Cost: as [`Fabric::register`].
    pub fn open(fabric: &mut dyn Fabric, plan: &RingPlan) -> Result<Receiver, PushOpenError> {
        let size = plan.ring_bytes()?;
        let native = match plan.path {
            RingPath::Best => fabric.rings().map(|link| link.make_ring(size)).transpose()?,
            RingPath::Puts => None,
        };
        let (region, way) = match native {
            Some(NativeRing { region, mut receiver }) => {
                receiver.begin_at(plan.taken);
                (region, Ok(Way::Native(receiver)))
            }
            None => {
                let region = fabric.register(HEADER_BYTES + size)?;
                (region, by_puts(fabric, region, plan.taken))
            }
        };
        let grant = Grant { rights: Rights::PUT, key: plan.key };
        let exported = fabric.export(region, plan.name.clone(), grant);
        let name = plan.name.clone();
        let made = way.and_then(|way| {
            Ok(exported.map(|()| Receiver { name, region, way, deaths_taken: 0 })?)
        });
        if made.is_err() {
            let _ = fabric.withdraw(region); // it was just made
        }
        made
    }

    /// Returns true when the link's own ring carries the records.
    #[must_use]
    pub fn is_native(&self) -> bool {
        matches!(self.way, Way::Native(_))
    }

    /// Returns the name of the ring.
    #[must_use]
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the region in which the ring lies.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Drives the ring and the link, and returns the next completion that is the program's.
    ///
    /// The program also gets `Connected` and `Broken` of the sender's endpoint, as of each peer's.
    pub fn poll(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Option<Completion> {
        self.progress(fabric);
        while let Some(what) = fabric.poll(now) {
            let programs = self.handle(what);
            self.progress(fabric);
            if programs.is_some() {
                return programs;
            }
        }
        None
    }

    /// Takes a completion of the fabric; returns it when it is not the ring's.
    pub fn handle(&mut self, what: Completion) -> Option<Completion> {
        if matches!(&what, Completion::Notified { region, .. } if *region == self.region) {
            if let (Way::Puts(puts), Completion::Notified { endpoint, value, .. }) =
                (&mut self.way, &what)
            {
                puts.greeted(*endpoint, *value);
            }
            return None;
        }
        match &mut self.way {
            Way::Native(_) => Some(what),
            Way::Puts(puts) => puts.handle(what),
        }
    }

    /// Does what is next: admits a sender, gives room back. Never waits.
    pub fn progress(&mut self, fabric: &mut dyn Fabric) {
        if let Way::Puts(puts) = &mut self.way {
            puts.progress(fabric);
        }
    }

    /// Returns the oldest record, valid until the next call; `None`: there is none now.
    ///
    /// Errors: [`NextError`]. Cost: no allocation, no system call.
    #[inline]
    pub fn next(&mut self, fabric: &mut dyn Fabric) -> Result<Option<Record<'_>>, NextError> {
        match &mut self.way {
            Way::Native(ring) => ring.next(),
            Way::Puts(puts) => puts.next(fabric),
        }
    }

    /// Returns the oldest record and the sender's time stamp. All records of a ring have one, or
    /// none has.
    ///
    /// Errors: [`NextError`]; a record without room for a stamp is [`Broken`], too.
    #[inline]
    pub fn next_stamped(
        &mut self,
        fabric: &mut dyn Fabric,
    ) -> Result<Option<(Moment, Record<'_>)>, NextError> {
        let Some(record) = self.next(fabric)? else { return Ok(None) };
        let (stamp, record) = record.split_word().ok_or(Broken)?;
        Ok(Some((Moment::from_ns(stamp), record)))
    }

    /// Sleeps until there may be a record or a completion, or until this moment of the link's
    /// clock.
    ///
    /// A native ring sleeps until there is a record, and does not see the fabric's completions:
    /// poll at least every 50 ms.
    pub fn wait(&mut self, fabric: &mut dyn Fabric, until: Moment) {
        match &mut self.way {
            Way::Native(ring) => ring.wait(until.since(fabric.now())),
            Way::Puts(_) => fabric.wait(until),
        }
    }

    /// Returns the records that were read in the ring's life, those of [`RingPlan::taken`]
    /// included: a program that keeps it goes on there with its next ring.
    #[must_use]
    pub fn taken(&self) -> u64 {
        match &self.way {
            Way::Native(ring) => ring.taken(),
            Way::Puts(puts) => puts.ring.taken(),
        }
    }

    /// Returns true, once for each, when a sender has died since the last call; after
    /// [`NextError::Gone`], it tells a sender that died from one that finished.
    pub fn take_death(&mut self) -> bool {
        let died = self.counters().died;
        core::mem::replace(&mut self.deaths_taken, died) != died
    }

    /// Returns the counters of this side.
    #[must_use]
    pub fn counters(&self) -> &PushCounters {
        match &self.way {
            Way::Native(ring) => ring.counters(),
            Way::Puts(puts) => puts.ring.counters(),
        }
    }

    /// Ends the ring: its region is withdrawn, and its sender finds the receiver gone.
    pub fn close(self, fabric: &mut dyn Fabric) {
        if let Way::Puts(puts) = &self.way
            && let Some(endpoint) = puts.session.endpoint()
        {
            let _ = fabric.disconnect(endpoint); // an error says that it is over
        }
        drop(self.way);
        let _ = fabric.withdraw(self.region); // the program may have withdrawn it
    }
}

fn by_puts(fabric: &mut dyn Fabric, region: RegionId, taken: u64) -> Result<Way, PushOpenError> {
    let memory = fabric.memory(region).ok();
    let mut ring = memory.and_then(Consumer::new).ok_or(PushOpenError::NoRing)?;
    ring.begin_at(taken);
    let (session, is_left) = (Session::None, false);
    Ok(Way::Puts(Box::new(PutsReceiver { ring, session, is_left })))
}

impl PutsReceiver {
    /// A notification in the ring's region: a greeting carries a part of the greeter's key.
    fn greeted(&mut self, endpoint: EndpointId, value: u32) {
        let key = self.ring.greeting();
        let is_greeting = key != Key(0) && key.0 & 0xFFFF == u64::from(value) && value != 0;
        if is_greeting && matches!(self.session, Session::None) {
            self.session = Session::Greeted(endpoint);
        }
    }

    fn handle(&mut self, what: Completion) -> Option<Completion> {
        match what {
            Completion::Imported { remote, status, bytes } => match self.session {
                Session::Asked(credit) if credit.remote == remote => {
                    self.imported(credit, status, bytes);
                    None
                }
                _ => Some(what),
            },
            Completion::Done { endpoint, tag: RING_TAG, .. }
                if self.session.endpoint() == Some(endpoint) =>
            {
                None // a head that was not put: the connection is ending
            }
            Completion::Broken { endpoint, status } => {
                if self.session.endpoint() == Some(endpoint) {
                    self.over(status);
                }
                Some(what)
            }
            _ => Some(what),
        }
    }

    fn imported(&mut self, credit: Credit, status: Status, bytes: u64) {
        if status.is_done() && bytes >= CREDIT_BYTES {
            let is_counted = bytes >= COUNTED_CREDIT_BYTES;
            self.ring.admit(Credit { is_counted, ..credit });
            self.is_left = false;
            self.session = Session::Open(credit.endpoint);
        } else {
            self.session = Session::None; // it greets again, or has gone
        }
    }

    /// Notes that the sender's connection is over.
    fn over(&mut self, status: Status) {
        if matches!(self.session, Session::Open(_)) {
            if status != Status::Disconnected && status != Status::Done {
                self.ring.add_death();
            }
            self.session = Session::Over;
        } else {
            self.session = Session::None;
        }
    }

    fn progress(&mut self, fabric: &mut dyn Fabric) {
        match self.session {
            Session::Greeted(endpoint) => {
                let key = self.ring.greeting();
                let asked = fabric.import(endpoint, credit_name(key), key);
                // An error says that its connection is over.
                let remote: Option<RemoteId> = asked.ok();
                self.session = remote.map_or(Session::None, |remote| {
                    Session::Asked(Credit { endpoint, remote, is_counted: false })
                });
            }
            Session::Open(endpoint) if self.ring.is_broken() => {
                let _ = fabric.disconnect(endpoint); // an error says that it is over
                self.session = Session::Over;
            }
            Session::Open(_) => {
                let _ = self.ring.give_back(fabric); // a full queue only delays it
            }
            _ => {}
        }
    }

    #[inline]
    fn next(&mut self, fabric: &mut dyn Fabric) -> Result<Option<Record<'_>>, NextError> {
        if self.ring.is_empty() && !self.refill(fabric)? {
            return Ok(None);
        }
        Ok(self.ring.next()?.map(Record::own))
    }

    /// Looks for more records; returns false when there are none now.
    #[inline(never)]
    fn refill(&mut self, fabric: &mut dyn Fabric) -> Result<bool, NextError> {
        let found = self.ring.refill()?;
        if let Session::Open(_) = self.session {
            let _ = self.ring.give_back(fabric); // a full queue only delays it
        }
        if !found && let Session::Over = self.session {
            self.ring.restart();
            (self.session, self.is_left) = (Session::None, true);
        }
        if !found && self.is_left {
            return Err(NextError::Gone);
        }
        Ok(found)
    }
}
