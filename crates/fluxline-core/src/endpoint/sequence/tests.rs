//! The sequence against a brute-force model, and each case by name.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::*;

/// Returns a frame of the numbering `life`, `after` the start.
fn mark(psn: u32, life: u32, after: Span) -> Mark {
    let print = psn.wrapping_mul(2_654_435_761).wrapping_add(life);
    Mark { psn: Psn::new(psn), print, now: Moment::from_ns(1) + after }
}

/// Gives the sequence a valid frame.
fn observe(sequence: &mut Sequence, mark: &Mark, counters: &mut ConnectionCounters) -> Judgement {
    let judged = sequence.judge(mark);
    sequence.take(mark, judged, counters);
    judged
}

/// Returns the counters after frames of one numbering, all at one time.
fn observed(first: Option<u32>, psns: &[u32]) -> ConnectionCounters {
    let mut sequence = Sequence::configured(first.map(Psn::new));
    let mut counters = ConnectionCounters::default();
    for &psn in psns {
        observe(&mut sequence, &mark(psn, 0, Span::ZERO), &mut counters);
    }
    sequence.finish(&mut counters);
    counters
}

/// Gives one numbering after the other, a second between them; returns how many frames are good.
fn lives(first: Option<u32>, lives: &[&[u32]]) -> (u64, ConnectionCounters) {
    let mut sequence = Sequence::configured(first.map(Psn::new));
    let (mut counters, mut good) = (ConnectionCounters::default(), 0);
    for (life, psns) in lives.iter().enumerate() {
        for &psn in *psns {
            let mark = mark(psn, life as u32, Span::from_ms(1000 * life as u64));
            let judged = observe(&mut sequence, &mark, &mut counters);
            good += u64::from(judged.held == Some(Fate::Good));
            good += u64::from(!matches!(judged.arrival, Arrival::Duplicate | Arrival::Doubtful(_)));
        }
    }
    good += u64::from(sequence.finish(&mut counters) == Some(Fate::Good));
    (good, counters)
}

#[test]
fn a_burst_of_1000_lost_counts_1000() {
    assert_eq!(observed(Some(0), &[0, 1, 1002]).frames_lost, 1000);
    assert_eq!(observed(Some(0), &[0, 1, 100_002]).frames_lost, 100_000, "at the end");
    assert_eq!(observed(Some(0), &[0, 1, 100_002, 100_003]).frames_lost, 100_000, "confirmed");
    assert_eq!(observed(Some(0), &[0, 1, 100_002, 100_003]).restarts, 0);
}

#[test]
fn a_swapped_pair_is_none_lost_and_one_late() {
    let counters = observed(Some(5), &[5, 7, 6, 8]);
    assert_eq!((counters.frames_lost, counters.frames_late), (0, 1));
    let counters = observed(None, &[7, 6, 8]);
    assert_eq!((counters.frames_lost, counters.frames_late, counters.restarts), (0, 1, 0));
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
fn a_restarted_sender_loses_nothing_however_far_it_had_come() {
    for newest in [0, 1, 5, 1000, 8191, 8192, 20_000, 70_000, 5_000_000, 0x0090_0000, 0x00F0_0000] {
        for first in [None, Some(0)] {
            // The first numbering is too long to play, so only its last frames come.
            let from = newest.max(20) - 20;
            let old: Vec<u32> = (from..=newest).collect();
            let new: Vec<u32> = (0..1000).collect();
            let mut given = alloc::vec![0_u32];
            given.extend(old.iter().filter(|&&psn| psn > 0));
            let (good, counters) = lives(first, &[&given, &new]);
            assert_eq!(good, (given.len() + new.len()) as u64, "{newest}, {first:?}: {counters:?}");
            assert_eq!(counters.restarts, 1 + u64::from(from > LOSS_MAX as u32), "{newest}");
            assert_eq!(counters.frames_duplicate, 0, "{newest}");
        }
    }
}

#[test]
fn a_restarted_sender_that_loses_its_first_frames_loses_no_more() {
    let old: Vec<u32> = (0..5000).collect();
    let new: Vec<u32> = (30..3000).collect();
    let (good, counters) = lives(Some(0), &[&old, &new]);
    assert_eq!((good, counters.restarts), (5000 + 2970, 1));
    assert_eq!(counters.frames_expected, good + counters.frames_lost);
}

#[test]
fn a_restarted_sender_that_sends_the_same_bytes_again_is_no_duplicate() {
    let (mut sequence, mut counters) = (Sequence::configured(None), ConnectionCounters::default());
    for at in [0, 30] {
        for psn in 0..100 {
            observe(&mut sequence, &mark(psn, 0, Span::from_ms(at)), &mut counters);
        }
    }
    assert_eq!((counters.restarts, counters.frames_duplicate), (1, 0));
    assert_eq!(counters.frames_expected, 200);
}

#[test]
fn one_stray_frame_moves_nothing() {
    let mut psns: Vec<u32> = (0..9000).collect();
    psns.insert(8500, 4_000_000);
    psns.insert(8600, 0x00F0_0000);
    let counters = observed(Some(0), &psns);
    assert_eq!((counters.frames_lost, counters.restarts), (0, 0));
    assert_eq!((counters.frames_expected, counters.frames_duplicate), (9000, 2));
}

#[test]
fn a_duplicate_after_a_pause_is_no_restart() {
    let (mut sequence, mut counters) = (Sequence::configured(None), ConnectionCounters::default());
    for (psn, at) in [(0, 0), (1, 100), (1, 150), (2, 200), (1, 260), (3, 300), (3, 350)] {
        observe(&mut sequence, &mark(psn, 0, Span::from_ms(at)), &mut counters);
    }
    sequence.finish(&mut counters);
    assert_eq!((counters.restarts, counters.frames_duplicate), (0, 3));
}

#[test]
fn against_a_set_of_all_numbers() {
    let mut draw = crate::random::Draw::new(3);
    for agreed in [true, false] {
        for _ in 0..50 {
            let mut sequence = match agreed {
                true => Sequence::agreed(Psn::new(0)),
                false => Sequence::configured(Some(Psn::new(0))),
            };
            let mut counters = ConnectionCounters::default();
            let (mut came, mut newest, mut duplicates) = (BTreeSet::new(), 0_u32, 0);
            for _ in 0..2000 {
                let psn = (newest + draw.below(6) as u32).saturating_sub(draw.below(4) as u32 * 2);
                newest = newest.max(psn);
                duplicates += u64::from(!came.insert(psn));
                observe(&mut sequence, &mark(psn, 0, Span::ZERO), &mut counters);
            }
            let lost = u64::from(newest) + 1 - came.len() as u64;
            assert_eq!((counters.frames_lost, counters.frames_duplicate), (lost, duplicates));
        }
    }
}

/// Random lives of a sender on a network that drops, swaps and doubles frames. Each good frame was
/// sent and counts once, and the sums hold.
#[test]
fn random_lives_are_counted_so_that_the_sums_hold() {
    for seed in 0..200 {
        let mut draw = crate::random::Draw::new(seed);
        let first = (draw.below(2) == 0).then_some(0);
        let (mut counters, mut good, mut shown) = (ConnectionCounters::default(), 0, 0);
        let mut sequence = Sequence::configured(first.map(Psn::new));
        let (mut restarts, mut sent) = (0, 0);
        for life in 0..1 + draw.below(5) {
            let count = 100 + draw.below(20_000) as u32;
            restarts += u64::from(life > 0);
            for psn in 0..count {
                // The first frames arrive, so that each life is seen.
                let copies =
                    if psn < 100 || draw.below(50) > 0 { 1 + draw.below(100) / 99 } else { 0 };
                sent += u64::from(copies > 0);
                for _ in 0..copies {
                    shown += 1;
                    let mark = mark(psn, life as u32, Span::from_ms(1000 * life));
                    let judged = observe(&mut sequence, &mark, &mut counters);
                    good += u64::from(judged.held == Some(Fate::Good));
                    good += u64::from(!matches!(
                        judged.arrival,
                        Arrival::Duplicate | Arrival::Doubtful(_)
                    ));
                }
            }
        }
        good += u64::from(sequence.finish(&mut counters) == Some(Fate::Good));
        assert_eq!(good, sent, "seed {seed}");
        assert_eq!(shown, good + counters.frames_duplicate, "seed {seed}");
        assert_eq!(counters.frames_expected, good + counters.frames_lost, "seed {seed}");
        assert_eq!(counters.restarts, restarts, "seed {seed}");
    }
}
