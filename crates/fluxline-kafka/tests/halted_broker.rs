//! A broker that is halted for longer than its session answers with an empty list of brokers first.
//! The client library may lose its brokers then, for ever.
#![cfg(feature = "client")]

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use fluxline_kafka::build::Log;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::settings::Settings;
use support::broker::Broker;

/// Clients that send meanwhile. Each loses its brokers by chance, about every second one.
const LOGS: u64 = 8;
/// Time that the broker does nothing; its session ends after 9 s.
const HALT: Duration = Duration::from_secs(20);
/// Time until every client must deliver again.
const WITHIN: Duration = Duration::from_secs(40);

/// Gives every log a record; returns the number of records that the broker has of each.
fn append_to(logs: &mut [KafkaLog]) -> Vec<u64> {
    sleep(Duration::from_millis(20));
    logs.iter_mut()
        .map(|log| {
            let _ = log.append(0, b"a record"); // a full log takes it later
            log.deliveries().acknowledged()
        })
        .collect()
}

/// Appends until this time is over, or every log has more records on the broker than `before`.
fn append_for(span: Duration, before: &[u64], logs: &mut [KafkaLog]) -> Vec<u64> {
    let limit = Instant::now() + span;
    loop {
        let now = append_to(logs);
        let stuck = now.iter().zip(before).any(|(now, before)| now <= before);
        if Instant::now() > limit || (!before.is_empty() && !stuck) {
            return now;
        }
    }
}

#[test]
fn every_client_sends_again_after_its_only_broker_was_halted() {
    let broker = Broker::start();
    for topic in ["lab.fragments", "lab.commits", "lab.checkpoints"] {
        broker.create_topic(topic, 1, &[]);
    }
    // Questions fail while the broker is halted, as they do in longer outages by default.
    let options = [("socket.timeout.ms".to_owned(), "6000".to_owned())].into();
    let settings = Settings { brokers: broker.address.clone(), options };
    let mut logs: Vec<KafkaLog> =
        (1..=LOGS).map(|run| KafkaLog::open(&settings, "lab", run).expect("opened")).collect();
    append_for(Duration::from_secs(2), &[], &mut logs);
    broker.signal("-STOP");
    let halted = append_for(HALT, &[], &mut logs);
    broker.signal("-CONT");
    // Records that were under way come first.
    append_for(Duration::from_secs(10), &[], &mut logs);
    let before = append_to(&mut logs);
    let after = append_for(WITHIN, &before, &mut logs);
    let stuck = before.iter().zip(&after).filter(|(before, after)| after <= before).count();
    assert_eq!(stuck, 0, "of {LOGS} clients; acknowledged {halted:?}, {before:?}, {after:?}");
    logs.iter().for_each(|log| log.flush(WITHIN).expect("everything is delivered"));
}
