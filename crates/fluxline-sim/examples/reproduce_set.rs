//! Demonstrates: the published numbers of one family of networks beside its models, and the models'
//! predictions.
//!
//! `cargo run --release -p fluxline-sim --example reproduce_set -- myrinet`

use std::error::Error;

use fluxline_sim::reproduce::Set;

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "atoll".to_owned());
    let comparison = Set::named(&name)?.compare()?;
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
