//! A line shared by more and more caches of an SCI ring: its list, and what a store costs then.

use fluxline_sim::net::sci::coherence::system::{IdleRing, LineData, System};
use fluxline_sim::net::sci::coherence::{CacheId, Operation};
use fluxline_sim::{Agenda, Clock, Duration, Fingerprint};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("1 GB/s ring of 32 nodes, 16 symbols a hop, caches and memory answer in 50 ns");
    println!("{:>8}  {:>12}  {:>8}  list", "sharers", "store", "packets");
    for sharers in [0, 1, 2, 4, 8, 16, 31] {
        let ring = IdleRing { nodes: 32, hop_symbols: 16, clock: Clock::from_hertz(500_000_000) };
        let mut system = System::new(32, 1, Duration::from_ns(50), ring);
        let (mut agenda, mut print) = (Agenda::default(), Fingerprint::default());
        for cache in 0..=sharers {
            system.begin(cache, 0, Operation::Load, &mut agenda)?;
            system.settle(&mut agenda, &mut print)?;
        }
        let list = drawn(&system.list(0));
        let before = system.counters();
        system.begin(sharers, 0, Operation::Store(LineData([1; 64])), &mut agenda)?;
        let done = system.settle(&mut agenda, &mut print)?;
        let after = system.counters();
        let requests = after.memory_requests + after.cache_requests
            - before.memory_requests
            - before.cache_requests;
        for one in done {
            let took = one.ended.since(one.began).to_string();
            println!("{sharers:>8}  {took:>12}  {:>8}  {list}", 2 * requests);
        }
    }
    Ok(())
}

fn drawn(list: &[CacheId]) -> String {
    let names: Vec<String> = list.iter().take(6).map(ToString::to_string).collect();
    let more = if list.len() > 6 { " <-> ..." } else { "" };
    format!("memory -> {}{more}", names.join(" <-> "))
}
