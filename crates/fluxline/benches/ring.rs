//! The slot ring's speed: slots/s and GB/s between threads, beside memcpy in the same run.
//!
//! `push` copies each payload into its slot; `commit` publishes slots written by somebody else (as
//! recvmmsg does), so it is the cost of the ring alone. The reader sums one byte per cache line.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::ring::{Consumer, Producer, PushError, RingConfig, SlotMeta, ring};

/// Payloads \[byte\]: small, one Ethernet frame, a jumbo frame, a train.
const SIZES: [usize; 4] = [64, 1_472, 8_972, 64_000];
/// Slots committed at once, as recvmmsg fills them.
const BATCH: usize = 64;
/// Moved in one trial \[byte\], but at least that many slots.
const TRIAL_BYTES: usize = 4 << 30;
const SLOTS_LEAST: usize = 1 << 12;
const WAIT: Duration = Duration::from_secs(10);

fn main() {
    // `cargo test --benches` only asks whether it still runs.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let cores = allowed_cores();
    println!("{} cores allowed; threads pinned to the first two", cores.len());
    println!("{:>7} {:>8} {:>14} {:>12} {:>10}", "byte", "what", "slots/s", "GB/s", "of memcpy");
    for size in SIZES {
        let total = if quick { 1_000 } else { (TRIAL_BYTES / size).clamp(SLOTS_LEAST, 20_000_000) };
        let memcpy = copy_alone(size, total);
        report(size, total, "memcpy", memcpy, memcpy);
        report(size, total, "push", through_ring(size, total, &cores, push_all), memcpy);
        report(size, total, "commit", through_ring(size, total, &cores, commit_all), memcpy);
    }
}

fn report(size: usize, total: usize, what: &str, time: Duration, memcpy: Duration) {
    let seconds = time.as_secs_f64();
    let rate = total as f64 / seconds;
    let of_memcpy = memcpy.as_secs_f64() / seconds;
    println!(
        "{size:>7} {what:>8} {rate:>14.0} {:>12.2} {of_memcpy:>10.2}",
        rate * size as f64 / 1e9
    );
}

/// Copies into as much memory as the ring has, in one thread.
fn copy_alone(size: usize, total: usize) -> Duration {
    let stride = RingConfig { slots: slots(size), slot_bytes: size }.stride_bytes();
    let mut memory = vec![1_u8; stride * slots(size)];
    let payload = vec![7; size];
    let start = Instant::now();
    for index in 0..total {
        let offset = index % slots(size) * stride;
        memory[offset..offset + size].copy_from_slice(black_box(&payload));
    }
    black_box(&memory);
    start.elapsed()
}

/// 4 MiB of slots: they stay in the cache between the two cores, where it is as large.
fn slots(size: usize) -> usize {
    ((4 << 20) / size).next_power_of_two().max(2 * BATCH)
}

fn through_ring(
    size: usize,
    total: usize,
    cores: &[usize],
    produce: fn(Producer, usize, usize),
) -> Duration {
    let config = RingConfig { slots: slots(size), slot_bytes: size };
    let (producer, consumer) = ring(&config).expect("a ring of some megabytes");
    let core_of = |index: usize| cores.get(index).or(cores.first()).copied();
    let (first, second) = (core_of(0), core_of(1));
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            first.map(pin_current_thread);
            produce(producer, size, total);
        });
        scope.spawn(move || {
            second.map(pin_current_thread);
            assert_eq!(consume(consumer), total);
        });
    });
    start.elapsed()
}

fn push_all(mut producer: Producer, size: usize, total: usize) {
    let payload = vec![7; size];
    for _ in 0..total {
        while let Err(error) = producer.push(black_box(&payload), SlotMeta::EMPTY) {
            assert_eq!(error, PushError::Full);
            producer.wait_for_space(WAIT);
        }
    }
}

fn commit_all(mut producer: Producer, size: usize, total: usize) {
    let meta = SlotMeta { len: size as u32, ..SlotMeta::EMPTY };
    let mut left = total;
    while left > 0 {
        let mut batch = producer.reserve(BATCH.min(left));
        let count = batch.len();
        for slot in 0..count {
            batch.set(slot, meta);
        }
        batch.commit(count);
        left -= count;
        if count == 0 {
            producer.wait_for_space(WAIT);
        }
    }
}

fn consume(mut consumer: Consumer) -> usize {
    let mut count = 0;
    let mut sum = 0_u64;
    while consumer.wait(WAIT) == fluxline::ring::Waited::Ready {
        let filled = consumer.peek();
        let shown = filled.len();
        for view in filled {
            sum += view.bytes.iter().step_by(64).map(|&byte| u64::from(byte)).sum::<u64>();
        }
        consumer.release(shown);
        count += shown;
    }
    black_box(sum);
    count
}
