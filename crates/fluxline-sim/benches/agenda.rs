//! The agenda's time per entry: the calendar beside a binary heap.
//!
//! The hold model: a number of entries is pending; each that is taken schedules one more, with an
//! exponential delay or with one of eight constant ones, as a network has. Both queues run in
//! turns on the same delays, and the median of the turns counts; time is CPU time of the thread.
//! Run: `cargo bench -p fluxline-sim --bench agenda`.
#![allow(missing_docs, reason = "a benchmark")]

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

use fluxline_core::random::Draw;
use fluxline_sim::core::agenda::calendar::Calendar;
use fluxline_sim::core::agenda::heap::Heap;
use median::median;
use std::hint::black_box;

const TURNS: usize = 5;
/// Entries of a turn.
const HOLDS: usize = 1_000_000;
/// Delays that are drawn before, so that the draw is not measured.
const DELAYS: usize = 1 << 16;

fn delays(is_exponential: bool) -> Vec<u64> {
    let mut draw = Draw::new(7);
    let constants = [1_000, 4_000, 4_000, 5_000, 6_000, 20_000, 100_000, 1_000_000];
    (0..DELAYS)
        .map(|_| {
            if is_exponential {
                let fraction = (draw.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
                (-fraction.ln() * 100_000.0) as u64
            } else {
                constants[draw.below(8) as usize]
            }
        })
        .collect()
}

/// CPU time of this thread, from the scheduler's books, which count nanoseconds.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

/// CPU nanoseconds per entry of one turn after filling and one unmeasured turn.
macro_rules! hold {
    ($queue:ty, $pending:expr, $delays:expr) => {{
        let mut queue = <$queue>::default();
        let mut number = 0_u64;
        let mut step = |queue: &mut $queue, now: u64| {
            let at = now + $delays[number as usize % DELAYS];
            queue.push(fluxline_sim::Instant::from_ps(at), number, number);
            number += 1;
        };
        (0..$pending).for_each(|_| step(&mut queue, 0));
        let mut holds = |count: usize| {
            for _ in 0..count {
                let slot = queue.pop().expect("pending");
                black_box(slot.entry);
                step(&mut queue, slot.at.as_ps());
            }
        };
        holds(HOLDS.max(2 * $pending));
        let start = cpu_ns();
        holds(HOLDS);
        (cpu_ns() - start) / HOLDS as f64
    }};
}

fn main() {
    println!("pending  delays       heap ns  calendar ns");
    for pending in [100, 10_000, 1_000_000] {
        for (name, is_exponential) in [("exponential", true), ("8 constant", false)] {
            let delays = delays(is_exponential);
            let (mut heap, mut calendar) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                heap.push(hold!(Heap<u64>, pending, delays));
                calendar.push(hold!(Calendar<u64>, pending, delays));
            }
            println!("{pending:>7}  {name:<11} {:8.1} {:12.1}", median(heap), median(calendar));
        }
    }
}
