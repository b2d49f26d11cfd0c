//! The headers of packets, as values and as bytes.
//!
//! Source: IBTA volume 1, 9.2 (BTH) and 9.3 (extended headers).

use super::error::ParseError;
use super::number::{Msn, Psn, QueuePair};
use super::opcode::Opcode;
use crate::Span;

pub use super::sizes::{
    AETH_BYTES, ATOMIC_ACK_ETH_BYTES, ATOMIC_ETH_BYTES, BTH_BYTES, CNP_ZERO_BYTES, IMMEDIATE_BYTES,
    RETH_BYTES,
};

/// The partition that every port is a full member of. Source: IBTA volume 1, 10.9.1.
pub const PARTITION_DEFAULT: u16 = 0xFFFF;
/// The only version of the headers.
const VERSION: u8 = 0;

/// The base transport header. The version is always 0 and not kept. Reserved bits are written as
/// zero and ignored, as the specification requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The kind of packet.
    pub opcode: Opcode,
    /// The receiver's program is woken when the message is complete.
    pub solicited_event: bool,
    /// The path's migration state (MigReq).
    pub migration_request: bool,
    /// Zeros at the end of the payload, 0 to 3 \[byte\]; higher bits are cut off.
    pub pad_bytes: u8,
    /// The partition (P_Key).
    pub partition: u16,
    /// FECN: this packet met congestion on its way.
    pub forward_congestion: bool,
    /// BECN: packets the other way met congestion.
    pub backward_congestion: bool,
    /// The receiver's queue pair.
    pub destination: QueuePair,
    /// The sender wants an acknowledgement.
    pub acknowledge_request: bool,
    /// The sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Reads a base header. Errors: the version, or an opcode that is not in the table.
    #[inline]
    pub fn from_bytes(bytes: [u8; BTH_BYTES]) -> Result<Bth, ParseError> {
        let [opcode, flags, partition @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, congestion, qp @ .., _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, acknowledge, psn @ ..] = bytes;
        if flags & 0x0F != VERSION {
            return Err(ParseError::Version { version: flags & 0x0F });
        }
        let opcode = Opcode::from_byte(opcode).ok_or(ParseError::UnknownOpcode { opcode })?;
        Ok(Bth {
            opcode,
            solicited_event: flags & 0x80 != 0,
            migration_request: flags & 0x40 != 0,
            pad_bytes: flags >> 4 & 3,
            partition: u16::from_be_bytes(partition),
            forward_congestion: congestion & 0x80 != 0,
            backward_congestion: congestion & 0x40 != 0,
            destination: QueuePair::new(from_24(qp)),
            acknowledge_request: acknowledge & 0x80 != 0,
            psn: Psn::new(from_24(psn)),
        })
    }

    /// Returns the header's bytes.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; BTH_BYTES] {
        let flags = flag(self.solicited_event, 7)
            | flag(self.migration_request, 6)
            | (self.pad_bytes & 3) << 4
            | VERSION;
        let congestion = flag(self.forward_congestion, 7) | flag(self.backward_congestion, 6);
        let [partition_high, partition_low] = self.partition.to_be_bytes();
        let [_, qp_high, qp_middle, qp_low] = self.destination.get().to_be_bytes();
        let [_, psn_high, psn_middle, psn_low] = self.psn.get().to_be_bytes();
        [
            self.opcode.byte(),
            flags,
            partition_high,
            partition_low,
            congestion,
            qp_high,
            qp_middle,
            qp_low,
            flag(self.acknowledge_request, 7),
            psn_high,
            psn_middle,
            psn_low,
        ]
    }
}

fn flag(set: bool, bit: u32) -> u8 {
    u8::from(set) << bit
}

fn from_24([high, middle, low]: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, high, middle, low])
}

/// RDMA extended header: it names bytes of the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// The address of the first byte.
    pub address: u64,
    /// The key of the region (R_Key).
    pub key: u32,
    /// The length of the whole message \[byte\].
    pub bytes: u32,
}

impl Reth {
    /// Reads the header.
    #[must_use]
    #[inline]
    pub fn from_bytes(from: [u8; RETH_BYTES]) -> Reth {
        let word = u128::from_be_bytes(from);
        Reth { address: (word >> 64) as u64, key: (word >> 32) as u32, bytes: word as u32 }
    }

    /// Returns the header's bytes.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; RETH_BYTES] {
        let operands = u64::from(self.key) << 32 | u64::from(self.bytes);
        (u128::from(self.address) << 64 | u128::from(operands)).to_be_bytes()
    }
}

/// Atomic extended header: it names a word of the peer's memory and the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// The address of the word, a multiple of 8.
    pub address: u64,
    /// The key of the region (R_Key).
    pub key: u32,
    /// CmpSwap: the new value. FetchAdd: the addend.
    pub swap_or_add: u64,
    /// CmpSwap: the expected value. FetchAdd: not used.
    pub compare: u64,
}

impl AtomicEth {
    /// Reads the header.
    #[must_use]
    #[inline]
    pub fn from_bytes(bytes: [u8; ATOMIC_ETH_BYTES]) -> AtomicEth {
        let [a, b, c, d, e, f, g, h, k, l, m, n, operands @ ..] = bytes;
        let operands = u128::from_be_bytes(operands);
        AtomicEth {
            address: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            key: u32::from_be_bytes([k, l, m, n]),
            swap_or_add: (operands >> 64) as u64,
            compare: operands as u64,
        }
    }

    /// Returns the header's bytes.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; ATOMIC_ETH_BYTES] {
        let mut bytes = [0; ATOMIC_ETH_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        bytes[20..].copy_from_slice(&self.compare.to_be_bytes());
        bytes
    }
}

/// Atomic acknowledge header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicAckEth {
    /// The word before the operation.
    pub original: u64,
}

/// Acknowledge extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// The acknowledgement or refusal.
    pub syndrome: Syndrome,
    /// The responder's count of messages.
    pub msn: Msn,
}

impl Aeth {
    /// Reads the header. Errors: a syndrome that the specification reserves.
    #[inline]
    pub fn from_bytes([syndrome, msn @ ..]: [u8; AETH_BYTES]) -> Result<Aeth, ParseError> {
        let msn = Msn::new(from_24(msn));
        let syndrome =
            Syndrome::from_byte(syndrome).ok_or(ParseError::UnknownSyndrome { syndrome })?;
        Ok(Aeth { syndrome, msn })
    }

    /// Returns the header's bytes.
    #[must_use]
    #[inline]
    pub fn to_bytes(self) -> [u8; AETH_BYTES] {
        (u32::from(self.syndrome.byte()) << 24 | self.msn.get()).to_be_bytes()
    }
}

/// The answer of a responder. Source: IBTA volume 1, 9.7.5.2.1 (AETH syndrome field).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// All packets up to this PSN came; the sender may send more messages, as the credits say.
    Ack(CreditCode),
    /// The receiver is not ready: the sender repeats the packet after this time or later.
    RnrNak(RnrTimer),
    /// The request was refused.
    Nak(NakCode),
}

const CODE_MASK: u8 = 0x1F;
const KIND_ACK: u8 = 0;
const KIND_RNR_NAK: u8 = 1;
const KIND_NAK: u8 = 3;

impl Syndrome {
    /// Reads the byte; `None`: it is reserved.
    #[must_use]
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Syndrome> {
        let code = byte & CODE_MASK;
        match byte >> 5 {
            KIND_ACK => Some(Syndrome::Ack(CreditCode(code))),
            KIND_RNR_NAK => Some(Syndrome::RnrNak(RnrTimer(code))),
            KIND_NAK => match NakCode::from_code(code) {
                Some(code) => Some(Syndrome::Nak(code)),
                None => None,
            },
            _ => None,
        }
    }

    /// Returns the byte.
    #[must_use]
    #[inline]
    pub const fn byte(self) -> u8 {
        match self {
            Syndrome::Ack(CreditCode(code)) => KIND_ACK << 5 | code,
            Syndrome::RnrNak(RnrTimer(code)) => KIND_RNR_NAK << 5 | code,
            Syndrome::Nak(code) => KIND_NAK << 5 | code as u8,
        }
    }
}

/// The reason why a request was refused. Source: IBTA volume 1, 9.7.5.2.1 (NAK codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing: the sender repeats all packets from the expected PSN on.
    PsnSequenceError = 0,
    /// The responder does not understand the request.
    InvalidRequest = 1,
    /// Key, rights or length do not fit the region.
    RemoteAccessError = 2,
    /// The responder is at fault.
    RemoteOperationalError = 3,
    /// The request of a reliable datagram was invalid.
    InvalidRdRequest = 4,
}

impl NakCode {
    const fn from_code(code: u8) -> Option<NakCode> {
        match code {
            0 => Some(NakCode::PsnSequenceError),
            1 => Some(NakCode::InvalidRequest),
            2 => Some(NakCode::RemoteAccessError),
            3 => Some(NakCode::RemoteOperationalError),
            4 => Some(NakCode::InvalidRdRequest),
            _ => None,
        }
    }
}

/// The number of messages that a responder has buffers for, in 5 bits.
///
/// Source: IBTA volume 1, 9.7.7.2 (end-to-end flow control credits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditCode(u8);

/// The credits of the codes 0 to 30. Code 31 means that credits are not counted.
const CREDITS: [u16; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768,
];

impl CreditCode {
    /// Credits are not counted: the sender need not wait for any.
    pub const UNLIMITED: CreditCode = CreditCode(31);

    /// Returns the code of the most credits that are not more than `credits`.
    #[must_use]
    pub fn at_most(credits: u32) -> CreditCode {
        let above = CREDITS.partition_point(|&of| u32::from(of) <= credits);
        // Code 0 means no credits, so at least one code is not above.
        CreditCode(above as u8 - 1)
    }

    /// Returns the number of messages; `None`: credits are not counted.
    #[must_use]
    pub fn credits(self) -> Option<u32> {
        CREDITS.get(usize::from(self.0)).map(|&credits| u32::from(credits))
    }

    /// Returns the 5 bits.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// The wait before a message is repeated to a receiver that was not ready, in 5 bits.
///
/// Source: IBTA volume 1, 9.7.5.2.8 (RNR NAK timer field).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnrTimer(u8);

/// The times of codes 1 to 31, then of code 0, which is the longest \[10 us\].
const RNR_STEPS: [u32; 32] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536,
];
const RNR_STEP_NS: u64 = 10_000;

impl RnrTimer {
    /// Returns the code of the shortest time that is at least `span`; the longest is 655.36 ms.
    #[must_use]
    pub fn at_least(span: Span) -> RnrTimer {
        let shorter =
            RNR_STEPS.partition_point(|&steps| u64::from(steps) * RNR_STEP_NS < span.as_ns());
        RnrTimer((shorter.min(RNR_STEPS.len() - 1) as u8 + 1) & CODE_MASK)
    }

    /// Returns the time.
    #[must_use]
    pub fn span(self) -> Span {
        let index = usize::from(self.0.wrapping_sub(1) & CODE_MASK);
        Span::from_ns(u64::from(RNR_STEPS[index]) * RNR_STEP_NS)
    }

    /// Returns the 5 bits.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_syndrome_byte_comes_back_or_is_reserved() {
        let mut known = 0;
        for byte in 0..=255u8 {
            if let Some(syndrome) = Syndrome::from_byte(byte) {
                assert_eq!(syndrome.byte(), byte);
                known += 1;
            }
        }
        assert_eq!(known, 32 + 32 + 5);
        assert_eq!(Syndrome::Nak(NakCode::RemoteAccessError).byte(), 0x62);
        assert_eq!(Syndrome::Ack(CreditCode::UNLIMITED).byte(), 0x1F);
    }

    #[test]
    fn credits_are_rounded_down_never_up() {
        for code in 0..31u8 {
            let credits = CreditCode(code).credits().expect("counted");
            assert_eq!(CreditCode::at_most(credits).code(), code);
            assert_eq!(
                CreditCode::at_most(credits + 1).code(),
                if credits < 4 && code < 30 { code + 1 } else { code }
            );
        }
        assert_eq!(CreditCode::UNLIMITED.credits(), None);
        assert_eq!(CreditCode::at_most(0).credits(), Some(0));
        assert_eq!(CreditCode::at_most(5).credits(), Some(4));
        assert_eq!(CreditCode::at_most(u32::MAX).credits(), Some(32_768));
    }

    #[test]
    fn waits_are_rounded_up_never_down() {
        for code in 0..32u8 {
            assert_eq!(RnrTimer::at_least(RnrTimer(code).span()).code(), code);
        }
        let us = |us: u64| Span::from_ns(us * 1000);
        assert_eq!(RnrTimer(0).span(), us(655_360));
        assert_eq!(RnrTimer(1).span(), us(10));
        assert_eq!(RnrTimer(14).span(), us(1280));
        assert_eq!(RnrTimer(31).span(), us(491_520));
        assert_eq!(RnrTimer::at_least(Span::ZERO).code(), 1);
        assert_eq!(RnrTimer::at_least(us(41)).code(), 5);
        assert_eq!(RnrTimer::at_least(us(491_521)).code(), 0);
        assert_eq!(RnrTimer::at_least(us(10_000_000)).code(), 0);
    }
}
