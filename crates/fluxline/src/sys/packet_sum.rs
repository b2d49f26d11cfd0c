//! The CRC-32 of a RoCEv2 packet by carry-less multiplication of 512 bits.
//!
//! `crc32fast` uses its widest kernel from 2 KiB on, and starts slowly; a frame of an MTU of 1500
//! never gets there. The head of a packet, up to a multiple of 64 bytes, is shifted to the end of a
//! buffer of zeros: leading zeros change nothing while the state is zero. All further loads are
//! whole vectors.
//!
//! Source of the method: `V. Gopal` et al., Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ Instruction, Intel, 2009; the constants are computed from the polynomial here.

use fluxline_core::roce::{PacketSum, UnsummedPacket};

use super::foreign;

/// Returns the fastest sum of packets on this machine.
pub(crate) fn fastest() -> PacketSum {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if wide::is_available() {
        return wide::packet_sum;
    }
    fluxline_core::roce::packet_sum
}

/// Copies a payload into its packet and returns the sum of the packet, in one pass where this
/// processor and the length allow it. Other programs may write the payload meanwhile: the sum is
/// that of the copy.
///
/// # Safety
/// `from` must be valid for the payload's length and must not be part of the packet.
pub(crate) unsafe fn copy_summed(from: *const u8, packet: UnsummedPacket<'_>) -> u32 {
    let UnsummedPacket { state, bytes, payload, sum } = packet;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if wide::is_available() && payload.len() >= wide::COPIED_BYTES_MIN {
        // SAFETY: the caller's promise, and the instructions are available.
        return unsafe { wide::copy_and_sum(from, state, bytes, payload) };
    }
    let room = &mut bytes[payload];
    // SAFETY: the caller's promise; the packet is exclusive.
    unsafe { foreign::copy(from, room.as_mut_ptr(), room.len()) };
    sum(state, bytes)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use core::arch::asm;
    use core::arch::x86_64::{
        __m128i, __m512i, _mm_and_si128, _mm_clmulepi64_si128, _mm_cvtsi64_si128,
        _mm_extract_epi32, _mm_set_epi32, _mm_set_epi64x, _mm_srli_si128, _mm_xor_si128,
        _mm512_broadcast_i32x4, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32,
        _mm512_loadu_si512, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_ternarylogic_epi64,
    };
    use core::ops::Range;

    use super::super::foreign;

    /// A vector \[byte\].
    const BLOCK: usize = 64;
    /// Vectors that are folded side by side, so that one multiplication need not wait for another.
    const LANES: usize = 4;
    /// The polynomial of CRC-32, highest power first, without x^32. Source: IEEE 802.3, 3.2.9.
    const POLYNOMIAL: u32 = 0x04C1_1DB7;
    /// The byte of the base header that has ones in the sum: FECN and BECN.
    const ONES_AT: usize = 4;
    /// Bytes from the beginning that the state and the byte of ones reach.
    const MARKED_BYTES: usize = ONES_AT + 1;
    /// XOR of three operands, for `_mm512_ternarylogic_epi64`.
    const XOR_OF_THREE: i32 = 0x96;

    /// Returns `x^power` modulo the polynomial, lowest power in the highest of 33 bits.
    const fn power(power: u32) -> i64 {
        let mut rest: u32 = 1;
        let mut step = 0;
        while step < power {
            rest = rest << 1 ^ if rest >> 31 == 1 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        (rest.reverse_bits() as i64) << 1
    }

    /// The two factors that move 128 bits by this many bits.
    const fn fold_by(bits: u32) -> [i64; 2] {
        [power(bits + 32), power(bits - 32)]
    }

    /// The quotient of x^64 and the polynomial, lowest power in the highest of 33 bits.
    const fn quotient() -> i64 {
        let divisor = 1 << 32 | POLYNOMIAL as u128;
        let (mut rest, mut quotient) = (1_u128 << 64, 0_u64);
        let mut at = 64;
        while at >= 32 {
            if rest >> at & 1 == 1 {
                rest ^= divisor << (at - 32);
                quotient |= 1 << (at - 32);
            }
            at -= 1;
        }
        (quotient.reverse_bits() >> 31) as i64
    }

    const BY_FOUR_BLOCKS: [i64; 2] = fold_by(2048);
    const BY_BLOCK: [i64; 2] = fold_by(512);
    const BY_128: [i64; 2] = fold_by(128);
    const BY_256: [i64; 2] = fold_by(256);
    const BY_384: [i64; 2] = fold_by(384);
    const BY_64: i64 = power(64);
    /// The polynomial itself, lowest power first, with x^32.
    const WHOLE: i64 = (POLYNOMIAL.reverse_bits() as i64) << 1 | 1;
    const QUOTIENT: i64 = quotient();

    /// Returns true when this processor has the instructions of [`packet_sum`].
    pub(super) fn is_available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.1")
    }

    /// The sum of [`fluxline_core::roce::packet_sum`]. Call it only where [`is_available`].
    pub(super) fn packet_sum(state: u32, packet: &[u8]) -> u32 {
        if packet.len() < MARKED_BYTES {
            return fluxline_core::roce::packet_sum(state, packet);
        }
        // SAFETY: `fastest` hands this function out only after `is_available`.
        unsafe { sum(state, packet) }
    }

    #[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.1")]
    fn sum(state: u32, packet: &[u8]) -> u32 {
        let (head, rest) = packet.split_at(head_bytes(packet.len()));
        let mut folded = begin(state, head);
        let groups = rest.chunks_exact(LANES * BLOCK);
        let single = groups.remainder();
        if groups.len() > 0 {
            let mut lanes = lanes_after(folded);
            for group in groups {
                let blocks = [load(group, 0), load(group, 1), load(group, 2), load(group, 3)];
                add_group(&mut lanes, blocks);
            }
            folded = joined(lanes);
        }
        for at in 0..single.len() / BLOCK {
            folded = fold(folded, factors(BY_BLOCK), load(single, at));
        }
        reduce(folded)
    }

    /// The payload from which on copying and summing in one pass is possible \[byte\].
    pub(super) const COPIED_BYTES_MIN: usize = 4 * BLOCK;

    /// Copies a payload into its packet and sums the packet. The last vector is copied before,
    /// since it may have padding.
    ///
    /// # Safety
    /// As for [`super::copy_summed`]. The payload must have [`COPIED_BYTES_MIN`], and
    /// [`is_available`] must be true.
    #[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.1")]
    pub(super) unsafe fn copy_and_sum(
        from: *const u8,
        state: u32,
        packet: &mut [u8],
        payload: Range<usize>,
    ) -> u32 {
        let mut head = head_bytes(packet.len());
        if head < payload.start {
            head += BLOCK;
        }
        let last = packet.len() - BLOCK;
        let end = payload.len();
        let (first, whole) = (head - payload.start, last - payload.start);
        let room = packet[payload].as_mut_ptr();
        // SAFETY: the payload is valid on both sides; head and last vector are parts of it.
        unsafe {
            foreign::copy(from, room, first);
            foreign::copy(from.add(whole), room.add(whole), end - whole);
        }
        let mut lanes = lanes_after(begin(state, &packet[..head]));
        let (mut at, body) = (first, &mut packet[head..last]);
        let mut groups = body.chunks_exact_mut(LANES * BLOCK);
        for group in &mut groups {
            // SAFETY: `at` and all of the group are before the payload's end.
            let blocks = unsafe {
                [
                    copy_block(from.add(at), group, 0),
                    copy_block(from.add(at), group, 1),
                    copy_block(from.add(at), group, 2),
                    copy_block(from.add(at), group, 3),
                ]
            };
            add_group(&mut lanes, blocks);
            at += LANES * BLOCK;
        }
        let single = groups.into_remainder();
        let has_groups = at > first;
        let mut folded = if has_groups { joined(lanes) } else { lanes[LANES - 1] };
        for index in 0..single.len() / BLOCK {
            // SAFETY: as above.
            let block = unsafe { copy_block(from.add(at), single, index) };
            folded = fold(folded, factors(BY_BLOCK), block);
        }
        reduce(fold(folded, factors(BY_BLOCK), load(&packet[last..], 0)))
    }

    /// Copies a vector of a payload into its packet and returns it.
    ///
    /// # Safety
    /// The vector must be valid at `from`.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_block(from: *const u8, into: &mut [u8], index: usize) -> __m512i {
        let block;
        // SAFETY: valid, by the caller's promise. Others may write it at the same time, so it is
        // loaded once, by an instruction that the compiler can neither repeat nor split.
        unsafe {
            asm!(
                "vmovdqu64 {block}, [{from}]",
                block = lateout(zmm_reg) block,
                from = in(reg) from.add(index * BLOCK),
                options(nostack, preserves_flags, readonly)
            );
        }
        let into = &mut into[index * BLOCK..][..BLOCK];
        // SAFETY: `into` has the 64 bytes that are written; they need no alignment.
        unsafe { _mm512_storeu_si512(into.as_mut_ptr().cast(), block) };
        block
    }

    /// Folds the head of a packet, at most two vectors.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn begin(state: u32, head: &[u8]) -> __m512i {
        let mut first = [0; 2 * BLOCK];
        let start = first.len() - head.len();
        first[start..].copy_from_slice(head);
        for (byte, state) in first[start..].iter_mut().zip(state.to_le_bytes()) {
            *byte ^= state;
        }
        first[start + ONES_AT] = 0xFF;
        // Without a second block in the head the first is zero, and so is its fold.
        fold(load(&first, 0), factors(BY_BLOCK), load(&first, 1))
    }

    /// Returns the lanes before the first group: the head is the vector before it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes_after(folded: __m512i) -> [__m512i; LANES] {
        let zero = _mm512_setzero_si512();
        [zero, zero, zero, folded]
    }

    /// Adds as many vectors as there are lanes.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn add_group(lanes: &mut [__m512i; LANES], blocks: [__m512i; LANES]) {
        let by_group = factors(BY_FOUR_BLOCKS);
        for (lane, block) in lanes.iter_mut().zip(blocks) {
            *lane = fold(*lane, by_group, block);
        }
    }

    /// Returns the sum of all lanes after a group.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn joined([first, second, third, last]: [__m512i; LANES]) -> __m512i {
        let by_block = factors(BY_BLOCK);
        [second, third, last].into_iter().fold(first, |sum, lane| fold(sum, by_block, lane))
    }

    /// Returns the bytes before the first whole vector; there are enough for all marks.
    const fn head_bytes(bytes: usize) -> usize {
        match bytes % BLOCK {
            few if few < MARKED_BYTES && bytes >= BLOCK => few + BLOCK,
            some => some,
        }
    }

    #[target_feature(enable = "avx512f")]
    fn factors([low, high]: [i64; 2]) -> __m512i {
        _mm512_broadcast_i32x4(_mm_set_epi64x(high, low))
    }

    #[target_feature(enable = "avx512f")]
    fn load(blocks: &[u8], index: usize) -> __m512i {
        let block: &[u8] = &blocks[index * BLOCK..][..BLOCK];
        // SAFETY: `block` has the 64 bytes that are read; they need no alignment.
        unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
    }

    /// Moves each 128 bits of `of` by the factors' distance and adds what lies there.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(of: __m512i, factors: __m512i, there: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128(of, factors, 0x00);
        let high = _mm512_clmulepi64_epi128(of, factors, 0x11);
        _mm512_ternarylogic_epi64(low, high, there, XOR_OF_THREE)
    }

    /// Returns the state that 512 folded bits make.
    #[target_feature(enable = "avx512f,pclmulqdq,sse4.1")]
    fn reduce(folded: __m512i) -> u32 {
        let quarters = [
            _mm512_extracti32x4_epi32(folded, 0),
            _mm512_extracti32x4_epi32(folded, 1),
            _mm512_extracti32x4_epi32(folded, 2),
        ];
        let mut last = _mm512_extracti32x4_epi32(folded, 3);
        for (quarter, [low, high]) in quarters.into_iter().zip([BY_384, BY_256, BY_128]) {
            let factors = _mm_set_epi64x(high, low);
            let low = _mm_clmulepi64_si128(quarter, factors, 0x00);
            let high = _mm_clmulepi64_si128(quarter, factors, 0x11);
            last = _mm_xor_si128(last, _mm_xor_si128(low, high));
        }
        reduce_128(last)
    }

    /// Returns the state that 128 folded bits make: two more folds, then Barrett's reduction.
    #[target_feature(enable = "pclmulqdq,sse4.1")]
    fn reduce_128(bits: __m128i) -> u32 {
        let low_word = _mm_set_epi32(0, -1, 0, -1);
        let by_96 = _mm_set_epi64x(BY_128[1], 0);
        let folded =
            _mm_xor_si128(_mm_srli_si128(bits, 8), _mm_clmulepi64_si128(bits, by_96, 0x10));
        let by_64 = _mm_cvtsi64_si128(BY_64);
        let moved = _mm_clmulepi64_si128(_mm_and_si128(folded, low_word), by_64, 0x00);
        let rest = _mm_xor_si128(_mm_srli_si128(folded, 4), moved);
        let barrett = _mm_set_epi64x(QUOTIENT, WHOLE);
        let quotient = _mm_clmulepi64_si128(_mm_and_si128(rest, low_word), barrett, 0x10);
        let product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_word), barrett, 0x00);
        _mm_extract_epi32(_mm_xor_si128(rest, product), 1) as u32
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Source: the example of Intel's paper, and RFC 3720's companion tables of CRC-32.
        #[test]
        fn factors_are_those_of_the_published_example() {
            assert_eq!(BY_BLOCK, [0x1_5444_2BD4, 0x1_C6E4_1596]);
            assert_eq!(BY_128, [0x1_7519_97D0, 0x0_CCAA_009E]);
            assert_eq!(BY_64, 0x1_63CD_6124);
            assert_eq!((WHOLE, QUOTIENT), (0x1_DB71_0641, 0x1_F701_1641));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same sum, bit by bit.
    fn bit_by_bit(mut state: u32, packet: &[u8]) -> u32 {
        for (at, &byte) in packet.iter().enumerate() {
            state ^= u32::from(if at == 4 { 0xFF } else { byte });
            for _ in 0..8 {
                state = state >> 1 ^ if state & 1 == 1 { 0xEDB8_8320 } else { 0 };
            }
        }
        state
    }

    #[test]
    fn a_copied_payload_is_the_payload_and_its_packet_has_the_same_sum() {
        let from: Vec<u8> = (0..10_000_u32).map(|at| (at * 37 + at / 256) as u8).collect();
        let lengths = (0..900).chain([1425, 1428, 1440, 1456, 2048, 4095, 7284, 8956, 9000]);
        for (length, start) in lengths.flat_map(|length| [(length, 12), (length, 28)]) {
            let pad = fluxline_core::roce::pad_bytes(length);
            let mut bytes = vec![0; start + length + pad];
            bytes[..start].fill(0x5A);
            let source = &from[length % 67..][..length];
            let mut expected = bytes.clone();
            expected[start..start + length].copy_from_slice(source);
            let (state, sum) = (0x1234_5678 ^ length as u32, fluxline_core::roce::packet_sum);
            let payload = start..start + length;
            let packet = UnsummedPacket { state, bytes: &mut bytes, payload, sum };
            // SAFETY: `source` is as long as the payload, and not part of the packet.
            let copied = unsafe { copy_summed(source.as_ptr(), packet) };
            assert!(bytes == expected, "{length} bytes at {start}");
            assert_eq!(copied, sum(state, &expected), "{length} bytes at {start}");
        }
    }

    #[test]
    fn the_fastest_sum_is_the_sum_bit_by_bit_at_every_length_and_alignment() {
        let mut random = 0x5EED_u64;
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push((random >> 56) as u8);
        }
        let lengths = (0..1100).chain([1452, 1472, 2047, 2048, 2049, 4096, 8972, 9999]);
        for (length, start) in lengths.flat_map(|length| [(length, 0), (length, length % 61)]) {
            let Some(packet) = bytes.get(start..start + length) else { continue };
            let state = (random >> 13) as u32 ^ length as u32;
            let expected = bit_by_bit(state, packet);
            assert_eq!(fastest()(state, packet), expected, "{length} bytes at {start}");
            assert_eq!(fluxline_core::roce::packet_sum(state, packet), expected, "{length} bytes");
        }
    }
}
