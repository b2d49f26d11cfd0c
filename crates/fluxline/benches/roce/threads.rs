//! Streams of puts from and to several threads at one address, beside as many bare streams.

use super::super::bare;
use super::super::path::Path;
use super::super::trial::{Bench, Outcome};
use super::{BELOW, of, print_load, put, put_settings, ratio, rounds, trains};

/// Numbers of threads of each end.
const COUNTS: [usize; 4] = [1, 2, 4, 8];

/// The table of streams of puts by the number of threads. All threads of an end share the cores
/// that there are; a row with more threads than half of them says so.
pub fn table(bench: &Bench) {
    println!("\nthreads: puts of 1 MiB, one connection a thread, one address an end [Gb/s]");
    println!(
        "{:<10} {:>6} {:>7} {:>6} {:>6} {:>12} {:>12}  cores",
        "path", "frame", "threads", "bare", "lost", "unreliable", "reliable"
    );
    let cores = fluxline::pin::allowed_cores().len();
    let paths = [Some(Path::loopback()), Path::veth(1500)];
    for path in paths.iter().flatten() {
        let most = path.mtu - BELOW;
        let frames = if path.mtu > 9000 { vec![1472, 8972, 65_504] } else { vec![most] };
        for frame in frames {
            // Two threads on two cores are shown too: what sharing a core costs.
            for count in COUNTS.into_iter().filter(|count| *count <= (cores / 2).max(2)) {
                row(bench, path, frame, count);
            }
        }
    }
    print_load();
}

fn row(bench: &Bench, path: &Path, frame: usize, count: usize) {
    let settings = |reliable| put_settings(frame, 1 << 20, reliable).with("threads", count);
    let all = rounds(
        bench,
        &[
            Box::new(|| bare::streams(bench, path, trains(frame), count)),
            Box::new(|| put(bench, path, &settings(false))),
            Box::new(|| put(bench, path, &settings(true))),
        ],
    );
    let [bare, unreliable, reliable] = &all[..] else { return };
    let rate = |outcomes: &[Outcome]| of(outcomes, Outcome::gigabits);
    let beside = |ours: &[Outcome]| format!("{:.1} ({:.2})", rate(ours), ratio(ours, bare));
    let lost = of(bare, |one| one.received.lost * 100.0);
    let needed = 2 * count;
    let cores = fluxline::pin::allowed_cores().len();
    println!(
        "{:<10} {frame:>6} {count:>7} {:>6.1} {lost:>5.1}% {:>12} {:>12}  {}",
        path.name,
        rate(bare),
        beside(unreliable),
        beside(reliable),
        if cores < needed { format!("{cores} for {needed} threads") } else { needed.to_string() },
    );
}
