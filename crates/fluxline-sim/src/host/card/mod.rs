//! The card between bus and link: latencies, the internal bus, packets under way in both
//! directions.

pub mod streams;
mod translation;

use super::calls::{Access, Counters, Handle, Incoming, Out, Outcome, RequestId, Status};
use super::config;
use crate::core::in_order::InOrder;
use crate::{Duration, Instant};
use translation::Translations;

/// Bytes of a packet besides its data. Source: SCI's header with its check sum.
const HEADER_BYTES: u32 = 16;
/// The lengths of a packet's data, beside none \[byte\].
const BLOCKS: [u32; 3] = [16, 64, 256];

/// Returns the bytes of a packet that carries `data` bytes.
fn packet_bytes(data: u32) -> u32 {
    let block = BLOCKS.into_iter().find(|&block| data <= block).unwrap_or(data);
    HEADER_BYTES + if data == 0 { 0 } else { block }
}

/// Returns the bytes of a request with `data` bytes of data.
pub fn request_bytes(access: Access, data: usize) -> u32 {
    match access {
        Access::Read { .. } => packet_bytes(0),
        Access::Write | Access::Move | Access::Lock(_) => packet_bytes(data as u32),
    }
}

/// Returns the bytes of the answer to a request.
pub fn answer_bytes(access: Access) -> u32 {
    match access {
        Access::Read { bytes } => packet_bytes(bytes.max(1)),
        Access::Lock(_) => packet_bytes(8),
        Access::Write | Access::Move => packet_bytes(0),
    }
}

/// The owner of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A write stream.
    Stream(usize),
    /// The processor: it waits for the answer.
    Processor,
    /// A burst of the DMA engine.
    Burst(u64),
    /// No owner any more: a move whose stream is free, or an event.
    Nobody,
}

/// A request that is not finished.
#[derive(Debug)]
pub struct Sent {
    pub owner: Owner,
    pub access: Access,
}

/// The answer to a request, on its way through the card.
#[derive(Debug)]
pub struct Answer {
    pub owner: Owner,
    pub outcome: Outcome,
    pub data: Vec<u8>,
}

/// The state of the card, except streams and DMA engine.
#[derive(Debug)]
pub struct Card {
    internal_free: Instant,
    pub sent: InOrder<Handle, Sent>,
    /// Packets between bus and link.
    pub leaving: InOrder<u64, Out>,
    /// Answers between link and bus.
    pub answers: InOrder<Handle, Answer>,
    pub serving: InOrder<RequestId, Incoming>,
    /// The requests that wait for the composer, with their accesses.
    pub open: InOrder<RequestId, Access>,
    translations: Translations,
    /// The worst outcome of a store since the last check.
    pub worst: Option<Outcome>,
}

impl Card {
    pub fn new(config: &config::Card) -> Card {
        Card {
            internal_free: Instant::START,
            sent: InOrder::default(),
            leaving: InOrder::default(),
            answers: InOrder::default(),
            serving: InOrder::default(),
            open: InOrder::default(),
            translations: Translations::new(config.translation),
            worst: None,
        }
    }

    /// Returns true if nothing is under way in either direction.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
            && self.leaving.is_empty()
            && self.answers.is_empty()
            && self.serving() == 0
    }

    /// Returns the number of requests from the network that are not yet served.
    pub fn serving(&self) -> usize {
        self.serving.len() + self.open.len()
    }

    /// Returns the present cost of translating this address.
    pub fn translate(&mut self, to: u32, offset: u64) -> Duration {
        self.translations.look_up(to, offset)
    }

    /// Returns the worst outcome since the last call, and clears the error counters.
    pub fn take_worst(&mut self) -> Outcome {
        self.worst.take().unwrap_or(Outcome::Done(Status::Normal))
    }

    pub fn fill(&self, counters: &mut Counters) {
        counters.translation_misses = self.translations.misses();
    }

    /// Moves a packet of `bytes` across the internal bus; returns the time at which it has crossed.
    pub fn cross(&mut self, now: Instant, bytes: u32, mb_per_s: u32) -> Instant {
        // bytes / (MB/s) = us; exact in ps.
        let span = Duration::from_ps(u64::from(bytes) * 1_000_000 / u64::from(mb_per_s));
        self.internal_free = self.internal_free.max(now) + span;
        self.internal_free
    }
}
