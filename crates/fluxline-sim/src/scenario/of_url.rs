//! The network of a URL as a scenario, with the default traffic.

use super::url_parts::{Keys, OpenError};
use super::{FaultsPart, NetworkPart, Scenario, atoll, ethernet, url};

const FAULT: &str = "faults of links and nodes; a scenario has no loss of packets";

impl Scenario {
    /// Returns the network and the faults of a `sim:` URL as a scenario: uniform messages of 64
    /// bytes. Keys for programs, such as `host` and `dump`, have no effect.
    ///
    /// # Errors
    /// [`OpenError`]: the first mistake in the URL.
    pub fn of_url(url: &str) -> Result<Scenario, OpenError> {
        let scenario = match url {
            url if atoll::is_atoll(url) => of_atoll(url)?,
            url if ethernet::is_ethernet(url) => of_ethernet(url)?,
            url => of_sci(url)?,
        };
        let invalid = |problem: super::Refused| OpenError::Parameters(problem.to_string());
        scenario.check().map_err(invalid)?;
        Ok(scenario)
    }
}

/// Returns the faults of a URL as those of a scenario.
fn faults(keys: &Keys<'_>) -> Result<FaultsPart, OpenError> {
    let given = keys.faults(FAULT)?;
    if given.loss > 0.0 {
        return Err(keys.refused("fault", FAULT));
    }
    let at = given.list.iter().map(ToString::to_string).collect();
    Ok(FaultsPart { bit_error_rate: given.bits, dead_nodes: Vec::new(), at })
}

fn of_atoll(url: &str) -> Result<Scenario, OpenError> {
    let faults = faults(&atoll::atoll_keys(url)?)?;
    let atoll::Described { network, atoll, seed, .. } = atoll::describe(url)?;
    Ok(Scenario { network, atoll, seed, faults, ..Scenario::default() })
}

fn of_ethernet(url: &str) -> Result<Scenario, OpenError> {
    let faults = faults(&ethernet::ethernet_keys(url)?)?;
    let ethernet::Described { nodes, seed, part, .. } = ethernet::describe(url)?;
    let network = NetworkPart { kind: super::Kind::Ethernet, nodes, ..NetworkPart::default() };
    Ok(Scenario { network, ethernet: part, seed, faults, ..Scenario::default() })
}

fn of_sci(url: &str) -> Result<Scenario, OpenError> {
    let keys = url::keys_of(url)?;
    let network = url::network_part(&keys)?;
    let seed = keys.number("seed", 1, "a whole number")?;
    Ok(Scenario { network, seed, faults: faults(&keys)?, ..Scenario::default() })
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Kind, Scenario};

    #[test]
    fn a_url_is_a_scenario_with_its_network_and_faults() {
        for (url, kind, nodes) in [
            ("sim:sci?nodes=5", Kind::SciRing, 5),
            ("sim:sci?topology=torus:4x3&model=lc3", Kind::SciTorus, 12),
            ("sim:sci?topology=switch:4x2", Kind::SciSwitch, 8),
            ("sim:ethernet?nodes=3&rate=1G", Kind::Ethernet, 3),
            ("sim:atoll?torus=4x4", Kind::AtollTorus, 16),
        ] {
            let scenario = Scenario::of_url(&with(url, "fault=bits:1e-7,cable:1@1ms,host:2@3us"));
            let scenario = scenario.expect(url);
            assert_eq!((scenario.network.kind, scenario.network.node_count()), (kind, nodes));
            assert_eq!(scenario.faults.at, ["cable:1@1ms", "host:2@3us"]);
            assert_eq!(scenario.faults.bit_error_rate, 1e-7);
        }
    }

    fn with(url: &str, key: &str) -> String {
        format!("{url}&{key}")
    }

    #[test]
    fn a_url_without_links_or_with_a_mistake_is_refused() {
        for (url, says) in [
            ("sim:sci?model=plain", "no links"),
            ("sim:sci?nodes=1", "2 or more"),
            ("sim:ethernet?fault=loss:0.1", "no loss of packets"),
            ("sim:atoll?grid=4x4&fault=cable:99@1ms", "the nodes are 0 to 15"),
            ("sim:atoll?fault=cut:0-9@1ms", "two neighbours"),
            ("udp://1.2.3.4", "is not a simulated link"),
        ] {
            let error = Scenario::of_url(url).expect_err(url).to_string();
            assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
        }
    }
}
