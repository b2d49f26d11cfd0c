//! Prints what ringlets should do beside what the model does.
//!
//! `cargo run --release -p fluxline-sim --example validate_sci`

fn main() {
    match fluxline_sim::reproduce::validation::all() {
        Ok(rows) => {
            for row in rows {
                let (least, most) = (*row.expected.start(), *row.expected.end());
                let verdict = if row.held { "held" } else { "MISSED" };
                println!(
                    "{:<4} {verdict:<7} {:>8.2}  {least} to {most}  {}",
                    row.id, row.got, row.text
                );
            }
        }
        Err(problem) => {
            eprintln!("validate_sci: a preset cannot be: {problem}");
            std::process::exit(1);
        }
    }
}
