//! The instructions of a compiled description and the tables that they point into.

use alloc::vec::Vec;

use super::check_sum::CheckSum;
use super::epoch::Date;
use super::expression::Binary;
use super::model::ByteOrder;
use super::outcome::RejectReason;

/// Number of a register.
pub(crate) type Register = u8;

/// Always 0.
pub(crate) const ZERO: Register = 0;
/// Always 1.
pub(crate) const ONE: Register = 1;
/// The size of the UDP payload.
pub(crate) const SIZE: Register = 2;
/// The port that the packet was sent to.
pub(crate) const PORT: Register = 3;
/// The first register that is free to use.
pub(crate) const FIRST_FREE: usize = 4;
/// Most registers of a program.
pub(crate) const REGISTERS_MAX: usize = 256;
/// Registers of a small program: less to copy per packet.
pub(crate) const REGISTERS_SMALL: usize = 32;

/// Largest `fragment.count` of a packet.
pub const FRAGMENT_COUNT_MAX: u64 = 1 << 20;
/// A reject that no field is to blame for.
pub(crate) const NO_RULE: u16 = u16::MAX;

/// The place that a word's part is loaded from: byte `registers[base] + at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub to: Register,
    pub base: Register,
    pub at: u16,
    pub part: Part64,
}

/// A load through a window of 8 bytes that the packet is known to have: any word in either order
/// is then the same steps, without a jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowLoad {
    pub to: Register,
    pub byte_order: ByteOrder,
    pub at: u16,
    pub part: Part64,
}

/// `width` bits (1 to 64) of a word, from bit `low` up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitRange {
    pub low: u8,
    pub width: u8,
}

/// Bits of a 64-bit word: shifted up until those above are gone, then down until those below are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part64 {
    up: u8,
    down: u8,
}

impl Part64 {
    pub fn new(bits: BitRange) -> Part64 {
        let up = 64u8.saturating_sub(bits.low.saturating_add(bits.width));
        Part64 { up, down: 64u8.saturating_sub(bits.width).min(63) }
    }

    /// The part of a window of 8 bytes: `bits` of the word of `bytes` bytes that starts `skip`
    /// bytes into the window.
    pub fn in_window(skip: u8, bytes: u8, byte_order: ByteOrder, bits: BitRange) -> Part64 {
        let bytes_below = match byte_order {
            ByteOrder::Little => skip,
            ByteOrder::Big => 8 - skip - bytes,
        };
        Part64::new(BitRange { low: bytes_below * 8 + bits.low, width: bits.width })
    }

    // The shifts are below 64 by construction; the mask only spares the check.
    #[inline(always)]
    pub fn of(self, word: u64) -> u64 {
        word << (self.up & 63) >> (self.down & 63)
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The packet has this number of bytes, else it is rejected as short.
    Need {
        bytes: u32,
        rule: u16,
    },
    /// The same, counted from a register.
    NeedFrom {
        base: Register,
        bytes: u32,
        rule: u16,
    },
    /// The same, with the length in a register.
    NeedLength {
        base: Register,
        length: Register,
        rule: u16,
    },
    /// The packet has this number of bytes, else it is of another type.
    SelectNeed {
        bytes: u32,
        otherwise: u16,
    },
    /// `count` loads from the table of window loads, from `first`.
    Loads {
        first: u16,
        count: u16,
    },
    Load8(Load),
    LoadLittle16(Load),
    LoadBig16(Load),
    LoadLittle32(Load),
    LoadBig32(Load),
    LoadLittle64(Load),
    LoadBig64(Load),
    /// Words of 3, 5, 6 and 7 bytes.
    LoadOdd {
        load: Load,
        bytes: u8,
        byte_order: ByteOrder,
    },
    Add {
        to: Register,
        left: Register,
        right: Register,
    },
    Subtract {
        to: Register,
        left: Register,
        right: Register,
    },
    Multiply {
        to: Register,
        left: Register,
        right: Register,
    },
    And {
        to: Register,
        left: Register,
        right: Register,
    },
    /// The rarer operators.
    Binary {
        operator: Binary,
        to: Register,
        left: Register,
        right: Register,
    },
    Not {
        to: Register,
        from: Register,
    },
    Gray {
        to: Register,
        from: Register,
    },
    Copy {
        to: Register,
        from: Register,
    },
    AddConstant {
        to: Register,
        from: Register,
        value: u32,
    },
    /// `to = size - bytes`; a `Need` came before.
    FromEnd {
        to: Register,
        bytes: u32,
    },
    /// `to = above << width | from`: source terms.
    Pack {
        to: Register,
        above: Register,
        from: Register,
        width: u8,
    },
    SkipIfZero {
        condition: Register,
        to: u16,
    },
    RequireEqual {
        value: Register,
        rule: u16,
        expected: u64,
    },
    RequireAtLeast {
        value: Register,
        rule: u16,
        least: u64,
    },
    RequireAtMost {
        value: Register,
        rule: u16,
        most: u64,
    },
    /// The value is one of `count` entries of the table from `first`.
    RequireOneOf {
        value: Register,
        rule: u16,
        first: u16,
        count: u16,
    },
    RequireSame {
        value: Register,
        expected: Register,
        rule: u16,
        reason: RejectReason,
    },
    RequireSize {
        min: u32,
        max: u32,
        rule: u16,
    },
    List(u16),
    /// A decimal number of a constant length.
    Decimal(DecimalLoad),
    Text(u16),
    Crc(u16),
    /// The packet is right: collect the roles.
    Finish(u16),
}

/// The plan for walking a list.
#[derive(Clone, Debug)]
pub(crate) struct ListPlan {
    pub base: Register,
    pub count: Register,
    /// Gets the place behind the list.
    pub end: Register,
    pub item_bytes: u32,
    pub key: ListLoad,
    pub value: ListLoad,
    pub picks: Vec<PickPlan>,
    /// Bits of the picks that must be found.
    pub required: u64,
    pub rule: u16,
}

/// The place of a decimal number of a constant length: byte `registers[base] + at`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecimalLoad {
    pub to: Register,
    pub base: Register,
    pub at: u16,
    pub bytes: u16,
    pub rule: u16,
}

/// The plan for reading a text whose length differs.
#[derive(Clone, Debug)]
pub(crate) struct TextPlan {
    /// Its start; gets the place behind it.
    pub base: Register,
    /// Its length, where no mark ends it.
    pub length: Option<Register>,
    pub marks: Vec<u8>,
    /// Gets the number, where it is needed.
    pub to: Option<Register>,
    pub rule: u16,
}

/// A word's part within a list item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLoad {
    pub at: u32,
    pub bytes: u8,
    pub byte_order: ByteOrder,
    pub part: Part64,
}

/// One value taken out of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickPlan {
    pub is: u64,
    pub to: Register,
    /// Gets 1 when it is found, 0 when not.
    pub present: Register,
    pub rule: u16,
}

/// The plan for checking a check sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrcPlan {
    pub sum: CheckSum,
    pub rule: u16,
}

/// Registers of the roles of one packet type. What is absent has `present` = [`ZERO`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles {
    pub packet: u8,
    pub address: Keep,
    pub port: Keep,
    pub terms: Register,
    pub sequence: Role,
    pub step: Role,
    pub event: Role,
    pub spill: Role,
    pub taken: Role,
    pub dropped: Role,
    pub fragment: FragmentPlan,
    pub seconds: Register,
    pub ticks: Register,
    pub ns_numerator: u64,
    pub ns_denominator: u64,
    pub time_present: Register,
    pub epoch: Option<EpochPlan>,
    pub payload_from: Register,
    pub payload_length: Option<Register>,
    pub payload_trailer: Register,
    pub payload_rule: u16,
}

/// Registers of a start of time that packets name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochPlan {
    pub date: Date,
    pub months: Register,
    pub days: Register,
}

/// The part of the sender's address in the source key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Yes,
    No,
}

/// A value with the register that says whether it is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub value: Register,
    pub present: Register,
}

/// Registers of the fragment role.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FragmentPlan {
    Whole,
    Index { index: Register, count: Register, rule: u16 },
    Bytes { offset: Register, total: Register, rule: u16 },
}

impl ListLoad {
    /// Reads nothing.
    pub const NONE: ListLoad = ListLoad {
        at: 0,
        bytes: 0,
        byte_order: ByteOrder::Little,
        part: Part64 { up: 0, down: 0 },
    };
}
