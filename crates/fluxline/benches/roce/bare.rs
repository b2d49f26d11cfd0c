//! The bare program in C, which `udp_port` uses too.

use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

use super::cpu::Cpu;
use super::ends::{self, Settings};
use super::path::Path;
use super::trial::{Bench, End, Outcome, Side};

/// Longest train \[byte, datagrams\], as the port makes them.
const TRAIN: (usize, usize) = (65_507, 64);

pub fn compile(folder: &FilePath) -> PathBuf {
    let source = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("benches/udp_port/bare.c");
    let program = folder.join("bare");
    let done = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).status();
    assert!(done.expect("a C compiler").success(), "bare.c compiles");
    program
}

/// The bare program's way of streaming.
#[derive(Clone, Copy)]
pub struct Stream {
    pub datagram_bytes: usize,
    pub trains: bool,
    /// The receiver's nap between batches \[us\]; below 0 it polls.
    pub nap_us: i32,
    pub seconds: f64,
    /// Datagrams a second; 0: as fast as it goes.
    pub pace: u64,
    /// Memory that both ends walk through \[byte\]; 0: they use the same buffers again.
    pub walk_bytes: u64,
}

/// As many streams at once, each from and to cores of its own where there are enough.
pub fn streams(bench: &Bench, path: &Path, of: Stream, count: usize) -> Outcome {
    let all: Vec<Outcome> = std::thread::scope(|scope| {
        let start = |index| scope.spawn(move || stream_at(bench, path, of, index));
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let sum = |side: fn(&Outcome) -> Side| {
        let rate = |side: Side| side.amount / side.seconds.max(1e-9);
        let sides = || all.iter().map(side);
        let seconds = sides().map(|side| side.seconds).fold(0.0, f64::max);
        let lost = sides().map(|side| side.lost).sum::<f64>() / all.len().max(1) as f64;
        Side { amount: sides().map(rate).sum::<f64>() * seconds, seconds, lost, ..Side::default() }
    };
    Outcome { sent: sum(|one| one.sent), received: sum(|one| one.received) }
}

/// A stream of datagrams as fast as it goes.
pub fn stream(bench: &Bench, path: &Path, of: Stream) -> Outcome {
    stream_at(bench, path, of, 0)
}

/// The stream with this index of several at once.
fn stream_at(bench: &Bench, path: &Path, of: Stream, index: usize) -> Outcome {
    let settings = |core: usize| Settings::default().with("core", core);
    let core_of = |core| ends::core(&settings(core), index).to_string();
    let address = path.addresses(Default::default()).address("to").to_string();
    let port = (20_000 + std::process::id() as usize % 20_000 + index).to_string();
    let bare = |arguments: &[&str]| {
        let mut command = Command::new(&bench.bare);
        command.args(arguments).env("ADDRESS", &address).env("PACE", of.pace.to_string());
        if of.walk_bytes > 0 {
            command.env("WALK", of.walk_bytes.to_string());
        }
        command
    };
    let (gro, nap) = (u8::from(of.trains).to_string(), of.nap_us.to_string());
    let seconds = of.seconds.to_string();
    let core = core_of(bench.cores.1);
    let receive = bare(&["receive", &port, &gro, &nap, &seconds, &core]);
    let mut receiver = End::start(path.at_receiver(receive));
    if receiver.line("ready").is_none() {
        return Outcome::default();
    }
    let train = if of.trains { (TRAIN.0 / of.datagram_bytes).clamp(1, TRAIN.1) } else { 1 };
    let (bytes, train) = (of.datagram_bytes.to_string(), train.to_string());
    let longer = (of.seconds + 0.1).to_string();
    let core = core_of(bench.cores.0);
    let mut sender =
        End::start(path.at_sender(bare(&["send", &port, &bytes, &train, &longer, &core])));
    let sent = side(&sender.line("").unwrap_or_default());
    let received = side(&receiver.line("").unwrap_or_default());
    Outcome { sent, received }
}

/// datagrams, bytes, seconds, -, user, system
fn side(line: &str) -> Side {
    let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [count, amount, seconds, lost, user, system] = numbers[..] else { return Side::default() };
    let lost = lost / (lost + count).max(1.0);
    Side { amount, seconds, lost, cpu: Cpu { user, system } }
}

/// Half round trips of datagrams, both ends polling: p50 and p99 \[ns\].
pub fn ping(bench: &Bench, path: &Path, bytes: usize, trips: u32) -> (f64, f64) {
    let address = path.addresses(Default::default()).address("to").to_string();
    let port = (20_000 + std::process::id() % 20_000).to_string();
    let bare = |arguments: &[&str]| {
        let mut command = Command::new(&bench.bare);
        command.args(arguments).env("ADDRESS", &address);
        command
    };
    let cores = [bench.cores.0.to_string(), bench.cores.1.to_string()];
    let mut echo = End::start(path.at_receiver(bare(&["echo", &port, &cores[1]])));
    echo.line("ready");
    let (bytes, trips) = (bytes.to_string(), trips.to_string());
    let ping = bare(&["ping", &port, &bytes, &trips, &cores[0]]);
    let line = End::start(path.at_sender(ping)).line("").unwrap_or_default();
    let mut numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
    let mut half = || numbers.next().unwrap_or(f64::NAN) / 2.0;
    (half(), half())
}
