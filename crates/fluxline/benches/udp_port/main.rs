//! Frames through two UDP ports over loopback, beside a bare program in C in the same run.
//!
//! One thread writes frames and sends them from core 0, as fast as it can; one on core 1 receives
//! and reads eight bytes of each. What is printed is what was *received*, medians of interleaved
//! rounds; the ratio to the bare program is the result. Trains (UDP_SEGMENT to UDP_GRO) and single
//! datagrams are two things: never compare a number of one kind with one of the other.
//!
//! `cargo bench -p fluxline --bench udp_port` (2 minutes; `ROUNDS=1` 25 s). Needs `cc`, two cores.

#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::udp::{UdpPort, UdpPortConfig, WhenEmpty};
use fluxline_core::port::Port;
use median::median;

/// Frames \[byte\]: small, Ethernet's, a page with RoCE's headers, jumbo Ethernet's.
const SIZES: [usize; 4] = [64, 1_472, 4_096 + 58, 8_972];
/// Duration of a trial's sending.
const TRIAL: Duration = Duration::from_millis(700);
/// Frames between two looks at the clock.
const BURST: usize = 256;

/// A trial's way of sending and receiving.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    trains: bool,
    nap: Duration,
}

const KINDS: [Kind; 3] = [
    Kind { name: "trains", trains: true, nap: Duration::ZERO },
    Kind { name: "single", trains: false, nap: Duration::ZERO },
    Kind { name: "single, nap", trains: false, nap: Duration::from_micros(50) },
];

/// Arrived bytes and datagrams, and the time that they took.
#[derive(Clone, Copy, Default)]
struct Arrived {
    frames: f64,
    seconds: f64,
}

impl Arrived {
    fn rate(self) -> f64 {
        self.frames / self.seconds.max(1e-9)
    }
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("udp_port: run it by `cargo bench -p fluxline --bench udp_port`");
        return;
    }
    let cores = allowed_cores();
    let [sender, receiver, ..] = cores[..] else {
        println!("udp_port needs two cores");
        return;
    };
    let folder = tempfile::tempdir().expect("a scratch folder");
    let bare = compile(folder.path());
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    println!("sender on core {sender}, receiver on core {receiver}, loopback, {rounds} rounds");
    println!("received; the port's ratio to the bare program, worst and best round");
    println!(
        "{:>6}  {:<11}  {:>10}  {:>7}  {:>10}  {:>7}  {:>5}  {:>11}",
        "byte", "kind", "bare 1/s", "Gb/s", "port 1/s", "Gb/s", "ratio", "of rounds"
    );
    for size in SIZES {
        for kind in KINDS {
            let mut rates = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                let bare = by_bare(&bare, size, kind, (sender, receiver)).rate();
                let port = by_port(size, kind, (sender, receiver)).rate();
                rates.0.push(bare);
                rates.1.push(port);
                rates.2.push(port / bare);
            }
            report(size, kind, rates);
        }
    }
}

fn report(size: usize, kind: Kind, (bare, port, ratios): (Vec<f64>, Vec<f64>, Vec<f64>)) {
    let gigabits = |rate: f64| rate * size as f64 * 8e-9;
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let (bare, port, ratio) = (median(bare), median(port), median(ratios));
    println!(
        "{size:>6}  {:<11}  {bare:>10.0}  {:>7.2}  {port:>10.0}  {:>7.2}  {ratio:>5.2}  \
         {least:>4.2} - {most:.2}",
        kind.name,
        gigabits(bare),
        gigabits(port),
    );
}

fn compile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/udp_port/bare.c");
    let program = folder.join("bare");
    let done = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).status();
    assert!(done.expect("a C compiler").success(), "bare.c compiles");
    program
}

/// Frames of one train at most, as the port makes them.
fn train(size: usize) -> usize {
    (65_507 / size).min(64)
}

fn by_bare(program: &Path, size: usize, kind: Kind, cores: (usize, usize)) -> Arrived {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = port.expect("a port").port().to_string();
    let seconds = TRIAL.as_secs_f64().to_string();
    let gro = if kind.trains { "1" } else { "0" };
    let mut receiver = Command::new(program)
        .args(["receive", &port, gro, &kind.nap.as_micros().to_string(), &seconds])
        .arg(cores.1.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the bare receiver");
    let mut lines = BufReader::new(receiver.stdout.take().expect("piped")).lines();
    lines.next().expect("ready").expect("ready");
    let frames = if kind.trains { train(size) } else { 1 };
    let sent = Command::new(program)
        .args(["send", &port, &size.to_string(), &frames.to_string()])
        // Longer than the receiver looks, so that only its own time counts.
        .args([(TRIAL.as_secs_f64() + 0.1).to_string(), cores.0.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(sent.expect("the bare sender").success());
    let line = lines.next().expect("a result").expect("a result");
    receiver.wait().expect("the bare receiver ends");
    let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
    Arrived { frames: numbers[0], seconds: numbers[2] }
}

fn by_port(size: usize, kind: Kind, cores: (usize, usize)) -> Arrived {
    let (send_address, address) = mpsc::channel();
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let arrived = scope.spawn(move || {
            pin_current_thread(cores.1).expect("the receiver's core");
            let mut port = open(kind);
            send_address.send(port.local_address()).expect("the sender waits");
            let arrived = receive(&mut port);
            done.store(true, Ordering::Relaxed);
            arrived
        });
        // A thread of its own: who is pinned cannot start threads on other cores.
        scope.spawn(move || {
            pin_current_thread(cores.0).expect("the sender's core");
            let to = address.recv().expect("the receiver's address");
            let mut port = open(kind);
            let mut number = 0_u64;
            while !done.load(Ordering::Relaxed) {
                send_burst(&mut port, to, size, &mut number);
            }
        });
        arrived.join().expect("the receiver ends")
    })
}

fn open(kind: Kind) -> UdpPort {
    let mut config = UdpPortConfig::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    config.segmentation = kind.trains;
    config.gro = kind.trains;
    if kind.nap > Duration::ZERO {
        config.when_empty = WhenEmpty::Nap(kind.nap);
    }
    UdpPort::bind(config).expect("a port")
}

fn send_burst(port: &mut UdpPort, to: SocketAddr, size: usize, number: &mut u64) {
    for _ in 0..BURST {
        match port.frame(to, size) {
            Some(frame) => frame.bytes[..8].copy_from_slice(&number.to_ne_bytes()),
            None => break,
        }
        *number += 1;
    }
    port.flush(clock::monotonic());
}

/// Receives for the time of a trial, from the first frame on.
fn receive(port: &mut UdpPort) -> Arrived {
    let (mut first, mut last) = (None, Instant::now());
    let (mut frames, mut sum) = (0_u64, 0_u64);
    loop {
        let mut take = |frame: fluxline_core::port::Incoming<'_>| {
            let head: [u8; 8] = frame.bytes[..8].try_into().expect("eight bytes");
            sum = sum.wrapping_add(u64::from_ne_bytes(head));
        };
        let count = port.receive(clock::monotonic(), &mut take);
        let now = Instant::now();
        if count > 0 {
            frames += count as u64;
            last = now;
            first.get_or_insert(now);
        } else if !port.wait(Duration::from_secs(1)).expect("a working socket") {
            break;
        }
        if first.is_some_and(|first| now.duration_since(first) > TRIAL) {
            break;
        }
    }
    black_box(sum);
    let seconds = first.map_or(0.0, |first| last.duration_since(first).as_secs_f64());
    Arrived { frames: frames as f64, seconds }
}
