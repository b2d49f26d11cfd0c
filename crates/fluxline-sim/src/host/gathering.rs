//! Stores on their way through the write streams of the card.

use super::card::Owner;
use super::card::streams::{Piece, State, pieces};
use super::config::Posting;
use super::{Host, Step};
use crate::Duration;

impl Host {
    /// Binds a stream to the block of an address; returns the time that the bus must wait.
    pub(in crate::host) fn stream_bind(
        &mut self,
        stream: usize,
        to: u32,
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
    pub(in crate::host) fn stream_fill(&mut self, stream: usize, data: &[u8]) {
        let one = &mut self.streams.list[stream];
        one.data.extend_from_slice(data);
        one.touched = self.now;
        let end = one.offset + one.data.len() as u64;
        if end.is_multiple_of(self.streams.block_bytes) {
            self.stream_send(stream);
        }
    }

    /// Sends the gathering stream, full or not.
    pub(in crate::host) fn streams_flush(&mut self) {
        if let Some(stream) = self.streams.gathering {
            self.stream_send(stream);
        }
    }

    /// Sends the gathering stream if it got no store for the time-out.
    pub(in crate::host) fn stream_timeout(&mut self, generation: u64) {
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
    pub(in crate::host) fn stream_send(&mut self, stream: usize) {
        let moves = self.config.card.posting != Posting::Write;
        let one = &mut self.streams.list[stream];
        if (one.data.len() as u64) < self.streams.block_bytes {
            self.counters.partial_streams += 1;
        }
        let Some((to, _)) = one.block else { return };
        let pieces = pieces(one.offset, &std::mem::take(&mut one.data), moves);
        one.state = State::Sent(pieces.len() as u32);
        self.streams.gathering = self.streams.gathering.filter(|open| *open != stream);
        for Piece { access, offset, data } in pieces {
            self.card_send(Owner::Stream(stream), to, access, offset, data);
        }
    }

    /// Ends one of a stream's packets; the stream is free after the last.
    pub(in crate::host) fn stream_done(&mut self, stream: usize) {
        let one = &mut self.streams.list[stream];
        let State::Sent(left) = one.state else { return };
        one.state = if left > 1 { State::Sent(left - 1) } else { State::Idle };
        if one.state == State::Idle {
            self.posted_retry();
            self.cpu_resume();
        }
    }
}
