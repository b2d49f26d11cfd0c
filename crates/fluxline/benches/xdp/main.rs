//! The frame rate across a veth pair: AF_XDP ports beside sockets (sendmmsg, recvmmsg) in the same
//! run. Sender on core 0 and receiver on core 1, each in a network namespace of its own; unpaced,
//! and the highest paced rate at which none is lost. Single datagrams: no segmentation, no GRO.
//! The receiver reads one byte per cache line; the ports check every checksum as well.
//!
//! `cargo bench -p fluxline --bench xdp`, as root. ROUNDS=n: medians of n rounds, interleaved.

// The tests use more of it.
#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;

#[allow(dead_code)]
#[path = "../../tests/xdp/namespaces.rs"]
mod namespaces;
mod trial;

use std::process::Command;

use median::median;
use namespaces::{Namespaces, Side};
use trial::Trial;

/// Payload and MTU \[byte\].
const SIZES: [(usize, usize); 3] = [(64, 1_500), (1_472, 1_500), (8_972, 9_000)];
/// The senders and receivers of each pair.
const PAIRS: [(&str, &str); 4] =
    [("socket", "socket"), ("xdp", "xdp"), ("xdp", "socket"), ("socket", "xdp")];
/// Steps of the bisection; the range shrinks to a thirtieth.
const STEPS: usize = 5;

fn main() {
    if trial::play() {
        return;
    }
    // `cargo test --benches` only asks whether it still runs.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let rounds: usize = std::env::var("ROUNDS")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(if quick { 1 } else { 3 });
    let Some(pair) = Namespaces::new(1500) else { return };
    println!("{rounds} rounds, medians; load {}", load());
    println!(
        "{:>6} {:>7} {:>8} {:>12} {:>12} {:>8} {:>14} {:>8} {:>11}",
        "byte",
        "sender",
        "receiver",
        "sent/s",
        "received/s",
        "Gb/s",
        "loss-free/s",
        "Gb/s",
        "of sockets"
    );
    for (bytes, mtu) in SIZES {
        for side in [Side::A, Side::B] {
            pair.ip(side, &format!("link set veth mtu {mtu}"));
        }
        let mut results = vec![Vec::new(); PAIRS.len()];
        for _ in 0..rounds {
            for (results, (sender, receiver)) in results.iter_mut().zip(PAIRS) {
                let trial = Trial { sender, receiver, bytes, ms: if quick { 50 } else { 1_000 } };
                results.push(measure(&pair, &trial, quick));
            }
        }
        for (own, (sender, receiver)) in results.iter().zip(PAIRS) {
            report(bytes, sender, receiver, own, &results[0]);
        }
    }
}

/// Sent, received unpaced, and loss-free \[frame/s\].
type Rates = [f64; 3];

fn measure(pair: &Namespaces, trial: &Trial, quick: bool) -> Rates {
    let unpaced = trial.run(pair, 0.0);
    let (mut low, mut high) = (0.0, unpaced.sent_per_s);
    let steps = if quick { 1 } else { STEPS };
    if unpaced.lost == 0 {
        low = high;
    }
    for _ in 0..steps {
        if low >= high * 0.97 {
            break;
        }
        let rate = (low + high) / 2.0;
        let paced = trial.run(pair, rate);
        if paced.lost == 0 {
            low = paced.sent_per_s;
        } else {
            high = rate;
        }
    }
    [unpaced.sent_per_s, unpaced.received_per_s, low]
}

/// One row; the ratio is of frames received unpaced, round by round.
fn report(bytes: usize, sender: &str, receiver: &str, own: &[Rates], sockets: &[Rates]) {
    let [sent, received, free] =
        [0, 1, 2].map(|which| median(own.iter().map(|rates| rates[which])));
    let ratio = median(own.iter().zip(sockets).map(|(own, sockets)| own[1] / sockets[1]));
    let gigabits = |rate: f64| rate * bytes as f64 * 8.0 / 1e9;
    println!(
        "{bytes:>6} {sender:>7} {receiver:>8} {sent:>12.0} {received:>12.0} {:>8.2} {free:>14.0} \
         {:>8.2} {ratio:>11.2}",
        gigabits(received),
        gigabits(free)
    );
}

fn load() -> String {
    let output = Command::new("cat").arg("/proc/loadavg").output();
    output.map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}
