//! Medians, spreads and verdicts on numbers whose truth is known.

use super::*;

/// A generator of numbers that look random; the seed is in each message.
fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// As [`rank_sum`] without ties, by going through all orders.
fn by_counting(before: &[f64], after: &[f64]) -> f64 {
    let (few, all) = (before.len(), before.len() + after.len());
    let below = |one: f64, others: &[f64]| others.iter().filter(|other| one < **other).count();
    let seen: usize = before.iter().map(|one| below(*one, after)).sum();
    let pairs = few * after.len();
    let uneven = seen.min(pairs - seen);
    let (mut as_uneven, mut orders) = (0, 0);
    for chosen in 0_u32..1 << all {
        if chosen.count_ones() as usize != few {
            continue;
        }
        let in_order: usize = (0..all)
            .filter(|index| chosen >> index & 1 == 1)
            .map(|index| (index + 1..all).filter(|later| chosen >> later & 1 == 0).count())
            .sum();
        orders += 1;
        as_uneven += usize::from(in_order.min(pairs - in_order) <= uneven);
    }
    f64::from(as_uneven as u32) / f64::from(orders as u32)
}

#[test]
fn the_test_agrees_with_counting_all_orders() {
    for seed in 0..20 {
        let mut number = numbers(seed);
        let before: Vec<f64> = (0..5).map(|_| number()).collect();
        let after: Vec<f64> = (0..6).map(|_| number() + 0.2).collect();
        let exact = by_counting(&before, &after);
        let ours = rank_sum(&before, &after).expect("enough samples");
        assert!((ours - exact).abs() < 1e-9, "seed {seed}: {ours}, counted {exact}");
    }
}

#[test]
fn equal_results_are_seldom_called_different_and_distant_ones_always() {
    let mut wrong = 0;
    for seed in 0..400 {
        let mut number = numbers(seed);
        // A tail to one side, as of latencies.
        let mut sample = |shift: f64| -> Vec<f64> {
            (0..10).map(|_| shift * (100.0 + 10.0 / (number() + 0.05))).collect()
        };
        let (one, other, slow) = (sample(1.0), sample(1.0), sample(3.0));
        wrong += u32::from(compare(&one, &other, Better::Lower) != Verdict::Same);
        assert_eq!(compare(&one, &slow, Better::Lower), Verdict::Worse, "seed {seed}");
        assert_eq!(compare(&slow, &one, Better::Lower), Verdict::Better, "seed {seed}");
        assert_eq!(compare(&one, &slow, Better::Higher), Verdict::Better, "seed {seed}");
    }
    assert!(wrong <= 20, "{wrong} of 400 equal results were reported as different");
}

#[test]
fn few_samples_and_differences_within_the_noise_decide_nothing() {
    assert_eq!(compare(&[], &[1.0], Better::Lower), Verdict::Unknown);
    assert_eq!(compare(&[1.0], &[2.0], Better::Lower), Verdict::Unknown);
    assert_eq!(compare(&[1.0; 3], &[2.0; 3], Better::Lower), Verdict::Unknown);
    assert_eq!(compare(&[1.0; 5], &[2.0; 5], Better::Lower), Verdict::Worse);
    assert_eq!(compare(&[100.0; 50], &[101.0; 50], Better::Lower), Verdict::Same);
    let wide = [50.0, 75.0, 100.0, 125.0, 150.0];
    assert_eq!(compare(&wide, &wide.map(|one| one + 10.0), Better::Lower), Verdict::Same);
    assert_eq!(compare(&[f64::NAN; 9], &[1.0; 9], Better::Lower), Verdict::Unknown);
}

#[test]
fn summaries_are_of_the_numbers_among_the_samples() {
    let summary = Summary::of(&[4.0, 1.0, f64::NAN, 3.0, 2.0, 5.0]).expect("numbers");
    assert_eq!((summary.median, summary.low, summary.high), (3.0, 2.0, 4.0));
    assert_eq!((summary.least, summary.most, summary.count), (1.0, 5.0, 5));
    assert!((summary.spread() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(Summary::of(&[]), None);
    assert_eq!(median(&[1.0, 2.0]), Some(1.5));
}

#[test]
fn thousands_of_samples_are_compared_at_once() {
    let mut number = numbers(7);
    let many: Vec<f64> = (0..100_000).map(|_| 100.0 + number()).collect();
    let more: Vec<f64> = many.iter().map(|one| one * 1.5).collect();
    assert_eq!(compare(&many, &more, Better::Lower), Verdict::Worse);
}
