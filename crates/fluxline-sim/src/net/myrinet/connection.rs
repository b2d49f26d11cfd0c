//! A connection between two cards: packets in order, acknowledged, repeated from the first one that
//! is missing (go-back-N).

use std::collections::{BTreeMap, VecDeque};

use crate::{Duration, Instant};

/// A packet of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number within the life of the connection.
    pub sequence: u64,
    /// The message.
    pub message: u64,
    /// Its data \[bytes\].
    pub bytes: u32,
    /// True for the first packet of the message.
    pub is_first: bool,
    /// True for its last packet.
    pub is_last: bool,
}

/// A message that waits for its turn, or is being cut into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The message.
    pub message: u64,
    /// Its length \[bytes\].
    pub bytes: u32,
    /// Bytes in packets.
    pub taken: u32,
}

/// The sender's end.
#[derive(Clone, Debug, Default)]
pub struct Outbound {
    /// The number of the connection's life; it changes when the sender gave up.
    pub life: u32,
    /// Messages that are not yet in packets.
    pub letters: VecDeque<Letter>,
    /// Packets that are not acknowledged.
    pub unacknowledged: VecDeque<Piece>,
    /// The number of the next packet.
    next: u64,
    /// The time of the last progress.
    pub progress: Instant,
    /// The wait for the next repetition.
    pub wait: Duration,
    /// True if a timer is running.
    pub is_timed: bool,
}

impl Outbound {
    /// Returns true if a packet can be made now.
    pub fn is_ready(&self, window: u32) -> bool {
        !self.letters.is_empty() && self.unacknowledged.len() < window as usize
    }

    /// Returns the data of the next packet, and its position in its message.
    pub fn coming(&self, piece_bytes: u32) -> Option<Coming> {
        let letter = self.letters.front()?;
        let left = letter.bytes - letter.taken;
        let (bytes, is_last) = (left.min(piece_bytes), left <= piece_bytes);
        Some(Coming { bytes, is_first: letter.taken == 0, is_last })
    }

    /// Makes the next packet.
    pub fn cut(&mut self, piece_bytes: u32, now: Instant) -> Option<Piece> {
        let Coming { bytes, is_first, is_last } = self.coming(piece_bytes)?;
        let letter = self.letters.front_mut()?;
        letter.taken += bytes;
        let message = letter.message;
        if is_last {
            self.letters.pop_front();
        }
        let piece = Piece { sequence: self.next, message, bytes, is_first, is_last };
        self.next += 1;
        if self.unacknowledged.is_empty() {
            self.progress = now;
        }
        self.unacknowledged.push_back(piece);
        Some(piece)
    }

    /// Takes an acknowledgement of all packets below `next`; returns the messages that it ends.
    pub fn acknowledged(&mut self, next: u64, now: Instant) -> Vec<u64> {
        let mut ended = Vec::new();
        while let Some(piece) = self.unacknowledged.front().filter(|of| of.sequence < next) {
            if piece.is_last {
                ended.push(piece.message);
            }
            self.progress = now;
            self.unacknowledged.pop_front();
        }
        ended
    }

    /// Gives up: returns all messages, oldest first, and begins another life.
    pub fn give_up(&mut self) -> Vec<u64> {
        let sent = self.unacknowledged.drain(..).filter(|piece| piece.is_last);
        let mut all: Vec<u64> = sent.map(|piece| piece.message).collect();
        all.extend(self.letters.drain(..).map(|letter| letter.message));
        self.life += 1;
        self.next = 0;
        all
    }
}

/// The next packet of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// Its data \[bytes\].
    pub bytes: u32,
    /// True for the first packet of a message.
    pub is_first: bool,
    /// True for its last packet.
    pub is_last: bool,
}

/// The receiver's end.
#[derive(Clone, Debug, Default)]
pub struct Inbound {
    life: u32,
    /// The number of the next packet.
    pub expected: u64,
    /// Packets that came early by another port of the card.
    early: BTreeMap<u64, Piece>,
    /// True if the sender knows that the next packet is missing.
    has_complained: bool,
}

/// The treatment of a packet that comes before an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// It waits: the earlier one may be on another link.
    Waits,
    /// It is dropped: the earlier one is lost.
    IsDropped,
}

/// A packet as its receiver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Packets that can be written into memory now, in order.
    pub pieces: Vec<Piece>,
    /// True if the sender must go back to the expected packet.
    pub complains: bool,
}

impl Inbound {
    /// Takes a packet. `None`: it belongs to a life that is over.
    pub fn accept(&mut self, life: u32, piece: Piece, early: Early) -> Option<Accepted> {
        if life < self.life {
            return None;
        }
        if life > self.life {
            *self = Inbound { life, ..Inbound::default() };
        }
        let mut accepted = Accepted { pieces: Vec::new(), complains: false };
        if piece.sequence > self.expected {
            match early {
                Early::Waits => _ = self.early.insert(piece.sequence, piece),
                Early::IsDropped => {
                    accepted.complains = !std::mem::replace(&mut self.has_complained, true);
                }
            }
        } else if piece.sequence == self.expected {
            self.has_complained = false;
            let mut next = Some(piece);
            while let Some(piece) = next {
                accepted.pieces.push(piece);
                self.expected += 1;
                next = self.early.remove(&self.expected);
            }
        }
        Some(accepted)
    }

    /// Returns the number of the connection's life.
    pub fn life(&self) -> u32 {
        self.life
    }
}
