//! The soak: random operations from a seed for a given time, with a ledger.
//!
//! The run is made of slices, each a trial of some thousand operations (`Slice`). After each both
//! ends' ledgers must agree, and both processes' resident memory is noted. A failed
//! operation, a damaged byte, a ledger that does not close, or growing memory ends the run. Its
//! sentence has the slice's number and the seed to repeat it with.

mod far;
mod near;
mod slice;

use std::time::{Duration, Instant};

use serde_json::Value;

use self::slice::{Account, Ledger, SLOTS, Slice};
use super::show::{self, Samples, series};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact, axis};
use crate::role::{Role, Side, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "soak", make };
/// Operations of a slice: some milliseconds to some tenths of a second.
const SLICE_OPERATIONS: u64 = 2_000;
/// The first part of the run does not count for memory: caches fill, and tables.
const WARM_SHARE: f64 = 0.2;
/// The allowed growth of memory after that: a share of its size then, and a constant \[byte\] for a
/// process's own noise. Assumed: 2 % and 4 MiB; a leak of an hour grows a thousand times more.
const GROWTH_SHARE: f64 = 0.02;
const GROWTH_BYTES: f64 = (4 << 20) as f64;
/// The shortest run whose memory is judged \[s\]: in a shorter one a single allocation looks like a
/// leak. Assumed.
const JUDGED_SECONDS: f64 = 5.0;
/// Slices kept for the curve at most: its points are thinned evenly beyond.
const POINTS_MAX: usize = 400;

/// Makes one end. Errors: a slice that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let slice: Slice = show::task(parameters, "a soak")?;
    if slice.operations == 0 || slice.operations > 1 << 22 {
        return Err(Error::Input(format!("a soak cannot be {slice:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(near::Worker::new(slice)),
        Side::Far => Box::new(far::Witness::new(slice)),
    })
}

/// The state of the run.
#[derive(Default)]
struct Course {
    ledger: Ledger,
    operations: u64,
    got_bytes: u64,
    slices: u64,
    /// Seconds since it began, and resident bytes of near and far.
    resident: Vec<(f64, [u64; 2])>,
}

impl Course {
    /// Runs a slice; its ledgers must agree. Returns the resident memory of near and far \[byte\].
    fn slice(
        &mut self,
        environment: &mut dyn Environment,
        slice: &Slice,
    ) -> Result<[u64; 2], Error> {
        let (near, far) = show::trial::<Account>(environment, &TRIAL, slice)?;
        let far: Account = show::typed(far)?;
        if near.ledger != far.ledger || far.ledger.damaged > 0 {
            let what = format!(
                "slice {} (seed {}): near counts {:?}, far {:?}",
                self.slices, slice.seed, near.ledger, far.ledger
            );
            return Err(Error::Defect { what });
        }
        self.ledger = self.ledger.plus(near.ledger);
        self.operations += near.operations;
        self.got_bytes += near.got_bytes;
        self.slices += 1;
        Ok([near.resident_bytes, far.resident_bytes])
    }

    fn note(&mut self, seconds: f64, resident: [u64; 2]) {
        self.resident.push((seconds, resident));
        if self.resident.len() > POINTS_MAX {
            let mut index = 0;
            self.resident.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// The most that a process grew by after the warm part: bytes, and the bound \[byte\].
    fn growth(&self) -> [Option<(f64, f64)>; 2] {
        let Some((last, _)) = self.resident.last() else { return [None, None] };
        let warm = last * WARM_SHARE;
        [0, 1].map(|side| {
            let of = |(_, resident): &(f64, [u64; 2])| resident[side] as f64;
            // The most of the warm part: a process may need that much again.
            let warm_part = self.resident.iter().filter(|(at, _)| *at <= warm).map(of);
            let before = warm_part.fold(of(self.resident.first()?), f64::max);
            let after = self.resident.iter().filter(|(at, _)| *at > warm).map(of);
            let most = after.fold(0.0, f64::max);
            Some(((most - before).max(0.0), GROWTH_BYTES + GROWTH_SHARE * before))
        })
    }

    fn fill(&self, into: &mut Experiment) {
        for (side, name) in ["near", "far"].iter().enumerate() {
            let samples: Samples = self
                .resident
                .iter()
                .map(|(at, resident)| ((at * 1e3) as u64, vec![resident[side] as f64 / 1e6]))
                .collect();
            let mut curve = series(
                &format!("{name}'s resident memory"),
                axis("time", "s"),
                axis("memory", "MB"),
                &samples,
            );
            for point in &mut curve.points {
                point.x /= 1e3;
            }
            into.series.push(curve);
        }
        let facts = [
            ("operations completed", self.operations as f64, ""),
            ("puts, each compared", self.ledger.puts as f64, ""),
            ("bytes put and compared", self.ledger.put_bytes as f64 / 1e6, "MB"),
            ("bytes got and compared", self.got_bytes as f64 / 1e6, "MB"),
            ("messages, each compared", self.ledger.messages as f64, ""),
            ("connections that came and went", self.ledger.connections as f64, ""),
            ("slices whose ledgers agree", self.slices as f64, ""),
        ];
        into.facts.extend(facts.map(|(label, value, unit)| Fact::new(label, unit, vec![value])));
        for (name, growth) in ["near", "far"].iter().zip(self.growth()) {
            let Some((bytes, bound)) = growth else { continue };
            let label = format!("{name}'s memory grew after the first fifth by");
            let grew = Fact::new(label, "MB", vec![bytes / 1e6]);
            into.facts.push(grew.beside("bound", Some(bound / 1e6)));
        }
    }

    /// Returns true if it ran long enough to judge memory.
    fn is_judged(&self) -> bool {
        self.resident.last().is_some_and(|(last, _)| *last >= JUDGED_SECONDS)
    }

    /// Errors: a process grew beyond the bound.
    fn check_growth(&self) -> Result<(), Error> {
        if !self.is_judged() {
            return Ok(());
        }
        for (name, growth) in ["near", "far"].iter().zip(self.growth()) {
            if let Some((bytes, bound)) = growth.filter(|(bytes, bound)| bytes > bound) {
                let (grew, bound) = (bytes / 1e6, bound / 1e6);
                let what = format!("{name}'s memory grew by {grew:.1} MB, beyond {bound:.1} MB");
                return Err(Error::Defect { what });
            }
        }
        Ok(())
    }
}

/// Slices until the time is up.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let mut course = Course::default();
    let ended = go_on(environment, plan, &mut course);
    course.fill(into);
    let memory = match course.is_judged() {
        true => String::new(),
        false => format!(" Shorter than {JUDGED_SECONDS} s: memory is shown, not judged."),
    };
    into.limit =
        format!("{} operations, {SLOTS} at a time, each compared.{memory}", course.operations);
    ended.and_then(|()| course.check_growth())
}

fn go_on(environment: &mut dyn Environment, plan: &Plan, course: &mut Course) -> Result<(), Error> {
    let limit = Duration::from_secs_f64(plan.soak_seconds);
    let began = Instant::now();
    loop {
        let passed = began.elapsed();
        environment.progress(passed.as_secs() as usize, limit.as_secs() as usize, "soak");
        environment.stop().check()?;
        if passed >= limit && course.slices > 0 {
            return Ok(());
        }
        let slice = Slice {
            seed: plan.seed.wrapping_add(course.slices),
            operations: SLICE_OPERATIONS,
            connections_permille: 2,
        };
        let resident = course.slice(environment, &slice)?;
        course.note(began.elapsed().as_secs_f64(), resident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose far process has that much after each second \[MB\].
    fn course(far_mb: impl IntoIterator<Item = u64>) -> Course {
        let resident = far_mb.into_iter().enumerate();
        let resident = resident.map(|(at, mb)| (at as f64, [50_000_000, mb * 1_000_000]));
        Course { resident: resident.collect(), ..Course::default() }
    }

    #[test]
    fn a_slow_leak_ends_a_soak_and_a_warm_up_does_not() {
        let leak = course((0..100).map(|second| 50 + second / 5)).check_growth();
        let said = leak.expect_err("20 MB in 100 s").to_string();
        assert!(said.contains("far's memory grew by"), "{said}");
        let warm = course((0..100).map(|second| if second < 10 { 50 + second } else { 60 }));
        assert!(warm.check_growth().is_ok(), "it only filled its tables");
    }

    #[test]
    fn a_run_of_a_moment_shows_memory_and_does_not_judge_it() {
        let short = course([50, 50, 90]);
        assert!(short.check_growth().is_ok());
        assert_eq!(short.growth()[1].map(|(grew, _)| grew), Some(40e6));
        let long = course([50; 5].into_iter().chain([90]));
        assert!(long.check_growth().is_err(), "as much, and long enough");
    }
}
