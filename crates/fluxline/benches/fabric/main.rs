//! The programming model: the cost of object safety, the gain of batches, and push rings on each
//! path.
//!
//! `cargo bench -p fluxline --bench fabric`; `-- push`, `-- puts` or `-- batch` runs one part.

mod batch;
#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;
mod push;
mod puts;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|of| of == word);
    if !has("--bench") {
        println!("fabric: a benchmark; run it by `cargo bench -p fluxline --bench fabric`");
        return;
    }
    let runs = |part: &str| has(part) || !["push", "puts", "batch"].iter().any(|of| has(of));
    if runs("puts") {
        puts::measure();
    }
    if runs("batch") {
        batch::measure();
    }
    if runs("push") {
        push::measure();
    }
}
