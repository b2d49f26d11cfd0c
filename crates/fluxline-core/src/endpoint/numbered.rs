//! Values under numbers that are never used again; memory grows with the values at one time.
//!
//! A number has the index of its slot in the low bits. Above it stands how often the slot was used
//! before. So the first numbers are 0, 1, 2, and the number of a removed value finds nothing even
//! if another value has its slot now.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Low bits of a number: the index of its slot.
const SLOT_BITS: u32 = 12;
/// The most values.
pub(super) const SLOTS_MAX: usize = 1 << SLOT_BITS;
/// This many slots are made before one is used again: numbers come back after 2^20 uses of a slot.
const SLOTS_FIRST: usize = 64;
const USES_MAX: u32 = u32::MAX >> SLOT_BITS;

/// Values by number.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    slots: Vec<NumberedSlot<T>>,
    /// Slots without a value, the longest unused first.
    free: VecDeque<u32>,
}

#[derive(Debug)]
struct NumberedSlot<T> {
    uses: u32,
    value: Option<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { slots: Vec::new(), free: VecDeque::new() }
    }
}

fn index_of(number: u32) -> usize {
    number as usize & (SLOTS_MAX - 1)
}

impl<T> Numbered<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a value; returns its number. The caller keeps [`Numbered::len`] below [`SLOTS_MAX`].
    pub fn add(&mut self, value: T) -> u32 {
        if self.slots.len() >= SLOTS_FIRST
            && let Some(slot) = self.free.pop_front()
        {
            let of = &mut self.slots[slot as usize];
            of.value = Some(value);
            return of.uses << SLOT_BITS | slot;
        }
        assert!(self.slots.len() < SLOTS_MAX, "the caller limits how many values there are");
        self.slots.push(NumberedSlot { uses: 0, value: Some(value) });
        self.slots.len() as u32 - 1
    }

    fn slot(&self, number: u32) -> Option<&NumberedSlot<T>> {
        self.slots.get(index_of(number)).filter(|slot| slot.uses == number >> SLOT_BITS)
    }

    fn slot_mut(&mut self, number: u32) -> Option<&mut NumberedSlot<T>> {
        let slot = self.slots.get_mut(index_of(number));
        slot.filter(|slot| slot.uses == number >> SLOT_BITS)
    }

    /// Returns the value with this number, until it is removed.
    pub fn get(&self, number: u32) -> Option<&T> {
        self.slot(number)?.value.as_ref()
    }

    /// Returns the value with this number, until it is removed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slot_mut(number)?.value.as_mut()
    }

    /// Takes a value out. Its number finds nothing from now on.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let slot = self.slot_mut(number)?;
        let value = slot.value.take()?;
        slot.uses = (slot.uses + 1) & USES_MAX;
        self.free.push_back(index_of(number) as u32);
        Some(value)
    }

    /// Returns all values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let value = slot.value.as_ref()?;
            Some((slot.uses << SLOT_BITS | at as u32, value))
        })
    }

    /// Returns all values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Removes the values that `keep` rejects.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.value.as_ref().is_some_and(|value| !keep(value)) {
                self.remove(slot.uses << SLOT_BITS | at as u32);
            }
        }
    }

    /// Returns the number of slots in memory.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    #[test]
    fn against_a_map_that_never_forgets_a_number() {
        let mut draw = crate::random::Draw::new(5);
        let (mut numbered, mut model) = (Numbered::default(), BTreeMap::new());
        let mut most = 0;
        for step in 0..20_000_u32 {
            if model.values().flatten().count() < 200 && draw.below(2) == 0 {
                let number = numbered.add(step);
                assert_eq!(model.insert(number, Some(step)), None, "a number is used again");
            }
            let numbers: Vec<u32> = model.keys().copied().collect();
            let Some(&number) = numbers.get(draw.below(numbers.len().max(1) as u64) as usize)
            else {
                continue;
            };
            assert_eq!(numbered.get(number).copied(), model[&number]);
            assert_eq!(numbered.get_mut(number).copied(), model[&number]);
            if draw.below(2) == 0 {
                assert_eq!(numbered.remove(number), model[&number]);
                model.insert(number, None);
            }
            let living = model.values().flatten().count();
            most = most.max(living);
            assert_eq!(numbered.len(), living);
            if model.len() > 400 {
                model.retain(|_, value| value.is_some() || draw.below(4) > 0);
            }
        }
        assert!(numbered.slots() <= most.max(SLOTS_FIRST), "{most} at once");
        numbered.retain(|value| value.is_multiple_of(2));
        let even: Vec<u32> = numbered.iter().map(|(_, value)| *value).collect();
        assert!(even.iter().all(|value| value.is_multiple_of(2)));
        assert_eq!(numbered.values_mut().count(), even.len());
    }

    #[test]
    fn the_first_numbers_count_from_zero_and_come_back_after_many_uses() {
        let mut numbered = Numbered::default();
        let first: Vec<u32> = (0..100).map(|value| numbered.add(value)).collect();
        assert_eq!(first, (0..100).collect::<Vec<u32>>());
        for number in first {
            numbered.remove(number);
        }
        // The oldest free slot is taken first.
        assert_eq!(numbered.add(7), 1 << SLOT_BITS);
        numbered.slots[0].uses = USES_MAX;
        assert_eq!(numbered.remove(u32::MAX << SLOT_BITS), Some(7));
        assert_eq!(numbered.slots[0].uses, 0);
    }
}
