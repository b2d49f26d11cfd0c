//! Brokers that refuse transactions, on a real broker: the sentence names the right or
//! the option. Nobody counts that as another process that has taken the work over.
#![cfg(feature = "client")]

mod support;

use std::collections::BTreeMap;

use fluxline_kafka::TopicError;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{Log, LogError};
use fluxline_kafka::settings::Settings;
use fluxline_kafka::ship::{ShipError, ship};
use support::broker::Broker;
use support::built::first_commit;
use support::runs::{record, to_topic};

const RIGHTS: &str = "allow.everyone.if.no.acl.found=true\nauthorizer.class.name=\
                      org.apache.kafka.metadata.authorizer.StandardAuthorizer\n";

fn cluster(broker: &Broker, name: &str) -> KafkaLog {
    for topic in ["fragments", "commits", "checkpoints"] {
        broker.create_topic(&format!("{name}.{topic}"), 1, &[]);
    }
    let settings = Settings { brokers: broker.address.clone(), options: BTreeMap::new() };
    KafkaLog::open(&settings, name, 1).expect("opened")
}

/// The sentence of a shipment that the brokers refuse.
fn refusal(error: ShipError) -> String {
    assert!(matches!(&error, ShipError::Topic(TopicError::Transactions(_))), "{error:?}");
    error.to_string()
}

#[test]
fn missing_right_is_named_and_a_builder_does_not_try_again() {
    let broker = Broker::start_with_settings(RIGHTS);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 100, "");
    let prefixed = ["--resource-pattern-type", "prefixed", "--transactional-id"];
    let names = |start: &'static str| [&prefixed[..], &[start]].concat();

    broker.create_topic("named", 1, &[]);
    broker.allow_only(&["Describe"], &names("fluxline-ship-named-"));
    let said = ship(&to_topic(&run, &broker.address, "named")).map_err(refusal);
    let said = said.expect_err("the name is denied");
    assert!(said.contains("names that begin with `fluxline-`"), "{said}");

    broker.create_topic("written", 1, &[]);
    broker.allow_only(&["Describe", "Read"], &["--topic", "written"]);
    let said = ship(&to_topic(&run, &broker.address, "written")).map_err(refusal);
    let said = said.expect_err("the topic is denied");
    assert!(said.contains("the right `Write` on every topic"), "{said}");

    let mut log = cluster(&broker, "one");
    broker.allow_only(&["Describe"], &names("fluxline-one.commits-"));
    let error = log.claim(0, "b").expect_err("the name is denied");
    assert!(matches!(error, LogError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("names that begin with `fluxline-`"), "{error}");

    let mut log = cluster(&broker, "two");
    let claim = log.claim(0, "b").expect("claimed");
    broker.allow_only(&["Describe", "Read"], &["--topic", "two.commits"]);
    let error = log.commit(&claim, first_commit("b")).expect_err("the topic is denied");
    assert!(matches!(error, LogError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("the right `Write` on every topic"), "{error}");
}

#[test]
fn brokers_that_allow_only_short_transactions_name_their_option() {
    let broker = Broker::start_with_settings("transaction.max.timeout.ms=20000\n");
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    record(&run, 10, "");
    broker.create_topic("lab.events", 1, &[]);
    let said = ship(&to_topic(&run, &broker.address, "lab.events")).map_err(refusal);
    let said = said.expect_err("too long");
    assert!(said.contains("transaction.max.timeout.ms to 30000 or more"), "{said}");
    let error = cluster(&broker, "lab").claim(0, "b").expect_err("too long");
    assert!(matches!(error, LogError::Refused(_)), "{error:?}");
}
