//! Attributes of netlink: length, kind, value, one after the other, nested.
//!
//! Source: netlink(7), <linux/netlink.h>. Numbers of nf_tables have their highest byte first.

/// Bytes of an attribute's head: length and kind, in the host's order.
const HEAD_BYTES: usize = 4;
/// `NLA_TYPE_MASK`: two flags are in the kind's highest bits.
const KIND_MASK: u16 = 0x3fff;

/// The attributes in `bytes`, kind and value; ends where they are cut off.
pub(super) fn each(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(HEAD_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([head[2], head[3]]) & KIND_MASK, value))
    })
}

/// The value of the first attribute of that kind.
pub(super) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    each(bytes).find(|(of, _)| *of == kind).map(|(_, value)| value)
}

/// A number.
pub(super) fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(*find(bytes, kind)?.first_chunk()?))
}

/// A long number.
pub(super) fn long(bytes: &[u8], kind: u16) -> Option<u64> {
    Some(u64::from_be_bytes(*find(bytes, kind)?.first_chunk()?))
}

/// A text, which ends with a zero.
pub(super) fn text(bytes: &[u8], kind: u16) -> Option<String> {
    let value = find(bytes, kind)?;
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    Some(String::from_utf8_lossy(&value[..end]).into_owned())
}

/// An attribute as bytes, for a question.
pub(super) fn write(kind: u16, value: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&((HEAD_BYTES + value.len()) as u16).to_ne_bytes());
    into.extend_from_slice(&kind.to_ne_bytes());
    into.extend_from_slice(value);
    into.resize(into.len().next_multiple_of(4), 0);
}
