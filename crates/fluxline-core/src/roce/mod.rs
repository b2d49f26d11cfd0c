//! The wire format of RoCEv2: RDMA over UDP port 4791, as hardware and the Linux kernel speak it.
//!
//! Bytes become a [`Packet`] and a packet becomes bytes; [`IcrcContext`] guards them. What a packet
//! makes a queue pair do is not here. Reliable (RC) and unreliable (UC) connections only; neither
//! datagrams (RD, UD), XRC, nor SEND with invalidate.
//!
//! Source: InfiniBand Architecture Specification volume 1, release 1.4 (IBTA): chapter 9 for the
//! headers, Annex A17 for what RoCEv2 puts before and after them. Numbers are big-endian.

pub mod header;
pub mod icrc;
pub mod number;
pub mod opcode;
pub mod packet;
mod polynomial;

pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, CreditCode, NakCode, PARTITION_DEFAULT, Reth, RnrTimer,
    Syndrome,
};
pub use icrc::{IcrcContext, TwoFamilies, Verdict, split_icrc};
pub use number::{Msn, Psn, QueuePair};
pub use opcode::{Extended, Opcode, OpcodeOperation, Position, Transport};
pub use packet::{
    Body, Headers, Packet, ParseError, PayloadError, ReadPart, SendPart, WritePart, pad_bytes,
};

/// The UDP port that RoCEv2 packets are sent to. Source: Annex A17, IANA.
pub const UDP_PORT: u16 = 4791;
/// The invariant CRC at the end of each packet \[byte\].
pub const ICRC_BYTES: usize = 4;
/// The longest headers, those of an atomic operation \[byte\].
pub const HEADER_BYTES_MAX: usize = header::BTH_BYTES + header::ATOMIC_ETH_BYTES;
