//! Compares the generic network with values that were measured with BookSim2: an 8 x 8 torus and a
//! ring of 8. `docs/simulation/network.md` explains the conversions and the differences.
//!
//! Run: `cargo run --release -p fluxline-sim --example booksim`. Ends with status 1 if the
//! saturation differs by more than 3 %.

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
/// The length of a run of BookSim2 with its defaults: 10 samples of 1000 cycles, of 1 ns here.
const RUN_US: u64 = 10;
/// The length of a run that shows whether a load can be followed for ever.
const LONG_US: u64 = 400;
/// Runs of each point.
const SEEDS: u64 = 40;
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

/// One run of a network.
struct Run<'a> {
    config: &'a NetworkConfig,
    pattern: Pattern,
    load: f64,
    us: u64,
    seed: u64,
}

impl Run<'_> {
    fn measure(&self) -> Result<Outcome, String> {
        let config = self.config;
        let plan = Plan {
            nodes: config.check().map_err(|error| error.to_string())?.routers(),
            pattern: self.pattern.clone(),
            arrivals: Arrivals::Poisson { bytes_per_s: self.load * config.link_bytes_per_s() },
            size: Size::Fixed(4 * FLIT_BYTES),
            seed: self.seed,
        };
        let mut agenda = Agenda::default();
        let model = loaded(config.clone(), plan, &Settings::default(), &mut agenda);
        let mut model = model.map_err(|error| error.to_string())?;
        let warm_up = Duration::from_us(1);
        let measured = Duration::from_us(self.us);
        let limits = Limits { warm_up_first: warm_up, warm_up_max: warm_up.times(3), measured };
        measure(&mut model, &mut agenda, &limits).map_err(|error| error.to_string())
    }

    /// Measures with all seeds.
    fn mean(&self) -> Result<Mean, String> {
        let mut all = Vec::new();
        for seed in 1..=SEEDS {
            let run = Run { seed, pattern: self.pattern.clone(), ..*self };
            all.push(run.measure()?.latency_ns.mean);
        }
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let squares: f64 = all.iter().map(|value| (value - mean).powi(2)).sum();
        Ok(Mean { mean, half_width: 1.96 * (squares / (count - 1.0) / count).sqrt() })
    }
}

/// A mean latency with half of its interval of 95 % \[ns\].
struct Mean {
    mean: f64,
    half_width: f64,
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
        let config = &torus();
        let load_of_others = load * OTHERS;
        let run =
            Run { config, pattern: Pattern::Uniform, load: load_of_others, us: RUN_US, seed: 0 };
        let found = run.mean()?;
        let mean = as_booksim(found.mean);
        let (width, off) = (found.half_width, 100.0 * (mean / cycles - 1.0));
        println!("| {load:.2} | {mean:.1} +- {width:.1} | {cycles} | {off:+.1} % |");
    }
    Ok(())
}

/// Returns the load at which the latency exceeds five times that without load, in a long run.
fn saturated(config: &NetworkConfig) -> Result<f64, String> {
    let at = |load: f64| {
        let load = load * OTHERS;
        Run { config, pattern: Pattern::Uniform, load, us: LONG_US, seed: 1 }.measure()
    };
    let found = saturation(0.2..=0.6, 0.001, Criterion::usual(5.0, 35.4), at)?;
    Ok(f64::midpoint(found.followed, found.saturated))
}

fn rings(config: &NetworkConfig, name: &str) -> Result<(), String> {
    for Ring { channels, flits, cycles } in RINGS {
        let mut ring = NetworkConfig { dimensions: vec![config.dimensions[0]], ..config.clone() };
        ring.dimensions[0].ways = Ways::Up;
        (ring.buffer_bytes, ring.channels) = (flits * FLIT_BYTES, channels);
        let pattern = Pattern::Neighbour { distance: 3 };
        let run = Run { config: &ring, pattern, load: 0.5 / 3.0, us: RUN_US, seed: 0 };
        let found = run.mean()?;
        println!(
            "ring of 8, links half busy, {channels} channels of {flits} flits, {name}: {:.1} +- \
             {:.1} cycles, BookSim2 {cycles}",
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
