//! The growth of a board's own counts between the first and the last of its packets that came.
//!
//! A board counts the blocks of data that it took and those that it dropped, its FIFO being full;
//! every other block it sent as one packet. So between two packets, `taken` grows by as much as
//! `dropped` and the packet counter together. Where it does not, the packets are counted by the
//! packet counter alone, and the contradiction is counted.

use fluxline_packet::BoardCounts;

use super::Counted;
use crate::counters::SourceCounters;

/// A board that drops more between two packets does not exist: 2^48 blocks are years of data.
const DROPPED_MAX: u64 = 1 << 48;

/// One packet's counts, at its place in the count of packets.
#[derive(Clone, Copy, Debug)]
struct Mark {
    place: u64,
    counts: BoardCounts,
}

/// The growth of the counts over all numberings of one packet counter.
#[derive(Clone, Debug, Default)]
pub(super) struct BoardLedger {
    /// The oldest and the newest packet of this numbering.
    span: Option<(Mark, Mark)>,
    restarts: u32,
    taken: u64,
    dropped: u64,
    contradictions: u64,
}

impl BoardLedger {
    /// Takes the counts of an accepted packet; `bits` is the width after which they begin anew.
    pub(super) fn take(&mut self, counts: BoardCounts, counted: &Counted, bits: u8) {
        let mark = Mark { place: counted.count, counts };
        let Some((oldest, newest)) = self.span.filter(|_| self.restarts == counted.restarts) else {
            (self.span, self.restarts) = (Some((mark, mark)), counted.restarts);
            self.taken = self.taken.saturating_add(1);
            return;
        };
        if mark.place > newest.place {
            self.grow(newest, mark, bits);
            self.span = Some((oldest, mark));
        } else if mark.place < oldest.place {
            self.grow(mark, oldest, bits);
            self.span = Some((mark, newest));
        }
    }

    /// Adds the growth from one packet to a later one.
    fn grow(&mut self, from: Mark, to: Mark, bits: u8) {
        let mask = u64::MAX >> (64 - u32::from(bits.clamp(1, 64)));
        let growth = |from: u64, to: u64| to.wrapping_sub(from) & mask;
        let packets = to.place - from.place;
        let taken = growth(from.counts.taken, to.counts.taken);
        let dropped = growth(from.counts.dropped, to.counts.dropped);
        let agrees = taken == packets.wrapping_add(dropped) & mask && dropped < DROPPED_MAX;
        let dropped = if agrees { dropped } else { 0 };
        self.contradictions += u64::from(!agrees);
        self.dropped = self.dropped.saturating_add(dropped);
        self.taken = self.taken.saturating_add(packets).saturating_add(dropped);
    }

    /// Adds the counts to those of the source.
    pub(super) fn add_to(&self, counters: &mut SourceCounters) {
        counters.board_taken = counters.board_taken.saturating_add(self.taken);
        counters.board_dropped = counters.board_dropped.saturating_add(self.dropped);
        counters.board_contradictions += self.contradictions;
    }
}
