//! The published numbers of ATOLL as data.

use super::super::fact::{Fact, NUMBER, SHAPE};

/// The papers and pages.
pub const PAPER: &str = "Slogsnat";
pub const MAKERS: &str = "ATOLL's makers";

/// The sizes of the table \[byte\].
pub const SIZES: [u32; 6] = [8, 64, 256, 1024, 8192, 262_144];
/// Largest deviation of a number of the table.
const OF_TABLE: f64 = 0.05;

const fn latency(id: &'static str, statement: &'static str, us: f64) -> Fact {
    of_table(id, statement, us, "us")
}

const fn rate(id: &'static str, statement: &'static str, megabits: f64) -> Fact {
    of_table(id, statement, megabits, "Mb/s")
}

const fn of_table(
    id: &'static str,
    statement: &'static str,
    number: f64,
    unit: &'static str,
) -> Fact {
    Fact {
        id,
        source: PAPER,
        place: "table at 243 MHz",
        statement,
        unit,
        published: number..=number,
        tolerance: OF_TABLE,
    }
}

/// The latencies of the table, by size.
pub static LATENCIES: [Fact; 6] = [
    latency("atoll-us-8", "latency of 8 B", 4.88),
    latency("atoll-us-64", "latency of 64 B", 5.46),
    latency("atoll-us-256", "latency of 256 B", 6.72),
    latency("atoll-us-1024", "latency of 1 KB", 11.11),
    latency("atoll-us-8192", "latency of 8 KB", 48.76),
    latency("atoll-us-262144", "latency of 256 KB", 1237.85),
];

/// The rates of the table, by size.
pub static RATES: [Fact; 6] = [
    rate("atoll-mb-8", "rate of 8 B", 9.4),
    rate("atoll-mb-64", "rate of 64 B", 90.0),
    rate("atoll-mb-256", "rate of 256 B", 290.0),
    rate("atoll-mb-1024", "rate of 1 KB", 703.0),
    rate("atoll-mb-8192", "rate of 8 KB", 1281.0),
    rate("atoll-mb-262144", "rate of 256 KB", 1615.0),
];

pub static HOP: Fact = Fact {
    id: "atoll-hop",
    source: PAPER,
    place: "text",
    statement: "clocks of a hop",
    unit: "clocks",
    published: 27.0..=27.0,
    tolerance: NUMBER,
};
pub static BISECTION: Fact = Fact {
    id: "atoll-bisection",
    source: PAPER,
    place: "text",
    statement: "links of bisection of 16 nodes, the least over all halves",
    unit: "",
    published: 8.0..=8.0,
    tolerance: SHAPE,
};
pub static LONGEST: Fact = Fact {
    id: "atoll-longest",
    source: PAPER,
    place: "text",
    statement: "hops of the longest path of 16 nodes",
    unit: "",
    published: 4.0..=4.0,
    tolerance: SHAPE,
};
pub static ONE_SENDER: Fact = Fact {
    id: "atoll-sender",
    source: MAKERS,
    place: "home page",
    statement: "one process sends messages of 64 KB",
    unit: "MB/s",
    published: 221.0..=221.0,
    tolerance: NUMBER,
};
/// "Even for a few Kbytes" has no number: 4 KB and 90 % of the largest rate are assumed.
pub static FEW_KILOBYTES: Fact = Fact {
    id: "atoll-few-kb",
    source: MAKERS,
    place: "home page",
    statement: "the same rate even for a few KB: that of 4 KB over that of 64 KB, 0.9 or more",
    unit: "",
    published: 0.9..=1.0,
    tolerance: SHAPE,
};
pub static FOUR_SENDERS: Fact = Fact {
    id: "atoll-senders",
    source: MAKERS,
    place: "home page",
    statement: "four processes of one node send on PCI 64/66",
    unit: "MB/s",
    published: 400.0..=400.0,
    tolerance: NUMBER,
};
/// "Saturate" has no number: 95 % is assumed. The host is not named: the fastest one is taken.
pub static ALL_LINKS: Fact = Fact {
    id: "atoll-links",
    source: MAKERS,
    place: "technology page",
    statement: "PCI-X 133 can fill all four links: four processes over four times one process, on \
                the fastest host, 0.95 or more",
    unit: "",
    published: 0.95..=1.0,
    tolerance: SHAPE,
};
pub static FIRST_BYTES: Fact = Fact {
    id: "atoll-pio",
    source: MAKERS,
    place: "questions and answers",
    statement: "a few bytes from process to process (simulated by the makers; 8 B by PIO assumed)",
    unit: "us",
    published: 4.0..=4.0,
    tolerance: NUMBER,
};
