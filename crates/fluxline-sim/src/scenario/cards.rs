//! Networks of hosts with cards by their URLs: `sim:myrinet?nodes=16&card=E`, `sim:qsnet`,
//! `sim:infiniband?rate=qdr`.

use super::url_parts::{Keys, NO_LOSS, OpenError, keys_behind};
use crate::Duration;
use crate::net::myrinet::cluster::{CALL_GM, ClusterConfig, times};
use crate::net::myrinet::config::{Card, NODES_MAX};
use crate::net::myrinet::other::{self, Rate};
use crate::net::myrinet::{Config, ConfigError};

const NODES: &str = "2 to 128";
const METRES: &str = "0 to 1000 m";
const BUSES: &str = "melody, quartet, g5, marvel, rx2000, i870, madison, gc, gc-le, hs20, \
                     pci64-66, pci32-33, pcie-x8, pcie2-x8 or pcie3-x8";

/// A kind of network with cards.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The name in URLs.
    name: &'static str,
    /// The keys behind it.
    keys: &'static str,
    /// The delay of a metre of cable \[ps\].
    metre_ps: f64,
    /// Processor time of a call.
    call: Duration,
    /// Builds the network of some nodes.
    build: fn(&Keys<'_>, u32) -> Result<Config, OpenError>,
}

/// All kinds. Delays of a metre: published for fibre, background for copper.
const LINKS: [Link; 3] = [
    Link {
        name: "sim:myrinet",
        keys: "nodes, card, bus, cable, seed, fault",
        metre_ps: 6_500.0,
        call: CALL_GM,
        build: myrinet,
    },
    Link {
        name: "sim:qsnet",
        keys: "nodes, bus, cable, seed, fault",
        metre_ps: 5_000.0,
        call: other::CALL_QSNET,
        build: qsnet,
    },
    Link {
        name: "sim:infiniband",
        keys: "nodes, rate, bus, cable, seed, fault",
        metre_ps: 5_000.0,
        call: other::CALL_INFINIBAND,
        build: infiniband,
    },
];

/// Returns the kind of network that a URL names.
pub(super) fn link_of(url: &str) -> Option<Link> {
    let name = url.split('?').next()?;
    LINKS.into_iter().find(|link| link.name == name)
}

/// Reads a URL. `docs/simulation/myrinet.md` has its keys.
pub(super) fn describe(url: &str, link: Link) -> Result<ClusterConfig, OpenError> {
    let keys = keys_behind(url, link.name, link.keys)?;
    let nodes = keys.number("nodes", 8, NODES)?;
    if !(2..=u64::from(NODES_MAX)).contains(&nodes) {
        return Err(keys.refused("nodes", NODES));
    }
    let mut network = (link.build)(&keys, nodes as u32)?;
    network.seed = keys.number("seed", 1, "a whole number")?;
    if keys.find("cable").is_some() {
        let metres = keys.amount("cable", 0.0, METRES)?;
        if metres > 1000.0 {
            return Err(keys.refused("cable", METRES));
        }
        network.fabric.cable = Duration::from_ps((metres * link.metre_ps) as u64);
    }
    let faults = keys.faults(NO_LOSS)?;
    if faults.loss > 0.0 {
        return Err(keys.refused("fault", NO_LOSS));
    }
    network.bit_error_rate = faults.bits;
    network.check().map_err(|ConfigError(problem)| OpenError::Parameters(problem))?;
    let times = times(link.call);
    Ok(ClusterConfig { link: link.name, network, times, faults: faults.list })
}

/// Returns the bus that a URL names, or the usual one.
fn bus(keys: &Keys<'_>, usual: &str) -> Result<crate::host::config::Bus, OpenError> {
    let bus = Config::bus_named(keys.find("bus").unwrap_or(usual));
    bus.ok_or_else(|| keys.refused("bus", BUSES))
}

fn myrinet(keys: &Keys<'_>, nodes: u32) -> Result<Config, OpenError> {
    let (card, usual) = match keys.find("card") {
        None | Some("E") => (Card::e(), "gc-le"),
        Some("D") => (Card::d(), "gc-le"),
        Some("2000") => (Card::pci64c(), "pci64-66"),
        Some(_) => return Err(keys.refused("card", "E, D or 2000")),
    };
    Ok(Config { card, bus: bus(keys, usual)?, ..Config::new(nodes) })
}

fn qsnet(keys: &Keys<'_>, nodes: u32) -> Result<Config, OpenError> {
    Ok(other::qsnet2(nodes, bus(keys, "gc-le")?))
}

fn infiniband(keys: &Keys<'_>, nodes: u32) -> Result<Config, OpenError> {
    let rate = match keys.find("rate") {
        None | Some("sdr") => Rate::Sdr,
        Some("ddr") => Rate::Ddr,
        Some("qdr") => Rate::Qdr,
        Some("fdr") => Rate::Fdr,
        Some(_) => return Err(keys.refused("rate", "sdr, ddr, qdr or fdr")),
    };
    Ok(other::infiniband(nodes, rate, bus(keys, rate.usual_bus())?))
}
