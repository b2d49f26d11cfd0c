//! The parameters of ATOLL chips and cables, with their origin.
//!
//! Certainty: "published" is in papers or pages of the makers, "derived" follows from published
//! numbers, "background" was remembered by an expert and not checked, "assumed" is a choice.

use super::error::ConfigError;
use super::routes::{HOPS_MAX, Routing};
use super::wiring::{Grid, Wiring};
use crate::{Clock, Duration};

/// The treatment of damaged packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// Each link finds and repeats them.
    RepeatedByLinks,
    /// They go on, and the target drops their message.
    DroppedByTarget,
}

/// The flow control of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The receiver stops the sender, and lets it go on.
    StopGo,
    /// The sender has a credit for each place in the receiver's buffer.
    Credits,
}

/// The network: chips, cables and routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The nodes and cables.
    pub wiring: Wiring,
    /// The paths.
    pub routing: Routing,
    /// The clock of crossbars and links; a link carries one symbol, a byte, in each clock. It does
    /// not change the host side.
    pub clock: Clock,
    /// The largest payload of a link packet \[bytes\].
    pub packet_bytes: u32,
    /// Symbols of a link packet besides its payload: delimiters, CRC, and inserted control symbols
    /// of the reverse stream.
    pub overhead_symbols: u32,
    /// The header of a message \[bytes\].
    pub header_bytes: u32,
    /// From a head at the input of a chip to the head at its output \[clocks\].
    pub hop_clocks: u32,
    /// The same at a chip that is only the end of a link: from the hand-over to its output, and
    /// from its input to the hand-over.
    pub end_clocks: u32,
    /// The delay of each cable; it is rounded up to clocks.
    pub cable: Duration,
    /// From the tail at the receiver until its acknowledgement leaves, and from the arrival of the
    /// acknowledgement until the sender acts on it, together \[clocks\].
    pub ack_clocks: u32,
    /// The same for stop and go symbols.
    pub stop_clocks: u32,
    /// The flow control of links.
    pub flow: Flow,
    /// The buffer of each link input \[bytes of payload\].
    pub fifo_bytes: u32,
    /// The fill of the buffer at which a stopped sender may go on \[bytes\].
    pub go_bytes: u32,
    /// The treatment of damaged packets.
    pub errors: Errors,
    /// Packets in the retransmission buffer of a link output, at most [`WINDOW_MAX`].
    pub window: u32,
    /// Messages that wait at each host port.
    pub queue_messages: u32,
    /// The chance that a bit of a link is wrong.
    pub bit_error_rate: f64,
    /// The seed of errors.
    pub seed: u64,
}

/// The most packets of a retransmission buffer. A choice.
pub const WINDOW_MAX: usize = 8;
/// The most nodes with a table of routes. A choice: it has 16 MB.
const TABLE_NODES_MAX: u32 = 4096;
/// Bits of a symbol: 8 of data and one that marks control symbols. Background.
const SYMBOL_BITS: u32 = 9;

impl Config {
    /// Returns chips at 250 MHz with cables of 5 m.
    #[must_use]
    pub fn new(wiring: Wiring) -> Config {
        Config {
            wiring,
            routing: Routing::DimensionOrder,
            clock: Clock::from_hertz(250_000_000), // published
            packet_bytes: 64,                      // published
            overhead_symbols: 8,                   // derived: 221 of 250 MB/s are 64 of 72.4
            header_bytes: 8,                       // assumed: one word
            hop_clocks: 27,                        // published: 24 to 27
            end_clocks: 27,                        // no chip is only an end
            errors: Errors::RepeatedByLinks,       // published
            cable: Duration::from_ns(25),          // background: 5 ns/m of copper; 5 m published
            ack_clocks: 20,                        // assumed
            stop_clocks: 12,                       // assumed: twice 6
            flow: Flow::StopGo,                    // background
            fifo_bytes: 256,                       // derived: twice the slack and hysteresis
            go_bytes: 128,                         // assumed: half of the buffer
            window: 4,                             // derived: 2 to 3 packets fill a round trip
            queue_messages: 64,                    // assumed: descriptors of a host port
            bit_error_rate: 0.0,
            seed: 1,
        }
    }

    /// Returns the delay of a cable \[clocks\], at least 1.
    #[must_use]
    pub fn cable_clocks(&self) -> u64 {
        self.clock.tick_from(crate::Instant::START + self.cable).max(1)
    }

    /// Returns the time from a head at an output to the time at which it can leave the next chip
    /// \[clocks\].
    pub(super) fn hop(&self) -> u64 {
        self.cable_clocks() + u64::from(self.hop_clocks)
    }

    /// Returns the time from a head at an output to its hand-over at the end of the link
    /// \[clocks\].
    pub(super) fn end(&self) -> u64 {
        self.cable_clocks() + u64::from(self.end_clocks)
    }

    /// Returns the time from the hand-over of a message to its head at an output \[clocks\].
    pub(super) fn source(&self) -> u64 {
        let has_ends = self.wiring.ends() > 0;
        u64::from(if has_ends { self.end_clocks } else { self.hop_clocks })
    }

    /// Returns the time from the end of a packet at a sender to its acknowledgement \[clocks\].
    pub(super) fn ack(&self) -> u64 {
        2 * self.cable_clocks() + u64::from(self.ack_clocks)
    }

    /// Returns the time from a change of a buffer to the sender's reaction \[clocks\].
    pub(super) fn control(&self) -> u64 {
        self.cable_clocks() + u64::from(self.stop_clocks)
    }

    /// Returns the bytes that may still arrive after a receiver has decided to send a stop. In the
    /// time until it acts, whole packets arrive at the rate of the link, and one more may have
    /// begun.
    #[must_use]
    pub fn slack_bytes(&self) -> u32 {
        let payload = u64::from(self.packet_bytes);
        let packet = (payload + u64::from(self.overhead_symbols)).max(1);
        let coming =
            (self.control() + self.hop().max(self.end())).saturating_mul(payload).div_ceil(packet);
        u32::try_from(coming + payload).unwrap_or(u32::MAX)
    }

    /// Returns the fill above which a receiver sends a stop: the slack fits above it.
    #[must_use]
    pub fn stop_bytes(&self) -> u32 {
        self.fifo_bytes.saturating_sub(self.slack_bytes())
    }

    /// Returns the symbols of the longest link packet, with all route symbols.
    pub(super) fn longest(&self) -> u64 {
        u64::from(self.packet_bytes + self.overhead_symbols + HOPS_MAX)
    }

    /// Returns the chance that a packet arrives whole, by its number of symbols.
    pub(super) fn survivals(&self) -> Vec<f64> {
        let symbol = (0..SYMBOL_BITS).fold(1.0, |all, _| all * (1.0 - self.bit_error_rate));
        let mut all = vec![1.0];
        (0..self.longest()).for_each(|of| all.push(all[of as usize] * symbol));
        all
    }

    /// Returns true if the routes are a table of all pairs of nodes.
    fn has_table(&self) -> bool {
        self.routing != Routing::DimensionOrder || self.wiring.shape().is_none()
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the invalid value and the allowed ones.
    pub fn check(&self) -> Result<(), ConfigError> {
        let megahertz = self.clock.hertz() / 1_000_000;
        let links = self.wiring.shape().map_or(0, Grid::longest);
        let (nodes, has_table) = (self.wiring.nodes(), self.has_table());
        let least = match self.flow {
            Flow::StopGo => self.go_bytes.saturating_add(self.slack_bytes()),
            Flow::Credits => self.packet_bytes,
        };
        let problem = if !(1..=10_000).contains(&megahertz) {
            format!("a clock of {} Hz: give 1 to 10000 MHz", self.clock.hertz())
        } else if !(1..=4096).contains(&self.packet_bytes) {
            format!("packets of {} bytes: give 1 to 4096", self.packet_bytes)
        } else if !(1..=4096).contains(&self.header_bytes) {
            format!("a header of {} bytes: give 1 to 4096", self.header_bytes)
        } else if self.overhead_symbols > 4096 {
            format!("{} symbols of overhead: give at most 4096", self.overhead_symbols)
        } else if !(1..=WINDOW_MAX as u32).contains(&self.window) {
            format!("a window of {} packets: give 1 to {WINDOW_MAX}", self.window)
        } else if ![self.hop_clocks, self.end_clocks].iter().all(|of| (1..=4096).contains(of))
            || self.cable_clocks() > 4096
        {
            "a hop and a cable take 1 to 4096 clocks each".to_owned()
        } else if self.ack_clocks > 4096 || self.stop_clocks > 4096 {
            "control symbols take at most 4096 clocks".to_owned()
        } else if self.fifo_bytes > 1 << 24 || self.fifo_bytes < least {
            format!("a buffer of {} bytes: give {least} to 16777216", self.fifo_bytes)
        } else if self.go_bytes < self.packet_bytes {
            format!("go_bytes is {}: give a packet or more", self.go_bytes)
        } else if links > HOPS_MAX {
            format!("paths of {links} links: give sides whose paths have at most {HOPS_MAX}")
        } else if has_table && nodes > TABLE_NODES_MAX {
            format!("{nodes} nodes: without dimension order, give at most {TABLE_NODES_MAX}")
        } else if self.queue_messages == 0 {
            "queue_messages is 0: a host port must hold a message to send it".to_owned()
        } else if !(0.0..=0.01).contains(&self.bit_error_rate) {
            format!("a bit error rate of {}: give 0 to 0.01", self.bit_error_rate)
        } else {
            return Ok(());
        };
        Err(ConfigError(problem))
    }
}
