//! A cluster whose brokers die for good with their disks, or do nothing for longer than their
//! session: no packet is lost, and every client goes on.

use std::time::Duration;

use crate::broker::Broker;
use crate::lab::{Lab, well};

const EXPERIMENT: &str = r#"
name = "beam"
[events]
build = "key"
[[source]]
name = "a"
format = "counter"
emulator = { sources = 2, rate = 200, payload-bytes = 64 }
[[source]]
name = "b"
format = "counter"
emulator = { sources = 2, rate = 200, payload-bytes = 64 }
[node.r1]
sources = ["a"]
[node.r2]
sources = ["b"]
"#;

#[test]
fn broker_that_dies_with_its_disk_takes_packets_with_it() {
    let lab = Lab::on(Broker::start(&["three"]), 3, "output = \"both\"\n", EXPERIMENT);
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    lab.goes_on(400);
    lab.broker.lose(3);
    lab.goes_on(400);
    lab.goes_on(400);
    lab.done(&["ctl", &lab.address(), "stop"]);
    readouts.into_iter().for_each(|readout| drop(well(readout)));
    well(builder);
    let ledger = lab.ledger();
    assert_eq!((&ledger["state"], &ledger["status"]), (&"ended".into(), &0.into()), "{ledger}");
    assert_eq!(ledger["committed"]["packets"], ledger["received"], "{ledger}");
    lab.done(&["gather", &lab.address(), "--into", "all"]);
}

/// Every second client of librdkafka 2.10 to 2.13 loses its brokers for ever then.
#[test]
fn clients_whose_only_broker_was_halted_send_nothing_any_more() {
    let lab = Lab::new("", EXPERIMENT);
    let builder = lab.node("builder", "b1");
    let readouts = [lab.node("r1", "x"), lab.node("r2", "y")];
    for _ in 0..3 {
        lab.goes_on(400);
        // The broker's session ends after 9 s.
        lab.broker.pause(Duration::from_secs(20));
    }
    lab.goes_on(400);
    lab.done(&["ctl", &lab.address(), "stop"]);
    readouts.into_iter().for_each(|readout| drop(well(readout)));
    well(builder);
    let ledger = lab.ledger();
    assert_eq!(ledger["committed"]["packets"], ledger["received"], "{ledger}");
}
