//! The address space of one node, as far as every network has it.

/// The address of the first region: above the 4 GiB that a 32-bit bus addresses. A choice.
pub const REGIONS_AT: u64 = 1 << 32;
/// Regions begin at pages. Source: the smallest page of the cards' address translation.
pub const PAGE_BYTES: u64 = 4096;
/// The end of the addresses of regions; a network may use those above. A choice.
pub const REGIONS_END: u64 = 0xE000_0000_0000;

/// A range of a node's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    /// The first address \[byte\].
    pub offset: u64,
    /// The length \[byte\].
    pub bytes: u64,
}
