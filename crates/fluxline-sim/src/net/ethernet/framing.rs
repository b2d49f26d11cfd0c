//! The lengths of frames, and the parts of a datagram that is longer than the MTU.

/// Preamble and start of frame \[byte\]. Source: IEEE 802.3, clause 3.1.1.
pub const PREAMBLE_BYTES: u64 = 8;
/// Both addresses and the type \[byte\].
pub const HEADER_BYTES: u64 = 14;
/// The check sequence \[byte\].
pub const FCS_BYTES: u64 = 4;
/// The gap between frames \[byte\]. Source: IEEE 802.3, clause 4.4.2.
pub const GAP_BYTES: u64 = 12;
/// The shortest frame, with its check sequence \[byte\].
pub const FRAME_BYTES_MIN: u64 = 64;
/// The header of IPv4 without options \[byte\].
pub const IP_BYTES: u64 = 20;
/// The header of UDP \[byte\].
pub const UDP_BYTES: u64 = 8;
/// The longest payload of a UDP datagram on IPv4 \[byte\].
pub const UDP_PAYLOAD_BYTES_MAX: u64 = 65_535 - IP_BYTES - UDP_BYTES;

/// Returns the length of the frame around an IP packet, with its check sequence \[byte\].
#[must_use]
pub fn frame_bytes(ip_packet_bytes: u64) -> u64 {
    (HEADER_BYTES + ip_packet_bytes + FCS_BYTES).max(FRAME_BYTES_MIN)
}

/// Returns the bytes of a link's time that a frame takes: with preamble and gap \[byte\].
#[must_use]
pub fn slot_bytes(frame_bytes: u64) -> u64 {
    PREAMBLE_BYTES + frame_bytes + GAP_BYTES
}

/// A part of a datagram: the content of one IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte, counted from the start of the UDP header.
    pub offset: u64,
    /// The length without the IP header \[byte\].
    pub bytes: u64,
    /// True if more parts follow.
    pub has_more: bool,
}

impl Part {
    /// Returns the length of the frame that carries it \[byte\].
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        frame_bytes(IP_BYTES + self.bytes)
    }
}

/// Returns the number of parts of a datagram with this payload \[byte\].
#[must_use]
pub fn parts(payload_bytes: u64, mtu: u64) -> u64 {
    let bytes = payload_bytes + UDP_BYTES;
    if bytes + IP_BYTES <= mtu { 1 } else { bytes.div_ceil(fragment_bytes(mtu)) }
}

/// Returns a part of a datagram by its index.
#[must_use]
pub fn part(payload_bytes: u64, mtu: u64, index: u64) -> Part {
    let bytes = payload_bytes + UDP_BYTES;
    if parts(payload_bytes, mtu) == 1 {
        return Part { offset: 0, bytes, has_more: false };
    }
    let offset = index * fragment_bytes(mtu);
    let rest = bytes - offset;
    let has_more = rest > fragment_bytes(mtu);
    Part { offset, bytes: rest.min(fragment_bytes(mtu)), has_more }
}

/// Returns the bytes of the link's time that a datagram takes \[byte\].
#[must_use]
pub fn datagram_slot_bytes(payload_bytes: u64, mtu: u64) -> u64 {
    let each = |index| slot_bytes(part(payload_bytes, mtu, index).frame_bytes());
    (0..parts(payload_bytes, mtu)).map(each).sum()
}

/// Returns the content of a fragment that is not the last: a multiple of 8 bytes, by RFC 791.
fn fragment_bytes(mtu: u64) -> u64 {
    (mtu - IP_BYTES) / 8 * 8
}

#[cfg(test)]
mod tests {
    use super::{datagram_slot_bytes, frame_bytes, part, parts, slot_bytes};

    #[test]
    fn short_frames_are_padded_and_a_full_one_has_the_known_length() {
        assert_eq!((frame_bytes(28), frame_bytes(46), frame_bytes(47)), (64, 64, 65));
        assert_eq!((frame_bytes(1500), slot_bytes(frame_bytes(1500))), (1518, 1538));
        assert_eq!(slot_bytes(frame_bytes(28)), 84, "14.88 million frames/s at 10 Gb/s");
    }

    #[test]
    fn the_parts_of_a_datagram_are_its_bytes_each_once() {
        for mtu in [68, 576, 1500, 9000] {
            for payload in (0..4000).chain([8972, 8973, 30_000, 65_507]) {
                let mut next = 0;
                for index in 0..parts(payload, mtu) {
                    let part = part(payload, mtu, index);
                    assert_eq!(part.offset, next, "mtu {mtu}, payload {payload}");
                    assert!(part.bytes + 20 <= mtu && part.bytes > 0);
                    assert!(!part.has_more || part.bytes.is_multiple_of(8));
                    assert_eq!(part.has_more, index + 1 < parts(payload, mtu));
                    next += part.bytes;
                }
                assert_eq!(next, payload + 8);
            }
        }
        assert_eq!((parts(1472, 1500), parts(1473, 1500), parts(8972, 9000)), (1, 2, 1));
        assert_eq!(datagram_slot_bytes(1472, 1500), 1538);
        // 1,480 bytes in the first packet, and 1 in the second, which is padded.
        assert_eq!(datagram_slot_bytes(1473, 1500), 1538 + 84);
    }
}
