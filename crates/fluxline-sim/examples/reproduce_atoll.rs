//! Demonstrates: ATOLL's published numbers beside the model, and its predictions for other clocks.
//! One number of a short message is calibrated, the latency of 8 bytes at 243 MHz.
//!
//! `cargo run --release -p fluxline-sim --example reproduce_atoll`

use std::error::Error;

use fluxline_sim::reproduce::Set;

fn main() -> Result<(), Box<dyn Error>> {
    let comparison = Set::named("atoll")?.compare()?;
    for judged in &comparison.facts {
        let (fact, model) = (judged.finding.fact, judged.finding.model);
        println!(
            "{:>9.2} {:6} published {:>7}, {:+6.1} %, {}: {}",
            model,
            fact.unit,
            fact.published.end(),
            100.0 * judged.deviation,
            judged.verdict.name(),
            fact.statement,
        );
    }
    for trials in &comparison.trials {
        println!("\n{}\n{}", trials.title, trials.columns.join(" | "));
        for row in &trials.rows {
            println!("{}", row.join(" | "));
        }
    }
    println!("\n{}", comparison.verdict());
    Ok(())
}
