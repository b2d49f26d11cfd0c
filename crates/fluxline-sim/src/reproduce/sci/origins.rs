//! The origin of every parameter of the machines and rings.

use super::super::fact::Fact;
use super::super::parameter::{Origin, Parameter, time};
use super::facts;
use crate::host::config::{Control, Posting};
use crate::host::{Config, preset};
use crate::net::sci::Preset;

/// A machine of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    A,
    B,
    Trams,
}

use Machine::{A, B, Trams};

impl Machine {
    fn config(self) -> Config {
        match self {
            A => preset::test_stand_a(),
            B => preset::test_stand_b(8),
            Trams => preset::trams(),
        }
    }
}

/// The origin of a quantity on some machines.
struct Mark {
    machines: &'static [Machine],
    origin: Origin,
    reason: &'static str,
    facts: &'static [&'static Fact],
}

/// A quantity of the machines.
struct Quantity {
    name: &'static str,
    value: fn(&Config) -> String,
    marks: &'static [Mark],
}

const ALL: &[Machine] = &[A, B, Trams];
const BOTH_STANDS: &[Machine] = &[A, B];

const fn mark(machines: &'static [Machine], origin: Origin, reason: &'static str) -> Mark {
    Mark { machines, origin, reason, facts: &[] }
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

const PROCESSOR: &[Quantity] = &[
    Quantity {
        name: "a call",
        value: |config| time(config.cpu.call),
        marks: &[mark(ALL, Origin::Assumed, "loop and call: 10 to 20 clocks")],
    },
    Quantity {
        name: "a store instruction",
        value: |config| format!("{}, {} B", time(config.cpu.store_word), config.cpu.word_bytes),
        marks: &[
            mark(&[A], Origin::Assumed, "as on stand B"),
            Mark {
                facts: &[&facts::MOST_B],
                ..mark(&[B], Origin::Calibrated, "6 clocks of 66.7 MHz")
            },
            mark(&[Trams], Origin::Assumed, "4 clocks of 350 MHz"),
        ],
    },
    Quantity {
        name: "write combining",
        value: combining,
        marks: &[
            mark(&[A], Origin::Assumed, "the driver could not combine"),
            mark(&[B], Origin::Background, "a Pentium has none"),
            mark(&[Trams], Origin::Source, "32 B; four: background; the time: assumed"),
        ],
    },
    Quantity {
        name: "slow-down while the engine runs",
        value: |config| format!("{} %", config.cpu.slow_down_percent),
        marks: &[
            mark(BOTH_STANDS, Origin::Assumed, "as published by Trams"),
            Mark {
                facts: &[&facts::SLOW_DOWN],
                ..mark(&[Trams], Origin::Published, "in the worst case")
            },
        ],
    },
    Quantity {
        name: "a poll sees memory after",
        value: |config| time(config.cpu.poll_notice),
        marks: &[mark(ALL, Origin::Background, "a cache miss")],
    },
    Quantity {
        name: "into the kernel",
        value: |config| time(config.software.kernel_entry),
        marks: &[
            Mark {
                facts: &[&facts::SET_UP],
                ..mark(&[A], Origin::Calibrated, "the sum of entry, return and kick")
            },
            mark(&[B], Origin::Background, "no fact depends on it"),
            Mark {
                facts: &[&facts::KERNEL_DMA],
                ..mark(&[Trams], Origin::Published, "4.5 us more on entry")
            },
        ],
    },
    Quantity {
        name: "back from the kernel",
        value: |config| time(config.software.kernel_return),
        marks: &[
            Mark { facts: &[&facts::SET_UP], ..mark(&[A], Origin::Calibrated, "the same sum") },
            mark(&[B], Origin::Background, "no fact depends on it"),
            Mark {
                facts: &[&facts::KERNEL_RETURN],
                ..mark(&[Trams], Origin::Published, "about 3 us")
            },
        ],
    },
    Quantity {
        name: "interrupt to program",
        value: |config| time(config.software.interrupt),
        marks: &[mark(ALL, Origin::Background, "10 to 30 us; no fact depends on it")],
    },
    Quantity {
        name: "read of the engine's status",
        value: |config| time(config.software.status_read),
        marks: &[mark(ALL, Origin::Assumed, "one load over PCI")],
    },
    Quantity {
        name: "error check after the barrier",
        value: |config| time(config.software.check),
        marks: &[
            mark(&[A], Origin::Assumed, "no fact depends on it"),
            Mark {
                facts: &[&facts::SMALL_CHECKED],
                ..mark(&[B], Origin::Calibrated, "11 to 12 us with the check")
            },
            mark(&[Trams], Origin::Assumed, "no fact depends on it"),
        ],
    },
];

const BUS: &[Quantity] = &[
    Quantity {
        name: "PCI bus",
        value: |config| {
            let bus = config.bus;
            format!("{} B, {:.1} MHz", bus.width_bytes, bus.clock.hertz() as f64 / 1e6)
        },
        marks: &[mark(ALL, Origin::Background, "PCI of these machines")],
    },
    Quantity {
        name: "overhead of a burst of stores",
        value: |config| format!("{} clocks", config.bus.store_clocks),
        marks: &[Mark {
            facts: &[&facts::STORES],
            ..mark(ALL, Origin::Calibrated, "background 4 to 5; 32 B in 13 clocks")
        }],
    },
    Quantity {
        name: "burst of stores without write combining",
        value: |config| format!("{} B", config.bus.store_burst_bytes),
        marks: &[mark(ALL, Origin::Assumed, "the posting buffer of chip sets of the time")],
    },
    Quantity {
        name: "overhead of a burst out of memory",
        value: |config| {
            format!("{} clocks for {} B", config.bus.read_clocks, config.bus.read_burst_bytes)
        },
        marks: &[Mark {
            facts: &[&facts::BUS_GAP],
            ..mark(ALL, Origin::Calibrated, "64 B: a block of the engine, assumed")
        }],
    },
    Quantity {
        name: "overhead of a burst into memory",
        value: |config| {
            format!("{} clocks for {} B", config.bus.write_clocks, config.bus.write_burst_bytes)
        },
        marks: &[mark(ALL, Origin::Background, "4 to 6 clocks for 64 B")],
    },
    Quantity {
        name: "posting buffer",
        value: |config| format!("{} bursts", config.bus.posted_bursts),
        marks: &[mark(ALL, Origin::Assumed, "no source")],
    },
    Quantity {
        name: "load; pause after a refusal",
        value: |config| {
            format!("{} clocks; {} clocks", config.bus.load_clocks, config.bus.retry_clocks)
        },
        marks: &[mark(ALL, Origin::Assumed, "a store and a turn-around; PCI's least pause")],
    },
];

const CARD: &[Quantity] = &[
    Quantity {
        name: "write streams",
        value: |config| format!("{} of {} B", config.card.streams, config.card.stream_bytes),
        marks: &[
            mark(&[A], Origin::Published, "8 write and 8 read buffers of 64 B"),
            mark(&[B], Origin::Published, "1, 2, 4 and 8 in figures 9 to 16"),
            mark(&[Trams], Origin::Source, "D310's software"),
        ],
    },
    Quantity {
        name: "stores and DMA cross as",
        value: posting,
        marks: &[
            mark(&[A], Origin::Published, "DMOVE64; free at once: Dolphin's header"),
            Mark {
                facts: &[&facts::SMALL_BLOCKS, &facts::LINEAR],
                ..mark(&[B], Origin::Calibrated, "against DMOVE64 in the paper: see the variants")
            },
            mark(&[Trams], Origin::Background, "the card's default"),
        ],
    },
    Quantity {
        name: "time to bind a stream to another block",
        value: |config| time(config.card.claim),
        marks: &[
            mark(&[A, Trams], Origin::Assumed, "no fact depends on it"),
            Mark {
                facts: &[&facts::FALL_ABOVE_512],
                ..mark(&[B], Origin::Calibrated, "34 MB/s above 512 B")
            },
        ],
    },
    Quantity {
        name: "through the card, each way",
        value: |config| {
            format!("{}, {}", time(config.card.out_latency), time(config.card.in_latency))
        },
        marks: &[Mark {
            facts: &[&facts::ONE_STREAM],
            ..mark(ALL, Origin::Calibrated, "background 400 to 600 ns")
        }],
    },
    Quantity {
        name: "internal bus",
        value: |config| format!("{} MB/s", config.card.internal_mb_per_s),
        marks: &[
            mark(BOTH_STANDS, Origin::Assumed, "as the link"),
            mark(&[Trams], Origin::Background, "64 bits at 50 MHz"),
        ],
    },
    Quantity {
        name: "prefetch of loads",
        value: |config| format!("{}", config.card.prefetch),
        marks: &[mark(ALL, Origin::Source, "Dolphin's header; no fact depends on it")],
    },
    Quantity {
        name: "stream sent without stores after",
        value: |config| time(config.card.gather_timeout),
        marks: &[mark(ALL, Origin::Assumed, "longer than a gap between stores")],
    },
    Quantity {
        name: "requests held from the network",
        value: |config| config.card.incoming_slots.to_string(),
        marks: &[mark(ALL, Origin::Assumed, "as many as streams")],
    },
    Quantity {
        name: "address translation",
        value: translation,
        marks: &[mark(ALL, Origin::Assumed, "up to 4096 entries in the card's memory: source")],
    },
];

const ENGINE: &[Quantity] = &[
    Quantity {
        name: "descriptors",
        value: control,
        marks: &[
            mark(BOTH_STANDS, Origin::Assumed, "the next one is written while one is under way"),
            mark(&[Trams], Origin::Source, "chained DMA; its size: assumed"),
        ],
    },
    Quantity {
        name: "a kick",
        value: |config| time(config.engine.kick),
        marks: &[
            Mark {
                facts: &[&facts::HALF_WRITES, &facts::SET_UP],
                ..mark(&[A], Origin::Calibrated, "half of the maximum at 64 B")
            },
            mark(&[B], Origin::Assumed, "no fact depends on it"),
            mark(&[Trams], Origin::Assumed, "four register writes"),
        ],
    },
    Quantity {
        name: "start of the engine",
        value: |config| time(config.engine.start),
        marks: &[
            mark(BOTH_STANDS, Origin::Assumed, "no source"),
            Mark {
                facts: &[&facts::USER_DMA],
                ..mark(&[Trams], Origin::Calibrated, "7 us without data")
            },
        ],
    },
    Quantity {
        name: "engine's own time for a block of 64 B",
        value: |config| time(config.engine.block),
        marks: &[
            Mark {
                facts: &[&facts::MOST_A],
                ..mark(&[A], Origin::Calibrated, "45 MB/s on both stands")
            },
            mark(&[B], Origin::Assumed, "the same card; no fact depends on it"),
            mark(&[Trams], Origin::Assumed, "the engine of SCINET's card"),
        ],
    },
    Quantity {
        name: "writes at once",
        value: |config| config.engine.writes_outstanding.to_string(),
        marks: &[
            mark(BOTH_STANDS, Origin::Published, "8 write buffers"),
            mark(&[Trams], Origin::Source, "8 streams"),
        ],
    },
    Quantity {
        name: "reads at once",
        value: |config| config.engine.reads_outstanding.to_string(),
        marks: &[
            Mark {
                facts: &[&facts::READ_RATIO, &facts::READ_STEEPER],
                ..mark(&[A], Origin::Calibrated, "a factor of 3.5; 8 read buffers are published")
            },
            mark(&[B, Trams], Origin::Assumed, "as on stand A; no fact depends on it"),
        ],
    },
];

const QUANTITIES: [&[Quantity]; 4] = [PROCESSOR, BUS, CARD, ENGINE];

fn name(machines: &[Machine]) -> &'static str {
    match machines {
        [A] => "stand A",
        [B] => "stand B",
        [Trams] => "Trams",
        [A, B] => "stands A, B",
        [A, Trams] => "stand A, Trams",
        [B, Trams] => "stand B, Trams",
        _ => "all machines",
    }
}

/// Returns the values of a quantity on some machines, equal ones once.
fn values(quantity: &Quantity, machines: &[Machine]) -> String {
    let mut values: Vec<String> =
        machines.iter().map(|machine| (quantity.value)(&machine.config())).collect();
    values.dedup();
    values.join("; ")
}

fn machines() -> Vec<Parameter> {
    let rows = QUANTITIES.into_iter().flatten().flat_map(|quantity| {
        quantity.marks.iter().map(move |mark| {
            Parameter::new(name(mark.machines), quantity.name, values(quantity, mark.machines))
                .from(mark.origin, mark.reason)
                .fixed_by(mark.facts)
        })
    });
    rows.collect()
}

fn rings() -> Vec<Parameter> {
    let rate = |preset: Preset| {
        let network = preset.network(crate::net::sci::Topology::Ring { nodes: 2 });
        format!("{} MB/s", 2 * network.clock.hertz() / 1_000_000)
    };
    let lc2 = Preset::Lc2.network(crate::net::sci::Topology::Ring { nodes: 2 });
    let symbols = |count: u32| time(lc2.clock.span(u64::from(count)));
    let new = Parameter::new;
    vec![
        new("rings", "link of LC-1 cards", rate(Preset::Lc1))
            .from(Origin::Published, "SCINET: 200 MB/s link controller"),
        new("rings", "link of LC-2 cards", rate(Preset::Lc2)).from(Origin::Background, "D31x"),
        new("rings", "a node passes a packet on after", symbols(lc2.pass_symbols))
            .from(Origin::Background, "60 ns, measured on D33x cards"),
        new("rings", "a cable", symbols(lc2.cable_symbols)).from(Origin::Background, "7 ns"),
        new("rings", "sends without an echo at once", lc2.unacknowledged.to_string())
            .from(Origin::Background, "a handful, low confidence"),
        new("rings", "send queue", lc2.send_queue.to_string()).from(Origin::Assumed, "no source"),
        new("rings", "queues for requests and responses", lc2.request_queue.to_string())
            .from(Origin::Assumed, "no source"),
        new("rings", "flow control and ageing", "on".to_string())
            .from(Origin::Background, "rules reconstructed: see the page on SCI"),
        new("rings", "a host's time for 64 B, each way", "800 ns".to_string())
            .from(Origin::Published, "Omang: 80 MB/s into a single system"),
    ]
}

/// Returns all parameters.
pub fn parameters() -> Vec<Parameter> {
    let mut all = machines();
    all.extend(rings());
    all
}

#[cfg(test)]
mod tests {
    use super::{Machine, QUANTITIES, Quantity};

    fn quantities() -> impl Iterator<Item = &'static Quantity> {
        QUANTITIES.into_iter().flatten()
    }

    #[test]
    fn each_quantity_has_one_origin_on_each_machine() {
        for quantity in quantities() {
            for machine in [Machine::A, Machine::B, Machine::Trams] {
                let marks = quantity.marks.iter().filter(|one| one.machines.contains(&machine));
                assert_eq!(marks.count(), 1, "{}, {machine:?}", quantity.name);
            }
        }
    }

    /// Does not compile when a machine gets a field: give the field a quantity, then list it.
    #[test]
    fn every_field_of_a_machine_has_a_quantity() {
        use crate::host::config::{Bus, Card, Config, Cpu, Engine, Software};
        let Config { cpu, bus, card, engine, software } = Machine::Trams.config();
        let Cpu {
            call: _,
            word_bytes: _,
            store_word: _,
            combining: _,
            slow_down_percent: _,
            poll_notice: _,
        } = cpu;
        let Bus {
            clock: _,
            width_bytes: _,
            store_burst_bytes: _,
            posted_bursts: _,
            store_clocks: _,
            load_clocks: _,
            retry_clocks: _,
            write_burst_bytes: _,
            write_clocks: _,
            read_burst_bytes: _,
            read_clocks: _,
        } = bus;
        let Card {
            streams: _,
            stream_bytes: _,
            claim: _,
            gather_timeout: _,
            posting: _,
            prefetch: _,
            out_latency: _,
            in_latency: _,
            internal_mb_per_s: _,
            incoming_slots: _,
            translation: _,
        } = card;
        let Engine {
            control: _,
            kick: _,
            start: _,
            block: _,
            writes_outstanding: _,
            reads_outstanding: _,
        } = engine;
        let Software { kernel_entry: _, kernel_return: _, interrupt: _, status_read: _, check: _ } =
            software;
        assert_eq!(quantities().count(), 32, "a quantity was added or removed: check this list");
    }
}
