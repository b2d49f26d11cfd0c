//! The push rings of one node, for programs that have several.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{PushCounters, Receiver, Sender};
use crate::Moment;
use crate::fabric::{Completion, Fabric};

/// The sending end of a ring of [`Rings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SenderId(pub u32);

/// The receiving end of a ring of [`Rings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiverId(pub u32);

/// The push rings of one node. Its calls pass each completion on to the ring that it belongs to.
///
/// Numbers of senders and receivers are not used again.
#[derive(Default)]
pub struct Rings {
    last: u32,
    senders: BTreeMap<SenderId, Sender>,
    receivers: BTreeMap<ReceiverId, Receiver>,
    /// Senders that the program has ended, and whose last records are on their way.
    ending: Vec<Sender>,
}

impl Rings {
    /// Keeps a sender; returns its identifier.
    pub fn add_sender(&mut self, ring: Sender) -> SenderId {
        self.last += 1;
        self.senders.insert(SenderId(self.last), ring);
        SenderId(self.last)
    }

    /// Keeps a receiver; returns its identifier.
    pub fn add_receiver(&mut self, ring: Receiver) -> ReceiverId {
        self.last += 1;
        self.receivers.insert(ReceiverId(self.last), ring);
        ReceiverId(self.last)
    }

    /// Returns a sender; `None`: it was ended, or is another node's.
    pub fn sender(&mut self, id: SenderId) -> Option<&mut Sender> {
        self.senders.get_mut(&id)
    }

    /// Returns a receiver; `None`: it was ended, or is another node's.
    pub fn receiver(&mut self, id: ReceiverId) -> Option<&mut Receiver> {
        self.receivers.get_mut(&id)
    }

    /// Returns the counters of the ring with this number, sender or receiver.
    #[must_use]
    pub fn counters(&self, number: u32) -> Option<&PushCounters> {
        let sender = self.senders.get(&SenderId(number)).map(Sender::counters);
        sender.or_else(|| self.receivers.get(&ReceiverId(number)).map(Receiver::counters))
    }

    /// Takes a completion of the fabric; returns it when it does not belong to a ring.
    pub fn handle(&mut self, what: Completion) -> Option<Completion> {
        let mut senders = self.senders.values_mut().chain(&mut self.ending);
        let what = senders.try_fold(what, |what, ring| ring.handle(what))?;
        self.receivers.values_mut().try_fold(what, |what, ring| ring.handle(what))
    }

    /// Does what is next for each ring. Never waits.
    pub fn progress(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        self.senders.values_mut().for_each(|ring| ring.progress(fabric, now));
        self.receivers.values_mut().for_each(|ring| ring.progress(fabric));
        self.ending.retain_mut(|ring| {
            ring.progress(fabric, now);
            ring.finish(fabric) == Ok(false)
        });
    }

    /// Drives the rings and the link; returns the next completion of
    /// the program.
    pub fn poll(&mut self, fabric: &mut dyn Fabric) -> Option<Completion> {
        let now = fabric.now();
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

    /// Takes a sender from the program; it ends when its records are over there.
    pub fn end_sender(&mut self, fabric: &mut dyn Fabric, id: SenderId) {
        if let Some(mut ring) = self.senders.remove(&id) {
            let _ = ring.finish(fabric); // the end is the same
            self.ending.push(ring);
        }
    }

    /// Ends a receiver and its ring: its sender finds it gone. Returns false for an unknown one.
    pub fn end_receiver(&mut self, fabric: &mut dyn Fabric, id: ReceiverId) -> bool {
        let ring = self.receivers.remove(&id);
        ring.map(|ring| ring.close(fabric)).is_some()
    }
}
