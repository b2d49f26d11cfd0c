//! The laws about capabilities: each is tried, and is neither less nor more.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::vec;

use super::joined::{Joined, Pair};
use fluxline_core::fabric::{
    Level, Local, Operation, PostError, RegisterError, Slice, Status, Target, Work,
};

/// Sizes above this are not tried: the memory would only be touched.
const TRIED_BYTES_MAX: u64 = 16 << 20;

/// Atomics and windows work where the link says so, and only there.
pub fn atomics_and_windows_are_as_promised(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("words", 8);
    let capabilities = *joined.pair.left.capabilities();
    assert!(!capabilities.link.is_empty() && capabilities.endpoints_max > 0);
    let add = Work::FetchAdd { at: Target { remote, offset: 0 }, add: 1 };
    match joined.pair.left.post(joined.left, 1, add) {
        Ok(()) => {
            assert_eq!(joined.done(1), (Operation::FetchAdd, Status::Done, 0));
            assert!(capabilities.atomics, "it has atomics, and says that it has none");
        }
        Err(error) => assert!(!capabilities.atomics, "{error}"),
    }
    let window = joined.pair.left.window(remote).expect("imported");
    assert_eq!(window.is_some(), capabilities.windows);
}

/// Regions of more bytes than the link says, and of none, are refused with the limit.
pub fn region_sizes_are_as_promised(pair: Pair) {
    let mut joined = Joined::new(pair);
    let max = joined.pair.left.capabilities().region_bytes_max;
    for bytes in [0, max + 1, u64::MAX] {
        let refused = joined.pair.left.register(bytes);
        assert_eq!(refused, Err(RegisterError::Size { bytes, max }));
    }
    if max <= TRIED_BYTES_MAX {
        joined.pair.left.register(max).expect("as promised");
    }
}

/// A node has as many regions as the link says, unless memory ends first.
pub fn the_number_of_regions_is_as_promised(pair: Pair) {
    let mut joined = Joined::new(pair);
    let max = joined.pair.left.capabilities().regions_max;
    for count in 0..=max {
        match joined.pair.left.register(1) {
            Ok(_) => assert!(count < max, "it has more regions than {max}"),
            Err(RegisterError::Memory { .. }) => return,
            Err(error) => {
                assert_eq!((error, count), (RegisterError::TooMany { max }, max));
            }
        }
    }
}

/// The longest get and the longest message work, and longer ones are refused with the limit.
pub fn operation_sizes_are_as_promised(pair: Pair) {
    let mut joined = Joined::new(pair);
    let capabilities = *joined.pair.left.capabilities();
    let max = capabilities.operation_bytes_max;
    if max <= TRIED_BYTES_MAX {
        let (_, remote) = joined.shared("large", max + 1);
        let own = joined.pair.left.register(max + 1).expect("memory");
        let from = Target { remote, offset: 0 };
        let into = Slice { region: own, offset: 0, bytes: max + 1 };
        let refused = joined.pair.left.post(joined.left, 1, Work::Get { from, into });
        assert_eq!(refused, Err(PostError::TooLong { bytes: max + 1, max }));
    }
    let max = capabilities.message_bytes_max;
    if max <= TRIED_BYTES_MAX {
        let data = vec![7; max as usize + 1];
        let send =
            |bytes| Work::Send { from: Local::Bytes(bytes), complete_at: Some(Level::Placed) };
        let refused = joined.pair.left.post(joined.left, 2, send(&data));
        assert_eq!(refused, Err(PostError::TooLong { bytes: max + 1, max }));
    }
    // The simulator takes long for a message of all that it allows.
    let bytes = max.min(64 << 10);
    let inbox = joined.pair.right.register(bytes).expect("memory");
    let into = Slice { region: inbox, offset: 0, bytes };
    joined.pair.right.post_receive(joined.right, 1, into).expect("room");
    let data = vec![9; bytes as usize];
    let work = Work::Send { from: Local::Bytes(&data), complete_at: Some(Level::Placed) };
    joined.pair.left.post(joined.left, 3, work).expect("as promised");
    assert_eq!(joined.done(3), (Operation::Send, Status::Done, 0));
    assert!(joined.bytes(inbox, 0, bytes as usize) == data);
}

/// A queue takes as many operations as the link says before any of them completes.
pub fn the_queue_is_as_long_as_promised(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("words", 8);
    let at = Target { remote, offset: 0 };
    let max = u64::from(joined.pair.left.capabilities().queue_max);
    for tag in 0..max {
        let taken = joined.pair.left.post(joined.left, tag, Work::FetchAdd { at, add: 1 });
        assert_eq!(taken, Ok(()), "operation {tag} of {max}");
    }
    for tag in 0..max {
        assert_eq!(joined.done(tag).1, Status::Done);
    }
}
