//! What the machine itself can do, without Fluxline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fluxline::pin;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Two lines bounced between two cores: half a round trip, median \[ns\].
pub fn ping_pong(cores: [usize; 2], trips: usize) -> f64 {
    let lines: Arc<[Line; 2]> = Arc::default();
    let theirs = Arc::clone(&lines);
    let other = std::thread::spawn(move || {
        pin::pin_current_thread(cores[1]).expect("a core");
        for number in 1..=trips as u64 {
            while theirs[0].0.load(Ordering::Acquire) != number {}
            theirs[1].0.store(number, Ordering::Release);
        }
    });
    let here = std::thread::spawn(move || {
        pin::pin_current_thread(cores[0]).expect("a core");
        let mut times = Vec::with_capacity(trips);
        for number in 1..=trips as u64 {
            let began = Instant::now();
            lines[0].0.store(number, Ordering::Release);
            while lines[1].0.load(Ordering::Acquire) != number {}
            times.push(began.elapsed().as_nanos() as u64);
        }
        times.sort_unstable();
        times[times.len() / 2] as f64 / 2.0
    });
    other.join().expect("the other core");
    here.join().expect("this core")
}

/// A copy of 64 KiB within one core's own cache \[GB/s\].
pub fn copy_in_cache(core: usize) -> f64 {
    std::thread::spawn(move || {
        pin::pin_current_thread(core).expect("a core");
        let (from, mut to) = (vec![1_u8; 64 << 10], vec![0_u8; 64 << 10]);
        let count = 50_000;
        let began = Instant::now();
        for _ in 0..count {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        }
        f64::from(count) * from.len() as f64 / 1e9 / began.elapsed().as_secs_f64()
    })
    .join()
    .expect("the copy")
}

/// A block written by one core and then read by the other, in turns: the slower of both \[GB/s\].
pub fn written_here_read_there(cores: [usize; 2], bytes: usize) -> f64 {
    // Locked without contention: the turn says whose it is.
    let words = Arc::new(Mutex::new(vec![0_u8; bytes]));
    let turn = Arc::new(Line::default());
    let rounds = (256 << 20) / bytes as u64;
    let (their_words, their_turn) = (Arc::clone(&words), Arc::clone(&turn));
    let reader = std::thread::spawn(move || {
        pin::pin_current_thread(cores[1]).expect("a core");
        let (mut busy, mut sum) = (0.0, 0_u64);
        for round in 0..rounds {
            while their_turn.0.load(Ordering::Acquire) != round * 2 + 1 {}
            let began = Instant::now();
            sum = sum.wrapping_add(sum_words(&their_words.lock().expect("unbroken")));
            busy += began.elapsed().as_secs_f64();
            their_turn.0.store(round * 2 + 2, Ordering::Release);
        }
        std::hint::black_box(sum);
        busy
    });
    let writer = std::thread::spawn(move || {
        pin::pin_current_thread(cores[0]).expect("a core");
        let mut busy = 0.0;
        for round in 0..rounds {
            while turn.0.load(Ordering::Acquire) != round * 2 {}
            let began = Instant::now();
            words.lock().expect("unbroken").fill(round as u8);
            busy += began.elapsed().as_secs_f64();
            turn.0.store(round * 2 + 1, Ordering::Release);
        }
        busy
    });
    let slower = reader.join().expect("the reader").max(writer.join().expect("the writer"));
    rounds as f64 * bytes as f64 / 1e9 / slower
}

/// Sums words, so that every byte is read.
pub fn sum_words(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0, |sum, word| sum.wrapping_add(word.try_into().map_or(0, u64::from_le_bytes)))
}
