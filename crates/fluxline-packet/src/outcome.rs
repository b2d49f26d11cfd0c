//! The result of a packet program for one packet, or the reason of its rejection.

use fluxline_core::SenderAddress;

/// The values of a description's roles in one packet. Small and `Copy`: it borrows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Number of the packet type in the description.
    pub packet: u8,
    /// The sender, by the description's `source`.
    pub source: SourceKey,
    /// The packet counter as it stands in the packet; its width is the packet type's.
    pub sequence: Option<u64>,
    /// The growth of the counter until the next packet, where the packet says it.
    pub step: Option<u64>,
    /// The event key as it stands in the packet; its width is the packet type's.
    pub event: Option<u64>,
    /// The spill number as it stands in the packet: keys count anew with each.
    pub spill: Option<u64>,
    /// The part of its source's fragment of the event that it is.
    pub part: Part,
    /// The sensor's time \[ns since the description's epoch\].
    pub sensor_time_ns: Option<u64>,
    /// The board's own counts.
    pub counts: Option<BoardCounts>,
    /// The offset of the payload in the packet \[byte\].
    pub payload_start: u32,
    /// The length of the payload \[byte\]; `payload_start + payload_bytes` is within the packet.
    pub payload_bytes: u32,
}

/// The board's own cumulative counts in a packet, in blocks before the packet's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoardCounts {
    /// The count of blocks that the board took, those that it dropped included.
    pub taken: u64,
    /// The count of blocks that the board dropped, its FIFO being full.
    pub dropped: u64,
}

/// The key that tells one source from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey {
    /// The sender's address and port; each is zero where the description does not use it.
    pub sender: SenderAddress,
    /// The key's fields, packed, the first one highest.
    pub terms: u64,
}

/// The part of its source's fragment of the event that a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The packet is the whole fragment.
    Whole,
    /// Packet `index` of `count`; `index < count`.
    Index {
        /// Its number, from 0.
        index: u32,
        /// The number of parts.
        count: u32,
    },
    /// Payload bytes from `offset` of `total`; `offset + payload_bytes <= total`.
    Bytes {
        /// The offset of the payload in the fragment \[byte\].
        offset: u64,
        /// The size of the whole fragment \[byte\].
        total: u64,
    },
}

/// The reason why a packet was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectReason {
    /// The packet ends before a field does.
    Short,
    /// The packet's size breaks the description's rule.
    Size,
    /// A field has a value that it must not have.
    Value,
    /// The check sum does not hold.
    Checksum,
    /// It is of none of the description's packet types.
    UnknownType,
    /// A list lacks a required item, or is longer than the packet.
    List,
    /// The payload would lie outside the packet.
    Payload,
    /// The fragment index is not below the count, or the byte range is beyond the total.
    Fragment,
}

impl RejectReason {
    /// All of them, in the order of their numbers.
    pub const ALL: [RejectReason; 8] = [
        RejectReason::Short,
        RejectReason::Size,
        RejectReason::Value,
        RejectReason::Checksum,
        RejectReason::UnknownType,
        RejectReason::List,
        RejectReason::Payload,
        RejectReason::Fragment,
    ];

    /// The reason in words, as reports show it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RejectReason::Short => "too short",
            RejectReason::Size => "wrong size",
            RejectReason::Value => "wrong value",
            RejectReason::Checksum => "wrong check sum",
            RejectReason::UnknownType => "unknown packet type",
            RejectReason::List => "wrong list",
            RejectReason::Payload => "payload beyond the packet",
            RejectReason::Fragment => "fragment out of range",
        }
    }
}

/// A rejected packet: why, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reject {
    /// The reason.
    pub reason: RejectReason,
    /// Number of the packet type whose rule it broke; `u8::MAX` where it is of none of them.
    pub packet: u8,
    /// Number of the rule's field in the description, by which a report names it; `u16::MAX` for
    /// none.
    pub field: u16,
}
