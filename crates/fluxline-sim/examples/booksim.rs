//! Compares the generic network with values that were measured with BookSim2: an 8 x 8 torus and a
//! ring of 8. `docs/simulation/network.md` explains the conversions and the differences.
//!
//! Run: `cargo run --release -p fluxline-sim --example booksim`; with QUICK=1 a tenth of the time is
//! simulated. Ends with status 1 if the saturation differs by more than 3 %.

use std::process::ExitCode;

use fluxline_sim::load::Settings;
use fluxline_sim::load::sweep::{Criterion, Limits, Outcome, measure, saturation};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size};
use fluxline_sim::net::router::{CreditUnit, Network, NetworkConfig, Ways, loaded};
use fluxline_sim::{Agenda, Duration};

/// BookSim2's mean latency \[cycles\] by load, as a share of a link's rate at each node.
const LATENCIES: [Point; 3] = [
    Point { load: 0.10, cycles: 35.6 },
    Point { load: 0.30, cycles: 45.0 },
    Point { load: 0.34, cycles: 75.9 },
];
/// The load at which BookSim2 saturates.
const SATURATION: f64 = 0.347;
/// BookSim2's mean latency on a ring of 8, links half busy.
const RINGS: [Ring; 3] = [
    Ring { channels: 2, flits: 8, cycles: 750.0 },
    Ring { channels: 2, flits: 32, cycles: 47.0 },
    Ring { channels: 4, flits: 8, cycles: 33.0 },
];
const FLIT_BYTES: u32 = 16;
/// BookSim2's uniform targets include the sender: of 64 packets, one stays at its router.
const OTHERS: f64 = 63.0 / 64.0;
/// BookSim2's latency over `links` links without load, derived from its source: 2 cycles into the
/// network, 4 in a router (route, channel, switch, crossbar) and 2 on a link, 5 in the last router
/// and out, 3 for the other flits.
fn booksim_cycles(links: u32) -> f64 {
    f64::from(10 + 6 * links)
}

struct Point {
    load: f64,
    cycles: f64,
}

struct Ring {
    channels: u8,
    flits: u32,
    cycles: f64,
}

/// Routers with the delays of BookSim2: a hop takes 6 cycles in both.
fn torus() -> NetworkConfig {
    NetworkConfig { router_ticks: 5, wire_ticks: 1, ..NetworkConfig::torus(&[8, 8]) }
}

fn run(config: &NetworkConfig, pattern: Pattern, load: f64, us: u64) -> Result<Outcome, String> {
    let us = if std::env::var_os("QUICK").is_some() { us.div_ceil(10) } else { us };
    let plan = Plan {
        nodes: config.check().map_err(|error| error.to_string())?.routers(),
        pattern,
        arrivals: Arrivals::Poisson { bytes_per_s: load * config.link_bytes_per_s() },
        size: Size::Fixed(4 * FLIT_BYTES),
        seed: 1,
    };
    let mut agenda = Agenda::default();
    let model = loaded(config.clone(), plan, &Settings::default(), &mut agenda);
    let mut model = model.map_err(|error| error.to_string())?;
    let limits = Limits {
        warm_up_first: Duration::from_us(1),
        warm_up_max: Duration::from_us(us / 4),
        measured: Duration::from_us(us),
    };
    measure(&mut model, &mut agenda, &limits).map_err(|error| error.to_string())
}

/// Converts a mean latency to BookSim2's: it counts to the beginning of the last flit, not to its
/// end, and its mean includes packets that a node sends to itself.
fn as_booksim(mean_ns: f64) -> f64 {
    OTHERS * (mean_ns - 1.0) + (1.0 - OTHERS) * booksim_cycles(0)
}

fn zero_load() -> Result<(), String> {
    let network = Network::new(torus()).map_err(|error| error.to_string())?;
    for target in 1..64 {
        let links = network.topology().hops(0, target);
        let ours = network.zero_load(0, target, 4 * FLIT_BYTES).as_ps() as f64 / 1e3 - 1.0;
        if (ours - booksim_cycles(links)).abs() > 1e-9 {
            return Err(format!("{links} links: {ours} and {} cycles", booksim_cycles(links)));
        }
    }
    println!("without load: 10 + 6 cycles a link in both, for all 63 targets; mean 34.0");
    Ok(())
}

fn latencies() -> Result<(), String> {
    println!("| load | latency [cycles] | BookSim2 | |\n| --- | --- | --- | --- |");
    for Point { load, cycles } in LATENCIES {
        let found = run(&torus(), Pattern::Uniform, load * OTHERS, 2000)?.latency_ns;
        let mean = as_booksim(found.mean);
        let (width, off) = (found.half_width, 100.0 * (mean / cycles - 1.0));
        println!("| {load:.2} | {mean:.1} +- {width:.1} | {cycles} | {off:+.1} % |");
    }
    Ok(())
}

/// Returns the load between the highest that is followed and the lowest that is not.
fn saturated(config: &NetworkConfig) -> Result<f64, String> {
    let criterion = Criterion::usual(5.0, 35.4);
    let at = |load: f64| run(config, Pattern::Uniform, load * OTHERS, 400);
    let found = saturation(0.2..=0.6, 0.002, criterion, at)?;
    Ok(f64::midpoint(found.followed, found.saturated))
}

fn rings(config: &NetworkConfig, name: &str) -> Result<(), String> {
    for Ring { channels, flits, cycles } in RINGS {
        let mut ring = NetworkConfig { dimensions: vec![config.dimensions[0]], ..config.clone() };
        ring.dimensions[0].ways = Ways::Up;
        (ring.buffer_bytes, ring.channels) = (flits * FLIT_BYTES, channels);
        let pattern = Pattern::Neighbour { distance: 3 };
        let found = run(&ring, pattern, 0.5 / 3.0, 400)?.latency_ns;
        println!(
            "ring of 8, links half busy, {channels} channels of {flits} flits, {name}: {:.1} +- {:.1} \
             cycles, BookSim2 {cycles}",
            found.mean - 1.0,
            found.half_width
        );
    }
    Ok(())
}

fn compare() -> Result<bool, String> {
    zero_load()?;
    latencies()?;
    let found = saturated(&torus())?;
    let off = found / SATURATION - 1.0;
    println!("saturation at {found:.3}, BookSim2 {SATURATION}: {:+.1} %", 100.0 * off);
    for credit_ticks in [2, 3, 4] {
        let config = NetworkConfig { credit_unit: CreditUnit::Flit, credit_ticks, ..torus() };
        let found = saturated(&config)?;
        println!("with credits by flit after {credit_ticks} ticks: saturation at {found:.3}");
        rings(&config, &format!("credits by flit after {credit_ticks}"))?;
    }
    rings(&torus(), "credits by packet")?;
    Ok(off.abs() <= 0.03)
}

fn main() -> ExitCode {
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
