//! The effect of requests on regions, buffers and words.
//!
//! This file has writes and messages, `reads.rs` reads and atomics, `unreliable.rs` the checks of
//! frames whose operation may be incomplete.

mod reads;
mod run;
mod unreliable;

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::answer::{Answers, KeptAnswers};
use super::context::Context;
use super::peer::PeerKind;
use crate::fabric::{Completion, EndpointId, Memory, Operation, RegionId, Rights, Slice, Status};
use crate::roce::{Body, Packet, Psn, Reth, SendPart, Transport, WritePart};
use crate::{Moment, Span};

/// A message that has waited this long for a buffer is refused.
const NO_BUFFER_WAIT: Span = Span::from_ms(100);

/// The outcome of the expected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is done; the next request is this many PSNs further on.
    Next(u32),
    /// The message has no buffer yet.
    NotReady,
    /// Too many answers wait: the request counts as lost.
    Busy,
    Refused(Status),
}

/// The verdict on a frame of an unreliable peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// The frame can be done.
    Fits,
    /// Key, right, bounds or lengths are wrong.
    Refused,
    /// Another part of its operation is missing, or there is no buffer for it.
    Unusable,
}

/// A write of several frames.
struct Writing {
    region: RegionId,
    memory: Arc<dyn Memory>,
    offset: u64,
    bytes: u64,
    done: u64,
    /// The PSN of its next frame, for unreliable connections.
    next: Psn,
}

/// A message of several frames.
struct Receiving {
    tag: u64,
    into: Slice,
    memory: Arc<dyn Memory>,
    done: u64,
    /// The PSN of its next frame, for unreliable connections.
    next: Psn,
}

/// Does the requests of one peer.
pub(super) struct Executor {
    id: EndpointId,
    peer_kind: PeerKind,
    /// Notified writes wait for free memory: a reliable peer of the standard repeats them.
    awaits_room: bool,
    /// Bytes of an answer in one frame, at most.
    pub payload_bytes: usize,
    /// Posted buffers for messages: tag and memory.
    pub receives: VecDeque<(u64, Slice)>,
    writing: Option<Writing>,
    receiving: Option<Receiving>,
    kept: KeptAnswers,
    /// The time since which a message waits for a buffer.
    waits_since: Option<Moment>,
    /// Requests done, modulo 2^24 (MSN).
    pub messages: u32,
}

impl Executor {
    pub fn new(
        id: EndpointId,
        transport: Transport,
        peer_kind: PeerKind,
        payload_bytes: usize,
    ) -> Executor {
        Executor {
            id,
            peer_kind,
            awaits_room: transport == Transport::Reliable && peer_kind == PeerKind::Standard,
            payload_bytes,
            receives: VecDeque::new(),
            writing: None,
            receiving: None,
            kept: KeptAnswers::default(),
            waits_since: None,
            messages: 0,
        }
    }

    /// Returns the number of posted buffers.
    pub fn buffers(&self) -> usize {
        self.receives.len()
    }

    /// Returns true for an empty write to no region, which a sender puts in the place of a refused
    /// request.
    pub fn is_empty_write(packet: &Packet<'_>) -> bool {
        let Body::Write(_, WritePart::Only(Reth { key: 0, bytes: 0, .. }, None)) =
            packet.headers().body
        else {
            return false;
        };
        packet.payload().is_empty()
    }

    /// Does the request with this number, in order.
    pub fn step(
        &mut self,
        number: u64,
        packet: &Packet<'_>,
        answers: &mut Answers,
        context: &mut Context<'_>,
    ) -> Outcome {
        if Executor::is_empty_write(packet) {
            context.counters.frames_empty += 1;
            self.waits_since = None;
            return Outcome::Next(1);
        }
        let psn = packet.headers().psn;
        let done = match packet.headers().body {
            Body::Write(_, part) => self.write(psn, part, packet.payload(), context),
            Body::Send(_, part) => self.receive(psn, part, packet.payload(), context),
            Body::ReadRequest(reth) => return self.read(number, reth, answers, context),
            Body::FetchAdd(at) => self.word(number, at, answers, context, |memory, offset| {
                memory.fetch_add(offset, at.swap_or_add)
            }),
            Body::CompareSwap(at) => self.word(number, at, answers, context, |memory, offset| {
                memory.compare_swap(offset, at.compare, at.swap_or_add)
            }),
            _ => Err(Outcome::Refused(Status::Transport)),
        };
        match done {
            Ok(()) => Outcome::Next(1),
            Err(step) => step,
        }
    }

    // ---- writes ----

    fn write(
        &mut self,
        psn: Psn,
        part: WritePart,
        payload: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Outcome> {
        let (notify, ends) = match part {
            WritePart::First(reth) => {
                self.begin_write(psn, reth, context)?;
                (None, false)
            }
            WritePart::Only(reth, notify) => {
                self.begin_write(psn, reth, context)?;
                if notify.is_some() {
                    self.await_room()?;
                }
                (notify, true)
            }
            WritePart::Middle => (None, false),
            WritePart::Last(notify) => (notify, true),
        };
        let Some(mut writing) = self.writing.take() else { return self.stray() };
        let left = writing.bytes - writing.done;
        let bytes = payload.len() as u64;
        if context.regions.get(writing.region).is_err() {
            return Err(Outcome::Refused(Status::Withdrawn));
        }
        if bytes > left || (ends && bytes != left) {
            return Err(Outcome::Refused(Status::Transport));
        }
        if writing.memory.write(writing.offset + writing.done, payload).is_err() {
            return Err(Outcome::Refused(Status::OutOfRegion));
        }
        context.counters.payload_placed += bytes;
        writing.done += bytes;
        writing.next = psn.plus(1);
        if !ends {
            self.writing = Some(writing);
            return Ok(());
        }
        self.messages = self.messages.wrapping_add(1);
        if let Some(value) = notify {
            let Writing { region, offset, bytes, .. } = writing;
            let endpoint = self.id;
            let completion = Completion::Notified { endpoint, region, offset, bytes, value };
            context.completions.push_back(completion);
        }
        Ok(())
    }

    fn begin_write(&mut self, psn: Psn, reth: Reth, context: &Context<'_>) -> Result<(), Outcome> {
        self.writing = None;
        let range = context.granted_range(reth.into(), |rights: Rights| rights.put);
        let range = range.map_err(Outcome::Refused)?;
        if !range.memory.admits(range.offset, u64::from(reth.bytes)) {
            return Err(Outcome::Refused(Status::OutOfRegion));
        }
        self.writing = Some(Writing {
            region: range.region,
            memory: Arc::clone(range.memory),
            offset: range.offset,
            bytes: u64::from(reth.bytes),
            done: 0,
            next: psn,
        });
        Ok(())
    }

    /// Puts a reliable peer of the standard off while the memory of its notified write is not read.
    /// In the standard, a write with immediate data takes a receive buffer; a free place in the
    /// memory stands for it here. Other peers' writes into unread memory are refused by the memory.
    fn await_room(&mut self) -> Result<(), Outcome> {
        let is_taken = |of: &Writing| !of.memory.is_free(of.offset, of.bytes);
        if !self.awaits_room || !self.writing.as_ref().is_some_and(is_taken) {
            return Ok(());
        }
        self.writing = None;
        Err(Outcome::NotReady)
    }

    /// Forgets all requests: the peer begins anew. Buffers for messages stay.
    pub fn restart(&mut self) {
        if let Some(unfinished) = self.receiving.take() {
            self.receives.push_front((unfinished.tag, unfinished.into));
        }
        (self.writing, self.waits_since, self.messages) = (None, None, 0);
        self.kept = KeptAnswers::default();
    }

    /// Takes a part of an operation whose beginning was refused. Fluxline peers may have sent it
    /// before they knew; peers of the standard never do.
    fn stray(&self) -> Result<(), Outcome> {
        match self.peer_kind {
            PeerKind::Fluxline => Ok(()),
            PeerKind::Standard => Err(Outcome::Refused(Status::Transport)),
        }
    }

    // ---- messages ----

    fn receive(
        &mut self,
        psn: Psn,
        part: SendPart,
        payload: &[u8],
        context: &mut Context<'_>,
    ) -> Result<(), Outcome> {
        if matches!(part, SendPart::First | SendPart::Only(_)) {
            self.begin_receive(psn, context)?;
        }
        let Some(mut receiving) = self.receiving.take() else { return self.stray() };
        let room = receiving.into.bytes - receiving.done;
        let fits = (payload.len() as u64).min(room);
        let offset = receiving.into.offset + receiving.done;
        if receiving.memory.write(offset, &payload[..fits as usize]).is_err() {
            self.received(&receiving, Status::Withdrawn, context);
            return Err(Outcome::Refused(Status::NoBuffer));
        }
        context.counters.payload_placed += fits;
        receiving.done += fits;
        receiving.next = psn.plus(1);
        if fits < payload.len() as u64 {
            self.received(&receiving, Status::TooLong, context);
            return Err(Outcome::Refused(Status::TooLong));
        }
        if matches!(part, SendPart::Last(_) | SendPart::Only(_)) {
            self.messages = self.messages.wrapping_add(1);
            self.received(&receiving, Status::Done, context);
        } else {
            self.receiving = Some(receiving);
        }
        Ok(())
    }

    fn begin_receive(&mut self, psn: Psn, context: &mut Context<'_>) -> Result<(), Outcome> {
        if let Some(unfinished) = self.receiving.take() {
            self.receives.push_front((unfinished.tag, unfinished.into));
        }
        let Some((tag, into)) = self.receives.pop_front() else {
            let since = *self.waits_since.get_or_insert(context.now);
            if context.now.since(since) < NO_BUFFER_WAIT {
                return Err(Outcome::NotReady);
            }
            context.counters.no_buffer += 1;
            self.waits_since = None;
            return Err(Outcome::Refused(Status::NoBuffer));
        };
        self.waits_since = None;
        let Ok(memory) = context.regions.slice(into) else {
            let (endpoint, operation) = (self.id, Operation::Receive);
            let status = Status::Withdrawn;
            let completion = Completion::Done { endpoint, tag, operation, status, value: 0 };
            context.completions.push_back(completion);
            return Err(Outcome::Refused(Status::NoBuffer));
        };
        self.receiving = Some(Receiving { tag, into, memory, done: 0, next: psn });
        Ok(())
    }

    /// Completes the buffer of a message.
    fn received(&self, receiving: &Receiving, status: Status, context: &mut Context<'_>) {
        let (endpoint, operation) = (self.id, Operation::Receive);
        let (tag, value) = (receiving.tag, receiving.done);
        context.completions.push_back(Completion::Done { endpoint, tag, operation, status, value });
    }

    /// Returns true when a message that waits for a buffer can be tried again.
    pub fn may_go_on(&self, now: Moment) -> bool {
        !self.receives.is_empty() || self.waits_until().is_none_or(|until| until <= now)
    }

    /// Returns the time at which a message that waits for a buffer is refused.
    pub fn waits_until(&self) -> Option<Moment> {
        self.waits_since.map(|since| since + NO_BUFFER_WAIT)
    }

    /// Takes out all buffers without a message; returns their tags.
    pub fn unused(&mut self) -> impl Iterator<Item = u64> + '_ {
        let begun = self.receiving.take().map(|of| of.tag);
        begun.into_iter().chain(self.receives.drain(..).map(|(tag, _)| tag))
    }
}
