//! The notifications and headers between members.

use super::lane::{LANES, Lane};

/// The header in front of a message in a slot \[byte\].
pub(super) const HEADER_BYTES: u64 = 32;
/// The bits of a notification behind its kind.
const VALUE_BITS: u32 = 28;
/// Identifiers of requests are below this number: they fit a notification.
pub(super) const IDS: u32 = 1 << VALUE_BITS;

/// A notification of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The peer's greeting is in place.
    Hello,
    /// A slot was written.
    Slot { lane: Lane, slot: u32 },
    /// The words of returned slots are in place.
    Returned,
    /// The peer expects the pieces of the announced message.
    Grant { id: u32 },
    /// The peer refuses the announced message.
    Refuse { id: u32 },
    /// All have arrived at the barrier.
    Release,
    /// The peer leaves.
    Bye,
    /// The peer has found another rank dead.
    Dead { rank: u32 },
}

impl Notice {
    pub fn value(self) -> u32 {
        let of = |kind: u32, value: u32| kind << VALUE_BITS | value;
        match self {
            Notice::Hello => of(1, 0),
            Notice::Slot { lane, slot } => of(2, (lane as u32) << 8 | slot),
            Notice::Returned => of(3, 0),
            Notice::Grant { id } => of(4, id),
            Notice::Refuse { id } => of(5, id),
            Notice::Release => of(6, 0),
            Notice::Bye => of(7, 0),
            Notice::Dead { rank } => of(8, rank),
        }
    }

    /// Reads a notification; `None`: no member sends it.
    pub fn parse(value: u32) -> Option<Notice> {
        let (kind, rest) = (value >> VALUE_BITS, value & (IDS - 1));
        Some(match kind {
            1 => Notice::Hello,
            2 => {
                let lane = *LANES.get((rest >> 8) as usize)?;
                Notice::Slot { lane, slot: rest & 0xFF }
            }
            3 => Notice::Returned,
            4 => Notice::Grant { id: rest },
            5 => Notice::Refuse { id: rest },
            6 => Notice::Release,
            7 => Notice::Bye,
            8 => Notice::Dead { rank: rest },
            _ => return None,
        })
    }
}

/// The kind of a message in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderKind {
    /// A message, which follows.
    Eager = 1,
    /// The announcement of a longer one.
    Announcement = 2,
    /// A part of a collective operation, which follows.
    Collective = 3,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: HeaderKind,
    /// The program's tag; of a collective operation: its number.
    pub tag: u64,
    /// The length of the whole message \[byte\].
    pub bytes: u64,
    /// The sender's request; of a collective operation: its kind and root.
    pub id: u64,
}

impl Header {
    pub fn to_bytes(self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let words = [self.kind as u64, self.tag, self.bytes, self.id];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a header; `None`: no member sends it.
    pub fn parse(bytes: &[u8; HEADER_BYTES as usize]) -> Option<Header> {
        let word = |index: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
            u64::from_le_bytes(word)
        };
        let kinds = [HeaderKind::Eager, HeaderKind::Announcement, HeaderKind::Collective];
        let kind = kinds.into_iter().find(|kind| *kind as u64 == word(0))?;
        Some(Header { kind, tag: word(1), bytes: word(2), id: word(3) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_and_headers_are_read_as_they_were_written_and_others_are_refused() {
        let slot = Notice::Slot { lane: Lane::Bulk, slot: 63 };
        let ids = [Notice::Grant { id: IDS - 1 }, Notice::Refuse { id: 7 }];
        let dead = Notice::Dead { rank: 9 };
        let plain = [Notice::Hello, Notice::Returned, Notice::Release, Notice::Bye, dead, slot];
        for notice in plain.into_iter().chain(ids) {
            assert_eq!(Notice::parse(notice.value()), Some(notice));
        }
        assert_eq!(Notice::parse(0), None);
        assert_eq!(Notice::parse(2 << VALUE_BITS | 3 << 8), None, "lane 3 does not exist");
        let header = Header { kind: HeaderKind::Announcement, tag: u64::MAX, bytes: 9, id: 1 };
        assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        assert_eq!(Header::parse(&[0; HEADER_BYTES as usize]), None);
    }
}
