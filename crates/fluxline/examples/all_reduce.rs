//! Demonstrates: message passing among ranks, on any link.
//!
//! ```sh
//! run() { cargo run --release -p fluxline --example all_reduce -- "$@"; }
//! run shm://lab/0 shm://lab/1 shm://lab/2
//! run udp://127.0.0.1:4801 udp://127.0.0.1:4802 udp://127.0.0.1:4803
//! run "sim:atoll/lab/0?grid=2x2" "sim:atoll/lab/1?grid=2x2" "sim:atoll/lab/2?grid=2x2" \
//!     "sim:atoll/lab/3?grid=2x2"
//! ```
//!
//! Each URL is a rank, on a thread of its own. All ranks compute pi: each integrates its share of
//! 4/(1+x^2), and an all-reduce adds the shares. The result has the same bits on every link.

use std::error::Error;

use fluxline::fabric::group::{Group, GroupConfig, Reduction, Source, Values};
use fluxline::fabric::{Fabric, Key, Local, Name};

/// Intervals of the integral.
const INTERVALS: usize = 1_000_000;
/// Repeats of each timed call.
const REPEATS: u32 = 100;

type Failure = Box<dyn Error>;

/// The result of a rank, and the times of calls on its link \[us\].
struct Outcome {
    pi: f64,
    message_us: f64,
    barrier_us: f64,
    all_reduce_us: f64,
}

/// Returns the name by which the node of a URL is connected.
fn name_of(url: &str) -> String {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Integrates the share of a rank.
fn share(rank: usize, size: usize) -> f64 {
    let width = 1.0 / INTERVALS as f64;
    let height = |index: usize| 4.0 / (1.0 + ((index as f64 + 0.5) * width).powi(2));
    (rank..INTERVALS).step_by(size).map(height).sum::<f64>() * width
}

/// Returns the mean time of a call \[us\], in the time of the link.
fn time_us(
    fabric: &mut dyn Fabric,
    mut call: impl FnMut(&mut dyn Fabric) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    call(fabric)?;
    let began = fabric.now();
    for _ in 0..REPEATS {
        call(fabric)?;
    }
    Ok(fabric.now().since(began).as_ns() as f64 / 1e3 / f64::from(REPEATS))
}

/// Sends a message there and back between ranks 0 and 1.
fn ping(group: &mut Group, fabric: &mut dyn Fabric) -> Result<(), Failure> {
    let peer = match group.rank() {
        rank @ (0 | 1) => 1 - rank,
        _ => return Ok(()),
    };
    if group.rank() == 0 {
        group.send(fabric, peer, 1, Local::Bytes(b"8 bytes!"))?;
        group.receive(fabric, Source::Rank(peer), Some(1), 8)?;
    } else {
        let message = group.receive(fabric, Source::Rank(peer), Some(1), 8)?;
        group.send(fabric, peer, 1, Local::Bytes(&message.bytes))?;
    }
    Ok(())
}

/// Runs one rank. Nothing in it depends on the link.
fn run(urls: &[String], rank: usize) -> Result<Outcome, Failure> {
    let mut fabric = fluxline::open(&urls[rank])?;
    let fabric = &mut *fabric;
    let members = urls.iter().map(|url| name_of(url)).collect();
    let config = GroupConfig::new(Name::parse("pi")?, Key(0x3141), rank, members);
    let mut group = Group::new(fabric, config)?;
    group.join(fabric)?;
    let own = Values::F64(vec![share(rank, urls.len())]);
    let Values::F64(sum) = group.all_reduce(fabric, &own, Reduction::Sum)? else {
        return Err("the sum of floats is floats".into());
    };
    let message_us = time_us(fabric, |fabric| ping(&mut group, fabric))? / 2.0;
    let barrier_us = time_us(fabric, |fabric| Ok(group.barrier(fabric)?))?;
    let all_reduce_us = time_us(fabric, |fabric| {
        group.all_reduce(fabric, &own, Reduction::Sum)?;
        Ok(())
    })?;
    group.leave(fabric)?;
    Ok(Outcome { pi: sum[0], message_us, barrier_us, all_reduce_us })
}

fn main() -> Result<(), Failure> {
    fluxline_sim::register(); // for URLs sim:
    let urls: Vec<String> = std::env::args().skip(1).collect();
    if urls.len() < 2 {
        return Err("write two URLs or more, one for each rank".into());
    }
    let urls = &urls;
    let outcomes: Vec<Result<Outcome, String>> = std::thread::scope(|scope| {
        let run = |rank| scope.spawn(move || run(urls, rank).map_err(|error| error.to_string()));
        let threads: Vec<_> = (0..urls.len()).map(run).collect();
        let panicked = |_| Err("it panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        let outcome = outcome.map_err(|error| format!("rank {rank}: {error}"))?;
        println!("rank {rank}: pi is {:.15} ({:016x})", outcome.pi, outcome.pi.to_bits());
        if rank == 0 {
            println!(
                "half round trip {:.2} us, barrier {:.2} us, all-reduce {:.2} us",
                outcome.message_us, outcome.barrier_us, outcome.all_reduce_us
            );
        }
    }
    Ok(())
}
