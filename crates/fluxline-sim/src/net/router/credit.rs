//! Credits: a feeder's knowledge of the free space in the buffer at the other end of its link.
//!
//! The tick at which space returns is known when a packet leaves the buffer. So it needs no entry
//! on the agenda: it is stored as a promise, and counted at the next query. A buffer has room for
//! two promises. Only if credits take longer than packets are there more, in a list.

use super::state::{Buffer, NEVER, NONE, Slab};

/// A promise of space beyond the two in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Later {
    tick: u64,
    bytes: u32,
    /// The next promise; after the last one, the first.
    next: u32,
}

impl Buffer {
    /// Adds the space that has returned by `now`.
    #[inline]
    pub fn settle(&mut self, now: u64, later: &mut Slab<Later>) {
        while self.due[0] <= now {
            self.free += self.due_bytes[0];
            (self.due[0], self.due_bytes[0]) = (self.due[1], self.due_bytes[1]);
            (self.due[1], self.due_bytes[1]) =
                if self.later == NONE { (NEVER, 0) } else { self.take_later(later) };
        }
    }

    /// Stores that `bytes` will be free from `tick` on; ticks must not decrease from call to call.
    pub fn promise(&mut self, now: u64, tick: u64, bytes: u32, later: &mut Slab<Later>) {
        // Keeps the list short if there are no queries.
        self.settle(now, later);
        if let Some(place) = self.due.iter().position(|&due| due == NEVER) {
            (self.due[place], self.due_bytes[place]) = (tick, bytes);
            return;
        }
        let added = later.add(Later { tick, bytes, next: NONE });
        let first = match self.later {
            NONE => added,
            last => std::mem::replace(&mut later.get_mut(last).next, added),
        };
        later.get_mut(added).next = first;
        self.later = added;
    }

    /// Removes the first promise of the list, which must not be empty.
    fn take_later(&mut self, later: &mut Slab<Later>) -> (u64, u32) {
        let last = self.later;
        let first = later.get(last).next;
        let Later { tick, bytes, next } = later.remove(first);
        if first == last {
            self.later = NONE;
        } else {
            later.get_mut(last).next = next;
        }
        (tick, bytes)
    }

    /// Returns the free space once all promises are kept \[bytes\].
    pub fn promised(&self, later: &Slab<Later>) -> u64 {
        let mut sum = u64::from(self.free);
        sum += self.due_bytes.iter().map(|&bytes| u64::from(bytes)).sum::<u64>();
        let mut at = self.later;
        while at != NONE {
            let Later { bytes, next, .. } = *later.get(at);
            sum += u64::from(bytes);
            at = if next == self.later { NONE } else { next };
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fluxline_core::random::Draw;

    use super::super::state::{Buffer, NEVER, Slab};

    #[test]
    fn promises_are_kept_in_order_however_many_there_are() {
        for seed in 0..40 {
            println!("seed {seed}");
            let mut draw = Draw::new(seed);
            let mut later = Slab::default();
            let mut buffers = [Buffer::new(0, 0, 10), Buffer::new(0, 1, 10)];
            let mut obvious = [(10_u64, VecDeque::new()), (10, VecDeque::new())];
            let (mut now, mut last) = (0, [0; 2]);
            for _ in 0..500 {
                now += draw.below(3);
                let which = draw.below(2) as usize;
                let (buffer, (free, due)) = (&mut buffers[which], &mut obvious[which]);
                if draw.chance(0.7) {
                    let bytes = 1 + draw.below(9) as u32;
                    last[which] = (now + draw.below(12)).max(last[which]);
                    buffer.promise(now, last[which], bytes, &mut later);
                    due.push_back((last[which], u64::from(bytes)));
                }
                let promised = *free + due.iter().map(|&(_, bytes)| bytes).sum::<u64>();
                assert_eq!(buffer.promised(&later), promised);
                buffer.settle(now, &mut later);
                while due.front().is_some_and(|&(at, _)| at <= now) {
                    *free += due.pop_front().map_or(0, |(_, bytes)| bytes);
                }
                assert_eq!(u64::from(buffer.free), *free);
                assert_eq!(buffer.due[0], due.front().map_or(NEVER, |&(at, _)| at));
            }
        }
    }
}
