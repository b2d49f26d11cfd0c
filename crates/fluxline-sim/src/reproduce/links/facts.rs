//! The published numbers of QsNet II and InfiniBand as data.

use super::super::fact::{Fact, NUMBER};

/// The papers and pages.
pub const QUADRICS: &str = "Quadrics";
pub const LIU: &str = "Liu";
pub const PCIE: &str = "Liu, PCI Express";
pub const NETPIPE: &str = "Turner";

const fn number(
    id: &'static str,
    source: &'static str,
    statement: &'static str,
    number: f64,
    unit: &'static str,
) -> Fact {
    let (place, published, tolerance) = ("text", number..=number, NUMBER);
    Fact { id, source, place, statement, unit, published, tolerance }
}

pub static QSNET_RATE: Fact = Fact {
    published: 900.0..=912.0,
    ..number("qsnet-rate", QUADRICS, "QsNet II: MPI on PCI-X, long messages", 900.0, "MB/s")
};
pub static QSNET_SHORT: Fact =
    number("qsnet-short", QUADRICS, "QsNet II: MPI, the shortest latency (8 B)", 1.22, "us");
pub static INFINIBAND_RATE: Fact =
    number("ib-rate", LIU, "4X SDR: MPI, long messages", 841.0, "MB/s");
pub static INFINIBAND_SHORT: Fact =
    number("ib-short", LIU, "4X SDR: MPI, latency of a short message (8 B)", 6.8, "us");
pub static INFINIBAND_PCIE: Fact =
    number("ib-pcie", PCIE, "4X SDR on PCI Express x8: MPI, a short message (8 B)", 4.1, "us");
pub static INFINIBAND_NETPIPE: Fact =
    number("ib-netpipe", NETPIPE, "4X SDR: ping-pong of 8 MB, in cache", 6500.0, "Mb/s");
