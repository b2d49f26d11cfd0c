//! Measures the trace of a field over an hour at 1 MS/s: its memory, and the time of zooms.
//!
//! `cargo run -p fluxline-serve --example trace [-- SECONDS [SAMPLES_PER_SECOND]]`. Samples are a
//! sine with noise and one peak of a single sample, which every zoom must show.

use std::time::{Duration, Instant};

use fluxline_core::random::Draw;
use fluxline_serve::Trace;

/// Zooms of each width.
const ZOOMS: u32 = 20;
/// Points of a zoom, as a page asks for.
const POINTS: usize = 2_000;
/// The peak.
const PEAK: f64 = 1e6;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u64| arguments.next().map_or(Some(usual), |text| text.parse().ok());
    let (Some(seconds), Some(rate)) = (number(3_600), number(1_000_000)) else {
        println!("usage: trace [SECONDS [SAMPLES_PER_SECOND]]");
        return;
    };
    let mut random = Draw::new(31);
    let began = Instant::now();
    let trace = filled(seconds, rate, &mut random);
    println!(
        "{} samples in {:.1} s, {} per bin, {:.1} MiB",
        trace.samples(),
        began.elapsed().as_secs_f64(),
        trace.per_bin(),
        trace.memory_bytes() as f64 / f64::from(1 << 20)
    );
    let whole = trace.part(0, trace.samples(), POINTS);
    let peak = whole.bins.iter().any(|bin| f64::from(bin.greatest) >= PEAK);
    println!("the peak of one sample is {} in the whole", if peak { "seen" } else { "MISSING" });
    for share in [1, 4, 60, 3_600] {
        let width = trace.samples() / share;
        let times = (0..ZOOMS).map(|_| {
            let from = random.below(trace.samples() - width + 1);
            let began = Instant::now();
            std::hint::black_box(trace.part(from, from + width, POINTS));
            began.elapsed()
        });
        let longest = times.max().unwrap_or(Duration::ZERO);
        println!("zoom to {width} samples: at most {:.2} ms", longest.as_secs_f64() * 1e3);
    }
}

fn filled(seconds: u64, rate: u64, random: &mut Draw) -> Trace {
    let mut trace = Trace::default();
    let of = |at: u64| (at as f64 * 1e-3).sin() * 1_000.0;
    // Blocks repeat, since a draw for each sample would take most of the time.
    let blocks: Vec<Vec<f64>> =
        (0..16).map(|_| (0..rate).map(|at| of(at) + random.below(100) as f64).collect()).collect();
    for second in 0..seconds {
        let block = &blocks[second as usize % blocks.len()];
        let at = if second == seconds / 3 { (rate / 2) as usize } else { block.len() };
        trace.add(&block[..at]);
        if at < block.len() {
            trace.add(&[PEAK]);
            trace.add(&block[at + 1..]);
        }
    }
    trace
}
