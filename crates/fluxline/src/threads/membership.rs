//! One node's part in the nodes of its address.

use std::sync::Arc;

use fluxline_core::endpoint::Owner;
use fluxline_core::port::{IncomingTrain, Member};

use super::inbox::{HandedOver, HandedTrain, Inbox};

/// The bytes of a base header, which the shortest frame has.
const HEADER_BYTES: usize = 12;
/// The queue pair of a wake-up is one of the highest numbers.
const PAIRS: u32 = 1 << 24;

/// A port among those of its address. The node is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    inboxes: Arc<[Inbox]>,
    member: Member,
    /// Trains out of the own inbox, on their way to the node.
    taken: Vec<HandedTrain>,
    /// Bit n: node n got a train and may sleep.
    to_wake: u64,
    frames_handed_over: u64,
    frames_dropped: u64,
}

impl Membership {
    /// Returns the memberships of an address with `count` ports.
    pub(crate) fn all(count: u32) -> impl Iterator<Item = Membership> {
        let inboxes: Arc<[Inbox]> = (0..count).map(|_| Inbox::new()).collect();
        Member::all(count).map(move |member| Membership {
            inboxes: Arc::clone(&inboxes),
            member,
            taken: Vec::new(),
            to_wake: 0,
            frames_handed_over: 0,
            frames_dropped: 0,
        })
    }

    pub(crate) fn member(&self) -> Member {
        self.member
    }

    /// Returns the number of frames that were given to other threads.
    pub(crate) fn frames_handed_over(&self) -> u64 {
        self.frames_handed_over
    }

    /// Returns the number of frames that were dropped because another thread did not take them.
    pub(crate) fn frames_dropped(&self) -> u64 {
        self.frames_dropped
    }

    fn inbox(&self, index: u32) -> Option<&Inbox> {
        self.inboxes.get(index as usize)
    }

    /// Returns true when trains wait that other threads received.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.inbox(self.member.index()).is_some_and(Inbox::is_filled)
    }

    /// Gives the trains that other threads received to `take`.
    #[inline]
    pub(crate) fn collect(&mut self, take: &mut dyn FnMut(IncomingTrain<'_>)) {
        if !self.has_waiting() {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        if let Some(inbox) = self.inbox(self.member.index()) {
            inbox.take(&mut taken);
        }
        taken.drain(..).for_each(|handed| take(handed.train()));
        self.taken = taken;
    }

    /// Gives the frames of this node to `take`, and hands the others over.
    pub(crate) fn sort(
        &mut self,
        train: &IncomingTrain<'_>,
        take: &mut dyn FnMut(IncomingTrain<'_>),
    ) {
        let (frames, mut start) = (train.frames(), 0);
        while start < frames {
            let count = run(train, start);
            if let Some(part) = part(train, start, count).filter(|part| self.keeps(part)) {
                take(part);
            }
            start += count;
        }
    }

    /// Decides about frames with one owner: the node keeps them (`true`), or they are handed over.
    #[inline]
    fn keeps(&mut self, part: &IncomingTrain<'_>) -> bool {
        let owner = Owner::of(part.bytes);
        if owner.begins || self.member.owns(owner.number) {
            // A wake-up is as long as a header, which no frame is.
            return part.bytes.len() != HEADER_BYTES;
        }
        let index = owner.index(self.member.count());
        let Some(inbox) = self.inbox(index).filter(|inbox| inbox.is_open()) else { return true };
        let frames = part.frames() as u64;
        match inbox.put(part) {
            HandedOver::Dropped => {
                self.frames_dropped += frames;
                return false;
            }
            HandedOver::First => self.to_wake |= 1 << index,
            HandedOver::Behind => {}
        }
        self.frames_handed_over += frames;
        false
    }

    /// Returns the index of a node that got trains and may sleep, once each.
    #[inline]
    pub(crate) fn next_to_wake(&mut self) -> Option<u32> {
        let index = self.to_wake.trailing_zeros();
        self.to_wake &= self.to_wake.wrapping_sub(1);
        (index < self.member.count()).then_some(index)
    }

    /// Returns a datagram that wakes the node with that index and has no other effect.
    pub(crate) fn wake_up(&self, index: u32) -> [u8; HEADER_BYTES] {
        let count = self.member.count();
        let pair = (PAIRS / count - 1) * count + index;
        let mut frame = [0; HEADER_BYTES];
        frame[4..8].copy_from_slice(&pair.to_be_bytes());
        frame
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(inbox) = self.inbox(self.member.index()) {
            inbox.close();
        }
    }
}

/// Returns the number of frames from index `start` on with one destination. A frame to queue pair
/// 1 stands alone: its destination depends on more.
fn run(train: &IncomingTrain<'_>, start: usize) -> usize {
    const SETUP: [u8; 4] = [0, 0, 0, 1];
    let pair = |index: usize| -> Option<[u8; 4]> {
        let at = index.checked_mul(train.frame_bytes)?;
        train.bytes.get(at..)?.get(4..)?.first_chunk().copied()
    };
    let first = pair(start);
    if first == Some(SETUP) {
        return 1;
    }
    let rest = start + 1..train.frames();
    1 + rest.take_while(|index| pair(*index) == first).count()
}

/// Returns `count` frames of a train from index `start` on.
fn part<'a>(train: &IncomingTrain<'a>, start: usize, count: usize) -> Option<IncomingTrain<'a>> {
    let first = train.frame(start)?;
    let at = start * train.frame_bytes;
    let end = train.bytes.len().min(at + count * train.frame_bytes);
    let bytes = train.bytes.get(at..end)?;
    Some(IncomingTrain { bytes, identification: first.identification, ..*train })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use fluxline_core::port::Identification;

    use super::*;

    const FRAME_BYTES: usize = 20;

    /// A frame to a queue pair, with its number in the last byte.
    fn frame(pair: u32, number: u8) -> Vec<u8> {
        let mut bytes = vec![0; FRAME_BYTES];
        bytes[4..8].copy_from_slice(&pair.to_be_bytes());
        bytes[FRAME_BYTES - 1] = number;
        bytes
    }

    fn train(bytes: &[u8]) -> IncomingTrain<'_> {
        let at = SocketAddr::from(([127, 0, 0, 1], 4791));
        let identification = Identification::Likely(5);
        let (frame_bytes, congestion) = (FRAME_BYTES, false);
        IncomingTrain { from: at, to: at, bytes, frame_bytes, identification, congestion }
    }

    /// The numbers of the frames that `give` hands out, with their identifications.
    fn numbers(give: impl FnOnce(&mut dyn FnMut(IncomingTrain<'_>))) -> Vec<(u8, u16)> {
        let mut all = Vec::new();
        give(&mut |train| {
            for index in 0..train.frames() {
                let frame = train.frame(index).expect("inside");
                all.push((frame.bytes[FRAME_BYTES - 1], frame.identification.value()));
            }
        });
        all
    }

    #[test]
    fn a_mixed_train_is_taken_apart_and_nothing_is_lost() {
        let pairs = [30, 30, 31, 32, 32, 1, 31, 30];
        let frames = pairs.iter().zip(0..).flat_map(|(pair, number)| frame(*pair, number));
        let bytes: Vec<u8> = frames.collect();
        let mut all: Vec<Membership> = Membership::all(3).collect();
        let own = numbers(|take| all[0].sort(&train(&bytes), take));
        // The frame to queue pair 1 names nobody: it belongs to the first.
        assert_eq!(own, [(0, 5), (1, 6), (5, 10), (7, 12)]);
        assert_eq!([all[0].next_to_wake(), all[0].next_to_wake()], [Some(1), Some(2)]);
        assert_eq!(all[0].next_to_wake(), None);
        assert_eq!(numbers(|take| all[1].collect(take)), [(2, 7), (6, 11)]);
        assert_eq!(numbers(|take| all[2].collect(take)), [(3, 8), (4, 9)]);
        assert_eq!(numbers(|take| all[2].collect(take)), []);
    }

    #[test]
    fn frames_of_a_node_that_is_gone_stay_where_they_arrived() {
        let bytes = frame(31, 9);
        let mut all: Vec<Membership> = Membership::all(2).collect();
        assert_eq!(numbers(|take| all[0].sort(&train(&bytes), take)), []);
        drop(all.pop());
        assert_eq!(numbers(|take| all[0].sort(&train(&bytes), take)), [(9, 5)]);
    }

    #[test]
    fn a_wake_up_goes_to_its_node_and_has_no_effect_there() {
        for count in [2, 3, 64] {
            let mut all: Vec<Membership> = Membership::all(count).collect();
            let datagram = all[0].wake_up(count - 1);
            assert_eq!(Owner::of(&datagram).index(count), count - 1);
            assert_eq!(numbers(|take| all[count as usize - 1].sort(&train(&datagram), take)), []);
        }
    }

    #[test]
    fn an_inbox_that_nobody_empties_is_bounded_and_counts_its_losses() {
        let bytes: Vec<u8> = (0..3000).flat_map(|_| frame(31, 9)).collect();
        let mut all: Vec<Membership> = Membership::all(2).collect();
        for _ in 0..400 {
            all[0].sort(&train(&bytes), &mut |_| {});
        }
        let kept = numbers(|take| all[1].collect(take)).len() as u64;
        assert!(kept * FRAME_BYTES as u64 <= 16 << 20);
        assert_eq!(kept + all[0].frames_dropped(), 3000 * 400);
    }
}
