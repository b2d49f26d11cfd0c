//! The floors of the machine: what two threads on two cores reach without Fluxline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fluxline::pin::{self, PinError};

use super::bare::{self, Room};
use super::order::BURSTS;
use crate::statistics::median;

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// The floors of one round.
pub struct Floors {
    /// Round trips of two lines bounced between two cores \[ns\], sorted.
    pub trips: Vec<u64>,
    /// A copy of 64 KiB within one core's own cache \[GB/s\].
    pub copy: f64,
    /// Blocks of 4 KiB, 64 KiB and 1 MiB written by one core and read by the other: the slower of
    /// both \[GB/s\].
    pub across: [f64; 3],
    /// A bare ring's rate with records of 8 and of 64 bytes \[M/s\].
    pub bare: [f64; 2],
    /// The same without credits \[M/s\].
    pub bare_free: [f64; 2],
}

impl Floors {
    /// Measures all. Nothing else may run on the two cores: no process that spins.
    pub fn measure(cores: [usize; 2], share: f64) -> Result<Floors, PinError> {
        let bytes = |all: u64| (all as f64 * share) as u64;
        let across = |block: usize| written_here_read_there(cores, block, bytes(256 << 20));
        let bare = |size: usize, room| {
            Ok::<_, PinError>(bare::rate(cores, size, bytes(10_000_000), room)? / 1e6)
        };
        Ok(Floors {
            trips: ping_pong(cores, bytes(100_000))?,
            copy: copy_in_cache(cores[0], bytes(50_000))?,
            across: [across(4 << 10)?, across(64 << 10)?, across(1 << 20)?],
            bare: [bare(8, Room::Credits)?, bare(64, Room::Credits)?],
            bare_free: [bare(8, Room::Turns)?, bare(64, Room::Turns)?],
        })
    }
}

fn joined<T>(thread: std::thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Bounces two cache lines between two cores: round trips \[ns\], sorted.
fn ping_pong(cores: [usize; 2], trips: u64) -> Result<Vec<u64>, PinError> {
    let lines: Arc<[Line; 2]> = Arc::default();
    let theirs = Arc::clone(&lines);
    let other = std::thread::spawn(move || {
        pin::repin_current_thread(cores[1])?;
        for number in 1..=trips {
            while theirs[0].0.load(Ordering::Acquire) != number {}
            theirs[1].0.store(number, Ordering::Release);
        }
        Ok(())
    });
    let here = std::thread::spawn(move || {
        pin::repin_current_thread(cores[0])?;
        let mut times = Vec::with_capacity(trips as usize);
        for number in 1..=trips {
            let began = Instant::now();
            lines[0].0.store(number, Ordering::Release);
            while lines[1].0.load(Ordering::Acquire) != number {}
            times.push(began.elapsed().as_nanos() as u64);
        }
        times.sort_unstable();
        Ok(times)
    });
    joined(other)?;
    joined(here)
}

/// Copies 64 KiB within one core's own cache \[GB/s\].
fn copy_in_cache(core: usize, count: u64) -> Result<f64, PinError> {
    joined(std::thread::spawn(move || {
        pin::repin_current_thread(core)?;
        let (from, mut to) = (vec![1_u8; 64 << 10], vec![0_u8; 64 << 10]);
        let burst = count.div_ceil(BURSTS);
        let rates: Vec<f64> = (0..BURSTS)
            .map(|_| {
                let began = Instant::now();
                for _ in 0..burst {
                    to.copy_from_slice(std::hint::black_box(&from));
                    std::hint::black_box(&mut to);
                }
                burst as f64 * from.len() as f64 / 1e9 / began.elapsed().as_secs_f64()
            })
            .collect();
        Ok(median(&rates).unwrap_or(f64::NAN))
    }))
}

/// Writes a block on one core and reads it on the other, in turns: the slower of both medians
/// \[GB/s\].
fn written_here_read_there(cores: [usize; 2], block: usize, all: u64) -> Result<f64, PinError> {
    // Locked without contention: the turn says whose it is.
    let words = Arc::new(Mutex::new(vec![0_u8; block]));
    let turn = Arc::new(Line::default());
    let rounds = all / block as u64;
    let (their_words, their_turn) = (Arc::clone(&words), Arc::clone(&turn));
    let reader = std::thread::spawn(move || {
        pin::repin_current_thread(cores[1])?;
        let (mut busy, mut sum) = (Vec::new(), 0_u64);
        for round in 0..rounds {
            while their_turn.0.load(Ordering::Acquire) != round * 2 + 1 {}
            let began = Instant::now();
            let words = their_words.lock().unwrap_or_else(PoisonError::into_inner);
            sum = sum.wrapping_add(sum_words(&words));
            drop(words);
            busy.push(began.elapsed().as_secs_f64());
            their_turn.0.store(round * 2 + 2, Ordering::Release);
        }
        std::hint::black_box(sum);
        Ok(busy)
    });
    let writer = std::thread::spawn(move || {
        pin::repin_current_thread(cores[0])?;
        let mut busy = Vec::new();
        for round in 0..rounds {
            while turn.0.load(Ordering::Acquire) != round * 2 {}
            let began = Instant::now();
            words.lock().unwrap_or_else(PoisonError::into_inner).fill(round as u8);
            busy.push(began.elapsed().as_secs_f64());
            turn.0.store(round * 2 + 1, Ordering::Release);
        }
        Ok(busy)
    });
    let [reading, writing] = [joined(reader)?, joined(writer)?].map(|times| median(&times));
    Ok(block as f64 / 1e9 / f64::max(reading.unwrap_or(f64::NAN), writing.unwrap_or(f64::NAN)))
}

/// Sums words: every byte is read.
fn sum_words(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0, |sum, word| sum.wrapping_add(word.try_into().map_or(0, u64::from_le_bytes)))
}
