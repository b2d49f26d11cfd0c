//! Arithmetic of polynomials modulo that of CRC-32, and the CRC of a few bytes.
//!
//! The bits have the order of the CRC: the highest bit is the power 0. The code uses only integer
//! instructions, because those for carry-less multiplication need unsafe code.

/// The polynomial without its highest power. Source: IEEE 802.3, 3.2.9.
const POLYNOMIAL: u32 = 0xEDB8_8320;
const ONE: u32 = 1 << 31;
const BYTE_VALUES: usize = 256;

const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The inverse of [`times_x`].
const fn divided_by_x(value: u32) -> u32 {
    if value & ONE != 0 { (value ^ POLYNOMIAL) << 1 | 1 } else { value << 1 }
}

/// Tables of `value x^by` for each byte of `value`, the lowest first.
const fn times_power(by: u32) -> [[u32; BYTE_VALUES]; 4] {
    let mut tables = [[0; BYTE_VALUES]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 0;
        while value < BYTE_VALUES {
            let mut product = (value as u32) << (8 * byte);
            let mut power = 0;
            while power < by {
                product = times_x(product);
                power += 1;
            }
            tables[byte][value] = product;
            value += 1;
        }
        byte += 1;
    }
    tables
}

/// Returns the contribution of each byte to the CRC's state when `after` bytes follow it. The CRC
/// is linear, so the difference of two heads can be added to the state of one.
pub(super) const fn contributions(after: usize) -> [u32; BYTE_VALUES] {
    let mut table = [0; BYTE_VALUES];
    let mut bit = 0;
    while bit < 8 {
        let mut product = 1 << bit;
        let mut step = 0;
        while step < 8 * (after + 1) {
            product = times_x(product);
            step += 1;
        }
        let mut value = 0;
        while value < BYTE_VALUES {
            if value >> bit & 1 == 1 {
                table[value] ^= product;
            }
            value += 1;
        }
        bit += 1;
    }
    table
}

/// The powers of `x^(-8 bytes)`, from 0.
const fn negative_powers(bytes: usize) -> [u32; BYTE_VALUES] {
    let mut powers = [ONE; BYTE_VALUES];
    let mut at = 1;
    while at < BYTE_VALUES {
        let mut power = powers[at - 1];
        let mut step = 0;
        while step < 8 * bytes {
            power = divided_by_x(power);
            step += 1;
        }
        powers[at] = power;
        at += 1;
    }
    powers
}

static MINUS_BYTES: [u32; BYTE_VALUES] = negative_powers(1);
static MINUS_256_BYTES: [u32; BYTE_VALUES] = negative_powers(BYTE_VALUES);
static TIMES_X_32: [[u32; BYTE_VALUES]; 4] = times_power(32);
static TIMES_X_64: [[u32; BYTE_VALUES]; 4] = times_power(64);

/// Returns `x^(-8 bytes)`; `None` from 65,536 bytes on.
pub(super) fn power_of_minus_bytes(bytes: usize) -> Option<u32> {
    let high = *MINUS_256_BYTES.get(bytes / BYTE_VALUES)?;
    Some(multiply(MINUS_BYTES[bytes % BYTE_VALUES], high))
}

/// Returns `a b` modulo the polynomial.
#[inline]
pub(super) fn multiply(a: u32, b: u32) -> u32 {
    // The product has 63 bits. Shifted up by one, its power 0 is the highest bit of 64.
    let product = carry_less(a, b) << 1;
    (product >> 32) as u32 ^ look_up(&TIMES_X_32, product as u32)
}

#[inline]
fn look_up(tables: &[[u32; BYTE_VALUES]; 4], value: u32) -> u32 {
    let [b0, b1, b2, b3] = value.to_le_bytes().map(usize::from);
    tables[0][b0] ^ tables[1][b1] ^ tables[2][b2] ^ tables[3][b3]
}

/// Returns the CRC's state after `bytes`, from the state before them; nothing is inverted.
///
/// Each step takes 8 bytes and some 4 ns. Up to about 150 bytes this is faster than vector
/// instructions, which start slowly.
#[inline]
pub(super) fn crc32_state(mut state: u32, bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<8>();
    for &[a, b, c, d, e, f, g, h] in pairs {
        let (first, second) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        state = look_up(&TIMES_X_64, state ^ first) ^ look_up(&TIMES_X_32, second);
    }
    let (words, rest) = rest.as_chunks::<4>();
    for &word in words {
        state = look_up(&TIMES_X_32, state ^ u32::from_le_bytes(word));
    }
    for &byte in rest {
        state = (state >> 8) ^ TIMES_X_32[3][usize::from(state as u8 ^ byte)];
    }
    state
}

/// Returns the product without carries.
///
/// It multiplies every fourth bit of each factor at a time. Then at most 8 ones meet at one bit, so
/// that their sum fits below the next used bit and its lowest bit is right.
#[inline]
fn carry_less(a: u32, b: u32) -> u64 {
    const FOURTH: u64 = 0x1111_1111_1111_1111;
    let (a, b) = (u64::from(a), u64::from(b));
    let [a0, a1, a2, a3] = [a & FOURTH, a & FOURTH << 1, a & FOURTH << 2, a & FOURTH << 3];
    let [b0, b1, b2, b3] = [b & FOURTH, b & FOURTH << 1, b & FOURTH << 2, b & FOURTH << 3];
    // No product reaches 2^64: both factors are below 2^32.
    let r0 = (a0 * b0) ^ (a1 * b3) ^ (a2 * b2) ^ (a3 * b1);
    let r1 = (a0 * b1) ^ (a1 * b0) ^ (a2 * b3) ^ (a3 * b2);
    let r2 = (a0 * b2) ^ (a1 * b1) ^ (a2 * b0) ^ (a3 * b3);
    let r3 = (a0 * b3) ^ (a1 * b2) ^ (a2 * b1) ^ (a3 * b0);
    r0 & FOURTH | r1 & FOURTH << 1 | r2 & FOURTH << 2 | r3 & FOURTH << 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slow_product(a: u32, b: u32) -> u32 {
        let (mut sum, mut shifted) = (0, a);
        for power in 0..32 {
            if b & ONE >> power != 0 {
                sum ^= shifted;
            }
            shifted = times_x(shifted);
        }
        sum
    }

    proptest! {
        #[test]
        fn the_fast_product_is_the_slow_one(a: u32, b: u32) {
            prop_assert_eq!(multiply(a, b), slow_product(a, b));
        }

        #[test]
        fn dividing_undoes_multiplying(a: u32, bytes in 0usize..65_536) {
            prop_assert_eq!(divided_by_x(times_x(a)), a);
            let mut there = a;
            for _ in 0..bytes * 8 {
                there = times_x(there);
            }
            let undo = power_of_minus_bytes(bytes).expect("short enough");
            prop_assert_eq!(multiply(there, undo), a);
        }
    }

    #[test]
    fn the_state_after_few_bytes_is_that_of_the_crc() {
        let bytes: [u8; 40] = core::array::from_fn(|at| (at * 37) as u8);
        for length in 0..bytes.len() {
            let sum = crc_fast::crc32_iso_hdlc(&bytes[..length]);
            assert_eq!(!crc32_state(u32::MAX, &bytes[..length]), sum);
        }
        assert_eq!(!crc32_state(u32::MAX, b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn one_is_one_and_all_ones_do_not_carry() {
        assert_eq!(multiply(ONE, 0xDEAD_BEEF), 0xDEAD_BEEF);
        assert_eq!(multiply(u32::MAX, u32::MAX), slow_product(u32::MAX, u32::MAX));
        assert_eq!(power_of_minus_bytes(0), Some(ONE));
        assert_eq!(power_of_minus_bytes(65_536), None);
    }
}
