//! A checked packet layout: the position of each value, with everything resolved.
//!
//! The program is compiled from it, and the byte diagram, the dissector, the NumPy dtype, the
//! typed columns and the emulator read it. All expressions in it are proven to stay within 64 bits.

use alloc::string::String;
use alloc::vec::Vec;

use super::check_sum::CheckSum;
pub use super::edge::Edge;
use super::epoch::FieldEpoch;
use super::ess::Ess;
use super::expression::Expr;
use super::model::{ByteOrder, Epoch};
use super::packed::Packed;
use super::text::Text;
pub use super::value_kind::ValueKind;
use super::word::write_word;

/// One type of packet, checked.
#[derive(Clone, Debug)]
pub struct PacketType {
    /// The type's name.
    pub name: String,
    /// The content.
    pub help: String,
    /// The packet is of this type when this is not zero; `None`: whatever no other type took.
    pub select: Option<Expr>,
    /// The rule for the size of the UDP payload.
    pub size: SizeRule,
    /// The header: its fields and everything computed from them.
    pub header: Layout,
    /// The terms that tell one source from another, in order.
    pub source: Vec<SourceTerm>,
    /// The packet counter.
    pub sequence: Option<Sequence>,
    /// The value that joins packets to an event.
    pub event: Option<Event>,
    /// The part of the event's fragment that a packet is.
    pub fragment: Fragment,
    /// The sensor's time.
    pub timestamp: Option<Timestamp>,
    /// The board's own cumulative counts.
    pub counts: Option<Counts>,
    /// The place of the payload.
    pub payload: Payload,
    /// The payload as records.
    pub records: Option<Records>,
    /// The packet's check sum.
    pub crc: Option<Crc>,
    /// The values that an emulator writes: numbers of values in `header` and expressions over
    /// numbers in [`EMULATE_VARIABLES`].
    pub emulate: Vec<(usize, Expr)>,
    /// Payload bytes that an emulator makes by default.
    pub emulate_payload_bytes: u64,
    /// The mapping to the schemas of the European Spallation Source.
    pub ess: Ess,
}

/// Names that expressions of `[packet.emulate]` may use besides parameters; `Expr::Value(n)` is
/// the n-th of these, and `size` is `Expr::Size`.
pub const EMULATE_VARIABLES: [&str; 10] = [
    "source", "sequence", "event", "index", "count", "offset", "total", "payload", "seconds",
    "ticks",
];

/// Fields one after the other, with the values read and computed from them.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The fields in the order of the file; in the order of the wire but for those with `at`.
    pub items: Vec<Item>,
    /// Everything that has a name and a value: words, bit fields, picked and computed ones.
    pub values: Vec<Value>,
    /// Numbers of the computed values, each after those that it depends on.
    pub computed_order: Vec<usize>,
    /// The end of the furthest field, when that is the same in every packet \[byte\].
    pub fixed_bytes: Option<u32>,
    /// The smallest packet that the fields fit into \[byte\].
    pub min_bytes: u32,
}

/// Something with a name and a value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name, unique in the layout.
    pub name: String,
    /// Its origin.
    pub origin: Origin,
    /// The interpretation of its bits.
    pub kind: ValueKind,
    /// Its width \[bit\]; 0 for bytes. Of a computed value: of the largest that it can become.
    pub width_bits: u32,
    /// Smallest and largest value it can have in an accepted packet.
    pub range: (u64, u64),
    /// A packet may lack it; it then reads as 0.
    pub conditional: bool,
    /// The unit.
    pub unit: Option<String>,
    /// The meaning.
    pub help: String,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The whole word of item number `item`.
    Word {
        /// Number in `items`.
        item: usize,
    },
    /// Bits of the word of item number `item`.
    Bits {
        /// Number in `items`.
        item: usize,
        /// The lowest bit.
        low: u8,
        /// The width in bits.
        width: u8,
    },
    /// Taken out of the list of item number `item`.
    Picked {
        /// Number in `items`.
        item: usize,
        /// Number in the list's picked values.
        pick: usize,
    },
    /// The value of an expression.
    Computed {
        /// The value.
        value: Expr,
        /// It is there only when this is not zero.
        when: Option<Expr>,
        /// The stage of the walk at which it is computed.
        stage: Stage,
    },
}

/// The stage at which a computed value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// For `select`, before everything else.
    Select,
    /// The number of items before it: the presence or the length of a later one depends on it.
    AfterItems(usize),
    /// After all items.
    End,
}

/// One field.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name; padding has none.
    pub name: Option<String>,
    /// Number of the word in `values`, where it has a name and is not a list.
    pub value: Option<usize>,
    /// The kind of item.
    pub kind: ItemKind,
    /// Its offset.
    pub place: FieldOffset,
    /// Byte order of its words.
    pub byte_order: ByteOrder,
    /// The samples that its bytes are.
    pub packed: Option<Packed>,
    /// It is there only when this is not zero.
    pub when: Option<Expr>,
    /// The rules for the word.
    pub rules: Rules,
    /// Its parts, as in the file.
    pub bits: Vec<BitPart>,
    /// The unit.
    pub unit: Option<String>,
    /// The meaning.
    pub help: String,
}

/// The content of a field.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// A word of 1 to 8 bytes.
    Word {
        /// The length in bytes.
        bytes: u8,
        /// The interpretation.
        kind: ValueKind,
    },
    /// Raw bytes.
    Bytes {
        /// The length in bytes.
        length: Expr,
    },
    /// A decimal number or bytes, with an end.
    Text(Text),
    /// Equal items.
    List(List),
}

/// The offset of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOffset {
    /// This number of bytes after the start of the packet (or record, or list item).
    Fixed(u32),
    /// At the end of the field before, which differs from packet to packet.
    AfterPrevious,
    /// This number of bytes before the end of the packet.
    FromEnd(u32),
}

/// Rules for a value; a packet that breaks one is rejected.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// It is this. A constant is checked with the field, an expression after all fields.
    pub equals: Option<Expr>,
    /// It is one of these; empty: any.
    pub one_of: Vec<u64>,
    /// It is at least this.
    pub min: Option<u64>,
    /// It is at most this.
    pub max: Option<u64>,
    /// The rule's number, by which a [`super::Reject`] names it.
    pub rule: u16,
}

impl Rules {
    /// Returns true when any value is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.equals.is_none() && self.one_of.is_empty() && self.min.is_none() && self.max.is_none()
    }
}

/// A part of a word.
#[derive(Clone, Debug)]
pub struct BitPart {
    /// Its name.
    pub name: String,
    /// Number in `values`.
    pub value: usize,
    /// The lowest bit.
    pub low: u8,
    /// The width in bits.
    pub width: u8,
    /// The rules for it.
    pub rules: Rules,
    /// The unit.
    pub unit: Option<String>,
    /// The meaning.
    pub help: String,
}

/// A list of equal items.
#[derive(Clone, Debug)]
pub struct List {
    /// The number of items.
    pub count: Expr,
    /// The size of one \[byte\].
    pub item_bytes: u32,
    /// One item; every place in it is fixed.
    pub item: Layout,
    /// The values that are taken out by key.
    pub pick: Option<Pick>,
    /// The number of the rule that the list must lie in the packet.
    pub rule: u16,
}

/// Takes values out of a list.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Number of the key in the item's values.
    pub key: usize,
    /// Number of what is taken in the item's values.
    pub value: usize,
    /// The values to take. When two items have one key, the last one counts.
    pub values: Vec<Picked>,
}

/// A value taken out of a list.
#[derive(Clone, Debug)]
pub struct Picked {
    /// Its name.
    pub name: String,
    /// The key of its item.
    pub is: u64,
    /// A packet without it is rejected.
    pub required: bool,
    /// Number in the header's values.
    pub value: usize,
    /// The rule's number.
    pub rule: u16,
    /// The meaning.
    pub help: String,
}

/// The rule for the size of the UDP payload \[byte\].
#[derive(Clone, Debug)]
pub struct SizeRule {
    /// At least this number.
    pub min: u64,
    /// At most this number.
    pub max: u64,
    /// Exactly this number.
    pub equals: Option<Expr>,
    /// The rule's number.
    pub rule: u16,
}

/// A part of what tells one source from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceTerm {
    /// The value of that number in the header, with its number of bits.
    Value {
        /// Number in the header's values.
        value: usize,
        /// Its width \[bit\].
        width_bits: u32,
    },
    /// The sender's IP address.
    Address,
    /// The sender's UDP port.
    Port,
    /// The packet type's number, 8 bits.
    Packet,
}

/// The packet counter.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its value.
    pub value: Expr,
    /// Its smallest value, at which it begins anew.
    pub first: u64,
    /// Number of steps of 1 after which it begins anew, less one: the difference of its largest
    /// and its smallest value where it takes all between.
    pub last: u64,
    /// Its largest value.
    pub largest: u64,
    /// The growth from packet to packet; 1 where the packet says it.
    pub step: u64,
    /// The growth until the next packet, as a packet says it.
    pub step_of: Option<Expr>,
    /// The growth of the time stamp from packet to packet \[ns\].
    pub timestamp_step_ns: Option<u64>,
    /// The fields whose sum it is, the lowest digit first; empty if it is not such a sum.
    pub digits: Vec<SequenceDigit>,
}

/// A field that is one digit of a counter: it adds `weight` times its value less `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceDigit {
    /// Number in the header's values.
    pub value: usize,
    /// The growth of the counter with it.
    pub weight: u64,
    /// The number of its values.
    pub count: u128,
    /// Its smallest value.
    pub first: u64,
}

/// The value that joins packets to an event.
#[derive(Clone, Debug)]
pub struct Event {
    /// The key.
    pub key: Expr,
    /// Its width \[bit\].
    pub bits: u8,
    /// The number of the spill within which keys are unique.
    pub spill: Option<Spill>,
}

/// The number of the spill within which event keys are unique.
#[derive(Clone, Debug)]
pub struct Spill {
    /// The number.
    pub value: Expr,
    /// Its width \[bit\], 1 to 32, after which it wraps.
    pub bits: u8,
}

/// The part of the event's fragment that a packet is.
#[derive(Clone, Debug)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// Packet number `index` of `count`.
    Index {
        /// Its number, from 0.
        index: Expr,
        /// The number of parts.
        count: Expr,
        /// The rule's number.
        rule: u16,
    },
    /// Payload bytes from `offset` of `total`.
    Bytes {
        /// The offset of the payload in the fragment \[byte\].
        offset: Expr,
        /// The size of the fragment \[byte\].
        total: Expr,
        /// The rule's number.
        rule: u16,
    },
}

/// The sensor's time.
#[derive(Clone, Debug)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: Option<Expr>,
    /// The ticks.
    pub ticks: Option<Expr>,
    /// A tick is `ns_numerator / ns_denominator` ns long; lowest terms.
    pub ns_numerator: u64,
    /// See `ns_numerator`.
    pub ns_denominator: u64,
    /// After so long it begins anew \[ns\]; `None`: not in 584 years.
    pub wrap_ns: Option<u64>,
    /// The start of time.
    pub epoch: Epoch,
    /// The start of time as each packet names it; `epoch` is then that of the sum, 1970 UTC.
    pub field_epoch: Option<FieldEpoch>,
    /// The condition: present only when this is not zero.
    pub when: Option<Expr>,
}

/// The board's own cumulative counts, in packets' worth of data (blocks) before this packet's.
#[derive(Clone, Debug)]
pub struct Counts {
    /// The count of blocks that the board took, those that it dropped included.
    pub taken: Expr,
    /// The count of blocks that the board dropped, its FIFO being full.
    pub dropped: Expr,
    /// Width after which the narrower one of the two begins anew \[bit\].
    pub bits: u8,
}

/// The place of the payload.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Its offset \[byte\]; `None`: the end of the header.
    pub from: Option<Expr>,
    /// Its length \[byte\]; `None`: up to the trailer.
    pub length: Option<Expr>,
    /// Bytes at the end of the packet that do not belong to it.
    pub trailer: Option<Expr>,
    /// The rule's number.
    pub rule: u16,
}

/// The payload as records, one after the other.
#[derive(Clone, Debug)]
pub struct Records {
    /// The name of one.
    pub name: String,
    /// The size of one \[byte\], over the values of `layout`; `None`: as long as its fields.
    pub bytes: Option<Expr>,
    /// The fields of one.
    pub layout: Layout,
}

/// The packet's check sum.
#[derive(Clone, Debug)]
pub struct Crc {
    /// Its name.
    pub algorithm: String,
    /// Its place, and how it is computed.
    pub(crate) plan: CheckSum,
    /// It is checked only when this is not zero.
    pub when: Option<Expr>,
    /// The rule's number.
    pub rule: u16,
}

impl Sequence {
    /// The counter in a packet when `count` packets were sent before it since the first number.
    #[must_use]
    pub fn value_of(&self, count: u64) -> u64 {
        let sum = u128::from(count) * u128::from(self.step);
        // The remainder is at most `last`, and `first + last` is a value that the counter can have.
        self.first + (sum % (u128::from(self.last) + 1)) as u64
    }
}

impl Crc {
    /// Writes the right check sum into a packet; does nothing where the packet is too short.
    pub fn write(&self, packet: &mut [u8]) {
        let Some((place, sum)) = self.plan.of(packet) else { return };
        write_word(&mut packet[place], self.plan.byte_order, sum);
    }

    /// Returns true when a packet has the right check sum; `None`: it is too short for one.
    #[must_use]
    pub fn is_right(&self, packet: &[u8]) -> Option<bool> {
        self.plan.is_right(packet)
    }

    /// The edges of its place and of the bytes that it covers: at, from, to.
    #[must_use]
    pub fn edges(&self) -> [Edge; 3] {
        [self.plan.at, self.plan.from, self.plan.to]
    }
}

impl Layout {
    /// The number of the value of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.values.iter().position(|value| value.name == name)
    }

    /// Returns the lists, each with its number in `items`.
    pub fn lists(&self) -> impl Iterator<Item = (usize, &List)> {
        self.items.iter().enumerate().filter_map(|(index, item)| match &item.kind {
            ItemKind::List(list) => Some((index, list)),
            ItemKind::Word { .. } | ItemKind::Bytes { .. } | ItemKind::Text(_) => None,
        })
    }

    /// Returns the samples that the bytes of value number `id` are.
    #[must_use]
    pub fn packed(&self, id: usize) -> Option<Packed> {
        match self.values.get(id)?.origin {
            Origin::Word { item } => self.items.get(item)?.packed,
            _ => None,
        }
    }

    /// Numbers of the values that item number `item` yields: its word, its bits, what is picked.
    pub fn values_of(&self, item: usize) -> impl Iterator<Item = usize> + '_ {
        self.values.iter().enumerate().filter_map(move |(id, value)| match value.origin {
            Origin::Word { item: of } | Origin::Bits { item: of, .. } => (of == item).then_some(id),
            Origin::Picked { item: of, .. } => (of == item).then_some(id),
            Origin::Computed { .. } => None,
        })
    }

    /// Returns the expression that a computed value always is.
    #[must_use]
    pub(crate) fn definition(&self, id: usize) -> Option<&Expr> {
        match &self.values.get(id)?.origin {
            Origin::Computed { value, when: None, .. } => Some(value),
            _ => None,
        }
    }

    /// An expression over this layout's values, as text.
    #[must_use]
    pub fn text_of(&self, expression: &Expr) -> String {
        expression.to_text(&|id| self.values.get(id).map_or(String::new(), |v| v.name.clone()))
    }
}

impl Item {
    /// Its size in every packet that has it \[byte\]; `None` when that differs.
    #[must_use]
    pub fn fixed_bytes(&self) -> Option<u32> {
        match &self.kind {
            ItemKind::Word { bytes, .. } => Some(u32::from(*bytes)),
            ItemKind::Bytes { length } => u32::try_from(length.constant()?).ok(),
            ItemKind::Text(text) => text.fixed_bytes(),
            ItemKind::List(list) => {
                u32::try_from(list.count.constant()?).ok()?.checked_mul(list.item_bytes)
            }
        }
    }
}
