//! A push ring, a program that knows nothing of simulations, on a noisy SCI ring.

use fluxline_core::fabric::push::{PushRefused, Receiver, RingAddress, RingPlan, Sender};
use fluxline_core::fabric::{Completion, Key, Name};
use fluxline_core::{Moment, Span};
use fluxline_sim::world::Cluster;

const RECORDS: u64 = 400;

fn record(number: u64) -> Vec<u8> {
    vec![number as u8; 1 + (number * 37 % 500) as usize]
}

#[test]
fn records_of_a_push_ring_come_whole_and_in_order_however_noisy_the_ring_is() {
    for rate in ["0", "1e-5", "2e-4", "1e-3"] {
        let url = format!("sim:sci?nodes=3&model=lc2&seed=11&fault=bits:{rate}");
        let cluster = Cluster::open(&url).expect("a right URL");
        let (mut left, mut right) = (cluster.node(0), cluster.node(2));
        let (name, key) = (Name::parse("ring").expect("a legal name"), Key(1));
        let plan = RingPlan::new(name.clone(), key, 4, 500);
        let mut receiver = Receiver::open(&mut right, &plan).expect("a possible ring");
        let to = RingAddress { peer: "2".into(), name, key };
        let mut sender = Sender::open(&mut left, to, cluster.now()).expect("a possible peer");
        let (mut pushed, mut read) = (0, 0);
        let mut now: Moment = cluster.now();
        while read < RECORDS {
            now = now + Span::from_ns(2_000);
            assert_eq!(sender.poll(&mut left, now), None, "{rate}");
            while let Some(what) = receiver.poll(&mut right, now) {
                assert!(!matches!(what, Completion::Broken { .. }), "{rate}: {what:?}");
            }
            if pushed < RECORDS {
                match sender.push(&mut left, &record(pushed)) {
                    Ok(()) => pushed += 1,
                    Err(PushRefused::Full | PushRefused::NotOpen(_)) => {}
                    Err(other) => panic!("{rate}: {other}"),
                }
            }
            if sender.is_open() {
                sender.publish(&mut left).expect("the receiver is there");
            }
            while let Some(found) = receiver.next(&mut right).expect("sound records") {
                assert!(found.to_vec() == record(read), "{rate}: record {read} came otherwise");
                read += 1;
            }
            assert!(now < Moment::from_ns(10_000_000_000), "{rate}: {read} of {RECORDS} came");
        }
        let repeated = cluster.counts(0).requester.repeated;
        assert_eq!(repeated > 0, rate != "0", "{rate}: {repeated} packets were sent again");
    }
}
