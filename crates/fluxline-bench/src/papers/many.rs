//! Many connections and many regions: crowds of rising size, in turns.

use super::crowd::{self, Crowd, Crowded};
use super::show::{self, Samples, middle, series};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact, axis};

/// Sizes of crowds: with `--quick`, and without. Source: the "1 to 1,000".
const CROWDS: [&[u64]; 2] = [&[1, 10, 100], &[1, 3, 10, 30, 100, 300, 1000]];
/// Puts of a trial: with `--quick`, and without.
const PUTS: [u64; 2] = [2_000, 50_000];
/// Bytes of a put.
const BYTES: u64 = 64;

/// Measures many connections.
pub fn connections(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let most = environment.capabilities()?.map_or(0, |can| u64::from(can.endpoints_max));
    // One is taken: the one that trials run over.
    let crowd = |number| Crowd { connections: number, regions: 1, bytes: BYTES, puts: 0 };
    let kind = Kind { name: "connection", most: most.saturating_sub(1), crowd: &crowd };
    run(environment, plan, &kind, into)
}

/// Measures many regions.
pub fn regions(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let most = environment.capabilities()?.map_or(0, |can| u64::from(can.regions_max));
    // Over a connection that ends with the trial, and its imports with it.
    let crowd = |number| Crowd { connections: 1, regions: number, bytes: BYTES, puts: 0 };
    let kind = Kind { name: "region", most: most.saturating_sub(1), crowd: &crowd };
    run(environment, plan, &kind, into)
}

/// The things of which there are many.
struct Kind<'a> {
    name: &'static str,
    /// The most that the link has.
    most: u64,
    /// Makes a crowd of that number.
    crowd: &'a dyn Fn(u64) -> Crowd,
}

/// The link's capacity for more of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Capacity {
    Left,
    Full,
}

/// The measurements by the size of the crowd.
#[derive(Default)]
struct Measured {
    /// Time to set one up \[us\].
    setup_us: Samples,
    /// Notified puts \[M/s\].
    rates: Samples,
}

fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    kind: &Kind<'_>,
    into: &mut Experiment,
) -> Result<(), Error> {
    let planned = CROWDS[usize::from(!plan.quick)];
    let mut sizes: Vec<u64> = planned.iter().copied().filter(|size| *size <= kind.most).collect();
    let largest = planned.last().copied().unwrap_or(1);
    if kind.most > 0 && kind.most < largest && !sizes.contains(&kind.most) {
        sizes.push(kind.most);
    }
    let mut measured = Measured::default();
    let ended = measured.rounds(environment, plan, kind, &sizes);
    let reached = measured.rates.last_key_value().map_or(0, |(size, _)| *size);
    let limit = if reached < largest { " The link has no more." } else { "" };
    measured.fill(kind.name, limit, into);
    ended
}

impl Measured {
    fn rounds(
        &mut self,
        environment: &mut dyn Environment,
        plan: &Plan,
        kind: &Kind<'_>,
        sizes: &[u64],
    ) -> Result<(), Error> {
        for round in 0..plan.rounds as usize {
            for (index, size) in sizes.iter().enumerate() {
                let (done, all) = (round * sizes.len() + index, plan.rounds as usize * sizes.len());
                environment.progress(done, all, &format!("{size} {}s", kind.name));
                if self.size(environment, plan, kind, *size)? == Capacity::Full {
                    break;
                }
            }
        }
        Ok(())
    }

    fn size(
        &mut self,
        environment: &mut dyn Environment,
        plan: &Plan,
        kind: &Kind<'_>,
        size: u64,
    ) -> Result<Capacity, Error> {
        let puts = PUTS[usize::from(!plan.quick)];
        let crowd = Crowd { puts: puts.max(size * 4), ..(kind.crowd)(size) };
        let (crowded, far) = show::trial::<Crowded>(environment, &crowd::TRIAL, &crowd)?;
        if far["heard"].as_u64() != Some(crowd.puts) {
            let what = format!("{} of {} puts were notified", far["heard"], crowd.puts);
            return Err(Error::Defect { what });
        }
        // As many as there were: the peer may take fewer than this end could have.
        let is_full = crowded.connections < crowd.connections;
        let size = if is_full { crowded.connections } else { size };
        let us = crowded.setup_seconds * 1e6 / size as f64;
        self.setup_us.entry(size).or_default().push(us);
        self.rates.entry(size).or_default().push(crowd.puts as f64 / crowded.seconds / 1e6);
        Ok(if is_full { Capacity::Full } else { Capacity::Left })
    }

    fn fill(&self, what: &str, limit: &str, into: &mut Experiment) {
        let Measured { setup_us, rates } = self;
        let plural = format!("{what}s");
        let x = axis(&plural, "");
        into.series.push(series("notified puts of 64 B, in turns", x, axis("rate", "M/s"), rates));
        into.series.push(series("time to set one up", x, axis("set-up", "us"), setup_us));
        let (Some(one), Some(all)) = (rates.first_key_value(), rates.last_key_value()) else {
            return;
        };
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
        into.limit = format!(
            "With {} {what}s in turns {:.0} % of the rate with one {what} remains.{limit}",
            all.0,
            middle(all.1) / middle(one.1) * 100.0
        );
    }
}
