//! ATOLL: its latencies and rates between two hosts, its hops, and the processes of one node.

mod facts;
mod model;
mod origins;
mod trials;

pub(super) use facts::{LATENCIES, SIZES};
pub(super) use model::megabits;

use super::fact::{Fact, Finding};
use super::figure::{Axis, Curve, Figure, Point};
use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source};
use crate::host::Chipset;
use crate::net::atoll::adapter::host::{Mode, Times};
use model::{CHIP_MHZ, Senders, TABLE_MHZ};

/// The published experiments on ATOLL.
pub const SET: Set =
    Set { name: "atoll", title: "ATOLL's chip and hosts", sources: &SOURCES, gaps: &GAPS, run };

const SOURCES: [Source; 2] = [
    Source {
        name: facts::PAPER,
        title: "Slogsnat, Haspel, Fröning, Brüning: ATOLL and PALMS, Mannheim, 2003",
    },
    Source { name: facts::MAKERS, title: "The pages of ATOLL's makers, 2003" },
];

const GAPS: [Gap; 4] = [
    Gap {
        source: facts::PAPER,
        statement: "8 B: 9.4 Mb/s",
        reason: "the paper's own latency contradicts it. 8 B in 4.88 us are 12.5 Mb/s, and 6 B, \
                 the next smaller size of NetPIPE, are 9.4 Mb/s. In all other rows of both \
                 networks, latency and rate agree. No model can meet both numbers",
    },
    Gap {
        source: facts::PAPER,
        statement: "the measurement at another clock",
        reason: "no source here gives its numbers. The variants below predict them",
    },
    Gap {
        source: facts::MAKERS,
        statement: "up to 90 % of the link's peak reaches the application",
        reason: "the same statement as 221 MB/s",
    },
    Gap {
        source: facts::MAKERS,
        statement: "locks, collective operations and zero copy in hardware",
        reason: "no numbers",
    },
];

fn run() -> Result<Run, BadStand> {
    let latencies = model::latencies()?;
    let findings = findings(&latencies)?;
    let parameters = origins::parameters(&model::pair(TABLE_MHZ)?, &Times::pc());
    Ok(Run { figures: figures(latencies), findings, parameters, trials: trials::all()? })
}

fn findings(latencies: &Curve) -> Result<Vec<Finding>, BadStand> {
    let mut all = Vec::new();
    for (fact, bytes) in facts::LATENCIES.iter().zip(SIZES) {
        all.push(fact.model(latencies.at(bytes)));
    }
    for (fact, bytes) in facts::RATES.iter().zip(SIZES) {
        all.push(fact.model(model::megabits(bytes, latencies.at(bytes))));
    }
    let wiring = model::sixteen()?;
    let bus = Times::pc().bus;
    let rate = |processes, bus, bytes| Senders { processes, bus, bytes }.rate();
    let one = rate(1, bus, 1 << 16)?;
    let pci = model::pci_64_66(model::PCI_BURST_BYTES);
    let fastest = Chipset::named("melody").map_or(bus, Chipset::bus);
    let filled = rate(4, fastest, 1 << 16)? / rate(1, fastest, 1 << 16)? / 4.0;
    all.extend([
        facts::HOP.model(model::hop_clocks()?),
        facts::BISECTION.model(model::bisection(&wiring)),
        facts::LONGEST.model(model::longest(&wiring)?),
        facts::ONE_SENDER.model(one),
        facts::FEW_KILOBYTES.model(rate(1, bus, 4096)? / one),
        facts::FOUR_SENDERS.model(rate(4, pci, 1 << 16)?),
        facts::ALL_LINKS.model(filled),
        facts::FIRST_BYTES.model(model::latency(CHIP_MHZ, 8, Mode::Pio)?),
    ]);
    Ok(all)
}

fn figures(latencies: Curve) -> Vec<Figure> {
    let bytes = Axis { label: "message", unit: "B", log: true };
    let rate = |&(bytes, us): &(f64, f64)| (bytes, model::megabits(bytes as u32, us));
    let points = latencies.points.iter().map(rate).collect();
    let rates = Curve { name: latencies.name.clone(), points };
    let points = |facts: &'static [Fact; 6]| {
        let point = |(fact, bytes)| Point { x: f64::from(bytes), fact };
        facts.iter().zip(SIZES).map(point).collect()
    };
    vec![
        Figure {
            id: "atoll-latency",
            title: "ping-pong between two hosts: latency",
            x: bytes,
            y: Axis { label: "latency", unit: "us", log: true },
            curves: vec![latencies],
            points: points(&facts::LATENCIES),
        },
        Figure {
            id: "atoll-rate",
            title: "ping-pong between two hosts: rate (2^20 bits)",
            x: bytes,
            y: Axis { label: "rate", unit: "Mb/s", log: false },
            curves: vec![rates],
            points: points(&facts::RATES),
        },
    ]
}
