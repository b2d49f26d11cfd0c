//! The parts of the benchmark: what is run, in which order, and its tables.

use super::bare::{self, Stream};
use super::ends::Settings;
use super::path::Path;
use super::trial::{Bench, Outcome, run};

/// How long a trial measures \[s\].
const SECONDS: f64 = 1.0;
/// Headers of a put's frame: BTH, RETH and immediate data, invariant CRC \[byte\].
type Part = fn(&Bench);

pub const ALL: [(&str, Part); 1] = [("put", puts)];

/// Medians over rounds, by column; a column is run once a round.
fn rounds(bench: &Bench, columns: &mut [Column<'_>]) -> Vec<Vec<Outcome>> {
    let mut all = vec![Vec::new(); columns.len()];
    for _ in 0..bench.rounds {
        for (column, outcomes) in columns.iter_mut().zip(&mut all) {
            outcomes.push(column());
        }
    }
    all
}

type Column<'a> = Box<dyn FnMut() -> Outcome + 'a>;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn of(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    median(outcomes.iter().map(value).collect())
}

/// Each round's ratio, then the median.
fn ratio(one: &[Outcome], other: &[Outcome]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one.gigabits() / other.gigabits()).collect())
}

pub fn put_settings(frame: usize, put: usize, reliable: bool) -> Settings {
    let settings = Settings::default().with("frame", frame).with("put", put);
    settings.with("reliable", reliable).with("checked", true).with("seconds", SECONDS)
}

pub fn put(bench: &Bench, path: &Path, settings: &Settings) -> Outcome {
    run(bench, path, ("as-put-sender", "as-put-receiver"), settings)
}

/// Streams of puts beside a bare program with datagrams of the same size, and TCP.
fn puts(bench: &Bench) {
    println!("\nstream of puts, goodput at the receiver [Gb/s], and its ratio to bare");
    println!(
        "{:<10} {:>6} {:>8} {:>7} {:>7} {:>7} {:>14} {:>14}",
        "path", "frame", "put", "bare", "lost", "TCP", "unreliable", "reliable"
    );
    let paths = [Some(Path::loopback()), Path::veth(1500), Path::veth(9000)];
    for path in paths.iter().flatten() {
        let most = path.mtu - 28;
        let frames = if path.mtu > 9000 { vec![1472, 8972, 65_504] } else { vec![most] };
        for frame in frames {
            for put_bytes in [64 << 10, 1 << 20] {
                put_row(bench, path, frame, put_bytes);
            }
        }
    }
}

fn put_row(bench: &Bench, path: &Path, frame: usize, put_bytes: usize) {
    let settings = |reliable| put_settings(frame, put_bytes, reliable);
    let bare = Stream { datagram_bytes: frame, trains: true, nap_us: -1, seconds: SECONDS };
    let tcp = Settings::default().with("seconds", SECONDS);
    let all = rounds(
        bench,
        &mut [
            Box::new(|| bare::stream(bench, path, bare)),
            Box::new(|| run(bench, path, ("as-tcp-sender", "as-tcp-receiver"), &tcp)),
            Box::new(|| put(bench, path, &settings(false))),
            Box::new(|| put(bench, path, &settings(true))),
        ],
    );
    let [bare, tcp, unreliable, reliable] = &all[..] else { return };
    let rate = |outcomes: &[Outcome]| of(outcomes, Outcome::gigabits);
    let beside = |ours: &[Outcome]| format!("{:.1} ({:.2})", rate(ours), ratio(ours, bare));
    println!(
        "{:<10} {frame:>6} {:>8} {:>7.1} {:>6.1}% {:>7.1} {:>14} {:>14}  lost {:.1}%",
        path.name,
        put_bytes,
        rate(bare),
        of(bare, |outcome| outcome.received.lost * 100.0),
        rate(tcp),
        beside(unreliable),
        beside(reliable),
        of(unreliable, |outcome| outcome.received.lost * 100.0),
    );
}
