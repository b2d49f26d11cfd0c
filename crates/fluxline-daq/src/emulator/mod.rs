//! Emulated sensors: packets made from the description that also receives them, with faults.
//!
//! A board is not always there, and never loses packets when asked to. An emulator makes what N
//! boards would send, in the order of time, from a seed; it drops, doubles, swaps, spoils and
//! restarts by given odds, and knows afterwards exactly what it did. The first and the
//! last packet of each numbering are always sent whole and in order: without one before and one
//! after it, no receiver can see that a packet is missing.

pub mod roce;
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

/// What to emulate.
#[derive(Clone, Debug)]
pub struct EmulatorConfig {
    /// How many sources; at least 1.
    pub sources: u32,
    /// The packet type; `None`: the first with a packet counter or an event key.
    pub packet: Option<String>,
    /// Payload of a packet \[byte\]; `None`: the description's.
    pub payload_bytes: Option<u32>,
    /// What payloads hold.
    pub pattern: Pattern,
    /// Packets per second and source; 0: all at once.
    pub rate: f64,
    /// Jitter as a share of the period, 0 to 1.
    pub jitter: f64,
    /// Packets per source; 0: no limit.
    pub packets: u64,
    /// From which all that is random is drawn.
    pub seed: u64,
    /// The wall time of the start, for time stamps.
    pub epoch_start: Moment,
    /// What goes wrong.
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
    /// Zeros.
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
    /// After at most so many; 0 stands for 4.
    pub reorder_distance: u32,
    /// One bit of it is flipped.
    pub corrupt: f64,
    /// Its source falls silent first.
    pub stall: f64,
    /// For so long \[ms\].
    pub stall_ms: u64,
    /// Its source restarts first, with all counters at zero.
    /// A receiver takes numbers within its window behind the newest for duplicates, and so sees no
    /// restart after few packets.
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

/// Why packets of a description cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulatorError {
    /// The configuration's.
    #[error("the description `{format}` has no packet type `{name}`; it has {known}.")]
    NoSuchPacket {
        /// The description.
        format: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The configuration's.
    #[error(
        "a packet of {bytes} bytes is longer than a datagram can be (65507): make payload-bytes \
         smaller."
    )]
    TooLong {
        /// What it would be \[byte\].
        bytes: usize,
    },
    /// The configuration's: some sources would have one key.
    #[error(
        "packets of `{format}` tell {distinct} sources apart, so {sources} cannot be emulated: emulate \
         {distinct}, or say under `emulate = {{ fields = {{ ... }} }}` how `source` makes the key."
    )]
    TooManySources {
        /// The description.
        format: String,
        /// What was asked for.
        sources: u32,
        /// How many keys they have.
        distinct: usize,
    },
    /// The description's: the packet that was made is not read as it was meant.
    #[error(
        "packets of `{format}` (type `{packet}`) cannot be emulated: {problem}; say how the \
         field is filled under `emulate = {{ fields = {{ ... }} }}` in the description."
    )]
    NotReadBack {
        /// The description.
        format: String,
        /// The packet type.
        packet: String,
        /// Which role differs.
        problem: String,
    },
}

/// One packet to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Emission<'a> {
    /// When, after the start.
    pub at: Span,
    /// Number of its source.
    pub source: u32,
    /// The socket to send it from: below [`Emulator::senders`].
    pub sender: u32,
    /// How many packets its source had made before; copies share it, and restarts do not touch it.
    pub number: u64,
    /// Which bit was flipped on purpose, counted from the first byte's lowest.
    pub flipped_bit: Option<u64>,
    /// The UDP payload.
    pub bytes: &'a [u8],
}

/// A packet that a source hands over.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) number: u64,
    pub(crate) flipped_bit: Option<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// Sender ports of one address. Source: the dynamic ports, RFC 6335 §6.
const SENDER_PORTS: Range<u32> = 49_152..65_536;

/// Where sender number `number` sends from when nothing else decides it: from all dynamic ports of
/// `first`, then of the next address.
#[must_use]
pub fn sender_address(first: Ipv4Addr, number: u32) -> SocketAddr {
    let ports = SENDER_PORTS.end - SENDER_PORTS.start;
    let host = u32::from(first).wrapping_add(number / ports);
    let port = SENDER_PORTS.start + number % ports;
    SocketAddr::from((Ipv4Addr::from(host), port as u16))
}

/// No two sources have one key: a receiver would take them for one.
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
    /// When each source makes its next packet \[ns\]; equal times in the order of pushing.
    agenda: BinaryHeap<Reverse<(u64, u64, u32)>>,
    pushed: u64,
    ready: VecDeque<(Span, u32, Ready)>,
    /// The packet that `next` lent out, and memory of earlier ones.
    lent: Vec<u8>,
    spare: Vec<Vec<u8>>,
    stopping: bool,
}

impl Emulator {
    /// Sources that send what `description` describes. Errors: [`EmulatorError`].
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

    /// The next packet; `None` when every source has sent its last.
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

    /// Ends the emulation: each source sends what it held back and one last packet.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// How many sender addresses the sources need: one each where the source key has the address
    /// or the port, else one for all.
    #[must_use]
    pub fn senders(&self) -> u32 {
        if self.template.needs_senders { self.sources.len() as u32 } else { 1 }
    }

    /// How many sources there are.
    #[must_use]
    pub fn sources(&self) -> u32 {
        self.sources.len() as u32
    }

    fn sender_of(&self, source: u32) -> u32 {
        if self.template.needs_senders { source } else { 0 }
    }

    /// The size of a packet \[byte\].
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        self.template.bytes.len()
    }

    /// The seed that makes the same packets again.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// What each source did so far.
    #[must_use]
    pub fn truth(&self) -> Vec<SourceTruth> {
        self.sources.iter().map(|source| source.truth.clone()).collect()
    }

    fn schedule(&mut self, at_ns: u64, number: u32) {
        self.agenda.push(Reverse((at_ns, self.pushed, number)));
        self.pushed += 1;
    }

    /// Source `number` makes its next packet; what it sends now becomes ready.
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
