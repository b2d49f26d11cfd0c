//! The map of one node's 48-bit address space.

use crate::net::sci::NodeId;

/// The address of the first region: above the 4 GiB that a 32-bit bus addresses. A choice.
pub const REGIONS_AT: u64 = 1 << 32;
/// Regions begin at pages. Source: the smallest page of the cards' address translation.
pub const PAGE_BYTES: u64 = 4096;
/// The address of the mailboxes, one page for each source. A choice.
pub const MAIL_AT: u64 = 0xE000_0000_0000;
/// The address of the credits, one word for each source. A choice.
pub const CREDIT_AT: u64 = 0xE100_0000_0000;
/// The address of the interrupts. A choice.
pub const INTERRUPTS_AT: u64 = 0xE200_0000_0000;
/// Control and status registers. Source: Numascale's firmware (top 2^28 of the 48 bits).
pub const REGISTERS_AT: u64 = 0xFFFF_F000_0000;
/// The end of what regions may occupy.
pub const REGIONS_END: u64 = MAIL_AT;

/// A range of a node's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address \[byte\].
    pub offset: u64,
    /// The time that it is \[byte\].
    pub bytes: u64,
}

/// An address of another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// The node.
    pub node: NodeId,
    /// The offset in its address space \[byte\].
    pub offset: u64,
}
