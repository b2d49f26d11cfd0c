//! One end of a connection: everything that it sends and receives, except the bytes of puts.

use std::collections::VecDeque;

use fluxline_core::fabric::{
    Completion, EndpointId, Operation, RegionId, Reliability, Slice, Status,
};
use fluxline_core::{Moment, Span};

use super::channel::{Corrupt, Receiver, Record, Sender};
use super::node::{End, NodeFile, Phase, Slot};
use super::region::OwnRegion;
use super::table::Table;

/// Time after which a message without a posted buffer is dropped; its sender is notified.
const NO_BUFFER_WAIT: Span = Span::from_ms(100);
/// Records taken in one turn.
const RECORDS_PER_TURN: usize = 16;

/// Kinds of records.
mod kind {
    pub const NOTICE: u8 = 1;
    pub const MESSAGE: u8 = 2;
    pub const ANSWER: u8 = 3;
}

/// Completions that the program has not polled yet.
pub(super) type CompletionQueue = VecDeque<Completion>;

/// Work that waits for the peer's answer.
enum Unanswered {
    Message { tag: u64, reported: bool },
    Flush { tag: u64 },
}

/// The other node of a connection.
pub(super) struct Peer {
    pub name: String,
    /// Its control file, with its life lock and its bell.
    pub node: NodeFile,
}

/// The record by which a peer learns that the bytes of a put are in place.
pub(super) struct Notice {
    /// The owner's number of the region.
    pub region: u32,
    pub value: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// Size of a notice's record \[byte\].
pub(super) const NOTICE_BYTES: usize = 24;

impl Notice {
    fn to_words(&self) -> [u64; 3] {
        [u64::from(self.region) | u64::from(self.value) << 32, self.offset, self.bytes]
    }

    fn of_words([numbers, offset, bytes]: [u64; 3]) -> Notice {
        Notice { region: numbers as u32, value: (numbers >> 32) as u32, offset, bytes }
    }
}

/// One end of a connection.
pub(super) struct Endpoint {
    pub id: EndpointId,
    pub reliability: Reliability,
    pub peer: Peer,
    slot: Slot,
    end: End,
    /// True if the owner has answered.
    pub open: bool,
    sender: Sender,
    receiver: Receiver,
    /// Buffers for the peer's messages.
    pub receives: VecDeque<(u64, Slice)>,
    /// Messages that the peer has not answered, and flushes between them.
    unanswered: VecDeque<Unanswered>,
    /// The number of `unanswered`, from the front, that came before the last fence.
    fenced: usize,
    /// The moment since which the first message has waited for a buffer.
    waits_since: Option<Moment>,
    record: Vec<u8>,
    bell: Bell,
}

/// The way in which this end wakes the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bell {
    /// With each record.
    Rings,
    /// After the batch, if a record was sent.
    Held,
    /// After the batch: a record was sent.
    Due,
}

impl Endpoint {
    pub fn new(
        id: EndpointId,
        peer: Peer,
        reliability: Reliability,
        slot: Slot,
        end: End,
    ) -> Endpoint {
        let (sender, receiver) = slot.channels(end);
        Endpoint {
            id,
            reliability,
            peer,
            slot,
            end,
            open: end == End::Owner,
            sender,
            receiver,
            receives: VecDeque::new(),
            unanswered: VecDeque::new(),
            fenced: 0,
            waits_since: None,
            record: Vec::new(),
            bell: Bell::Rings,
        }
    }

    /// Returns true if a record of `bytes` has room, with room reserved for one answer per message.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        self.sender.has_room(bytes + 16 * RECORDS_PER_TURN)
    }

    /// Notifies the peer that bytes are in place.
    pub fn notify(&mut self, notice: &Notice) {
        self.sender.push_words(kind::NOTICE, notice.to_words());
        self.ring();
    }

    fn ring(&mut self) {
        match self.bell {
            Bell::Rings => self.peer.node.ring(),
            Bell::Held | Bell::Due => self.bell = Bell::Due,
        }
    }

    /// Lets the bell wait for the end of a batch of posts.
    pub fn hold_bell(&mut self) {
        self.bell = Bell::Held;
    }

    /// Rings for the whole batch, if something was sent.
    pub fn release_bell(&mut self) {
        if self.bell == Bell::Due {
            self.peer.node.ring();
        }
        self.bell = Bell::Rings;
    }

    /// Sends a message; its completion comes with the peer's answer.
    pub fn send(&mut self, bytes: &[u8], tag: u64, reported: bool) {
        self.sender.push(kind::MESSAGE, bytes);
        self.unanswered.push_back(Unanswered::Message { tag, reported });
        self.ring();
    }

    /// Completes when all earlier messages are answered; puts are in place as soon as they are
    /// posted.
    pub fn flush(&mut self, tag: u64, completions: &mut CompletionQueue) {
        self.unanswered.push_back(Unanswered::Flush { tag });
        self.complete_flushes(completions);
    }

    /// Makes later work wait for all earlier messages (`is_fenced`).
    pub fn fence(&mut self) {
        self.fenced = self.unanswered.len();
    }

    /// Returns true when work must wait for messages that were sent before a fence.
    pub fn is_fenced(&self) -> bool {
        self.fenced > 0
    }

    /// Returns how many messages and flushes wait for an answer.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    fn complete_flushes(&mut self, completions: &mut CompletionQueue) {
        while let Some(Unanswered::Flush { tag }) = self.unanswered.front() {
            completions.push_back(self.done(*tag, Operation::Flush, Status::Done, 0));
            self.unanswered.pop_front();
            self.fenced = self.fenced.saturating_sub(1);
        }
    }

    /// Takes the peer's records; `Err`: the reason why the connection is over.
    pub fn turn(
        &mut self,
        now: Moment,
        regions: &Table<OwnRegion>,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        if !self.open {
            return self.answered(completions);
        }
        // Reads the flag first, so that records sent before the peer closed are seen afterwards.
        let closed = self.slot.phase() != Some(Phase::Open) || self.slot.is_closed(self.other());
        for _ in 0..RECORDS_PER_TURN {
            let peeked = self.receiver.peek();
            let Some(record) = peeked.map_err(|Corrupt| Status::Transport)? else {
                return if closed { Err(Status::Disconnected) } else { Ok(()) };
            };
            if !self.take(record, now, regions, completions)? {
                return if closed { Err(Status::Disconnected) } else { Ok(()) };
            }
            self.receiver.take(record);
        }
        Ok(())
    }

    /// Returns true when `turn` has something to do.
    pub fn is_due(&self) -> bool {
        let answered = !self.open && self.slot.phase() != Some(Phase::Claimed);
        let held = self.waits_since.is_some() && self.receives.is_empty();
        answered
            || (self.open && self.slot.is_closed(self.other()))
            || (!held && self.receiver.has_record())
    }

    fn answered(&mut self, completions: &mut CompletionQueue) -> Result<(), Status> {
        match self.slot.phase() {
            Some(Phase::Claimed) => Ok(()),
            Some(Phase::Open) => {
                self.open = true;
                completions.push_back(self.connected());
                Ok(())
            }
            _ => Err(Status::NoRoom),
        }
    }

    pub fn connected(&self) -> Completion {
        Completion::Connected {
            endpoint: self.id,
            peer: self.peer.name.clone(),
            reliability: self.reliability,
        }
    }

    fn other(&self) -> End {
        match self.end {
            End::Claimer => End::Owner,
            End::Owner => End::Claimer,
        }
    }

    /// Takes the peeked record; returns `false` if it must wait.
    fn take(
        &mut self,
        record: Record,
        now: Moment,
        regions: &Table<OwnRegion>,
        completions: &mut CompletionQueue,
    ) -> Result<bool, Status> {
        if record.kind == kind::NOTICE {
            self.take_notice(record, regions, completions)?;
            return Ok(true);
        }
        self.receiver.read(record, &mut self.record);
        match record.kind {
            kind::ANSWER => self.take_answer(completions)?,
            kind::MESSAGE => return Ok(self.take_message(now, regions, completions)),
            _ => return Err(Status::Version),
        }
        Ok(true)
    }

    fn take_notice(
        &mut self,
        record: Record,
        regions: &Table<OwnRegion>,
        completions: &mut CompletionQueue,
    ) -> Result<(), Status> {
        let words = self.receiver.read_words(record).ok_or(Status::Version)?;
        let Notice { region, value, offset, bytes } = Notice::of_words(words);
        // A notice of a withdrawn region is dropped.
        if let Some(of) = regions.get(region) {
            // A put never leaves its region, so its bytes fit into a program's memory.
            of.place(offset, bytes).map_err(|_| Status::Transport)?;
            let (endpoint, region) = (self.id, RegionId(region));
            completions.push_back(Completion::Notified { endpoint, region, offset, bytes, value });
        }
        Ok(())
    }

    fn take_answer(&mut self, completions: &mut CompletionQueue) -> Result<(), Status> {
        let (Some(Unanswered::Message { tag, reported: wanted }), [answer]) =
            (self.unanswered.pop_front(), &self.record[..])
        else {
            return Err(Status::Version);
        };
        self.fenced = self.fenced.saturating_sub(1);
        let status = match answer {
            0 => Status::Done,
            1 => Status::TooLong,
            _ => Status::NoBuffer,
        };
        if wanted || status != Status::Done {
            completions.push_back(self.done(tag, Operation::Send, status, 0));
        }
        self.complete_flushes(completions);
        Ok(())
    }

    fn take_message(
        &mut self,
        now: Moment,
        regions: &Table<OwnRegion>,
        completions: &mut CompletionQueue,
    ) -> bool {
        let since = *self.waits_since.get_or_insert(now);
        let Some((tag, into)) = self.receives.pop_front() else {
            if now.since(since) < NO_BUFFER_WAIT {
                return false;
            }
            self.answer(2);
            return true;
        };
        let room = usize::try_from(into.bytes).unwrap_or(usize::MAX).min(self.record.len());
        let region = regions.get(into.region.0);
        let place = region.and_then(|of| of.place(into.offset, room as u64).ok());
        let status = match (region, place) {
            (Some(region), Some(place)) => {
                region.map.write(place, &self.record[..room]);
                if room < self.record.len() { Status::TooLong } else { Status::Done }
            }
            _ => Status::Withdrawn,
        };
        completions.push_back(self.done(tag, Operation::Receive, status, room as u64));
        self.answer(match status {
            Status::Done => 0,
            Status::TooLong => 1,
            _ => 2,
        });
        true
    }

    fn answer(&mut self, answer: u8) {
        self.waits_since = None;
        // Room for answers is reserved (`has_room`); a peer that does not read them has broken the
        // connection.
        if self.sender.has_room(1) {
            self.sender.push(kind::ANSWER, &[answer]);
            self.peer.node.ring();
        }
    }

    pub fn done(&self, tag: u64, operation: Operation, status: Status, value: u64) -> Completion {
        Completion::Done { endpoint: self.id, tag, operation, status, value }
    }

    /// Ends the connection: all waiting work is flushed, then the completion with `status` follows.
    pub fn end(&mut self, status: Status, completions: &mut CompletionQueue) {
        let sends = self.unanswered.drain(..).map(|waiting| match waiting {
            Unanswered::Message { tag, .. } => (tag, Operation::Send),
            Unanswered::Flush { tag } => (tag, Operation::Flush),
        });
        let waiting: Vec<_> =
            sends.chain(self.receives.drain(..).map(|of| (of.0, Operation::Receive))).collect();
        for (tag, operation) in waiting {
            completions.push_back(self.done(tag, operation, Status::Flushed, 0));
        }
        completions.push_back(Completion::Broken { endpoint: self.id, status });
        match (status, self.end) {
            (Status::PeerGone, End::Owner) => self.slot.close_for_dead(),
            _ => self.slot.close(self.end),
        }
        self.peer.node.ring();
    }
}
