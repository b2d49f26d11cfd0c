//! The bus between the memory of a host and its card: PCI Express, or PCI and PCI-X.
//!
//! PCI Express carries packets (TLPs) in each direction at once. A frame into memory is posted
//! writes of at most the maximum payload. A frame out of memory is read requests; each is answered
//! after a latency by completions. A card that keeps few requests outstanding pays the latency once
//! for each request, which gives the rate its steps. Source of the overheads: Intel AN 456.

use std::collections::VecDeque;

use crate::host;
use crate::{Duration, Instant};

/// A PCI Express link with the card's use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcie {
    /// The rate of each direction, behind the line code \[byte/s\].
    pub bytes_per_s: u64,
    /// Framing, sequence number, header and check sequence of each packet \[byte\].
    pub overhead_bytes: u64,
    /// Data of a posted write, at most \[byte\].
    pub payload_bytes: u64,
    /// Data of a completion, at most \[byte\].
    pub completion_bytes: u64,
    /// Data of a read request, at most \[byte\].
    pub request_bytes: u64,
    /// Read requests under way at a time.
    pub requests: u32,
    /// The time from a request to the first byte of its completion.
    pub latency: Duration,
}

/// The kind of bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusConfig {
    /// PCI Express.
    Pcie(Pcie),
    /// PCI or PCI-X: one resource for both directions.
    Parallel(host::config::Bus),
}

impl Pcie {
    /// Returns the time of some data in packets of at most `most` bytes of data.
    fn time(&self, bytes: u64, most: u64) -> Duration {
        let packets = bytes.div_ceil(most.max(1)).max(1);
        self.span(bytes + packets * self.overhead_bytes)
    }

    fn span(&self, bytes: u64) -> Duration {
        let ps = u128::from(bytes) * 1_000_000_000_000 / u128::from(self.bytes_per_s.max(1));
        Duration::from_ps(ps as u64)
    }

    /// Returns the share of the link that carries data in posted writes of full packets.
    #[must_use]
    pub fn write_efficiency(&self) -> f64 {
        self.payload_bytes as f64 / (self.payload_bytes + self.overhead_bytes) as f64
    }

    /// Returns the share of the link that carries data in full completions.
    #[must_use]
    pub fn read_efficiency(&self) -> f64 {
        self.completion_bytes as f64 / (self.completion_bytes + self.overhead_bytes) as f64
    }

    /// Returns the number of read requests of a frame.
    #[must_use]
    pub fn requests_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.request_bytes.max(1)).max(1)
    }
}

/// Both directions of a PCI Express link.
#[derive(Debug)]
struct PcieLink {
    config: Pcie,
    to_memory: Instant,
    to_card: Instant,
    /// The ends of the last read requests, as many as may be under way.
    ends: VecDeque<Instant>,
}

impl PcieLink {
    fn write(&mut self, now: Instant, bytes: u64) -> Instant {
        self.to_memory =
            self.to_memory.max(now) + self.config.time(bytes, self.config.payload_bytes);
        self.to_memory
    }

    fn read(&mut self, now: Instant, bytes: u64) -> Instant {
        let Pcie { request_bytes, completion_bytes, latency, overhead_bytes, .. } = self.config;
        let request = self.config.span(overhead_bytes);
        let mut left = bytes;
        loop {
            let part = left.min(request_bytes.max(1));
            let is_full = self.ends.len() >= self.config.requests.max(1) as usize;
            let free = if is_full { self.ends.pop_front().unwrap_or(now) } else { now };
            let begin = (free.max(now) + request + latency).max(self.to_card);
            self.to_card = begin + self.config.time(part, completion_bytes);
            self.ends.push_back(self.to_card);
            left -= part;
            if left == 0 {
                return self.to_card;
            }
        }
    }
}

/// A bus.
#[derive(Debug)]
pub struct Bus(Kind);

#[derive(Debug)]
enum Kind {
    Pcie(PcieLink),
    Parallel(host::Bus),
}

impl Bus {
    /// Makes an idle bus.
    #[must_use]
    pub fn new(config: BusConfig) -> Bus {
        Bus(match config {
            BusConfig::Pcie(config) => Kind::Pcie(PcieLink {
                config,
                to_memory: Instant::START,
                to_card: Instant::START,
                ends: VecDeque::new(),
            }),
            BusConfig::Parallel(config) => Kind::Parallel(host::Bus::new(config)),
        })
    }

    /// Carries a frame from the card into memory; returns the end.
    pub fn write(&mut self, now: Instant, bytes: u64) -> Instant {
        match &mut self.0 {
            Kind::Pcie(link) => link.write(now, bytes),
            Kind::Parallel(bus) => bus.write(now, bytes as u32),
        }
    }

    /// Carries a frame from memory to the card; returns the end.
    pub fn read(&mut self, now: Instant, bytes: u64) -> Instant {
        match &mut self.0 {
            Kind::Pcie(link) => link.read(now, bytes),
            Kind::Parallel(bus) => bus.read(now, bytes as u32),
        }
    }
}

impl BusConfig {
    /// Returns the number of frames that a card reads at a time.
    #[must_use]
    pub fn frames_at_once(&self) -> usize {
        match self {
            BusConfig::Pcie(link) => link.requests.max(1) as usize,
            BusConfig::Parallel(_) => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bus, BusConfig, Pcie};
    use crate::{Duration, Instant};

    const LINK: Pcie = Pcie {
        bytes_per_s: 2_000_000_000,
        overhead_bytes: 20,
        payload_bytes: 128,
        completion_bytes: 128,
        request_bytes: 4096,
        requests: 1,
        latency: Duration::from_ns(500),
    };

    fn read_ns(link: Pcie, bytes: u64) -> u64 {
        Bus::new(BusConfig::Pcie(link)).read(Instant::START, bytes).as_ps() / 1000
    }

    #[test]
    fn writes_reach_the_efficiency_of_the_packets() {
        assert_eq!((LINK.write_efficiency() * 1000.0).round(), 865.0, "128 of 148 bytes");
        let mut bus = Bus::new(BusConfig::Pcie(LINK));
        let ends = (0..1000).map(|_| bus.write(Instant::START, 12_800)).last();
        let rate = 12.8e6 / (ends.expect("ends").as_ps() as f64 / 1e12);
        assert!((rate / 2e9 - LINK.write_efficiency()).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn each_further_request_costs_a_latency_with_one_outstanding() {
        // 10 ns for the request, then 32 completions of 148 bytes.
        let full = 10 + 500 + 32 * 74;
        assert_eq!(read_ns(LINK, 4096), full);
        assert_eq!(read_ns(LINK, 4097), full + 510 + 10, "one byte needs a packet of 21 bytes");
        assert_eq!(read_ns(LINK, 8192), 2 * full);
        let many = Pcie { requests: 4, ..LINK };
        assert_eq!(read_ns(many, 8192), full + 32 * 74, "the second latency is hidden");
        assert_eq!([4096, 4097, 8192, 8193].map(|bytes| LINK.requests_of(bytes)), [1, 2, 2, 3]);
    }

    #[test]
    fn directions_do_not_wait_for_each_other() {
        let mut bus = Bus::new(BusConfig::Pcie(LINK));
        let alone = bus.read(Instant::START, 1000);
        bus = Bus::new(BusConfig::Pcie(LINK));
        bus.write(Instant::START, 100_000);
        assert_eq!(bus.read(Instant::START, 1000), alone);
    }
}
