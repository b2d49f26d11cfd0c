//! The laws of push rings ([`fluxline_core::fabric::push`]), one function each, for each
//! path of the records. A law panics when the ring breaks it.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{KEY, Pair, name};
use super::nobody::Nobody;
use fluxline_core::fabric::push::{
    NextError, PushOpenError, PushRefused, Receiver, RingAddress, RingPath, RingPlan, Sender, Waits,
};
use fluxline_core::fabric::{
    Completion, ConnectError, Grant, Key, Local, Reliability, Rights, Status, Target, Work,
};
use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};

/// A ring that makes no progress for this long counts as hung.
const PATIENCE: Span = Span::from_ms(10_000);

/// The pair, unless its link has no ring of its own, so that both paths are one.
fn pair_for(mut pair: Pair, path: RingPath) -> Option<Pair> {
    let is_twice = path == RingPath::Puts && pair.right.rings().is_none();
    (!is_twice).then_some(pair)
}

fn plan(slots: u32, slot_bytes: u32, path: RingPath) -> RingPlan {
    RingPlan { path, ..RingPlan::new(name("samples"), KEY, slots, slot_bytes) }
}

fn receiver(pair: &mut Pair, plan: &RingPlan) -> Receiver {
    Receiver::open(&mut *pair.right, plan).expect("a possible ring")
}

fn sender(pair: &mut Pair, key: Key) -> Sender {
    let to = RingAddress { peer: pair.right_name.clone(), name: name("samples"), key };
    let now = (pair.now)();
    Sender::open(&mut *pair.left, to, now).expect("a possible peer")
}

/// A ring with both ends, and the time when it began to wait for something.
struct Ring {
    pair: Pair,
    sender: Sender,
    receiver: Receiver,
}

impl Ring {
    fn new(mut pair: Pair, plan: &RingPlan) -> Ring {
        let receiver = receiver(&mut pair, plan);
        let sender = sender(&mut pair, KEY);
        let mut ring = Ring { pair, sender, receiver };
        ring.until(|ring| ring.sender.is_open());
        assert_eq!(ring.sender.is_native(), ring.receiver.is_native());
        let is_own = plan.path == RingPath::Best && ring.pair.right.rings().is_some();
        assert_eq!(ring.receiver.is_native(), is_own);
        ring
    }

    /// Polls both ends until nothing happens; the program hears of connections alone.
    fn turn(&mut self) -> Moment {
        let now = (self.pair.now)();
        if let Some(what) = self.sender.poll(&mut *self.pair.left, now) {
            panic!("the sender's program got {what:?}");
        }
        while let Some(what) = self.receiver.poll(&mut *self.pair.right, now) {
            let is_known = matches!(what, Completion::Connected { .. } | Completion::Broken { .. });
            assert!(is_known, "the receiver's program got {what:?}");
        }
        now
    }

    fn until(&mut self, is_done: impl Fn(&Ring) -> bool) {
        let began = (self.pair.now)();
        while !is_done(self) {
            let now = self.turn();
            let (waits, ended) = (self.sender.waits_for(), self.sender.ended());
            assert!(now.since(began) < PATIENCE, "waits for {waits:?}, ended by {ended:?}");
        }
    }

    fn push(&mut self, at: Moment, bytes: &[u8]) -> Result<(), PushRefused> {
        self.sender.push_stamped(&mut *self.pair.left, at, bytes)
    }

    fn publish(&mut self) {
        self.sender.publish(&mut *self.pair.left).expect("the receiver is there");
    }

    /// The next record, if there is one now.
    fn next(&mut self) -> Result<Option<(Moment, Vec<u8>)>, NextError> {
        let found = self.receiver.next_stamped(&mut *self.pair.right)?;
        Ok(found.map(|(at, record)| (at, record.to_vec())))
    }

    /// The next record, which must come.
    fn next_of_all(&mut self) -> (Moment, Vec<u8>) {
        let began = (self.pair.now)();
        loop {
            if let Some(found) = self.next().expect("the sender is there") {
                return found;
            }
            let now = self.turn();
            assert!(now.since(began) < PATIENCE, "no record came");
        }
    }

    fn finish(&mut self) {
        let began = (self.pair.now)();
        while !self.sender.finish(&mut *self.pair.left).expect("the receiver is there") {
            let now = self.turn();
            assert!(now.since(began) < PATIENCE, "the sender does not end");
        }
    }

    /// Reads until the sender is gone; returns the number of records.
    fn drain(&mut self) -> u64 {
        let (began, mut count) = ((self.pair.now)(), 0);
        loop {
            match self.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => {
                    let now = self.turn();
                    assert!(now.since(began) < PATIENCE, "the sender's end is not seen");
                }
                Err(NextError::Gone) => return count,
                Err(broken) => panic!("{broken}"),
            }
        }
    }
}

fn record(number: u64, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at) as u8).collect()
}

/// Records of any size come once, in order and with their stamps, whatever the pauses of both ends.
pub fn records_come_once_in_order_with_their_stamps(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(16, 200, path));
    let longest = ring.sender.record_bytes_max() as u64 - 8;
    let seed = (ring.pair.now)().as_ns() | 1;
    let mut draw = Draw::new(seed);
    let (mut pushed, mut read) = (Vec::new(), 0_usize);
    let mut sum = 0;
    while read < 1200 {
        for _ in 0..draw.below(20) {
            if pushed.len() == 1200 {
                break;
            }
            let number = pushed.len() as u64;
            let most = if draw.below(20) == 0 { longest } else { 60 };
            let bytes = draw.below(most + 1);
            match ring.push(Moment::from_ns(number + 7), &record(number, bytes)) {
                Ok(()) => pushed.push(bytes),
                Err(refused) => assert_eq!(refused, PushRefused::Full, "seed {seed}"),
            }
            sum = pushed.iter().map(|bytes| bytes + 8).sum();
        }
        if draw.below(3) == 0 || pushed.len() == 1200 {
            ring.publish();
        }
        for _ in 0..draw.below(4) {
            ring.turn();
        }
        for _ in 0..draw.below(30) {
            let Some((at, bytes)) = ring.next().expect("sound") else { break };
            let number = read as u64;
            assert_eq!(at, Moment::from_ns(number + 7), "seed {seed}");
            assert_eq!(bytes, record(number, pushed[read]), "seed {seed}, record {number}");
            read += 1;
        }
    }
    assert!(ring.next().expect("sound").is_none(), "seed {seed}: more than was pushed");
    let (one, other) = (ring.sender.counters(), ring.receiver.counters());
    assert_eq!((one.records, one.bytes), (1200, sum), "seed {seed}");
    assert_eq!((other.records, other.bytes), (1200, sum), "seed {seed}");
}

/// A full ring refuses, says since when, and takes records again once there is room.
pub fn a_full_ring_stalls_and_says_since_when(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(8, 100, path));
    assert_eq!(ring.sender.stalled_since(), None);
    let before = (ring.pair.now)();
    let (mut pushed, began) = (0_u64, before);
    // A link's full queue may refuse before the ring does: what counts is that it stays so.
    let mut refusals = 0;
    while refusals < 200 {
        match ring.push(Moment::default(), &record(pushed, 100)) {
            Ok(()) => (pushed, refusals) = (pushed + 1, 0),
            Err(refused) => {
                assert_eq!(refused, PushRefused::Full);
                refusals += 1;
            }
        }
        let now = ring.turn();
        assert!(now.since(began) < PATIENCE, "the ring takes {pushed} records and more");
    }
    assert!(pushed >= 8, "{pushed} records in a ring for 8");
    let since = ring.sender.stalled_since().expect("it is full");
    assert!(since >= before && since <= ring.turn(), "{since:?}");
    for number in 0..pushed {
        assert_eq!(ring.next_of_all().1, record(number, 100));
    }
    let began = (ring.pair.now)();
    while ring.push(Moment::default(), b"room").is_err() {
        assert!(ring.turn().since(began) < PATIENCE, "the ring stays full");
    }
    assert_eq!(ring.sender.stalled_since(), None);
    assert!(ring.sender.counters().full >= 200);
    ring.publish();
    assert_eq!(ring.next_of_all().1, b"room");
}

/// All that a sender pushed before it finished is read, then it is gone; the next one goes on.
pub fn a_finished_sender_is_gone_and_the_next_goes_on(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    for round in 0..4 {
        for number in 0..10 + round {
            ring.push(Moment::default(), &record(number, 64)).expect("room");
        }
        ring.finish();
        assert!(ring.push(Moment::default(), b"late").is_err());
        assert_eq!(ring.drain(), 10 + round);
        assert!(matches!(ring.next(), Err(NextError::Gone)), "until another comes");
        ring.sender = sender(&mut ring.pair, KEY);
        ring.until(|ring| ring.sender.is_open());
        assert!(matches!(ring.next(), Ok(None)), "another has come");
    }
    assert_eq!(ring.receiver.counters().died, 0);
}

/// A sender that comes back begins where the last one ended, and so does one after its receiver
/// came back with the count of the records that it had taken. Each record comes once.
pub fn a_sender_that_comes_back_goes_on_behind_the_records_taken(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut draw = Draw::new(11);
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    let mut taken = 0;
    for round in 0..6 {
        let from = ring.sender.resumes_from().expect("the receiver counts");
        assert_eq!(from, taken, "round {round}");
        let count = draw.below(40);
        for number in from..from + count {
            while ring.push(Moment::from_ns(number), b"record") == Err(PushRefused::Full) {
                assert_eq!(ring.next_of_all().0, Moment::from_ns(taken));
                taken += 1;
            }
        }
        if round % 2 == 0 {
            ring.finish();
            taken += ring.drain();
            assert_eq!(taken, from + count, "round {round}");
        } else {
            // The receiver closes before it has read all; its program kept its count.
            ring.publish();
            while taken < from + count / 2 {
                assert_eq!(ring.next_of_all().0, Moment::from_ns(taken));
                taken += 1;
            }
            assert_eq!(ring.receiver.taken(), taken);
            let again = RingPlan { taken, ..plan(32, 64, path) };
            let Ring { mut pair, sender: old, receiver: closed } = ring;
            closed.close(&mut *pair.right);
            let limit = pair.left.capabilities().death_noticed_within;
            assert_ends(&mut pair, old, limit);
            let (receiver, sender) = (receiver(&mut pair, &again), sender(&mut pair, KEY));
            ring = Ring { pair, sender, receiver };
        }
        if round % 2 == 0 {
            ring.sender = sender(&mut ring.pair, KEY);
        }
        ring.until(|ring| ring.sender.is_open());
    }
}

/// A sender learns of the records that its receiver has taken, once a quarter of the ring is read.
pub fn delivered_counts_the_records_that_the_program_has_taken(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    for number in 0..200_u64 {
        assert!(ring.sender.counters().delivered <= number, "more than were read");
        ring.push(Moment::from_ns(number), &record(number, 64)).expect("room");
        ring.publish();
        assert_eq!(ring.next_of_all().0, Moment::from_ns(number));
    }
    // It may lag by a quarter of the ring and by the records of one copy.
    ring.until(|ring| ring.sender.counters().delivered >= 200 - 32);
    assert_eq!(ring.receiver.counters().delivered, 200);
}

/// A second sender is not let in while the first one is there, and is when that has finished.
pub fn a_second_sender_waits_for_its_turn(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    let mut second = sender(&mut ring.pair, KEY);
    for number in 0..200 {
        both(&mut ring, &mut second);
        let refused = second.push(&mut *ring.pair.left, b"intruder");
        assert!(matches!(refused, Err(PushRefused::NotOpen(_))), "{refused:?}");
        ring.push(Moment::default(), &record(number, 20)).expect("room");
        ring.publish();
        let found = loop {
            match ring.next().expect("sound") {
                Some((_, bytes)) => break bytes,
                None => both(&mut ring, &mut second),
            }
        };
        assert_eq!(found, record(number, 20));
    }
    let began = (ring.pair.now)();
    while second.waits_for() != Some(Waits::Turn) {
        both(&mut ring, &mut second);
        assert!((ring.pair.now)().since(began) < PATIENCE, "{:?}", second.waits_for());
    }
    while !ring.sender.finish(&mut *ring.pair.left).expect("there") {
        let _ = ring.next(); // frees the ring for the second
        both(&mut ring, &mut second);
    }
    let began = (ring.pair.now)();
    while !second.is_open() {
        both(&mut ring, &mut second);
        let _ = ring.next();
        assert!((ring.pair.now)().since(began) < PATIENCE, "{:?}", second.waits_for());
    }
}

/// Polls both nodes for two senders of one node: each is offered what the other does not take.
fn both(ring: &mut Ring, second: &mut Sender) {
    let now = (ring.pair.now)();
    let Ring { pair, sender, receiver } = ring;
    while let Some(what) = pair.left.poll(now) {
        let left = sender.handle(what).and_then(|what| second.handle(what));
        assert_eq!(left, None, "a ring's own completion");
    }
    sender.progress(&mut *pair.left, now);
    second.progress(&mut *pair.left, now);
    while receiver.poll(&mut *pair.right, now).is_some() {}
}

/// A sender that comes before the ring waits for it, and says what for.
pub fn a_late_receiver_is_found(pair: Pair, path: RingPath) {
    let Some(mut pair) = pair_for(pair, path) else { return };
    let mut early = sender(&mut pair, KEY);
    let began = (pair.now)();
    while early.waits_for() != Some(Waits::Ring) {
        let now = (pair.now)();
        while early.poll(&mut *pair.left, now).is_some() {}
        while pair.right.poll(now).is_some() {}
        assert!(now.since(began) < PATIENCE, "{:?}", early.waits_for());
    }
    let refused = early.push(&mut *pair.left, b"early").expect_err("there is no ring");
    assert_eq!(refused, PushRefused::NotOpen(Waits::Ring));
    let receiver = receiver(&mut pair, &plan(8, 64, path));
    let mut ring = Ring { pair, sender: early, receiver };
    ring.until(|ring| ring.sender.is_open());
    ring.push(Moment::from_ns(1), b"late").expect("room");
    ring.publish();
    assert_eq!(ring.next_of_all().1, b"late");
}

/// A sender with a wrong key, or of a region that is not a ring, is refused for good.
pub fn a_wrong_key_and_a_wrong_region_end_the_sender(pair: Pair, path: RingPath) {
    let Some(mut pair) = pair_for(pair, path) else { return };
    let receiver = receiver(&mut pair, &plan(8, 64, path));
    let region = pair.right.register(1000).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    pair.right.export(region, name("no-ring"), grant).expect("free");
    let sender = sender(&mut pair, Key(KEY.0 ^ 1));
    let mut ring = Ring { pair, sender, receiver };
    ring.until(|ring| ring.sender.ended().is_some());
    let refused = ring.push(Moment::default(), b"x");
    assert_eq!(refused, Err(PushRefused::NotAdmitted(Status::WrongKey)));
    while ring.sender.finish(&mut *ring.pair.left) == Ok(false) {
        ring.turn();
    }
    let to = RingAddress { peer: ring.pair.right_name.clone(), name: name("no-ring"), key: KEY };
    let now = ring.turn();
    ring.sender = Sender::open(&mut *ring.pair.left, to, now).expect("a possible peer");
    ring.until(|ring| ring.sender.ended().is_some());
    assert_eq!(ring.push(Moment::default(), b"x"), Err(PushRefused::NoRing));
    assert!(matches!(ring.next(), Ok(None)));
}

/// Impossible plans, names and records are refused, and change nothing.
pub fn impossible_plans_and_records_are_refused(pair: Pair, path: RingPath) {
    let Some(mut pair) = pair_for(pair, path) else { return };
    for (slots, slot_bytes) in [(0, 64), (8, 0), (u32::MAX, u32::MAX)] {
        let refused = Receiver::open(&mut *pair.right, &plan(slots, slot_bytes, path)).err();
        assert_eq!(refused, Some(PushOpenError::Plan { slots, slot_bytes }));
    }
    let mut ring = Ring::new(pair, &plan(8, 64, path));
    let twice = Receiver::open(&mut *ring.pair.right, &plan(8, 64, path)).err();
    assert!(matches!(twice, Some(PushOpenError::Export(_))), "{twice:?}");
    let to = RingAddress { peer: "no node?".into(), name: name("samples"), key: KEY };
    let nobody = Sender::open(&mut *ring.pair.left, to, Moment::default()).err();
    let is_refused = matches!(nobody, Some(PushOpenError::Connect(ConnectError::Name { .. })));
    assert!(is_refused, "{nobody:?}");
    let max = ring.sender.record_bytes_max();
    assert!(max >= 64 + 8, "{max}");
    let long = ring.push(Moment::default(), &vec![0; max]);
    assert_eq!(long, Err(PushRefused::TooLong { bytes: max + 8, max }));
    ring.push(Moment::default(), &vec![5; max - 8]).expect("as long as may be");
    ring.publish();
    assert_eq!(ring.next_of_all().1, vec![5; max - 8]);
}

/// The records that a dead sender had published are read; then it is gone, in time.
pub fn a_dead_sender_is_gone_in_time(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    for number in 0..5 {
        ring.push(Moment::default(), &record(number, 30)).expect("room");
    }
    ring.publish();
    assert_eq!(ring.next_of_all().1, record(0, 30));
    let limit = ring.pair.left.capabilities().death_noticed_within;
    let Ring { mut pair, sender, mut receiver } = ring;
    drop(sender); // as the memory of its process
    pair.left = Box::new(Nobody::default());
    let (began, mut read) = ((pair.now)(), 1);
    loop {
        let now = (pair.now)();
        while receiver.poll(&mut *pair.right, now).is_some() {}
        match receiver.next_stamped(&mut *pair.right) {
            Ok(Some((_, found))) => {
                assert_eq!(found.to_vec(), record(read, 30));
                read += 1;
            }
            Ok(None) => assert_in_time(now.since(began), limit),
            Err(NextError::Gone) => break,
            Err(broken) => panic!("{broken}"),
        }
    }
    assert_eq!(read, 5, "all that it had published and the link had placed");
}

/// A receiver that dies, or closes, ends its sender for good, in time.
pub fn a_dead_receiver_is_gone_in_time(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let ring = Ring::new(pair, &plan(32, 64, path));
    let limit = ring.pair.right.capabilities().death_noticed_within;
    let Ring { mut pair, sender, receiver } = ring;
    drop(receiver); // as the memory of its process
    pair.right = Box::new(Nobody::default());
    assert_ends(&mut pair, sender, limit);
}

/// A receiver that closes ends its sender for good; its program may make another ring.
pub fn a_closed_receiver_ends_its_sender(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let Ring { mut pair, sender, receiver } = Ring::new(pair, &plan(32, 64, path));
    receiver.close(&mut *pair.right);
    let limit = pair.left.capabilities().death_noticed_within;
    assert_ends(&mut pair, sender, limit);
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    ring.push(Moment::from_ns(3), b"again").expect("room");
    ring.publish();
    assert_eq!(ring.next_of_all(), (Moment::from_ns(3), b"again".to_vec()));
}

/// Pushes until the sender has ended, as one whose receiver has gone.
fn assert_ends(pair: &mut Pair, mut sender: Sender, limit: Span) {
    let began = (pair.now)();
    while sender.ended().is_none() {
        let now = (pair.now)();
        while sender.poll(&mut *pair.left, now).is_some() {}
        while pair.right.poll(now).is_some() {}
        let _ = sender.push_stamped(&mut *pair.left, now, b"to nobody");
        let _ = sender.publish(&mut *pair.left);
        assert_in_time(now.since(began), limit);
    }
    let refused = sender.push(&mut *pair.left, b"x");
    assert_eq!(refused, Err(PushRefused::ConsumerGone));
    let began = (pair.now)();
    let finished = loop {
        match sender.finish(&mut *pair.left) {
            Ok(false) => {
                let now = (pair.now)();
                assert_in_time(now.since(began), limit);
                while sender.poll(&mut *pair.left, now).is_some() {}
                while pair.right.poll(now).is_some() {}
            }
            finished => break finished,
        }
    };
    assert_eq!(finished, Err(PushRefused::ConsumerGone));
}

fn assert_in_time(took: Span, limit: Span) {
    assert!(took.as_ns() <= limit.as_ns() * 2 + 100_000_000, "{took:?}, promised {limit:?}");
}

/// The program's own work beside a ring completes with its own tag, and the ring's does not show.
pub fn the_programs_completions_pass_by(pair: Pair, path: RingPath) {
    let Some(pair) = pair_for(pair, path) else { return };
    let mut ring = Ring::new(pair, &plan(32, 64, path));
    let region = ring.pair.right.register(64).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    ring.pair.right.export(region, name("own"), grant).expect("free");
    let peer = ring.pair.right_name.clone();
    let own = ring.pair.left.connect(&peer, Reliability::Reliable).expect("reachable");
    wait_for(&mut ring, |what| match what {
        Completion::Connected { endpoint, .. } => *endpoint == own,
        _ => false,
    });
    let remote = ring.pair.left.import(own, name("own"), KEY).expect("connected");
    wait_for(&mut ring, |what| match what {
        Completion::Imported { remote: of, status, .. } => *of == remote && status.is_done(),
        _ => false,
    });
    for number in 0..50_u64 {
        ring.push(Moment::default(), &record(number, 40)).expect("room");
        ring.publish();
        let (from, to) = (Local::Bytes(b"beside"), Target { remote, offset: 0 });
        let complete_at = Some(fluxline_core::fabric::Level::Placed);
        let put = Work::Put { from, to, notify: None, complete_at };
        ring.pair.left.post(own, number, put).expect("room");
        wait_for(&mut ring, |what| match what {
            Completion::Done { tag, status, .. } => *tag == number && status.is_done(),
            _ => false,
        });
        assert_eq!(ring.next_of_all().1, record(number, 40));
    }
}

/// Polls until the sender's program gets this completion, and nothing else before.
fn wait_for(ring: &mut Ring, wanted: impl Fn(&Completion) -> bool) {
    let began = (ring.pair.now)();
    loop {
        let now = (ring.pair.now)();
        let Ring { pair, sender, receiver } = ring;
        let found = sender.poll(&mut *pair.left, now);
        while receiver.poll(&mut *pair.right, now).is_some() {}
        if let Some(what) = found {
            assert!(wanted(&what), "{what:?}");
            return;
        }
        assert!(now.since(began) < PATIENCE, "nothing came");
    }
}
