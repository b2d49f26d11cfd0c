//! A table by keys that nearly always grow, for things that are soon over.
//!
//! Requests, jobs and packets under way have numbers that grow, and end nearly in that order. The
//! few rows of such a table lie side by side in memory, so that a node's state needs few cache
//! lines: a large world spends most of its time waiting for memory.

use std::collections::VecDeque;

/// Rows for which a table keeps its memory. A choice.
const ROWS_KEPT: usize = 16;

#[derive(Debug)]
struct Row<K, T> {
    key: K,
    value: T,
}

/// Values by key, in the order of keys.
#[derive(Debug)]
pub struct InOrder<K, T> {
    rows: VecDeque<Row<K, T>>,
}

impl<K, T> Default for InOrder<K, T> {
    fn default() -> InOrder<K, T> {
        InOrder { rows: VecDeque::new() }
    }
}

impl<K: Ord + Copy, T> InOrder<K, T> {
    /// Adds a value, or replaces the one of the same key and returns it. A key above all others
    /// costs nothing more than a push.
    pub fn insert(&mut self, key: K, value: T) -> Option<T> {
        match self.place_of(key) {
            Ok(place) => Some(std::mem::replace(&mut self.rows[place].value, value)),
            Err(place) => {
                self.rows.insert(place, Row { key, value });
                None
            }
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&T> {
        self.place_of(key).ok().map(|place| &self.rows[place].value)
    }

    /// Returns the value of a key, to be changed.
    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.place_of(key).ok().map(|place| &mut self.rows[place].value)
    }

    /// Removes a value.
    pub fn remove(&mut self, key: K) -> Option<T> {
        let row = self.rows.remove(self.place_of(key).ok()?);
        if self.rows.capacity() > ROWS_KEPT.max(8 * self.rows.len()) {
            self.rows.shrink_to(ROWS_KEPT.max(2 * self.rows.len()));
        }
        row.map(|row| row.value)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().map(|row| &row.value)
    }

    /// Returns the values in the order of their keys, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().map(|row| &mut row.value)
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.rows.iter().map(|row| row.key)
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the place of a key, or the place at which it would be inserted.
    fn place_of(&self, key: K) -> Result<usize, usize> {
        match (self.rows.front(), self.rows.back()) {
            (Some(first), _) if first.key == key => Ok(0),
            (_, Some(last)) if last.key >= key => self.rows.binary_search_by_key(&key, |of| of.key),
            _ => Err(self.rows.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fluxline_core::random::Draw;

    use super::{InOrder, ROWS_KEPT};

    #[test]
    fn a_table_in_order_does_what_a_tree_does() {
        for seed in 0..40 {
            println!("seed {seed}");
            let mut draw = Draw::new(seed);
            let (mut table, mut tree) = (InOrder::default(), BTreeMap::new());
            let (mut newest, few) = (0, [3, 40, 1_000][seed as usize % 3]);
            for step in 0..4_000_u64 {
                newest += draw.below(3);
                // Mostly a new key, or one of the oldest; now and then any.
                let oldest = tree.keys().next().copied().unwrap_or(0);
                let key = if draw.chance(0.2) { draw.below(newest + 2) } else { newest };
                let gone = if draw.chance(0.2) { draw.below(newest + 2) } else { oldest };
                if tree.len() < few {
                    assert_eq!(table.insert(key, step), tree.insert(key, step));
                }
                if draw.chance(0.5) || tree.len() >= few {
                    assert_eq!(table.remove(gone), tree.remove(&gone));
                }
                let asked = draw.below(newest + 2);
                assert_eq!(table.get(asked), tree.get(&asked));
                assert_eq!(table.get_mut(key), tree.get_mut(&key));
                assert_eq!((table.len(), table.is_empty()), (tree.len(), tree.is_empty()));
            }
            assert!(table.keys().eq(tree.keys().copied()) && table.values().eq(tree.values()));
            assert!(table.values_mut().eq(tree.values_mut()));
        }
    }

    #[test]
    fn a_table_that_was_large_gives_its_memory_back() {
        let mut table = InOrder::default();
        (0..1_000).for_each(|key| _ = table.insert(key, key));
        (0..1_000).for_each(|key| _ = table.remove(key));
        assert!(table.rows.capacity() <= 2 * ROWS_KEPT, "{} rows", table.rows.capacity());
    }
}
