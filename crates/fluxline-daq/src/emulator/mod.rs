//! Emulated sensors: packets made from the description that also receives them, with faults.
//!
//! A board is not always available, and never loses packets on demand. An emulator makes the
//! packets of N boards, in the order of time, from a seed. It drops, duplicates, reorders and
//! damages packets and restarts sources with given probabilities, and then reports the exact
//! counts. The first and the last packet of each numbering are always sent whole and in order:
//! without one before and one after it, no receiver can see that a packet is missing.

mod patch;
pub mod roce;
mod sensor_time;
mod source;
mod template;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;

use fluxline_core::{Moment, Span};
use fluxline_packet::Description;
use serde::{Deserialize, Serialize};

pub use source::SourceTruth;
use source::{EmulatedSource, Made};
use template::Template;

/// The packets and faults to emulate.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// Number of sources; at least 1.
    pub sources: u32,
    /// The packet type; `None`: the first with a packet counter or an event key.
    pub packet: Option<String>,
    /// Payload of a packet \[byte\]; `None`: the description's.
    pub payload_bytes: Option<u32>,
    /// The contents of payloads.
    pub pattern: Pattern,
    /// Packets per second and source; 0: all at once.
    pub rate: f64,
    /// Jitter as a share of the period, 0 to 1.
    pub jitter: f64,
    /// Packets per source; 0: no limit.
    pub packets: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// The wall time of the start, for time stamps.
    pub epoch_start: Moment,
    /// The faults.
    pub faults: Faults,
}

/// Content of payloads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A ramp of 16-bit little-endian numbers that goes on from packet to packet.
    #[default]
    Counter,
    /// Random bytes.
    Noise,
    /// Only zeros.
    Zero,
}

/// Faults, by probability per packet.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Faults {
    /// It is never sent.
    pub drop: f64,
    /// It is sent twice.
    pub duplicate: f64,
    /// It is sent after some of its successors.
    pub reorder: f64,
    /// The largest number of successors that go first; 0 means 4.
    pub reorder_distance: u32,
    /// One bit of it is flipped.
    pub corrupt: f64,
    /// Its source falls silent first.
    pub stall: f64,
    /// The length of that silence \[ms\].
    pub stall_ms: u64,
    /// Its source restarts first, with all counters at zero. A receiver takes numbers within its
    /// window behind the newest for duplicates, and so sees no restart after few packets.
    pub restart: f64,
}

/// The reorder distance where none is given.
const REORDER_DISTANCE: u32 = 4;

impl Faults {
    /// Returns the largest number of packets by which one is late.
    pub(crate) fn distance(&self) -> u32 {
        match self.reorder_distance {
            0 => REORDER_DISTANCE,
            distance => distance,
        }
    }
}

/// The reason why packets of a description cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulatorError {
    /// The configuration names an unknown packet type.
    #[error("the description `{format}` has no packet type `{name}`; it has {known}.")]
    NoSuchPacket {
        /// The description.
        format: String,
        /// The name in the configuration.
        name: String,
        /// The known names.
        known: String,
    },
    /// The configuration makes packets too long.
    #[error(
        "a packet of {bytes} bytes is longer than a datagram can be (65507): make payload-bytes \
         smaller."
    )]
    TooLong {
        /// Their size \[byte\].
        bytes: usize,
    },
    /// The configuration has more sources than the description has keys.
    #[error(
        "packets of `{format}` distinguish {distinct} sources, so {sources} cannot be emulated: emulate \
         {distinct}, or say under `emulate = {{ fields = {{ ... }} }}` how `source` makes the key."
    )]
    TooManySources {
        /// The description.
        format: String,
        /// The number of sources in the configuration.
        sources: u32,
        /// The number of different keys.
        distinct: usize,
    },
    /// The description reads a value that differs from the one that was written.
    #[error(
        "packets of `{format}` (type `{packet}`) cannot be emulated: {problem}; say how the \
         field is filled under `emulate = {{ fields = {{ ... }} }}` in the description."
    )]
    NotReadBack {
        /// The description.
        format: String,
        /// The packet type.
        packet: String,
        /// The role that differs.
        problem: String,
    },
}

/// One packet to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Emission<'a> {
    /// Its time after the start.
    pub at: Span,
    /// Number of its source.
    pub source: u32,
    /// The socket to send it from: below [`Emulator::senders`].
    pub sender: u32,
    /// Number of packets that its source had made before; copies share it, and restarts do not
    /// change it.
    pub number: u64,
    /// The bit that was flipped on purpose, counted from the first byte's lowest.
    pub flipped_bit: Option<u64>,
    /// The UDP payload.
    pub bytes: &'a [u8],
}

/// A packet that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    pub(crate) flipped_bit: Option<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// Sender ports of one address. Source: the dynamic ports, RFC 6335 §6.
const SENDER_PORTS: Range<u32> = 49_152..65_536;

/// Returns the address that sender number `number` sends from, unless something else decides it:
/// all dynamic ports of `first`, then of the next address.
#[must_use]
pub fn sender_address(first: Ipv4Addr, number: u32) -> SocketAddr {
    let ports = SENDER_PORTS.end - SENDER_PORTS.start;
    let host = u32::from(first).wrapping_add(number / ports);
    let port = SENDER_PORTS.start + number % ports;
    SocketAddr::from((Ipv4Addr::from(host), port as u16))
}

/// Checks that no two sources have one key: a receiver would take them for one.
fn check_sources(
    description: &Description,
    template: &Template,
    sources: u32,
) -> Result<(), EmulatorError> {
    let keys = (0..sources).filter_map(|number| template.source_key(description, number));
    let distinct = keys.collect::<BTreeSet<_>>().len();
    match distinct == sources as usize {
        true => Ok(()),
        false => Err(EmulatorError::TooManySources {
            format: description.name().to_string(),
            sources,
            distinct,
        }),
    }
}

/// Makes packets of several sources in the order of time.
pub struct Emulator {
    config: EmulatorConfig,
    template: Template,
    sources: Vec<EmulatedSource>,
    /// The time at which each source makes its next packet \[ns\]; equal times in the order of
    /// pushing.
    agenda: BinaryHeap<Reverse<(u64, u64, u32)>>,
    pushed: u64,
    ready: VecDeque<(Span, u32, Ready)>,
    /// The packet that `next` lends, and memory of earlier ones.
    lent: Vec<u8>,
    spare: Vec<Vec<u8>>,
    stopping: bool,
}

impl Emulator {
    /// Makes sources that send packets of `description`. Errors: [`EmulatorError`].
    pub fn new(
        description: &Description,
        config: EmulatorConfig,
    ) -> Result<Emulator, EmulatorError> {
        let template = Template::new(description, &config)?;
        check_sources(description, &template, config.sources.max(1))?;
        let sources: Vec<EmulatedSource> =
            (0..config.sources.max(1)).map(|number| EmulatedSource::new(number, &config)).collect();
        let mut emulator = Emulator {
            template,
            agenda: BinaryHeap::with_capacity(sources.len()),
            sources,
            pushed: 0,
            ready: VecDeque::new(),
            lent: Vec::new(),
            spare: Vec::new(),
            stopping: false,
            config,
        };
        for number in 0..emulator.sources.len() {
            let at = emulator.sources[number].next_ns();
            emulator.schedule(at, number as u32);
        }
        Ok(emulator)
    }

    /// Returns the next packet; `None` when every source has sent its last.
    ///
    /// Cost: one copy of the payload's pattern; no allocation in steady state.
    #[allow(clippy::should_implement_trait, reason = "it lends")]
    pub fn next(&mut self) -> Option<Emission<'_>> {
        while self.ready.is_empty() {
            let Reverse((at, _, number)) = self.agenda.pop()?;
            self.step(at, number);
        }
        let (at, source, ready) = self.ready.pop_front()?;
        let Ready { number, flipped_bit, bytes } = ready;
        let before = std::mem::replace(&mut self.lent, bytes);
        self.spare.push(before);
        let sender = self.sender_of(source);
        Some(Emission { at, source, sender, number, flipped_bit, bytes: &self.lent })
    }

    /// Ends the emulation: each source sends the packets that it held back and one last packet.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Returns the number of sender addresses that the sources need: one each where the source key
    /// has the address or the port, else one for all.
    #[must_use]
    pub fn senders(&self) -> u32 {
        if self.template.needs_senders { self.sources.len() as u32 } else { 1 }
    }

    /// Returns the number of sources.
    #[must_use]
    pub fn sources(&self) -> u32 {
        self.sources.len() as u32
    }

    fn sender_of(&self, source: u32) -> u32 {
        if self.template.needs_senders { source } else { 0 }
    }

    /// Returns the size of a packet \[byte\].
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        self.template.bytes.len()
    }

    /// Returns the seed that makes the same packets again.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Returns the counts of each source so far.
    #[must_use]
    pub fn truth(&self) -> Vec<SourceTruth> {
        self.sources.iter().map(|source| source.truth.clone()).collect()
    }

    fn schedule(&mut self, at_ns: u64, number: u32) {
        self.agenda.push(Reverse((at_ns, self.pushed, number)));
        self.pushed += 1;
    }

    /// Lets source `number` make its next packet; packets that it sends now become ready.
    fn step(&mut self, at_ns: u64, number: u32) {
        let source = &mut self.sources[number as usize];
        let made = source.make(&self.config, &self.template, self.stopping, &mut self.spare);
        let at = Span::from_ns(at_ns);
        for ready in source.sent.drain(..) {
            self.ready.push_back((at, number, ready));
        }
        if made == Made::More {
            let next = source.next_ns();
            self.schedule(next, number);
        }
    }
}
