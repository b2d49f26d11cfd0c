//! The order of a peer's requests: the number that is expected, and frames that came before it.
//!
//! A request's number is its PSN, counted on without wrapping.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::roce::Psn;

/// Frames that wait for an earlier one take this much memory at most; a frame beyond it counts as
/// lost \[byte\].
const HELD_BYTES_MAX: usize = 16 << 20;

/// The expected request, and the frames that wait for it.
pub(super) struct ReceiveOrder {
    expected: u64,
    /// Frames that came before one that is missing, by number.
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// Empty buffers for reuse.
    spare: Vec<Vec<u8>>,
}

impl ReceiveOrder {
    pub fn new(first: Psn) -> ReceiveOrder {
        let expected = u64::from(first.get());
        ReceiveOrder { expected, held: BTreeMap::new(), held_bytes: 0, spare: Vec::new() }
    }

    /// Returns the number of the expected request.
    #[inline]
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns true when frames wait for the expected one.
    #[inline]
    pub fn holds_frames(&self) -> bool {
        !self.held.is_empty()
    }

    #[inline]
    pub fn expected_psn(&self) -> Psn {
        Psn::new(self.expected as u32)
    }

    /// Expects the request that is `count` numbers further on.
    pub fn advance(&mut self, count: u32) {
        self.expected += u64::from(count);
        // A read may have taken more numbers than its own.
        while let Some((&number, _)) = self.held.first_key_value()
            && number < self.expected
        {
            let bytes = self.take(number);
            self.spare.extend(bytes);
        }
    }

    /// Keeps a frame until its turn comes, unless it is kept already or memory runs out.
    pub fn hold(&mut self, number: u64, bytes: &[u8]) {
        if self.held_bytes + bytes.len() > HELD_BYTES_MAX || self.held.contains_key(&number) {
            return;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        self.put_back(number, copy);
    }

    /// Takes out the frame of the expected request, if it is here.
    #[inline]
    pub fn take_expected(&mut self) -> Option<Vec<u8>> {
        self.take(self.expected)
    }

    fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        let bytes = self.held.remove(&number)?;
        self.held_bytes -= bytes.len();
        Some(bytes)
    }

    /// Puts a frame back that was taken out and could not be done.
    pub fn put_back(&mut self, number: u64, bytes: Vec<u8>) {
        self.held_bytes += bytes.len();
        self.held.insert(number, bytes);
    }

    /// Keeps the buffer of a frame that is done.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// Makes the map of held frames in `bits`, which are zero, and returns its used part. Bit n is
    /// set when the request n + 1 numbers after the expected one is held.
    pub fn map<'a>(&self, bits: &'a mut [u8]) -> &'a [u8] {
        let mut used = 0;
        for &number in self.held.keys() {
            let Some(bit) = number.checked_sub(self.expected + 1) else { continue };
            let byte = (bit / 8) as usize;
            if let Some(of) = bits.get_mut(byte) {
                *of |= 1 << (bit % 8);
                used = byte + 1;
            }
        }
        &bits[..used]
    }
}
