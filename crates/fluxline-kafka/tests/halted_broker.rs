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
use support::built::first_commit;

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

/// The processor time of this thread so far, in ticks of 10 ms. Source: proc(5), fields 14 and 15.
fn ticks_of_thread() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
    // The name before it may have blanks.
    let (_, fields) = text.rsplit_once(')').expect("a name");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn builder_that_waits_for_a_commit_takes_a_core() {
    let broker = Broker::start();
    for topic in ["lab.fragments", "lab.commits", "lab.checkpoints"] {
        broker.create_topic(topic, 1, &[]);
    }
    let settings = Settings { brokers: broker.address.clone(), ..Settings::default() };
    let mut log = KafkaLog::open(&settings, "lab", 1).expect("opened");
    let claim = log.claim(0, "b").expect("claimed");
    broker.signal("-STOP");
    let (before, began) = (ticks_of_thread(), Instant::now());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_secs(4));
            broker.signal("-CONT");
        });
        log.commit(&claim, first_commit("b")).expect("committed");
    });
    let (ticks, waited) = (ticks_of_thread() - before, began.elapsed());
    assert!(waited > Duration::from_secs(3), "the broker was not away: {waited:?}");
    // It took all of them, once: 100 in each second.
    let share = ticks as f64 * 0.01 / waited.as_secs_f64();
    assert!(share < 0.25, "{ticks} ticks in {waited:?}");
}
