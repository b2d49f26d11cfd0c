//! Walks through all states of the coherence protocol: `coherence_states [caches] [values]`.

use fluxline_sim::net::sci::coherence::checker::{Bounds, explore};
use fluxline_sim::net::sci::coherence::respond::Mistake;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u8>());
    let caches = numbers.next().unwrap_or(Ok(3))?.clamp(1, 6);
    let values = numbers.next().unwrap_or(Ok(2))?.max(1);
    let bounds = Bounds { caches, values, states_max: 20_000_000, mistake: Mistake::None };
    let found = explore(&bounds)?;
    println!(
        "{caches} caches, 1 line, {values} values: {} states, {} steps, {} of the states quiet; every \
         invariant holds, and quiet can be reached from everywhere",
        found.states, found.steps, found.quiet
    );
    Ok(())
}
