//! Laws of waiting work: flushes, fences, and the ends of connections.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use super::joined::{Joined, Pair, Side, name};
use fluxline_core::fabric::{
    Completion, ConnectError, EndpointId, Grant, Key, Level, Local, Operation, PostError,
    Reliability, RemoteId, Rights, Slice, Status, Target, Work,
};

/// Turns in which a link without delays does all that it can.
const TURNS: usize = 20;

fn message(bytes: &[u8]) -> Work<'_> {
    Work::Send { from: Local::Bytes(bytes), complete_at: Some(Level::Placed) }
}

fn silent_put(bytes: &[u8], remote: RemoteId) -> Work<'_> {
    let to = Target { remote, offset: 0 };
    Work::Put { from: Local::Bytes(bytes), to, notify: None, complete_at: None }
}

fn post(joined: &mut Joined, tag: u64, work: Work<'_>) {
    joined.pair.left.post(joined.left, tag, work).expect("legal work is taken");
}

fn give_buffer(joined: &mut Joined, tag: u64) {
    let region = joined.pair.right.register(64).expect("memory");
    let slice = Slice { region, offset: 0, bytes: 64 };
    joined.pair.right.post_receive(joined.right, tag, slice).expect("room");
}

fn turns(joined: &mut Joined) {
    for _ in 0..TURNS {
        joined.turn();
    }
}

fn tags(completions: &[Completion]) -> alloc::vec::Vec<u64> {
    let tag = |what: &Completion| match *what {
        Completion::Done { tag, .. } => Some(tag),
        _ => None,
    };
    completions.iter().filter_map(tag).collect()
}

/// All work without a completion is done by the poster's polling alone.
pub fn silent_work_is_done_by_polling(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 8);
    for value in 1..=10 {
        post(&mut joined, 0, silent_put(&[value; 8], remote));
    }
    let mut left = 0;
    while joined.bytes(region, 0, 8) != [10; 8] {
        joined.turn();
        left += 1;
        assert!(left < 100_000, "silent puts are never placed");
    }
}

/// A flush waits until earlier messages are in their buffers.
pub fn a_flush_waits_for_messages(pair: Pair) {
    let mut joined = Joined::new(pair);
    post(&mut joined, 1, message(&[7]));
    post(&mut joined, 2, Work::Flush);
    joined.turn();
    assert_eq!(tags(&joined.rest(Side::Left)), [], "neither before there is a buffer");
    give_buffer(&mut joined, 3);
    assert_eq!(joined.done(2), (Operation::Flush, Status::Done, 0));
    let completions = joined.rest(Side::Left);
    assert_eq!(
        tags(&completions),
        [1],
        "the message completes before the flush after it: {completions:?}"
    );
}

/// Work after a fence is not placed while a message before it waits for its buffer.
pub fn a_fence_holds_work_back_behind_messages(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 8);
    post(&mut joined, 1, message(&[7]));
    post(&mut joined, 2, Work::Fence);
    assert_eq!(joined.done(2), (Operation::Fence, Status::Done, 0));
    let mut waits = joined.pair.left.post(joined.left, 3, silent_put(&[1; 8], remote));
    assert!(matches!(waits, Ok(()) | Err(PostError::Full)), "{waits:?}");
    joined.turn();
    assert_eq!(joined.bytes(region, 0, 8), [0; 8], "placed before the message");
    give_buffer(&mut joined, 4);
    assert_eq!(joined.done(1), (Operation::Send, Status::Done, 0));
    while waits == Err(PostError::Full) {
        joined.turn();
        waits = joined.pair.left.post(joined.left, 3, silent_put(&[1; 8], remote));
    }
    post(&mut joined, 5, Work::Flush);
    assert_eq!(joined.done(5), (Operation::Flush, Status::Done, 0));
    assert_eq!(joined.bytes(region, 0, 8), [1; 8]);
}

/// `Broken` is the last completion of a connection.
pub fn broken_is_told_after_all_that_was_flushed(pair: Pair) {
    let mut joined = Joined::new(pair);
    for tag in 0..3 {
        post(&mut joined, tag, message(&[1]));
    }
    post(&mut joined, 3, Work::Flush);
    joined.pair.right.disconnect(joined.right).expect("connected");
    let mut completions = alloc::vec::Vec::new();
    while !completions.iter().any(|what| matches!(what, Completion::Broken { .. })) {
        joined.turn();
        completions.extend(joined.rest(Side::Left));
    }
    turns(&mut joined);
    completions.extend(joined.rest(Side::Left));
    assert_eq!(tags(&completions), [0, 1, 2, 3], "each once, in order: {completions:?}");
    let status = Status::Disconnected;
    assert_eq!(completions.last(), Some(&Completion::Broken { endpoint: joined.left, status }));
}

/// A buffer in a withdrawn region takes no message, and both sides learn it.
pub fn a_message_into_a_withdrawn_buffer_is_told_to_both(pair: Pair) {
    let mut joined = Joined::new(pair);
    let region = joined.pair.right.register(64).expect("memory");
    let slice = Slice { region, offset: 0, bytes: 64 };
    joined.pair.right.post_receive(joined.right, 9, slice).expect("room");
    joined.pair.right.withdraw(region).expect("own");
    post(&mut joined, 1, message(&[7]));
    assert_eq!(joined.done(1), (Operation::Send, Status::NoBuffer, 0));
    let status = joined.wait(Side::Right, |what| match *what {
        Completion::Done { tag: 9, status, .. } => Some(status),
        _ => None,
    });
    assert_eq!(status, Status::Withdrawn);
}

/// Either side of a connection posts; neither waits for the other.
pub fn both_sides_post_at_once(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("of-right", 8);
    let own = joined.pair.left.register(8).expect("memory");
    let grant = Grant { rights: Rights::ALL, key: Key(5) };
    joined.pair.left.export(own, name("of-left"), grant).expect("free");
    let asked = joined.pair.right.import(joined.right, name("of-left"), Key(5)).expect("connected");
    let status = joined.wait(Side::Right, |what| match *what {
        Completion::Imported { remote, status, .. } if remote == asked => Some(status),
        _ => None,
    });
    assert_eq!(status, Status::Done);
    for round in 0..50 {
        let there = Work::FetchAdd { at: Target { remote, offset: 0 }, add: 1 };
        let here = Work::FetchAdd { at: Target { remote: asked, offset: 0 }, add: 2 };
        post(&mut joined, round, there);
        joined.pair.right.post(joined.right, round, here).expect("legal work is taken");
        assert_eq!(joined.done(round), (Operation::FetchAdd, Status::Done, round));
        let before = joined.wait(Side::Right, |what| match *what {
            Completion::Done { tag, value, .. } if tag == round => Some(value),
            _ => None,
        });
        assert_eq!(before, round * 2);
    }
    assert_eq!(joined.pair.right.memory(region).expect("own").load(0), Ok(50));
    assert_eq!(joined.pair.left.memory(own).expect("own").load(0), Ok(100));
}

/// An unreliable connection gives each completion once, invents nothing and repeats nothing.
pub fn an_unreliable_connection_invents_and_repeats_nothing(pair: Pair) {
    let mut joined = Joined::new(pair);
    let peer = joined.pair.right_name.clone();
    let asked = match joined.pair.left.connect(&peer, Reliability::Unreliable) {
        Err(ConnectError::Reliability { .. }) => return,
        asked => asked.expect("reachable"),
    };
    let connected = |what: &Completion| match *what {
        Completion::Connected { endpoint, reliability, .. } => Some((endpoint, reliability)),
        _ => None,
    };
    assert_eq!(joined.wait(Side::Left, connected), (asked, Reliability::Unreliable));
    (joined.left, joined.right) = (asked, joined.wait(Side::Right, connected).0);
    let (region, remote) = joined.shared("samples", 4000);
    for value in 0..100_u32 {
        let (bytes, to) = ([value as u8 + 1; 40], Target { remote, offset: u64::from(value) * 40 });
        let from = Local::Bytes(&bytes);
        let complete_at = Some(Level::Copied);
        let work = Work::Put { from, to, notify: Some(value), complete_at };
        while joined.pair.left.post(joined.left, u64::from(value), work) == Err(PostError::Full) {
            joined.turn();
        }
    }
    for tag in 0..100 {
        let (operation, status, _) = joined.done(tag);
        assert!(operation == Operation::Put && [Status::Done, Status::Transport].contains(&status));
    }
    turns(&mut joined);
    let mut seen = [false; 100];
    for what in joined.rest(Side::Right) {
        let Completion::Notified { offset, bytes, value, .. } = what else {
            panic!("nothing else happened: {what:?}");
        };
        assert_eq!((offset, bytes), (u64::from(value) * 40, 40));
        assert!(!core::mem::replace(&mut seen[value as usize], true), "{value} completed twice");
        assert_eq!(joined.bytes(region, offset, 40), [value as u8 + 1; 40]);
    }
    assert_eq!(joined.rest(Side::Left), [], "one completion each");
    joined.pair.left.disconnect(joined.left).expect("connected");
    let end: EndpointId = joined.right;
    joined.wait(Side::Right, |what| match *what {
        Completion::Broken { endpoint, .. } if endpoint == end => Some(()),
        _ => None,
    });
}
