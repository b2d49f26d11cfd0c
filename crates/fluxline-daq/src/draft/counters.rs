//! Finds counters: their lowest bit changes with every packet, each other bit when the one below
//! falls back from 1 to 0.
//!
//! This finds counters of any width at any bit, in either byte order, without guessing their word.
//! A bit above that never changes although the one below fell is the end of the counter: it was
//! seen to begin anew.

use fluxline_packet::model::ByteOrder;
use fluxline_packet::word::extract;

use super::{Counter, HEADER_BYTES_MAX, Sample, Word};

/// Share of the steps that must fit: the rest are losses and reordering.
const FIT_MIN: f64 = 0.9;
/// Share of the steps in which a counter may stay the same: packets that came twice. The upper half
/// of a time stamp stays more often.
const STAYS_MAX: f64 = 0.02;
/// Fewer changing bits are taken for a coincidence.
const MOVED_BITS_MIN: u32 = 4;
/// Fewest steps that are significant.
const STEPS_MIN: u64 = 12;
/// Widths of fields that a counter whose upper bits never changed may be in \[byte\].
const FIELD_BYTES: [usize; 3] = [8, 4, 2];

const BITS: usize = HEADER_BYTES_MAX * 8;

/// The changes of each bit between packets of one sender. Bit `8·byte + n` has the value 2^n in its
/// byte.
struct Steps {
    steps: u64,
    changed: Vec<u64>,
    fell: Vec<u64>,
    /// The bit above changed when this one fell, by the byte order: big, little.
    carried: [Vec<u64>; 2],
}

/// Returns the counters, the best one first.
pub(super) fn find(senders: &[Vec<Sample>], header: usize) -> Vec<Counter> {
    let steps = Steps::of(senders, header);
    if steps.steps < STEPS_MIN {
        return Vec::new();
    }
    let mut found = Vec::new();
    for bit in 0..header * 8 {
        if (steps.changed[bit] as f64) < FIT_MIN * steps.steps as f64 {
            continue;
        }
        for order in [ByteOrder::Big, ByteOrder::Little] {
            found.extend(steps.counter_from(bit, order, header, senders));
        }
    }
    // Whole bytes first, then those with more bits in motion, then those further to the front. A
    // counter within one byte has no byte order: it gets the file's.
    found.sort_by_key(|of: &Counter| (of.low != 0, std::cmp::Reverse(of.moved), of.word.at));
    found.dedup_by_key(|of| (of.word.at, of.low, of.high));
    found
}

impl Steps {
    fn of(senders: &[Vec<Sample>], header: usize) -> Steps {
        let counts = || vec![0; BITS];
        let carried = [counts(), counts()];
        let mut steps = Steps { steps: 0, changed: counts(), fell: counts(), carried };
        for pair in senders.iter().flat_map(|samples| samples.windows(2)) {
            steps.add(&pair[0].bytes, &pair[1].bytes, header);
        }
        steps
    }

    fn add(&mut self, before: &[u8], after: &[u8], header: usize) {
        self.steps += 1;
        let changed = |bit: usize| (before[bit / 8] ^ after[bit / 8]) >> (bit % 8) & 1 == 1;
        for byte in (0..header).filter(|&byte| before[byte] != after[byte]) {
            for bit in byte * 8..byte * 8 + 8 {
                if !changed(bit) {
                    continue;
                }
                self.changed[bit] += 1;
                if before[byte] >> (bit % 8) & 1 == 0 {
                    continue;
                }
                self.fell[bit] += 1;
                for (order, carried) in
                    [ByteOrder::Big, ByteOrder::Little].into_iter().zip(&mut self.carried)
                {
                    if above(bit, order, header).is_some_and(changed) {
                        carried[bit] += 1;
                    }
                }
            }
        }
    }

    /// Returns the counter whose lowest bit is `first`, if its bits count.
    fn counter_from(
        &self,
        first: usize,
        order: ByteOrder,
        header: usize,
        senders: &[Vec<Sample>],
    ) -> Option<Counter> {
        let carried = &self.carried[usize::from(order == ByteOrder::Little)];
        let (mut top, mut moved, mut wrapped) = (first, 1, false);
        while let Some(next) = above(top, order, header) {
            let (fell, changed) = (self.fell[top], self.changed[next]);
            if fell == 0 {
                break;
            }
            if changed == 0 {
                wrapped = fell > 1;
                break;
            }
            if (carried[top] as f64) < FIT_MIN * fell.max(changed) as f64 {
                // The bits above belong to something else; the counter ends here if it fell often.
                if grows_on(first, top, order, header, senders) {
                    return None;
                }
                wrapped = fell > 1;
                break;
            }
            (top, moved) = (next, moved + 1);
        }
        if moved < MOVED_BITS_MIN {
            return None;
        }
        let low = (first % 8) as u32;
        let widened = if wrapped { None } else { widened(first, top, order, header, senders) };
        // Without room above it, the changing bits are the counter.
        let (word, high) = match widened {
            Some(word) => (word, word.bytes as u32 * 8 - 1),
            None => (word_at(first, (first / 8).abs_diff(top / 8) + 1, order)?, low + moved - 1),
        };
        if self.stays(word, low, high, senders) > STAYS_MAX {
            return None;
        }
        let share = self.changed[first] as f64 / self.steps as f64;
        Some(Counter { word, low, high, moved, wrapped, share })
    }

    /// Returns the share of the steps in which these bits of a word stay the same.
    fn stays(&self, word: Word, low: u32, high: u32, senders: &[Vec<Sample>]) -> f64 {
        let (low, width) = (low as u8, (high - low + 1) as u8);
        let value = |sample: &Sample| extract(sample.word(word), low, width);
        let pairs = senders.iter().flat_map(|samples| samples.windows(2));
        let stays = pairs.filter(|pair| value(&pair[0]) == value(&pair[1])).count();
        stays as f64 / self.steps as f64
    }
}

/// Returns true when a longer word goes on growing where bits `first` to `top` begin anew: they are
/// the lowest bits of a time or of a number in other steps.
fn grows_on(
    first: usize,
    top: usize,
    order: ByteOrder,
    header: usize,
    senders: &[Vec<Sample>],
) -> bool {
    let used = (first / 8).abs_diff(top / 8) + 1;
    // Bits of one byte may be the lowest of a word in either order.
    let orders = match used {
        1 => vec![ByteOrder::Big, ByteOrder::Little],
        _ => vec![order],
    };
    let words = FIELD_BYTES.into_iter().flat_map(|bytes| orders.iter().map(move |of| (bytes, *of)));
    words.filter(|(bytes, _)| *bytes > used || top % 8 < 7).any(|(bytes, order)| {
        let Some(word) = word_at(first, bytes, order) else { return false };
        let bits = (used - 1) * 8 + top % 8 + 1;
        if word.at + bytes > header || bits >= bytes * 8 {
            return false;
        }
        let (mut fell, mut grew) = (0_u64, 0_u64);
        for pair in senders.iter().flat_map(|samples| samples.windows(2)) {
            let [before, after] = [pair[0].word(word), pair[1].word(word)];
            if extract(after, 0, bits as u8) < extract(before, 0, bits as u8) {
                fell += 1;
                let growth = after.wrapping_sub(before) & (u64::MAX >> (64 - bytes * 8));
                grew += u64::from(growth < 1 << (bytes * 4 + 4));
            }
        }
        fell >= 3 && grew as f64 >= FIT_MIN * fell as f64
    })
}

/// Returns the bit of twice the value.
fn above(bit: usize, order: ByteOrder, header: usize) -> Option<usize> {
    let (byte, within) = (bit / 8, bit % 8);
    match (within, order) {
        (0..7, _) => Some(bit + 1),
        (_, ByteOrder::Big) => byte.checked_sub(1).map(|byte| byte * 8),
        (_, ByteOrder::Little) => Some((byte + 1) * 8).filter(|bit| *bit < header * 8),
    }
}

/// Returns the word of `bytes` bytes whose lowest byte holds bit `first`.
fn word_at(first: usize, bytes: usize, order: ByteOrder) -> Option<Word> {
    let at = match order {
        ByteOrder::Big => (first / 8 + 1).checked_sub(bytes)?,
        ByteOrder::Little => first / 8,
    };
    Some(Word { at, bytes, order })
}

/// Returns the widest usual field around a counter from bit `first` to `top` whose further bits are
/// all 0.
fn widened(
    first: usize,
    top: usize,
    order: ByteOrder,
    header: usize,
    senders: &[Vec<Sample>],
) -> Option<Word> {
    let least = (first / 8).abs_diff(top / 8) + 1;
    let bits = (least - 1) * 8 + top % 8 + 1;
    let above = u64::MAX.checked_shl(bits as u32).unwrap_or(0);
    FIELD_BYTES.into_iter().filter(|&bytes| bytes >= least).find_map(|bytes| {
        let word = word_at(first, bytes, order)?;
        let fits = word.at % bytes == 0 && word.at + bytes <= header;
        let mut samples = senders.iter().flat_map(|samples| samples.iter());
        (fits && samples.all(|sample| sample.word(word) & above == 0)).then_some(word)
    })
}
