//! Prints what two papers on SCI measured beside what the models of their machines say.
//!
//! `cargo run --release -p fluxline-sim --example reproduce_sci [-- --curves]`

use fluxline_sim::reproduce::{self, Fact, Figure, Kind};

fn main() {
    let curves = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--curves") => true,
        Some(other) => {
            eprintln!("reproduce_sci: `{other}` is unknown; give --curves or nothing");
            std::process::exit(2);
        }
    };
    match reproduce::all() {
        Ok(figures) => print(&figures, curves),
        Err(problem) => {
            eprintln!("reproduce_sci: a preset cannot be: {problem}");
            std::process::exit(1);
        }
    }
}

fn print(figures: &[Figure], curves: bool) {
    for figure in figures {
        println!("\n{}: {}", figure.id, figure.title);
        println!("  {:>16} {:>10} {:>8}  {:<10}  fact", "paper", "model", "off by", "");
        figure.facts.iter().for_each(print_fact);
        if curves {
            print_curves(figure);
        }
    }
    let facts: Vec<&Fact> = figures.iter().flat_map(|figure| &figure.facts).collect();
    let count = |of: fn(&Fact) -> bool| facts.iter().filter(|fact| of(fact)).count();
    println!(
        "\n{} facts: {} held, of these {} by calibration; {} missed",
        facts.len(),
        count(|fact| fact.holds),
        count(|fact| fact.holds && fact.calibrated),
        count(|fact| !fact.holds)
    );
}

fn print_fact(fact: &Fact) {
    let (least, most) = (*fact.paper.start(), *fact.paper.end());
    let paper = match most {
        most if least == most => format!("{least}"),
        most if most.is_infinite() => format!(">= {least}"),
        most => format!("{least} to {most}"),
    };
    let verdict = match (fact.holds, fact.calibrated) {
        (true, false) => "held",
        (true, true) => "calibrated",
        (false, _) => "MISSED",
    };
    let deviation = match fact.kind {
        Kind::Number => format!("{:+.1} %", fact.deviation * 100.0),
        Kind::Shape => String::from("-"),
    };
    println!("  {paper:>16} {:>10.2} {deviation:>8}  {verdict:<10}  {}", fact.model, fact.text);
}

fn print_curves(figure: &Figure) {
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
