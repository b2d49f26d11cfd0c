//! The network model's speed, the cost of its statistics, and its saturation, beside
//! BookSim2 on the same work.
//!
//! The work: an 8 x 8 torus both ways, 64-byte packets, links of 16 bytes/ns, uniform targets,
//! dimension order; the load as part of a link's rate at each node. Conversions: BookSim2's cycle
//! is the time of a flit, 16 bytes in 1 ns; its packets are 4 flits, its buffers 2 channels of 8
//! flits: here 2 channels of 128 bytes. Routers delay a head by 5 ticks and wires by 1, so that the
//! latency without load is about BookSim2's; all the rest is not fitted. Seconds are CPU seconds
//! of the thread that runs the model.
//! Run: `cargo bench -p fluxline-sim --bench torus`; with QUICK=1 a tenth of the time is simulated;
//! with SIDE=64 `sizes` measures one size.
//! Parts: `-- booksim credits rings statistics sizes threads`.
#![allow(missing_docs, reason = "a benchmark")]
#![allow(clippy::disallowed_methods, reason = "a benchmark is where the clock is read")]

use std::num::NonZeroUsize;
use std::time::Instant;

use fluxline_sim::load::Settings;
use fluxline_sim::load::sweep::{self, Criterion, Detail, Limits, Outcome, measure, saturation};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size};
use fluxline_sim::net::router::{CreditUnit, NetworkConfig, Ways, loaded};
use fluxline_sim::{Agenda, Duration};

/// BookSim2: load, mean latency \[cycles\], million packet-link-hops a CPU second. Source:
/// measured on a machine of the same kind.
const BOOKSIM: [(f64, f64, f64); 3] =
    [(0.10, 35.6, 0.125), (0.30, 45.0, 0.141), (0.34, 75.9, 0.134)];
/// The load at which BookSim2 saturates.
const BOOKSIM_SATURATION: f64 = 0.347;

/// BookSim2's mean latency on a ring of 8 whose links are half busy \[cycles\], by bytes of buffers
/// and number of channels. Source: as above.
const BOOKSIM_RING: [(u32, u8, f64); 3] = [(128, 2, 750.0), (512, 2, 47.0), (128, 4, 33.0)];

struct Run {
    outcome: Outcome,
    cpu_s: f64,
    network_bytes: usize,
}

impl Run {
    fn hops_per_s(&self) -> f64 {
        self.outcome.hops as f64 / self.cpu_s
    }
}

/// CPU time of this thread, from the scheduler's books, which count nanoseconds.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

/// CPU time of all threads of this process, also of those that ended; counted in 10 ms.
fn process_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets come the state, then eleven numbers, then user and system time.
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn limits(us: u64) -> Limits {
    let us = if std::env::var_os("QUICK").is_some() { us.div_ceil(10) } else { us };
    let measured = Duration::from_us(us);
    Limits { warm_up_first: Duration::from_us(1), warm_up_max: Duration::from_us(us / 4), measured }
}

fn run(config: &NetworkConfig, pattern: Pattern, load: f64, detail: Detail, us: u64) -> Run {
    let nodes = config.check().expect("a network").routers();
    let plan = Plan {
        nodes,
        pattern,
        arrivals: Arrivals::Poisson { bytes_per_s: load * config.link_bytes_per_s() },
        size: Size::Fixed(64),
        seed: 1,
    };
    let mut agenda = Agenda::default();
    let start = cpu_s();
    let settings = Settings { detail, ..Settings::default() };
    let mut loaded = loaded(config.clone(), plan, &settings, &mut agenda).expect("a network");
    let outcome = measure(&mut loaded, &mut agenda, &limits(us)).expect("no deadlock");
    let cpu_s = cpu_s() - start;
    Run { outcome, cpu_s, network_bytes: loaded.network().memory_bytes() }
}

fn torus_beside_booksim() {
    let config = NetworkConfig::torus(&[8, 8]);
    println!(
        "8 x 8 torus       load  M hops/s  BookSim2  entries/hop  latency cycles  BookSim2  p99"
    );
    for (load, latency, rate) in BOOKSIM {
        let run = run(&config, Pattern::Uniform, load, Detail::Full, 400);
        let outcome = &run.outcome;
        println!(
            "                  {load:.2}  {:8.2}  {rate:8.3}  {:11.2}  {:8.1} +- {:.1}  {latency:8.1}  {:.0}",
            run.hops_per_s() / 1e6,
            outcome.entries as f64 / outcome.hops as f64,
            outcome.latency_ns.mean,
            outcome.latency_ns.half_width,
            outcome.p99.as_ps() as f64 / 1e3,
        );
    }
    // What comes back with the tail, what comes back flit by flit, and more room.
    let (packet, flit) = (CreditUnit::Packet, CreditUnit::Flit);
    for (buffer_bytes, credit_unit, credit_ticks) in [
        (128, packet, 1),
        (192, packet, 1),
        (256, packet, 1),
        (512, packet, 1),
        (128, flit, 1),
        (128, flit, 2),
        (128, flit, 3),
        (128, flit, 4),
    ] {
        let config = NetworkConfig { buffer_bytes, credit_unit, credit_ticks, ..config.clone() };
        let criterion = Criterion::usual(5.0, 35.6);
        let found = saturation(0.1..=1.0, 0.005, criterion, |load| {
            Ok::<Outcome, ()>(run(&config, Pattern::Uniform, load, Detail::Full, 100).outcome)
        })
        .expect("measured");
        let (low, high) = (found.followed, found.saturated);
        println!(
            "channels of {buffer_bytes} bytes, credits by {credit_unit:?} in {credit_ticks} ticks: \
             saturate between {low:.3} and {high:.3}"
        );
    }
    println!("BookSim2, 8 flits of 16 bytes: {BOOKSIM_SATURATION}");
}

/// Latencies when credits return flit by flit, by the delay of credits in ticks.
fn credits() {
    for (credit_unit, credit_ticks) in [
        (CreditUnit::Packet, 1),
        (CreditUnit::Flit, 1),
        (CreditUnit::Flit, 3),
        (CreditUnit::Flit, 4),
    ] {
        let torus = NetworkConfig { credit_unit, credit_ticks, ..NetworkConfig::torus(&[8, 8]) };
        for (load, latency, _) in BOOKSIM {
            let found = run(&torus, Pattern::Uniform, load, Detail::Full, 400).outcome.latency_ns;
            println!(
                "{credit_unit:?} in {credit_ticks}, torus at {load:.2}: {:.1} +- {:.1} ns, \
                 BookSim2 {latency}",
                found.mean, found.half_width
            );
        }
        for (buffer_bytes, channels, latency) in BOOKSIM_RING {
            let mut ring = NetworkConfig { dimensions: vec![torus.dimensions[0]], ..torus.clone() };
            ring.dimensions[0].ways = Ways::Up;
            (ring.buffer_bytes, ring.channels) = (buffer_bytes, channels);
            let pattern = Pattern::Neighbour { distance: 3 };
            let found = run(&ring, pattern, 0.5 / 3.0, Detail::Full, 400).outcome.latency_ns;
            println!(
                "{credit_unit:?} in {credit_ticks}, ring of 8, {channels} channels of \
                 {buffer_bytes} bytes: {:.1} +- {:.1} ns, BookSim2 {latency}",
                found.mean, found.half_width
            );
        }
    }
}

fn rings() {
    for routers in [8, 64] {
        let mut config = NetworkConfig::torus(&[routers]);
        config.dimensions[0].ways = Ways::Up;
        config.buffer_bytes = 512;
        let distance = routers / 2 - 1;
        let load = 0.5 / f64::from(distance);
        let run = run(&config, Pattern::Neighbour { distance }, load, Detail::Full, 2000);
        println!(
            "ring {routers}: {:.2} M hops/s at links {:.2} busy",
            run.hops_per_s() / 1e6,
            run.outcome.link_utilisation().0
        );
    }
}

/// Full statistics beside bare counts, of runs of equal length, in turns.
fn cost_of_statistics() {
    let config = NetworkConfig::torus(&[8, 8]);
    let rate = |detail| run(&config, Pattern::Uniform, 0.3, detail, 100).hops_per_s();
    let mut shares: Vec<f64> =
        (0..9).map(|_| rate(Detail::Counts) / rate(Detail::Full) - 1.0).collect();
    shares.sort_by(f64::total_cmp);
    println!("statistics cost {:.1} % of a run (median of 9)", shares[4] * 100.0);
}

fn sizes() {
    let only = std::env::var("SIDE").ok().and_then(|side| side.parse().ok());
    for side in [4, 8, 16, 32, 64] {
        if only.is_some_and(|only: u32| only != side) {
            continue;
        }
        let config = NetworkConfig::torus(&[side, side]);
        // The mean way grows with the side: the same load of the links, and as many hops in all.
        let load = 0.2 * 8.0 / f64::from(side);
        let nodes = f64::from(side * side);
        let us = (400.0 * 64.0 / nodes).max(3.0) as u64;
        let run = run(&config, Pattern::Uniform, load, Detail::Full, us);
        println!(
            "{side} x {side}: {:.2} M hops/s, {:.0} bytes a node, {} hops",
            run.hops_per_s() / 1e6,
            run.network_bytes as f64 / nodes,
            run.outcome.hops
        );
    }
}

fn threads() {
    let config = NetworkConfig::torus(&[8, 8]);
    println!("a sweep of 12 points; wall clock means something on an idle machine only, CPU time");
    println!("stays the same where threads do not disturb each other:");
    let points: Vec<f64> = (1..=12).map(|step| 0.02 * f64::from(step)).collect();
    let mut first = None;
    for threads in [1, 2, 4] {
        let (start, cpu_start) = (Instant::now(), process_cpu_s());
        let prints = sweep::run_all(
            &points,
            NonZeroUsize::new(threads),
            |&load| run(&config, Pattern::Uniform, load, Detail::Full, 100).outcome.fingerprint,
            |_| (),
        );
        let (took, cpu) = (start.elapsed().as_secs_f64(), process_cpu_s() - cpu_start);
        let (alone, expected) = first.get_or_insert_with(|| (took, prints.clone()));
        assert_eq!(&prints, expected, "results depend on the number of threads");
        println!(
            "{threads} threads: {took:.2} s, {:.2} times as fast, {cpu:.2} CPU seconds",
            *alone / took
        );
    }
}

fn main() {
    let parts: [(&str, fn()); 6] = [
        ("booksim", torus_beside_booksim),
        ("credits", credits),
        ("rings", rings),
        ("statistics", cost_of_statistics),
        ("sizes", sizes),
        ("threads", threads),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            part();
        }
    }
}
