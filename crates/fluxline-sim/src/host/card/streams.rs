//! The card's write streams: buffers of one block each that gather stores and send them.
//!
//! Rules (a model; the sources name gathering, eviction, flush and busy-until-response): One stream
//! gathers at a time, so a store into another block sends the gathering stream. A block has at most
//! one stream, so a store into a block that is under way waits. A stream stays bound to its block
//! until another block needs it. Binding the least recently used stream to a new block takes the
//! claim time.

use crate::Instant;
use crate::host::calls::Access;
use crate::host::config;

/// The card's answer to a burst of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Taken into this stream; `claim`: it was bound to another block.
    Take { stream: usize, claim: bool },
    /// This stream must be sent first; ask again then.
    Send(usize),
    /// No stream is free: try again later.
    Busy,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Idle,
    Gathering,
    /// Sent, with this number of unfinished packets.
    Sent(u32),
}

/// One stream.
#[derive(Debug, Default)]
pub struct Stream {
    pub state: State,
    pub block: Option<(u32, u64)>,
    /// The address of its first byte.
    pub offset: u64,
    pub data: Vec<u8>,
    /// The time of its last binding or filling, counted in uses.
    pub used: u64,
    /// The number of this gathering.
    pub generation: u64,
    pub touched: Instant,
}

/// All write streams of a card.
#[derive(Debug)]
pub struct Streams {
    pub list: Vec<Stream>,
    pub block_bytes: u64,
    pub uses: u64,
    pub gathering: Option<usize>,
}

impl Streams {
    pub fn new(card: &config::Card) -> Streams {
        let list = (0..card.streams).map(|_| Stream::default()).collect();
        Streams { list, block_bytes: u64::from(card.stream_bytes), uses: 0, gathering: None }
    }

    /// Returns true if no stream gathers or is under way.
    pub fn idle(&self) -> bool {
        self.list.iter().all(|stream| stream.state == State::Idle)
    }

    /// Returns the verdict on a burst of stores at this address.
    pub fn verdict(&self, to: u32, offset: u64) -> Verdict {
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

/// A packet of a burst of stores.
#[derive(Debug)]
pub struct Piece {
    pub access: Access,
    pub offset: u64,
    pub data: Vec<u8>,
}

/// Cuts bytes into packets: whole blocks of 64, whole blocks of 16, and selected bytes of the rest.
///
/// Moves carry whole packets only. Selected bytes are sent as writes, which are answered.
pub fn pieces(offset: u64, data: &[u8], moves: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut offset, mut rest) = (offset, data);
    while !rest.is_empty() {
        let whole = [64_usize, 16]
            .into_iter()
            .find(|&block| offset.is_multiple_of(block as u64) && rest.len() >= block);
        let selected = rest.len().min(16 - (offset % 16) as usize);
        let access = if moves && whole.is_some() { Access::Move } else { Access::Write };
        let (now, later) = rest.split_at(whole.unwrap_or(selected));
        pieces.push(Piece { access, offset, data: now.to_vec() });
        offset += now.len() as u64;
        rest = later;
    }
    pieces
}
