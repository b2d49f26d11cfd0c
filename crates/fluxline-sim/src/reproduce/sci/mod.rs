//! SCI: SCINET's test stands, Trams' machines, and totals of rings and switches.

mod closed;
mod rings;
mod stand_a;
pub(super) mod stand_b;
mod trams;
mod values;

use super::pair::BadStand;
use super::set::{Facts, Run};

pub(super) use values::value;

/// Runs all models.
pub(super) fn run(facts: &Facts) -> Result<Run, BadStand> {
    let mut run = Run::default();
    stand_a::run(facts, &mut run)?;
    stand_b::run(facts, &mut run)?;
    trams::run(facts, &mut run)?;
    run.numbers.extend(rings::numbers()?);
    run.trials = vec![
        ("stand-b", stand_b::variants(facts)?),
        ("reads", stand_a::reads(facts)?),
        ("engine", trams::engines(facts)?),
    ];
    Ok(run)
}
