//! Demonstrates: several nodes send to one at once, with losses in the switch, and with pause
//! frames.
//!
//! `cargo run --release -p fluxline-sim --example ethernet_incast`

use std::error::Error;

use fluxline_sim::Agenda;
use fluxline_sim::core::interconnect::Interconnect;
use fluxline_sim::load::sweep::{Limits, measure};
use fluxline_sim::load::traffic::{Arrivals, Pattern, Plan, Size, Traffic};
use fluxline_sim::load::{Loaded, Settings};
use fluxline_sim::net::ethernet::{Config, Messages, Network};

fn main() -> Result<(), Box<dyn Error>> {
    println!("senders  pause   received Gb/s   mean latency us   lost messages");
    for senders in [1, 2, 4, 8] {
        for has_pause in [false, true] {
            let config = Config { queue_bytes: 256 << 10, ..Config::new(senders + 1) };
            let pause = config.lossless_pause().filter(|_| has_pause);
            // Each sender keeps 64 datagrams of a full frame under way.
            let plan = Plan {
                nodes: senders + 1,
                pattern: Pattern::HotReceiver { node: 0, share: 1.0 },
                arrivals: Arrivals::Window { messages: 64 },
                size: Size::Fixed(1472),
                seed: 1,
            };
            let mut agenda = Agenda::default();
            let network = Network::new(Config { pause, ..config })?;
            let (traffic, settings) = (Traffic::new(plan)?, Settings::default());
            let mut model = Loaded::new(network, Messages, traffic, &settings, &mut agenda);
            let ms = |count: u64| fluxline_sim::Duration::from_us(1000 * count);
            let limits = Limits { warm_up_first: ms(1), warm_up_max: ms(4), measured: ms(20) };
            let outcome = measure(&mut model, &mut agenda, &limits)?;
            println!(
                "{senders:7}  {:5}   {:13.3}   {:15.1}   {:13}",
                if has_pause { "on" } else { "off" },
                outcome.targets[0].delivered * 8.0 / 1e9,
                outcome.latency_ns.mean / 1e3,
                model.lost()
            );
            for loss in model.network().losses() {
                println!("         {}: {} frames", loss.place, loss.frames);
            }
        }
    }
    Ok(())
}
