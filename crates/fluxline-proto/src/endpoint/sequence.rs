//! Which frames of an unreliable connection came: loss is counted to the frame.

use super::counters::ConnectionCounters;
use super::frames::WINDOW;
use crate::roce::Psn;

const WORDS: usize = WINDOW as usize / 64;

/// The newest PSN, and which of the [`WINDOW`] before it came.
pub(super) struct Sequence {
    newest: Option<Psn>,
    /// Bit n of the ring: PSN n modulo the window came.
    came: [u64; WORDS],
}

/// What a PSN is to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// So many after the newest.
    New,
    /// It was counted as lost, and came after all.
    Late,
    /// It came before, or is too old to tell.
    Duplicate,
}

impl Sequence {
    /// The first frame will be `first`; `None`: whatever comes first.
    pub fn new(first: Option<Psn>) -> Sequence {
        let newest = first.map(|first| first.minus(1));
        Sequence { newest, came: [u64::MAX; WORDS] }
    }

    fn bit(psn: Psn) -> (usize, u64) {
        let place = psn.get() % WINDOW;
        (place as usize / 64, 1 << (place % 64))
    }

    /// Takes note of a frame, and of those that are missing before it.
    pub fn observe(&mut self, psn: Psn, counters: &mut ConnectionCounters) -> Place {
        let newest = *self.newest.get_or_insert(psn.minus(1));
        let ahead = psn.distance_from(newest);
        let (word, bit) = Sequence::bit(psn);
        if ahead > 0 {
            // Those that are skipped have not come; a skip of the window or more clears it all.
            for skipped in 1..(ahead as u32).min(WINDOW) {
                let (word, bit) = Sequence::bit(psn.minus(skipped));
                self.came[word] &= !bit;
            }
            counters.frames_lost += ahead as u64 - 1;
            counters.frames_expected += ahead as u64;
            self.newest = Some(psn);
            self.came[word] |= bit;
            return Place::New;
        }
        if ahead <= -(WINDOW as i32) || self.came[word] & bit != 0 {
            counters.frames_duplicate += 1;
            return Place::Duplicate;
        }
        self.came[word] |= bit;
        counters.frames_lost -= 1;
        counters.frames_late += 1;
        Place::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(first: Option<u32>, psns: &[u32]) -> ConnectionCounters {
        let mut sequence = Sequence::new(first.map(Psn::new));
        let mut counters = ConnectionCounters::default();
        for &psn in psns {
            sequence.observe(Psn::new(psn), &mut counters);
        }
        counters
    }

    #[test]
    fn a_burst_of_1000_lost_counts_1000() {
        assert_eq!(observed(Some(0), &[0, 1, 1002]).frames_lost, 1000);
        assert_eq!(observed(Some(0), &[0, 1, 100_002]).frames_lost, 100_000);
    }

    #[test]
    fn a_swapped_pair_is_none_lost_and_one_late() {
        let counters = observed(Some(5), &[5, 7, 6, 8]);
        assert_eq!((counters.frames_lost, counters.frames_late), (0, 1));
    }

    #[test]
    fn a_duplicate_does_not_hide_a_loss() {
        let counters = observed(Some(0), &[0, 1, 3, 3]);
        assert_eq!((counters.frames_lost, counters.frames_duplicate), (1, 1));
        let counters = observed(Some(0), &[0, 1, 3, 2, 2]);
        assert_eq!((counters.frames_lost, counters.frames_duplicate), (0, 1));
    }

    #[test]
    fn numbers_wrap_and_a_first_number_that_is_not_known_loses_nothing() {
        assert_eq!(observed(Some(0x00FF_FFFE), &[0x00FF_FFFE, 0x00FF_FFFF, 1]).frames_lost, 1);
        assert_eq!(observed(None, &[77, 78]).frames_lost, 0);
        assert_eq!(observed(Some(70), &[77, 78]).frames_lost, 7);
    }

    #[test]
    fn against_a_set_of_all_numbers() {
        let mut draw = crate::random::Draw::new(3);
        for _ in 0..50 {
            let (mut sequence, mut counters) =
                (Sequence::new(Some(Psn::new(0))), Default::default());
            let (mut came, mut newest) = (alloc::collections::BTreeSet::new(), 0_u32);
            let mut duplicates = 0;
            for _ in 0..2000 {
                let psn = (newest + draw.below(6) as u32).saturating_sub(draw.below(4) as u32 * 2);
                newest = newest.max(psn);
                duplicates += u64::from(!came.insert(psn));
                sequence.observe(Psn::new(psn), &mut counters);
            }
            let lost = u64::from(newest) + 1 - came.len() as u64;
            assert_eq!((counters.frames_lost, counters.frames_duplicate), (lost, duplicates));
        }
    }
}
