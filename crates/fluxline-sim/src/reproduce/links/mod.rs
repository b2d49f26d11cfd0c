//! QsNet II and InfiniBand: link models, and the few published results that they are compared with.

mod facts;
mod origins;

use super::atoll::megabits;
use super::fact::Finding;
use super::figure::{Axis, Curve, Figure};
use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source, Trials};
use crate::Duration;
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::measure::{Streams, Ways, one_way};
use crate::net::myrinet::other::{self, Rate};

/// The published results of QsNet II and InfiniBand.
pub const SET: Set = Set {
    name: "links",
    title: "QsNet II and InfiniBand as link models",
    sources: &SOURCES,
    gaps: &GAPS,
    run,
};

const SOURCES: [Source; 4] = [
    Source { name: facts::QUADRICS, title: "Quadrics: descriptions of QsNet II, 2003" },
    Source {
        name: facts::LIU,
        title: "Liu et al.: Performance comparison of MPI implementations over InfiniBand, \
                Myrinet and Quadrics, SC 2003 (numbers remembered, unchecked)",
    },
    Source {
        name: facts::PCIE,
        title: "Liu et al.: Performance evaluation of InfiniBand with PCI Express, IEEE Micro, \
                2005 (abstract)",
    },
    Source { name: facts::NETPIPE, title: "Turner et al.: NetPIPE with InfiniBand, 2003" },
];

const GAPS: [Gap; 3] = [
    Gap {
        source: facts::QUADRICS,
        statement: "fat trees of Elite switches with 8 links and two virtual channels",
        reason: "the model has the switches of Myrinet's Clos network, and one channel",
    },
    Gap {
        source: facts::LIU,
        statement: "the processor's share of 6.8 us: 1.7 us",
        reason: "a parameter of the model, not a result",
    },
    Gap {
        source: facts::NETPIPE,
        statement: "4400 Mb/s out of the processor's cache",
        reason: "the model has no cache",
    },
];

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
    let streams = Streams { bytes, count, outstanding: 16, call, ways: Ways::One };
    Ok(streams.rate(config)?)
}

fn findings() -> Result<Vec<Finding>, BadStand> {
    let (elan, hca) = (other::CALL_QSNET, other::CALL_INFINIBAND);
    let pcie = other::infiniband(2, Rate::Sdr, preset::pcie(2_000));
    let long = 1 << 20;
    let ping_pong = one_way(&infiniband(), hca, 8 * long)?.as_us();
    Ok(vec![
        facts::QSNET_RATE.model(stream(&qsnet(), elan, long)?),
        facts::QSNET_SHORT.model(one_way(&qsnet(), elan, 8)?.as_us()),
        facts::INFINIBAND_RATE.model(stream(&infiniband(), hca, long)?),
        facts::INFINIBAND_SHORT.model(one_way(&infiniband(), hca, 8)?.as_us()),
        facts::INFINIBAND_PCIE.model(one_way(&pcie, hca, 8)?.as_us()),
        facts::INFINIBAND_NETPIPE.model(megabits(8 * long, ping_pong)),
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
