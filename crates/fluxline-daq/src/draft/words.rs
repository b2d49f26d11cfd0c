//! Finds words that grow: keys that several packets share, and time stamps.
//!
//! A key grows by one now and then. A time stamp grows with the time of arrival: over all samples
//! of a sender it lies on a line.

use std::collections::BTreeMap;

use fluxline_packet::model::ByteOrder;

use super::{Growth, Sample, Word};

/// Widths of the words that are tried \[byte\], the widest first.
const WORD_BYTES: [usize; 4] = [8, 6, 4, 2];
/// Share of steps that must fit.
const FIT_MIN: f64 = 0.98;
/// Share of equal steps of a number: the rest are losses and reordering.
const STEPS_FIT_MIN: f64 = 0.9;
/// Fewest samples of a sender that are significant.
const SAMPLES_MIN: usize = 12;
/// Largest distance of a time stamp from its line, as a share of the whole.
const LINE_MAX: f64 = 0.02;

/// Returns the growing words without overlap, outside of `taken`; the best ones first.
pub(super) fn find(
    senders: &[Vec<Sample>],
    header: usize,
    taken: &dyn Fn(&Word) -> bool,
) -> Vec<(Word, Growth)> {
    let busiest = senders.iter().max_by_key(|samples| samples.len());
    let Some(samples) = busiest.filter(|samples| samples.len() >= SAMPLES_MIN) else {
        return Vec::new();
    };
    // A key and the bytes behind it could pass for one long time stamp, so keys come first.
    let mut found: Vec<(Word, Growth)> = Vec::new();
    for growth_of in [key, time, steps] {
        for word in words(header) {
            if taken(&word) || found.iter().any(|of| super::overlap(&of.0, &word)) {
                continue;
            }
            let values: Vec<u64> = samples.iter().map(|sample| sample.word(word)).collect();
            found.extend(growth_of(samples, &values, word).map(|growth| (word, growth)));
        }
    }
    found
}

/// Returns all words that are tried, the widest first.
fn words(header: usize) -> impl Iterator<Item = Word> {
    WORD_BYTES.into_iter().flat_map(move |bytes| {
        let places =
            (0..(header + 1).saturating_sub(bytes)).filter(move |at| at % bytes.min(4) == 0);
        places.flat_map(move |at| {
            [ByteOrder::Big, ByteOrder::Little].map(|order| Word { at, bytes, order })
        })
    })
}

/// Returns a key, which stays or grows by one.
fn key(_: &[Sample], values: &[u64], _: Word) -> Option<Growth> {
    let steps = values.len() - 1;
    let stays = values.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let grows = values.windows(2).filter(|pair| pair[0].checked_add(1) == Some(pair[1])).count();
    let fits = (stays + grows) as f64 >= FIT_MIN * steps as f64;
    // A key that grows with every packet is a packet counter, or equivalent.
    let is_key = fits && grows >= 3 && stays > 0;
    is_key.then(|| Growth::Key { packets_each: steps as f64 / grows as f64 })
}

/// Returns a time stamp: its values lie on a line over the times of arrival.
fn time(samples: &[Sample], values: &[u64], word: Word) -> Option<Growth> {
    let (first, last) = (samples.first()?, samples.last()?);
    let passed_ns = last.time.since(first.time).as_ns() as f64;
    let grown = values.last()?.checked_sub(values[0])? as f64;
    // A few ticks may as well be a number that happens to grow.
    if passed_ns <= 0.0 || grown < 1000.0 || values.windows(2).any(|pair| pair[1] < pair[0]) {
        return None;
    }
    let beside = |sample: &Sample, value: u64| {
        let part = sample.time.since(first.time).as_ns() as f64 / passed_ns;
        ((value - values[0]) as f64 / grown - part).abs()
    };
    let far = samples.iter().zip(values).map(|(sample, value)| beside(sample, *value));
    let fits = far.fold(0.0, f64::max) <= LINE_MAX;
    let step = step_of(values, word).map(|(step, _)| step);
    fits.then_some(Growth::Time { ns_per_tick: passed_ns / grown, step })
}

/// Returns a number that grows in equal steps of more than 1: samples, records or bytes.
fn steps(_: &[Sample], values: &[u64], word: Word) -> Option<Growth> {
    let (step, share) = step_of(values, word)?;
    // Its lowest byte counts, and its highest one too: else it belongs to another word.
    let highest = |value: &u64| value >> (word.bytes * 8 - 8);
    let moves = values.iter().any(|value| highest(value) != highest(&values[0]));
    (step % 256 != 0 && (moves || word.bytes == 2)).then_some(Growth::Steps { step, share })
}

/// Returns the step between most values, and the share of the steps that it has.
fn step_of(values: &[u64], word: Word) -> Option<(u64, f64)> {
    let ones = u64::MAX >> (64 - word.bytes * 8);
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for pair in values.windows(2) {
        *counts.entry(pair[1].wrapping_sub(pair[0]) & ones).or_default() += 1;
    }
    let (&step, &count) = counts.iter().max_by_key(|(_, count)| **count)?;
    let share = count as f64 / (values.len() - 1) as f64;
    (share >= STEPS_FIT_MIN && step > 1 && step <= ones / 16).then_some((step, share))
}
