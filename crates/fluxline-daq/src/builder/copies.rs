//! The newest packets of a source without a packet counter, so that a copy is known by its bytes.
//!
//! A copy adds nothing to its event and says nothing about the progress of its source. With a
//! packet counter, the readout finds copies by their numbers.

use fluxline_core::{Moment, Span};
use fluxline_packet::Part;
use serde::{Deserialize, Serialize};

use super::arrival::Arrival;
use crate::readout::digest_of;

/// Packets that are remembered, in sets by their digests; the oldest of a set is forgotten first.
const PLACES: usize = 1024;
/// Packets of a set.
const WAYS: usize = 8;
/// A packet that comes twice comes sooner than this after the first.
const SILENCE: Span = Span::from_ms(500);

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Seen {
    digest: u64,
    at: Moment,
}

/// The newest packets of a source; empty until one without a counter comes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Copies(Vec<Seen>);

impl Copies {
    /// Returns true when a packet with equal bytes came just before; remembers it otherwise.
    pub(super) fn came(&mut self, arrival: &Arrival<'_>, key: u64, now: Moment) -> bool {
        self.0.resize(PLACES, Seen::default());
        let digest = with_part(digest_of(arrival.datagram.bytes), key, arrival.parsed.part);
        let first = digest as usize % (PLACES / WAYS) * WAYS;
        let set = &mut self.0[first..first + WAYS];
        let is_it = |seen: &Seen| seen.digest == digest && now.since(seen.at) < SILENCE;
        if set.iter().any(is_it) {
            return true;
        }
        if let Some(oldest) = set.iter_mut().min_by_key(|seen| seen.at) {
            *oldest = Seen { digest, at: now };
        }
        false
    }
}

/// Long packets are digested in pieces: the key and the part need not be in them.
fn with_part(digest: u64, key: u64, part: Part) -> u64 {
    let part = match part {
        Part::Whole => 0,
        Part::Index { index, count } => u64::from(index) << 32 | u64::from(count),
        Part::Bytes { offset, total } => offset.rotate_left(32) ^ total,
    };
    [key, part].into_iter().fold(digest, |digest, word| {
        (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}
