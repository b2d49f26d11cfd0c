//! The card's write streams: buffers of one block each that gather stores and send them.
//!
//! Rules (a model; the sources name gathering, eviction, flush and busy-until-response): One stream
//! gathers at a time, so a store into another block sends the gathering stream. A block has at most
//! one stream, so a store into a block that is under way waits. A stream stays bound to its block
//! until another block needs it. Binding the least recently used stream to a new block takes the
//! claim time.

use super::bridge::Owner;
use super::config::{self, Posting};
use super::{Host, Step};
use crate::sci::{Command, NodeId};
use crate::{Duration, Instant};

/// The card's answer to a burst of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Taken into this stream; `claim`: it was bound to another block.
    Take { stream: usize, claim: bool },
    /// This stream must be sent first; ask again then.
    Send(usize),
    /// No stream is free: try again later.
    Busy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Gathering,
    /// Sent, with this number of unfinished packets.
    Sent(u32),
}

#[derive(Debug, Default)]
struct Stream {
    state: State,
    block: Option<(NodeId, u64)>,
    /// The address of its first byte.
    offset: u64,
    data: Vec<u8>,
    /// The time of its last binding or filling, counted in uses.
    used: u64,
    /// The number of this gathering.
    generation: u64,
    touched: Instant,
}

/// All write streams of a card.
#[derive(Debug)]
pub(super) struct Streams {
    list: Vec<Stream>,
    block_bytes: u64,
    uses: u64,
    gathering: Option<usize>,
}

impl Streams {
    pub(super) fn new(card: &config::Card) -> Streams {
        let list = (0..card.streams).map(|_| Stream::default()).collect();
        Streams { list, block_bytes: u64::from(card.stream_bytes), uses: 0, gathering: None }
    }

    /// Returns true if no stream gathers or is under way.
    pub(super) fn idle(&self) -> bool {
        self.list.iter().all(|stream| stream.state == State::Idle)
    }

    /// Returns the verdict on a burst of stores at this address.
    pub(super) fn verdict(&self, to: NodeId, offset: u64) -> Verdict {
        let block = (to, offset & !(self.block_bytes - 1));
        if let Some(stream) = self.gathering {
            let open = &self.list[stream];
            let follows = open.offset + open.data.len() as u64 == offset;
            return match open.block == Some(block) && follows {
                true => Verdict::Take { stream, claim: false },
                false => Verdict::Send(stream),
            };
        }
        let own = self.list.iter().position(|stream| stream.block == Some(block));
        match own.map(|stream| (stream, self.list[stream].state)) {
            Some((stream, State::Idle)) => Verdict::Take { stream, claim: false },
            Some(_) => Verdict::Busy,
            None => {
                let idle = self.list.iter().enumerate().filter(|(_, one)| one.state == State::Idle);
                let oldest = idle.min_by_key(|(_, one)| one.used);
                oldest.map_or(Verdict::Busy, |(stream, _)| Verdict::Take { stream, claim: true })
            }
        }
    }
}

impl Host {
    /// Binds a stream to the block of an address; returns the time that the bus must wait.
    pub(super) fn stream_bind(
        &mut self,
        stream: usize,
        to: NodeId,
        offset: u64,
        claim: bool,
    ) -> Duration {
        let streams = &mut self.streams;
        streams.uses += 1;
        let one = &mut streams.list[stream];
        one.used = streams.uses;
        one.touched = self.now;
        if one.state == State::Idle {
            one.state = State::Gathering;
            one.block = Some((to, offset & !(streams.block_bytes - 1)));
            one.offset = offset;
            one.data.clear();
            one.generation = streams.uses;
            streams.gathering = Some(stream);
            let due = self.now + self.config.card.gather_timeout;
            self.due.push_back((due, Step::Gathered(streams.uses)));
        }
        match claim {
            true => self.config.card.claim + self.card.translate(to, offset),
            false => Duration::ZERO,
        }
    }

    /// Fills a stream with bytes that have crossed the bus; a full stream is sent.
    pub(super) fn stream_fill(&mut self, stream: usize, data: &[u8]) {
        let one = &mut self.streams.list[stream];
        one.data.extend_from_slice(data);
        one.touched = self.now;
        let end = one.offset + one.data.len() as u64;
        if end.is_multiple_of(self.streams.block_bytes) {
            self.stream_send(stream);
        }
    }

    /// Sends the gathering stream, full or not.
    pub(super) fn streams_flush(&mut self) {
        if let Some(stream) = self.streams.gathering {
            self.stream_send(stream);
        }
    }

    /// Sends the gathering stream if it got no store for the time-out.
    pub(super) fn stream_timeout(&mut self, generation: u64) {
        let Some(stream) = self.streams.gathering else { return };
        let one = &self.streams.list[stream];
        if one.generation != generation {
            return;
        }
        let crossing = self.posting.is_crossing();
        let touched = if crossing { self.now } else { one.touched };
        match touched + self.config.card.gather_timeout {
            until if until > self.now => self.schedule(until, Step::Gathered(generation)),
            _ => self.stream_send(stream),
        }
    }

    /// Sends a stream's bytes as packets.
    pub(super) fn stream_send(&mut self, stream: usize) {
        let moves = self.config.card.posting != Posting::Write;
        let one = &mut self.streams.list[stream];
        if (one.data.len() as u64) < self.streams.block_bytes {
            self.counters.partial_streams += 1;
        }
        let Some((to, _)) = one.block else { return };
        let packets = packets(one.offset, &std::mem::take(&mut one.data), moves);
        one.state = State::Sent(packets.len() as u32);
        self.streams.gathering = self.streams.gathering.filter(|open| *open != stream);
        for (command, offset, data) in packets {
            self.card_send(Owner::Stream(stream), to, command, offset, data, 0);
        }
    }

    /// Ends one of a stream's packets; the stream is free after the last.
    pub(super) fn stream_done(&mut self, stream: usize) {
        let one = &mut self.streams.list[stream];
        let State::Sent(left) = one.state else { return };
        one.state = if left > 1 { State::Sent(left - 1) } else { State::Idle };
        if one.state == State::Idle {
            self.posted_retry();
            self.cpu_resume();
        }
    }
}

/// Cuts bytes into packets: whole blocks of 64, whole blocks of 16, and selected bytes of the rest.
///
/// There is no move of selected bytes: they are written, and answered.
pub(super) fn packets(offset: u64, data: &[u8], moves: bool) -> Vec<(Command, u64, Vec<u8>)> {
    let mut packets = Vec::new();
    let (mut at, mut rest) = (offset, data);
    while !rest.is_empty() {
        let (command, bytes) = match rest.len() {
            left if at % 64 == 0 && left >= 64 && moves => (Command::Move64, 64),
            left if at % 64 == 0 && left >= 64 => (Command::Write64, 64),
            left if at % 16 == 0 && left >= 16 && moves => (Command::Move16, 16),
            left if at % 16 == 0 && left >= 16 => (Command::Write16, 16),
            left => (Command::WriteSelected, left.min(16 - (at % 16) as usize)),
        };
        let (now, later) = rest.split_at(bytes);
        packets.push((command, at, now.to_vec()));
        at += bytes as u64;
        rest = later;
    }
    packets
}
