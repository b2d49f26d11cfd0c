//! The places of the values that change from packet to packet.

use std::ops::Range;

use fluxline_packet::expression::Expr;
use fluxline_packet::layout::{ItemKind, Origin, PacketType};
use fluxline_packet::model::ByteOrder;
use fluxline_packet::text::write_decimal;
use fluxline_packet::word::{insert, read_word, write_word};

/// A value that changes from packet to packet.
pub(super) struct Patch {
    bytes: Range<usize>,
    byte_order: ByteOrder,
    low: u8,
    width: u8,
    /// It is written in decimal digits.
    is_text: bool,
    pub(super) value: Expr,
}

impl Patch {
    /// Writes a value into a packet.
    pub(super) fn write(&self, packet: &mut [u8], value: u64) {
        let word = &mut packet[self.bytes.clone()];
        if self.is_text {
            return write_decimal(word, value);
        }
        let before = read_word(word, self.byte_order);
        write_word(word, self.byte_order, insert(before, self.low, self.width, value));
    }
}

/// Returns the places of the changing values in the finished packet.
pub(super) fn patches(packet: &PacketType, fill: &[Option<Expr>], bytes: &[u8]) -> Vec<Patch> {
    let mut patches = Vec::new();
    for (id, fill) in fill.iter().enumerate() {
        let Some(value) = fill.as_ref().filter(|value| value.constant().is_none()) else {
            continue;
        };
        patches.extend(patch_of(packet, id, value, bytes));
    }
    patches
}

fn patch_of(packet: &PacketType, id: usize, value: &Expr, bytes: &[u8]) -> Option<Patch> {
    // The layout finds the place of a value by the change that writing it makes.
    let (item, low, width) = match packet.header.values[id].origin {
        Origin::Word { item } => (item, 0, 64),
        Origin::Bits { item, low, width } => (item, low, width),
        Origin::Picked { item, pick } => return patch_picked(packet, item, pick, value, bytes),
        Origin::Computed { .. } => return None,
    };
    let text = packet.text_content(bytes, 0, item);
    let is_text = text.is_some();
    let range = text.or_else(|| packet.locate(bytes, 0).items.get(item)?.clone())?;
    let byte_order = packet.header.items[item].byte_order;
    Some(Patch { bytes: range, byte_order, low, width, is_text, value: value.clone() })
}

fn patch_picked(
    packet: &PacketType,
    item: usize,
    pick: usize,
    value: &Expr,
    bytes: &[u8],
) -> Option<Patch> {
    let range = packet.locate(bytes, 0).items.get(item)?.clone()?;
    let ItemKind::List(list) = &packet.header.items[item].kind else { return None };
    let taken = list.pick.as_ref()?.value;
    let (inner, low, width) = match list.item.values[taken].origin {
        Origin::Word { item } => (item, 0, 64),
        Origin::Bits { item, low, width } => (item, low, width),
        _ => return None,
    };
    let field = &list.item.items[inner];
    let fluxline_packet::layout::FieldOffset::Fixed(offset) = field.place else {
        return None;
    };
    let start = range.start + pick * list.item_bytes as usize + offset as usize;
    let end = start + field.fixed_bytes()? as usize;
    let byte_order = field.byte_order;
    let (bytes, is_text) = (start..end, false);
    Some(Patch { bytes, byte_order, low, width, is_text, value: value.clone() })
}
