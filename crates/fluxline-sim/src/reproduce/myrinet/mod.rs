//! Myrinet with GM: cards, switches, the buses of hosts, and the Myrinet column of ATOLL's paper.

mod facts;
mod model;
mod origins;
mod trials;

use super::atoll::{SIZES, megabits};
use super::fact::{Fact, Finding};
use super::figure::{Axis, Curve, Figure, Point};
use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source};
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::measure::Ways;
use model::Bursts;

/// The published experiments on Myrinet.
pub const SET: Set =
    Set { name: "myrinet", title: "Myrinet-2000 with GM 2", sources: &SOURCES, gaps: &GAPS, run };

const SOURCES: [Source; 6] = [
    Source { name: facts::GM, title: "Myricom: performance of GM 2.1.9 on M3F2-PCIXE, 2005" },
    Source { name: facts::NEWS, title: "Myricom: news of GM 2 and of the E card, 2003" },
    Source { name: facts::BUSES, title: "Myricom: PCI-X performance of motherboards" },
    Source { name: facts::BURSTS, title: "SISSA: Myrinet 2000 cards on PCI 64/66" },
    Source {
        name: facts::TURNER,
        title: "Turner, Chen: Protocol-dependent message-passing performance on Linux clusters, \
                2002",
    },
    Source {
        name: facts::PAPER,
        title: "Slogsnat, Haspel, Fröning, Brüning: ATOLL and PALMS, Mannheim, 2003",
    },
];

const GAPS: [Gap; 4] = [
    Gap {
        source: facts::GM,
        statement: "the number of switches across the largest Clos network",
        reason: "not stated. 8192 hosts on switches of 32 ports need three levels: five switches",
    },
    Gap {
        source: facts::GM,
        statement: "the program behind the size with half of the rate",
        reason: "not stated. 1486 B in half of 495 MB/s are 6 us, longer than the latency of a \
                 short message. So the LANai still works on a message after it has sent it: the \
                 model has a time for this, calibrated",
    },
    Gap {
        source: facts::NEWS,
        statement: "the hosts of 6.3 us and of 950 MB/s",
        reason: "not stated. Assumed: GC-LE, and the host whose bus carries 985 MB/s",
    },
    Gap {
        source: facts::PAPER,
        statement: "the switch between the two Myrinet hosts",
        reason: "not stated. Assumed: one switch",
    },
];

fn run() -> Result<Run, BadStand> {
    let latencies = model::latencies()?;
    let findings = findings(&latencies)?;
    let parameters = origins::parameters(&model::e_card());
    Ok(Run { figures: figures(latencies)?, findings, parameters, trials: trials::all()? })
}

fn findings(latencies: &Curve) -> Result<Vec<Finding>, BadStand> {
    let mut all = Vec::new();
    for (fact, bytes) in facts::LATENCIES.iter().zip(SIZES) {
        all.push(fact.model(latencies.at(bytes)));
    }
    for (fact, bytes) in facts::RATES.iter().zip(SIZES) {
        all.push(fact.model(megabits(bytes, latencies.at(bytes))));
    }
    let (e, d, call) = (model::e_card(), model::d_card(), model::call_of_gm());
    let old = model::old_card();
    let fast = Config { bus: model::fast_bus(), ..e.clone() };
    let (gc_le, pci) = (preset::pci_x_133(), preset::pci_64_66());
    all.extend([
        facts::SHORT.model(model::latency(&e, call, 8)?),
        facts::ONE_WAY.model(model::long(&e, Ways::One)?),
        facts::BOTH_WAYS.model(model::long(&e, Ways::Both)?),
        facts::HALF.model(model::half(&e)?),
        facts::ONE_SWITCH.model(model::through(1)?),
        facts::LARGEST_CLOS.model(model::through(5)?),
        facts::FIRST_GM_2.model(model::latency(&d, call, 8)?),
        facts::D_BOTH_WAYS.model(model::long(&d, Ways::Both)?),
        facts::E_ON_FAST_BUS.model(model::long(&fast, Ways::Both)?),
        facts::OLD_SHORT.model(model::latency(&old, call, 8)?),
        facts::OLD_RATE.model(megabits(1 << 23, model::latency(&old, call, 1 << 23)?)),
        facts::BUS_READ.model(model::bursts(gc_le, 4096, Bursts::Read)),
        facts::BUS_WRITE.model(model::bursts(gc_le, 4096, Bursts::Write)),
        facts::BUS_MIXED.model(model::bursts(gc_le, 4096, Bursts::Mixed)),
        facts::BURST_256.model(model::bursts(pci, 256, Bursts::Read)),
        facts::BURST_512.model(model::bursts(pci, 512, Bursts::Read)),
        facts::BURST_FAST.model(model::bursts(pci, 512, Bursts::Write)),
    ]);
    Ok(all)
}

fn figures(latencies: Curve) -> Result<Vec<Figure>, BadStand> {
    let bytes = Axis { label: "message", unit: "B", log: true };
    let rate = |&(bytes, us): &(f64, f64)| (bytes, megabits(bytes as u32, us));
    let points = latencies.points.iter().map(rate).collect();
    let rates = Curve { name: latencies.name.clone(), points };
    let points = |facts: &'static [Fact; 6]| {
        let point = |(fact, bytes)| Point { x: f64::from(bytes), fact };
        facts.iter().zip(SIZES).map(point).collect()
    };
    Ok(vec![
        Figure {
            id: "myrinet-latency",
            title: "ping-pong between the hosts of ATOLL's paper: latency",
            x: bytes,
            y: Axis { label: "latency", unit: "us", log: true },
            curves: vec![latencies],
            points: points(&facts::LATENCIES),
        },
        Figure {
            id: "myrinet-rate",
            title: "ping-pong between the hosts of ATOLL's paper: rate (2^20 bits)",
            x: bytes,
            y: Axis { label: "rate", unit: "Mb/s", log: false },
            curves: vec![rates],
            points: points(&facts::RATES),
        },
        Figure {
            id: "gm-streams",
            title: "streams of messages from one host",
            x: bytes,
            y: Axis { label: "rate", unit: "MB/s", log: false },
            curves: vec![model::streams()?],
            points: Vec::new(),
        },
    ])
}
