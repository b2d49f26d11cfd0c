//! The parts of the benchmark: what is run, in which order, and its tables.

#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;
#[path = "threads.rs"]
mod threads;

use super::bare::{self, Stream};
use super::ends::Settings;
use super::path::Path;
use super::trial::{Bench, Outcome, run};
use super::{ping, quic};
use median::median;

type Part = fn(&Bench);

pub const ALL: [(&str, Part); 8] = [
    ("put", puts),
    ("walk", walks),
    ("cost", costs),
    ("lossy", lossy),
    ("small", small),
    ("rate", rates),
    ("single", singles),
    ("threads", threads::table),
];

/// Regions that are larger than the caches of this machine's cores \[byte\].
const WALKED_BYTES: u64 = 64 << 20;
/// Duration of a trial's measurement \[s\].
const SECONDS: f64 = 0.6;
/// Headers of IP and UDP \[byte\].
const BELOW: usize = 28;
/// A put's frame besides its payload: base header, address, invariant CRC \[byte\].
const AROUND: usize = 12 + 16 + 4;
/// QUIC's datagrams at most: quinn sends trains of ten, which must fit 64 KiB \[byte\].
const QUIC_BYTES_MAX: usize = 6000;
/// Steps of the search for the highest rate without loss; each halves what is not known.
const STEPS: u32 = 5;

/// One trial of one contender.
type Column<'a> = Box<dyn Fn() -> Outcome + 'a>;

/// All outcomes, by column; a column is run once a round.
fn rounds(bench: &Bench, columns: &[Column<'_>]) -> Vec<Vec<Outcome>> {
    let mut all = vec![Vec::new(); columns.len()];
    for _ in 0..bench.rounds {
        for (column, outcomes) in columns.iter().zip(&mut all) {
            outcomes.push(column());
        }
    }
    all
}

fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value))
}

/// Each round's ratio, then the median.
fn ratio(one: &[Outcome], other: &[Outcome]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one.gigabits() / other.gigabits()))
}

fn put_settings(frame: usize, put: usize, reliable: bool) -> Settings {
    let settings = Settings::default().with("frame", frame).with("put", put);
    settings.with("reliable", reliable).with("checked", true).with("seconds", SECONDS)
}

fn put(bench: &Bench, path: &Path, settings: &Settings) -> Outcome {
    run(bench, path, ("as-put-sender", "as-put-receiver"), settings)
}

/// TCP with this congestion control; empty: the host's.
fn tcp(bench: &Bench, path: &Path, control: &str) -> Outcome {
    if !control.is_empty() {
        let set = path.namespaces().map(|between| between.control_tcp(control));
        if let Some(Err(reason)) = set {
            println!("TCP {control} left out: {reason}");
            return Outcome::default();
        }
    }
    let settings = Settings::default().with("seconds", SECONDS);
    run(bench, path, ("as-tcp-sender", "as-tcp-receiver"), &settings)
}

fn quinn(bench: &Bench, path: &Path, datagram: usize, control: &str) -> Outcome {
    quic::stream(bench, path, (datagram.min(QUIC_BYTES_MAX), control), SECONDS).unwrap_or_default()
}

fn trains(datagram_bytes: usize) -> Stream {
    let (seconds, pace, walk_bytes) = (SECONDS, 0, 0);
    Stream { datagram_bytes, trains: true, nap_us: -1, seconds, pace, walk_bytes }
}

fn print_load() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average {}", load.split(' ').next().unwrap_or("unknown"));
}

// ---- streams ----

/// Streams of puts beside a bare program with datagrams of the same size, TCP and QUIC.
fn puts(bench: &Bench) {
    println!("\nput: stream of puts, goodput at the receiver [Gb/s] and its ratio to bare; lost");
    println!(
        "{:<10} {:>6} {:>8} {:>6} {:>6} {:>6} {:>6} {:>12} {:>6} {:>12}",
        "path", "frame", "put", "bare", "lost", "TCP", "QUIC", "unreliable", "lost", "reliable"
    );
    let paths = [Some(Path::loopback()), Path::veth(1500), Path::veth(9000)];
    for path in paths.iter().flatten() {
        let most = path.mtu - BELOW;
        let frames = if path.mtu > 9000 { vec![1472, 8972, 65_504] } else { vec![most] };
        for frame in frames {
            for put_bytes in [64 << 10, 1 << 20] {
                put_row(bench, path, frame, put_bytes);
            }
        }
    }
    print_load();
}

fn put_row(bench: &Bench, path: &Path, frame: usize, put_bytes: usize) {
    let settings = |reliable| put_settings(frame, put_bytes, reliable);
    let all = rounds(
        bench,
        &[
            Box::new(|| bare::stream(bench, path, trains(frame))),
            Box::new(|| tcp(bench, path, "")),
            Box::new(|| quinn(bench, path, frame, "cubic")),
            Box::new(|| put(bench, path, &settings(false))),
            Box::new(|| put(bench, path, &settings(true))),
        ],
    );
    let [bare, tcp, quic, unreliable, reliable] = &all[..] else { return };
    let rate = |outcomes: &[Outcome]| of(outcomes, Outcome::gigabits);
    let beside = |ours: &[Outcome]| format!("{:.1} ({:.2})", rate(ours), ratio(ours, bare));
    let lost = |outcomes: &[Outcome]| of(outcomes, |one| one.received.lost * 100.0);
    println!(
        "{:<10} {frame:>6} {put_bytes:>8} {:>6.1} {:>5.1}% {:>6.1} {:>6.1} {:>12} {:>5.1}% {:>12}",
        path.name,
        rate(bare),
        lost(bare),
        rate(tcp),
        rate(quic),
        beside(unreliable),
        lost(unreliable),
        beside(reliable),
    );
}

/// Large puts through regions that no cache holds, beside a bare program that reads and writes as
/// much memory.
fn walks(bench: &Bench) {
    println!("\nwalk: reliable puts of 1 MiB in regions of 64 MiB [Gb/s]; loopback");
    println!(
        "{:>6} {:>6} {:>14} {:>10} {:>15} {:>18}",
        "frame", "bare", "bare, walking", "reliable", "ratio to bare", "to bare, walking"
    );
    let path = &Path::loopback();
    for frame in [1472, 8972, 65_504] {
        let hot = trains(frame);
        let walking = Stream { walk_bytes: WALKED_BYTES, ..hot };
        let settings = put_settings(frame, 1 << 20, true).with("region", WALKED_BYTES);
        let all = rounds(
            bench,
            &[
                Box::new(|| bare::stream(bench, path, hot)),
                Box::new(|| bare::stream(bench, path, walking)),
                Box::new(|| put(bench, path, &settings)),
            ],
        );
        let [hot, walking, reliable] = &all[..] else { return };
        let rate = |outcomes: &[Outcome]| of(outcomes, Outcome::gigabits);
        println!(
            "{frame:>6} {:>6.1} {:>14.1} {:>10.1} {:>15.2} {:>18.2}",
            rate(hot),
            rate(walking),
            rate(reliable),
            ratio(reliable, hot),
            ratio(reliable, walking)
        );
    }
    print_load();
}

/// Measures each side's cost of a GB, with and without the invariant CRC.
fn costs(bench: &Bench) {
    println!("\ncost: processor time [s/GB], user + system; puts of 64 KiB over loopback");
    println!("a side that polls uses its core all the time, and pays for waiting too");
    println!("{:>6}  {:<22} {:>7}  {:>13}  {:>13}", "frame", "", "Gb/s", "sender", "receiver");
    let path = Path::loopback();
    for frame in [1472, 8972] {
        let of =
            |reliable, checked| put_settings(frame, 64 << 10, reliable).with("checked", checked);
        let (ours, path) = (|reliable, checked| put(bench, &path, &of(reliable, checked)), &path);
        let all = rounds(
            bench,
            &[
                Box::new(|| bare::stream(bench, path, trains(frame))),
                Box::new(|| tcp(bench, path, "")),
                Box::new(|| ours(false, true)),
                Box::new(|| ours(false, false)),
                Box::new(|| ours(true, true)),
                Box::new(|| ours(true, false)),
            ],
        );
        let names =
            ["bare", "TCP", "unreliable", "unreliable, no ICRC", "reliable", "reliable, no ICRC"];
        for (name, outcomes) in names.iter().zip(&all) {
            cost_row(frame, name, outcomes);
        }
        let user = |column: usize, per: fn(&Outcome) -> f64| self::of(&all[column], per);
        let sender = user(2, |one| one.sent.cpu.user / one.sent.amount * 1e9)
            - user(3, |one| one.sent.cpu.user / one.sent.amount * 1e9);
        println!(
            "{frame:>6}  the ICRC costs the sender {sender:.3} ns/byte (unreliable, user time)"
        );
    }
    print_load();
}

fn cost_row(frame: usize, name: &str, outcomes: &[Outcome]) {
    let per = |part: fn(&Outcome) -> (f64, f64)| {
        of(outcomes, |one| {
            let (seconds, bytes) = part(one);
            seconds / (bytes * 1e-9).max(1e-9)
        })
    };
    let sender = (
        per(|one| (one.sent.cpu.user, one.sent.amount)),
        per(|one| (one.sent.cpu.system, one.sent.amount)),
    );
    let receiver = (
        per(|one| (one.received.cpu.user, one.received.amount)),
        per(|one| (one.received.cpu.system, one.received.amount)),
    );
    println!(
        "{frame:>6}  {name:<22} {:>7.1}  {:>5.2} + {:>5.2}  {:>5.2} + {:>5.2}",
        of(outcomes, Outcome::gigabits),
        sender.0,
        sender.1,
        receiver.0,
        receiver.1
    );
}

/// Goodput where the kernel drops a share of the datagrams on their way to the receiver.
fn lossy(bench: &Bench) {
    println!("\nlossy: goodput [Gb/s], veth MTU 1500, no trains on the wire, loss to the receiver");
    let Some(path) = Path::veth(1500) else { return };
    let Some(between) = path.namespaces() else { return };
    if let Err(reason) = between.single_datagrams().and_then(|()| between.lose(1, false)) {
        println!("lossy left out: {reason}");
        return;
    }
    let frame = path.mtu - BELOW;
    println!(
        "{:<6} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "loss", "reliable", "TCP cubic", "TCP BBR", "QUIC cubic", "QUIC BBR"
    );
    for (name, per_100_000) in [("none", 0), ("0.1 %", 100), ("1 %", 1_000), ("5 %", 5_000)] {
        between.lose(per_100_000, false).expect("nft");
        let ours = put_settings(frame, 64 << 10, true);
        let all = rounds(
            bench,
            &[
                Box::new(|| put(bench, &path, &ours)),
                Box::new(|| tcp(bench, &path, "cubic")),
                Box::new(|| tcp(bench, &path, "bbr")),
                Box::new(|| quinn(bench, &path, frame, "cubic")),
                Box::new(|| quinn(bench, &path, frame, "bbr")),
            ],
        );
        print!("{name:<6}");
        for outcomes in &all {
            print!(" {:>10.2}", of(outcomes, Outcome::gigabits));
        }
        println!();
    }
    print_load();
}

// ---- small puts ----

/// Half round trips of small puts with a notification, beside datagrams of the same size.
fn small(bench: &Bench) {
    println!("\nsmall: half round trip [us], p50 and p99, both ends polling; ratio of p50 to bare");
    println!(
        "{:<10} {:>4} {:>14} {:>21} {:>21}",
        "path", "put", "bare datagram", "unreliable", "reliable"
    );
    for path in [Some(Path::loopback()), Path::veth(1500)].iter().flatten() {
        for bytes in [8, 64] {
            let ours = |reliable| put_settings(path.mtu - BELOW, bytes, reliable);
            let trip = |reliable| run(bench, path, ("as-ping", "as-echo"), &ours(reliable)).sent;
            // The notification's value is 4 byte more.
            let bare = || bare::ping(bench, path, bytes + AROUND + 4, ping::TRIPS);
            let mut all = [const { Vec::new() }; 3];
            for _ in 0..bench.rounds {
                all[0].push(bare());
                for (place, reliable) in [(1, false), (2, true)] {
                    let trip = trip(reliable);
                    all[place].push((trip.amount / 2.0, trip.seconds / 2.0));
                }
            }
            let half = |place: usize| {
                let p50 = median(all[place].iter().map(|trip| trip.0 / 1e3));
                (p50, median(all[place].iter().map(|trip| trip.1 / 1e3)))
            };
            let ratio = |place: usize| {
                let both = all[place].iter().zip(&all[0]);
                median(both.map(|(ours, bare)| ours.0 / bare.0))
            };
            let text = |place: usize| {
                let (p50, p99) = half(place);
                format!("{p50:.1} {p99:.1} ({:.2})", ratio(place))
            };
            let bare = half(0);
            let bare = format!("{:.1} {:.1}", bare.0, bare.1);
            println!("{:<10} {bytes:>4} {bare:>14} {:>21} {:>21}", path.name, text(1), text(2));
        }
    }
    print_load();
}

/// Measures small puts per second, beside trains of datagrams of the same size.
fn rates(bench: &Bench) {
    println!("\nrate: small puts placed [M/s] and the ratio to bare datagrams of that size; lost");
    println!(
        "{:<10} {:>4} {:>6} {:>14} {:>6} {:>14}",
        "path", "put", "bare", "unreliable", "lost", "reliable"
    );
    for path in [Some(Path::loopback()), Path::veth(1500)].iter().flatten() {
        for bytes in [8, 64] {
            let ours = |reliable| put_settings(path.mtu - BELOW, bytes, reliable);
            let frame = bytes + AROUND;
            let all = rounds(
                bench,
                &[
                    Box::new(|| bare::stream(bench, path, trains(frame))),
                    Box::new(|| put(bench, path, &ours(false))),
                    Box::new(|| put(bench, path, &ours(true))),
                ],
            );
            let rate = |place: usize, each: usize| {
                let of_one = |one: &Outcome| one.received.amount / one.received.seconds.max(1e-9);
                of(&all[place], of_one) / each as f64 / 1e6
            };
            let bare = rate(0, frame);
            let text =
                |place| format!("{:.2} ({:.2})", rate(place, bytes), rate(place, bytes) / bare);
            let lost = of(&all[1], |one| one.received.lost * 100.0);
            println!(
                "{:<10} {bytes:>4} {bare:>6.2} {:>14} {lost:>5.1}% {:>14}",
                path.name,
                text(1),
                text(2)
            );
        }
    }
    print_load();
}

// ---- single datagrams ----

/// The highest rate at which nothing is lost, no trains, as an FPGA would send.
fn singles(bench: &Bench) {
    println!("\nsingle: highest loss-free rate, no trains [1000 datagrams/s] and [Gb/s]; ratio");
    println!(
        "{:<10} {:>6} {:>16} {:>22} {:>22}",
        "path", "frame", "bare, naps", "unreliable, naps", "unreliable, polls"
    );
    for path in [Some(Path::loopback()), Path::veth(1500), Path::veth(9000)].iter().flatten() {
        let all = [64, 1472, 8972].into_iter().filter(|&frame| frame + BELOW <= path.mtu);
        for frame in all.filter(|&frame| path.mtu != 9000 || frame == 8972) {
            let bare = |pace: u64| {
                let seconds = SECONDS;
                let (datagram_bytes, walk_bytes) = (frame, 0);
                let nap_us = 50;
                let of =
                    Stream { datagram_bytes, trains: false, nap_us, seconds, pace, walk_bytes };
                lost_and_rate(&bare::stream(bench, path, of), frame)
            };
            let ours = |nap: u32, pace: u64| {
                let settings = put_settings(frame, frame - AROUND, false).with("single", true);
                let settings = settings.with("nap", nap).with("pace", pace * frame as u64);
                lost_and_rate(&put(bench, path, &settings), frame - AROUND)
            };
            let mut found = [const { Vec::new() }; 3];
            for _ in 0..bench.rounds {
                found[0].push(loss_free(bare));
                found[1].push(loss_free(|pace| ours(50, pace)));
                found[2].push(loss_free(|pace| ours(0, pace)));
            }
            let bare = median(found[0].clone());
            let gigabits = |rate: f64| rate * frame as f64 * 8e-9;
            let text = |place: usize| {
                let ratios = found[place].iter().zip(&found[0]).map(|(ours, bare)| ours / bare);
                let rate = median(found[place].clone());
                format!("{:.0} {:.2} ({:.2})", rate / 1e3, gigabits(rate), median(ratios))
            };
            let bare = format!("{:.0} {:.2}", bare / 1e3, gigabits(bare));
            println!("{:<10} {frame:>6} {bare:>16} {:>22} {:>22}", path.name, text(1), text(2));
        }
    }
    print_load();
}

/// Share lost, and datagrams a second.
fn lost_and_rate(outcome: &Outcome, bytes: usize) -> (f64, f64) {
    let received = outcome.received;
    (received.lost, received.amount / bytes as f64 / received.seconds.max(1e-9))
}

/// By bisection below the rate that is reached when nothing holds the sender back. The rate is
/// what was received, not what was asked for.
fn loss_free(trial: impl Fn(u64) -> (f64, f64)) -> f64 {
    let (lost, free) = trial(0);
    if lost == 0.0 {
        return free;
    }
    let (mut low, mut high, mut best) = (0.0, free / (1.0 - lost).max(0.01), 0.0);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        let (lost, rate) = trial(middle as u64);
        if lost == 0.0 {
            (low, best) = (middle, rate.max(best));
        } else {
            high = middle;
        }
    }
    best
}
