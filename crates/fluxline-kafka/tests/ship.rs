//! `ship` against a real broker: runs that are damaged, of clusters, or too large for the topic, and
//! transactions of others in the topic.
#![cfg(feature = "client")]

mod support;

use fluxline_kafka::ship::ship;
use support::broker::Broker;
use support::runs::{record, to_topic};

const TOPIC: &str = "lab.events";

#[test]
fn run_of_a_cluster_on_one_machine_is_shipped_to_its_own_topic() {
    let broker = Broker::shared();
    let topic = "one.events";
    broker.create_topic(topic, 1, &[]);
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    let address = &broker.address;
    let lines = format!(
        "[events]\nbuild = \"key\"\n[cluster]\nbrokers = \"{address}\"\nname = \"one\"\n\
         [node.r1]\nsources = [\"boards\"]\n\
         [sink.kafka]\nbrokers = \"{address}\"\ntopic = \"{topic}\"\n"
    );
    record(&run, 100, &lines);
    let again = ship(&fluxline_kafka::ship::ShipConfig { run: run.clone(), ..Default::default() });
    let again = again.expect("the run without --node is shipped");
    assert!(again.present > 0 && again.sent == 0, "{again:?}");

    // A gathered run is refused: the builders have sent its events under other keys.
    let file = run.join("run.json");
    let text = std::fs::read_to_string(&file).expect("run.json");
    let mut document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    document["gathered"] = serde_json::json!({ "run": 1 });
    std::fs::write(&file, document.to_string()).expect("written");
    let said = ship(&to_topic(&run, address, topic)).expect_err("refused").to_string();
    assert!(said.contains("the builders sent the events of"), "{said}");
}
