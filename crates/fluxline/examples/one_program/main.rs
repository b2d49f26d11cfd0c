//! Demonstrates: one program, whose link is chosen by its URLs alone.
//!
//! ```sh
//! run() { cargo run --release -p fluxline --example one_program -- "$@"; }
//! run shm://lab/a shm://lab/b shm://lab/c
//! run udp://127.0.0.1:4801 udp://127.0.0.1:4802 udp://127.0.0.1:4803
//! run "sim:sci/lab/a?nodes=3&seed=7" "sim:sci/lab/b?nodes=3&seed=7" "sim:sci/lab/c?nodes=3&seed=7"
//! run --only 0 udp://10.0.0.7 udp://10.0.0.8      # on one host
//! run --only 1 udp://10.0.0.7 udp://10.0.0.8      # on the other one
//! ```
//!
//! Each URL is a node, on a thread of its own. The result is the same on every link; the time is
//! the link's: that of the host, or virtual time.

mod program;

use std::error::Error;

use program::Outcome;

fn main() -> Result<(), Box<dyn Error>> {
    fluxline_sim::register(); // for URLs sim:
    let mut urls: Vec<String> = std::env::args().skip(1).collect();
    let mut only = None;
    if urls.first().is_some_and(|first| first == "--only") {
        let place: usize = urls.get(1).ok_or("--only needs a node, from 0")?.parse()?;
        urls.drain(..2);
        only = Some(place);
    }
    if urls.len() < 2 || only.is_some_and(|place| place >= urls.len()) {
        return Err("write two URLs or more, one for each node; --only N runs node N alone".into());
    }
    let places = only.map_or(0..urls.len(), |place| place..place + 1);
    let urls = &urls;
    let outcomes: Vec<Result<Outcome, String>> = std::thread::scope(|scope| {
        let run = |place| scope.spawn(move || program::run(urls, place).map_err(|e| e.to_string()));
        let threads: Vec<_> = places.clone().map(run).collect();
        let panicked = |_| Err("it panicked".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    for (place, outcome) in places.zip(outcomes) {
        let outcome = outcome.map_err(|error| format!("{}: {error}", urls[place]))?;
        println!("{}: {outcome}", urls[place]);
    }
    Ok(())
}
