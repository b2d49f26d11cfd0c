//! The parameters of Myrinet's links, switches, cards and GM, with their origin.
//!
//! Certainty: "published" is in papers or pages of the makers, "derived" follows from published
//! numbers, "background" was remembered by an expert and not checked, "assumed" is a choice,
//! "calibrated" was chosen from a published result (`fluxline sim reproduce myrinet` lists them).

pub use super::clos::NODES_MAX;

use super::clos;
use super::error::ConfigError;
use crate::host::{Chipset, config::Bus, preset};
use crate::net::atoll;
use crate::{Clock, Duration};

/// A network of hosts with cards and switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The number of hosts.
    pub nodes: u32,
    /// The card of each host.
    pub card: Card,
    /// The bus between memory and card.
    pub bus: Bus,
    /// The links and switches.
    pub fabric: Fabric,
    /// The software of cards and hosts.
    pub gm: Gm,
    /// The chance that a bit of a link is wrong.
    pub bit_error_rate: f64,
    /// The seed of errors.
    pub seed: u64,
}

/// A card with its processor, the LANai.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The clock of the LANai.
    pub lanai: Clock,
    /// Ports, each with a link of its own into switches of its own.
    pub ports: u8,
}

/// Links and switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// The clock of links: a byte in each.
    pub clock: Clock,
    /// From a head at a switch to the head at its output \[clocks\].
    pub switch_clocks: u32,
    /// From the card to the link, and from the link to the card \[clocks\].
    pub end_clocks: u32,
    /// The delay of each cable.
    pub cable: Duration,
    /// Bytes of a packet besides its data and route: header and CRC.
    pub header_bytes: u32,
    /// The part of a packet that flow control acts on \[bytes\].
    pub grain_bytes: u32,
    /// From a change of a buffer to the sender's reaction, without the cable \[clocks\].
    pub stop_clocks: u32,
    /// Credits of a link \[bytes\]; 0: stop and go, with the buffer that they need: a round trip of
    /// the cable above the fill at which a stop leaves, and one below that at which a go leaves.
    pub credit_bytes: u32,
}

/// GM: the program of the LANai and the library of the host. Cycles are those of the LANai.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gm {
    /// The longest data of a packet \[bytes\].
    pub piece_bytes: u32,
    /// From a send token to the first fetch of its data.
    pub send_cycles: u32,
    /// From the last fetch of a message to the next token.
    pub record_cycles: u32,
    /// From the first packet of a message in the card to its data's way into memory.
    pub receive_cycles: u32,
    /// The same for its other packets.
    pub packet_cycles: u32,
    /// An acknowledgement, at each end.
    pub ack_cycles: u32,
    /// A send token \[bytes\].
    pub token_bytes: u32,
    /// The longest message that the host stores into the card with the token \[bytes\].
    pub inline_bytes: u32,
    /// An event that the card writes into the host's receive queue \[bytes\].
    pub event_bytes: u32,
    /// Send tokens of a host: messages that are not acknowledged.
    pub tokens: u32,
    /// Packets to one card that are not acknowledged.
    pub window: u32,
    /// From the last progress of a connection to the repetition of its packets.
    pub resend: Duration,
    /// From the last progress of a connection to its end.
    pub give_up: Duration,
}

impl Card {
    /// M3F2-PCIXE: LANai 2XP at 333 MHz, two ports. Published.
    #[must_use]
    pub fn e() -> Card {
        Card { lanai: Clock::from_hertz(333_000_000), ports: 2 }
    }

    /// M3F-PCIXD: LANai XP, one port (published) at 225 MHz (background).
    #[must_use]
    pub fn d() -> Card {
        Card { lanai: Clock::from_hertz(225_000_000), ports: 1 }
    }

    /// PCI64A: LANai 7 at 66 MHz, one port. Background.
    #[must_use]
    pub fn pci64a() -> Card {
        Card { lanai: Clock::from_hertz(66_000_000), ports: 1 }
    }

    /// PCI64C: LANai 9 at 200 MHz, one port. Background.
    #[must_use]
    pub fn pci64c() -> Card {
        Card { lanai: Clock::from_hertz(200_000_000), ports: 1 }
    }
}

impl Fabric {
    /// Myrinet 1280: 1.28 Gb/s. Background; all else as for Myrinet-2000.
    #[must_use]
    pub fn myrinet_1280() -> Fabric {
        Fabric { clock: Clock::from_hertz(160_000_000), ..Fabric::myrinet_2000() }
    }

    /// Myrinet-2000: 2 Gb/s.
    #[must_use]
    pub fn myrinet_2000() -> Fabric {
        Fabric {
            clock: Clock::from_hertz(250_000_000), // published: 2 Gb/s
            switch_clocks: 29,                     // calibrated: 1.1 us in the largest Clos
            end_clocks: 26,                        // calibrated: 0.5 us through one switch
            cable: Duration::from_ps(32_500),      // assumed: 5 m; published: 6.5 ns/m
            header_bytes: 25,                      // assumed: six words; published: CRC of 8 bits
            grain_bytes: 64,                       // assumed
            stop_clocks: 12,                       // assumed, as for ATOLL
            credit_bytes: 0,
        }
    }
}

impl Gm {
    /// GM 2.
    #[must_use]
    pub fn gm_2() -> Gm {
        Gm {
            piece_bytes: 4096,                  // background
            send_cycles: 383,                   // calibrated: 5.05 us; half of it assumed
            record_cycles: 672,                 // calibrated: half the rate at 1486 bytes
            receive_cycles: 383,                // as for sending
            packet_cycles: 383,                 // assumed: as for the first packet
            ack_cycles: 100,                    // assumed
            token_bytes: 32,                    // assumed: four words
            inline_bytes: 0,                    // the card fetches all data
            event_bytes: 64,                    // assumed: a cache line
            tokens: 64,                         // assumed
            window: 32,                         // assumed
            resend: Duration::from_us(2_000),   // assumed: above the queue of all other hosts
            give_up: Duration::from_us(50_000), // background: the time of a blocked port
        }
    }
}

impl Config {
    /// Returns hosts with GC-LE chip set, PCI-X at 133 MHz and E cards.
    #[must_use]
    pub fn new(nodes: u32) -> Config {
        Config {
            nodes,
            card: Card::e(),
            bus: preset::pci_x_133(),
            fabric: Fabric::myrinet_2000(),
            gm: Gm::gm_2(),
            bit_error_rate: 0.0,
            seed: 1,
        }
    }

    /// Returns the bus of a name: a measured PCI-X host, PCI, or PCI Express.
    #[must_use]
    pub fn bus_named(name: &str) -> Option<Bus> {
        match name {
            "pci32-33" => Some(preset::pci_32_33()),
            "pci64-66" => Some(preset::pci_64_66()),
            "pcie-x8" => Some(preset::pcie(2_000)),
            "pcie2-x8" => Some(preset::pcie(4_000)),
            "pcie3-x8" => Some(preset::pcie(7_880)),
            _ => Chipset::named(name).map(Chipset::bus),
        }
    }

    /// Returns the links and switches of one port of all cards.
    ///
    /// # Errors
    /// A number of hosts outside of the limits.
    pub(super) fn plane(&self, plane: u8) -> Result<atoll::Config, ConfigError> {
        let Fabric { clock, switch_clocks, end_clocks, cable, .. } = self.fabric;
        let mut network = atoll::Config {
            clock,
            packet_bytes: self.fabric.grain_bytes,
            overhead_symbols: 0,
            header_bytes: self.fabric.header_bytes,
            hop_clocks: switch_clocks,
            end_clocks,
            cable,
            ack_clocks: 0,
            stop_clocks: self.fabric.stop_clocks,
            errors: atoll::Errors::DroppedByTarget,
            // Each packet that a card may send, and as many acknowledgements.
            queue_messages: u32::MAX,
            bit_error_rate: self.bit_error_rate,
            seed: self.seed.wrapping_add(u64::from(plane)),
            ..atoll::Config::new(clos::wiring(self.nodes)?)
        };
        // What is left when a go leaves lasts until new data comes, so the output is not idle.
        let (grain, slack) = (self.fabric.grain_bytes, network.slack_bytes());
        let trip = slack.saturating_sub(grain).checked_next_multiple_of(grain);
        network.go_bytes = trip.unwrap_or(u32::MAX).max(grain);
        network.fifo_bytes = network.go_bytes.saturating_add(slack);
        if self.fabric.credit_bytes > 0 {
            network.flow = atoll::Flow::Credits;
            network.fifo_bytes = self.fabric.credit_bytes;
        }
        Ok(network)
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the invalid value and the allowed ones.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Gm { piece_bytes, tokens, window, resend, give_up, .. } = self.gm;
        let problem = if !(2..=NODES_MAX).contains(&self.nodes) {
            format!("{} nodes: give 2 to {NODES_MAX}", self.nodes)
        } else if !(1..=8).contains(&self.card.ports) {
            format!("{} ports of a card: give 1 to 8", self.card.ports)
        } else if self.card.lanai.hertz() < 1_000_000 {
            format!("a LANai of {} Hz: give 1 MHz or more", self.card.lanai.hertz())
        } else if !(1..=1 << 20).contains(&piece_bytes) {
            format!("packets of {piece_bytes} bytes: give 1 to 1048576")
        } else if tokens == 0 || !(1..=1024).contains(&window) {
            format!("{tokens} tokens and a window of {window}: give 1 or more, and 1 to 1024")
        } else if resend == Duration::ZERO || give_up < resend {
            format!("repetition after {resend} and an end after {give_up}: give a longer end")
        } else {
            return Ok(self.plane(0)?.check()?);
        };
        Err(ConfigError(problem))
    }
}
