//! The laws about gathers, batches of posts, and counters.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::vec;
use alloc::vec::Vec;

use super::joined::{Joined, Pair, Side};
use fluxline_core::fabric::{
    BatchError, Completion, Level, Local, Operation, Post, PostError, RegionId, Slice, Status,
    Target, Work, WorkCounters,
};

/// Two own regions of left, each with bytes of its own.
struct Sources {
    first: RegionId,
    second: RegionId,
}

impl Sources {
    fn new(joined: &mut Joined) -> Sources {
        let mut region = |start: u8| {
            let region = joined.pair.left.register(1024).expect("memory");
            let bytes: Vec<u8> = (0..1024).map(|at| (at as u8).wrapping_mul(3) ^ start).collect();
            let memory = joined.pair.left.memory(region).expect("own");
            memory.write(0, &bytes).expect("inside");
            region
        };
        Sources { first: region(0x11), second: region(0x80) }
    }

    /// Pieces of all sizes: empty, single bytes, unaligned, overlapping, equal.
    fn pieces(&self) -> Vec<Slice> {
        let of = |region, offset, bytes| Slice { region, offset, bytes };
        vec![
            of(self.first, 0, 0),
            of(self.second, 1023, 1),
            of(self.first, 5, 300),
            of(self.first, 250, 100),
            of(self.first, 250, 100),
            of(self.second, 1024, 0),
            of(self.second, 8, 8),
            of(self.second, 3, 997),
        ]
    }
}

/// Returns the bytes of pieces, one after the other.
fn joined_bytes(joined: &Joined, pieces: &[Slice]) -> Vec<u8> {
    let mut all = Vec::new();
    for piece in pieces {
        let mut bytes = vec![0; piece.bytes as usize];
        let memory = joined.pair.left.memory(piece.region).expect("own");
        memory.read(piece.offset, &mut bytes).expect("inside");
        all.extend(bytes);
    }
    all
}

fn put<'a>(from: Local<'a>, to: Target) -> Work<'a> {
    Work::Put { from, to, notify: None, complete_at: Some(Level::Placed) }
}

/// A gather is placed as its pieces one after the other, and nothing beside them.
pub fn a_gather_is_its_pieces_one_after_the_other(pair: Pair) {
    let mut joined = Joined::new(pair);
    let sources = Sources::new(&mut joined);
    let (region, remote) = joined.shared("samples", 4096);
    let pieces = sources.pieces();
    let expected = joined_bytes(&joined, &pieces);
    let work = Work::Put {
        from: Local::Gather(&pieces),
        to: Target { remote, offset: 3 },
        notify: Some(9),
        complete_at: Some(Level::Placed),
    };
    joined.pair.left.post(joined.left, 1, work).expect("legal");
    assert_eq!(joined.done(1), (Operation::Put, Status::Done, 0));
    let notified = joined.wait(Side::Right, |what| match *what {
        Completion::Notified { offset, bytes, value, .. } => Some((offset, bytes, value)),
        _ => None,
    });
    assert_eq!(notified, (3, expected.len() as u64, 9));
    let mut whole = vec![0; 4096];
    whole[3..3 + expected.len()].copy_from_slice(&expected);
    assert!(joined.bytes(region, 0, 4096) == whole, "other bytes than the pieces have");
}

/// A message of pieces arrives as one; one without pieces is empty.
pub fn a_message_can_be_gathered(pair: Pair) {
    let mut joined = Joined::new(pair);
    let sources = Sources::new(&mut joined);
    let inbox = joined.pair.right.register(4096).expect("memory");
    let whole = sources.pieces();
    for (tag, pieces) in [(1, &whole[..]), (2, &[])] {
        let into = Slice { region: inbox, offset: 0, bytes: 4096 };
        joined.pair.right.post_receive(joined.right, tag, into).expect("room");
        let from = Local::Gather(pieces);
        let work = Work::Send { from, complete_at: Some(Level::Placed) };
        joined.pair.left.post(joined.left, tag, work).expect("legal");
        assert_eq!(joined.done(tag), (Operation::Send, Status::Done, 0));
        let received = joined.wait(Side::Right, |what| match *what {
            Completion::Done { tag: of, operation: Operation::Receive, status, value, .. } => {
                Some((of, status, value))
            }
            _ => None,
        });
        let expected = joined_bytes(&joined, pieces);
        assert_eq!(received, (tag, Status::Done, expected.len() as u64));
        assert!(joined.bytes(inbox, 0, expected.len()) == expected);
    }
}

/// A wrong piece at any place refuses the whole gather, and nothing is done.
pub fn a_wrong_piece_refuses_the_whole_gather(pair: Pair) {
    let mut joined = Joined::new(pair);
    let sources = Sources::new(&mut joined);
    let (region, remote) = joined.shared("samples", 4096);
    let of = |region, offset, bytes| Slice { region, offset, bytes };
    let wrong = [
        of(sources.first, 1000, 25),
        of(sources.second, 1025, 0),
        of(sources.first, u64::MAX, 2),
        of(sources.first, 0, u64::MAX),
        of(RegionId(u32::MAX), 0, 1),
    ];
    for (tag, bad) in (0..).zip(wrong) {
        for place in [0, 3, sources.pieces().len()] {
            let mut pieces = sources.pieces();
            pieces.insert(place, bad);
            let work = put(Local::Gather(&pieces), Target { remote, offset: 0 });
            let refused = joined.pair.left.post(joined.left, tag, work);
            let known = matches!(
                refused,
                Err(PostError::Local(_) | PostError::Remote(_) | PostError::TooLong { .. })
            );
            assert!(known, "{bad:?} at {place}: {refused:?}");
        }
    }
    joined.pair.left.post(joined.left, 99, Work::Flush).expect("room");
    assert_eq!(joined.done(99).1, Status::Done);
    assert_eq!(joined.rest(Side::Left), [], "refused work has no completion");
    assert!(joined.bytes(region, 0, 4096) == [0; 4096], "nothing is done");
}

/// A gather may have as many pieces as the link says, and not one more.
pub fn a_gather_has_as_many_pieces_as_the_link_says(pair: Pair) {
    let mut joined = Joined::new(pair);
    let sources = Sources::new(&mut joined);
    let (region, remote) = joined.shared("samples", 4096);
    let max = joined.pair.left.capabilities().pieces_max;
    assert!(max > 0, "every link gathers");
    let to = Target { remote, offset: 0 };
    let piece = |place: u32| Slice { region: sources.first, offset: place.into(), bytes: 2 };
    let mut pieces: Vec<Slice> = (0..max).map(piece).collect();
    joined.pair.left.post(joined.left, 1, put(Local::Gather(&pieces), to)).expect("legal");
    assert_eq!(joined.done(1).1, Status::Done);
    let expected = joined_bytes(&joined, &pieces);
    assert!(joined.bytes(region, 0, expected.len()) == expected);
    pieces.push(piece(0));
    let refused = joined.pair.left.post(joined.left, 2, put(Local::Gather(&pieces), to));
    assert_eq!(refused, Err(PostError::Pieces { pieces: pieces.len(), max }));
}

/// A batch does what its operations do one by one, in order.
pub fn a_batch_is_its_operations_in_order(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 64);
    let to = |offset| Target { remote, offset };
    let complete_at = Some(Level::Placed);
    let posts = [
        Post { tag: 1, work: put(Local::Bytes(&[1; 16]), to(0)) },
        Post { tag: 2, work: put(Local::Bytes(&[2; 8]), to(8)) },
        Post { tag: 3, work: Work::FetchAdd { at: to(8), add: 1 } },
        Post {
            tag: 4,
            work: Work::Put { from: Local::Bytes(&[9]), to: to(0), notify: Some(7), complete_at },
        },
        Post { tag: 5, work: Work::Flush },
    ];
    joined.pair.left.post_all(joined.left, &[]).expect("nothing to do");
    joined.pair.left.post_all(joined.left, &posts).expect("legal");
    let notified = joined.wait(Side::Right, |what| match *what {
        Completion::Notified { value, .. } => Some(value),
        _ => None,
    });
    assert_eq!(notified, 7);
    let old = u64::from_le_bytes([2; 8]);
    let expected = [Operation::Put, Operation::Put, Operation::FetchAdd, Operation::Put];
    for (tag, operation) in (1..).zip(expected.into_iter().chain([Operation::Flush])) {
        let value = if operation == Operation::FetchAdd { old } else { 0 };
        assert_eq!(joined.done(tag), (operation, Status::Done, value), "tag {tag}");
    }
    let mut bytes = [[1; 8], (old + 1).to_le_bytes()].concat();
    bytes[0] = 9;
    assert_eq!(joined.bytes(region, 0, 16), bytes);
}

/// The first operation that is refused ends a batch: the earlier ones are done, no later one is.
pub fn a_refused_operation_ends_its_batch(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 64);
    let to = |offset| Target { remote, offset };
    let beyond = Slice { region: RegionId(u32::MAX), offset: 0, bytes: 1 };
    let posts = [
        Post { tag: 1, work: put(Local::Bytes(&[1]), to(0)) },
        Post { tag: 2, work: put(Local::Bytes(&[2]), to(1)) },
        Post { tag: 3, work: put(Local::Region(beyond), to(2)) },
        Post { tag: 4, work: put(Local::Bytes(&[4]), to(3)) },
    ];
    let refused = joined.pair.left.post_all(joined.left, &posts);
    let known = matches!(refused, Err(BatchError { accepted: 2, error: PostError::Local(_) }));
    assert!(known, "{refused:?}");
    assert_eq!((joined.done(1).1, joined.done(2).1), (Status::Done, Status::Done));
    joined.pair.left.post(joined.left, 9, Work::Flush).expect("room");
    assert_eq!(joined.done(9).1, Status::Done);
    assert_eq!(joined.rest(Side::Left), [], "no completion of refused work");
    assert_eq!(joined.bytes(region, 0, 4), [1, 2, 0, 0]);
    joined.pair.left.disconnect(joined.left).expect("open");
    let refused = joined.pair.left.post_all(joined.left, &posts);
    assert_eq!(refused, Err(BatchError { accepted: 0, error: PostError::NotConnected }));
}

/// A batch that does not fit is accepted up to the full queue, and the rest later: nothing is lost.
pub fn a_batch_fills_the_queue_and_no_more(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("counter", 8);
    let at = Target { remote, offset: 0 };
    let count = u64::from(joined.pair.left.capabilities().queue_max) * 2 + 5;
    let posts: Vec<Post<'_>> =
        (0..count).map(|tag| Post { tag, work: Work::FetchAdd { at, add: 1 } }).collect();
    let (mut rest, mut stops) = (&posts[..], 0);
    while let Err(BatchError { accepted, error }) = joined.pair.left.post_all(joined.left, rest) {
        assert_eq!(error, PostError::Full);
        (rest, stops) = (&rest[accepted..], stops + 1);
        joined.turn();
    }
    assert!(stops > 0, "the queue takes more than its limit");
    for tag in 0..count {
        assert_eq!(joined.done(tag), (Operation::FetchAdd, Status::Done, tag));
    }
    assert_eq!(joined.pair.right.memory(region).expect("own").load(0), Ok(count));
}

/// The counters have each operation once, by kind and by outcome.
pub fn counters_count_each_operation_once(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (_, remote) = joined.shared("samples", 64);
    let own = joined.pair.left.register(64).expect("memory");
    let inbox = joined.pair.right.register(8).expect("memory");
    let into = Slice { region: inbox, offset: 0, bytes: 8 };
    joined.pair.right.post_receive(joined.right, 1, into).expect("room");
    let before = [joined.pair.left.counters().clone(), joined.pair.right.counters().clone()];
    let (at, complete_at) = (Target { remote, offset: 0 }, Some(Level::Placed));
    let into = Slice { region: own, offset: 0, bytes: 30 };
    let notified = Work::Put { from: Local::Bytes(&[1; 20]), to: at, notify: Some(1), complete_at };
    let works = [
        notified,
        Work::Put { from: Local::Region(into), to: at, notify: None, complete_at: None },
        Work::Get { from: at, into },
        Work::FetchAdd { at, add: 1 },
        Work::Send { from: Local::Bytes(&[1; 4]), complete_at },
        Work::Flush,
    ];
    for (tag, work) in (0..).zip(works) {
        joined.pair.left.post(joined.left, tag, work).expect("legal");
    }
    let nowhere = Slice { region: RegionId(u32::MAX), offset: 0, bytes: 1 };
    let refused = joined.pair.left.post(joined.left, 7, put(Local::Region(nowhere), at));
    assert!(refused.is_err());
    for tag in [0, 2, 3, 4, 5] {
        assert_eq!(joined.done(tag).1, Status::Done);
    }
    joined.wait(Side::Right, |what| match what {
        Completion::Done { operation: Operation::Receive, .. } => Some(()),
        _ => None,
    });
    let expected = WorkCounters {
        puts: 2,
        gets: 1,
        atomics: 1,
        messages: 1,
        barriers: 1,
        bytes_posted: 20 + 30 + 30 + 4,
        posts_refused: 1,
        done: 5,
        ..WorkCounters::default()
    };
    assert_eq!(since(joined.pair.left.counters(), &before[0]), expected);
    let expected =
        WorkCounters { notifications: 1, messages_received: 1, ..WorkCounters::default() };
    assert_eq!(since(joined.pair.right.counters(), &before[1]), expected);
}

/// Returns what was counted since `before`.
fn since(now: &WorkCounters, before: &WorkCounters) -> WorkCounters {
    let mut difference = WorkCounters::default();
    for ((row, value), (_, old)) in now.rows().zip(before.rows()) {
        assert!(difference.set(row.name, value - old), "a row of its own");
    }
    difference
}
