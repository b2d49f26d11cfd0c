//! The wire format of RoCEv2: RDMA over UDP port 4791, as hardware and the Linux kernel speak it.
//!
//! Bytes become a [`Packet`] and a packet becomes bytes; [`IcrcContext`] makes and checks the
//! invariant CRC. The behaviour of queue pairs is in [`endpoint`](crate::endpoint). Packets of
//! reliable (RC) and unreliable (UC) connections are supported, but not datagrams (RD, UD), XRC or
//! SEND with invalidate.
//!
//! Source: InfiniBand Architecture Specification volume 1, release 1.4 (IBTA): chapter 9 for the
//! headers, Annex A17 for the bytes that RoCEv2 puts before and after them. Numbers are big-endian.

mod error;
pub mod header;
pub mod icrc;
pub mod number;
pub mod opcode;
pub mod packet;
mod polynomial;
mod sizes;
mod template;

pub use error::{ParseError, PayloadError};
pub use header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, CreditCode, NakCode, PARTITION_DEFAULT, Reth, RnrTimer,
    Syndrome,
};
pub(crate) use icrc::LengthIcrc;
pub use icrc::{
    IcrcContext, PacketSum, TwoFamilies, UnsummedPacket, Verdict, packet_sum, split_icrc,
};
pub use number::{Msn, Psn, QueuePair};
pub use opcode::{Extended, Opcode, OpcodeOperation, Position, Transport};
pub use packet::{Body, Headers, Packet, ReadPart, SendPart, WritePart, pad_bytes};
pub use sizes::ICRC_BYTES;
pub(crate) use template::{HeaderTemplate, TemplateFields, pad_of};

/// The destination port of RoCEv2 packets. Source: Annex A17, IANA.
pub const UDP_PORT: u16 = 4791;
/// The longest headers, those of an atomic operation \[byte\].
pub const HEADER_BYTES_MAX: usize = sizes::BTH_BYTES + sizes::ATOMIC_ETH_BYTES;
