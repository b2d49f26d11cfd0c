//! The owner of a frame among several nodes at one address.
//!
//! Every frame names its node by a number, modulo the count of nodes. A frame to a queue pair has
//! the pair's number, so each node gives its connections numbers of its own. A frame that begins a
//! connection has a number of the caller, which is the same in each repetition. An answer has a
//! number that the receiver has chosen. docs/wire.md, "Several threads at one address".

use super::frames::{SETUP, SETUP_PAIR, destination_of};
use super::management::mad::UD_SEND_ONLY;

/// Offsets in a frame that a filter of the kernel reads \[byte\].
pub mod at {
    /// A word whose low 24 bits are the queue pair.
    pub const PAIR_WORD: usize = 4;
    /// The kind of a set-up frame.
    pub const SETUP_KIND: usize = super::super::frames::SETUP_KIND_AT;
    /// The lowest byte of the nonce, by kind of set-up frame: of Hello, Retry, Accept and Refuse.
    pub const NONCE: [usize; 4] = super::super::frames::NONCE_AT;
    /// The identifiers in a management datagram: of its sender, and of its receiver.
    pub const SENDER_ID: usize = super::super::management::mad::FRAME_SENDER_ID;
    /// See [`SENDER_ID`].
    pub const RECEIVER_ID: usize = super::super::management::mad::FRAME_RECEIVER_ID;
}

/// Values in a frame that a filter of the kernel compares.
pub mod value {
    /// The queue pair of frames that begin or answer.
    pub const SETUP_PAIR: u32 = super::SETUP_PAIR.get();
    /// The opcode of set-up frames.
    pub const SETUP: u8 = super::SETUP;
    /// The opcode of management datagrams.
    pub const MANAGEMENT: u8 = super::UD_SEND_ONLY;
}

/// The node that a frame belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Modulo the count of nodes, this is the node's index.
    pub number: u32,
    /// The frame begins a connection: a node that gets it may keep it.
    pub begins: bool,
}

impl Owner {
    /// Returns the owner of a frame. A frame that names none belongs to the first node.
    #[must_use]
    #[inline]
    pub fn of(frame: &[u8]) -> Owner {
        match destination_of(frame) {
            Some(SETUP_PAIR) => Owner::of_setup(frame),
            pair => Owner { number: pair.map_or(0, |pair| pair.get()), begins: false },
        }
    }

    fn of_setup(frame: &[u8]) -> Owner {
        let found = match *frame.first().unwrap_or(&0) {
            SETUP => Owner::of_greeting(frame),
            UD_SEND_ONLY => Owner::of_management(frame),
            _ => None,
        };
        found.unwrap_or(Owner { number: 0, begins: false })
    }

    fn of_greeting(frame: &[u8]) -> Option<Owner> {
        let kind = usize::from(*frame.get(at::SETUP_KIND)?).checked_sub(1)?;
        let number = u32::from(*frame.get(*at::NONCE.get(kind)?)?);
        Some(Owner { number, begins: kind == 0 })
    }

    fn of_management(frame: &[u8]) -> Option<Owner> {
        let word = |at: usize| frame.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let receiver = word(at::RECEIVER_ID)?;
        match receiver {
            0 => Some(Owner { number: word(at::SENDER_ID)?, begins: true }),
            number => Some(Owner { number, begins: false }),
        }
    }

    /// Returns the index of the node, of `count`.
    #[must_use]
    #[inline]
    pub fn index(self, count: u32) -> u32 {
        self.number % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_cut_or_unknown_belongs_to_the_first_node() {
        let mut frame = [0xC0_u8; 60];
        frame[4..8].copy_from_slice(&[0, 0, 0, 1]);
        for kind in [0, 5, 200] {
            frame[at::SETUP_KIND] = kind;
            assert_eq!(Owner::of(&frame).number, 0, "kind {kind}");
        }
        frame[at::SETUP_KIND] = 1;
        for cut in 0..at::NONCE[0] + 1 {
            assert_eq!(Owner::of(&frame[..cut]).number, 0, "cut at {cut}");
        }
        assert_eq!(Owner::of(&frame), Owner { number: 0xC0, begins: true });
        frame[0] = value::MANAGEMENT;
        assert_eq!(Owner::of(&frame).number, 0xC0C0_C0C0);
        for cut in 0..at::RECEIVER_ID + 4 {
            assert_eq!(Owner::of(&frame[..cut]).number, 0, "cut at {cut}");
        }
    }
}
