//! The model of ringlets compared with expectations: throughput, fairness, published totals.
//!
//! A missed expectation is shown as missed. The traffic behind the published totals is unknown: the
//! row's text names the assumption.

mod closed;

use std::ops::RangeInclusive;

use crate::net::sci::{Command, Config, ConfigError, Retry, Topology};
use closed::{Closed, Plan};

/// One expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// A short name: `V7`.
    pub id: &'static str,
    /// The statement, with its unit.
    pub text: &'static str,
    /// The expected range.
    pub expected: RangeInclusive<f64>,
    /// The model's value.
    pub got: f64,
    /// True if the value is as expected.
    pub held: bool,
}

impl Row {
    fn new(id: &'static str, text: &'static str, expected: RangeInclusive<f64>, got: f64) -> Row {
        let held = expected.contains(&got);
        Row { id, text, expected, got, held }
    }
}

/// Symbols of the warm-up and of the measurement: each mean is then exact to about 1 %.
const WARM: u64 = 20_000;
const MEASURED: u64 = 100_000;

/// Returns all rows, in order. Takes some seconds.
///
/// # Errors
/// When a preset is invalid (a defect).
pub fn all() -> Result<Vec<Row>, ConfigError> {
    let mut rows = saturation()?;
    rows.push(fairness()?);
    rows.extend(cards()?);
    rows.push(knee()?);
    Ok(rows)
}

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

/// Returns the share of the bound of 2 / (41 + 5) sends per symbol time.
fn share(nodes: u32, flow_control: bool) -> Result<f64, ConfigError> {
    let plan = Plan { command: Command::Move64, targets: uniform(nodes), window: 64, gap: 0 };
    let (rates, _) = measure(&wide(nodes, flow_control), plan)?;
    Ok(rates.iter().sum::<f64>() / 64.0 * 23.0)
}

fn saturation() -> Result<Vec<Row>, ConfigError> {
    let cost = |nodes| Ok::<f64, ConfigError>(100.0 * (1.0 - share(nodes, true)?));
    Ok(vec![
        Row::new(
            "V2",
            "share of the bound, 8 nodes, no flow control",
            0.95..=1.01,
            share(8, false)?,
        ),
        Row::new("V3", "cost of flow control, 4 nodes [%]", 0.0..=10.0, cost(4)?),
        Row::new("V3", "cost of flow control, 16 nodes [%]", 10.0..=30.0, cost(16)?),
    ])
}

/// Tests fairness: node 0 sends to three nodes that send only to each other.
fn fairness() -> Result<Row, ConfigError> {
    let targets = vec![vec![1, 2, 3], vec![2, 3], vec![1, 3], vec![1, 2]];
    let plan = Plan { command: Command::Move64, targets, window: 64, gap: 0 };
    let (rates, _) = measure(&wide(4, true), plan)?;
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    Ok(Row::new("V4", "least over most, nobody sends to node 0", 0.9..=1.0, least / most))
}

/// Totals of uniform loads \[MB/s\]: writes of 64 B, 8 open at once.
pub(super) struct Totals {
    /// 10 nodes on a ring, LC-1.
    pub lc1_ring: f64,
    /// 8 nodes behind a switch of 4 ports, LC-1.
    pub lc1_switch: f64,
    /// 8 hosts of 80 MB/s on a ring, LC-2.
    pub lc2_ring: f64,
    /// The same behind a switch of 4 ports.
    pub lc2_switch: f64,
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

/// Measures the totals.
pub(super) fn totals() -> Result<Totals, ConfigError> {
    Ok(Totals {
        lc1_ring: total(&Config::lc1(10), writes(10, 0))?,
        lc1_switch: total(&Config::lc1(2).joined(switch()), writes(8, 0))?,
        lc2_ring: total(&Config::lc2(8), writes(8, HOST_GAP))?,
        lc2_switch: total(&Config::lc2(2).joined(switch()), writes(8, HOST_GAP))?,
    })
}

/// Compares totals that were measured with Dolphin's cards.
fn cards() -> Result<Vec<Row>, ConfigError> {
    let totals = totals()?;
    let free = Config { flow_control: false, ..Config::lc1(10) };
    let lc1_free = total(&free, writes(10, 0))?;
    let neighbours = (1..=10).map(|next| vec![next % 10]).collect();
    let lc1_next = total(&Config::lc1(10), Plan { targets: neighbours, ..writes(10, 0) })?;
    let most = f64::INFINITY;
    let text = "LC-2, 8 hosts of 80 MB/s, one ring [MB/s]";
    Ok(vec![
        Row::new("V7", "LC-1, 10 nodes, write64 uniform [MB/s]", 168.3..=205.7, totals.lc1_ring),
        Row::new("V7", "the same without flow control [MB/s]", 168.3..=205.7, lc1_free),
        // The source calls its 187 MB/s a peak and does not name the traffic: some pattern must
        // reach it.
        Row::new("V7", "the same, each to the next node [MB/s]", 187.0..=most, lc1_next),
        Row::new("V8", text, 270.0..=most, totals.lc2_ring),
        Row::new("V8", "LC-2, the same behind a switch [MB/s]", 270.0..=most, totals.lc2_switch),
    ])
}

/// Returns the link traffic at the knee \[percent\]: the window at which throughput over round-trip
/// time is greatest (assumed; the source does not define it). Reads of 64 bytes; each node starts
/// with its whole window at once: bursts. The source gives link traffic in MB/s, so only symbols of
/// packets count, not idles (assumed).
pub(super) fn knee_percent() -> Result<f64, ConfigError> {
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

fn knee() -> Result<Row, ConfigError> {
    Ok(Row::new("V9", "link traffic at the knee, 8 nodes [%]", 60.0..=70.0, knee_percent()?))
}

#[cfg(test)]
mod tests {
    use super::{Command, Config, Plan, all, measure, wide};

    /// Returns the part of its bound that a hot sender of writes reaches; the others only answer.
    fn hot_sender(nodes: u32, hop_symbols: u32, flow_control: bool) -> f64 {
        let config = Config { pass_symbols: hop_symbols, ..wide(nodes, flow_control) };
        let targets = vec![(1..nodes).collect()];
        let plan = Plan { command: Command::Write64, targets, window: 64, gap: 0 };
        let (rates, _) = measure(&config, plan).expect("a ring");
        // A write with its idle, and the echo of an answer: 46 symbols for 64 bytes.
        rates[0] * 46.0 / 64.0
    }

    /// docs/simulation/sci.md has the table and the rule.
    #[test]
    fn a_hot_sender_loses_by_the_length_of_the_ring() {
        for (nodes, hop, expected) in [
            (16, 1, 0.924),
            (4, 4, 0.964),
            (16, 2, 0.885),
            (8, 4, 0.901),
            (16, 4, 0.799),
            (8, 8, 0.820),
            (16, 8, 0.700),
            (8, 16, 0.716),
            (4, 32, 0.750),
        ] {
            let part = hot_sender(nodes, hop, true);
            println!("{nodes} nodes, hop {hop}: {part:.3}");
            assert!((part - expected).abs() < 0.01, "{nodes} nodes, hop {hop}: {part:.3}");
        }
        assert!(hot_sender(16, 4, false) > 0.99, "only flow control costs");
    }

    /// The present results, misses included: a change of any must be noticed.
    #[test]
    fn the_rows_are_what_they_were() {
        let rows = all().expect("presets");
        for row in &rows {
            let (least, most) = (*row.expected.start(), *row.expected.end());
            println!("{} {}: {:.3} of {least}..{most}, {}", row.id, row.text, row.got, row.held);
        }
        let got =
            [1.002, 18.212, 19.983, 1.000, 154.112, 213.312, 372.480, 278.016, 309.632, 66.189];
        assert_eq!(rows.len(), got.len());
        for (row, got) in rows.iter().zip(got) {
            assert!(
                (row.got - got).abs() < 0.001,
                "{} {}: {} not {got}",
                row.id,
                row.text,
                row.got
            );
        }
    }
}
