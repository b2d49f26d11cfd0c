//! Many connections and many regions: crowds of rising size, in turns.

use std::collections::BTreeMap;

use super::crowd::{self, Crowd, Crowded};
use super::show::{self, Samples, middle, series};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact};

/// Sizes of crowds: with `--quick`, and without. Source: the "1 to 1,000".
const CROWDS: [&[u64]; 2] = [&[1, 10, 100], &[1, 3, 10, 30, 100, 300, 1000]];
/// Puts of a trial: with `--quick`, and without.
const PUTS: [u64; 2] = [2_000, 50_000];
/// Bytes of a put.
const BYTES: u64 = 64;

/// Many connections.
pub fn connections(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let most = environment.capabilities()?.map_or(0, |can| u64::from(can.endpoints_max));
    // One is taken: the one that trials run over.
    let crowd = |number| Crowd { connections: number, regions: 1, bytes: BYTES, puts: 0 };
    run(environment, plan, into, ("connection", most.saturating_sub(1)), &crowd)
}

/// Many regions.
pub fn regions(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let most = environment.capabilities()?.map_or(0, |can| u64::from(can.regions_max));
    // Over a connection that ends with the trial, and its imports with it.
    let crowd = |number| Crowd { connections: 1, regions: number, bytes: BYTES, puts: 0 };
    run(environment, plan, into, ("region", most.saturating_sub(1)), &crowd)
}

fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
    (what, most): (&'static str, u64),
    crowd: &dyn Fn(u64) -> Crowd,
) -> Result<(), Error> {
    let planned = CROWDS[usize::from(!plan.quick)];
    let mut sizes: Vec<u64> = planned.iter().copied().filter(|size| *size <= most).collect();
    let largest = planned.last().copied().unwrap_or(1);
    if most > 0 && most < largest && !sizes.contains(&most) {
        sizes.push(most);
    }
    let mut setup_us = Samples::new();
    let mut rates = Samples::new();
    let ended = measure(environment, plan, (what, &sizes), crowd, (&mut setup_us, &mut rates));
    let reached = rates.last_key_value().map_or(0, |(size, _)| *size);
    fill((what, reached < largest), &setup_us, &rates, into);
    ended
}

fn measure(
    environment: &mut dyn Environment,
    plan: &Plan,
    (what, sizes): (&str, &[u64]),
    crowd: &dyn Fn(u64) -> Crowd,
    (setup_us, rates): (&mut Samples, &mut Samples),
) -> Result<(), Error> {
    let puts = PUTS[usize::from(!plan.quick)];
    for round in 0..plan.rounds as usize {
        for (place, size) in sizes.iter().enumerate() {
            let done = round * sizes.len() + place;
            environment.progress(
                done,
                plan.rounds as usize * sizes.len(),
                &format!("{size} {what}s"),
            );
            let crowd = Crowd { puts: puts.max(*size * 4), ..crowd(*size) };
            let (crowded, far) = show::trial::<Crowded>(environment, &crowd::TRIAL, &crowd)?;
            if far["heard"].as_u64() != Some(crowd.puts) {
                let what = format!("{} of {} puts were notified", far["heard"], crowd.puts);
                return Err(Error::Defect { what });
            }
            // As many as there were: the peer may take fewer than this end could have.
            let is_refused = crowded.connections < crowd.connections;
            let size = if is_refused { crowded.connections } else { *size };
            let us = crowded.setup_seconds * 1e6 / size as f64;
            setup_us.entry(size).or_default().push(us);
            rates.entry(size).or_default().push(crowd.puts as f64 / crowded.seconds / 1e6);
            if is_refused {
                break;
            }
        }
    }
    Ok(())
}

fn fill(
    (what, is_bounded): (&'static str, bool),
    setup_us: &BTreeMap<u64, Vec<f64>>,
    rates: &BTreeMap<u64, Vec<f64>>,
    into: &mut Experiment,
) {
    let x = if what == "region" { ("regions", "") } else { ("connections", "") };
    into.series.push(series("notified puts of 64 B, in turns", x, ("rate", "M/s"), rates));
    into.series.push(series("time to set one up", x, ("set-up", "us"), setup_us));
    let (Some(one), Some(all)) = (rates.first_key_value(), rates.last_key_value()) else { return };
    for (count, samples) in [one, all] {
        let plural = if *count == 1 { "" } else { "s" };
        into.facts.push(Fact::new(
            format!("rate with {count} {what}{plural}"),
            "M/s",
            samples.clone(),
        ));
    }
    if let Some((count, samples)) = setup_us.last_key_value() {
        let label = format!("set-up of one of {count} {what}s");
        into.facts.push(Fact::new(label, "us", samples.clone()));
    }
    let bound = match is_bounded {
        true => format!(" The link has no more than {} for this.", all.0),
        false => String::new(),
    };
    into.limit = format!(
        "With {} {what}s in turns {:.0} % of the rate with one {what} remains.{bound}",
        all.0,
        middle(all.1) / middle(one.1) * 100.0
    );
}
