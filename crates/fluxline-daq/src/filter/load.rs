//! Reads one field of a packet or sample: in place where its position is fixed, else by decoding.

use fluxline_packet::layout::{FieldOffset, ItemKind, Layout, Origin, PacketType, ValueKind};
use fluxline_packet::model::ByteOrder;
use fluxline_packet::word::{extract, read_word};

use super::value::Value;

/// The place of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A field of the header, at a fixed place.
    Header(FixedField),
    /// Value number `0` of the header, found by decoding.
    DecodedHeader(usize),
    /// A field of each sample, at a fixed place of a sample of fixed size.
    Sample(FixedField),
    /// Value number `0` of each sample, found by decoding.
    DecodedSample(usize),
}

impl Access {
    /// Returns true when each sample has a value of its own.
    pub fn is_of_samples(self) -> bool {
        matches!(self, Access::Sample(_) | Access::DecodedSample(_))
    }
}

/// A word, or bits of one, at a fixed place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedField {
    pub start: usize,
    pub bytes: usize,
    pub byte_order: ByteOrder,
    low: u8,
    width: u8,
    kind: ValueKind,
}

impl FixedField {
    fn of(layout: &Layout, id: usize) -> Option<FixedField> {
        let value = &layout.values[id];
        let (item, low, bits) = match value.origin {
            Origin::Word { item } => (item, 0, None),
            Origin::Bits { item, low, width } => (item, low, Some(width)),
            _ => return None,
        };
        let item = &layout.items[item];
        let (FieldOffset::Fixed(start), None) = (item.place, &item.when) else { return None };
        let ItemKind::Word { bytes, .. } = item.kind else { return None };
        Some(FixedField {
            start: start as usize,
            bytes: usize::from(bytes),
            byte_order: item.byte_order,
            low,
            width: bits.unwrap_or(bytes * 8),
            kind: value.kind,
        })
    }

    /// Returns true for an integer that takes the whole of its word.
    pub fn is_whole_integer(&self) -> bool {
        let whole = self.low == 0 && usize::from(self.width) == self.bytes * 8;
        whole && matches!(self.kind, ValueKind::Unsigned | ValueKind::Signed)
    }

    /// Returns true for a two's complement integer.
    pub fn is_signed(&self) -> bool {
        self.kind == ValueKind::Signed
    }

    /// Returns the value in `bytes`; absent where they end before it.
    #[inline]
    pub fn read(&self, bytes: &[u8]) -> Value {
        let word = bytes.get(self.start..).and_then(|rest| rest.get(..self.bytes));
        let Some(word) = word else { return Value::Absent };
        let bits = extract(read_word(word, self.byte_order), self.low, self.width);
        match self.kind {
            ValueKind::Unsigned => Value::Integer(bits.into()),
            ValueKind::Signed => Value::Integer(signed(bits, self.width).into()),
            ValueKind::Float if self.width == 32 => {
                Value::Float(f32::from_bits(bits as u32).into())
            }
            ValueKind::Float => Value::Float(f64::from_bits(bits)),
            ValueKind::Bytes => Value::Absent,
        }
    }
}

/// Returns a two's complement number of `width` bits.
fn signed(bits: u64, width: u8) -> i64 {
    let unused = 64 - u32::from(width.clamp(1, 64));
    (bits << unused).cast_signed() >> unused
}

/// Returns the place of a field of a packet type: of its header, else of its samples.
pub(super) fn access(packet: &PacketType, name: &str) -> Option<Access> {
    if let Some(id) = packet.header.find(name) {
        let fixed = FixedField::of(&packet.header, id).map(Access::Header);
        return Some(fixed.unwrap_or(Access::DecodedHeader(id)));
    }
    let records = packet.records.as_ref()?;
    let id = records.layout.find(name)?;
    let fixed = FixedField::of(&records.layout, id).filter(|_| sample_bytes(packet).is_some());
    Some(fixed.map_or(Access::DecodedSample(id), Access::Sample))
}

/// Returns the size of every sample, where it is fixed \[byte\].
pub(super) fn sample_bytes(packet: &PacketType) -> Option<usize> {
    let bytes = packet.records.as_ref()?.bytes.as_ref()?.constant()?;
    usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)
}

/// Returns true for a field of raw bytes, which has no number.
pub(super) fn is_raw(packet: &PacketType, name: &str) -> bool {
    let raw = |layout: &Layout| {
        layout.find(name).is_some_and(|id| layout.values[id].kind == ValueKind::Bytes)
    };
    raw(&packet.header) || packet.records.as_ref().is_some_and(|records| raw(&records.layout))
}
