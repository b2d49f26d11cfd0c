//! Demonstrates: the UDP stack of a PC in virtual time. A burst of datagrams meets receive buffers
//! of several sizes; then a stream shows the kinds of interrupt coalescing and the cores.
//!
//! `cargo run --release -p fluxline-sim --example udp_hosts`

use std::error::Error;

use fluxline_sim::Duration;
use fluxline_sim::net::ethernet::host::bench::{Bench, Cable, Length, Stream};
use fluxline_sim::net::ethernet::host::{Buffers, Card, Coalescing, Config, Costs, Place, preset};

const CABLE: Cable = Cable { bits_per_s: 10_000_000_000, mtu: 1500 };
/// The payload of a full frame [byte].
const BYTES: u32 = 1472;

fn main() -> Result<(), Box<dyn Error>> {
    println!("A burst of 2,000 datagrams to a program that works 5 us on each:\n");
    println!("receive buffer   received   lost in the socket");
    for kibibytes in [64, 256, 1024, 4096] {
        let host = preset::galli(1);
        let costs = Costs { receive_call: Duration::from_us(5), ..host.costs };
        let buffers = Buffers { receive_bytes: kibibytes << 10, ..host.buffers };
        let mut bench = Bench::new(CABLE, preset::galli(1), Config { costs, buffers, ..host })?;
        bench.burst(2_000, BYTES);
        let Some(machine) = bench.hosts().machine(1) else { continue };
        let counters = machine.counters();
        let lost = counters.lost(Place::Socket);
        println!("{kibibytes:10} KiB   {:8}   {lost:18}", counters.received);
    }

    println!("\nA stream as fast as possible, and a single message on an idle network:\n");
    println!("coalescing     Gb/s   irq %   softirq %   one way us");
    let time = Duration::from_us(25);
    for (name, receive) in [
        ("off", Coalescing::Off),
        ("delay 25", Coalescing::Delay { time, events: 0 }),
        ("throttle 25", Coalescing::Throttle { gap: time }),
    ] {
        let host = preset::galli(1);
        let receiver = Config { card: Card { receive, ..host.card }, ..host };
        let mut bench = Bench::new(CABLE, preset::galli(1), receiver)?;
        let one_way = bench.one_way(BYTES);
        let length =
            Length { warm_up: Duration::from_us(2_000), measured: Duration::from_us(10_000) };
        let streamed = bench.stream(&Stream { bytes: BYTES, period: Duration::ZERO, length });
        let core = streamed.receiver[0];
        println!(
            "{name:11}   {:6.2}   {:5.1}   {:9.1}   {:10.1}",
            streamed.gigabits_per_s(),
            100.0 * core.irq,
            100.0 * core.softirq,
            one_way.as_us()
        );
    }
    Ok(())
}
