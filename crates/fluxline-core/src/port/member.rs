//! Several nodes at one address, each for a thread of its own.

/// The most nodes at one address.
pub const MEMBERS_MAX: u32 = 64;

/// The place of a node among the nodes of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    index: u32,
    count: u32,
}

impl Member {
    /// The only node of its address.
    pub const ALONE: Member = Member { index: 0, count: 1 };

    /// Returns the members of an address with `count` nodes; empty unless `count` is from 1 to
    /// [`MEMBERS_MAX`].
    pub fn all(count: u32) -> impl Iterator<Item = Member> {
        let is_legal = (1..=MEMBERS_MAX).contains(&count);
        (0..count).filter(move |_| is_legal).map(move |index| Member { index, count })
    }

    /// Returns the index, below the count.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the count of nodes.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns true when frames with this number come here.
    #[must_use]
    #[inline]
    pub fn owns(self, number: u32) -> bool {
        self.count == 1 || number % self.count == self.index
    }

    /// Returns a number that this node owns, made of a random one.
    pub(crate) fn number(self, random: u32) -> u32 {
        (random / self.count).min(u32::MAX / self.count - 1) * self.count + self.index
    }

    /// Returns the lowest byte of this node's nonces, made of a random one.
    ///
    /// It is the same for all calls of a node: its connections meet in one node of the peer, so
    /// that a train of frames to that address belongs to one node.
    pub(crate) fn nonce_byte(self, random: u8) -> u8 {
        if self.count == 1 { random } else { self.index as u8 }
    }

    /// Returns the number of a queue pair among those of this node.
    #[inline]
    pub(crate) fn ordinal(self, pair: u32) -> u32 {
        if self.count == 1 { pair } else { pair / self.count }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn members_exist_from_one_to_the_most() {
        assert_eq!(Member::all(1).collect::<Vec<_>>(), [Member::ALONE]);
        assert_eq!(Member::all(MEMBERS_MAX).count(), MEMBERS_MAX as usize);
        assert_eq!(Member::all(0).count() + Member::all(MEMBERS_MAX + 1).count(), 0);
    }

    #[test]
    fn a_number_of_a_member_comes_back_to_it_and_to_no_other() {
        let mut draw = crate::random::Draw::new(7);
        for count in [1, 2, 3, 7, MEMBERS_MAX] {
            for random in [0, 1, count, u32::MAX, u32::MAX - 1, draw.below(1 << 32) as u32] {
                for member in Member::all(count) {
                    let number = member.number(random);
                    let owners = Member::all(count).filter(|of| of.owns(number));
                    assert_eq!(owners.collect::<Vec<_>>(), [member], "{random} of {count}");
                    let byte = u32::from(member.nonce_byte(random as u8));
                    assert!(member.owns(byte), "{byte} of {count}");
                }
            }
        }
    }
}
