//! The part of a node's 48-bit address space that its adapter uses itself.

use crate::fabric::address::REGIONS_END;

/// The address of the mailboxes, one page for each source. A choice.
pub const MAIL_AT: u64 = REGIONS_END;
/// The address of the credits, one word for each source. A choice.
pub const CREDIT_AT: u64 = 0xE100_0000_0000;
/// Control and status registers. Source: Numascale's firmware (top 2^28 of the 48 bits).
pub const REGISTERS_AT: u64 = 0xFFFF_F000_0000;
