//! A digest of a packet's bytes. It distinguishes a copy from another packet with the same number.

/// Bytes of each piece that is digested.
const PIECE_BYTES: usize = 32;
/// Pieces of a long packet that are digested: its first and last bytes, and two between.
const PIECES: usize = 4;

/// Returns a digest of a packet: of all of it up to 128 bytes, of four pieces and the length of a
/// longer one.
///
/// Headers, time stamps and the first samples are in the first piece. Packets of one number that
/// differ only elsewhere count as copies; so does one of 65,536 packets that differ here. Cost:
/// about 10 ns.
#[inline]
pub(super) fn content_of(bytes: &[u8]) -> u16 {
    (digest_of(bytes) >> 48) as u16
}

/// Returns the digest of which [`content_of`] gives the upper bits.
pub(crate) fn digest_of(bytes: &[u8]) -> u64 {
    let mut lanes = [bytes.len() as u64; LANES];
    if bytes.len() <= PIECES * PIECE_BYTES {
        let (pieces, rest) = bytes.as_chunks::<PIECE_BYTES>();
        pieces.iter().for_each(|piece| mix(&mut lanes, piece));
        let mut last = [0; PIECE_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        mix(&mut lanes, &last);
    } else {
        let last = bytes.len() - PIECE_BYTES;
        for piece in 0..PIECES {
            let piece = bytes[piece * last / (PIECES - 1)..].first_chunk::<PIECE_BYTES>();
            mix(&mut lanes, piece.unwrap_or(&[0; PIECE_BYTES]));
        }
    }
    let digest = lanes.into_iter().fold(0, mixed);
    // The last lane's upper bits have not come to the top yet.
    (digest ^ digest >> 29).wrapping_mul(ODD)
}

/// Words of a piece. Each is mixed into a lane of its own, so that the multiplications overlap.
const LANES: usize = PIECE_BYTES / size_of::<u64>();
/// An odd constant with bits in all places: 2^64 divided by the golden ratio.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(lanes: &mut [u64; LANES], piece: &[u8; PIECE_BYTES]) {
    let (words, _) = piece.as_chunks::<8>();
    for (lane, word) in lanes.iter_mut().zip(words) {
        *lane = mixed(*lane, u64::from_le_bytes(*word));
    }
}

/// Multiplies a word in, which carries every bit to the upper ones; the rotation brings those down
/// again.
fn mixed(digest: u64, word: u64) -> u64 {
    (digest ^ word).wrapping_mul(ODD).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::content_of;

    #[test]
    fn packets_that_differ_in_a_bit_of_their_first_bytes_have_other_digests() {
        for length in [1, 7, 8, 31, 64, 127, 128, 129, 500, 9000] {
            let packet: Vec<u8> = (0..length).map(|at: u32| (at * 7) as u8).collect();
            let mut digests = BTreeSet::from([content_of(&packet)]);
            for bit in 0..8 * packet.len().min(32) {
                let mut other = packet.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                digests.insert(content_of(&other));
            }
            let packets = 1 + 8 * packet.len().min(32);
            // Of 257 values in 65,536, half a pair is equal by chance.
            assert!(digests.len() + 3 >= packets, "{length} bytes: {} of {packets}", digests.len());
        }
    }

    #[test]
    fn the_length_and_the_last_bytes_count() {
        assert_ne!(content_of(&[0; 40]), content_of(&[0; 41]));
        assert_ne!(content_of(&[0; 9000]), content_of(&[0; 9001]));
        let mut packet = vec![0; 9000];
        packet[8999] = 1;
        assert_ne!(content_of(&packet), content_of(&[0; 9000]));
        assert_eq!(content_of(&[]), content_of(&[]));
    }
}
