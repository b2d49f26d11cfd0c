//! One emulated source: its counters, its faults, and the truth about them.

use fluxline_core::Span;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::template::{Template, Variables};
use super::{EmulatorConfig, Pattern, Ready};

/// Dropped sequence numbers that are remembered per source.
const DROPPED_LISTED: usize = 1024;

/// The counts of a source, which a receiver's ledger should have, to the packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTruth {
    /// Packets made, dropped ones among them.
    pub made: u64,
    /// Packets sent, copies among them.
    pub sent: u64,
    /// Packets never sent.
    pub dropped: u64,
    /// Copies sent.
    pub duplicated: u64,
    /// Packets sent after one with a higher number.
    pub reordered: u64,
    /// Packets sent with one bit flipped.
    pub corrupted: u64,
    /// Times that all counters went back to zero.
    pub restarts: u64,
    /// Numbers (counted up without wrap since the last restart) of the first 1024 dropped packets.
    pub dropped_sequences: Vec<u64>,
}

/// The state of a source after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    More,
    Last,
}

pub(super) struct EmulatedSource {
    number: u32,
    random: Xoshiro256PlusPlus,
    /// Number of packets since the last restart.
    count: u64,
    /// Number of payload bytes since the start.
    payload_bytes: u64,
    /// The time at which the next packet is due without jitter \[ns\], and its jitter.
    due_ns: f64,
    jitter_ns: f64,
    /// Packets held back: number of successors that go first, the sequence, the packet.
    held: Vec<(u32, u64, Ready)>,
    /// A restart was drawn, and waits for a packet that was sent whole.
    restart_due: bool,
    /// True if the newest packet was dropped or damaged: its loss would be invisible if a restart
    /// came now.
    newest_is_lost: bool,
    highest_sent: Option<u64>,
    /// The packets sent by the last call of `make`.
    pub(super) sent: Vec<Ready>,
    pub(super) truth: SourceTruth,
}

impl EmulatedSource {
    pub(super) fn new(number: u32, config: &EmulatorConfig) -> EmulatedSource {
        // Each source has a stream of its own, so that it does not depend on the others.
        let seed = config.seed ^ (u64::from(number) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let phase = if config.rate > 0.0 { share(&mut random) * 1e9 / config.rate } else { 0.0 };
        EmulatedSource {
            number,
            random,
            count: 0,
            payload_bytes: 0,
            due_ns: if config.jitter > 0.0 { phase } else { 0.0 },
            jitter_ns: 0.0,
            held: Vec::new(),
            restart_due: false,
            newest_is_lost: false,
            highest_sent: None,
            sent: Vec::new(),
            truth: SourceTruth::default(),
        }
    }

    /// Returns the time at which the next packet is made \[ns since the start\].
    pub(super) fn next_ns(&self) -> u64 {
        (self.due_ns + self.jitter_ns) as u64
    }

    /// Makes the next packet and decides its fate.
    pub(super) fn make(
        &mut self,
        config: &EmulatorConfig,
        template: &Template,
        stopping: bool,
        spare: &mut Vec<Vec<u8>>,
    ) -> Made {
        let last = stopping || (config.packets > 0 && self.truth.made + 1 >= config.packets);
        if stopping && self.truth.made == 0 {
            return Made::Last;
        }
        let faults = &config.faults;
        self.restart_due |= !last && self.happens(faults.restart) && self.count > 0;
        if !last && self.restart_due && !self.newest_is_lost {
            self.restart_due = false;
            self.flush();
            self.count = 0;
            self.highest_sent = None;
            self.truth.restarts += 1;
        }
        let at_ns = self.next_ns();
        let sequence = self.count;
        let mut bytes = spare.pop().unwrap_or_default();
        self.fill(&mut bytes, config, template, at_ns);
        let packet = Ready { number: self.truth.made, flipped_bit: None, bytes };
        self.count += 1;
        self.truth.made += 1;
        if last {
            self.flush();
            self.send(packet, sequence);
            return Made::Last;
        }
        self.decide(packet, sequence, config, spare);
        self.advance(config);
        Made::More
    }

    fn decide(
        &mut self,
        mut packet: Ready,
        sequence: u64,
        config: &EmulatorConfig,
        spare: &mut Vec<Vec<u8>>,
    ) {
        let faults = &config.faults;
        self.newest_is_lost = false;
        if sequence == 0 {
            // A receiver counts from the first number that it sees.
            self.send(packet, sequence);
            return;
        }
        if self.happens(faults.drop) {
            self.newest_is_lost = true;
            self.truth.dropped += 1;
            if self.truth.dropped_sequences.len() < DROPPED_LISTED {
                self.truth.dropped_sequences.push(sequence);
            }
            spare.push(packet.bytes);
            return;
        }
        if self.happens(faults.corrupt) {
            self.newest_is_lost = true;
            let bit = self.random.next_u64() % (packet.bytes.len().max(1) as u64 * 8);
            if let Some(byte) = packet.bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
                packet.flipped_bit = Some(bit);
            }
            self.truth.corrupted += 1;
        }
        if self.happens(faults.reorder) {
            let distance = u64::from(faults.distance());
            let successors = 1 + (self.random.next_u64() % distance) as u32;
            self.held.push((successors, sequence, packet));
            return;
        }
        let copy = self.happens(faults.duplicate).then(|| {
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.clone_from(&packet.bytes);
            Ready { bytes, ..packet }
        });
        self.send(packet, sequence);
        if let Some(copy) = copy {
            self.truth.duplicated += 1;
            self.truth.sent += 1;
            self.sent.push(copy);
        }
        self.release();
    }

    /// Sends one packet now, and notes whether a later one was sent before.
    fn send(&mut self, packet: Ready, sequence: u64) {
        if self.highest_sent.is_some_and(|highest| sequence < highest) {
            self.truth.reordered += 1;
        }
        self.highest_sent = self.highest_sent.max(Some(sequence));
        self.truth.sent += 1;
        self.sent.push(packet);
    }

    /// Counts one successor: sends the packets that have waited for enough of them.
    fn release(&mut self) {
        let mut index = 0;
        while index < self.held.len() {
            self.held[index].0 -= 1;
            if self.held[index].0 == 0 {
                let (_, sequence, packet) = self.held.remove(index);
                self.send(packet, sequence);
            } else {
                index += 1;
            }
        }
    }

    fn flush(&mut self) {
        for (_, sequence, packet) in std::mem::take(&mut self.held) {
            self.send(packet, sequence);
        }
    }

    fn advance(&mut self, config: &EmulatorConfig) {
        let faults = &config.faults;
        if self.happens(faults.stall) {
            self.due_ns += Span::from_ms(faults.stall_ms).as_ns() as f64;
        }
        if config.rate > 0.0 {
            let period = 1e9 / config.rate;
            self.due_ns += period;
            if config.jitter > 0.0 {
                self.jitter_ns = share(&mut self.random) * config.jitter * period;
            }
        }
    }

    fn fill(
        &mut self,
        packet: &mut Vec<u8>,
        config: &EmulatorConfig,
        template: &Template,
        at_ns: u64,
    ) {
        let per_fragment = u64::from(template.packets_per_fragment);
        let payload = template.payload.len() as u64;
        let index = self.count % per_fragment;
        let (seconds, ticks) = template.time(config.epoch_start, Span::from_ns(at_ns));
        let variables: Variables = [
            u64::from(self.number),
            template.sequence_of(self.count),
            self.count / per_fragment,
            index,
            per_fragment,
            index * payload,
            per_fragment * payload,
            payload,
            seconds,
            ticks,
        ];
        packet.clear();
        packet.extend_from_slice(&template.bytes);
        let part = &mut packet[template.payload.clone()];
        match config.pattern {
            Pattern::Counter => template.ramp(self.payload_bytes, part),
            Pattern::Noise => self.random.fill_bytes(part),
            Pattern::Zero => {}
        }
        self.payload_bytes += payload;
        template.patch(packet, &variables);
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && share(&mut self.random) < probability
    }
}

/// Returns a number from 0 to just below 1: 53 random bits, the precision of a double.
fn share(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
