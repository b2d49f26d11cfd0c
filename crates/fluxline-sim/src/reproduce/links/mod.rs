//! QsNet II and InfiniBand: link models, and the few published results that they are compared with.

mod origins;

use super::atoll::megabits;
use super::fact::{Fact, Finding, NUMBER};
use super::figure::{Axis, Curve, Figure};
use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source, Trials};
use crate::Duration;
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::measure::{Streams, one_way};
use crate::net::myrinet::other::{self, Rate};

/// The published results of QsNet II and InfiniBand.
pub const SET: Set = Set {
    name: "links",
    title: "QsNet II and InfiniBand as link models",
    sources: &SOURCES,
    gaps: &GAPS,
    run,
};

const QUADRICS: &str = "Quadrics";
const LIU: &str = "Liu";
const PCIE: &str = "Liu, PCI Express";
const NETPIPE: &str = "Turner";

const SOURCES: [Source; 4] = [
    Source { name: QUADRICS, title: "Quadrics: descriptions of QsNet II, 2003" },
    Source {
        name: LIU,
        title: "Liu et al.: Performance comparison of MPI implementations over InfiniBand, \
                Myrinet and Quadrics, SC 2003 (numbers remembered, unchecked)",
    },
    Source {
        name: PCIE,
        title: "Liu et al.: Performance evaluation of InfiniBand with PCI Express, IEEE Micro, \
                2005 (abstract)",
    },
    Source { name: NETPIPE, title: "Turner et al.: NetPIPE with InfiniBand, 2003" },
];

const GAPS: [Gap; 3] = [
    Gap {
        source: QUADRICS,
        statement: "fat trees of Elite switches with 8 links and two virtual channels",
        reason: "the model has the switches of Myrinet's Clos network, and one channel",
    },
    Gap {
        source: LIU,
        statement: "the processor's share of 6.8 us: 1.7 us",
        reason: "a parameter of the model, not a result",
    },
    Gap {
        source: NETPIPE,
        statement: "4400 Mb/s out of the processor's cache",
        reason: "the model has no cache",
    },
];

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

static QSNET_RATE: Fact = Fact {
    published: 900.0..=912.0,
    ..number("qsnet-rate", QUADRICS, "QsNet II: MPI on PCI-X, long messages", 900.0, "MB/s")
};
static QSNET_SHORT: Fact =
    number("qsnet-short", QUADRICS, "QsNet II: MPI, the shortest latency (8 B)", 1.22, "us");
static INFINIBAND_RATE: Fact =
    number("ib-rate", LIU, "4X SDR: MPI, long messages", 841.0, "MB/s");
static INFINIBAND_SHORT: Fact =
    number("ib-short", LIU, "4X SDR: MPI, latency of a short message (8 B)", 6.8, "us");
static INFINIBAND_PCIE: Fact =
    number("ib-pcie", PCIE, "4X SDR on PCI Express x8: MPI, a short message (8 B)", 4.1, "us");
static INFINIBAND_NETPIPE: Fact =
    number("ib-netpipe", NETPIPE, "4X SDR: ping-pong of 8 MB, in cache", 6500.0, "Mb/s");

/// Returns the hosts of QsNet II.
fn qsnet() -> Config {
    other::qsnet2(2, other::bus_of_qsnet())
}

/// Returns the hosts of InfiniBand: GC-LE, PCI-X 133.
fn infiniband() -> Config {
    other::infiniband(2, Rate::Sdr, preset::pci_x_133())
}

/// Returns the rate of a stream \[MB/s\].
fn stream(config: &Config, call: Duration, bytes: u32) -> Result<f64, BadStand> {
    let count = (1_u32 << 23).div_ceil(bytes).min(400);
    let streams = Streams { bytes, count, outstanding: 16, call, both_ways: false };
    Ok(streams.rate(config)?)
}

fn findings() -> Result<Vec<Finding>, BadStand> {
    let (elan, hca) = (other::CALL_QSNET, other::CALL_INFINIBAND);
    let pcie = other::infiniband(2, Rate::Sdr, preset::pcie(2_000));
    let long = 1 << 20;
    let ping_pong = one_way(&infiniband(), hca, 8 * long)?.as_us();
    Ok(vec![
        QSNET_RATE.model(stream(&qsnet(), elan, long)?),
        QSNET_SHORT.model(one_way(&qsnet(), elan, 8)?.as_us()),
        INFINIBAND_RATE.model(stream(&infiniband(), hca, long)?),
        INFINIBAND_SHORT.model(one_way(&infiniband(), hca, 8)?.as_us()),
        INFINIBAND_PCIE.model(one_way(&pcie, hca, 8)?.as_us()),
        INFINIBAND_NETPIPE.model(megabits(8 * long, ping_pong)),
    ])
}

fn figures() -> Result<Vec<Figure>, BadStand> {
    let mut curves = Vec::new();
    for (name, config, call) in [
        ("QsNet II", qsnet(), other::CALL_QSNET),
        ("InfiniBand 4X SDR", infiniband(), other::CALL_INFINIBAND),
    ] {
        let mut points = Vec::new();
        for bits in 6..=20 {
            points.push((f64::from(1 << bits), stream(&config, call, 1 << bits)?));
        }
        curves.push(Curve { name: name.to_string(), points });
    }
    Ok(vec![Figure {
        id: "links-streams",
        title: "streams of messages from one host",
        x: Axis { label: "message", unit: "B", log: true },
        y: Axis { label: "rate", unit: "MB/s", log: false },
        curves,
        points: Vec::new(),
    }])
}

fn rates() -> Result<Trials, BadStand> {
    let call = other::CALL_INFINIBAND;
    let mut rows = Vec::new();
    for (name, rate, bus) in [
        ("SDR, PCI-X 133", Rate::Sdr, preset::pci_x_133()),
        ("SDR, PCI Express x8", Rate::Sdr, preset::pcie(2_000)),
        ("DDR, PCI Express x8", Rate::Ddr, preset::pcie(2_000)),
        ("QDR, PCI Express 2 x8", Rate::Qdr, preset::pcie(4_000)),
        ("FDR, PCI Express 3 x8", Rate::Fdr, preset::pcie(7_880)),
    ] {
        let config = other::infiniband(2, rate, bus);
        rows.push(vec![
            name.to_string(),
            rate.mb_s().to_string(),
            format!("{:.0}", stream(&config, call, 1 << 20)?),
            format!("{:.2}", one_way(&config, call, 8)?.as_us()),
        ]);
    }
    let columns = ["link and bus", "link, MB/s", "one way, MB/s", "8 B, us"];
    Ok(Trials {
        title: "InfiniBand: later rates",
        text: "Predictions: only the rate of the link and the bus change. Later cards were also \
               faster by themselves, so these latencies are upper bounds.",
        columns: columns.map(str::to_string).to_vec(),
        rows,
    })
}

fn run() -> Result<Run, BadStand> {
    Ok(Run {
        figures: figures()?,
        findings: findings()?,
        parameters: origins::parameters(&qsnet(), &infiniband()),
        trials: vec![rates()?],
    })
}
