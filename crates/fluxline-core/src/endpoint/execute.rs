//! What a request does to regions, buffers and words.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::context::Context;
use super::requester::READS_MAX;
use crate::fabric::{Completion, EndpointId, Memory, Operation, RegionId, Rights, Slice, Status};
use crate::roce::{AtomicEth, Body, Packet, Psn, Reth, SendPart, Syndrome, WritePart};
use crate::{Moment, Span};

/// A message for which no buffer was posted for so long is refused.
const NO_BUFFER_WAIT: Span = Span::from_ms(100);
/// Answers that wait to be sent; requests on top of it are as if lost.
pub(super) const ANSWERS_MAX: usize = 4 * READS_MAX;
/// Reads of up to this are copied when it is their turn: more than any frame has \[byte\].
const COPIED_BYTES_MAX: usize = 1 << 16;

/// An answer that is sent besides acknowledgements.
pub(super) enum Answer {
    /// Bytes that were asked for, those from `at` on.
    Read { psn: Psn, from: ReadData, at: u64 },
    /// A word as it was.
    Word { psn: Psn, value: u64 },
    /// A refusal of the standard.
    Syndrome(Psn, Syndrome),
}

/// Bytes that were asked for.
#[derive(Clone)]
pub(super) enum ReadData {
    /// As they were when it was their request's turn.
    Copied(Arc<[u8]>),
    /// Too many to be copied: as they are when they are sent. Fluxline ends do not ask for so many
    /// in one request.
    InPlace { memory: Arc<dyn Memory>, offset: u64, bytes: u64 },
}

impl ReadData {
    pub fn bytes(&self) -> u64 {
        match self {
            ReadData::Copied(bytes) => bytes.len() as u64,
            ReadData::InPlace { bytes, .. } => *bytes,
        }
    }

    pub fn copy(&self, at: u64, into: &mut [u8]) {
        match self {
            ReadData::Copied(bytes) => into.copy_from_slice(&bytes[at as usize..][..into.len()]),
            ReadData::InPlace { memory, offset, .. } => {
                if memory.read(offset + at, into).is_err() {
                    into.fill(0); // was checked when it was asked for
                }
            }
        }
    }
}

/// An answer that may have to be given again.
enum KeptAnswer {
    Word(u64),
    Bytes(ReadData),
}

/// The outcome of the request that was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done; so many PSNs on is the next.
    Next(u32),
    /// There is no buffer for the message yet.
    NotReady,
    /// Too much waits to be answered: as if it had not come.
    Busy,
    Refused(Status),
}

/// The verdict on a frame of an unreliable peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
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
    /// The PSN of its next frame (unreliable).
    next: Psn,
}

/// A message of several frames.
struct Receiving {
    tag: u64,
    into: Slice,
    memory: Arc<dyn Memory>,
    done: u64,
    next: Psn,
}

pub(super) struct Executor {
    id: EndpointId,
    /// Parts of an operation whose beginning was refused are passed over; strict peers do not send
    /// them.
    lenient: bool,
    /// Bytes of an answer in one frame, at most.
    pub payload_bytes: usize,
    pub receives: VecDeque<(u64, Slice)>,
    writing: Option<Writing>,
    receiving: Option<Receiving>,
    /// The last answers, by their requests' numbers, for giving them again.
    kept: VecDeque<(u64, KeptAnswer)>,
    waits_since: Option<Moment>,
    /// Requests done, modulo 2^24 (MSN).
    pub messages: u32,
}

impl Executor {
    pub fn new(id: EndpointId, lenient: bool, payload_bytes: usize) -> Executor {
        Executor {
            id,
            lenient,
            payload_bytes,
            receives: VecDeque::new(),
            writing: None,
            receiving: None,
            kept: VecDeque::new(),
            waits_since: None,
            messages: 0,
        }
    }

    pub fn buffers(&self) -> usize {
        self.receives.len()
    }

    /// A write of nothing to nowhere: what stands in for a request that was refused.
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
        answers: &mut VecDeque<Answer>,
        context: &mut Context<'_>,
    ) -> Outcome {
        if Executor::is_empty_write(packet) {
            self.waits_since = None;
            return Outcome::Next(1);
        }
        let psn = packet.headers().psn;
        let done = match packet.headers().body {
            Body::Write(_, part) => self.write(psn, part, packet.payload(), context),
            Body::Send(_, part) => self.receive(psn, part, packet.payload(), context),
            Body::ReadRequest(reth) => return self.read(number, (psn, reth), answers, context),
            Body::FetchAdd(at) => {
                self.word(number, (psn, at), answers, context, |memory, offset| {
                    memory.fetch_add(offset, at.swap_or_add)
                })
            }
            Body::CompareSwap(at) => {
                self.word(number, (psn, at), answers, context, |memory, offset| {
                    memory.compare_swap(offset, at.compare, at.swap_or_add)
                })
            }
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
        let wanted = (reth.key, reth.address, u64::from(reth.bytes));
        let place =
            context.regions.granted_range(context.granted, wanted, |rights: Rights| rights.put);
        let place = place.map_err(Outcome::Refused)?;
        self.writing = Some(Writing {
            region: place.region,
            memory: Arc::clone(place.memory),
            offset: place.offset,
            bytes: u64::from(reth.bytes),
            done: 0,
            next: psn,
        });
        Ok(())
    }

    /// A part of something whose beginning was refused.
    fn stray(&self) -> Result<(), Outcome> {
        if self.lenient { Ok(()) } else { Err(Outcome::Refused(Status::Transport)) }
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
        let place = receiving.into.offset + receiving.done;
        if receiving.memory.write(place, &payload[..fits as usize]).is_err() {
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
        if let Some(broken_off) = self.receiving.take() {
            self.receives.push_front((broken_off.tag, broken_off.into));
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

    /// The tags of all buffers that got no message.
    pub fn unused(&mut self) -> impl Iterator<Item = u64> + '_ {
        let begun = self.receiving.take().map(|of| of.tag);
        begun.into_iter().chain(self.receives.drain(..).map(|(tag, _)| tag))
    }

    // ---- reads and words ----

    fn read(
        &mut self,
        number: u64,
        (psn, reth): (Psn, Reth),
        answers: &mut VecDeque<Answer>,
        context: &Context<'_>,
    ) -> Outcome {
        if answers.len() >= ANSWERS_MAX {
            return Outcome::Busy;
        }
        let from = match self.find(reth, context) {
            Ok(from) => from,
            Err(status) => return Outcome::Refused(status),
        };
        self.keep(number, KeptAnswer::Bytes(from.clone()));
        answers.push_back(Answer::Read { psn, from, at: 0 });
        self.messages = self.messages.wrapping_add(1);
        Outcome::Next(reth.bytes.div_ceil(self.payload_bytes as u32).max(1))
    }

    fn find(&self, reth: Reth, context: &Context<'_>) -> Result<ReadData, Status> {
        let wanted = (reth.key, reth.address, u64::from(reth.bytes));
        let place =
            context.regions.granted_range(context.granted, wanted, |rights: Rights| rights.get)?;
        let (memory, offset) = (place.memory, place.offset);
        if reth.bytes as usize > COPIED_BYTES_MAX {
            let (memory, bytes) = (Arc::clone(memory), u64::from(reth.bytes));
            return Ok(ReadData::InPlace { memory, offset, bytes });
        }
        let mut bytes = alloc::vec![0; reth.bytes as usize];
        memory.read(offset, &mut bytes).map_err(|_| Status::OutOfRegion)?;
        Ok(ReadData::Copied(bytes.into()))
    }

    fn keep(&mut self, number: u64, kept: KeptAnswer) {
        self.kept.push_back((number, kept));
        if self.kept.len() > 2 * READS_MAX {
            self.kept.pop_front();
        }
    }

    fn word(
        &mut self,
        number: u64,
        (psn, at): (Psn, AtomicEth),
        answers: &mut VecDeque<Answer>,
        context: &Context<'_>,
        act: impl FnOnce(&dyn Memory, u64) -> Result<u64, crate::fabric::AccessError>,
    ) -> Result<(), Outcome> {
        if answers.len() >= ANSWERS_MAX {
            return Err(Outcome::Busy);
        }
        let wanted = (at.key, at.address, 8);
        let place =
            context.regions.granted_range(context.granted, wanted, |rights: Rights| rights.atomic);
        let place = place.map_err(Outcome::Refused)?;
        if !place.offset.is_multiple_of(8) {
            return Err(Outcome::Refused(Status::Unaligned));
        }
        let value = act(&**place.memory, place.offset);
        let value = value.map_err(|_| Outcome::Refused(Status::OutOfRegion))?;
        self.keep(number, KeptAnswer::Word(value));
        self.messages = self.messages.wrapping_add(1);
        answers.push_back(Answer::Word { psn, value });
        Ok(())
    }

    /// Answers a request again that was done before, as it was answered then. A read that is not
    /// kept any more is done again.
    pub fn repeat(
        &mut self,
        number: u64,
        packet: &Packet<'_>,
        answers: &mut VecDeque<Answer>,
        context: &Context<'_>,
    ) {
        if answers.len() >= ANSWERS_MAX {
            return;
        }
        let psn = packet.headers().psn;
        let kept = self.kept.iter().find(|(of, _)| *of == number).map(|(_, kept)| kept);
        match (kept, packet.headers().body) {
            (Some(KeptAnswer::Word(value)), Body::FetchAdd(_) | Body::CompareSwap(_)) => {
                answers.push_back(Answer::Word { psn, value: *value });
            }
            (Some(KeptAnswer::Bytes(from)), Body::ReadRequest(reth))
                if from.bytes() == u64::from(reth.bytes) =>
            {
                answers.push_back(Answer::Read { psn, from: from.clone(), at: 0 });
            }
            (_, Body::ReadRequest(reth)) => {
                if let Ok(from) = self.find(reth, context) {
                    answers.push_back(Answer::Read { psn, from, at: 0 });
                }
            }
            _ => {}
        }
    }

    // ---- unreliable ----

    /// Checks a frame of an unreliable peer: key, rights, bounds, lengths, and for a
    /// part of an operation its other parts. Changes nothing.
    pub fn check(&self, psn: Psn, packet: &Packet<'_>, context: &Context<'_>) -> Check {
        let bytes = packet.payload().len() as u64;
        match packet.headers().body {
            Body::Write(_, WritePart::First(reth)) => Executor::check_place(&reth, bytes, context),
            Body::Write(_, WritePart::Only(reth, _)) => match bytes == u64::from(reth.bytes) {
                true => Executor::check_place(&reth, bytes, context),
                false => Check::Refused,
            },
            Body::Write(_, part) => {
                let Some(writing) = self.writing.as_ref().filter(|of| of.next == psn) else {
                    return Check::Unusable;
                };
                let left = writing.bytes - writing.done;
                let ends = matches!(part, WritePart::Last(_));
                let is_there = context.regions.get(writing.region).is_ok();
                match is_there && bytes <= left && (!ends || bytes == left) {
                    true => Check::Fits,
                    false => Check::Refused,
                }
            }
            Body::Send(_, SendPart::First | SendPart::Only(_)) => {
                let has_buffer = self.receiving.is_some() || !self.receives.is_empty();
                if has_buffer { Check::Fits } else { Check::Unusable }
            }
            Body::Send(..) => match self.receiving.as_ref().is_some_and(|of| of.next == psn) {
                true => Check::Fits,
                false => Check::Unusable,
            },
            _ => Check::Refused,
        }
    }

    fn check_place(reth: &Reth, payload_bytes: u64, context: &Context<'_>) -> Check {
        let wanted = (reth.key, reth.address, u64::from(reth.bytes));
        let place =
            context.regions.granted_range(context.granted, wanted, |rights: Rights| rights.put);
        let fits = place.is_ok_and(|place| {
            payload_bytes <= wanted.2 && place.memory.admits(place.offset, wanted.2)
        });
        if fits { Check::Fits } else { Check::Refused }
    }

    /// Counts a frame that [`Executor::check`] found unfit.
    pub fn count_unfit(&self, check: Check, packet: &Packet<'_>, context: &mut Context<'_>) {
        let begins_message =
            matches!(packet.headers().body, Body::Send(_, SendPart::First | SendPart::Only(_)));
        match check {
            Check::Fits => {}
            Check::Refused => context.counters.frames_refused += 1,
            Check::Unusable if begins_message => context.counters.no_buffer += 1,
            Check::Unusable => context.counters.frames_out_of_message += 1,
        }
    }

    /// Does what a frame says, unless it is a part of something whose other parts were lost.
    pub fn unreliable(&mut self, psn: Psn, packet: &Packet<'_>, context: &mut Context<'_>) {
        let done = match packet.headers().body {
            Body::Write(_, part) => {
                let begins = matches!(part, WritePart::First(_) | WritePart::Only(..));
                let fits = self.writing.as_ref().is_some_and(|writing| writing.next == psn);
                if !begins && !fits {
                    context.counters.frames_out_of_message += 1;
                    self.writing = None;
                    return;
                }
                self.write(psn, part, packet.payload(), context)
            }
            Body::Send(_, part) => {
                let begins = matches!(part, SendPart::First | SendPart::Only(_));
                let fits = self.receiving.as_ref().is_some_and(|of| of.next == psn);
                if !begins && !fits {
                    context.counters.frames_out_of_message += 1;
                    return;
                }
                self.receive(psn, part, packet.payload(), context)
            }
            _ => Err(Outcome::Refused(Status::Transport)),
        };
        match done {
            Ok(()) => {}
            Err(Outcome::NotReady) => {
                self.waits_since = None;
                context.counters.no_buffer += 1;
            }
            Err(_) => context.counters.frames_refused += 1,
        }
    }
}
