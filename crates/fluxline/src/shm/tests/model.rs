//! Loom models of channels, slots and bells of two nodes.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p fluxline --release --lib loom_`.

use std::sync::Arc;
use std::time::Duration;

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, EndpointId, Name, RegionId, Reliability, Status};
use loom::thread;

use crate::shm::channel::{CHANNEL_BYTES, Receiver, Sender};
use crate::shm::endpoint::{CompletionQueue, Endpoint, Notice, Peer};
use crate::shm::node::{Claimer, End, NodeFile, Phase, Slot};
use crate::shm::region::OwnRegion;
use crate::shm::table::Table;
use crate::sys::map::SharedMap;

const LONG: Duration = Duration::from_secs(3_600);

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

#[test]
fn loom_records_of_a_channel_come_whole_and_in_order_while_it_wraps() {
    check(3, || {
        let map = Arc::new(SharedMap::for_test(CHANNEL_BYTES));
        let (mut sender, mut receiver) = (Sender::new(&map, 0), Receiver::new(&map, 0));
        let writer = thread::spawn(move || {
            for number in 0..3_u8 {
                while !sender.has_room(17) {
                    thread::yield_now();
                }
                sender.push(number, &[number; 17]);
            }
        });
        let mut record = Vec::new();
        for number in 0..3 {
            let found = loop {
                match receiver.peek().expect("sound") {
                    Some(found) => break found,
                    None => thread::yield_now(),
                }
            };
            receiver.read(found, &mut record);
            assert_eq!((found.kind, record.as_slice()), (number, [number; 17].as_slice()));
            receiver.take(found);
        }
        assert_eq!(receiver.peek(), Ok(None));
        writer.join().expect("the writer");
    });
}

fn who() -> Claimer {
    let name = Name::parse("claimer").expect("legal");
    Claimer { name, file: 77, reliability: Reliability::Reliable }
}

fn endpoint(peer: &NodeFile, slot: &Slot, end: End) -> Endpoint {
    let peer = Peer { name: "peer".to_owned(), node: peer.clone() };
    Endpoint::new(EndpointId(0), peer, Reliability::Reliable, slot.clone(), end)
}

/// Both ends of an open connection, in the file of `owner`.
fn connection(owner: &NodeFile, claimer: &NodeFile) -> (Endpoint, Endpoint, Slot) {
    let slot = owner.claim(&who()).expect("free");
    assert!(slot.change(Phase::Claimed, Phase::Open));
    let mut far = endpoint(owner, &slot, End::Claimer);
    far.turn(Moment::from_ns(0), &Table::default(), &mut CompletionQueue::new()).expect("answered");
    (endpoint(claimer, &slot, End::Owner), far, slot)
}

/// Returns the completions of `of` until its peer has closed; sleeps in between, like `Shm::wait`.
fn completions_until_closed(node: &NodeFile, of: &mut Endpoint) -> CompletionQueue {
    let mut completions = CompletionQueue::new();
    let mut regions = Table::default();
    regions.insert(OwnRegion::of_heap(8));
    loop {
        while !of.is_due() {
            node.sleep(LONG, || of.is_due());
        }
        if let Err(status) = of.turn(Moment::from_ns(0), &regions, &mut completions) {
            assert_eq!(status, Status::Disconnected);
            return completions;
        }
    }
}

#[test]
fn loom_a_sleeping_node_wakes_and_gets_all_that_came_before_the_peer_closed() {
    check(2, || {
        let (owner, claimer) = (NodeFile::of_heap(), NodeFile::of_heap());
        let (mut near, mut far, slot) = connection(&owner, &claimer);
        let writer = thread::spawn(move || {
            far.notify(&Notice { region: 0, value: 77, offset: 0, bytes: 8 });
            far.end(Status::Done, &mut CompletionQueue::new());
        });
        let completions = completions_until_closed(&owner, &mut near);
        let (endpoint, region) = (EndpointId(0), RegionId(0));
        let notice = Completion::Notified { endpoint, region, offset: 0, bytes: 8, value: 77 };
        assert_eq!(completions, [notice]);
        near.end(Status::Disconnected, &mut CompletionQueue::new());
        writer.join().expect("the writer");
        assert_eq!(slot.phase(), None, "the slot is free for others");
        assert_eq!(owner.places(Phase::Free).count(), 1);
    });
}

#[test]
fn loom_a_slot_that_both_ends_close_at_once_is_freed_once() {
    check(3, || {
        let (owner, claimer) = (NodeFile::of_heap(), NodeFile::of_heap());
        let (_near, _far, slot) = connection(&owner, &claimer);
        let other = slot.clone();
        let claimer = thread::spawn(move || other.close(End::Claimer));
        slot.close(End::Owner);
        claimer.join().expect("the claimer");
        assert_eq!(slot.phase(), None, "the slot is free for others");
        assert_eq!(owner.places(Phase::Free).count(), 1);
    });
}

#[test]
fn loom_a_claim_wakes_the_owner_and_shows_a_whole_name() {
    check(3, || {
        let owner = NodeFile::of_heap();
        let file = owner.clone();
        let claimer = thread::spawn(move || drop(file.claim(&who()).expect("free")));
        while owner.claims() == 0 {
            owner.sleep(LONG, || owner.claims() != 0);
        }
        let claimed: Vec<_> = owner.places(Phase::Claimed).collect();
        assert_eq!(claimed.len(), 1);
        let claimed = owner.slot(claimed[0].clone()).expect("of a model");
        assert_eq!(claimed.claimer(), Some(who()));
        claimer.join().expect("the claimer");
    });
}

#[test]
fn loom_a_claim_seen_before_it_is_counted_shows_a_whole_name() {
    check(3, || {
        let owner = NodeFile::of_heap();
        let file = owner.clone();
        let claimer = thread::spawn(move || drop(file.claim(&who()).expect("free")));
        // Like an owner that another claim has made check its slots.
        let claimed = loop {
            match owner.places(Phase::Claimed).next() {
                Some(place) => break owner.slot(place).expect("of a model"),
                None => thread::yield_now(),
            }
        };
        assert_eq!(claimed.claimer(), Some(who()));
        claimer.join().expect("the claimer");
    });
}

#[test]
fn loom_a_claim_that_is_taken_back_while_it_is_answered_ends_on_both_sides() {
    check(3, || {
        let owner = NodeFile::of_heap();
        let slot = owner.claim(&who()).expect("free");
        let other = slot.clone();
        let claimer = thread::spawn(move || other.close(End::Claimer));
        let answered = slot.change(Phase::Claimed, Phase::Open);
        claimer.join().expect("the claimer");
        if answered {
            assert!(slot.is_closed(End::Claimer), "the owner sees it go");
            slot.close(End::Owner);
        }
        assert_eq!(slot.phase(), None);
        assert_eq!(owner.places(Phase::Free).count(), 1);
    });
}
