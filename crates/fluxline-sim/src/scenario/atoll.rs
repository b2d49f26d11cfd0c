//! ATOLL in scenario files and URLs: the same wirings and the same keys.

use serde::{Deserialize, Serialize};

use super::network::{Kind, NetworkPart};
use super::url_parts::{Keys, OpenError, UrlFaults, keys_behind};
use crate::fabric::courier::Times;
use crate::host::{MessageDma, preset};
use crate::net::atoll::adapter::cluster::ClusterConfig;
use crate::net::atoll::adapter::host;
use crate::net::atoll::adapter::shared::PROCESSES_MAX;
use crate::net::atoll::manager::{Algorithm, Settings};
use crate::net::atoll::{Config, ConfigError, Grid, Routing, Wiring};
use crate::{Clock, Duration};

/// The keys of a URL, in the order of the manual.
const KEYS: &str = "grid, torus, ring, full, clock, cable, routing, bus, processes, seed, \
                             fault, dump, manager";
const FAULT: &str = "bits:1e-6, host:3@1ms, power:3@1ms, cable:3@1ms, repair:3@2ms, cut:3-4@1ms or \
                     mend:3-4@2ms, joined by commas";
/// The kinds of wirings that a URL can name.
const SHAPES: [(&str, Kind); 4] = [
    ("grid", Kind::AtollGrid),
    ("torus", Kind::AtollTorus),
    ("ring", Kind::AtollRing),
    ("full", Kind::AtollFull),
];
/// Nodes along each side of a URL without a wiring. A choice.
const SIDE: u32 = 4;
/// The delay of a cable \[ps/m\]. Background: signals in copper.
const CABLE_PS_PER_M: f64 = 5_000.0;
const CLOCK: &str = "1 to 10000 MHz";
const CABLE: &str = "0 to 1000 m";

/// The choice of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingName {
    /// Along the row, then along the column; on other wirings a shortest path.
    #[default]
    Dimension,
    /// A shortest path.
    Shortest,
    /// First towards a root, then away from it: no deadlocks.
    #[serde(rename = "updown")]
    UpDown,
    /// Found by a search that closes no circle: no deadlocks.
    Nue,
}

impl RoutingName {
    /// All choices.
    pub const ALL: [RoutingName; 4] =
        [RoutingName::Dimension, RoutingName::Shortest, RoutingName::UpDown, RoutingName::Nue];

    /// Returns the name as in a file or URL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RoutingName::Dimension => "dimension",
            RoutingName::Shortest => "shortest",
            RoutingName::UpDown => "updown",
            RoutingName::Nue => "nue",
        }
    }

    fn routing(self) -> Routing {
        match self {
            RoutingName::Dimension => Routing::DimensionOrder,
            RoutingName::Shortest => Routing::Shortest,
            RoutingName::UpDown => Routing::UpDown,
            RoutingName::Nue => Routing::Nue,
        }
    }
}

/// The chips and cables of an ATOLL network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct AtollPart {
    /// The clock of crossbars and links \[MHz\].
    pub clock: f64,
    /// The length of each cable \[m\].
    pub cable: f64,
    /// The paths.
    pub routing: RoutingName,
    /// Host ports of each node whose processes send.
    pub ports: u32,
    /// Messages that wait at each host port.
    pub queue: u32,
    /// The buffer of each link input \[byte\].
    pub buffer: u32,
    /// The fill at which a stopped sender goes on \[byte\].
    pub go: u32,
    /// Packets in the retransmission buffer of a link.
    pub retransmission: u32,
}

impl Default for AtollPart {
    fn default() -> AtollPart {
        AtollPart {
            clock: 250.0,
            cable: 5.0,
            routing: RoutingName::Dimension,
            ports: 4,
            queue: 64,
            buffer: 256,
            go: 128,
            retransmission: 4,
        }
    }
}

/// Faults of links that begin with the network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Errors {
    /// The chance that a bit of a link is wrong.
    pub bit_error_rate: f64,
    /// The seed of errors.
    pub seed: u64,
}

impl AtollPart {
    /// Returns the clock of crossbars and links; a symbol is a byte.
    pub(super) fn hertz(&self) -> u64 {
        (self.clock * 1e6) as u64
    }

    /// Returns the configuration of the network, or the mistake in one sentence.
    pub(super) fn config(&self, network: &NetworkPart, errors: Errors) -> Result<Config, String> {
        if !(1.0..=10_000.0).contains(&self.clock) {
            return Err(format!("`atoll.clock` is {}; write {CLOCK}.", self.clock));
        }
        if !(0.0..=1000.0).contains(&self.cable) {
            return Err(format!("`atoll.cable` is {}; write {CABLE}.", self.cable));
        }
        if !(1..=4).contains(&self.ports) {
            return Err(format!("`atoll.ports` is {}; write 1 to 4.", self.ports));
        }
        let wiring = network.atoll_wiring().map_err(|error| format!("`network`: {error}."))?;
        let mut config = Config {
            routing: self.routing.routing(),
            clock: Clock::from_hertz(self.hertz()),
            cable: Duration::from_ps((self.cable * CABLE_PS_PER_M) as u64),
            packet_bytes: network.packet_bytes,
            queue_messages: self.queue,
            fifo_bytes: self.buffer,
            go_bytes: self.go,
            window: self.retransmission,
            bit_error_rate: errors.bit_error_rate,
            seed: errors.seed,
            ..Config::new(wiring)
        };
        if self.buffer == AtollPart::default().buffer {
            // Long cables need longer buffers.
            let least = config.go_bytes.saturating_add(config.slack_bytes());
            config.fifo_bytes = config.fifo_bytes.max(least);
        }
        config.check().map_err(|error| format!("`atoll`: {error}."))?;
        Ok(config)
    }
}

impl NetworkPart {
    /// Returns the nodes and cables of a kind of ATOLL.
    pub(crate) fn atoll_wiring(&self) -> Result<Wiring, ConfigError> {
        match self.kind {
            Kind::AtollRing => Wiring::ring(self.nodes),
            Kind::AtollFull => Wiring::full(self.nodes),
            Kind::AtollGraph => {
                let missing = || ConfigError("the file with the cables is missing".to_owned());
                self.wiring.clone().ok_or_else(missing)
            }
            kind => {
                let [columns, rows] = self.sides()[..] else {
                    let problem = "a grid has 2 sides: columns and rows";
                    return Err(ConfigError(problem.to_owned()));
                };
                Wiring::grid(Grid { columns, rows, is_torus: kind == Kind::AtollTorus })
            }
        }
    }
}

/// Returns true if a URL is for an ATOLL network.
pub(super) fn is_atoll(url: &str) -> bool {
    url.split('?').next() == Some("sim:atoll")
}

/// Returns the keys of a URL.
pub(super) fn atoll_keys(url: &str) -> Result<Keys<'_>, OpenError> {
    keys_behind(url, "sim:atoll", KEYS)
}

/// The network of a URL, with its faults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Described {
    pub network: NetworkPart,
    pub atoll: AtollPart,
    pub seed: u64,
    pub faults: UrlFaults,
    pub bus: crate::host::config::Bus,
    pub processes: u32,
    pub management: Option<Settings>,
}

/// Reads a URL; `docs/simulation/atoll.md` has its keys.
pub(super) fn describe(url: &str) -> Result<Described, OpenError> {
    let keys = atoll_keys(url)?;
    let usual = AtollPart::default();
    let atoll = AtollPart {
        clock: keys.amount("clock", usual.clock, CLOCK)?,
        cable: keys.amount("cable", usual.cable, CABLE)?,
        routing: match keys.find("routing") {
            None => usual.routing,
            Some(name) => {
                let known = RoutingName::ALL.into_iter().find(|of| of.name() == name);
                known
                    .ok_or_else(|| keys.refused("routing", "dimension, shortest, updown or nue"))?
            }
        },
        ..usual
    };
    let bus = match keys.find("bus") {
        Some("pci64-66") => preset::pci_64_66(),
        None | Some("pcix-100") => preset::pci_x_100(),
        Some("pcix-133") => preset::pci_x_133(),
        Some(_) => return Err(keys.refused("bus", "pci64-66, pcix-100 or pcix-133")),
    };
    let few = "1 to 4: a host port for each process of a node";
    let processes = keys.number("processes", 1, few)?;
    if !(1..=u64::from(PROCESSES_MAX)).contains(&processes) {
        return Err(keys.refused("processes", few));
    }
    let processes = processes as u32;
    let seed = keys.number("seed", 1, "a whole number")?;
    let faults = keys.faults(FAULT)?;
    if faults.loss > 0.0 {
        return Err(keys.refused("fault", FAULT));
    }
    let network = network(&keys)?;
    let management = management(&keys, atoll.routing)?;
    Ok(Described { network, atoll, seed, faults, bus, processes, management })
}

impl Described {
    /// Returns the configuration of nodes with a `Fabric`.
    pub(super) fn cluster(self) -> Result<ClusterConfig, OpenError> {
        let errors = Errors { bit_error_rate: self.faults.bits, seed: self.seed };
        let network = self.atoll.config(&self.network, errors).map_err(OpenError::Atoll)?;
        let (processes, times, management) = (self.processes, times(self.bus), self.management);
        Ok(ClusterConfig { network, processes, times, faults: self.faults.list, management })
    }
}

/// Returns the times of the host that the published figures are compared with, on another bus.
/// Those of requests and answers are assumed.
fn times(bus: crate::host::config::Bus) -> Times {
    let host::Times { call, dma, .. } = host::Times::pc();
    Times { call, dma: Some(MessageDma { bus, ..dma }), ..Times::default() }
}

/// Reads the key of the manager. It computes the routes that the URL names, or safe ones.
fn management(keys: &Keys<'_>, routing: RoutingName) -> Result<Option<Settings>, OpenError> {
    let manager = match keys.find("manager") {
        None | Some("off") => return Ok(None),
        Some("on") => 0,
        Some(_) => keys.number("manager", 0, "on, off or a node")? as u32,
    };
    let algorithm = match routing {
        RoutingName::Dimension => Algorithm::Safe,
        RoutingName::Shortest => Algorithm::Shortest,
        RoutingName::UpDown => Algorithm::UpDown,
        RoutingName::Nue => Algorithm::Nue,
    };
    Ok(Some(Settings { manager, algorithm, ..Settings::default() }))
}

/// Reads the key of the wiring, of which there is at most one.
fn network(keys: &Keys<'_>) -> Result<NetworkPart, OpenError> {
    let mut given = SHAPES.into_iter().filter(|(key, _)| keys.find(key).is_some());
    let Some((key, kind)) = given.next() else {
        let sides = vec![SIDE, SIDE];
        return Ok(NetworkPart { kind: Kind::AtollGrid, sides, ..NetworkPart::default() });
    };
    if let Some((other, _)) = given.next() {
        return Err(OpenError::Atoll(format!("give {key} or {other}, not both")));
    }
    let wrong = || keys.refused(key, "a number of nodes, or COLUMNSxROWS for grid and torus");
    let numbers = keys.find(key).unwrap_or_default().split('x').map(|text| text.parse().ok());
    let numbers: Vec<u32> = numbers.collect::<Option<_>>().ok_or_else(wrong)?;
    let part = NetworkPart { kind, ..NetworkPart::default() };
    match numbers[..] {
        [_, _] if kind.is_grid() => Ok(NetworkPart { sides: numbers, ..part }),
        [nodes] if !kind.is_grid() => Ok(NetworkPart { nodes, ..part }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, describe};
    use crate::scenario::Scenario;

    #[test]
    fn a_wiring_is_one_network_in_urls_and_scenarios() {
        for (url, text) in [
            ("sim:atoll", "kind = \"atoll-grid\"\nside = 4"),
            ("sim:atoll?torus=4x3", "kind = \"atoll-torus\"\nsides = [4, 3]"),
            ("sim:atoll?ring=5", "kind = \"atoll-ring\"\nnodes = 5"),
            (
                "sim:atoll?full=5&clock=243&cable=300&routing=shortest",
                "kind = \"atoll-full\"\nnodes = 5\n[atoll]\nclock = 243\ncable = 300\n\
                 routing = \"shortest\"",
            ),
        ] {
            let described = describe(url).expect("right");
            let errors = Errors { bit_error_rate: 0.0, seed: 1 };
            let of_url = described.atoll.config(&described.network, errors).expect("right");
            let scenario = Scenario::parse("x.toml", &format!("[network]\n{text}"));
            let of_scenario = scenario.expect("right").atoll_config().expect("right");
            assert_eq!(of_url, of_scenario, "{url}");
            assert_eq!(describe(url).expect("right").cluster().expect("right").network, of_url);
        }
    }
}
