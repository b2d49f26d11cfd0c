//! Demonstrates: the shortest programs that move records, on any link.
//!
//! ```sh
//! run() { cargo run --release -p fluxline --example short -- "$@"; }
//! run consumer shm://lab/consumer                            # in one terminal
//! run sensor shm://lab/sensor consumer                       # in another
//! run consumer udp://127.0.0.1:4801
//! run sensor udp://127.0.0.1:4802 127.0.0.1:4801
//! ```

mod program;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    fluxline_sim::register(); // for URLs sim:
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sensor", url, peer] => program::sensor(url, peer, 100_000),
        ["consumer", url] => {
            let (records, sum) = program::consumer(url)?;
            println!("{records} records, sum of their first bytes {sum}");
            Ok(())
        }
        _ => Err("write: sensor URL PEER, or: consumer URL".into()),
    }
}
