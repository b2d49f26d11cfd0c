//! Large copies through the cache and past it: which is faster, and from which size on.
//!
//! Blocks are copied into a window, of one block or of 64 MiB, that is used again and again; then
//! nobody reads them, or another core does as they come, or the copying core does. A block's source
//! is as long as the block. Both ways are interleaved; medians.
//!
//! `cargo bench -p fluxline --bench copy` (two minutes; `ROUNDS=3` for a first look).

#[path = "../../fluxline-bench/src/statistics/median.rs"]
mod median;

#[allow(dead_code, reason = "the copy alone is measured")]
#[path = "../src/sys/stream.rs"]
mod stream;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fluxline::pin;
use median::median;

const CORES: [usize; 2] = [0, 1];
const WINDOW_BYTES: usize = 64 << 20;
/// Copied per measurement \[byte\].
const TOTAL_BYTES: usize = 512 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reader {
    Nobody,
    OtherCore,
    SameCore,
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("copy: a benchmark; run it by `cargo bench -p fluxline --bench copy`");
        return;
    }
    if pin::allowed_cores().len() < 2 {
        println!("copy: needs two cores");
        return;
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    println!("used from {} MiB on", stream::STREAM_BYTES_MIN >> 20);
    println!("block KiB  window KiB  read by    through GB/s  past GB/s  ratio");
    for block in [4 << 10, 64 << 10, 1 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20] {
        let mut windows = vec![1, WINDOW_BYTES / block];
        windows.dedup();
        for blocks in windows {
            for reader in [Reader::Nobody, Reader::OtherCore, Reader::SameCore] {
                row(rounds, block, blocks, reader);
            }
        }
    }
}

fn row(rounds: usize, block: usize, blocks: usize, reader: Reader) {
    let window: Vec<Mutex<Vec<u8>>> = (0..blocks).map(|_| Mutex::new(vec![1; block])).collect();
    let source = vec![3; block];
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        for (past, rates) in rates.iter_mut().enumerate() {
            rates.push(rate(&window, &source, reader, past == 1));
        }
    }
    let [through, past] = rates.map(median);
    let (block, all, by) = (block >> 10, (block * blocks) >> 10, format!("{reader:?}"));
    let ratio = past / through;
    println!("{block:>9}  {all:>10}  {by:<9}  {through:>12.1}  {past:>9.1}  {ratio:>5.2}");
}

/// Copies the source into the blocks in turn \[GB/s\]. A block is locked without contention: the
/// counts say whose it is.
fn rate(window: &[Mutex<Vec<u8>>], source: &[u8], reader: Reader, past: bool) -> f64 {
    let blocks = window.len() as u64;
    let count = (TOTAL_BYTES / source.len()) as u64;
    let (written, read) = (Line::default(), Line::default());
    let block = |number: u64| window[(number % blocks) as usize].lock().expect("unbroken");
    let copy = |number: u64| {
        let mut to = block(number);
        if past { stream::stream_slice(source, &mut to) } else { to.copy_from_slice(source) }
    };
    std::thread::scope(|scope| {
        if reader == Reader::OtherCore {
            scope.spawn(|| {
                pin::pin_current_thread(CORES[1]).expect("a core");
                for number in 0..count {
                    while written.0.load(Ordering::Acquire) <= number {
                        std::hint::spin_loop();
                    }
                    std::hint::black_box(sum(&block(number)));
                    read.0.store(number + 1, Ordering::Release);
                }
            });
        }
        let writer = scope.spawn(|| {
            pin::pin_current_thread(CORES[0]).expect("a core");
            let began = Instant::now();
            for number in 0..count {
                while reader == Reader::OtherCore
                    && number - read.0.load(Ordering::Acquire) >= blocks
                {
                    std::hint::spin_loop();
                }
                copy(number);
                written.0.store(number + 1, Ordering::Release);
                if reader == Reader::SameCore {
                    std::hint::black_box(sum(&block(number)));
                }
            }
            while reader == Reader::OtherCore && read.0.load(Ordering::Acquire) < count {
                std::hint::spin_loop();
            }
            count as f64 * source.len() as f64 / 1e9 / began.elapsed().as_secs_f64()
        });
        writer.join().expect("the writer")
    })
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks_exact(8)
        .fold(0, |sum, word| sum.wrapping_add(word.try_into().map_or(0, u64::from_le_bytes)))
}
