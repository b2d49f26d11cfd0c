//! Messages with tags: short ones into slots, longer ones in pieces after their receiver's grant.

use alloc::vec::Vec;

use super::lane::Lane;
use super::peer::Arrived;
use super::requests::{Bytes, Filling, Message, Outcome, Receive, Request, Send, Source, State};
use super::wire::{Header, HeaderKind, Notice};
use super::{Group, GroupError, GroupPut};
use crate::fabric::{Fabric, Local, PostError};

impl Group {
    /// Begins to send a message to a rank; [`Group::finished`] reports its end.
    ///
    /// [`Local::Bytes`] are copied before the call returns, unless they are sent at once. A
    /// [`Local::Region`] must not change until the request has finished. Messages to one rank
    /// with one tag are received in the order of sending. Errors: [`GroupError`].
    pub fn start_send(
        &mut self,
        fabric: &mut dyn Fabric,
        to: usize,
        tag: u64,
        from: Local<'_>,
    ) -> Result<Request, GroupError> {
        self.check_rank(to)?;
        if let Some(error) = &self.peers[to].gone {
            return Err(error.clone());
        }
        let (total, max) = (from.bytes(), self.config.message_bytes_max);
        if total > max {
            return Err(GroupError::TooLong { rank: to, bytes: total, max });
        }
        let is_short = total <= u64::from(self.config.eager_bytes);
        if is_short && self.peers[to].queued.is_empty() {
            let header = Header { kind: HeaderKind::Eager, tag, bytes: total, id: 0 };
            if self.put_slot(fabric, to, Lane::Messages, Part { header, from })? {
                return self.requests.add(State::Over(Ok(Outcome::Sent)));
            }
        }
        let bytes = match from {
            Local::Region(slice) => {
                fabric.memory(slice.region)?.check(slice.offset, slice.bytes)?;
                Bytes::Region(slice)
            }
            Local::Bytes(bytes) => Bytes::Copy(copy(bytes)?),
            Local::Gather(_) => return Err(PostError::Source.into()),
        };
        let request = self.requests.add(State::Send(Send { to, tag, bytes, total, put: 0 }))?;
        self.peers[to].queued.push_back(request.0);
        let progressed = self.progress_queued(fabric, to);
        self.check(to, progressed);
        Ok(request)
    }

    /// Begins to receive a message of at most `bytes_max`; `tag` is `None` for any.
    ///
    /// A message is given to the first receive that fits; one that was announced is granted at
    /// once. Errors: [`GroupError`].
    pub fn start_receive(
        &mut self,
        fabric: &mut dyn Fabric,
        from: Source,
        tag: Option<u64>,
        bytes_max: u64,
    ) -> Result<Request, GroupError> {
        if let Source::Rank(rank) = from {
            self.check_rank(rank)?;
        }
        let receive = Receive { from, tag, bytes_max, filling: None };
        let found = self.find_arrived(&receive);
        if found.is_none() {
            let gone = match from {
                Source::Rank(rank) => self.peers[rank].gone.as_ref(),
                Source::Any => self.first_gone(),
            };
            if let Some(error) = gone {
                return Err(error.clone());
            }
        }
        let request = self.requests.add(State::Receive(receive))?;
        match found {
            Some(Found { rank, index }) => {
                if let Some(arrived) = self.peers[rank].arrived.remove(index) {
                    self.deliver(request.0, rank, arrived);
                    let progressed = self.progress_peer(fabric, rank);
                    self.check(rank, progressed);
                }
            }
            None => self.requests.waiting.push_back(request.0),
        }
        Ok(request)
    }

    /// Returns the result of a request once it is over; `None`: poll, and ask again.
    ///
    /// Each result is returned once. Errors: of a request that is not open.
    pub fn finished(&mut self, request: Request) -> Option<Result<Outcome, GroupError>> {
        if !self.requests.contains(request.0) {
            return Some(Err(GroupError::UnknownRequest));
        }
        self.requests.take(request.0)
    }

    /// Waits for the end of a request, at most for the group's patience.
    ///
    /// A receive that is late is taken back, unless its message is arriving.
    ///
    /// Errors: [`GroupError`].
    pub fn wait(
        &mut self,
        fabric: &mut dyn Fabric,
        request: Request,
    ) -> Result<Outcome, GroupError> {
        let ended = self.wait_for(fabric, "a message", |group| {
            group.finished(request).or_else(|| group.is_crowded_out(request).map(Err))
        });
        if ended.as_ref().map_or_else(|_| true, Result::is_err) {
            self.requests.cancel(request.0);
        }
        ended?
    }

    /// Sends a message and waits until its source may be used again.
    ///
    /// Errors: [`GroupError`].
    pub fn send(
        &mut self,
        fabric: &mut dyn Fabric,
        to: usize,
        tag: u64,
        from: Local<'_>,
    ) -> Result<(), GroupError> {
        let request = self.start_send(fabric, to, tag, from)?;
        self.wait(fabric, request).map(|_| ())
    }

    /// Receives a message of at most `bytes_max`. Errors: [`GroupError`].
    pub fn receive(
        &mut self,
        fabric: &mut dyn Fabric,
        from: Source,
        tag: Option<u64>,
        bytes_max: u64,
    ) -> Result<Message, GroupError> {
        let request = self.start_receive(fabric, from, tag, bytes_max)?;
        match self.wait(fabric, request)? {
            Outcome::Received(message) => Ok(message),
            Outcome::Sent => Err(GroupError::UnknownRequest),
        }
    }

    /// Returns the number of messages that have arrived and that nobody receives.
    #[must_use]
    pub fn unexpected(&self) -> usize {
        self.peers.iter().map(|peer| peer.arrived.len()).sum()
    }

    /// Returns the error of a receive whose message cannot come: other messages have all slots.
    fn is_crowded_out(&mut self, request: Request) -> Option<GroupError> {
        let receive = self.requests.receive(request.0)?;
        if receive.filling.is_some() {
            return None;
        }
        let (from, slots) = (receive.from, self.config.slots as usize);
        let mut senders =
            (0..self.size()).filter(|rank| *rank != self.config.rank && from.includes(*rank));
        let first = senders.clone().next()?;
        let is_full = senders.all(|rank| self.peers[rank].arrived.len() >= slots);
        is_full.then_some(GroupError::Unexpected { rank: first, waiting: slots })
    }

    /// Finds the earliest message that fits a receive.
    fn find_arrived(&self, receive: &Receive) -> Option<Found> {
        let mut first: Option<(u64, Found)> = None;
        for (rank, peer) in self.peers.iter().enumerate() {
            if !receive.from.includes(rank) {
                continue;
            }
            let fits = |of: &Arrived| receive.tag.is_none_or(|tag| tag == of.header.tag);
            let Some(index) = peer.arrived.iter().position(fits) else { continue };
            let order = peer.arrived[index].order;
            if first.as_ref().is_none_or(|earlier| order < earlier.0) {
                first = Some((order, Found { rank, index }));
            }
        }
        first.map(|of| of.1)
    }

    /// Gives a message to the first receive that fits, or keeps it in its slot.
    pub(super) fn message_arrived(&mut self, rank: usize, arrived: Arrived) {
        let tag = arrived.header.tag;
        let waiting = core::mem::take(&mut self.requests.waiting);
        let fits = |receive: &Receive| {
            receive.from.includes(rank) && receive.tag.is_none_or(|of| of == tag)
        };
        let at =
            waiting.iter().position(|id| self.requests.receive(*id).is_some_and(|of| fits(of)));
        self.requests.waiting = waiting;
        match at.and_then(|at| self.requests.waiting.remove(at)) {
            Some(id) => self.deliver(id, rank, arrived),
            None => self.peers[rank].arrived.push_back(arrived),
        }
    }

    /// Gives a message to a receive: its bytes, or a grant for its pieces.
    fn deliver(&mut self, id: u32, rank: usize, arrived: Arrived) {
        let Header { kind, tag, bytes: total, id: announced } = arrived.header;
        let receive = self.requests.receive(id).expect("it was found among those that wait");
        let mut taken = match (total <= receive.bytes_max, buffer(total)) {
            (false, _) => {
                let max = receive.bytes_max;
                Err(GroupError::TooLong { rank: self.config.rank, bytes: total, max })
            }
            (true, None) => Err(GroupError::Memory { bytes: total }),
            (true, Some(bytes)) => Ok(bytes),
        };
        if kind == HeaderKind::Announcement {
            let notice = Notice::Grant { id: announced as u32 };
            match taken {
                Ok(bytes) => {
                    receive.filling = Some(Filling { from: rank, tag, total, bytes });
                    self.peers[rank].filling.push_back(id);
                    self.peers[rank].control.push_back(notice);
                }
                Err(error) => {
                    self.requests.end(id, Err(error));
                    let refusal = Notice::Refuse { id: announced as u32 };
                    self.peers[rank].control.push_back(refusal);
                }
            }
        } else {
            if let Ok(bytes) = &mut taken {
                bytes.resize(total as usize, 0);
                if let Err(error) = self.payload(rank, Lane::Messages, arrived.slot, bytes) {
                    taken = Err(error);
                }
            }
            let message = taken.map(|bytes| Outcome::Received(Message { from: rank, tag, bytes }));
            self.requests.end(id, message);
        }
        self.peers[rank].incoming[Lane::Messages as usize].release(arrived.slot);
    }

    /// Takes a piece of the first message whose pieces arrive.
    pub(super) fn piece_arrived(&mut self, rank: usize, slot: u32) -> Result<(), &'static str> {
        let from = self.layout.slot(rank, Lane::Bulk, slot);
        let id = *self.peers[rank].filling.front().ok_or("sent a piece that was not granted")?;
        self.peers[rank].incoming[Lane::Bulk as usize].release(slot);
        let chunk_bytes = u64::from(self.config.chunk_bytes);
        // A receive that is over drops its pieces; its identifier is freed after the last one.
        let Some(Receive { filling: Some(filling), .. }) = self.requests.receive(id) else {
            return Err("sent a piece of a message that is over");
        };
        let done = filling.bytes.len();
        let piece = chunk_bytes.min(filling.total - done as u64) as usize;
        filling.bytes.resize(done + piece, 0);
        let read = self.memory.read(from, &mut filling.bytes[done..]);
        read.map_err(|_| "sent a piece that cannot be read")?;
        if filling.bytes.len() as u64 == filling.total {
            let (tag, bytes) = (filling.tag, core::mem::take(&mut filling.bytes));
            self.requests.end(id, Ok(Outcome::Received(Message { from: rank, tag, bytes })));
            self.peers[rank].filling.pop_front();
        }
        Ok(())
    }

    /// Takes a grant: the pieces of the message may be put.
    pub(super) fn granted(&mut self, rank: usize, id: u32) -> Result<(), &'static str> {
        if !self.is_announced(rank, id) {
            return Err("granted a message that was not announced");
        }
        self.peers[rank].granted.push_back(id);
        Ok(())
    }

    /// Takes a refusal: the message ends.
    pub(super) fn refused(&mut self, rank: usize, id: u32) -> Result<(), &'static str> {
        if !self.is_announced(rank, id) {
            return Err("refused a message that was not announced");
        }
        let bytes = self.requests.send(id).map_or(0, |send| send.total);
        self.requests.end(id, Err(GroupError::Refused { rank, bytes }));
        Ok(())
    }

    fn is_announced(&mut self, rank: usize, id: u32) -> bool {
        let eager_bytes = u64::from(self.config.eager_bytes);
        let peer = &self.peers[rank];
        let is_elsewhere = peer.queued.contains(&id) || peer.granted.contains(&id);
        let send = self.requests.send(id);
        !is_elsewhere
            && send.is_some_and(|of| of.to == rank && of.total > eager_bytes && of.put == 0)
    }

    /// Puts queued messages and announcements into free slots.
    pub(super) fn progress_queued(
        &mut self,
        fabric: &mut dyn Fabric,
        rank: usize,
    ) -> Result<(), GroupError> {
        while let Some(id) = self.peers[rank].queued.front().copied() {
            let Some(send) = self.requests.send(id).cloned() else {
                self.peers[rank].queued.pop_front();
                continue;
            };
            let (tag, bytes) = (send.tag, send.total);
            let is_short = bytes <= u64::from(self.config.eager_bytes);
            let (kind, from) = match (is_short, &send.bytes) {
                (false, _) => (HeaderKind::Announcement, Local::Bytes(&[])),
                (true, Bytes::Copy(copy)) => (HeaderKind::Eager, Local::Bytes(copy)),
                (true, Bytes::Region(slice)) => (HeaderKind::Eager, Local::Region(*slice)),
            };
            let header = Header { kind, tag, bytes, id: u64::from(id) };
            if !self.put_slot(fabric, rank, Lane::Messages, Part { header, from })? {
                return Ok(());
            }
            self.peers[rank].queued.pop_front();
            if is_short {
                self.requests.end(id, Ok(Outcome::Sent));
            }
        }
        Ok(())
    }

    /// Puts pieces of granted messages into free slots.
    pub(super) fn progress_pieces(
        &mut self,
        fabric: &mut dyn Fabric,
        rank: usize,
    ) -> Result<(), GroupError> {
        while let Some(id) = self.peers[rank].granted.front().copied() {
            let Some(slot) = self.peers[rank].outgoing[Lane::Bulk as usize].take() else {
                return Ok(());
            };
            // A message is taken out while its piece is put.
            let Some(State::Send(mut send)) = self
                .requests
                .state(id)
                .map(|state| core::mem::replace(state, State::Over(Ok(Outcome::Sent))))
            else {
                return Err(GroupError::UnknownRequest);
            };
            let posted = self.put_piece(fabric, id, slot, &mut send);
            let (is_copied, is_whole) = (send.is_copied_at_once(), send.put == send.total);
            if let Some(state) = self.requests.state(id)
                && !(is_copied && is_whole)
            {
                *state = State::Send(send);
            }
            if !posted? {
                self.peers[rank].outgoing[Lane::Bulk as usize].give_back(slot);
                return Ok(());
            }
            if is_whole {
                self.peers[rank].granted.pop_front();
            }
        }
        Ok(())
    }

    /// Puts the next piece of a message. Returns false if the queue is full.
    fn put_piece(
        &self,
        fabric: &mut dyn Fabric,
        id: u32,
        slot: u32,
        send: &mut Send,
    ) -> Result<bool, GroupError> {
        let piece = u64::from(self.config.chunk_bytes).min(send.total - send.put);
        let is_last = send.put + piece == send.total;
        let range = send.put as usize..(send.put + piece) as usize;
        let (from, end) = match &send.bytes {
            Bytes::Copy(bytes) => (Local::Bytes(&bytes[range]), None),
            Bytes::Region(slice) => {
                let offset = slice.offset + send.put;
                let slice = crate::fabric::Slice { offset, bytes: piece, ..*slice };
                (Local::Region(slice), is_last.then_some(id))
            }
        };
        let to = self.layout.slot(self.config.rank, Lane::Bulk, slot);
        let notice = Notice::Slot { lane: Lane::Bulk, slot };
        let is_posted = self.put(fabric, send.to, from, GroupPut { to, notice, end })?;
        if is_posted {
            send.put += piece;
        }
        Ok(is_posted)
    }

    /// Puts a header and its bytes into a free slot. Returns false if there is none, or the queue
    /// is full.
    pub(super) fn put_slot(
        &mut self,
        fabric: &mut dyn Fabric,
        rank: usize,
        lane: Lane,
        part: Part<'_>,
    ) -> Result<bool, GroupError> {
        let Some(slot) = self.peers[rank].outgoing[lane as usize].take() else {
            return Ok(false);
        };
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(&part.header.to_bytes());
        let filled = append(&mut scratch, fabric, part.from);
        let to = self.layout.slot(self.config.rank, lane, slot);
        let put = GroupPut { to, notice: Notice::Slot { lane, slot }, end: None };
        let posted = filled.and_then(|()| self.put(fabric, rank, Local::Bytes(&scratch), put));
        self.scratch = scratch;
        if posted != Ok(true) {
            self.peers[rank].outgoing[lane as usize].give_back(slot);
        }
        posted
    }
}

/// A header, and the bytes behind it.
pub(super) struct Part<'a> {
    pub header: Header,
    pub from: Local<'a>,
}

/// A message that has arrived.
struct Found {
    rank: usize,
    /// Its index among the messages of the rank.
    index: usize,
}

/// Appends the bytes of a source.
fn append(to: &mut Vec<u8>, fabric: &dyn Fabric, from: Local<'_>) -> Result<(), GroupError> {
    if let Local::Bytes(bytes) = from {
        to.extend_from_slice(bytes);
        return Ok(());
    }
    for piece in from.pieces() {
        let begin = to.len();
        to.resize(begin + piece.bytes as usize, 0);
        fabric.memory(piece.region)?.read(piece.offset, &mut to[begin..])?;
    }
    Ok(())
}

/// Returns an empty buffer with room; `None`: the host has too little memory.
fn buffer(bytes: u64) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(usize::try_from(bytes).ok()?).ok()?;
    Some(buffer)
}

fn copy(bytes: &[u8]) -> Result<Vec<u8>, GroupError> {
    let mut copy =
        buffer(bytes.len() as u64).ok_or(GroupError::Memory { bytes: bytes.len() as u64 })?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}
