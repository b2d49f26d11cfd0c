//! Values by identifiers that are never reused, in as many slots as values existed at the same
//! time.

/// Most slots. An identifier combines a slot's number with its number of uses:
/// `uses * SLOTS_MAX + slot`.
pub(super) const SLOTS_MAX: u32 = 1024;

/// Values by identifier. The cost of a pass depends on the present number of values, not on all
/// past ones.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<TableSlot<T>>,
    /// Slots for reuse.
    free: Vec<u32>,
    /// Slots with a value, in no order.
    used: Vec<u32>,
}

#[derive(Debug)]
struct TableSlot<T> {
    /// The identifier of its value, or of its next one.
    id: u32,
    value: Option<T>,
    /// Its index in `used`.
    at: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new(), used: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.used.len()
    }

    /// Returns the number of slots: the largest number of values so far.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the identifier of the next value; `None` if the table is full.
    pub fn next_id(&self) -> Option<u32> {
        match self.free.last() {
            Some(slot) => Some(self.slots[*slot as usize].id),
            None => u32::try_from(self.slots.len()).ok().filter(|slot| *slot < SLOTS_MAX),
        }
    }

    /// Stores a value under `next_id`; returns `None` if the table is full.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        let id = self.next_id()?;
        if self.free.pop().is_none() {
            self.slots.push(TableSlot { id, value: None, at: 0 });
        }
        let slot = &mut self.slots[(id % SLOTS_MAX) as usize];
        (slot.value, slot.at) = (Some(value), self.used.len());
        self.used.push(id % SLOTS_MAX);
        Some(id)
    }

    /// Returns an identifier for something that has already ended; `None` if the table is full.
    pub fn spend(&mut self) -> Option<u32> {
        let id = self.next_id()?;
        if self.free.pop().is_none() {
            self.slots.push(TableSlot { id, value: None, at: 0 });
        }
        self.release(id);
        Some(id)
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        let slot = self.slots.get((id % SLOTS_MAX) as usize)?;
        slot.value.as_ref().filter(|_| slot.id == id)
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut((id % SLOTS_MAX) as usize)?;
        slot.value.as_mut().filter(|_| slot.id == id)
    }

    /// Removes a value; its identifier becomes invalid.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        self.get(id)?;
        let slot = &mut self.slots[(id % SLOTS_MAX) as usize];
        let (value, at) = (slot.value.take(), slot.at);
        self.used.swap_remove(at);
        if let Some(moved) = self.used.get(at) {
            self.slots[*moved as usize].at = at;
        }
        self.release(id);
        value
    }

    /// Releases a slot for reuse, unless it has no identifiers left.
    fn release(&mut self, id: u32) {
        if let Some(next) = id.checked_add(SLOTS_MAX) {
            self.slots[(id % SLOTS_MAX) as usize].id = next;
            self.free.push(id % SLOTS_MAX);
        }
    }

    /// Returns the identifier of the value at `index` of [`Table::len`]; the order changes when a
    /// value is removed.
    pub fn id_at(&self, index: usize) -> Option<u32> {
        self.used.get(index).map(|slot| self.slots[*slot as usize].id)
    }

    /// All values, in no order.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.used.iter().filter_map(|slot| self.slots[*slot as usize].value.as_ref())
    }

    /// All identifiers, in no order.
    pub fn ids(&self) -> Vec<u32> {
        self.used.iter().map(|slot| self.slots[*slot as usize].id).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use fluxline_core::random::Draw;

    use super::*;

    #[test]
    fn any_order_of_calls_equals_a_map_and_no_identifier_comes_twice() {
        for seed in 1..=if cfg!(miri) { 2 } else { 40 } {
            let mut draw = Draw::new(seed);
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            let mut ever = BTreeSet::new();
            for step in 0..2_000_u32 {
                match draw.below(8) {
                    0..=2 => {
                        let id = table.insert(step).expect("room");
                        assert!(ever.insert(id) && map.insert(id, step).is_none(), "seed {seed}");
                    }
                    3 => assert!(ever.insert(table.spend().expect("room")), "seed {seed}"),
                    _ => {
                        let living = map.keys().nth(draw.below(40) as usize);
                        let id = living.or(ever.last()).copied().unwrap_or(77);
                        assert_eq!(table.get_mut(id).copied(), map.get(&id).copied());
                        assert_eq!(table.remove(id), map.remove(&id), "seed {seed}, step {step}");
                        assert_eq!(table.get(id), None);
                    }
                }
                assert_eq!(table.len(), map.len());
                assert!((0..table.len()).all(|at| map.contains_key(&table.id_at(at).unwrap())));
            }
            let all: BTreeSet<u32> = table.values().copied().collect();
            assert_eq!(all, map.values().copied().collect());
            assert_eq!(table.ids().len(), map.len());
        }
    }

    #[test]
    fn thousands_of_values_one_after_the_other_take_one_slot() {
        let mut table = Table::default();
        for value in 0..50_000 {
            let id = table.insert(value).expect("room");
            assert_eq!(table.remove(id), Some(value));
        }
        assert_eq!((table.slots.len(), table.free.len(), table.used.len()), (1, 1, 0));
    }

    #[test]
    fn a_full_table_takes_no_more_and_a_slot_without_identifiers_is_not_used_again() {
        let mut table = Table::default();
        let ids: Vec<u32> = (0..SLOTS_MAX).map(|at| table.insert(at).expect("room")).collect();
        assert_eq!((table.insert(0), table.spend(), table.next_id()), (None, None, None));
        table.remove(ids[5]);
        table.slots[5].id = u32::MAX - SLOTS_MAX + 6; // the last that the slot has
        let last = table.insert(1).expect("room");
        assert_eq!(table.remove(last), Some(1));
        assert_eq!(table.insert(2), None);
    }
}
