//! The laws of docs/model.md, one function each. A law panics when the link breaks it.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{Joined, KEY, Pair, Side, name};
use super::nobody::Nobody;
use fluxline_core::Span;
use fluxline_core::fabric::{
    AccessError, Completion, ConnectError, ExportError, Grant, Key, Level, Local, Operation,
    PostError, Reliability, Rights, Slice, Status, Target, Work,
};

fn put(bytes: &[u8], to: Target) -> Work<'_> {
    let complete_at = Some(Level::Placed);
    Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at }
}

fn post(joined: &mut Joined, tag: u64, work: Work<'_>) {
    joined.pair.left.post(joined.left, tag, work).expect("legal work is taken");
}

/// Returns the status of work that the link may refuse at once or later.
fn verdict(joined: &mut Joined, tag: u64, work: Work<'_>) -> Status {
    match joined.pair.left.post(joined.left, tag, work) {
        Ok(()) => joined.done(tag).1,
        Err(PostError::Remote(AccessError::OutOfRegion { .. })) => Status::OutOfRegion,
        Err(PostError::Remote(AccessError::Unaligned { .. })) => Status::Unaligned,
        Err(PostError::Remote(AccessError::Rights)) => Status::Rights,
        Err(PostError::Remote(AccessError::UnknownRegion)) => Status::Withdrawn,
        Err(other) => panic!("{work:?}: {other}"),
    }
}

fn flush(joined: &mut Joined) {
    while joined.pair.left.post(joined.left, u64::MAX, Work::Flush) == Err(PostError::Full) {
        joined.turn();
    }
    assert_eq!(joined.done(u64::MAX), (Operation::Flush, Status::Done, 0));
}

/// A put changes the bytes that it names and none beside them.
pub fn a_put_places_its_bytes_and_no_others(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 64);
    for (tag, offset, bytes) in [(1, 0, 1), (2, 63, 1), (3, 13, 17), (4, 40, 8)] {
        let data = vec![tag as u8; bytes];
        post(&mut joined, tag, put(&data, Target { remote, offset }));
        assert_eq!(joined.done(tag), (Operation::Put, Status::Done, 0));
    }
    let mut expected = vec![0; 64];
    (expected[0], expected[63]) = (1, 2);
    expected[13..30].fill(3);
    expected[40..48].fill(4);
    assert_eq!(joined.bytes(region, 0, 64), expected);
}

/// A later put to the same place wins.
pub fn puts_are_placed_in_order(pair: Pair) {
    let mut joined = Joined::new(pair);
    if !joined.pair.left.capabilities().ordered {
        return;
    }
    let (region, remote) = joined.shared("samples", 8);
    for round in 0..100_u8 {
        let work = Work::Put {
            from: Local::Bytes(&[round; 8]),
            to: Target { remote, offset: 0 },
            notify: None,
            complete_at: None,
        };
        while joined.pair.left.post(joined.left, 0, work) == Err(PostError::Full) {
            joined.turn();
        }
    }
    flush(&mut joined);
    assert_eq!(joined.bytes(region, 0, 8), [99; 8]);
}

/// A notified owner finds the bytes in place; the notification names them.
pub fn a_notification_comes_after_its_bytes_and_says_where(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 256);
    for value in 1..=20_u32 {
        let data = [value as u8; 10];
        let offset = u64::from(value) * 10;
        let to = Target { remote, offset };
        let from = Local::Bytes(&data);
        post(&mut joined, 0, Work::Put { from, to, notify: Some(value), complete_at: None });
        let completions = joined.wait(Side::Right, |what| match *what {
            Completion::Notified { endpoint, region, offset, bytes, value } => {
                Some((endpoint, region, offset, bytes, value))
            }
            _ => None,
        });
        assert_eq!(completions, (joined.right, region, offset, 10, value));
        assert_eq!(joined.bytes(region, offset, 10), data);
    }
}

/// Unsignaled work has no completion when it succeeds.
pub fn work_that_asks_for_no_completion_gets_none(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("samples", 8);
    let (from, to) = (Local::Bytes(&[1]), Target { remote, offset: 0 });
    post(&mut joined, 1, Work::Put { from, to, notify: None, complete_at: None });
    flush(&mut joined);
    assert_eq!(joined.rest(Side::Left), []);
}

/// After `Copied`, or with `Local::Bytes`, the caller may change the source.
pub fn copied_bytes_may_be_changed_at_once(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 16);
    let own = joined.pair.left.register(8).expect("memory");
    let memory = joined.pair.left.memory(own).expect("own");
    memory.write(0, &[7; 8]).expect("inside");
    let mut bytes = [5; 8];
    let complete_at = Some(Level::Copied);
    let to = Target { remote, offset: 0 };
    post(&mut joined, 1, Work::Put { from: Local::Bytes(&bytes), to, notify: None, complete_at });
    bytes.fill(0xFF);
    let from = Local::Region(Slice { region: own, offset: 0, bytes: 8 });
    let to = Target { remote, offset: 8 };
    post(&mut joined, 2, Work::Put { from, to, notify: None, complete_at });
    assert_eq!(joined.done(2).1, Status::Done);
    memory.write(0, &bytes).expect("inside");
    flush(&mut joined);
    assert_eq!(joined.bytes(region, 0, 16), [[5; 8], [7; 8]].concat());
}

/// A get reads the bytes that a put wrote.
pub fn a_get_brings_what_a_put_took(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("samples", 1000);
    let data: Vec<u8> = (0..1000).map(|at| at as u8).collect();
    post(&mut joined, 1, put(&data, Target { remote, offset: 0 }));
    let own = joined.pair.left.register(1001).expect("memory");
    let into = Slice { region: own, offset: 1, bytes: 999 };
    post(&mut joined, 2, Work::Get { from: Target { remote, offset: 1 }, into });
    assert_eq!(joined.done(2), (Operation::Get, Status::Done, 0));
    let mut found = vec![0; 1001];
    joined.pair.left.memory(own).expect("own").read(0, &mut found).expect("inside");
    assert_eq!((found[0], &found[1..1000], found[1000]), (0, &data[1..], 0));
}

/// A flush completes only when earlier work is placed.
pub fn a_flush_completes_after_all_that_came_before(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 64);
    for place in 0..32_u8 {
        let to = Target { remote, offset: u64::from(place) };
        let from = Local::Bytes(&[1]);
        post(&mut joined, 0, Work::Put { from, to, notify: None, complete_at: None });
    }
    flush(&mut joined);
    assert_eq!(joined.bytes(region, 0, 32), [1; 32]);
}

/// A node has no connection to itself, and says so at once.
pub fn connecting_to_oneself_is_refused_at_once(mut pair: Pair) {
    let refused = pair.right.connect(&pair.right_name, Reliability::Reliable);
    assert!(matches!(refused, Err(ConnectError::Name { .. })), "{refused:?}");
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 8);
    post(&mut joined, 1, put(&[1; 8], Target { remote, offset: 0 }));
    assert_eq!(joined.done(1).1, Status::Done, "others connect as before");
    assert_eq!(joined.bytes(region, 0, 8), [1; 8]);
}

/// The link's clock never goes back, and a wait ends, early or at its moment.
pub fn time_never_goes_back_and_a_wait_is_not_longer_than_asked(pair: Pair) {
    let mut joined = Joined::new(pair);
    for side in [Side::Left, Side::Right] {
        let mut before = joined.node(side).now();
        for _ in 0..100 {
            let node = joined.node(side);
            node.wait(before);
            let now = node.now();
            assert!(now >= before, "{side:?}: {before:?}, then {now:?}");
            node.wait(now + Span::from_ns(1000));
            before = now;
            joined.turn();
        }
    }
}

/// No addition of two adders is lost.
pub fn words_of_two_adders_sum_up(pair: Pair) {
    let mut joined = Joined::new(pair);
    if !joined.pair.left.capabilities().atomics {
        return;
    }
    let (region, remote) = joined.shared("counter", 8);
    let memory = joined.pair.right.memory(region).expect("own");
    let at = Target { remote, offset: 0 };
    let mut sum = 0_u64;
    for tag in 1..=50 {
        post(&mut joined, tag, Work::FetchAdd { at, add: tag });
        memory.fetch_add(0, 1000).expect("inside");
        assert_eq!(joined.done(tag).1, Status::Done);
        sum += tag + 1000;
    }
    assert_eq!(memory.load(0), Ok(sum));
    post(&mut joined, 99, Work::FetchAdd { at, add: u64::MAX });
    assert_eq!(joined.done(99), (Operation::FetchAdd, Status::Done, sum), "what it was");
    assert_eq!(memory.load(0), Ok(sum - 1), "modulo 2^64");
}

/// compare_swap replaces only the expected value, and returns the old one.
pub fn compare_swap_changes_only_what_is_expected(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("word", 16);
    let at = Target { remote, offset: 8 };
    let swap = |expected, desired| Work::CompareSwap { at, expected, desired };
    for (tag, work, found) in [(1, swap(0, 5), 0), (2, swap(0, 9), 5), (3, swap(5, 9), 5)] {
        post(&mut joined, tag, work);
        assert_eq!(joined.done(tag), (Operation::CompareSwap, Status::Done, found));
    }
    assert_eq!(joined.pair.right.memory(region).expect("own").load(8), Ok(9));
}

/// Atomics are for aligned words.
pub fn an_unaligned_word_is_refused_and_nothing_changes(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("word", 16);
    for offset in [1, 4, 7] {
        let at = Target { remote, offset };
        assert_eq!(verdict(&mut joined, 1, Work::FetchAdd { at, add: 1 }), Status::Unaligned);
        let swap = Work::CompareSwap { at, expected: 0, desired: 1 };
        assert_eq!(verdict(&mut joined, 2, swap), Status::Unaligned);
    }
    let memory = joined.pair.right.memory(region).expect("own");
    assert_eq!(memory.load(3), Err(AccessError::Unaligned { offset: 3 }));
    assert_eq!(joined.bytes(region, 0, 16), [0; 16]);
}

/// Bounds are checked for every kind of access.
pub fn an_access_beyond_the_region_is_refused_and_nothing_changes(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 16);
    let own = joined.pair.left.register(64).expect("memory");
    let at = |offset| Target { remote, offset };
    let into = Slice { region: own, offset: 0, bytes: 17 };
    let works = [
        put(&[1; 17], at(0)),
        put(&[1; 2], at(15)),
        put(&[1], at(16)),
        Work::Get { from: at(0), into },
        Work::FetchAdd { at: at(16), add: 1 },
        Work::CompareSwap { at: at(16), expected: 0, desired: 1 },
    ];
    for (tag, work) in (1..).zip(works) {
        assert_eq!(verdict(&mut joined, tag, work), Status::OutOfRegion, "{work:?}");
    }
    assert_eq!(joined.bytes(region, 0, 16), [0; 16]);
    let beyond = Slice { region: own, offset: 60, bytes: 5 };
    let work = Work::Get { from: at(0), into: beyond };
    let refused = joined.pair.left.post(joined.left, 9, work);
    assert!(matches!(refused, Err(PostError::Local(AccessError::OutOfRegion { .. }))));
}

/// An offset whose sum with the length overflows is refused.
pub fn an_offset_that_overflows_is_refused(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 16);
    for offset in [u64::MAX, u64::MAX - 7, 1 << 63, u64::from(u32::MAX) + 1] {
        let to = Target { remote, offset };
        assert_eq!(verdict(&mut joined, 1, put(&[1; 8], to)), Status::OutOfRegion);
    }
    let slice = Slice { region, offset: u64::MAX, bytes: 2 };
    let refused = joined.pair.right.post_receive(joined.right, 1, slice);
    assert!(matches!(refused, Err(PostError::Local(AccessError::OutOfRegion { .. }))));
    assert_eq!(joined.bytes(region, 0, 16), [0; 16]);
}

/// Each operation needs its right, and no other.
pub fn every_right_is_asked_for(pair: Pair) {
    let mut joined = Joined::new(pair);
    let own = joined.pair.left.register(8).expect("memory");
    let into = Slice { region: own, offset: 0, bytes: 8 };
    let none = Rights::default();
    let cases = [
        ("put", Rights { put: true, ..none }, [true, false, false]),
        ("get", Rights { get: true, ..none }, [false, true, false]),
        ("atomic", Rights { atomic: true, ..none }, [false, false, true]),
    ];
    for (called, rights, allowed) in cases {
        let (region, remote) = joined.shared_with(called, 8, rights);
        let at = Target { remote, offset: 0 };
        let works = [put(&[1], at), Work::Get { from: at, into }, Work::FetchAdd { at, add: 256 }];
        for (work, allowed) in works.into_iter().zip(allowed) {
            let expected = if allowed { Status::Done } else { Status::Rights };
            assert_eq!(verdict(&mut joined, 1, work), expected, "{called}: {work:?}");
        }
        let changed = [u8::from(allowed[0]), u8::from(allowed[2])];
        assert_eq!(joined.bytes(region, 0, 2), changed, "{called}");
    }
}

/// A key that is almost right is refused, and the right one still works afterwards.
pub fn a_wrong_key_imports_nothing(pair: Pair) {
    let mut joined = Joined::new(pair);
    joined.exported("samples", 8, Rights::ALL);
    for bit in [0, 31, 63] {
        let (remote, status, bytes) = joined.import("samples", Key(KEY.0 ^ 1 << bit));
        assert_eq!((status, bytes), (Status::WrongKey, 0));
        let refused =
            joined.pair.left.post(joined.left, 1, put(&[1], Target { remote, offset: 0 }));
        assert_eq!(refused, Err(PostError::NotImported));
    }
    assert_eq!(joined.import("samples", KEY).1, Status::Done);
}

/// A name that no region has is not found.
pub fn a_name_that_nobody_exports_imports_nothing(pair: Pair) {
    let mut joined = Joined::new(pair);
    joined.pair.right.register(8).expect("memory");
    let (_, status, bytes) = joined.import("samples", KEY);
    assert_eq!((status, bytes), (Status::NoSuchRegion, 0));
}

/// Work on a withdrawn region completes as withdrawn; the connection goes on.
pub fn a_withdrawn_region_says_so(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 8);
    joined.pair.right.withdraw(region).expect("own");
    let to = Target { remote, offset: 0 };
    assert_eq!(verdict(&mut joined, 1, put(&[1], to)), Status::Withdrawn);
    assert_eq!(joined.pair.right.withdraw(region), Err(AccessError::UnknownRegion));
    assert!(joined.pair.right.memory(region).is_err());
    let (_, other) = joined.shared("other", 8);
    let to = Target { remote: other, offset: 0 };
    assert_eq!(verdict(&mut joined, 2, put(&[1], to)), Status::Done);
}

/// A withdrawn region's name is free again, and old imports do not reach the new region.
pub fn a_name_can_be_used_again_after_withdrawal(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, old) = joined.shared("samples", 8);
    joined.pair.right.withdraw(region).expect("own");
    let (region, new) = joined.shared("samples", 16);
    let to = |remote| Target { remote, offset: 0 };
    assert_eq!(verdict(&mut joined, 1, put(&[1], to(old))), Status::Withdrawn);
    assert_eq!(verdict(&mut joined, 2, put(&[2], to(new))), Status::Done);
    assert_eq!(joined.bytes(region, 0, 2), [2, 0]);
}

/// A name has one region, and a region one name.
pub fn two_regions_of_one_name_are_refused(pair: Pair) {
    let mut joined = Joined::new(pair);
    let first = joined.exported("samples", 8, Rights::ALL);
    let second = joined.pair.right.register(8).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: KEY };
    let taken = joined.pair.right.export(second, name("samples"), grant);
    assert!(matches!(taken, Err(ExportError::NameTaken { .. })), "{taken:?}");
    let renamed = joined.pair.right.export(first, name("other"), grant);
    assert!(matches!(renamed, Err(ExportError::Exported { .. })), "{renamed:?}");
}

/// Two imports are two handles of the same bytes.
pub fn a_region_imported_twice_is_one_region(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, first) = joined.shared("samples", 8);
    let (second, status, _) = joined.import("samples", KEY);
    assert_eq!(status, Status::Done);
    assert_ne!(first, second);
    post(&mut joined, 1, put(&[1], Target { remote: first, offset: 0 }));
    post(&mut joined, 2, put(&[2], Target { remote: second, offset: 1 }));
    flush(&mut joined);
    assert_eq!(joined.bytes(region, 0, 2), [1, 2]);
}

fn received(joined: &mut Joined, tag: u64) -> (Status, u64) {
    joined.wait(Side::Right, |what| match *what {
        Completion::Done { tag: of, operation: Operation::Receive, status, value, .. }
            if of == tag =>
        {
            Some((status, value))
        }
        _ => None,
    })
}

fn send(bytes: &[u8]) -> Work<'_> {
    Work::Send { from: Local::Bytes(bytes), complete_at: Some(Level::Placed) }
}

/// Messages fill buffers in the order in which both were posted.
pub fn messages_come_in_order_into_the_buffers_given(pair: Pair) {
    let mut joined = Joined::new(pair);
    let buffers = joined.pair.right.register(64).expect("memory");
    for tag in 0..4 {
        let slice = Slice { region: buffers, offset: tag * 16, bytes: 16 };
        joined.pair.right.post_receive(joined.right, tag, slice).expect("room");
    }
    for tag in 0..4_u64 {
        post(&mut joined, tag, send(&vec![tag as u8 + 1; tag as usize]));
    }
    for tag in 0..4 {
        assert_eq!(joined.done(tag), (Operation::Send, Status::Done, 0));
        assert_eq!(received(&mut joined, tag), (Status::Done, tag));
        let mut expected = vec![0; 16];
        expected[..tag as usize].fill(tag as u8 + 1);
        assert_eq!(joined.bytes(buffers, tag * 16, 16), expected);
    }
}

/// A message that is too long is cut, both sides learn it, and nothing is written past the buffer.
pub fn a_message_too_long_for_its_buffer_is_told_to_both(pair: Pair) {
    let mut joined = Joined::new(pair);
    let buffers = joined.pair.right.register(64).expect("memory");
    let slice = Slice { region: buffers, offset: 0, bytes: 8 };
    joined.pair.right.post_receive(joined.right, 1, slice).expect("room");
    post(&mut joined, 1, send(&[3; 9]));
    assert_eq!(joined.done(1).1, Status::TooLong);
    assert_eq!(received(&mut joined, 1), (Status::TooLong, 8));
    assert_eq!(joined.bytes(buffers, 8, 8), [0; 8]);
}

/// The sender of a message without a buffer learns it.
pub fn a_message_without_a_buffer_is_told_to_its_sender(pair: Pair) {
    let mut joined = Joined::new(pair);
    post(&mut joined, 1, send(&[1]));
    assert_eq!(joined.done(1).1, Status::NoBuffer);
}

/// A full queue refuses work, and does all work that it accepted.
pub fn a_full_queue_refuses_and_loses_nothing(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("counter", 8);
    let at = Target { remote, offset: 0 };
    let mut taken = 0_u64;
    let limit = u64::from(joined.pair.left.capabilities().queue_max) * 4;
    while taken < limit {
        match joined.pair.left.post(joined.left, taken, Work::FetchAdd { at, add: 1 }) {
            Ok(()) => taken += 1,
            Err(PostError::Full) => break,
            Err(other) => panic!("{other}"),
        }
    }
    for tag in 0..taken {
        assert_eq!(joined.done(tag), (Operation::FetchAdd, Status::Done, tag));
    }
    assert_eq!(joined.pair.right.memory(region).expect("own").load(0), Ok(taken));
}

/// After a disconnect every operation has exactly one completion, and the peer learns it.
pub fn a_disconnect_flushes_all_and_tells_the_peer(pair: Pair) {
    let mut joined = Joined::new(pair);
    let buffers = joined.pair.left.register(64).expect("memory");
    let slice = Slice { region: buffers, offset: 0, bytes: 64 };
    joined.pair.left.post_receive(joined.left, 100, slice).expect("room");
    for tag in 0..4 {
        post(&mut joined, tag, send(&[1])); // there is no buffer for it
    }
    joined.pair.left.disconnect(joined.left).expect("connected");
    let end = joined.left;
    let over = move |what: &Completion| match *what {
        Completion::Broken { endpoint, status } if endpoint == end => Some(status),
        _ => None,
    };
    joined.wait(Side::Left, over);
    for tag in [0, 1, 2, 3, 100] {
        assert_eq!(joined.done(tag).1, Status::Flushed, "tag {tag}");
    }
    assert_eq!(joined.rest(Side::Left), [], "one completion each");
    let status = joined.wait(Side::Right, |what| match *what {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    });
    assert_eq!(status, Status::Disconnected);
}

/// An ended connection refuses work.
pub fn work_on_an_ended_connection_is_refused(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("samples", 8);
    joined.pair.left.disconnect(joined.left).expect("connected");
    let end = joined.left;
    let work = put(&[1], Target { remote, offset: 0 });
    assert_eq!(joined.pair.left.post(end, 1, work), Err(PostError::NotConnected));
    assert_eq!(joined.pair.left.disconnect(end), Err(PostError::NotConnected));
    assert!(joined.pair.left.import(end, name("samples"), KEY).is_err());
    joined.connect_again();
    assert_ne!(joined.left, end, "identifiers are not used again");
}

/// The death of a peer is noticed within the promised time, and work for it is flushed.
pub fn a_dead_peer_is_noticed_in_time(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("samples", 8);
    post(&mut joined, 1, send(&[1]));
    joined.pair.right = Box::new(Nobody::default());
    let began = (joined.pair.now)();
    let status = joined.wait(Side::Left, |what| match *what {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    });
    // A node that is dropped may still say goodbye; one that is killed cannot.
    assert!(status == Status::PeerGone || status == Status::Disconnected, "{status}");
    let limit = joined.pair.left.capabilities().death_noticed_within;
    let took = (joined.pair.now)().since(began);
    assert!(took.as_ns() <= limit.as_ns() * 2 + 100_000_000, "{took:?}, promised {limit:?}");
    let (operation, status, _) = joined.done(1);
    assert_eq!(operation, Operation::Send);
    assert!(status == Status::Flushed || status == Status::NoBuffer, "{status}");
    let work = put(&[1], Target { remote, offset: 0 });
    assert_eq!(joined.pair.left.post(joined.left, 2, work), Err(PostError::NotConnected));
}

/// Connecting to a node that has died fails, and does not hang.
pub fn connecting_to_a_dead_peer_fails_and_does_not_hang(pair: Pair) {
    let mut joined = Joined::new(pair);
    joined.pair.right = Box::new(Nobody::default());
    let peer = joined.pair.right_name.clone();
    let reliable = fluxline_core::fabric::Reliability::Reliable;
    match joined.pair.left.connect(&peer, reliable) {
        Err(_) => {}
        Ok(asked) => {
            joined.wait(Side::Left, |what| match *what {
                Completion::Broken { endpoint, .. } if endpoint == asked => Some(()),
                _ => None,
            });
        }
    }
}

/// Numbers of endpoints, regions and imports are never used again.
pub fn identifiers_are_never_used_again(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (mut ends, mut regions, mut remotes) = (vec![joined.left], Vec::new(), Vec::new());
    for _ in 0..3 {
        let (region, remote) = joined.shared("samples", 8);
        joined.pair.right.withdraw(region).expect("own");
        joined.pair.left.disconnect(joined.left).expect("connected");
        joined.connect_again();
        assert!(!ends.contains(&joined.left) && !regions.contains(&region));
        assert!(!remotes.contains(&remote));
        ends.push(joined.left);
        regions.push(region);
        remotes.push(remote);
    }
}

/// Stores through a window change the owner's memory, and obey rights and bounds.
pub fn a_window_is_the_region_itself(pair: Pair) {
    let mut joined = Joined::new(pair);
    if !joined.pair.left.capabilities().windows {
        return;
    }
    let (region, remote) = joined.shared_with("samples", 64, Rights::PUT);
    let window = joined.pair.left.window(remote).expect("imported").expect("promised");
    assert_eq!(window.bytes(), 64);
    window.write(8, &[9; 8]).expect("inside");
    window.store(16, 77).expect("inside");
    let memory = joined.pair.right.memory(region).expect("own");
    assert_eq!(memory.load(16), Ok(77));
    assert_eq!(joined.bytes(region, 8, 8), [9; 8]);
    assert_eq!(window.load(16), Err(AccessError::Rights));
    assert_eq!(window.fetch_add(16, 1), Err(AccessError::Rights));
    assert_eq!(window.store(12, 1), Err(AccessError::Unaligned { offset: 12 }));
    let beyond = AccessError::OutOfRegion { offset: 60, bytes: 5, region_bytes: 64 };
    assert_eq!(window.write(60, &[1; 5]), Err(beyond));
    assert_eq!(joined.pair.right.memory(region).expect("own").load(56), Ok(0));
}
