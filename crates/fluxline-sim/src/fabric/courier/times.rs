//! The times of a courier and its host.

use crate::Duration;
use crate::host::{MessageDma, preset};

/// The times of a courier and its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Processor time of a call that sends, and of one that receives.
    pub call: Duration,
    /// From a request to its answer, unless a frame to the requester says earlier that it is done.
    pub linger: Duration,
    /// From the departure of a request to its repetition when no answer came.
    pub answer: Duration,
    /// The same for each byte of request and answer, in addition.
    pub answer_per_byte: Duration,
    /// From the last answer, or the first departure, to giving the peer up.
    pub give_up: Duration,
    /// The way between memory and card. `None`: the network's cards have their own.
    pub dma: Option<MessageDma>,
}

impl Default for Times {
    /// All assumed: far above a round trip on a network of 100 MB/s, and a machine with PCI.
    fn default() -> Times {
        let dma = MessageDma {
            bus: preset::pci_32_33(),
            descriptor_bytes: 32,
            first_bytes: 256,
            status_bytes: 64,
        };
        Times {
            call: Duration::from_us(1),
            linger: Duration::from_us(1),
            answer: Duration::from_us(5_000),
            answer_per_byte: Duration::from_ns(100),
            give_up: Duration::from_us(60_000),
            dma: Some(dma),
        }
    }
}
