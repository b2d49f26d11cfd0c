//! The push rings of a node, and the batches that cross them.

use std::collections::BTreeMap;

use fluxline_core::fabric::push::{PushCounters, PushRefused, Receiver, Record, Sender};
use fluxline_core::fabric::{Completion, Fabric};
use fluxline_core::{Moment, Span};

use crate::buffer::Output;
use crate::fault::Fault;

/// The rings of a node, by number.
#[derive(Default)]
pub struct Rings {
    last: u32,
    senders: BTreeMap<u32, Sender>,
    receivers: BTreeMap<u32, Incoming>,
    /// Senders that the program has ended, and that are not over yet.
    ending: Vec<Sender>,
}

/// A receiver, and its oldest record if that found no room in the caller's array.
struct Incoming {
    ring: Receiver,
    scratch: Vec<u8>,
    stamp: u64,
    is_waiting: bool,
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
    fn add<T>(last: &mut u32, all: &mut BTreeMap<u32, T>, ring: T) -> u32 {
        *last += 1;
        all.insert(*last, ring);
        *last
    }

    /// Keeps a sender; returns its number.
    pub fn add_sender(&mut self, ring: Sender) -> u32 {
        Rings::add(&mut self.last, &mut self.senders, ring)
    }

    /// Keeps a receiver; returns its number.
    pub fn add_receiver(&mut self, ring: Receiver) -> u32 {
        let ring = Incoming { ring, scratch: Vec::new(), stamp: 0, is_waiting: false };
        Rings::add(&mut self.last, &mut self.receivers, ring)
    }

    /// Returns an open sender.
    pub fn sender(&mut self, number: u32) -> Result<&mut Sender, Fault> {
        self.senders.get_mut(&number).ok_or_else(|| ended("sender"))
    }

    /// Returns a completion that no ring has taken.
    pub fn hear(&mut self, what: Completion) -> Option<Completion> {
        let mut senders = self.senders.values_mut().chain(&mut self.ending);
        let what = senders.try_fold(what, |what, ring| ring.hear(what))?;
        self.receivers.values_mut().try_fold(what, |what, its| its.ring.hear(what))
    }

    /// Does what is next for each ring.
    pub fn turn(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        self.senders.values_mut().for_each(|ring| ring.turn(fabric, now));
        self.receivers.values_mut().for_each(|its| its.ring.turn(fabric));
        self.ending.retain_mut(|ring| {
            ring.turn(fabric, now);
            ring.finish(fabric) == Ok(false)
        });
    }

    /// Takes a sender from the program; it ends when its records are over there.
    pub fn end_sender(&mut self, fabric: &mut dyn Fabric, number: u32) {
        if let Some(mut ring) = self.senders.remove(&number) {
            let _ = ring.finish(fabric); // the end is the same
            self.ending.push(ring);
        }
    }

    /// Ends a receiver: its sender finds it gone.
    pub fn end_receiver(&mut self, fabric: &mut dyn Fabric, number: u32) {
        if let Some(its) = self.receivers.remove(&number) {
            its.ring.close(fabric);
        }
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
        let its = self.receivers.get_mut(&number).ok_or_else(|| ended("receiver"))?;
        let (mut records, mut end) = (0, 0);
        while records < batch.limit() && its.has_next(fabric, batch.stamps.is_some(), records)? {
            let (start, data) = (end, batch.data.bytes());
            end += its.scratch.len();
            let Some(room) = data.get_mut(start..end) else {
                its.check_fits(records, data.len())?;
                break;
            };
            room.copy_from_slice(&its.scratch);
            its.is_waiting = false;
            batch.ends.set(records, end as u64);
            if let Some(stamps) = &mut batch.stamps {
                stamps.set(records, its.stamp);
            }
            records += 1;
        }
        Ok(records)
    }

    /// Sleeps until a receiver may have a record.
    pub fn wait(&mut self, fabric: &mut dyn Fabric, number: u32, until: Moment) {
        match self.receivers.get_mut(&number) {
            Some(its) => its.ring.wait(fabric, until),
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
        let sender = self.senders.get(&number).map(Sender::counters);
        sender.or_else(|| self.receivers.get(&number).map(|its| its.ring.counters()))
    }

    /// Returns the time that a program may sleep while a record finds no room.
    pub fn pause() -> Span {
        Span::from_ns(50_000)
    }
}

impl Incoming {
    /// Takes the next record into `scratch`, unless one waits there.
    fn has_next(
        &mut self,
        fabric: &mut dyn Fabric,
        is_stamped: bool,
        records: usize,
    ) -> Result<bool, Fault> {
        if self.is_waiting {
            return Ok(true);
        }
        let next = match is_stamped {
            true => self.ring.next_stamped(fabric),
            false => self.ring.next(fabric).map(unstamped),
        };
        match next {
            Ok(Some((at, record))) => {
                record.copy_to(&mut self.scratch);
                (self.stamp, self.is_waiting) = (at.as_ns(), true);
                Ok(true)
            }
            Ok(None) => Ok(false),
            // The records that were read are given out first.
            Err(_) if records > 0 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn check_fits(&self, records: usize, room: usize) -> Result<(), Fault> {
        let bytes = self.scratch.len();
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
