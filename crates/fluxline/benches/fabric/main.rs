//! The programming model: what object safety costs, and what a push ring does on each path.
//!
//! `cargo bench -p fluxline --bench fabric`; `-- push` or `-- puts` runs one part.

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
    if !has("push") {
        puts::measure();
    }
    if !has("puts") {
        push::measure();
    }
}
