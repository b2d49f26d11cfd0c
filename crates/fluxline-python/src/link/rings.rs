//! The push rings of a node, and the batches that cross them.

use std::collections::BTreeMap;

use fluxline_core::fabric::push::{
    self, NextError, PushCounters, PushRefused, Receiver, ReceiverId, Record, Sender, SenderId,
};
use fluxline_core::fabric::{Completion, Fabric};
use fluxline_core::{Moment, Span};

use crate::buffer::Output;
use crate::fault::Fault;

/// The rings of a node, and the records that found no room in a caller's array.
#[derive(Default)]
pub struct Rings {
    all: push::Rings,
    waiting: BTreeMap<ReceiverId, Waiting>,
}

/// The oldest record of a receiver, if it found no room in the caller's array.
#[derive(Default)]
struct Waiting {
    record: Vec<u8>,
    stamp: u64,
    is_there: bool,
}

/// The caller's arrays for a batch of records.
pub struct Batch {
    /// The bytes of all records, one after the other.
    pub data: Output,
    /// The end of each record in `data`.
    pub ends: Output,
    /// The sender's time stamps, where the ring has them.
    pub stamps: Option<Output>,
}

impl Rings {
    /// Keeps a sender; returns its number.
    pub fn add_sender(&mut self, ring: Sender) -> u32 {
        self.all.add_sender(ring).0
    }

    /// Keeps a receiver; returns its number.
    pub fn add_receiver(&mut self, ring: Receiver) -> u32 {
        let id = self.all.add_receiver(ring);
        self.waiting.insert(id, Waiting::default());
        id.0
    }

    /// Returns an open sender.
    pub fn sender(&mut self, number: u32) -> Result<&mut Sender, Fault> {
        self.all.sender(SenderId(number)).ok_or_else(|| ended("sender"))
    }

    /// Returns a completion that no ring has taken.
    pub fn handle(&mut self, what: Completion) -> Option<Completion> {
        self.all.handle(what)
    }

    /// Does what is next for each ring.
    pub fn progress(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        self.all.progress(fabric, now);
    }

    /// Takes a sender from the program; it ends when its records are over there.
    pub fn end_sender(&mut self, fabric: &mut dyn Fabric, number: u32) {
        self.all.end_sender(fabric, SenderId(number));
    }

    /// Ends a receiver: its sender finds it gone.
    pub fn end_receiver(&mut self, fabric: &mut dyn Fabric, number: u32) {
        self.all.end_receiver(fabric, ReceiverId(number));
        self.waiting.remove(&ReceiverId(number));
    }

    /// Fills the caller's arrays with the records that are there. Returns their number.
    ///
    /// Errors: the sender has gone and all is read; the first record does not fit.
    pub fn read(
        &mut self,
        fabric: &mut dyn Fabric,
        number: u32,
        batch: &mut Batch,
    ) -> Result<usize, Fault> {
        let id = ReceiverId(number);
        let ring = self.all.receiver(id).ok_or_else(|| ended("receiver"))?;
        let waiting = self.waiting.entry(id).or_default();
        let (mut records, mut end) = (0, 0);
        while records < batch.limit() {
            match waiting.next(ring, fabric, batch.stamps.is_some()) {
                Ok(true) => {}
                Ok(false) => break,
                // The records that were read are given out first.
                Err(_) if records > 0 => break,
                Err(error) => return Err(error.into()),
            }
            let (start, data) = (end, batch.data.bytes());
            end += waiting.record.len();
            let Some(room) = data.get_mut(start..end) else {
                waiting.check_fits(records, data.len())?;
                break;
            };
            room.copy_from_slice(&waiting.record);
            waiting.is_there = false;
            batch.ends.set(records, end as u64);
            if let Some(stamps) = &mut batch.stamps {
                stamps.set(records, waiting.stamp);
            }
            records += 1;
        }
        Ok(records)
    }

    /// Sleeps until a receiver may have a record.
    pub fn wait(&mut self, fabric: &mut dyn Fabric, number: u32, until: Moment) {
        match self.all.receiver(ReceiverId(number)) {
            Some(ring) => ring.wait(fabric, until),
            None => fabric.wait(until),
        }
    }

    /// Pushes a record; without room, waits for the receiver for a moment and tries once more.
    pub fn push(
        &mut self,
        fabric: &mut dyn Fabric,
        number: u32,
        stamp: Option<u64>,
        record: &[u8],
    ) -> Result<(), Fault> {
        let ring = self.sender(number)?;
        let push = |ring: &mut Sender, fabric: &mut dyn Fabric| match stamp {
            Some(stamp) => ring.push_stamped(fabric, Moment::from_ns(stamp), record),
            None => ring.push(fabric, record),
        };
        match push(ring, fabric) {
            Err(PushRefused::Full) => {}
            pushed => return Ok(pushed?),
        }
        ring.publish(fabric)?;
        Ok(push(ring, fabric)?)
    }

    /// Returns the counters of a ring.
    pub fn counters(&self, number: u32) -> Option<&PushCounters> {
        self.all.counters(number)
    }

    /// Returns the time that a program may sleep while a record finds no room.
    pub fn pause() -> Span {
        Span::from_ns(50_000)
    }
}

impl Waiting {
    /// Takes the next record, unless one is there. Returns false when there is none.
    fn next(
        &mut self,
        ring: &mut Receiver,
        fabric: &mut dyn Fabric,
        is_stamped: bool,
    ) -> Result<bool, NextError> {
        if self.is_there {
            return Ok(true);
        }
        let next = match is_stamped {
            true => ring.next_stamped(fabric)?,
            false => ring.next(fabric).map(unstamped)?,
        };
        if let Some((at, record)) = next {
            record.copy_to(&mut self.record);
            (self.stamp, self.is_there) = (at.as_ns(), true);
        }
        Ok(self.is_there)
    }

    fn check_fits(&self, records: usize, room: usize) -> Result<(), Fault> {
        let bytes = self.record.len();
        match records {
            0 => Err(Fault::input(format_args!(
                "a record of {bytes} bytes does not fit into an array of {room}; pass a larger one"
            ))),
            _ => Ok(()),
        }
    }
}

/// Gives a record of a ring without time stamps the moment 0.
fn unstamped(record: Option<Record<'_>>) -> Option<(Moment, Record<'_>)> {
    record.map(|record| (Moment::default(), record))
}

impl Batch {
    /// Returns the number of records for which there is room.
    pub fn limit(&self) -> usize {
        self.stamps.as_ref().map_or(usize::MAX, Output::len).min(self.ends.len())
    }
}

fn ended(end: &str) -> Fault {
    Fault::link(format_args!("this {end} was closed; open another one"))
}
