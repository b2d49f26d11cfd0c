//! The speed of the ATOLL model: packet-link-hops a CPU second on tori, with flow control,
//! retransmission buffers and, in one row, bit errors.
//!
//! The work: uniform targets, dimension order, messages of one link packet (56 bytes and a header
//! of 8); the load is a part of a link's rate at each node. Seconds are CPU seconds of the thread
//! that runs the model.
//! Run: `cargo bench -p fluxline-sim --bench atoll`; with QUICK=1 a tenth of the time is simulated.
#![allow(missing_docs, reason = "a benchmark")]

use fluxline_sim::load::sweep::{Detail, Limits, measure};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size, Traffic};
use fluxline_sim::load::{Loaded, Settings};
use fluxline_sim::net::atoll::{Config, Grid, Network, Wiring, Worms};
use fluxline_sim::{Agenda, Duration};

/// CPU time of this thread, from the scheduler's books, which count nanoseconds.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(0.0, |ns| ns / 1e9)
}

struct Work {
    side: u32,
    is_torus: bool,
    load: f64,
    bit_error_rate: f64,
    us: u64,
}

fn run(work: &Work) {
    let Work { side, is_torus, load, bit_error_rate, us } = *work;
    let wiring = Wiring::grid(Grid { columns: side, rows: side, is_torus }).expect("a torus");
    let plan = Plan {
        nodes: wiring.nodes(),
        pattern: Pattern::Uniform,
        arrivals: Arrivals::Poisson { bytes_per_s: load * 250e6 },
        size: Size::Fixed(56),
        seed: 1,
    };
    let us = if std::env::var_os("QUICK").is_some() { us.div_ceil(10) } else { us };
    let at = Duration::from_us;
    let limits = Limits { warm_up_first: at(5), warm_up_max: at(us / 4), measured: at(us) };
    let start = cpu_s();
    let network = <Network<_>>::new(Config { bit_error_rate, ..Config::new(wiring) });
    let network = network.expect("a network");
    let mut agenda = Agenda::default();
    let settings = Settings { detail: Detail::Full, ..Settings::default() };
    let traffic = Traffic::new(plan).expect("a plan");
    let mut model = Loaded::new(network, Worms, traffic, &settings, &mut agenda);
    let outcome = measure(&mut model, &mut agenda, &limits);
    let cpu_s = cpu_s() - start;
    let network = model.network();
    let shape = if is_torus { "torus" } else { "grid" };
    let hops = network.counts().hops as f64;
    let per_node = network.memory_bytes() / (side * side) as usize;
    let rate = hops / cpu_s / 1e6;
    print!("{shape} {side:2} x {side:2}, load {load:.2}, errors {bit_error_rate:.0e}: ");
    print!("{rate:5.2} M hops/s, {per_node} bytes a node, ");
    match outcome {
        Ok(outcome) => println!("{:.0} ns", outcome.latency_ns.mean),
        Err(error) => println!("{error}"),
    }
}

fn main() {
    let base = Work { side: 8, is_torus: true, load: 0.1, bit_error_rate: 0.0, us: 4_000 };
    for load in [0.1, 0.2, 0.3] {
        run(&Work { load, ..base });
    }
    run(&Work { bit_error_rate: 1e-5, load: 0.2, ..base });
    run(&Work { is_torus: false, load: 0.1, ..base });
    for side in [16, 32, 64] {
        let us = 4_000 * 64 / u64::from(side * side);
        run(&Work { side, us, load: 0.8 / f64::from(side), ..base });
    }
}
