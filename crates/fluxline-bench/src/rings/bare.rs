//! A bare ring between two threads: the floor of the push ring.
//!
//! Its records look like those of the push ring (a head word as the flag, then the bytes), in
//! batches. It has no safety: no length is checked, nothing is counted, neither end checks the
//! other, and all records have one size. So the difference to the push ring is the price of safety.
//! The consumer gives room back as the push ring does, or both ends meet once per turn of the ring
//! ([`Room`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fluxline::pin::{self, PinError};

use super::order::{BATCH, BURSTS};
use crate::statistics::median;

/// As the push ring of the benchmark: half a level-2 cache.
const RING_WORDS: usize = (512 << 10) / 8;
/// The producer touches lines this far ahead: 1 KiB, as the push ring does.
const AHEAD_WORDS: usize = 128;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

struct Bare {
    words: Box<[AtomicU64]>,
    /// The number of records taken, as the consumer publishes it.
    taken: Line,
    /// Words of a record, its head included.
    record: usize,
    slots: u64,
    /// The number of records between two updates of `taken`.
    grain: u64,
}

/// The value of `taken` before the consumer runs.
const NOBODY: u64 = u64::MAX;

/// The way by which the consumer gives room back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Credits, as the push ring gives them.
    Credits,
    /// Once per turn of the ring, when both ends meet.
    Turns,
}

/// Measures records per second from one core to another, all words summed: the median over bursts,
/// as for the push ring.
pub fn rate(cores: [usize; 2], bytes: usize, records: u64, room: Room) -> Result<f64, PinError> {
    let burst = records.div_ceil(BURSTS);
    let rates: Result<Vec<f64>, PinError> =
        (0..BURSTS).map(|_| burst_rate(cores, bytes, burst, room)).collect();
    Ok(median(&rates?).unwrap_or(f64::NAN))
}

fn burst_rate(cores: [usize; 2], bytes: usize, records: u64, room: Room) -> Result<f64, PinError> {
    let record = 1 + bytes / 8;
    // One record's room more than slots are used, so that a zero head is always behind the last.
    let slots = (RING_WORDS / record) as u64;
    let words = (0..slots as usize * record).map(|_| AtomicU64::new(0)).collect();
    let grain = if room == Room::Credits { slots / 4 } else { slots - 1 };
    let bare = Arc::new(Bare { words, taken: Line(AtomicU64::new(NOBODY)), record, slots, grain });
    let theirs = Arc::clone(&bare);
    let consumer = std::thread::spawn(move || {
        pin::repin_current_thread(cores[1])?;
        theirs.taken.0.store(0, Ordering::Release);
        Ok(theirs.consume(records, room))
    });
    let producer = std::thread::spawn(move || {
        pin::repin_current_thread(cores[0])?;
        while bare.taken.0.load(Ordering::Acquire) == NOBODY {}
        let began = Instant::now();
        match room {
            Room::Credits => bare.produce(records),
            Room::Turns => bare.produce_in_turns(records),
        }
        while bare.taken.0.load(Ordering::Acquire) != records {}
        Ok(records as f64 / began.elapsed().as_secs_f64())
    });
    let rate = producer.join().expect("the producer does not panic")?;
    std::hint::black_box(consumer.join().expect("the consumer does not panic")?);
    Ok(rate)
}

impl Bare {
    /// Writes records; reads the consumer's count when the known room is used up.
    fn produce(&self, records: u64) {
        let (mut index, mut seen) = (0, 0);
        let mut first = None;
        for number in 0..records {
            while number - seen >= self.slots - 1 {
                self.publish(&mut first);
                seen = self.taken.0.load(Ordering::Acquire);
            }
            index = self.put(index, number, &mut first);
        }
        self.publish(&mut first);
    }

    /// Writes a ring full of records without asking, then waits until all are taken.
    fn produce_in_turns(&self, records: u64) {
        let mut index = 0;
        let mut first = None;
        for turn in (0..records).step_by(self.grain as usize) {
            let until = records.min(turn + self.grain);
            for number in turn..until {
                index = self.put(index, number, &mut first);
            }
            self.publish(&mut first);
            while self.taken.0.load(Ordering::Acquire) != until {}
        }
    }

    /// Writes one record, and publishes the batch when it is full; returns the next index.
    #[inline]
    fn put(&self, index: usize, number: u64, first: &mut Option<usize>) -> usize {
        let next = self.after(index);
        let ahead = (index + AHEAD_WORDS).min(self.words.len() - 1);
        std::hint::black_box(self.words[ahead].load(Ordering::Relaxed));
        self.words[next].store(0, Ordering::Relaxed);
        for word in &self.words[index + 1..index + self.record] {
            word.store(number, Ordering::Relaxed);
        }
        if first.is_none() {
            *first = Some(index);
        } else {
            self.words[index].store(1, Ordering::Relaxed);
        }
        if number % BATCH == BATCH - 1 {
            self.publish(first);
        }
        next
    }

    #[inline]
    fn publish(&self, first: &mut Option<usize>) {
        if let Some(index) = first.take() {
            self.words[index].store(1, Ordering::Release);
        }
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        let next = index + self.record;
        if next == self.words.len() { 0 } else { next }
    }

    fn consume(&self, records: u64, room: Room) -> u64 {
        let (mut index, mut sum, mut published) = (0, 0_u64, 0);
        for number in 0..records {
            while self.words[index].load(Ordering::Acquire) == 0 {
                if room == Room::Credits && published != number {
                    self.taken.0.store(number, Ordering::Release);
                    published = number;
                }
            }
            for word in &self.words[index + 1..index + self.record] {
                sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
            index = self.after(index);
            if number + 1 - published == self.grain {
                self.taken.0.store(number + 1, Ordering::Release);
                published = number + 1;
            }
        }
        self.taken.0.store(records, Ordering::Release);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_ring_delivers_with_and_without_credits_over_many_turns() {
        let cores = pin::allowed_cores();
        let cores = [cores[0], *cores.last().expect("a core")];
        if cores[0] == cores[1] {
            println!("skipped: two cores are needed");
            return;
        }
        for room in [Room::Credits, Room::Turns] {
            for bytes in [8, 64] {
                let rate = rate(cores, bytes, 200_000, room).expect("two cores");
                assert!(rate > 1e3, "{bytes} B, {room:?}: {rate}/s");
            }
        }
    }
}
