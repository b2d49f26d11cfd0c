//! Prints the published numbers of SCI beside those of the models: the facts, each predicted,
//! calibrated or missed, and with `--curves` the figures.
//!
//! `cargo run --release -p fluxline-sim --example reproduce_sci [-- --curves]`

use fluxline_sim::reproduce::{Figure, Judged, Set};

fn main() {
    let curves = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--curves") => true,
        Some(other) => {
            eprintln!("reproduce_sci: `{other}` is unknown; give --curves or nothing");
            std::process::exit(2);
        }
    };
    let comparison = match Set::named("sci").map(Set::compare) {
        Ok(Ok(comparison)) => comparison,
        Ok(Err(problem)) => fail(&problem),
        Err(problem) => fail(&problem),
    };
    comparison.facts.iter().for_each(print_fact);
    println!("\n{}", comparison.verdict());
    if curves {
        comparison.figures.iter().for_each(print_curves);
    }
}

fn fail(problem: &dyn std::fmt::Display) -> ! {
    eprintln!("reproduce_sci: {problem}");
    std::process::exit(1);
}

fn print_fact(judged: &Judged) {
    let fact = judged.finding.fact;
    println!(
        "{:<10} {:>10.2} {:<4} of {:?}, {}: {}",
        judged.verdict.name(),
        judged.finding.model,
        fact.unit,
        fact.published,
        fact.place,
        fact.statement
    );
}

fn print_curves(figure: &Figure) {
    println!("\n{}: {}", figure.id, figure.title);
    println!(
        "  x: {} [{}], y: {} [{}]",
        figure.x.label, figure.x.unit, figure.y.label, figure.y.unit
    );
    for curve in &figure.curves {
        println!("  {}:", curve.name);
        for (x, y) in &curve.points {
            println!("    {x:>8.0} {y:>10.3}");
        }
    }
}
