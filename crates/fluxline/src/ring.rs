//! The slot ring: packets from the thread that receives to the thread that reads.
//!
//! A receiver must never wait for memory or a lock, or the kernel drops packets that it did not
//! fetch. So slots are allocated once, the kernel writes straight into them, and the reader reads
//! them in place. A slot holds one datagram, or a train of equal ones that the kernel joined
//! (UDP_GRO). One producer, one consumer; a full ring is counted, never a hidden wait.

pub use crate::sys::ring::{Batch, Consumer, Filled, Producer, ring};
pub use crate::sys::ring_parts::{
    Datagrams, PushError, RingConfig, RingCounters, RingError, SLOT_BYTES_ANY, SlotMeta, SlotView,
    Waited,
};

#[cfg(test)]
mod tests;
