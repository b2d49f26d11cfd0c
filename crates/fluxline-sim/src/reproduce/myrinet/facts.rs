//! The published numbers of Myrinet as data.

use super::super::fact::{Fact, NUMBER, SHAPE};

/// The papers and pages.
pub const GM: &str = "Myricom, GM";
pub const NEWS: &str = "Myricom, news";
pub const BUSES: &str = "Myricom, PCI-X";
pub const BURSTS: &str = "SISSA";
pub const TURNER: &str = "Turner";
pub const PAPER: &str = "Slogsnat";

/// Largest deviation of a number of ATOLL's paper.
const OF_TABLE: f64 = 0.05;
/// Largest deviation of the size with half of the rate.
const OF_HALF: f64 = 0.15;

const fn of_table(
    id: &'static str,
    statement: &'static str,
    number: f64,
    unit: &'static str,
) -> Fact {
    Fact {
        id,
        source: PAPER,
        place: "table, Myrinet",
        statement,
        unit,
        published: number..=number,
        tolerance: OF_TABLE,
    }
}

/// The latencies of the Myrinet column, by size.
pub static LATENCIES: [Fact; 6] = [
    of_table("myrinet-us-8", "D card, GM 2.0: latency of 8 B", 7.52, "us"),
    of_table("myrinet-us-64", "D card, GM 2.0: latency of 64 B", 8.01, "us"),
    of_table("myrinet-us-256", "D card, GM 2.0: latency of 256 B", 9.55, "us"),
    of_table("myrinet-us-1024", "D card, GM 2.0: latency of 1 KB", 14.08, "us"),
    of_table("myrinet-us-8192", "D card, GM 2.0: latency of 8 KB", 48.39, "us"),
    of_table("myrinet-us-262144", "D card, GM 2.0: latency of 256 KB", 1072.79, "us"),
];

/// The rates of the Myrinet column, by size.
pub static RATES: [Fact; 6] = [
    of_table("myrinet-mb-8", "D card, GM 2.0: rate of 8 B", 8.0, "Mb/s"),
    of_table("myrinet-mb-64", "D card, GM 2.0: rate of 64 B", 60.0, "Mb/s"),
    of_table("myrinet-mb-256", "D card, GM 2.0: rate of 256 B", 204.0, "Mb/s"),
    of_table("myrinet-mb-1024", "D card, GM 2.0: rate of 1 KB", 554.0, "Mb/s"),
    of_table("myrinet-mb-8192", "D card, GM 2.0: rate of 8 KB", 1291.0, "Mb/s"),
    of_table("myrinet-mb-262144", "D card, GM 2.0: rate of 256 KB", 1864.0, "Mb/s"),
];

const fn number(
    id: &'static str,
    place: &'static str,
    statement: &'static str,
    number: f64,
    unit: &'static str,
) -> Fact {
    let (source, published, tolerance) = (GM, number..=number, NUMBER);
    Fact { id, source, place, statement, unit, published, tolerance }
}

pub static SHORT: Fact =
    number("gm-short", "table, E card", "latency of a short message (8 B)", 5.05, "us");
pub static ONE_WAY: Fact =
    number("gm-one-way", "table, E card", "one way: messages of 1 MB", 495.0, "MB/s");
pub static BOTH_WAYS: Fact =
    number("gm-both-ways", "table, E card", "both ways: messages of 1 MB", 838.0, "MB/s");
pub static HALF: Fact = Fact {
    tolerance: OF_HALF,
    ..number("gm-half", "table, E card", "size of messages with half of the rate", 1486.0, "B")
};
pub static ONE_SWITCH: Fact =
    number("gm-switch", "text", "from LANai to LANai through one switch", 0.5, "us");
pub static LARGEST_CLOS: Fact = number(
    "gm-clos",
    "text",
    "from LANai to LANai across the largest Clos network (five switches assumed)",
    1.1,
    "us",
);
pub static FIRST_GM_2: Fact = Fact {
    source: NEWS,
    ..number("gm-first", "May 2003", "D card, first GM 2: a short message (8 B)", 6.3, "us")
};
/// "Closely approaching" has no number: 90 % is assumed.
pub static D_BOTH_WAYS: Fact = Fact {
    id: "gm-d-both-ways",
    source: NEWS,
    place: "May 2003",
    statement: "D card: both ways closely approach 500 MB/s, 450 or more",
    unit: "MB/s",
    published: 450.0..=500.0,
    tolerance: SHAPE,
};
pub static E_ON_FAST_BUS: Fact = Fact {
    source: NEWS,
    ..number(
        "gm-e-both-ways",
        "E card",
        "both ways, on a host that carries 985 MB/s (AMD 8131 assumed)",
        950.0,
        "MB/s",
    )
};
pub static OLD_SHORT: Fact = Fact {
    source: TURNER,
    ..number(
        "gm1-short",
        "text",
        "PCI64A card on PCI 32/33, GM 1.5: a short message (8 B), polling",
        16.0,
        "us",
    )
};
pub static OLD_RATE: Fact = Fact {
    source: TURNER,
    ..number(
        "gm1-rate",
        "figure 4",
        "PCI64A card on PCI 32/33, GM 1.5: the largest rate (8 MB)",
        810.0,
        "Mb/s",
    )
};
pub static BUS_READ: Fact = Fact {
    source: BUSES,
    ..number("pci-x-read", "GC-LE", "bursts of 4 KB out of memory", 780.0, "MB/s")
};
pub static BUS_WRITE: Fact = Fact {
    source: BUSES,
    ..number("pci-x-write", "GC-LE", "bursts of 4 KB into memory", 1044.0, "MB/s")
};
pub static BUS_MIXED: Fact = Fact {
    source: BUSES,
    ..number("pci-x-mixed", "GC-LE", "bursts of 4 KB out of and into memory", 899.0, "MB/s")
};
pub static BURST_256: Fact = Fact {
    source: BURSTS,
    ..number("pci-256", "PCI 64/66", "bursts of 256 B, slow direction", 147.0, "MB/s")
};
pub static BURST_512: Fact = Fact {
    source: BURSTS,
    ..number("pci-512", "PCI 64/66", "bursts of 512 B, slow direction", 227.0, "MB/s")
};
pub static BURST_FAST: Fact = Fact {
    source: BURSTS,
    ..number("pci-512-fast", "PCI 64/66", "bursts of 512 B, fast direction", 315.0, "MB/s")
};
