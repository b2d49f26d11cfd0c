//! The lengths of the headers and of the invariant CRC on the wire.
//!
//! Source: IBTA volume 1, 9.2 (BTH) and 9.3 (extended headers).

/// Base transport header (BTH) \[byte\].
pub const BTH_BYTES: usize = 12;
/// RDMA extended header (RETH) \[byte\].
pub const RETH_BYTES: usize = 16;
/// Acknowledge extended header (AETH) \[byte\].
pub const AETH_BYTES: usize = 4;
/// Atomic extended header (AtomicETH) \[byte\].
pub const ATOMIC_ETH_BYTES: usize = 28;
/// Atomic acknowledge header (AtomicAckETH) \[byte\].
pub const ATOMIC_ACK_ETH_BYTES: usize = 8;
/// Immediate data \[byte\].
pub const IMMEDIATE_BYTES: usize = 4;
/// Zeros after the base header of a congestion notification \[byte\]. Source: Annex A17.
pub const CNP_ZERO_BYTES: usize = 16;
/// The invariant CRC at the end of each packet \[byte\].
pub const ICRC_BYTES: usize = 4;
