//! Push rings of a node: records that are pushed and read one by one.

use alloc::vec::Vec;

use super::{Node, NodeError, PAUSE};
use crate::fabric::push::{
    NextError, PushRefused, Receiver, ReceiverId, RingAddress, RingPlan, Sender, SenderId,
};
use crate::fabric::{Fabric, Key, Name};
use crate::{Moment, Span};

/// The longest sleep while a full ring may get room without waking anybody.
const ROOM_PAUSE: Span = Span::from_us(50);
/// The longest sleep on a ring of the link's own, which does not see the link's completions.
const NATIVE_PAUSE: Span = Span::from_ms(20);

impl Node {
    /// Opens the sending end of a peer's ring, and waits until the receiver lets it in.
    ///
    /// The peer and its ring may come later. Errors: [`NodeError`].
    pub fn sender(
        &mut self,
        peer: &str,
        name: &str,
        key: Key,
        timeout: Span,
    ) -> Result<SenderId, NodeError> {
        let to = RingAddress { peer: peer.into(), name: Name::parse(name)?, key };
        let now = self.fabric.now();
        let ring = Sender::open(&mut *self.fabric, to, now)?;
        let id = self.rings.add_sender(ring);
        let opened =
            self.on_sender(id, timeout, |ring, _| match (ring.ended(), ring.waits_for()) {
                (Some(why), _) => Err(why),
                (None, Some(waits)) => Err(PushRefused::NotOpen(waits)),
                (None, None) => Ok(true),
            });
        if opened.is_err() {
            self.rings.end_sender(&mut *self.fabric, id);
        }
        opened.map(|()| id)
    }

    /// Pushes a record and publishes it; waits while the ring has no room.
    ///
    /// The record is copied, and may be used again at once. It is on its way to the receiver's
    /// memory; [`Node::finish`] waits until it is there. For many small records, the poll interface
    /// publishes batches: [`Sender`]. Errors: [`NodeError`]; then the record was not pushed.
    pub fn push_wait(
        &mut self,
        sender: SenderId,
        record: &[u8],
        timeout: Span,
    ) -> Result<(), NodeError> {
        let mut is_pushed = false;
        let posted = self.on_sender(sender, timeout, |ring, fabric| {
            if !is_pushed {
                ring.push(fabric, record)?;
                is_pushed = true;
                ring.publish(fabric)?;
            }
            Ok(ring.is_posted())
        });
        match posted {
            Err(NodeError::Late { .. }) if is_pushed => Ok(()), // the next call posts it
            posted => posted,
        }
    }

    /// Publishes the rest, waits until all records are in the receiver's memory, and ends the
    /// sender.
    ///
    /// Errors: [`NodeError`]; the sender has ended all the same, and the last records may be lost.
    pub fn finish(&mut self, sender: SenderId, timeout: Span) -> Result<(), NodeError> {
        let finished = self.on_sender(sender, timeout, |ring, fabric| ring.finish(fabric));
        self.rings.end_sender(&mut *self.fabric, sender);
        finished
    }

    /// Makes a ring for at least `slots` records of `slot_bytes`, into which one peer with the key
    /// pushes.
    ///
    /// Does not wait. Errors: [`NodeError`].
    pub fn receiver(
        &mut self,
        name: &str,
        key: Key,
        slots: u32,
        slot_bytes: u32,
    ) -> Result<ReceiverId, NodeError> {
        self.receiver_of(&RingPlan::new(Name::parse(name)?, key, slots, slot_bytes))
    }

    /// Makes the ring of a plan, for example one that goes on behind records taken before.
    ///
    /// Does not wait. Errors: [`NodeError`].
    pub fn receiver_of(&mut self, plan: &RingPlan) -> Result<ReceiverId, NodeError> {
        let ring = Receiver::open(&mut *self.fabric, plan)?;
        Ok(self.rings.add_receiver(ring))
    }

    /// Returns the number of the first record that a sender should push, where its program counts
    /// records from 0 ([`Sender::resumes_from`]); `None`: the receiver does not count.
    pub fn resumes_from(&mut self, sender: SenderId) -> Option<u64> {
        self.rings.sender(sender)?.resumes_from()
    }

    /// Returns the records that were read from a ring in its life ([`Receiver::taken`]).
    pub fn taken(&mut self, receiver: ReceiverId) -> Option<u64> {
        Some(self.rings.receiver(receiver)?.taken())
    }

    /// Returns the oldest record of an own ring; `None` once the sender has finished and all is
    /// read. Another sender may come: then there are records again.
    ///
    /// Errors: [`NodeError::SenderDied`], once, after the last record of a sender that died;
    /// [`NodeError`].
    pub fn next_record(
        &mut self,
        receiver: ReceiverId,
        timeout: Span,
    ) -> Result<Option<Vec<u8>>, NodeError> {
        let until = self.fabric.now() + timeout;
        loop {
            let ring = self.rings.receiver(receiver).ok_or_else(|| no_receiver(receiver))?;
            let found =
                ring.next(&mut *self.fabric).map(|found| found.map(|record| record.to_vec()));
            match found {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(NextError::Gone) if ring.take_death() => {
                    return Err(NodeError::SenderDied { ring: ring.name().clone() });
                }
                Err(NextError::Gone) => {
                    self.drive()?; // another sender may connect
                    return Ok(None);
                }
                Err(reason) => return Err(NodeError::Next { ring: ring.name().clone(), reason }),
            }
            self.wait_record(receiver, until, timeout)?;
        }
    }

    /// Drives the node, and sleeps until there may be a record.
    fn wait_record(
        &mut self,
        receiver: ReceiverId,
        until: Moment,
        timeout: Span,
    ) -> Result<(), NodeError> {
        self.drive()?;
        let now = self.fabric.now();
        let ring = self.rings.receiver(receiver).ok_or_else(|| no_receiver(receiver))?;
        if now >= until {
            return Err(NodeError::Late {
                peer: "the sender".into(),
                waits_for: alloc::format!("a record for the ring {}", ring.name()),
                timeout,
                remedy: "start it, and look at the name and the key that it uses",
            });
        }
        let pause = if ring.is_native() { NATIVE_PAUSE } else { PAUSE };
        ring.wait(&mut *self.fabric, until.min(now + pause));
        Ok(())
    }

    /// Returns the records of an own ring as they come, until the sender has finished; each may
    /// take `timeout`. It ends after its first error.
    pub fn records(&mut self, receiver: ReceiverId, timeout: Span) -> Records<'_> {
        Records { node: self, receiver, timeout, is_over: false }
    }

    /// Ends a receiver and its ring: its sender finds it gone.
    pub fn end_receiver(&mut self, receiver: ReceiverId) -> Result<(), NodeError> {
        match self.rings.end_receiver(&mut *self.fabric, receiver) {
            true => Ok(()),
            false => Err(no_receiver(receiver)),
        }
    }

    /// Drives a sender until `step` returns true. A refusal that may pass ends it after `timeout`.
    fn on_sender(
        &mut self,
        id: SenderId,
        timeout: Span,
        mut step: impl FnMut(&mut Sender, &mut dyn Fabric) -> Result<bool, PushRefused>,
    ) -> Result<(), NodeError> {
        let until = self.fabric.now() + timeout;
        loop {
            let ring = self.rings.sender(id).ok_or_else(|| no_sender(id))?;
            let stepped = step(ring, &mut *self.fabric);
            let pause = if ring.is_native() { ROOM_PAUSE } else { PAUSE };
            self.drive()?;
            let now = self.fabric.now();
            match stepped {
                Ok(true) => return Ok(()),
                Ok(false) | Err(PushRefused::Full | PushRefused::NotOpen(_)) if now < until => {}
                Ok(false) => return Err(self.no_answer(id, timeout)),
                Err(reason) => return Err(self.not_pushed(id, reason)),
            }
            self.fabric.wait(until.min(now + pause));
        }
    }

    fn no_answer(&mut self, id: SenderId, timeout: Span) -> NodeError {
        let Some(ring) = self.rings.sender(id) else { return no_sender(id) };
        let RingAddress { peer, name, .. } = ring.address().clone();
        NodeError::Late {
            peer,
            waits_for: alloc::format!("the answer of the ring {name}"),
            timeout,
            remedy: "its program must run, and read the ring",
        }
    }

    fn not_pushed(&mut self, id: SenderId, reason: PushRefused) -> NodeError {
        let Some(ring) = self.rings.sender(id) else { return no_sender(id) };
        let RingAddress { peer, name: ring, .. } = ring.address().clone();
        NodeError::Push { peer, ring, reason }
    }
}

fn no_sender(id: SenderId) -> NodeError {
    NodeError::NoSuchRing { end: "sender", number: id.0 }
}

fn no_receiver(id: ReceiverId) -> NodeError {
    NodeError::NoSuchRing { end: "receiver", number: id.0 }
}

/// The records of a ring; made by [`Node::records`].
pub struct Records<'a> {
    node: &'a mut Node,
    receiver: ReceiverId,
    timeout: Span,
    is_over: bool,
}

impl Iterator for Records<'_> {
    type Item = Result<Vec<u8>, NodeError>;

    fn next(&mut self) -> Option<Result<Vec<u8>, NodeError>> {
        if self.is_over {
            return None;
        }
        let record = self.node.next_record(self.receiver, self.timeout).transpose();
        self.is_over = !matches!(record, Some(Ok(_)));
        record
    }
}
