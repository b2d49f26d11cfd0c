//! The highest rate at which no datagram is lost: `fluxline run` with the whole pipeline behind it,
//! beside a bare batched receiver, iperf3 and spead2, in the same run.
//!
//! One sender on core 0, everything that receives on core 1. For each payload and each kind of
//! sender (single datagrams, as an FPGA sends; trains cut by the kernel, as a PC sends) the rate is
//! bisected: RFC 2544's throughput. Rounds are interleaved, medians are printed, and the ratio to
//! the bare receiver is the result; absolute numbers depend on the hour.
//!
//! `cargo bench -p fluxline-cli --bench acquire` (about 6 minutes; `ROUNDS=1` about 2).
//! The bare receiver is `crates/fluxline/examples/bare_receiver.rs`; build it first: `cargo build
//! --release -p fluxline --example bare_receiver`. iperf3 is used where it is installed; spead2
//! where `SPEAD2_BENCH` names its `spead2_bench.py` (`pip install spead2` in any venv).

#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;

mod peers;

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::pin;
use fluxline::udp::{Pacer, SenderConfig, UdpSender};
use median::median;

/// Core of the sender, and of all that receives.
const SENDER_CORE: usize = 0;
const RECEIVER_CORE: &str = "1";
/// The time that a trial sends.
const TRIAL: Duration = Duration::from_millis(1500);
/// Steps of a bisection.
const STEPS: u32 = 6;
/// Bytes of the `counter` format before its payload; formats/counter.toml.
const COUNTER_HEADER_BYTES: usize = 32;

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!(
            "acquire: a long benchmark; run it by `cargo bench -p fluxline-cli --bench acquire`"
        );
        return;
    }
    let rounds: usize =
        std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    print_machine();
    println!("highest loss-free rate [Gb/s], and its ratio to the bare receiver's");
    println!(
        "{:>7}  {:<7}  {:>6}  {:>14}  {:>14}  {:>7}  {:>7}  {:>11}",
        "payload", "sender", "bare", "counted", "recorded", "iperf3", "spead2", "plain write"
    );
    for payload in [1472_usize, 8972] {
        for train in [1_usize, (65_507 / payload).min(44)] {
            let mut bare = Vec::new();
            let mut counted = Vec::new();
            let mut recorded = Vec::new();
            let (mut iperf3, mut spead2, mut write) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                bare.push(bisect(payload, train, &Bare));
                counted.push(bisect(payload, train, &Fluxline { record: false }));
                recorded.push(bisect(payload, train, &Fluxline { record: true }));
                write.push(plain_write());
                if train == 1 {
                    iperf3.extend(peers::iperf3(payload));
                    spead2.extend(peers::spead2(payload));
                }
            }
            let gigabits = |rates: Vec<f64>| median(rates) * payload as f64 * 8.0 / 1e9;
            let (bare, counted, recorded) = (gigabits(bare), gigabits(counted), gigabits(recorded));
            println!(
                "{payload:>7}  {:<7}  {bare:>6.1}  {counted:>7.1} ({:.2})  {recorded:>7.1} ({:.2})  \
                 {:>7}  {:>7}  {:>11.1}",
                if train == 1 { "single" } else { "trains" },
                counted / bare,
                recorded / bare,
                shown(iperf3),
                shown(spead2),
                median(write) * 8e-9,
            );
        }
    }
}

/// A peer's median \[bit/s\] as Gb/s; a dash where it was not measured.
fn shown(rates: Vec<f64>) -> String {
    if rates.is_empty() { "-".into() } else { format!("{:.1}", median(rates) / 1e9) }
}

/// The rate of a plain buffered write on the receiving core \[byte/s\]: the recorder's physical
/// limit where nothing bypasses the page cache.
fn plain_write() -> f64 {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("plain");
    std::thread::spawn(move || {
        pin::pin_current_thread(1).expect("core 1");
        let mut file = std::fs::File::create(path).expect("a file");
        let block = vec![0x5A_u8; 4 << 20];
        let began = Instant::now();
        let mut bytes = 0;
        while began.elapsed() < TRIAL {
            file.write_all(&block).expect("room on the disk");
            bytes += block.len();
        }
        bytes as f64 / began.elapsed().as_secs_f64()
    })
    .join()
    .expect("the writer")
}

fn print_machine() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let kernel = read("/proc/sys/kernel/osrelease");
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string());
    println!(
        "machine{model}, kernel {}, commit {}; sender on core {SENDER_CORE}, receiver on core \
         {RECEIVER_CORE}, loopback",
        kernel.trim(),
        commit.unwrap_or_default()
    );
}

/// Something that receives: started anew for each trial.
trait Receiver {
    /// Starts it on this port, ready to receive when this returns.
    fn start(&self, port: u16, payload: usize, folder: &Path) -> Child;
    /// Returns the number of received datagrams.
    fn received(&self, output: &str) -> u64;
}

struct Bare;

impl Receiver for Bare {
    fn start(&self, port: u16, _payload: usize, _folder: &Path) -> Child {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_fluxline"))
            .with_file_name("examples")
            .join("bare_receiver");
        assert!(program.exists(), "build it first: cargo build --release -p fluxline --examples");
        let mut child = Command::new("taskset")
            .args(["-c", RECEIVER_CORE])
            .arg(program)
            .args([format!("127.0.0.1:{port}"), format!("{}", TRIAL.as_secs_f64() + 0.3)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset and the bare receiver");
        wait_for_port(port, &mut child);
        child
    }

    fn received(&self, output: &str) -> u64 {
        let value: serde_json::Value =
            serde_json::from_str(output.trim()).expect("one JSON document");
        value["datagrams"].as_u64().expect("a count")
    }
}

struct Fluxline {
    record: bool,
}

impl Receiver for Fluxline {
    fn start(&self, port: u16, payload: usize, folder: &Path) -> Child {
        let text = format!(
            "[[source]]\nname = 'bench'\nformat = 'counter'\nring-slots = 2048\n\
             [source.udp]\nlisten = ['127.0.0.1:{port}']\ndatagram-bytes-max = {payload}\n\
             [events]\nbuild = 'packet'\n[record]\nenabled = {}\n",
            self.record
        );
        let experiment = folder.join("bench.toml");
        std::fs::write(&experiment, text).expect("the experiment");
        let mut child = Command::new("taskset")
            .args(["-c", RECEIVER_CORE, env!("CARGO_BIN_EXE_fluxline"), "--json", "run"])
            .arg(experiment)
            .arg("--folder")
            .arg(folder.join("run"))
            .args(["--seconds", &format!("{}", TRIAL.as_secs_f64() + 0.6)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("taskset and fluxline");
        wait_for_port(port, &mut child);
        child
    }

    fn received(&self, output: &str) -> u64 {
        let value: serde_json::Value = serde_json::from_str(output).expect("one JSON document");
        let totals = &value["totals"];
        let count = if self.record { &totals["recorded"] } else { &totals["to_builder"] };
        count.as_u64().expect("a count")
    }
}

/// Waits until somebody listens on the port: then binding it fails.
fn wait_for_port(port: u16, child: &mut Child) {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if UdpSocket::bind(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(50));
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("nobody listens on port {port}");
}

/// The highest rate \[datagram/s\] without a loss: what the sender attained, not what was asked.
fn bisect(payload: usize, train: usize, receiver: &dyn Receiver) -> f64 {
    let (sent, received, rate) = trial(payload, train, 0.0, receiver);
    if sent == received {
        return rate;
    }
    let (mut good, mut low, mut high) = (0.0, 0.0, rate);
    for _ in 0..STEPS {
        let asked = if low == 0.0 { high / 2.0 } else { (low * high).sqrt() };
        let (sent, received, rate) = trial(payload, train, asked, receiver);
        if sent == received {
            good = rate;
            low = asked;
        } else {
            high = asked;
        }
    }
    good
}

/// One trial at `asked` datagrams/s (0: unpaced): sent, received, the rate attained.
fn trial(payload: usize, train: usize, asked: f64, receiver: &dyn Receiver) -> (u64, u64, f64) {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let port = free_port();
    let mut child = receiver.start(port, payload, folder.path());
    let (sent, rate) = send(port, payload, train, asked);
    let mut output = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut output).expect("UTF-8 output");
    child.wait().expect("the receiver ends");
    (sent, receiver.received(&output), rate)
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port()
}

/// Packets of formats/counter.toml, numbered from 0; only what changes is written per packet.
fn send(port: u16, payload: usize, train: usize, asked: f64) -> (u64, f64) {
    std::thread::spawn(move || {
        pin::pin_current_thread(SENDER_CORE).expect("core 0");
        let mut config = SenderConfig::new(SocketAddr::from(([127, 0, 0, 1], port)));
        config.segmentation = train > 1;
        let mut sender = UdpSender::open(config).expect("a socket");
        let batch = if train > 1 { train * 4 } else { 64 };
        let mut packets: Vec<Vec<u8>> = vec![counter_packet(payload); batch];
        let mut pacer = (asked > 0.0).then(|| Pacer::new(asked, batch));
        let mut sequence = 0_u64;
        let began = Instant::now();
        while began.elapsed() < TRIAL {
            for packet in &mut packets {
                patch(packet, sequence);
                sequence += 1;
            }
            let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            if let Some(pacer) = &mut pacer {
                pacer.wait(batch);
            }
            let accepted = sender.send(&slices).expect("loopback takes all").accepted;
            assert_eq!(accepted, batch, "loopback takes all");
        }
        (sequence, sequence as f64 / began.elapsed().as_secs_f64())
    })
    .join()
    .expect("the sender")
}

fn counter_packet(payload: usize) -> Vec<u8> {
    assert!(payload > COUNTER_HEADER_BYTES);
    let mut packet = vec![0_u8; payload];
    packet[..5].copy_from_slice(b"FLXC\x01");
    packet[14] = 1; // one packet is the whole fragment
    packet
}

fn patch(packet: &mut [u8], sequence: u64) {
    packet[8..12].copy_from_slice(&(sequence as u32).to_le_bytes());
    packet[16..24].copy_from_slice(&sequence.to_le_bytes());
}
