//! Collective operations: every rank calls them, in the same order.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::config::BarrierPath;
use super::lane::Lane;
use super::messages::Part;
use super::plan::{self, Place, Step, Then};
use super::reduce::{Combine, Reduction, Values};
use super::wire::{Header, HeaderKind};
use super::{Group, GroupError};
use crate::fabric::{Fabric, Local};

/// Ranks from which on the counter is the faster barrier: messages then take four trips.
const COUNTER_RANKS_MIN: usize = 9;

/// The result of a collective operation.
#[derive(Clone, Debug, PartialEq)]
pub enum Collected {
    /// All have arrived.
    Barrier,
    /// The root's bytes.
    Broadcast(Vec<u8>),
    /// The combined values, equal to the bit on all ranks.
    AllReduced(Values),
}

/// The kind of an operation, with all that must be equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Barrier,
    Broadcast { root: usize },
    AllReduce { combine: Combine },
}

impl Kind {
    fn number(self) -> u64 {
        match self {
            Kind::Barrier => 0,
            Kind::Broadcast { root } => 1 | (root as u64) << 8,
            Kind::AllReduce { combine } => 2 | combine.number() << 8,
        }
    }

    /// Returns true if all ranks send as many bytes as this one.
    fn has_one_length(self) -> bool {
        matches!(self, Kind::Barrier | Kind::AllReduce { .. })
    }
}

/// Returns the name of an operation for people.
fn name(kind: u64, bytes: u64) -> String {
    match (kind & 0xFF, kind >> 8) {
        (0, _) => String::from("a barrier"),
        (1, root) => format!("a broadcast of rank {root}"),
        (2, how) => {
            let of = if how & 4 == 0 { "integers" } else { "floats" };
            let how = ["sum", "min", "max", "?"][(how & 3) as usize];
            format!("an all-reduce ({how}) of {} {of}", bytes / 8)
        }
        _ => String::from("an unknown operation"),
    }
}

/// A collective operation under way.
#[derive(Debug)]
pub(super) struct Collective {
    kind: Kind,
    number: u64,
    steps: VecDeque<Step>,
    /// True: the counter of rank 0 takes the place of the steps.
    counts: bool,
    data: Vec<u8>,
    /// The progress of the first step: bytes sent (`None`: none, not even an empty part).
    sent: Option<usize>,
    received: Incoming,
    result: Option<Result<Collected, GroupError>>,
}

/// The bytes of a step that have arrived.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Collective {
    fn is_step_sent(&self) -> bool {
        self.sent == Some(self.data.len())
    }

    /// Uses the bytes that the first step received, and goes on to the next.
    fn end_step(&mut self, step: Step) {
        let received = core::mem::take(&mut self.received).bytes;
        match (step.then, self.kind) {
            (Then::Replace, _) => self.data = received,
            (Then::OwnFirst, Kind::AllReduce { combine }) => {
                let own = core::mem::take(&mut self.data);
                combine.apply(&own, &received, &mut self.data);
            }
            (Then::OwnSecond, Kind::AllReduce { combine }) => {
                let own = core::mem::take(&mut self.data);
                combine.apply(&received, &own, &mut self.data);
            }
            _ => {}
        }
        self.sent = None;
        self.steps.pop_front();
    }

    fn collected(&mut self) -> Collected {
        let data = core::mem::take(&mut self.data);
        match self.kind {
            Kind::Barrier => Collected::Barrier,
            Kind::Broadcast { .. } => Collected::Broadcast(data),
            Kind::AllReduce { combine } => Collected::AllReduced(combine.values(&data)),
        }
    }
}

impl Group {
    /// Begins a barrier. Errors: [`GroupError`].
    pub fn start_barrier(&mut self, fabric: &mut dyn Fabric) -> Result<(), GroupError> {
        let counts = match self.config.barrier {
            BarrierPath::Messages => false,
            BarrierPath::Counter => true,
            BarrierPath::Best => fabric.capabilities().atomics && self.size() >= COUNTER_RANKS_MIN,
        };
        let steps = if counts { VecDeque::new() } else { plan::barrier(self.place()) };
        self.start(fabric, Kind::Barrier, Begin { steps, counts, data: Vec::new() })
    }

    /// Begins to send the root's bytes to all; the bytes of other ranks are not used.
    ///
    /// Errors: [`GroupError`].
    pub fn start_broadcast(
        &mut self,
        fabric: &mut dyn Fabric,
        root: usize,
        bytes: Vec<u8>,
    ) -> Result<(), GroupError> {
        self.check_root(root)?;
        let steps = plan::broadcast(self.place(), root);
        let data = if self.config.rank == root { bytes } else { Vec::new() };
        self.start(fabric, Kind::Broadcast { root }, Begin { steps, counts: false, data })
    }

    /// Begins to combine the values of all ranks, each with those at the same index; all ranks need
    /// as many.
    ///
    /// Errors: [`GroupError`].
    pub fn start_all_reduce(
        &mut self,
        fabric: &mut dyn Fabric,
        values: &Values,
        reduction: Reduction,
    ) -> Result<(), GroupError> {
        let kind = Kind::AllReduce { combine: values.combine(reduction) };
        let steps = plan::all_reduce(self.place());
        self.start(fabric, kind, Begin { steps, counts: false, data: values.to_bytes() })
    }

    /// Returns the result of the collective operation once it is over; `None`: poll, and ask again.
    pub fn collected(&mut self) -> Option<Result<Collected, GroupError>> {
        self.collective.as_ref()?.result.as_ref()?;
        self.collective.take()?.result
    }

    /// Waits until all ranks have called it. Errors: [`GroupError`].
    pub fn barrier(&mut self, fabric: &mut dyn Fabric) -> Result<(), GroupError> {
        self.start_barrier(fabric)?;
        self.wait_collected(fabric).map(|_| ())
    }

    /// Sends the root's bytes to all. Errors: [`GroupError`].
    pub fn broadcast(
        &mut self,
        fabric: &mut dyn Fabric,
        root: usize,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, GroupError> {
        self.start_broadcast(fabric, root, bytes)?;
        match self.wait_collected(fabric)? {
            Collected::Broadcast(bytes) => Ok(bytes),
            _ => Err(GroupError::Busy),
        }
    }

    /// Combines the values of all ranks; the result has the same bits on all. Errors:
    /// [`GroupError`].
    pub fn all_reduce(
        &mut self,
        fabric: &mut dyn Fabric,
        values: &Values,
        reduction: Reduction,
    ) -> Result<Values, GroupError> {
        self.start_all_reduce(fabric, values, reduction)?;
        match self.wait_collected(fabric)? {
            Collected::AllReduced(values) => Ok(values),
            _ => Err(GroupError::Busy),
        }
    }

    fn wait_collected(&mut self, fabric: &mut dyn Fabric) -> Result<Collected, GroupError> {
        let ended = self.wait_for(fabric, "a collective operation", Group::collected);
        // One that is late is over: the ranks no longer agree on their operations.
        if ended.is_err() {
            self.collective = None;
        }
        ended?
    }

    fn place(&self) -> Place {
        Place { rank: self.config.rank, size: self.size() }
    }

    fn check_root(&self, root: usize) -> Result<(), GroupError> {
        let last = self.size() - 1;
        if root > last { Err(GroupError::Rank { rank: root, last }) } else { Ok(()) }
    }

    fn start(
        &mut self,
        fabric: &mut dyn Fabric,
        kind: Kind,
        begin: Begin,
    ) -> Result<(), GroupError> {
        if !self.has_joined()? {
            return Err(GroupError::Joining);
        }
        if self.collective.is_some() {
            return Err(GroupError::Busy);
        }
        let (bytes, max) = (begin.data.len() as u64, self.config.message_bytes_max);
        if bytes > max {
            return Err(GroupError::TooLong { rank: self.config.rank, bytes, max });
        }
        self.collectives += 1;
        let Begin { steps, counts, data } = begin;
        let (number, received) = (self.collectives, Incoming::default());
        self.collective = Some(Collective {
            kind,
            number,
            steps,
            counts,
            data,
            sent: None,
            received,
            result: None,
        });
        self.progress_collective(fabric);
        Ok(())
    }

    /// Goes on with the collective operation.
    pub(super) fn progress_collective(&mut self, fabric: &mut dyn Fabric) {
        let Some(mut collective) = self.collective.take() else { return };
        if collective.result.is_none() {
            let progressed = match self.run_steps(fabric, &mut collective) {
                // A rank that is gone may have done its part before.
                Ok(false) => self.first_gone().map_or(Ok(false), |error| Err(error.clone())),
                progressed => progressed,
            };
            collective.result = match progressed {
                Ok(false) => None,
                Ok(true) => Some(Ok(collective.collected())),
                Err(error) => Some(Err(error)),
            };
        }
        self.collective = Some(collective);
    }

    /// Returns true when all steps are done.
    fn run_steps(
        &mut self,
        fabric: &mut dyn Fabric,
        of: &mut Collective,
    ) -> Result<bool, GroupError> {
        self.check_alike(of)?;
        if of.counts {
            return self.progress_counter(fabric);
        }
        while let Some(step) = of.steps.front().copied() {
            let is_sent = match step.to {
                Some(to) => self.send_parts(fabric, to, of)?,
                None => true,
            };
            let is_received = match step.from {
                Some(from) => self.receive_parts(from, of)?,
                None => true,
            };
            if !(is_sent && is_received) {
                return Ok(false);
            }
            of.end_step(step);
        }
        Ok(true)
    }

    /// Checks the next part of every rank: one that calls something else would not be waited for.
    fn check_alike(&self, of: &Collective) -> Result<(), GroupError> {
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(part) = peer.parts.front() else { continue };
            let Header { tag, bytes: total, id, .. } = part.header;
            let own = of.kind.number();
            let is_alike = !of.kind.has_one_length() || total == of.data.len() as u64;
            if tag == of.number && !(id == own && is_alike) {
                let (own, theirs) = (name(own, of.data.len() as u64), name(id, total));
                return Err(GroupError::Mismatch { rank, own, theirs });
            }
        }
        Ok(())
    }

    /// Sends the parts of the own bytes that have a slot. Returns true when all are sent.
    fn send_parts(
        &mut self,
        fabric: &mut dyn Fabric,
        to: usize,
        of: &mut Collective,
    ) -> Result<bool, GroupError> {
        let total = of.data.len();
        while !of.is_step_sent() {
            let done = of.sent.unwrap_or(0);
            let end = total.min(done + self.config.eager_bytes as usize);
            let (tag, id) = (of.number, of.kind.number());
            let header = Header { kind: HeaderKind::Collective, tag, bytes: total as u64, id };
            let part = Part { header, from: Local::Bytes(&of.data[done..end]) };
            if !self.put_slot(fabric, to, Lane::Collectives, part)? {
                return Ok(false);
            }
            of.sent = Some(end);
        }
        Ok(true)
    }

    /// Takes the parts that have arrived. Returns true when all bytes are here.
    fn receive_parts(&mut self, from: usize, of: &mut Collective) -> Result<bool, GroupError> {
        while !of.received.is_whole {
            let Some(part) = self.peers[from].parts.pop_front() else { return Ok(false) };
            let Header { tag, bytes: total, id, .. } = part.header;
            if (tag, id) != (of.number, of.kind.number()) {
                let own = name(of.kind.number(), of.data.len() as u64);
                return Err(GroupError::Mismatch { rank: from, own, theirs: name(id, total) });
            }
            let max = self.config.message_bytes_max;
            if total > max {
                return Err(GroupError::TooLong { rank: self.config.rank, bytes: total, max });
            }
            let done = of.received.bytes.len();
            let end = (total as usize).min(done + self.config.eager_bytes as usize);
            of.received.bytes.resize(end, 0);
            let into = &mut of.received.bytes[done..];
            self.payload(from, Lane::Collectives, part.slot, into)?;
            self.peers[from].incoming[Lane::Collectives as usize].release(part.slot);
            of.received.is_whole = end == total as usize;
        }
        Ok(true)
    }
}

/// The beginning of an operation.
struct Begin {
    steps: VecDeque<Step>,
    counts: bool,
    data: Vec<u8>,
}
