//! Switches of 16 ports: one for up to 16 hosts, a Clos network of two levels for up to 128.

use super::error::ConfigError;
use crate::net::atoll::{Cable, Wiring};

/// Most hosts: two levels of switches with 16 ports.
pub const NODES_MAX: u32 = 128;
/// Ports of a switch. Published.
pub const PORTS: u32 = 16;
/// Hosts of a switch in a Clos network, and its links to the upper level.
const HALF: u32 = PORTS / 2;

/// Joins hosts by switches. In a Clos network, each lower switch has 8 hosts and a link to each of
/// 8 upper switches, so any two of its paths between different switches are free of each other's
/// links. Routes are shortest paths, which share the links up evenly.
///
/// # Errors
/// A number of hosts outside of the limits.
pub fn wiring(hosts: u32) -> Result<Wiring, ConfigError> {
    if !(2..=NODES_MAX).contains(&hosts) {
        return Err(ConfigError(format!("{hosts} nodes: give 2 to {NODES_MAX}")));
    }
    if hosts <= PORTS {
        let cables: Vec<Cable> = (0..hosts).map(|from| Cable { from, to: hosts }).collect();
        return Ok(Wiring::switched(hosts, 1, PORTS, &cables)?);
    }
    let lower = hosts.div_ceil(HALF);
    let mut cables = Vec::new();
    for switch in 0..lower {
        for number in 0..HALF {
            let host = switch * HALF + number;
            if host < hosts {
                cables.push(Cable { from: host, to: hosts + switch });
            }
            cables.push(Cable { from: hosts + switch, to: hosts + lower + number });
        }
    }
    Ok(Wiring::switched(hosts, lower + HALF, PORTS, &cables)?)
}
