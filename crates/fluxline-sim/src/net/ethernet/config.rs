//! The configuration of an Ethernet.

use super::framing::{self, frame_bytes, slot_bytes};
use crate::Duration;

/// The behaviour of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// A frame is forwarded when its last byte has arrived; a damaged frame is dropped.
    StoreAndForward,
    /// A frame is forwarded when its header has arrived, a damaged one too.
    CutThrough,
}

/// The thresholds of pause frames, for the queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Above this, the switch stops the senders of frames for the port \[byte\].
    pub xoff_bytes: u64,
    /// At or below this, it lets them go on \[byte\].
    pub xon_bytes: u64,
}

/// Random faults of the links.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The probability that a bit is wrong after a link.
    pub bit_error_rate: f64,
    /// The probability that a frame is lost between the switch and its receiver.
    pub loss: f64,
}

/// The configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Nodes, each on a port of the switch.
    pub nodes: u32,
    /// The rate of every link \[bit/s\]; it divides 8e12, so that a byte takes whole picoseconds.
    pub bits_per_s: u64,
    /// The longest IP packet of a frame \[byte\].
    pub mtu: u32,
    /// The queue of each port of the switch \[byte of frames\].
    pub queue_bytes: u64,
    /// The behaviour of the switch.
    pub forwarding: Forwarding,
    /// Pause frames; `None`: a full queue loses frames.
    pub pause: Option<Pause>,
    /// The switch marks frames that find more than this in their queue \[byte\]; `None`: never.
    pub mark_bytes: Option<u64>,
    /// The delay of a cable.
    pub cable: Duration,
    /// From the moment at which the switch can forward a frame until it is in its queue.
    pub switch_latency: Duration,
    /// The queue of a node's card \[byte of frames\]; the card takes one datagram in any case.
    pub send_queue_bytes: u64,
    /// Random faults.
    pub faults: Faults,
    /// The seed of the faults.
    pub seed: u64,
}

/// The reason why a configuration is rejected, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The most nodes. A choice: switches of one chip have at most 512 ports.
pub const NODES_MAX: u32 = 4096;
/// The least MTU: that of every IPv4 link. Source: RFC 791.
pub const MTU_MIN: u32 = 68;
/// The largest MTU. A choice: common switches and cards take at most 9,216 bytes.
pub const MTU_MAX: u32 = 9216;
/// Picoseconds of a second, in bits of a byte.
const BYTE_PS: u64 = 8_000_000_000_000;

impl Config {
    /// Returns a network at 10 Gb/s.
    ///
    /// Assumed: 2 m of cable at 5 ns/m, a switch of 1 us, 512 KiB in each port, 256 KiB in a
    /// card.
    #[must_use]
    pub fn new(nodes: u32) -> Config {
        Config {
            nodes,
            bits_per_s: 10_000_000_000,
            mtu: 1500,
            queue_bytes: 512 << 10,
            forwarding: Forwarding::StoreAndForward,
            pause: None,
            mark_bytes: None,
            cable: Duration::from_ns(10),
            switch_latency: Duration::from_us(1),
            send_queue_bytes: 256 << 10,
            faults: Faults::default(),
            seed: 1,
        }
    }

    /// Returns the time of a byte on a link.
    #[must_use]
    pub fn byte_time(&self) -> Duration {
        Duration::from_ps(BYTE_PS / self.bits_per_s.max(1))
    }

    /// Returns the rate of UDP payload of an endless stream of full frames \[byte/s\].
    #[must_use]
    pub fn goodput_bytes_per_s(&self) -> f64 {
        let payload = u64::from(self.mtu) - framing::IP_BYTES - framing::UDP_BYTES;
        let slot = slot_bytes(frame_bytes(self.mtu.into()));
        self.bits_per_s as f64 / 8.0 * payload as f64 / slot as f64
    }

    /// Returns the frames that a sender still has under way when the switch stops it \[byte\].
    ///
    /// The pause frame waits for the longest frame before it, and the sender completes one. Cables
    /// and the switch's own delay hold frames in addition.
    #[must_use]
    pub fn headroom_bytes(&self) -> u64 {
        let longest = slot_bytes(frame_bytes(self.mtu.into()));
        let pause = slot_bytes(framing::FRAME_BYTES_MIN);
        let delay = self.cable + self.cable + self.switch_latency;
        let held = delay.as_ps().div_ceil(self.byte_time().as_ps().max(1));
        3 * longest + pause + held
    }

    /// Returns the thresholds with which no frame is lost when all nodes send to one port; `None`:
    /// the queue is too short for that.
    #[must_use]
    pub fn lossless_pause(&self) -> Option<Pause> {
        let senders = u64::from(self.nodes.saturating_sub(1));
        let xoff_bytes = self.queue_bytes.checked_sub(senders * self.headroom_bytes())?;
        (xoff_bytes > 0).then_some(Pause { xoff_bytes, xon_bytes: xoff_bytes / 2 })
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first mistake, with the values to write.
    pub fn check(&self) -> Result<(), ConfigError> {
        let longest = frame_bytes(self.mtu.into());
        let is_chance = |chance: f64| (0.0..=1.0).contains(&chance);
        let problem = if !(2..=NODES_MAX).contains(&self.nodes) {
            format!("an Ethernet has 2 to {NODES_MAX} nodes, not {}", self.nodes)
        } else if !(1_000_000..=BYTE_PS).contains(&self.bits_per_s)
            || !BYTE_PS.is_multiple_of(self.bits_per_s)
        {
            let rate = self.bits_per_s;
            format!("a rate of {rate} bit/s: write 100M, 1G, 10G, 25G, 40G or 100G, for example")
        } else if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            format!("an MTU of {} bytes: write {MTU_MIN} to {MTU_MAX}", self.mtu)
        } else if self.queue_bytes < longest {
            let queue = self.queue_bytes;
            format!("a queue of {queue} bytes holds no frame of {longest}: write that or more")
        } else if self.pause.is_some_and(|of| of.xon_bytes > of.xoff_bytes) {
            "pause: write an XON threshold that is not above the XOFF threshold".into()
        } else if self.pause.is_some_and(|of| of.xoff_bytes > self.queue_bytes) {
            format!("pause: write an XOFF threshold of at most the queue, {}", self.queue_bytes)
        } else if !is_chance(self.faults.bit_error_rate) || !is_chance(self.faults.loss) {
            "a probability is 0 to 1".into()
        } else {
            return Ok(());
        };
        Err(ConfigError(problem))
    }
}
