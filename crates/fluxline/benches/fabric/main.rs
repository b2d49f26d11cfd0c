//! The programming model: the cost of object safety, of a notification and of each push ring, and
//! the gain of batches.
//!
//! `cargo bench -p fluxline --bench fabric`; `-- puts`, `-- batch`, `-- notices` or `-- push` runs
//! one part.

mod batch;
#[path = "../../../fluxline-bench/src/statistics/median.rs"]
mod median;
mod notices;
mod push;
mod puts;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|of| of == word);
    if !has("--bench") {
        println!("fabric: a benchmark; run it by `cargo bench -p fluxline --bench fabric`");
        return;
    }
    let all = !["puts", "batch", "notices", "push"].iter().any(|part| has(part));
    if all || has("puts") {
        puts::measure();
    }
    if all || has("batch") {
        batch::measure();
    }
    if all || has("notices") {
        notices::measure();
    }
    if all || has("push") {
        push::measure();
    }
}
