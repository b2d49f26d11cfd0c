//! The laws of fan-outs: one sender and several receivers on any link.
//!
//! One thread polls all nodes in turn; the first one sends.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{KEY, name};
use super::team::Nodes;
use fluxline_core::fabric::push::{
    BranchId, FanOut, Follower, Lag, NextError, PushRefused, Receiver, RingAddress, RingPath,
    RingPlan, Rings,
};
use fluxline_core::fabric::{Fabric, Key, Status};
use fluxline_core::random::Draw;
use fluxline_core::{Moment, Span};

/// A fan-out that makes no progress for this long counts as hung.
const PATIENCE: Span = Span::from_ms(20_000);
/// The longest record \[byte\].
const BYTES_MAX: u64 = 200;

/// A receiver's program: its ring, once it is open, and what it got.
struct Reader {
    fabric: Box<dyn Fabric>,
    ring: Option<Receiver>,
    follower: Follower,
    numbers: Vec<u64>,
    is_gone: bool,
}

impl Reader {
    fn open(&mut self, slots: u32, path: RingPath) {
        let plan = RingPlan { path, ..RingPlan::new(name("fan"), KEY, slots, 256) };
        self.ring = Some(Receiver::open(&mut *self.fabric, &plan).expect("a possible ring"));
    }

    fn poll(&mut self, now: Moment) {
        match &mut self.ring {
            Some(ring) => while ring.poll(&mut *self.fabric, now).is_some() {},
            None => while self.fabric.poll(now).is_some() {},
        }
    }

    /// Reads up to `most` records, and compares each with what was pushed.
    fn read(&mut self, most: u64) {
        let Some(ring) = &mut self.ring else { return };
        for _ in 0..most {
            match ring.next(&mut *self.fabric) {
                Ok(Some(record)) => {
                    let (number, record) = self.follower.take(record).expect("numbered");
                    assert_eq!(record.to_vec(), bytes_of(number), "record {number}");
                    self.numbers.push(number);
                }
                Ok(None) => return,
                Err(NextError::Gone) => {
                    self.is_gone = true;
                    return;
                }
                Err(broken) => panic!("{broken}"),
            }
        }
    }
}

fn bytes_of(number: u64) -> Vec<u8> {
    let mut draw = Draw::new(number);
    (0..draw.below(BYTES_MAX)).map(|_| draw.bits() as u8).collect()
}

struct Fan {
    nodes: Nodes,
    rings: Rings,
    fan: FanOut,
    readers: Vec<Reader>,
}

impl Fan {
    fn new(mut nodes: Nodes) -> Fan {
        let readers = nodes.fabrics.drain(1..).map(|fabric| Reader {
            fabric,
            ring: None,
            follower: Follower::default(),
            numbers: Vec::new(),
            is_gone: false,
        });
        let readers = readers.collect();
        Fan { nodes, rings: Rings::default(), fan: FanOut::new(), readers }
    }

    fn add(&mut self, reader: usize, key: Key, lag: Lag) -> BranchId {
        let peer = self.nodes.names[reader + 1].clone();
        self.fan.add(RingAddress { peer, name: name("fan"), key }, lag)
    }

    fn turn(&mut self) -> Moment {
        let now = (self.nodes.now)();
        let fabric = &mut *self.nodes.fabrics[0];
        while let Some(what) = fabric.poll(now) {
            let left = self.rings.handle(what);
            assert_eq!(left, None, "the sender's program got a completion");
        }
        self.rings.progress(fabric, now);
        self.fan.progress(&mut self.rings, fabric);
        self.readers.iter_mut().for_each(|reader| reader.poll(now));
        now
    }

    fn until(&mut self, what: &str, mut is_done: impl FnMut(&mut Fan) -> bool) {
        let began = (self.nodes.now)();
        while !is_done(self) {
            assert!(self.turn().since(began) < PATIENCE, "no {what}");
        }
    }

    /// Pushes the next record as soon as there is room; the readers read meanwhile.
    fn push(&mut self, mut read: impl FnMut(&mut Fan)) {
        let bytes = bytes_of(self.fan.records());
        self.until("room", |fan| {
            read(fan);
            let fabric = &mut *fan.nodes.fabrics[0];
            let pushed = fan.fan.push(&mut fan.rings, fabric, &bytes);
            fan.fan.publish(&mut fan.rings, fabric);
            assert!(matches!(pushed, Ok(()) | Err(PushRefused::Full)), "{pushed:?}");
            pushed.is_ok()
        });
    }

    fn finish(&mut self) {
        self.until("end", |fan| {
            fan.readers.iter_mut().for_each(|reader| reader.read(u64::MAX));
            fan.fan.finish(&mut fan.rings, &mut *fan.nodes.fabrics[0])
        });
        // The sender's program may end here: its node is not polled again.
        let began = (self.nodes.now)();
        while self.readers.iter().any(|reader| reader.ring.is_some() && !reader.is_gone) {
            let now = (self.nodes.now)();
            assert!(now.since(began) < PATIENCE, "the readers do not see the end");
            self.readers.iter_mut().for_each(|reader| reader.poll(now));
            self.readers.iter_mut().for_each(|reader| reader.read(u64::MAX));
        }
        let died = |reader: &Reader| reader.ring.as_ref().is_some_and(|of| of.counters().died > 0);
        assert!(!self.readers.iter().any(died), "the sender finished");
    }
}

/// A reader that is waited for gets all records; a late and slow one gets what its ring can take,
/// holds nobody, and counts what has passed it by.
pub fn a_slow_and_late_reader_misses_records_and_holds_nobody(seed: u64, nodes: Nodes) {
    const RECORDS: u64 = 1500;
    let (mut fan, mut draw) = (Fan::new(nodes), Draw::new(seed));
    let all = fan.add(0, KEY, Lag::Waits);
    let some = fan.add(1, KEY, Lag::Misses);
    fan.readers[0].open(16, RingPath::Best);
    fan.until("reader", |fan| fan.fan.state(all).is_open);
    for number in 0..RECORDS {
        if number == RECORDS / 4 {
            fan.readers[1].open(8, RingPath::Puts);
        }
        if number == RECORDS / 2 {
            fan.until("late reader", |fan| fan.fan.state(some).is_open);
        }
        fan.push(|fan| {
            let (most, is_awake) = (draw.below(4), draw.below(40) == 0);
            fan.readers[0].read(most);
            fan.readers[1].read(u64::from(is_awake) * 3);
        });
    }
    fan.finish();
    let [waits, misses] = [all, some].map(|branch| fan.fan.state(branch).clone());
    assert_eq!([waits.pushed, waits.missed], [RECORDS, 0], "it was waited for");
    assert_eq!(fan.readers[0].numbers, (0..RECORDS).collect::<Vec<u64>>());
    assert_eq!(misses.pushed + misses.missed, RECORDS, "each was pushed or has passed by");
    let Reader { numbers, follower, .. } = &fan.readers[1];
    assert_eq!(numbers.len() as u64, misses.pushed, "all that its ring took");
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    assert!(first >= RECORDS / 4, "it was not there before");
    assert!(follower.missed() > 0, "it was slow");
    let after = RECORDS - 1 - last;
    assert_eq!(first + follower.missed() + after, misses.missed, "both sides count the same");
    assert_eq!(follower.restarts(), 0);
}

/// A reader that ends does not stop the others, although it is waited for, and goes on when it
/// comes back.
pub fn a_reader_that_ends_stops_nobody_and_may_come_back(nodes: Nodes) {
    let mut fan = Fan::new(nodes);
    let branches = [0, 1].map(|reader| fan.add(reader, KEY, Lag::Waits));
    fan.readers.iter_mut().take(2).for_each(|reader| reader.open(8, RingPath::Best));
    fan.until("readers", |fan| branches.iter().all(|of| fan.fan.state(*of).is_open));
    let read = |fan: &mut Fan| fan.readers.iter_mut().for_each(|reader| reader.read(u64::MAX));
    (0..50).for_each(|_| fan.push(read));
    let ends = fan.readers[1].ring.take().expect("open");
    ends.close(&mut *fan.readers[1].fabric);
    (0..200).for_each(|_| fan.push(read));
    fan.until("end of its ring", |fan| !fan.fan.state(branches[1]).is_open);
    let before = fan.fan.state(branches[1]).clone();
    fan.readers[1].open(8, RingPath::Best);
    fan.until("reader again", |fan| fan.fan.state(branches[1]).is_open);
    (0..50).for_each(|_| fan.push(read));
    fan.finish();
    assert_eq!(fan.readers[0].numbers, (0..300).collect::<Vec<u64>>(), "the other one got all");
    let after = fan.fan.state(branches[1]);
    assert_eq!((after.pushed, after.missed), (before.pushed + 50, before.missed));
    let got = &fan.readers[1].numbers;
    assert_eq!(got[got.len() - 50..], (250..300).collect::<Vec<u64>>(), "it goes on");
    assert_eq!(after.pushed + after.missed, 300);
}

/// A wrong key ends a branch alone, and a record that is too long is refused for all.
pub fn a_wrong_key_ends_one_branch_and_a_long_record_none(nodes: Nodes) {
    let mut fan = Fan::new(nodes);
    let good = fan.add(0, KEY, Lag::Waits);
    let wrong = fan.add(1, Key(KEY.0 ^ 1), Lag::Waits);
    fan.readers.iter_mut().take(2).for_each(|reader| reader.open(8, RingPath::Best));
    fan.until("reader", |fan| fan.fan.state(good).is_open);
    fan.until("refusal", |fan| fan.fan.state(wrong).refused.is_some());
    let refused = fan.fan.state(wrong).refused;
    assert_eq!(refused, Some(PushRefused::NotAdmitted(Status::WrongKey)));
    let long = vec![0; 1 << 20];
    let pushed = fan.fan.push(&mut fan.rings, &mut *fan.nodes.fabrics[0], &long);
    assert!(matches!(pushed, Err(PushRefused::TooLong { .. })), "{pushed:?}");
    (0..20).for_each(|_| fan.push(|fan| fan.readers[0].read(u64::MAX)));
    fan.readers[1].ring = None;
    fan.finish();
    assert_eq!(fan.readers[0].numbers, (0..20).collect::<Vec<u64>>());
    assert_eq!(fan.fan.state(wrong).missed, 20);
}
