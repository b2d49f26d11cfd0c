//! The configuration of a host: a PC with an Ethernet card and the UDP stack of its kernel.

use super::bus::BusConfig;
use super::coalescing::Coalescing;
use crate::Duration;

/// The work of the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Time of the program around each call (user).
    pub user: Duration,
    /// A call to send: entry, UDP, IP and driver of a datagram of one frame (system).
    pub send_call: Duration,
    /// Each further frame of a fragmented datagram (system).
    pub send_frame: Duration,
    /// Each byte that a call to send copies (system).
    pub send_byte: Duration,
    /// A call to receive (system).
    pub receive_call: Duration,
    /// Each byte that a call to receive copies (system).
    pub receive_byte: Duration,
    /// From the wake-up of a waiting process until it runs (system).
    pub wake: Duration,
    /// An interrupt handler (irq).
    pub interrupt: Duration,
    /// The handler's work for each frame that it moves to a backlog (irq).
    pub backlog_frame: Duration,
    /// The start of a softirq (softirq).
    pub softirq: Duration,
    /// Each received frame: driver, IP, UDP (softirq).
    pub receive_frame: Duration,
    /// Each byte of a received frame: its pages (softirq).
    pub receive_frame_byte: Duration,
    /// Each sent frame, whose buffer is freed (softirq).
    pub clean_frame: Duration,
}

/// The way of a received frame from the card's ring to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The softirq polls the ring while interrupts are off (NAPI).
    Poll,
    /// The interrupt handler moves frames to a backlog for the softirq.
    Backlog {
        /// The most frames of the backlog; more are lost (`netdev_max_backlog`).
        frames: u32,
    },
}

/// The card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// The bus between memory and card.
    pub bus: BusConfig,
    /// Frames in the transmit ring.
    pub transmit_slots: u32,
    /// Frames in the receive ring; more are lost.
    pub receive_slots: u32,
    /// Received bytes that wait on the card for the bus; more are lost.
    pub receive_bytes: u64,
    /// The card's own delay, once in each direction.
    pub delay: Duration,
    /// Coalescing of the interrupts for received frames.
    pub receive: Coalescing,
    /// Coalescing of the interrupts for sent frames.
    pub transmit: Coalescing,
}

/// The buffers of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// The send buffer of a socket, in true sizes; a process waits for room \[byte\].
    pub send_bytes: u64,
    /// The receive buffer of a socket, in true sizes; more is lost \[byte\].
    pub receive_bytes: u64,
    /// Frames that wait for the transmit ring; more are lost (`txqueuelen`).
    pub queue_frames: u32,
}

/// The numbers of the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The core of the card's interrupts and softirq.
    pub interrupts: u32,
    /// The core of each process. The first process receives.
    pub processes: Vec<u32>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The work of the cores.
    pub costs: Costs,
    /// The cores.
    pub cores: Cores,
    /// The buffers.
    pub buffers: Buffers,
    /// The driver.
    pub driver: Driver,
    /// The card.
    pub card: Card,
}

/// A reason why a host is rejected, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadHost(String);

impl BadHost {
    /// Makes the reason "not one host for each node".
    #[must_use]
    pub fn count(hosts: usize, nodes: u32) -> BadHost {
        BadHost(format!("{hosts} hosts for {nodes} nodes; give one for each, or none for some"))
    }
}

/// The header of a frame in a kernel's buffer: `struct sk_buff` and its tail \[byte\].
/// Background: 2.6 kernels for 64-bit processors.
const BUFFER_HEADER_BYTES: u64 = 256;
/// The most cores.
const CORES_MAX: u32 = 256;
/// The least time of a call to send: a loop of calls that took no time would never end.
const CALL_MIN: Duration = Duration::from_ns(10);
/// The most frames of a ring or queue. Background: `netdev_max_backlog` is rarely above 250,000.
const FRAMES_MAX: u32 = 1 << 20;

/// Returns the true size of a kernel's buffer: its header, and a power of two for the data.
#[must_use]
pub fn true_bytes(frame_bytes: u64) -> u64 {
    BUFFER_HEADER_BYTES + frame_bytes.next_power_of_two()
}

impl Cores {
    /// Returns the number of cores.
    #[must_use]
    pub fn count(&self) -> u32 {
        1 + self.processes.iter().copied().fold(self.interrupts, u32::max)
    }
}

impl Config {
    /// Checks the values for a network whose longest frame has `frame_bytes`.
    ///
    /// # Errors
    /// The first mistake, and its correction.
    pub fn check(&self, frame_bytes: u64) -> Result<(), BadHost> {
        let Config { cores, buffers, card, .. } = self;
        let least = true_bytes(frame_bytes);
        let problem = if cores.processes.is_empty() {
            "a host needs a process; name the core of one".to_owned()
        } else if cores.count() > CORES_MAX {
            format!("a host has at most {CORES_MAX} cores, not {}", cores.count())
        } else if self.costs.send_call < CALL_MIN {
            format!("a call to send takes {}; write {CALL_MIN} or more", self.costs.send_call)
        } else if buffers.receive_bytes < least {
            format!(
                "a receive buffer of {} bytes holds no frame of the MTU, which takes {least}; \
                 write that or more",
                buffers.receive_bytes
            )
        } else if card.receive_bytes < frame_bytes {
            format!("the card's buffer of {} bytes holds no frame", card.receive_bytes)
        } else if [card.transmit_slots, card.receive_slots]
            .iter()
            .any(|slots| !(1..=FRAMES_MAX).contains(slots))
        {
            format!("a ring of the card has 1 to {FRAMES_MAX} slots")
        } else if !(1..=FRAMES_MAX).contains(&buffers.queue_frames) {
            format!("the queue of the driver has 1 to {FRAMES_MAX} frames")
        } else if matches!(self.driver, Driver::Backlog { frames } if frames == 0) {
            "a backlog of 0 frames loses all; write 1 or more".to_owned()
        } else {
            return Ok(());
        };
        Err(BadHost(problem))
    }
}
