//! Vectors that grow by a quarter instead of doubling, so that memory stays near the configured
//! limit.

/// The fraction by which memory may exceed the counted size: a quarter.
pub const GROWTH: (u64, u64) = (1, 4);
/// The smallest growth of a vector \[byte\].
const STEP_BYTES_MIN: usize = 256;

/// Makes room for `more` elements.
pub(super) fn make_room<T>(vector: &mut Vec<T>, more: usize) {
    if vector.capacity() - vector.len() >= more {
        return;
    }
    let quarter = vector.len() * GROWTH.0 as usize / GROWTH.1 as usize;
    let least = STEP_BYTES_MIN / size_of::<T>().max(1);
    vector.reserve_exact(more.max(quarter).max(least));
}

/// Returns the counted size with its growth \[byte\].
#[must_use]
pub const fn with_growth(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / GROWTH.1 * GROWTH.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_grow_by_a_quarter() {
        let mut vector = Vec::new();
        for number in 0..100_000_u32 {
            make_room(&mut vector, 1);
            vector.push(number);
            assert!(vector.capacity() <= vector.len() * 5 / 4 + 64, "{}", vector.len());
        }
        make_room(&mut vector, 1_000_000);
        assert!(vector.capacity() >= 1_100_000);
    }
}
