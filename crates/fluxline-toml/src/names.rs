//! The nearest known name, for "did you mean": a typing error is mended by the one who sees it.
//!
//! Levenshtein's distance over the two names; names here are short, so the quadratic table is
//! one row of a fixed size.

/// Names longer than this are not compared.
const NAME_BYTES_MAX: usize = 64;

/// The candidate nearest to `name`, when it is near enough to be a likely typing error.
///
/// Cost: the product of the lengths per candidate; for error messages only.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| Some((distance(name.as_bytes(), candidate.as_bytes())?, candidate)))
        .filter(|&(distance, candidate)| {
            distance <= limit
                || (distance <= 2 && same_letters(name, candidate))
                || begins(name, candidate)
        })
        .min_by_key(|&(distance, candidate)| (!begins(name, candidate), distance))
        .map(|(_, candidate)| candidate)
}

/// The three candidates that are most alike `name`, the nearest first, however far they are.
#[must_use]
pub fn nearest_three<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> alloc::vec::Vec<&'a str> {
    let far = |candidate: &str| distance(name.as_bytes(), candidate.as_bytes());
    let mut all: alloc::vec::Vec<&str> = candidates.into_iter().collect();
    all.sort_by_key(|candidate| (!begins(name, candidate), far(candidate).unwrap_or(usize::MAX)));
    all.truncate(3);
    all
}

/// Returns true when a name was cut short.
fn begins(name: &str, candidate: &str) -> bool {
    name.len() >= 3 && candidate.starts_with(name)
}

/// Returns true when two names differ in the order of their letters only: two were swapped.
fn same_letters(left: &str, right: &str) -> bool {
    let count = |text: &str, letter: u8| text.bytes().filter(|&byte| byte == letter).count();
    left.len() == right.len()
        && left.bytes().all(|letter| count(left, letter) == count(right, letter))
}

/// Returns the number of letters to insert, remove or change; `_` and `-` are the same.
fn distance(left: &[u8], right: &[u8]) -> Option<usize> {
    if left.len() > NAME_BYTES_MAX || right.len() > NAME_BYTES_MAX {
        return None;
    }
    let same = |a: u8, b: u8| {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        plain(a) == plain(b)
    };
    let mut row = [0usize; NAME_BYTES_MAX + 1];
    for (column, cell) in row.iter_mut().enumerate() {
        *cell = column;
    }
    for (line, &from) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, &to) in right.iter().enumerate() {
            let changed = diagonal + usize::from(!same(from, to));
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    Some(row[right.len()])
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_name_and_nonsense_finds_none() {
        assert_eq!(nearest("sequnce", ["source", "sequence", "event"]), Some("sequence"));
        assert_eq!(nearest("byte_order", ["byte-order", "name"]), Some("byte-order"));
        assert_eq!(nearest("help_text", ["name", "bits"]), None);
        assert_eq!(nearest("kye", ["value", "key"]), Some("key"));
        assert_eq!(nearest("", ["name"]), None);
        assert_eq!(nearest("pack", ["packet_count", "name"]), Some("packet_count"));
    }
}
