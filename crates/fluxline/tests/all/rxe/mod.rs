//! Linux's software RDMA device (rdma_rxe) and a node exchange every operation, both ways.
//!
//! The device lives in a virtual machine; `tools/rxe/test.sh` makes it, boots it and runs these
//! tests, one after the other, in its network namespace. `FLUXLINE_RXE` names the two addresses,
//! ours and the device's, and the port of its peer program: `10.77.0.1 10.77.0.2 7471`. Without it
//! the tests say that they are skipped.

mod managed;
mod world;

use fluxline_core::fabric::{
    Completion, Level, Local, Operation, Reliability, Slice, Status, Target, Work,
};
use world::{SLOW, World, hash, pattern, world};

const MIB: u64 = 1 << 20;

/// A put of bytes of the own region, if they are at the same offset there.
fn put(world: &World, offset: u64, bytes: u64, notify: Option<u32>) -> Work<'static> {
    Work::Put {
        from: Local::Region(Slice { region: world.region, offset, bytes }),
        to: Target { remote: world.remote, offset },
        notify,
        complete_at: Some(Level::Placed),
    }
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn puts_of_64_mib_arrive_whole_at_the_device() {
    let Some(mut world) = world(Reliability::Reliable, 64 * MIB) else { return };
    world.write(0, &pattern(64 * MIB, 1));
    world.post(1, put(&world, 0, 64 * MIB, None));
    assert_eq!(world.completed(1), (Operation::Put, Status::Done, 0));
    let there = world.ask_number(&format!("hash 0 {}", 64 * MIB));
    assert_eq!(there, hash(&pattern(64 * MIB, 1)));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn writes_of_64_mib_arrive_whole_from_the_device() {
    let Some(mut world) = world(Reliability::Reliable, 64 * MIB) else { return };
    world.ask(&format!("fill 0 {} 2", 64 * MIB)).expect("filled");
    let to = world.own_address();
    world.ask(&format!("write 0 {} {to}", 64 * MIB)).expect("written");
    assert_eq!(hash(&world.read(0, 64 * MIB)), hash(&pattern(64 * MIB, 2)));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_put_that_notifies_reaches_the_device_as_immediate_data_and_back() {
    let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
    world.ask("receive 0 0").expect("posted");
    world.write(8, &pattern(5000, 3));
    world.post(1, put(&world, 8, 5000, Some(0xABCD_0123)));
    assert_eq!(world.completed(1), (Operation::Put, Status::Done, 0));
    assert_eq!(world.ask("completion").expect("received"), ["5000", "2882339107"]);

    let to = world.own_address();
    world.ask("fill 64 3000 4").expect("filled");
    world.ask(&format!("write 64 3000 {to} 77")).expect("written");
    let notified = |of: &Completion| match *of {
        Completion::Notified { offset, bytes, value, .. } => Some((offset, bytes, value)),
        _ => None,
    };
    assert_eq!(world.wait_for(notified), (0, 3000, 77));
    assert_eq!(world.read(0, 3000), pattern(3000, 4));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn gets_and_reads_return_what_the_other_end_holds() {
    let Some(mut world) = world(Reliability::Reliable, 4 * MIB) else { return };
    world.ask(&format!("fill 0 {} 5", 4 * MIB)).expect("filled");
    let from = Target { remote: world.remote, offset: 0 };
    let into = Slice { region: world.region, offset: 0, bytes: 3 * MIB + 17 };
    world.post(1, Work::Get { from, into });
    assert_eq!(world.completed(1), (Operation::Get, Status::Done, 0));
    assert_eq!(hash(&world.read(0, 3 * MIB)), hash(&pattern(4 * MIB, 5)[..3 << 20]));

    world.write(0, &pattern(4 * MIB, 6));
    let to = world.own_address();
    world.ask(&format!("read 0 {} {to}", 4 * MIB)).expect("read");
    let there = world.ask_number(&format!("hash 0 {}", 4 * MIB));
    assert_eq!(there, hash(&pattern(4 * MIB, 6)));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn messages_go_both_ways() {
    let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
    world.ask("receive 4096 9000").expect("posted");
    let message = pattern(8000, 7);
    world.post(1, Work::Send { from: Local::Bytes(&message), complete_at: Some(Level::Placed) });
    assert_eq!(world.completed(1), (Operation::Send, Status::Done, 0));
    assert_eq!(world.ask("completion").expect("received")[0], "8000");
    assert_eq!(world.ask_number("hash 4096 8000"), hash(&message));

    world.post_receive(2, 0, 9000);
    world.ask("fill 0 7000 8").expect("filled");
    world.ask("send 0 7000").expect("sent");
    assert_eq!(world.completed(2), (Operation::Receive, Status::Done, 7000));
    assert_eq!(world.read(0, 7000), pattern(7000, 8));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn atomics_go_both_ways_and_are_done_once() {
    let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
    let at = Target { remote: world.remote, offset: 512 };
    for (tag, before) in [(1, 0), (2, 5), (3, 10)] {
        world.post(tag, Work::FetchAdd { at, add: 5 });
        assert_eq!(world.completed(tag), (Operation::FetchAdd, Status::Done, before));
    }
    world.post(4, Work::CompareSwap { at, expected: 15, desired: 99 });
    assert_eq!(world.completed(4), (Operation::CompareSwap, Status::Done, 15));

    let (address, key) = world.own_place();
    for _ in 0..3 {
        world.ask(&format!("add 0 {address} {key} 7")).expect("added");
    }
    assert_eq!(world.read(0, 8), 21_u64.to_le_bytes());
    world.ask(&format!("swap 8 {address} {key} 21 1000")).expect("swapped");
    assert_eq!(world.read(0, 8), 1000_u64.to_le_bytes());
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn unreliable_writes_of_the_device_arrive() {
    let Some(mut world) = world(Reliability::Unreliable, MIB) else { return };
    world.ask("fill 0 9000 9").expect("filled");
    let to = world.own_address();
    world.ask(&format!("write 0 9000 {to} 5")).expect("written");
    let notified = |of: &Completion| matches!(of, Completion::Notified { .. }).then_some(());
    world.wait_for(notified);
    assert_eq!(world.read(0, 9000), pattern(9000, 9));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_wrong_key_is_answered_by_a_refusal_and_nothing_is_written() {
    let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
    world.ask("fill 0 64 9").expect("filled");
    let (address, key) = world.own_place();
    let refused = world.ask(&format!("write 0 64 {address} {}", key ^ 1)).expect_err("refused");
    assert!(refused.contains("remote access error"), "{refused}");
    assert_eq!(world.read(0, 64), [0; 64]);
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn frames_lost_on_the_way_are_sent_again_both_ways() {
    let Some(mut world) = world(Reliability::Reliable, 2 * MIB) else { return };
    let _loss = world.lose_one_in(50);
    world.write(0, &pattern(2 * MIB, 10));
    world.post(1, put(&world, 0, 2 * MIB, None));
    assert_eq!(world.completed(1), (Operation::Put, Status::Done, 0));
    let there = world.ask_number(&format!("hash 0 {}", 2 * MIB));
    assert_eq!(there, hash(&pattern(2 * MIB, 10)));
    world.ask(&format!("fill 0 {} 11", 2 * MIB)).expect("filled");
    let to = world.own_address();
    world.ask(&format!("write 0 {} {to}", 2 * MIB)).expect("written");
    assert_eq!(hash(&world.read(0, 2 * MIB)), hash(&pattern(2 * MIB, 11)));
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_device_that_dies_in_a_put_breaks_the_connection_within_the_promised_time() {
    let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
    world.ask("close").expect("closed");
    let began = std::time::Instant::now();
    world.post(1, put(&world, 0, MIB, None));
    let broken = |of: &Completion| match *of {
        Completion::Broken { status, .. } => Some(status),
        _ => None,
    };
    let status = world.wait_for(broken);
    assert!(matches!(status, Status::PeerGone | Status::Transport), "{status:?}");
    assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
}

#[test]
#[ignore = "all: a virtual machine, tools/rxe/test.sh"]
fn a_device_that_starts_again_with_the_same_numbers_is_served_again() {
    for round in 0..2 {
        let Some(mut world) = world(Reliability::Reliable, MIB) else { return };
        world.ask(&format!("fill 0 5000 {}", 20 + round)).expect("filled");
        let to = world.own_address();
        world.ask(&format!("write 0 5000 {to}")).expect("written");
        assert_eq!(world.read(0, 5000), pattern(5000, 20 + round));
    }
}
