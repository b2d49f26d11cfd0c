//! A simulated link by its URL: `sim:sci?nodes=8&model=lc2`.

use std::path::Path;

use super::atoll::{atoll_keys, is_atoll};
use super::cards;
use super::ethernet::{Described, ethernet_keys, is_ethernet};
use super::url_parts::{Keys, UrlFaults, keys_behind};
use super::{self as scenario, NetworkPart};
use crate::Duration;
use crate::core::dump;
use crate::host::{self, preset};
use crate::net::atoll::adapter::cluster::ClusterConfig;
use crate::net::ethernet;
use crate::net::myrinet;
use crate::net::sci::adapter::Times;
use crate::net::sci::cluster::{Config, Link};
use crate::net::sci::{self, Preset, Topology};
use crate::world::Cluster;

pub use super::url_parts::OpenError;

const KEYS: &str = "nodes, model, topology, host, seed, crossover, fault, dump";
/// The default number of nodes. A choice.
const NODES: usize = 8;
const TOPOLOGY: &str = "ring, torus:4x4, torus:4x4x4 or switch:PORTSxNODES";
const FAULT: &str = "bits:1e-6 (the chance of a wrong bit on a link), loss:0.01 (of a packet, on \
                     model=plain), host:3@1ms, power:3@1ms or cable:3@1ms, joined by commas";

impl Cluster {
    /// Opens the cluster that a URL describes: `sim:sci`, or another network with a page of its own
    /// in `docs/simulation`, and keys behind a `?`, joined by `&`. Those of SCI are:
    ///
    /// | key | values | without it |
    /// | --- | --- | --- |
    /// | `nodes` | 2 and more | 8, or what the topology has |
    /// | `model` | `lc1`, `lc2`, `lc3`, `standard` (1 GB/s), `plain` (a fixed delay) | `lc2` |
    /// | `topology` | `ring`, `torus:4x4`, `switch:4x2` (4 ringlets of 2 nodes) | `ring` |
    /// | `host` | `trams`, `stand-a`, `stand-b` | `trams` |
    /// | `seed` | what faults are drawn from | 1 |
    /// | `crossover` | puts and gets of more bytes go by the DMA engine | the host's |
    /// | `fault` | `bits:1e-6`, `host:3@1ms`, `power:3@1ms`, `cable:3@1ms`, with commas | none |
    /// | `dump` | a new file for every packet of every link ([`Cluster::begin_dump`]) | none |
    ///
    /// Errors: [`OpenError`].
    ///
    /// ```
    /// use fluxline_core::fabric::Fabric;
    /// use fluxline_sim::world::Cluster;
    ///
    /// let cluster = Cluster::open("sim:sci?nodes=4&model=lc3&seed=7")?;
    /// assert_eq!(cluster.node(3).capabilities().link, "sim:sci");
    /// # Ok::<(), fluxline_sim::scenario::url::OpenError>(())
    /// ```
    pub fn open(url: &str) -> Result<Cluster, OpenError> {
        let cluster = describe(url)?.build()?;
        let keys = match url {
            url if is_ethernet(url) => ethernet_keys(url)?,
            url if is_atoll(url) => atoll_keys(url)?,
            url if cards::link_of(url).is_some() => return Ok(cluster),
            url => keys_of(url)?,
        };
        if let Some(file) = keys.find("dump") {
            let begun = cluster.begin_dump(Path::new(file), dump::LIMIT_BYTES);
            let begun = begun.map_err(|error| OpenError::Dump {
                file: file.to_owned(),
                problem: error.to_string(),
            })?;
            if !begun {
                return Err(keys.refused("dump", "no dump with model=plain: it has no links"));
            }
        }
        Ok(cluster)
    }
}

/// A cluster that a URL describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The number of nodes.
    pub nodes: usize,
    /// The seed of faults.
    pub seed: u64,
    config: Kind,
}

/// The configuration of a kind of network.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Sci(Box<Config>),
    Ethernet(Box<ethernet::cluster::Config>),
    Atoll(Box<ClusterConfig>),
    Cards(Box<myrinet::cluster::ClusterConfig>),
}

impl Description {
    /// Builds the cluster.
    ///
    /// # Errors
    /// [`OpenError::Cluster`], [`OpenError::Atoll`] or [`OpenError::Parameters`].
    pub fn build(&self) -> Result<Cluster, OpenError> {
        match &self.config {
            Kind::Sci(config) => Ok(config.build()?),
            Kind::Ethernet(config) => Ok(config.build()?),
            Kind::Atoll(config) => {
                config.build().map_err(|error| OpenError::Atoll(error.to_string()))
            }
            Kind::Cards(config) => Ok(config.build()?),
        }
    }
}

/// Reads a URL.
///
/// # Errors
/// [`OpenError`]: the first mistake.
pub fn describe(url: &str) -> Result<Description, OpenError> {
    if is_ethernet(url) {
        let Described { nodes, seed, config, .. } = super::ethernet::describe(url)?;
        let config = Kind::Ethernet(Box::new(config));
        return Ok(Description { nodes: nodes as usize, seed, config });
    }
    if is_atoll(url) {
        let config = super::atoll::describe(url)?.cluster()?;
        let nodes = (config.network.wiring.nodes() * config.processes) as usize;
        let seed = config.network.seed;
        return Ok(Description { nodes, seed, config: Kind::Atoll(Box::new(config)) });
    }
    if let Some(link) = cards::link_of(url) {
        let config = cards::describe(url, link)?;
        let (nodes, seed) = (config.network.nodes as usize, config.network.seed);
        return Ok(Description { nodes, seed, config: Kind::Cards(Box::new(config)) });
    }
    let config = config(url)?;
    let (nodes, seed) = (config.nodes, config.seed);
    Ok(Description { nodes, seed, config: Kind::Sci(Box::new(config)) })
}

fn config(url: &str) -> Result<Config, OpenError> {
    let keys = keys_of(url)?;
    let topology = keys.topology()?;
    let nodes = keys.nodes(&topology)?;
    let seed = keys.number("seed", 1, "a whole number")?;
    let faults = keys.faults(FAULT)?;
    let (host, crossover) = keys.host()?;
    let most = crate::world::OPERATION_BYTES_MAX;
    let expected = "how many bytes, at most 16777216";
    let crossover_bytes = keys.number("crossover", crossover, expected)?;
    if crossover_bytes > most {
        return Err(keys.refused("crossover", expected));
    }
    let link = keys.link(nodes, &topology, seed, &faults)?;
    let times = Times::default();
    Ok(Config { nodes, host, link, seed, crossover_bytes, times, faults: faults.list })
}

/// Returns the keys of the URL of an SCI network.
pub(super) fn keys_of(url: &str) -> Result<Keys<'_>, OpenError> {
    keys_behind(url, "sim:sci", KEYS)
}

/// Returns the network of a scenario with the same ringlets.
pub(super) fn network_part(keys: &Keys<'_>) -> Result<NetworkPart, OpenError> {
    let topology = keys.topology()?;
    let nodes = keys.nodes(&topology)? as u32;
    let name = keys.find("model").unwrap_or_default();
    let preset = if name.is_empty() { Some(Preset::default()) } else { Preset::named(name) };
    let known = "lc1, lc2, lc3 or standard; model=plain has no links";
    let preset = preset.ok_or_else(|| keys.refused("model", known))?;
    let part = NetworkPart { nodes, preset, ..NetworkPart::default() };
    Ok(match topology {
        None | Some(Topology::Ring { .. }) => part,
        Some(Topology::Torus { sizes }) => {
            NetworkPart { kind: scenario::Kind::SciTorus, sides: sizes, ..part }
        }
        Some(Topology::Switch { ringlets }) => {
            NetworkPart { kind: scenario::Kind::SciSwitch, ringlets, ..part }
        }
    })
}

impl Keys<'_> {
    /// Returns the topology; `None`: a ring.
    fn topology(&self) -> Result<Option<Topology>, OpenError> {
        let wrong = || self.refused("topology", TOPOLOGY);
        let sizes = |text: &str| -> Option<Vec<u32>> {
            let sizes: Option<Vec<u32>> = text.split('x').map(|size| size.parse().ok()).collect();
            sizes.filter(|of| of.iter().all(|size| (1..=4096).contains(size)))
        };
        match self.find("topology") {
            None | Some("ring") => Ok(None),
            Some(text) => {
                let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
                let sizes = sizes(rest).ok_or_else(wrong)?;
                match (kind, sizes.as_slice()) {
                    ("torus", [_, _] | [_, _, _]) if sizes.iter().all(|size| *size >= 2) => {
                        Ok(Some(Topology::Torus { sizes }))
                    }
                    ("switch", &[ports, per_ringlet]) if ports >= 2 => {
                        Ok(Some(Topology::switch(ports, per_ringlet)))
                    }
                    _ => Err(wrong()),
                }
            }
        }
    }

    fn nodes(&self, topology: &Option<Topology>) -> Result<usize, OpenError> {
        let of_topology = match topology {
            Some(Topology::Torus { sizes }) => {
                Some(sizes.iter().fold(1_u64, |all, &size| all.saturating_mul(size.into())))
            }
            Some(Topology::Switch { ringlets }) => {
                Some(ringlets.iter().map(|&nodes| u64::from(nodes)).sum())
            }
            _ => None,
        };
        let expected = "2 or more, and with a torus or switch as many as it has";
        let nodes = self.number("nodes", of_topology.unwrap_or(NODES as u64), expected)?;
        let fits = (2..=4096).contains(&nodes) && of_topology.is_none_or(|of| of == nodes);
        match self.find("nodes") {
            _ if fits => Ok(nodes as usize),
            Some(_) => Err(self.refused("nodes", expected)),
            None => Err(self.refused("topology", "one of 2 to 4096 nodes")),
        }
    }

    /// Returns the machine, and the size from which its DMA engine is faster.
    fn host(&self) -> Result<(host::Config, u64), OpenError> {
        // On Trams' machine, stores are faster for all
        // sizes, and from 184 bytes on the engine leaves the processor more time (reproduce): 1 KiB
        // is the upper end of the range that its paper calls surprisingly small. On the stands, the
        // crossover is the size from which bytes are in place sooner with the engine than with
        // stores.
        match self.find("host") {
            None | Some("trams") => Ok((preset::trams(), 1024)),
            Some("stand-a") => Ok((preset::test_stand_a(), 128)),
            Some("stand-b") => Ok((preset::test_stand_b(8), 0)),
            Some(_) => Err(self.refused("host", "trams, stand-a or stand-b")),
        }
    }

    fn link(
        &self,
        nodes: usize,
        topology: &Option<Topology>,
        seed: u64,
        faults: &UrlFaults,
    ) -> Result<Link, OpenError> {
        let preset = match self.find("model") {
            None => Preset::default(),
            Some("plain") if topology.is_some() => {
                return Err(self.refused("topology", "none: model=plain has no ringlets"));
            }
            Some("plain") if faults.bits > 0.0 => return Err(self.refused("fault", FAULT)),
            Some("plain") => {
                // Assumed: the order of a small LC-2 ring.
                let delay = Duration::from_ns(300);
                return Ok(Link::Plain { delay, loss: faults.loss });
            }
            Some(name) => Preset::named(name)
                .ok_or_else(|| self.refused("model", "lc1, lc2, lc3, standard or plain"))?,
        };
        if faults.loss > 0.0 {
            return Err(self.refused("fault", FAULT));
        }
        let ring = Topology::Ring { nodes: nodes as u32 };
        let network = preset.network(topology.clone().unwrap_or(ring));
        let faults = sci::Faults { bit_error_rate: faults.bits, seed };
        Ok(Link::Network(sci::Config { faults, ..network }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, Topology, config};
    use crate::core::fault::FaultKind;
    use crate::scenario::Scenario;
    use crate::world::Cluster;

    #[test]
    fn a_wrong_url_is_answered_with_one_sentence_that_says_what_to_write() {
        for (url, says) in [
            ("sim:token-ring", "write sim:sci"),
            ("sim:scixx", "write sim:sci"),
            ("sim:sci?", "its keys are nodes, model"),
            ("sim:sci?nodes", "each as key=value"),
            ("sim:sci?colour=red", "its keys are nodes, model"),
            ("sim:sci?nodes=2&nodes=2", "nodes is given twice"),
            ("sim:sci?nodes=1", "2 or more"),
            ("sim:sci?nodes=many", "2 or more"),
            ("sim:sci?nodes=99999999999999999999", "2 or more"),
            ("sim:sci?nodes=9&topology=torus:4x4", "as many as it has"),
            ("sim:sci?topology=torus:4", "torus:4x4"),
            ("sim:sci?topology=torus:4096x4096x4096", "2 to 4096 nodes"),
            ("sim:sci?topology=switch:1x4", "switch:PORTSxNODES"),
            ("sim:sci?model=lc9", "lc1, lc2, lc3, standard or plain"),
            ("sim:sci?model=plain&topology=torus:2x2", "has no ringlets"),
            ("sim:sci?model=plain&fault=bits:1e-6", "on model=plain"),
            ("sim:sci?host=cray", "trams, stand-a or stand-b"),
            ("sim:sci?seed=-1", "a whole number"),
            ("sim:sci?crossover=99999999999", "at most 16777216"),
            ("sim:sci?fault=bits:2", "bits:1e-6"),
            ("sim:sci?fault=bits:NaN", "bits:1e-6"),
            ("sim:sci?fault=fire:3@1ms", "cable:3@1ms"),
            ("sim:sci?fault=host:3@1", "host:3@1ms"),
            ("sim:sci?fault=restart:3@1ms", "cannot start again"),
            ("sim:sci?model=plain&dump=x.pcapng", "no dump with model=plain"),
            ("sim:sci?dump=no/such/folder/x.pcapng", "name a file that does not exist yet"),
            ("sim:sci?dump=Cargo.toml", "dump=Cargo.toml cannot be written: File exists"),
            ("sim:sci?fault=host:8@1ms", "nodes are 0 to 7"),
        ] {
            let error = Cluster::open(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(error.contains(says) && !error.contains('\n'), "{url}: {error}");
        }
    }

    #[test]
    fn what_a_url_says_is_in_the_configuration() {
        let found = config("sim:sci").expect("right");
        assert_eq!((found.nodes, found.seed, found.crossover_bytes), (8, 1, 1024));
        let url = "sim:sci?topology=switch:4x2&model=lc3&seed=9&crossover=0&\
                   fault=bits:1e-5,host:3@20us";
        let found = config(url).expect("right");
        assert_eq!((found.nodes, found.seed, found.crossover_bytes), (8, 9, 0));
        assert_eq!(found.faults[0].kind, FaultKind::Host(3));
        assert_eq!(found.faults[0].at.as_ps(), 20_000_000);
        let Link::Network(network) = found.link else { panic!("lc3 is a network") };
        assert_eq!(network.topology, Topology::switch(4, 2));
        assert_eq!((network.addresses.len(), network.faults.seed), (9, 9));
        let plain = config("sim:sci?model=plain&fault=loss:0.1").expect("right").link;
        assert!(matches!(plain, Link::Plain { loss: 0.1, .. }), "{plain:?}");
    }

    #[test]
    fn a_card_on_a_topology_is_one_network_in_urls_and_scenarios() {
        for (url, network) in [
            ("sim:sci?nodes=5&model=lc1", "nodes = 5\npreset = \"lc1\""),
            ("sim:sci?nodes=8", "nodes = 8"),
            (
                "sim:sci?topology=torus:4x4&model=lc3",
                "kind = \"sci-torus\"\nside = 4\npreset = \"lc3\"",
            ),
            (
                "sim:sci?topology=switch:3x2&model=standard",
                "kind = \"sci-switch\"\nports = 3\nnodes = 2\npreset = \"standard\"",
            ),
        ] {
            let of_url = config(url).expect("right").link;
            let scenario = Scenario::parse("x.toml", &format!("[network]\n{network}"));
            let of_scenario = scenario.expect("right").sci_config(1);
            assert_eq!(of_url, Link::Network(of_scenario), "{url}");
        }
    }
}
