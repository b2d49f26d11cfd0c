//! Totals of rings and switches that were measured with Dolphin's cards, or simulated. The traffic
//! behind them is unknown: the facts name the assumption.

use super::super::set::Number;
use super::closed::{Closed, Plan};
use crate::net::sci::{Command, Config, ConfigError, Retry, Topology};

/// Symbols of the warm-up and of the measurement: each mean is then exact to about 1 %.
const WARM: u64 = 20_000;
const MEASURED: u64 = 100_000;

/// Returns a ring whose queues never limit it.
fn wide(nodes: u32, flow_control: bool) -> Config {
    Config {
        flow_control,
        retry: Retry::Plain { delay: 0 },
        send_queue: 64,
        unacknowledged: 64,
        request_queue: 1000,
        response_queue: 1000,
        ..Config::ring(nodes)
    }
}

/// Every node but `silent` sends to every other but `silent`.
fn uniform(nodes: u32) -> Vec<Vec<u32>> {
    (0..nodes).map(|node| (0..nodes).filter(|&other| other != node).collect()).collect()
}

/// Runs a plan; returns each node's bytes per symbol time, and the mean share of busy symbols on
/// links.
fn measure(config: &Config, plan: Plan) -> Result<(Vec<f64>, f64), ConfigError> {
    let mut closed = Closed::new(config, plan)?;
    closed.run(WARM);
    let (bytes, busy) = (closed.bytes.clone(), closed.busy_symbols());
    closed.run(WARM + MEASURED);
    let of = |(after, before): (&u64, &u64)| (after - before) as f64 / MEASURED as f64;
    let rates = closed.bytes.iter().zip(&bytes).map(of).collect();
    let busy = (closed.busy_symbols() - busy) as f64 / (MEASURED * closed.links()) as f64;
    Ok((rates, busy))
}

/// Returns the total of a uniform load, in MB/s.
fn total(config: &Config, plan: Plan) -> Result<f64, ConfigError> {
    let (rates, _) = measure(config, plan)?;
    Ok(rates.iter().sum::<f64>() * config.clock.hertz() as f64 / 1e6)
}

/// A switch of four ports with two nodes each.
fn switch() -> Topology {
    Topology::switch(4, 2)
}

/// A host moves 64 bytes at 80 MB/s each way: 160 symbols of 5 ns.
const HOST_GAP: u64 = 160;

fn writes(nodes: u32, gap: u64) -> Plan {
    Plan { command: Command::Write64, targets: uniform(nodes), window: 8, gap }
}

/// Returns the model's numbers.
pub fn numbers() -> Result<Vec<Number>, ConfigError> {
    let lc2_ring = total(&Config::lc2(8), writes(8, HOST_GAP))?;
    let lc2_switch = total(&Config::lc2(2).joined(switch()), writes(8, HOST_GAP))?;
    Ok(vec![
        ("omang-lc1-ring", total(&Config::lc1(10), writes(10, 0))?),
        ("omang-lc1-switch", total(&Config::lc1(2).joined(switch()), writes(8, 0))?),
        ("omang-lc2-total", lc2_ring.min(lc2_switch)),
        ("hexsel-knee", knee_percent()?),
    ])
}

/// Returns the link traffic at the knee \[percent\]: the window at which throughput over round-trip
/// time is greatest (assumed; the source does not define it). Reads of 64 bytes; each node starts
/// with its whole window at once: bursts. The source gives link traffic in MB/s, so only symbols of
/// packets count, not idles (assumed).
fn knee_percent() -> Result<f64, ConfigError> {
    let mut best = (0.0, 0.0);
    for window in [1, 2, 3, 4, 6, 8, 12, 16] {
        let plan = Plan { command: Command::Read64, targets: uniform(8), window, gap: 0 };
        let (rates, busy) = measure(&wide(8, true), plan)?;
        let rate = rates.iter().sum::<f64>();
        // By Little's law the round trip is the window over the rate.
        let power = rate * rate / f64::from(window);
        if power > best.0 {
            best = (power, busy);
        }
    }
    Ok(100.0 * best.1)
}
