//! Put against get, and the rate of small operations: flows, in turns over all they vary.

use std::collections::BTreeMap;

use fluxline_report::quantity;

use super::floor;
use super::flow::{self, Flow, Flowed, Kind};
use super::show::{self, BLOCK, Samples, middle, series};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact, axis};

/// The approximate time of a trial \[s\]: with `--quick`, and without. Chosen: some thousand small
/// operations, so that a pause of the host is a small part of it or an outlier of its own.
const TRIAL_SECONDS: [f64; 2] = [0.004, 0.03];
/// Batches of a first look, and the least and most of a trial: on virtual time they may cost
/// nothing.
const LOOK_BATCHES: u64 = 8;
const BATCHES: [u64; 2] = [8, 20_000];
/// Batches under way where throughput is asked for, not time.
const DEPTH: u64 = 16;
/// The largest block \[byte\]: with `--quick`, and without.
const BLOCK_MAX: [u64; 2] = [256 << 10, 4 << 20];

/// Measures a trial of the planned length. `hint` is the time of a batch in the round before \[s\];
/// it becomes that of this round. Without it a short trial runs first.
fn measure(
    environment: &mut dyn Environment,
    plan: &Plan,
    flow: Flow,
    hint: &mut Option<f64>,
) -> Result<(Flow, Flowed), Error> {
    let of_batch = match *hint {
        Some(seconds) => seconds,
        None => {
            let look = Flow { batches: LOOK_BATCHES, ..flow };
            show::trial::<Flowed>(environment, &flow::TRIAL, &look)?.0.of_batch(&look)
        }
    };
    let seconds = TRIAL_SECONDS[usize::from(!plan.quick)];
    let batches = (seconds / of_batch.max(1e-9)) as u64;
    let flow = Flow { batches: batches.clamp(BATCHES[0], BATCHES[1]), ..flow };
    let (flowed, _) = show::trial::<Flowed>(environment, &flow::TRIAL, &flow)?;
    *hint = Some(flowed.of_batch(&flow));
    Ok((flow, flowed))
}

/// Block sizes of this plan on this link.
fn blocks(environment: &dyn Environment, plan: &Plan) -> Vec<u64> {
    let most = BLOCK_MAX[usize::from(!plan.quick)].min(plan.sizes[1]).min(environment.half_bytes());
    let least = plan.sizes[0].max(8).next_power_of_two();
    show::powers(least, most, if plan.quick { 4 } else { 2 })
}

/// Refuses a run without a size.
fn some(blocks: Vec<u64>) -> Result<Vec<u64>, Error> {
    if blocks.is_empty() {
        let problem = "no block size is left; ask for sizes of 8 B and more (--sizes)";
        return Err(Error::Input(problem.to_owned()));
    }
    Ok(blocks)
}

/// Elapsed and throughput of one kind by size.
#[derive(Default)]
struct BySize {
    elapsed_us: Samples,
    gbps: Samples,
}

/// Put against get: figures 7 and 8.
pub fn put_get(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let blocks = some(blocks(environment, plan))?;
    let mut kinds = [(Kind::Put, BySize::default()), (Kind::Get, BySize::default())];
    let ended = measure_put_get(environment, plan, &blocks, &mut kinds);
    fill_put_get(environment, &kinds, into);
    ended
}

fn measure_put_get(
    environment: &mut dyn Environment,
    plan: &Plan,
    blocks: &[u64],
    kinds: &mut [(Kind, BySize); 2],
) -> Result<(), Error> {
    let mut hints = BTreeMap::new();
    let all = plan.rounds as usize * blocks.len();
    for round in 0..plan.rounds as usize {
        for (index, bytes) in blocks.iter().enumerate() {
            let done = round * blocks.len() + index;
            environment.progress(done, all, &format!("put and get, {bytes} B"));
            for (kind, by_size) in kinds.iter_mut() {
                for depth in [1, DEPTH] {
                    let flow = Flow { kind: *kind, bytes: *bytes, combined: 1, depth, batches: 0 };
                    let hint = hints.entry((*kind, *bytes, depth)).or_default();
                    let (flow, flowed) = measure(environment, plan, flow, hint)?;
                    if depth == 1 {
                        let us = flowed.of_batch(&flow) * 1e6;
                        by_size.elapsed_us.entry(*bytes).or_default().push(us);
                    } else {
                        by_size.gbps.entry(*bytes).or_default().push(flowed.gbps(&flow));
                    }
                }
            }
        }
    }
    Ok(())
}

fn fill_put_get(environment: &dyn Environment, kinds: &[(Kind, BySize); 2], into: &mut Experiment) {
    let names = ["put", "get"];
    for (name, (_, by_size)) in names.iter().zip(kinds) {
        let y = axis("elapsed time", "us");
        into.series.push(series(&format!("{name}, one at a time"), BLOCK, y, &by_size.elapsed_us));
    }
    for (name, (_, by_size)) in names.iter().zip(kinds) {
        let label = format!("{name}, {DEPTH} under way");
        into.series.push(series(&label, BLOCK, axis("throughput", "Gb/s"), &by_size.gbps));
    }
    for (name, (_, by_size)) in names.iter().zip(kinds) {
        if let Some((bytes, us)) = by_size.elapsed_us.first_key_value() {
            let label = format!("time of a {name}, {}", quantity(*bytes as f64, "B"));
            into.facts.push(Fact::new(label, "us", us.clone()));
        }
        let Some((bytes, best)) = show::largest(&by_size.gbps) else { continue };
        let copy = environment.is_real().then(|| bytes as f64 * 8e-9 / floor::copy_seconds(bytes));
        let label = format!("largest throughput of a {name}, {}", quantity(bytes as f64, "B"));
        into.facts.push(Fact::new(label, "Gb/s", best.clone()).beside("memcpy", copy));
        if let Some(at) = show::reached_at(&by_size.gbps, middle(best) / 2.0) {
            into.facts.push(Fact::new(
                format!("{name} reaches half of it at"),
                "B",
                vec![at as f64],
            ));
        }
    }
    let best = |index: usize| show::largest(&kinds[index].1.gbps).map(|(_, best)| middle(best));
    if let (Some(put), Some(get)) = (best(0), best(1)) {
        into.facts.push(Fact::new("throughput of put over that of get", "", vec![put / get]));
        into.limit = format!(
            "The largest blocks reach {} by puts and {} by gets.",
            quantity(put, "Gb/s"),
            quantity(get, "Gb/s"),
        );
    }
}

/// The rates of operations: label, kind, bytes, combined.
const RATES: &[(&str, Kind, u64, u64)] = &[
    ("puts of 8 B, each notified", Kind::Put, 8, 1),
    ("puts of 64 B, each notified", Kind::Put, 64, 1),
    ("puts of 8 B, 32 to a notification", Kind::Put, 8, 32),
    ("puts of 64 B, 32 to a notification", Kind::Put, 64, 32),
    ("gets of 8 B", Kind::Get, 8, 1),
    ("gets of 64 B, 32 posted together", Kind::Get, 64, 32),
];

/// Operations under way at most when their rate is asked for.
const RATE_OPERATIONS: u64 = 256;

/// The rate of small operations.
pub fn rate(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let mut rates = vec![Vec::new(); RATES.len()];
    let ended = measure_rates(environment, plan, &mut rates);
    for ((label, ..), samples) in RATES.iter().zip(&rates) {
        into.facts.push(Fact::new(*label, "M/s", samples.clone()));
    }
    let (each, shared) = (middle(&rates[0]), middle(&rates[2]));
    let (alone_ns, notified_ns) = (1e3 / shared, 1e3 / each);
    into.limit = if notified_ns > alone_ns {
        let more_ns = notified_ns - alone_ns;
        format!("A small put costs {alone_ns:.0} ns, its notification {more_ns:.0} ns more.")
    } else {
        format!("A small put costs {notified_ns:.0} ns, and its notification adds nothing.")
    };
    ended
}

fn measure_rates(
    environment: &mut dyn Environment,
    plan: &Plan,
    rates: &mut [Vec<f64>],
) -> Result<(), Error> {
    let mut hints = vec![None; RATES.len()];
    for round in 0..plan.rounds as usize {
        for (index, (label, kind, bytes, combined)) in RATES.iter().enumerate() {
            let done = round * RATES.len() + index;
            environment.progress(done, plan.rounds as usize * RATES.len(), label);
            let (kind, bytes, combined) = (*kind, *bytes, *combined);
            let depth = RATE_OPERATIONS / combined;
            let flow = Flow { kind, bytes, combined, depth, batches: 0 };
            let (flow, flowed) = measure(environment, plan, flow, &mut hints[index])?;
            rates[index].push(flowed.rate(&flow) / 1e6);
        }
    }
    Ok(())
}
