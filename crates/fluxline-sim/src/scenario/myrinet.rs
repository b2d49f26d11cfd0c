//! A Myrinet network by its URL: `sim:myrinet?nodes=16&card=E`.

use super::url::NO_LOSS;
use super::url_parts::{Keys, OpenError, keys_behind};
use crate::Duration;
use crate::net::myrinet::Config;
use crate::net::myrinet::cluster::{ClusterConfig, times};
use crate::net::myrinet::config::{Card, NODES_MAX};

const LINK: &str = "sim:myrinet";
const KEYS: &str = "nodes, card, bus, cable, seed, fault";
const NODES: &str = "2 to 128";
const BUSES: &str = "melody, quartet, g5, marvel, rx2000, i870, madison, gc, gc-le, hs20, \
                     pci64-66 or pci32-33";
/// 6.5 ns for each metre of fibre \[ps\]. Published.
const METRE_PS: f64 = 6_500.0;

/// Returns true if a URL is for Myrinet.
pub(super) fn is_myrinet(url: &str) -> bool {
    url.split('?').next() == Some(LINK)
}

/// Reads a URL. `docs/simulation/myrinet.md` has its keys.
pub(super) fn describe(url: &str) -> Result<ClusterConfig, OpenError> {
    let keys = keys_behind(url, LINK, KEYS)?;
    let nodes = keys.number("nodes", 8, NODES)?;
    if !(2..=u64::from(NODES_MAX)).contains(&nodes) {
        return Err(keys.refused("nodes", NODES));
    }
    let mut network = Config::new(nodes as u32);
    let usual = match keys.find("card") {
        None | Some("E") => "gc-le",
        Some("D") => {
            network.card = Card::d();
            "gc-le"
        }
        Some("2000") => {
            network.card = Card::pci64c();
            "pci64-66"
        }
        Some(_) => return Err(keys.refused("card", "E, D or 2000")),
    };
    let bus = Config::bus_named(keys.find("bus").unwrap_or(usual));
    network.bus = bus.ok_or_else(|| keys.refused("bus", BUSES))?;
    network.seed = keys.number("seed", 1, "a whole number")?;
    if let Some(metres) = length(&keys)? {
        network.fabric.cable = Duration::from_ps((metres * METRE_PS) as u64);
    }
    let faults = keys.faults(NO_LOSS)?;
    if faults.loss > 0.0 {
        return Err(keys.refused("fault", NO_LOSS));
    }
    network.bit_error_rate = faults.bits;
    network.check().map_err(|error| OpenError::Parameters(error.to_string()))?;
    Ok(ClusterConfig { network, times: times(), faults: faults.list })
}

/// Returns the length of each cable \[m\].
fn length(keys: &Keys<'_>) -> Result<Option<f64>, OpenError> {
    let expected = "0 to 1000 m";
    let metres = keys.amount("cable", -1.0, expected)?;
    if metres > 1000.0 {
        return Err(keys.refused("cable", expected));
    }
    Ok(keys.find("cable").map(|_| metres))
}
