//! Decisions drawn from the bytes of an input, so that a fuzzer that changes a byte changes one.

/// The rest of an input. Behind its end everything is zero.
pub(crate) struct Draw<'a>(pub(crate) &'a [u8]);

impl<'a> Draw<'a> {
    /// Returns true when all bytes are drawn.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number from 0 to `limit` - 1; `limit` is 1 to 256.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::from(self.byte()) % limit
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// A small step, mostly forward: -8 to 8, and 1 for half of all bytes.
    pub(crate) fn step(&mut self) -> i64 {
        match self.byte() {
            byte if byte < 128 => 1,
            byte => i64::from(byte % 17) - 8,
        }
    }

    /// A number of any size: its bit length is drawn first.
    pub(crate) fn any(&mut self) -> u64 {
        let bytes = self.below(9);
        (0..bytes).fold(0, |value, _| value << 8 | u64::from(self.byte()))
    }

    /// Returns the next `count` bytes, or fewer at the end.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
