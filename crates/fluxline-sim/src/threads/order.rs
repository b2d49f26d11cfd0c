//! The order of a world's nodes: numbers by value, then words by letters.

/// Sorts names. Nodes called 0, 1, 2 get these places.
pub fn sort(names: &mut [String]) {
    names.sort_by_cached_key(|name| {
        let number = name.parse::<u64>().unwrap_or(u64::MAX);
        (number, name.clone())
    });
}
