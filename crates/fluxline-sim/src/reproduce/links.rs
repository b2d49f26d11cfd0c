//! QsNet II and InfiniBand: link models, and the few published results that they are compared with.

use super::atoll::megabits;
use super::page::time;
use super::pair::BadStand;
use super::set::{Curve, Facts, Number, Run};
use crate::Duration;
use crate::host::preset;
use crate::net::myrinet::Config;
use crate::net::myrinet::measure::{Streams, Ways, one_way};
use crate::net::myrinet::other::{self, Rate};

/// Runs all models.
pub(super) fn run(_: &Facts) -> Result<Run, BadStand> {
    let figures = vec![("links-streams", streams()?)];
    Ok(Run { numbers: numbers()?, figures, trials: vec![("rates", rates()?)] })
}

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

fn numbers() -> Result<Vec<Number>, BadStand> {
    let (elan, hca) = (other::CALL_QSNET, other::CALL_INFINIBAND);
    let pcie = other::infiniband(2, Rate::Sdr, preset::pcie(2_000));
    let long = 1 << 20;
    let ping_pong = one_way(&infiniband(), hca, 8 * long)?.as_us();
    Ok(vec![
        ("qsnet-rate", stream(&qsnet(), elan, long)?),
        ("qsnet-short", one_way(&qsnet(), elan, 8)?.as_us()),
        ("ib-rate", stream(&infiniband(), hca, long)?),
        ("ib-short", one_way(&infiniband(), hca, 8)?.as_us()),
        ("ib-pcie", one_way(&pcie, hca, 8)?.as_us()),
        ("ib-netpipe", megabits(8 * long, ping_pong)),
    ])
}

fn streams() -> Result<Vec<Curve>, BadStand> {
    let curve = |name, config: Config, call| {
        Curve::of(name, (6..=20).map(|bits| 1 << bits), |bytes| stream(&config, call, bytes))
    };
    Ok(vec![
        curve("QsNet II", qsnet(), other::CALL_QSNET)?,
        curve("InfiniBand 4X SDR", infiniband(), other::CALL_INFINIBAND)?,
    ])
}

fn rates() -> Result<Vec<Vec<String>>, BadStand> {
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
    Ok(rows)
}

/// Returns the value of a parameter.
pub(super) fn value(model: &str, name: &str) -> Option<String> {
    let (config, call) = match model {
        "QsNet II" => (qsnet(), other::CALL_QSNET),
        _ => (infiniband(), other::CALL_INFINIBAND),
    };
    let (gm, fabric) = (config.gm, config.fabric);
    let ns = |count: u32| format!("{count} ns");
    let bytes = |count: u32| format!("{count} B");
    Some(match name {
        "rate of a link" => format!("{} MB/s", fabric.clock.hertz() / 1_000_000),
        "bursts out of memory" => format!("{} clocks more", config.bus.read_clocks),
        "the card, at each end" => ns(gm.send_cycles),
        "a call, at each end" => time(call),
        "data of a packet" => bytes(gm.piece_bytes),
        "header of a packet" | "header and CRCs of a packet" => bytes(fabric.header_bytes),
        "messages stored by the host" => format!("up to {} B", gm.inline_bytes),
        "unit of credits" => bytes(fabric.grain_bytes),
        "credits of a link" => bytes(fabric.credit_bytes),
        "other packets of a message; an acknowledgement" => ns(gm.packet_cycles),
        _ => return None,
    })
}
