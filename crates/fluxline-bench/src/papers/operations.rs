//! Put against get, combining, and the rate of operations: flows, in turns over all they vary.

use std::collections::BTreeMap;

use fluxline_report::quantity;

use super::fit;
use super::floor::{self, Call};
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
/// Operations to a batch: with `--quick` up to the first, without up to the last.
const COMBINED_MAX: [u64; 2] = [8, 64];

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

/// The set-up time of each round, by the fit \[us\].
fn set_up(elapsed_us: &Samples) -> Vec<f64> {
    let rounds = elapsed_us.values().map(Vec::len).min().unwrap_or(0);
    let of_round = |round: usize| {
        let points: Vec<(f64, f64)> =
            elapsed_us.iter().map(|(bytes, all)| (*bytes as f64, all[round])).collect();
        fit::line(&points).map(|line| line.setup)
    };
    (0..rounds).filter_map(of_round).collect()
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
        let label = format!("set-up time of a {name}, by fit");
        into.facts.push(Fact::new(label, "us", set_up(&by_size.elapsed_us)));
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
            "A put takes {} and a get {} at any size; the largest blocks reach {} and {}.",
            quantity(middle(&set_up(&kinds[0].1.elapsed_us)), "us"),
            quantity(middle(&set_up(&kinds[1].1.elapsed_us)), "us"),
            quantity(put, "Gb/s"),
            quantity(get, "Gb/s"),
        );
    }
}

/// One degree of combining, by block size.
#[derive(Default)]
struct Degree {
    elapsed_us: Samples,
    gbps: Samples,
}

/// Combining: figures 11 to 16.
pub fn combining(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let degrees = show::powers(1, COMBINED_MAX[usize::from(!plan.quick)], 2);
    let fits = |bytes: &u64| *bytes <= 64 << 10;
    let blocks = some(blocks(environment, plan).into_iter().filter(fits).collect())?;
    let mut by_degree: BTreeMap<u64, Degree> = BTreeMap::new();
    let ended = measure_degrees(environment, plan, &degrees, &blocks, &mut by_degree);
    let calls = calls(environment, plan, &degrees)?;
    fill_degrees(&by_degree, &calls, into);
    ended
}

fn measure_degrees(
    environment: &mut dyn Environment,
    plan: &Plan,
    degrees: &[u64],
    blocks: &[u64],
    by_degree: &mut BTreeMap<u64, Degree>,
) -> Result<(), Error> {
    let mut hints = BTreeMap::new();
    let all = plan.rounds as usize * blocks.len();
    for round in 0..plan.rounds as usize {
        for (index, bytes) in blocks.iter().enumerate() {
            let done = round * blocks.len() + index;
            environment.progress(done, all, &format!("combining, {bytes} B"));
            for (combined, depth) in degrees.iter().flat_map(|one| [(*one, 1), (*one, DEPTH)]) {
                let flow = Flow { kind: Kind::Put, bytes: *bytes, combined, depth, batches: 0 };
                let hint = hints.entry((combined, *bytes, depth)).or_default();
                let (flow, flowed) = measure(environment, plan, flow, hint)?;
                let degree = by_degree.entry(combined).or_default();
                if depth == 1 {
                    let us = flowed.of_batch(&flow) * 1e6;
                    degree.elapsed_us.entry(*bytes).or_default().push(us);
                } else {
                    degree.gbps.entry(*bytes).or_default().push(flowed.gbps(&flow));
                }
            }
        }
    }
    Ok(())
}

/// Datagrams of the smallest block per second \[M/s\] that bare calls reach, by degree: sendmmsg,
/// and trains. Empty without Ethernet.
fn calls(
    environment: &dyn Environment,
    plan: &Plan,
    degrees: &[u64],
) -> Result<[Samples; 2], Error> {
    let mut bare = [Samples::new(), Samples::new()];
    if !environment.link().starts_with("udp://") {
        return Ok(bare);
    }
    for _ in 0..plan.rounds {
        for combined in degrees {
            for (samples, call) in bare.iter_mut().zip([Call::Several, Call::Train]) {
                let rate = floor::datagrams_per_second(SMALL_BYTES, *combined, call)?;
                samples.entry(*combined).or_default().push(rate / 1e6);
            }
        }
    }
    Ok(bare)
}

/// A small block \[byte\]: a line of the cache, and SCI's buffer.
const SMALL_BYTES: usize = 64;

fn fill_degrees(by_degree: &BTreeMap<u64, Degree>, calls: &[Samples; 2], into: &mut Experiment) {
    for (combined, degree) in by_degree {
        let label = format!("{combined} combined");
        into.series.push(series(&label, BLOCK, axis("throughput", "Gb/s"), &degree.gbps));
    }
    for (combined, degree) in by_degree {
        let label = format!("{combined} combined, time of all");
        into.series.push(series(&label, BLOCK, axis("elapsed time", "us"), &degree.elapsed_us));
    }
    // Of the smallest block: operations per second by degree.
    let smallest = by_degree.values().filter_map(|degree| degree.gbps.keys().next()).min().copied();
    let rates: Samples = by_degree
        .iter()
        .filter_map(|(combined, degree)| {
            let bytes = smallest?;
            let to_rate = |gbps: &f64| gbps * 1e3 / (bytes as f64 * 8.0);
            Some((*combined, degree.gbps.get(&bytes)?.iter().map(to_rate).collect()))
        })
        .collect();
    let x = axis("combined", "");
    let y = axis("operations", "M/s");
    into.series.push(series(&format!("puts of {} B", smallest.unwrap_or(0)), x, y, &rates));
    for (name, samples) in ["sendmmsg", "trains"].iter().zip(calls) {
        if !samples.is_empty() {
            let label = format!("bare {name}, {SMALL_BYTES} B, nobody reads");
            into.series.push(series(&label, x, y, samples));
        }
    }
    if let (Some((first, _)), Some((best, rate))) = (rates.first_key_value(), show::largest(&rates))
    {
        let (one, most) = (middle(&rates[first]), middle(rate));
        into.facts.push(Fact::new("operations one by one", "M/s", rates[first].clone()));
        let floor = calls.iter().filter_map(|all| show::largest(all)).map(|(_, all)| middle(all));
        let label = format!("operations, {best} combined");
        let most_fact = Fact::new(label, "M/s", rate.clone());
        into.facts.push(most_fact.beside("best bare call", floor.reduce(f64::max)));
        into.limit = format!(
            "{best} small puts with one doorbell reach {}, single ones {}: a factor of {:.1}.",
            quantity(most, "M/s"),
            quantity(one, "M/s"),
            most / one
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
    let bare = match environment.link().starts_with("udp://") {
        true => Some(floor::datagrams_per_second(SMALL_BYTES, 32, Call::Train)? / 1e6),
        false => None,
    };
    for ((label, ..), samples) in RATES.iter().zip(&rates) {
        let rate = Fact::new(*label, "M/s", samples.clone());
        into.facts.push(rate.beside("bare trains of 32, 64 B", bare));
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
