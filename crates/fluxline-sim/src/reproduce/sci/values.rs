//! The values of the parameters of machines and rings. Their origins are in the file.

use super::super::page::time;
use crate::host::config::{Control, Posting};
use crate::host::{Config, preset};
use crate::net::sci::{Preset, Topology};

/// A quantity of the machines.
type Quantity = (&'static str, fn(&Config) -> String);

fn stand_b() -> Config {
    preset::test_stand_b(8)
}

/// Returns the machines of a name.
fn machines(model: &str) -> &'static [fn() -> Config] {
    match model {
        "stand A" => &[preset::test_stand_a],
        "stand B" => &[stand_b],
        "Trams" => &[preset::trams],
        "stands A, B" => &[preset::test_stand_a, stand_b],
        "stand A, Trams" => &[preset::test_stand_a, preset::trams],
        "stand B, Trams" => &[stand_b, preset::trams],
        "all machines" => &[preset::test_stand_a, stand_b, preset::trams],
        _ => &[],
    }
}

/// Returns the value of a parameter; equal ones of several machines once.
pub fn value(model: &str, name: &str) -> Option<String> {
    if model == "rings" {
        return ring(name);
    }
    let of = QUANTITIES.iter().find(|quantity| quantity.0 == name)?.1;
    let mut values: Vec<String> = machines(model).iter().map(|config| of(&config())).collect();
    values.dedup();
    Some(values.join("; ")).filter(|values| !values.is_empty())
}

fn ring(name: &str) -> Option<String> {
    let network = |preset: Preset| preset.network(Topology::Ring { nodes: 2 });
    let rate = |preset| format!("{} MB/s", 2 * network(preset).clock.hertz() / 1_000_000);
    let lc2 = network(Preset::Lc2);
    let symbols = |count: u32| time(lc2.clock.span(u64::from(count)));
    Some(match name {
        "link of LC-1 cards" => rate(Preset::Lc1),
        "link of LC-2 cards" => rate(Preset::Lc2),
        "a node passes a packet on after" => symbols(lc2.pass_symbols),
        "a cable" => symbols(lc2.cable_symbols),
        "sends without an echo at once" => lc2.unacknowledged.to_string(),
        "send queue" => lc2.send_queue.to_string(),
        "queues for requests and responses" => lc2.request_queue.to_string(),
        _ => return None,
    })
}

fn control(config: &Config) -> String {
    match config.engine.control {
        Control::Registers { depth: 1 } => "1 set of registers".to_string(),
        Control::Registers { depth } => format!("{depth} sets of registers"),
        Control::List { bytes } => format!("list, {bytes} B each"),
    }
}

fn combining(config: &Config) -> String {
    config.cpu.combining.map_or("none".to_string(), |one| {
        format!("{} of {} B, out after {}", one.buffers, one.bytes, time(one.linger))
    })
}

fn posting(config: &Config) -> String {
    let text = match config.card.posting {
        Posting::Write => "writes",
        Posting::MoveUntilEcho => "moves, stream busy until the echo",
        Posting::Move => "moves, stream free at once",
    };
    text.to_string()
}

fn translation(config: &Config) -> String {
    let one = config.card.translation;
    format!("{} pages of {} B, miss {}", one.entries, one.page_bytes, time(one.miss))
}

const QUANTITIES: [Quantity; 32] = [
    ("a call", |config| time(config.cpu.call)),
    ("a store instruction", |config| {
        format!("{}, {} B", time(config.cpu.store_word), config.cpu.word_bytes)
    }),
    ("write combining", combining),
    ("slow-down while the engine runs", |config| format!("{} %", config.cpu.slow_down_percent)),
    ("a poll sees memory after", |config| time(config.cpu.poll_notice)),
    ("into the kernel", |config| time(config.software.kernel_entry)),
    ("back from the kernel", |config| time(config.software.kernel_return)),
    ("interrupt to program", |config| time(config.software.interrupt)),
    ("read of the engine's status", |config| time(config.software.status_read)),
    ("error check after the barrier", |config| time(config.software.check)),
    ("PCI bus", |config| {
        let bus = config.bus;
        format!("{} B, {:.1} MHz", bus.width_bytes, bus.clock.hertz() as f64 / 1e6)
    }),
    ("overhead of a burst of stores", |config| format!("{} clocks", config.bus.store_clocks)),
    ("burst of stores without write combining", |config| {
        format!("{} B", config.bus.store_burst_bytes)
    }),
    ("overhead of a burst out of memory", |config| {
        format!("{} clocks for {} B", config.bus.read_clocks, config.bus.read_burst_bytes)
    }),
    ("overhead of a burst into memory", |config| {
        format!("{} clocks for {} B", config.bus.write_clocks, config.bus.write_burst_bytes)
    }),
    ("posting buffer", |config| format!("{} bursts", config.bus.posted_bursts)),
    ("load; pause after a refusal", |config| {
        format!("{} clocks; {} clocks", config.bus.load_clocks, config.bus.retry_clocks)
    }),
    ("write streams", |config| {
        format!("{} of {} B", config.card.streams, config.card.stream_bytes)
    }),
    ("stores and DMA cross as", posting),
    ("time to bind a stream to another block", |config| time(config.card.claim)),
    ("through the card, each way", |config| {
        format!("{}, {}", time(config.card.out_latency), time(config.card.in_latency))
    }),
    ("internal bus", |config| format!("{} MB/s", config.card.internal_mb_per_s)),
    ("prefetch of loads", |config| format!("{}", config.card.prefetch)),
    ("stream sent without stores after", |config| time(config.card.gather_timeout)),
    ("requests held from the network", |config| config.card.incoming_slots.to_string()),
    ("address translation", translation),
    ("descriptors", control),
    ("a kick", |config| time(config.engine.kick)),
    ("start of the engine", |config| time(config.engine.start)),
    ("engine's own time for a block of 64 B", |config| time(config.engine.block)),
    ("writes at once", |config| config.engine.writes_outstanding.to_string()),
    ("reads at once", |config| config.engine.reads_outstanding.to_string()),
];

#[cfg(test)]
mod tests {
    use super::{QUANTITIES, machines};
    use crate::reproduce::Set;

    #[test]
    fn each_quantity_has_one_origin_on_each_machine() {
        let file = Set::named("sci").expect("a set").published().expect("a right file");
        for (name, _) in QUANTITIES {
            let here = file.parameters.iter().filter(|one| one.name == name);
            let mut at: Vec<_> = here.flat_map(|one| machines(&one.model)).map(|of| of()).collect();
            assert_eq!(at.len(), 3, "{name}");
            at.dedup();
            assert_eq!(at.len(), 3, "{name}: two origins on one machine");
        }
    }
}
