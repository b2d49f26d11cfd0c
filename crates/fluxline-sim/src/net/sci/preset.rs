//! Configurations by name. Each constant has its source, or the mark of a remembered one:
//! BACKGROUND-H, -M, -L for high, medium, low confidence; DERIVED for arithmetic from the others.

use super::NodeId;
use super::config::{Bus, Config, Faults, Retry, Topology};
use super::packet::HEADER_SYMBOLS;
use crate::Clock;
use serde::{Deserialize, Serialize};

/// B-Link of the older cards, 64 bits (BACKGROUND-M) at 50 MHz (J. Merkey's mails): DERIVED.
const B_LINK_50_MHZ: u64 = 400_000_000;
/// B-Link of D33x cards, 64 bits (BACKGROUND-M) at 80 MHz (the same): DERIVED.
const B_LINK_80_MHZ: u64 = 640_000_000;
/// Switching between dimensions on a D33x card, about 670 ns in total (BACKGROUND-M), less the 125
/// ns of an 80-byte packet on the B-Link at 640 MB/s: DERIVED \[ns\].
const TURN_NS: u64 = 545;
/// Bypass of a node, about 60 ns (BACKGROUND-M, measured on D33x cards) \[ns\].
const BYPASS_NS: u64 = 60;
/// Propagation on a cable, about 7 ns (BACKGROUND-M) \[ns\].
const CABLE_NS: u64 = 7;

/// Returns the symbols that begin in `ns`, at least 1.
const fn symbols(hertz: u64, ns: u64) -> u32 {
    let whole = (hertz * ns).div_ceil(1_000_000_000) as u32;
    if whole == 0 { 1 } else { whole }
}

/// Link controllers whose speeds and delays are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// 1 GB/s, as in the standard.
    Standard,
    /// Dolphin LC-1: 200 MB/s.
    Lc1,
    /// Dolphin LC-2: 400 MB/s.
    #[default]
    Lc2,
    /// Dolphin LC-3: 667 MB/s.
    Lc3,
}

impl Preset {
    /// All presets, in the order of their links' rates except the first.
    pub const ALL: [Preset; 4] = [Preset::Standard, Preset::Lc1, Preset::Lc2, Preset::Lc3];

    /// Returns the name, as in scenarios and URLs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::Standard => "standard",
            Preset::Lc1 => "lc1",
            Preset::Lc2 => "lc2",
            Preset::Lc3 => "lc3",
        }
    }

    /// Returns the preset of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Describes the preset in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Preset::Standard => "SCI at 1 GB/s, as in the standard",
            Preset::Lc1 => "Dolphin LC-1",
            Preset::Lc2 => "Dolphin LC-2, cards D31x",
            Preset::Lc3 => "Dolphin LC-3, cards D33x",
        }
    }

    /// Builds the network of these link controllers. Scenarios, URLs and published experiments all
    /// use it, so that one card has one model.
    #[must_use]
    pub fn network(self, topology: Topology) -> Config {
        let ring = match self {
            Preset::Standard => Config::ring(2),
            Preset::Lc1 => Config::lc1(2),
            Preset::Lc2 => Config::lc2(2),
            Preset::Lc3 => Config::lc3(2),
        };
        ring.on(topology)
    }
}

impl Config {
    /// Returns the same link controllers on another topology: one for each ringlet of a node, which
    /// a bus joins where there are several.
    #[must_use]
    pub fn on(self, topology: Topology) -> Config {
        match topology {
            Topology::Ring { nodes } => {
                Config { topology, addresses: plain_addresses(nodes), bus: None, ..self }
            }
            topology => self.joined(topology),
        }
    }

    /// Returns one ringlet of `nodes` nodes at 1 GB/s as in the standard; addresses are indices.
    #[must_use]
    pub fn ring(nodes: u32) -> Config {
        Config {
            topology: Topology::Ring { nodes },
            addresses: plain_addresses(nodes),
            // 1 GB/s, 16 bits wide: FOLDOC and the standard's abstract.
            clock: Clock::from_hertz(500_000_000),
            // Gate 1, wire 1, parse 2 (Scott, Goodman and Vernon's node): BACKGROUND-M.
            pass_symbols: 4,
            // Included in the 4 above.
            cable_symbols: 0,
            // Header and 256 bytes: it must hold the longest packet (BACKGROUND-H).
            bypass_symbols: HEADER_SYMBOLS + 128,
            flow_control: true,
            retry: Retry::Aged,
            // "A handful" in the LC chips: BACKGROUND-L. The queue: assumed.
            send_queue: 8,
            unacknowledged: 4,
            // Assumed.
            request_queue: 4,
            response_queue: 4,
            // 2 to 4: BACKGROUND-L. 2 is safe, because toggles do not overtake packets.
            circulations: 2,
            // Assumed: 200 us at 1 GB/s, longer than a loaded circulation of some hundred nodes.
            dead_symbols: 100_000,
            bus: None,
            faults: Faults::default(),
        }
    }

    /// Returns a ringlet of chips of one kind with link clock `hertz` and the delays of D33x cards.
    fn cards(nodes: u32, hertz: u64) -> Config {
        Config {
            clock: Clock::from_hertz(hertz),
            pass_symbols: symbols(hertz, BYPASS_NS),
            cable_symbols: symbols(hertz, CABLE_NS),
            ..Config::ring(nodes)
        }
    }

    /// A ring of Dolphin LC-1 chips (SBus cards): 200 MB/s, BACKGROUND-M; cross-checked by the
    /// total of 187 MB/s that Omang and Parady measured on ten nodes.
    #[must_use]
    pub fn lc1(nodes: u32) -> Config {
        Config::cards(nodes, 100_000_000)
    }

    /// A ring of Dolphin LC-2 chips, D31x cards: 400 MB/s, BACKGROUND-M.
    #[must_use]
    pub fn lc2(nodes: u32) -> Config {
        Config::cards(nodes, 200_000_000)
    }

    /// A ring of Dolphin LC-3 chips, D33x cards: 667 MB/s (5333 Mbit/s both ways, vendor's figure).
    #[must_use]
    pub fn lc3(nodes: u32) -> Config {
        Config::cards(nodes, 333_500_000)
    }

    /// The same cards on a torus of `sizes` nodes, or on ringlets behind a switch, joined in each
    /// node by a B-Link: 80 MHz for links of 667 MB/s and more, otherwise 50 MHz. Addresses are
    /// indices.
    #[must_use]
    pub fn joined(self, topology: Topology) -> Config {
        let hertz = self.clock.hertz();
        let bytes_per_second = if hertz >= 333_000_000 { B_LINK_80_MHZ } else { B_LINK_50_MHZ };
        let delay = u64::from(symbols(hertz, TURN_NS));
        let addresses = plain_addresses(topology.nodes().min(1 << 16) as u32);
        Config { topology, addresses, bus: Some(Bus { bytes_per_second, delay }), ..self }
    }

    /// Sets the addresses of Dolphin's driver: on ring r, node i has 0x40 r + 4 (i + 1); at most 15
    /// nodes a ring (SCI-MPICH manual). Rings are those of dimension 0. Returns `None` if the
    /// addresses do not fit.
    #[must_use]
    pub fn with_dolphin_ids(self) -> Option<Config> {
        const NODES_MAX: u32 = 15;
        let per_ring = match &self.topology {
            Topology::Ring { nodes } => *nodes,
            Topology::Torus { sizes } => *sizes.first()?,
            // Ringlets of different lengths have no such numbers.
            Topology::Switch { ringlets } => {
                *ringlets.first().filter(|first| ringlets.iter().all(|of| of == *first))?
            }
        };
        let count = self.addresses.len() as u32;
        if per_ring > NODES_MAX || u64::from(count / per_ring) * 0x40 + 0x3C > 0xFFEF {
            return None;
        }
        let id = |node: u32| NodeId((node / per_ring * 0x40 + 4 * (node % per_ring + 1)) as u16);
        Some(Config { addresses: (0..count).map(id).collect(), ..self })
    }
}

fn plain_addresses(nodes: u32) -> Vec<NodeId> {
    (0..nodes).map(|node| NodeId(node as u16)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, NodeId, Topology};

    #[test]
    fn presets_fit_and_have_the_delays_of_their_cards() {
        for (config, ps) in
            [(Config::lc1(10), 70_000), (Config::lc2(8), 70_000), (Config::lc3(16), 71_964)]
        {
            config.check().expect("a preset");
            let hop = u64::from(config.pass_symbols + config.cable_symbols);
            let hop = config.clock.span(hop).as_ps();
            assert!(hop.abs_diff(ps) < 4_000, "{hop} ps");
        }
        let torus = Config::lc3(2).joined(Topology::Torus { sizes: vec![4, 4] });
        torus.check().expect("a torus");
        assert_eq!(torus.addresses.len(), 16);
    }

    #[test]
    fn dolphin_ids_step_by_4_in_a_ring_and_by_64_from_ring_to_ring() {
        let torus = Config::lc3(2).joined(Topology::Torus { sizes: vec![3, 2] });
        let ids = torus.with_dolphin_ids().expect("a small torus").addresses;
        assert_eq!(ids, [4, 8, 12, 68, 72, 76].map(NodeId));
        assert_eq!(Config::ring(16).with_dolphin_ids(), None);
    }

    #[test]
    fn all_65520_addresses_can_be_used_and_no_more() {
        assert!(Config::ring(65_520).check().is_ok());
        assert!(Config::ring(65_521).check().is_err());
    }
}
