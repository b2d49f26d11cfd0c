//! Two studies of ATOLL networks, over many seeds, with intervals of 95 %:
//!
//! * `saturation SIDE [SEEDS]`: the load at which grids and tori stop to follow, by traffic and
//!   routes. A load is followed if 95 % of it are delivered.
//! * `deadlocks SIDE [SEEDS] [BYTES]`: the share of runs of one simulated millisecond in which
//!   worms deadlock on a torus whose routes have cycles, by load.
//!
//! Loads are payload, as a share of the rate of a link (250 MB/s) at each sending node. The results
//! are in `docs/simulation/atoll-studies.md`.
//! Run: `cargo run --release -p fluxline-sim --example atoll_studies -- saturation 8`

use std::process::ExitCode;

use fluxline_sim::load::sweep::{Criterion, Limits, MeasureError, Outcome};
use fluxline_sim::load::sweep::{measure, run_all, saturation};
use fluxline_sim::load::traffic::{Arrivals, BuildOrder, Pattern, Plan, Size, Traffic};
use fluxline_sim::load::{Loaded, Settings};
use fluxline_sim::net::atoll::{Config, Grid, Network, Routing, Wiring, Worms};
use fluxline_sim::{Agenda, Duration};

/// The rate of a link \[bytes a second\].
const LINK: f64 = 250e6;
/// Student's t for an interval of 95 %, by degrees of freedom from 1 on.
const T_95: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];
/// One link packet: 56 bytes and a header of 8.
const PACKET_BYTES: u32 = 56;

/// One run.
#[derive(Clone, Debug)]
struct Run {
    side: u32,
    is_torus: bool,
    routing: Routing,
    pattern: Pattern,
    load: f64,
    bytes: u32,
    seed: u64,
    us: u64,
}

impl Run {
    fn measure(&self, warm_up_us: u64) -> Result<Outcome, MeasureError> {
        let grid = Grid { columns: self.side, rows: self.side, is_torus: self.is_torus };
        let wiring = Wiring::grid(grid).expect("a square of 4 to 64 nodes");
        let plan = Plan {
            nodes: wiring.nodes(),
            pattern: self.pattern.clone(),
            arrivals: Arrivals::Poisson { bytes_per_s: self.load * LINK },
            size: Size::Fixed(self.bytes),
            seed: self.seed,
        };
        let config = Config { routing: self.routing, ..Config::new(wiring) };
        let network = <Network<_>>::new(config).expect("a valid network");
        let traffic = Traffic::new(plan).expect("a valid plan");
        let mut agenda = Agenda::default();
        let mut model = Loaded::new(network, Worms, traffic, &Settings::default(), &mut agenda);
        let us = Duration::from_us;
        let limits = Limits {
            warm_up_first: us(warm_up_us.min(20)),
            warm_up_max: us(warm_up_us),
            measured: us(self.us),
        };
        measure(&mut model, &mut agenda, &limits)
    }
}

/// A mean with half of its interval.
struct Mean {
    mean: f64,
    half_width: f64,
}

fn mean_of(values: &[f64]) -> Mean {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let student = T_95.get(values.len().wrapping_sub(2)).copied().unwrap_or(f64::NAN);
    Mean { mean, half_width: student * (squares / (count - 1.0) / count).sqrt() }
}

/// An interval of 95 % for a probability, by Wilson's score.
struct Share {
    low: f64,
    high: f64,
}

fn wilson(hits: usize, runs: usize) -> Share {
    let (runs, z) = (runs as f64, 1.96_f64);
    let share = hits as f64 / runs;
    let middle = share + z * z / (2.0 * runs);
    let width = z * (share * (1.0 - share) / runs + z * z / (4.0 * runs * runs)).sqrt();
    let scale = 1.0 + z * z / runs;
    Share { low: ((middle - width) / scale).max(0.0), high: ((middle + width) / scale).min(1.0) }
}

/// Searches the load that a network still follows.
fn saturated(run: &Run) -> f64 {
    let criterion = Criterion { accepted_min: 0.95, latency_max_ns: f64::INFINITY };
    let high = (8.0 / f64::from(run.side)).min(1.0);
    let found = saturation(0.0..=high, high / 128.0, criterion, |load| {
        Run { load, ..run.clone() }.measure(run.us / 2)
    });
    found.map_or(f64::NAN, |found| f64::midpoint(found.followed, found.saturated))
}

fn study_saturation(side: u32, seeds: u64) {
    let builders = side * side / 2;
    let patterns = [
        Pattern::Uniform,
        Pattern::Transpose,
        Pattern::EventBuilding { builders, order: BuildOrder::Together },
    ];
    let networks = [
        (false, Routing::DimensionOrder),
        (false, Routing::UpDown),
        (false, Routing::Nue),
        (true, Routing::DimensionOrder),
        (true, Routing::UpDown),
        (true, Routing::Nue),
    ];
    // Large networks have more messages in the same time.
    let us = 6_400 / u64::from(side);
    for (is_torus, routing) in networks {
        // Dimension order on larger tori deadlocks.
        if is_torus && routing == Routing::DimensionOrder && side > 4 {
            continue;
        }
        let shape = if is_torus { "torus" } else { "grid" };
        print!("| {shape} {side} x {side} | {routing:?} |");
        for pattern in &patterns {
            let base = Run {
                side,
                is_torus,
                routing,
                pattern: pattern.clone(),
                load: 0.0,
                bytes: PACKET_BYTES,
                seed: 0,
                us,
            };
            let runs: Vec<Run> = (1..=seeds).map(|seed| Run { seed, ..base.clone() }).collect();
            let Mean { mean, half_width } = mean_of(&run_all(&runs, None, saturated, |_| ()));
            print!(" {mean:.3} +- {half_width:.3} |");
        }
        println!();
    }
}

fn study_deadlocks(side: u32, seeds: u64, bytes: u32) {
    let highest = (4.0 / f64::from(side)).min(0.8);
    for routing in [Routing::DimensionOrder, Routing::Shortest] {
        for step in [2, 3, 4, 5, 6, 8] {
            let load = highest * f64::from(step) / 8.0;
            let base = Run {
                side,
                is_torus: true,
                routing,
                pattern: Pattern::Uniform,
                load,
                bytes,
                seed: 0,
                us: 1_000,
            };
            let runs: Vec<Run> = (1..=seeds).map(|seed| Run { seed, ..base.clone() }).collect();
            let run = |run: &Run| run.measure(0).err().map(|error| error.at.as_ps() as f64 / 1e6);
            let stops: Vec<f64> = run_all(&runs, None, run, |_| ()).into_iter().flatten().collect();
            let Share { low, high } = wilson(stops.len(), runs.len());
            let count = stops.len();
            print!("| {side} x {side} | {routing:?} | {bytes} | {load:.3} | {count} of {seeds} ");
            print!("| {low:.3} to {high:.3} |");
            match stops.iter().sum::<f64>() / count as f64 {
                mean if count > 0 => println!(" {mean:.0} |"),
                _ => println!(" |"),
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let side = number(1).filter(|side| (2..=64).contains(side)).map(|side| side as u32);
    match (arguments.first().map(String::as_str), side) {
        (Some("saturation"), Some(side)) => {
            study_saturation(side, number(2).unwrap_or(5).clamp(2, 10));
        }
        (Some("deadlocks"), Some(side)) => {
            let bytes = number(3).unwrap_or(PACKET_BYTES.into()).clamp(1, 4096) as u32;
            study_deadlocks(side, number(2).unwrap_or(100).max(1), bytes);
        }
        _ => {
            eprintln!("write `saturation SIDE [SEEDS]` or `deadlocks SIDE [SEEDS] [BYTES]`");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
