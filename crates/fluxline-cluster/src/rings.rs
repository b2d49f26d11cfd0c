//! Edges over any link: push rings on the fabric of a node.
//!
//! A builder owns a ring for each readout, in its own memory; readouts push their records into it.
//! A readout owns a ring for each sensor in the same way.

use std::sync::Arc;

use fluxline_core::fabric::Fabric;
use fluxline_core::fabric::push::{
    NextError, PushOpenError, PushRefused, Receiver, ReceiverId, RingAddress, RingPlan, Rings,
    Sender, SenderId,
};
use fluxline_core::{Moment, Span, planted};

use crate::edges::{Inlets, Offered, Outlets, Taking};

/// A node of a link: rings that it pushes into, and rings in its own memory.
pub struct RingNode {
    /// A token that is dropped before the link is left: fields are dropped in order.
    _held: Option<Arc<()>>,
    fabric: Box<dyn Fabric>,
    rings: Rings,
    outlets: Vec<Outlet>,
    lanes: Vec<Lane>,
    /// The first lane with messages of builders; `None`: builders only take.
    first_back: Option<usize>,
    /// The time by which every peer has come; `None`: they are waited for.
    come_by: Option<Moment>,
    /// The time by which every peer has pushed a record.
    pushed_by: Option<Moment>,
}

struct Outlet {
    ring: SenderId,
    /// Records were pushed and not published yet.
    owes: bool,
}

struct Lane {
    ring: ReceiverId,
    /// A record has come.
    has_come: bool,
    is_gone: bool,
    /// It has messages of a builder, which may have none.
    is_back: bool,
}

impl RingNode {
    /// Makes a node without rings.
    #[must_use]
    pub fn new(fabric: Box<dyn Fabric>) -> RingNode {
        let (outlets, lanes) = (Vec::new(), Vec::new());
        RingNode {
            _held: None,
            fabric,
            rings: Rings::default(),
            outlets,
            lanes,
            first_back: None,
            come_by: None,
            pushed_by: None,
        }
    }

    /// The lanes that are added from now on have the messages of builders, by their numbers.
    pub fn begin_lanes_back(&mut self) {
        self.first_back = Some(self.lanes.len());
    }

    /// Holds a token until this node leaves its link. It is dropped in the node's own turn of a
    /// simulated world, so the turn in which others see that does not depend on threads.
    pub fn hold(&mut self, token: Arc<()>) {
        self._held = Some(token);
    }

    /// Takes receivers that are not there by this time for dead: in a simulated world nobody starts
    /// one later.
    pub fn expect_peers_by(&mut self, time: Moment) {
        self.come_by = Some(time);
    }

    /// Takes senders that have not pushed a record by this time for dead. It is later than the time
    /// by which a sender that lives has given up all others that are dead: these hold it up.
    pub fn expect_records_by(&mut self, time: Moment) {
        self.pushed_by = Some(time);
    }

    /// Returns true once every receiver should have come.
    fn is_late(&self) -> bool {
        !planted!(28) && self.come_by.is_some_and(|time| self.fabric.now() >= time)
    }

    /// Returns true when a receiver has gone before it had all records, for all that is known here.
    /// After [`Outlets::finish`], records that were pushed may not have come.
    pub fn has_lost_receiver(&mut self) -> bool {
        let RingNode { outlets, rings, .. } = self;
        let mut outlets = outlets.iter();
        outlets.any(|of| rings.sender(of.ring).is_some_and(|ring| ring.ended().is_some()))
    }

    /// Adds a ring in the memory of this node: its next lane.
    ///
    /// # Errors
    /// The ring cannot be made, or its name is taken.
    pub fn add_lane(&mut self, plan: &RingPlan) -> Result<(), PushOpenError> {
        let ring = Receiver::open(&mut *self.fabric, plan)?;
        self.lanes.push(Lane {
            ring: self.rings.add_receiver(ring),
            has_come: false,
            is_gone: false,
            is_back: self.first_back.is_some(),
        });
        Ok(())
    }

    /// Begins to connect to a ring of another node: the next outlet. Records are refused as full
    /// until it is open.
    ///
    /// # Errors
    /// The ring can never be reached on this link.
    pub fn add_outlet(&mut self, to: RingAddress) -> Result<(), PushOpenError> {
        let now = self.fabric.now();
        let ring = Sender::open(&mut *self.fabric, to, now)?;
        self.outlets.push(Outlet { ring: self.rings.add_sender(ring), owes: false });
        Ok(())
    }

    /// Returns the time of the link.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.fabric.now()
    }

    /// Returns true once this node has crashed: nothing comes or goes any more.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.fabric.has_crashed()
    }

    /// Publishes all records, and drives rings and link. Never waits.
    pub fn drive(&mut self) {
        for Outlet { ring, owes } in &mut self.outlets {
            if std::mem::take(owes)
                && let Some(ring) = self.rings.sender(*ring)
            {
                let _ = ring.publish(&mut *self.fabric); // the next push says it
            }
        }
        while self.rings.poll(&mut *self.fabric).is_some() {}
    }

    /// Works until this time of a simulated link; what comes meanwhile waits.
    pub fn work_until(&mut self, until: Moment) {
        while self.now() < until && !self.has_crashed() {
            self.fabric.wait(until);
            // A completion would end the wait at once: the rings keep it.
            while self.rings.poll(&mut *self.fabric).is_some() {}
        }
    }

    /// Sleeps until something came, at most until `until` of the link's clock.
    pub fn rest_until(&mut self, until: Moment) {
        self.fabric.wait(until);
    }
}

impl Outlets for RingNode {
    fn offer(&mut self, to: u32, record: &[u8]) -> Offered {
        let is_late = self.is_late();
        let Outlet { ring, owes } = &mut self.outlets[to as usize];
        let Some(ring) = self.rings.sender(*ring) else { return Offered::Full };
        match ring.push(&mut *self.fabric, record) {
            Ok(()) => {
                *owes = true;
                Offered::Taken
            }
            Err(_) if self.fabric.has_crashed() => {
                Offered::Gone("this node has crashed".to_owned())
            }
            Err(PushRefused::NotOpen(_)) if is_late => Offered::Gone("it never came".to_owned()),
            Err(PushRefused::Full | PushRefused::NotOpen(_)) => Offered::Full,
            Err(why) => Offered::Gone(why.to_string()),
        }
    }

    fn progress(&mut self) {
        self.drive();
    }

    fn hear(&mut self, from: u32) -> Taking {
        let lane = self.first_back.map(|first| first + from as usize);
        lane.map_or(Taking::Empty, |lane| Inlets::take(self, lane))
    }

    fn has_crashed(&self) -> bool {
        RingNode::has_crashed(self)
    }

    fn waits_for(&mut self) -> Option<(usize, String)> {
        self.outlets.iter().enumerate().find_map(|(place, of)| {
            let waits = self.rings.sender(of.ring)?.waits_for()?;
            Some((place, waits.to_string()))
        })
    }

    fn rest(&mut self, most: Span) {
        self.rest_until(self.now() + most);
    }

    fn finish(&mut self) -> bool {
        self.drive();
        if self.fabric.has_crashed() {
            return true;
        }
        let (mut all, is_late) = (true, self.is_late());
        for of in &self.outlets {
            // A builder that has gone is counted where its records were offered.
            let ring = self.rings.sender(of.ring);
            let ring = ring.filter(|ring| !is_late || ring.waits_for().is_none());
            all &= ring.is_none_or(|ring| ring.finish(&mut *self.fabric).unwrap_or(true));
        }
        all
    }
}

impl Inlets for RingNode {
    fn take(&mut self, from: usize) -> Taking {
        let is_late = self.pushed_by.is_some_and(|time| self.fabric.now() >= time);
        let Lane { ring, has_come, is_gone, is_back } = &mut self.lanes[from];
        if *is_gone {
            return Taking::Gone;
        }
        let Some(ring) = self.rings.receiver(*ring) else { return Taking::Gone };
        match ring.next(&mut *self.fabric) {
            Ok(Some(record)) => {
                *has_come = true;
                Taking::Record(record.to_vec().into())
            }
            Ok(None) if !self.fabric.has_crashed() && (*has_come || *is_back || !is_late) => {
                Taking::Empty
            }
            Ok(None) | Err(NextError::Gone | NextError::Broken(_)) => {
                *is_gone = true;
                Taking::Gone
            }
        }
    }

    fn progress(&mut self) {
        self.drive();
    }

    fn answer(&mut self, to: u32, message: &[u8]) -> Offered {
        Outlets::offer(self, to, message)
    }

    fn end_answers(&mut self) -> bool {
        Outlets::finish(self)
    }

    fn has_crashed(&self) -> bool {
        RingNode::has_crashed(self)
    }

    fn link_time(&self) -> Moment {
        self.now()
    }

    fn waits_for(&mut self) -> Option<usize> {
        self.lanes.iter().position(|lane| !lane.has_come && !lane.is_gone && !lane.is_back)
    }

    fn spend(&mut self, work: Span) {
        self.work_until(self.now() + work);
    }

    fn rest(&mut self, most: Span) {
        self.rest_until(self.now() + most);
    }
}
