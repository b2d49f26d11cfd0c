//! Requests in the control topic: the state shows a request when its call has come back, although
//! the client had read the topic to an earlier end.
#![cfg(feature = "client")]

mod support;

use std::time::Duration;

use fluxline_kafka::cluster::Role;
use fluxline_kafka::cluster::control_log::ControlLog;
use fluxline_kafka::cluster::record::{ControlRecord, Join};
use fluxline_kafka::settings::Settings;
use support::broker::Broker;

/// Time in which a client has new records and their end in its queue.
const FETCHED: Duration = Duration::from_secs(2);

fn join(incarnation: u64) -> ControlRecord {
    ControlRecord::Join(Join {
        node: "builder".to_owned(),
        id: format!("b{incarnation}"),
        role: Role::Builder,
        host: "lab7".to_owned(),
        pid: 7,
        incarnation,
        digest: "d".to_owned(),
        readouts: vec!["r1".to_owned()],
        ..Join::default()
    })
}

#[test]
fn request_comes_back_before_its_own_record_was_read() {
    let broker = Broker::shared();
    broker.create_topic("asked.control", 1, &[]);
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    let mut control = ControlLog::open(&settings, "asked").expect("the topic");
    for number in 1..=5 {
        let (others, own) = (2 * number, 2 * number + 1);
        broker.put("asked.control", 0, None, &join(others).to_bytes());
        // The record of the other process, and the end behind it, lie in the client's queue.
        std::thread::sleep(FETCHED);
        control.append(&join(own)).expect("the broker is there");
        let state = control.state();
        assert!(state.has_joined(others), "request {number}: the record before it was not read");
        assert!(state.has_joined(own), "request {number} came back without its effect");
    }
}
