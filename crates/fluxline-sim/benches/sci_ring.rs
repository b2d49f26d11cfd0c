//! The speed of simulated ringlets: packet-link-hops (sends and echoes, each link of their way one
//! hop) a second of CPU time, one thread; with a fingerprint of all entries, by which two versions
//! can be seen to do the same. `cargo bench -p fluxline-sim --bench sci_ring`
//! Parts: `-- ring-8 ring-64 8x8 8x8x8 64x64 16x16x16`.
#[path = "../tests/all/support/sci_load.rs"]
mod sci_load;

use std::fs;

use fluxline_sim::net::sci::{Command, Config, NodeId, Topology};
use sci_load::{Load, wide};

/// Share of the links' symbols that packets take.
const LOAD: f64 = 0.5;

/// CPU time of this thread: other load on the machine does not count.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/schedstat").expect("Linux with scheduler statistics");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.expect("a number") / 1e9
}

fn measure(name: &str, config: &Config, rate: f64, ticks: u64) {
    let mut load = Load::uniform(config, Some(rate), Command::Move64, 1);
    load.run(ticks / 10);
    let (before, entries) = (load.network.total(), load.entries);
    let start = cpu_seconds();
    load.run(ticks);
    let seconds = cpu_seconds() - start;
    let after = load.network.total();
    let hops = (after.packets_out - before.packets_out) as f64;
    let sends = (after.sends_out - before.sends_out) as f64;
    let symbols = (after.symbols_out - before.symbols_out) as f64 + hops;
    let ports = load.network.ports_of(fluxline_sim::net::sci::NodeIndex(0)).len() as f64;
    let links = config.addresses.len() as f64 * ports;
    println!(
        "{name}: {:.2} M hops/s ({:.2} M of sends), link load {:.1} %, {:.2} entries a hop, \
         fingerprint {}",
        hops / seconds / 1e6,
        sends / seconds / 1e6,
        100.0 * symbols / (links * (ticks - ticks / 10) as f64),
        (load.entries - entries) as f64 / hops,
        load.fingerprint,
    );
}

/// A torus that is loaded so that its links are about half busy.
fn torus(name: &str, sizes: &[u32], rate: f64) {
    let topology = Topology::Torus { sizes: sizes.to_vec() };
    let nodes = sizes.iter().product::<u32>();
    let addresses = (0..nodes).map(|node| NodeId(node as u16)).collect();
    let bus = Some(fluxline_sim::net::sci::Bus { bytes_per_second: 100_000_000_000, delay: 0 });
    let config = Config { topology, addresses, bus, ..wide(2, true) };
    let ticks = 40_960_000 / u64::from(nodes);
    measure(name, &config, rate, ticks);
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|part| part != "--bench").collect();
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    for nodes in [8, 64] {
        // A node's sends take (41 + 5) / 2 symbols of each link, for every node of the ring.
        let rate = LOAD * 2.0 / 46.0 / f64::from(nodes);
        let ticks = 64_000_000 / u64::from(nodes);
        let name = format!("ring-{nodes}");
        if is_wanted(&name) {
            measure(&name, &wide(nodes, true), rate, ticks);
        }
    }
    for sizes in [&[8, 8][..], &[8, 8, 8], &[64, 64], &[16, 16, 16]] {
        // As on a ring: a packet goes once around each dimension, its send and its echo together.
        let side = f64::from(sizes[0]);
        let name = sizes.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        if is_wanted(&name) {
            torus(&name, sizes, LOAD * 2.0 / 46.0 / side);
        }
    }
}
