//! One trial: a receiver and a sender, each a process in its namespace, and what they counted.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::pin::pin_current_thread;
use fluxline::ring::{RingConfig, ring};
use fluxline::udp::{Pacer, ReceiverConfig, SenderConfig, UdpReceiver, UdpSender, WhenEmpty};
use fluxline::xdp::{XdpConfig, XdpPort};
use fluxline_core::port::Port;

use crate::namespaces::{Namespaces, Side};

const PORT: u16 = 4791;
/// Frames between two looks at the clock and the pacer.
const BATCH: usize = 64;
/// A receiver that is drained lets frames gather. Source: measured, see docs/ports.md.
const NAP: Duration = Duration::from_micros(50);
/// Without a frame for that long, the sender has ended.
const SILENCE: Duration = Duration::from_millis(300);

pub(crate) struct Trial {
    pub(crate) sender: &'static str,
    pub(crate) receiver: &'static str,
    pub(crate) bytes: usize,
    pub(crate) ms: u64,
}

pub(crate) struct Outcome {
    pub(crate) sent_per_s: f64,
    pub(crate) received_per_s: f64,
    pub(crate) lost: u64,
}

impl Trial {
    /// Sends at `rate` \[frame/s\], 0 for as fast as it goes.
    pub(crate) fn run(&self, pair: &Namespaces, rate: f64) -> Outcome {
        let receiver = pair.server_with(
            Side::B,
            "receiver",
            &[("KIND", self.receiver), ("OWN", &pair.v4(Side::B))],
        );
        let said = pair.said(
            Side::A,
            "sender",
            &[
                ("KIND", self.sender),
                ("OWN", &pair.v4(Side::A)),
                ("TO", &format!("{}:{PORT}", pair.v4(Side::B))),
                ("BYTES", &self.bytes.to_string()),
                ("MS", &self.ms.to_string()),
                ("RATE", &rate.to_string()),
            ],
        );
        let [sent, seconds] = numbers(&said);
        let [received, _] = numbers(&receiver.said());
        Outcome {
            sent_per_s: sent / seconds,
            received_per_s: received / seconds,
            lost: (sent - received).max(0.0) as u64,
        }
    }
}

/// The two numbers of a line `result N S`.
fn numbers(said: &str) -> [f64; 2] {
    let line = said.lines().find_map(|line| line.strip_prefix("result ")).expect("a result");
    let mut words = line.split(' ').map(|word| word.parse().expect("a number"));
    [words.next().expect("a count"), words.next().expect("seconds")]
}

fn given<T: std::str::FromStr>(key: &str) -> T {
    let text = std::env::var(key).expect("given");
    text.parse().ok().expect("well formed")
}

/// Plays a role, if this process has one.
pub(crate) fn play() -> bool {
    let Ok(role) = std::env::var("ROLE") else { return false };
    let (core, kind): (usize, String) = (usize::from(role == "receiver"), given("KIND"));
    // A machine with one core measures something else, but runs.
    let _ = pin_current_thread(core);
    match (role.as_str(), kind.as_str()) {
        ("receiver", "xdp") => receive_xdp(),
        ("receiver", _) => receive_socket(),
        (_, "xdp") => send_xdp(),
        _ => send_socket(),
    }
    true
}

fn touch(bytes: &[u8]) -> u64 {
    bytes.iter().step_by(64).map(|&byte| u64::from(byte)).sum()
}

/// Counts frames until none come any more.
fn count(mut fetch: impl FnMut(&mut u64) -> u64) {
    println!("ready");
    let (mut received, mut sum) = (0, 0);
    let mut last: Option<Instant> = None;
    while last.is_none_or(|last| last.elapsed() < SILENCE) {
        let came = fetch(&mut sum);
        received += came;
        if came > 0 {
            last = Some(Instant::now());
        }
    }
    std::hint::black_box(sum);
    println!("result {received} 1");
}

/// IPv4 alone: with an IPv6 address, the longest frame is 20 byte shorter.
fn open() -> XdpPort {
    let mut config = XdpConfig::new("veth");
    config.addresses = vec![given("OWN")];
    XdpPort::open(&config).expect("opens")
}

fn receive_xdp() {
    let mut port = open();
    count(|sum| {
        let mut came = 0;
        loop {
            let batch = port.receive(clock::now(), &mut |frame| *sum += touch(frame.bytes));
            came += batch as u64;
            if batch < BATCH {
                break;
            }
        }
        if came == 0 {
            port.wait(Duration::from_millis(20));
        } else {
            std::thread::sleep(NAP);
        }
        came
    });
}

fn receive_socket() {
    let address = SocketAddr::from(([0, 0, 0, 0], PORT));
    let mut config = ReceiverConfig::new(address);
    config.gro = false;
    config.buffer_bytes = 64 << 20;
    config.when_empty = WhenEmpty::Nap(NAP);
    let mut receiver = UdpReceiver::bind(config).expect("binds");
    let slots = RingConfig { slots: 256, slot_bytes: 9_216 };
    let (mut producer, mut consumer) = ring(&slots).expect("a ring");
    count(|sum| {
        receiver.receive_into(&mut producer, Duration::from_millis(20)).expect("receives");
        let filled = consumer.peek();
        let came = filled.len();
        filled.for_each(|slot| *sum += touch(slot.bytes));
        consumer.release(came);
        came as u64
    });
}

/// Calls `batch` for the time given, at the rate given; then how many were sent is asked of `sent`.
fn drive<S>(state: &mut S, mut batch: impl FnMut(&mut S), sent: impl FnOnce(&mut S) -> u64) {
    let time = Duration::from_millis(given("MS"));
    let mut pacer = Pacer::new(given("RATE"), BATCH);
    let began = Instant::now();
    while began.elapsed() < time {
        pacer.wait(BATCH);
        batch(state);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("result {} {seconds}", sent(state));
}

fn send_xdp() {
    let (to, bytes): (SocketAddr, usize) = (given("TO"), given("BYTES"));
    let mut port = open();
    let began = Instant::now();
    while port.counters().frames_sent == 0 {
        assert!(began.elapsed() < Duration::from_secs(10), "no neighbour");
        assert!(port.frame(to, 1).is_some());
        port.flush(clock::now());
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut value = 0_u8;
    let batch = |port: &mut XdpPort| {
        for _ in 0..BATCH {
            let Some(frame) = port.frame(to, bytes) else { break };
            frame.bytes.fill(value);
            value = value.wrapping_add(1);
        }
        port.flush(clock::now());
    };
    drive(&mut port, batch, |port| {
        // What the link has not taken yet.
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(1));
            port.flush(clock::now());
        }
        port.counters().frames_sent
    });
}

fn send_socket() {
    let mut config = SenderConfig::new(given("TO"));
    config.segmentation = false;
    let bytes: usize = given("BYTES");
    let mut sender = UdpSender::open(config).expect("opens");
    let mut buffers = vec![vec![0_u8; bytes]; BATCH];
    let (mut value, mut total) = (0_u8, 0);
    let batch = |sent: &mut u64| {
        for buffer in &mut buffers {
            buffer.fill(value);
            value = value.wrapping_add(1);
        }
        let datagrams: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let taken = sender.send(&datagrams);
        *sent += taken.map_or_else(|error| error.accepted(), |sent| sent.accepted) as u64;
    };
    drive(&mut total, batch, |sent| *sent);
}
