//! `fluxline ship` on a real broker whose topic has records of another program, too.
#![cfg(feature = "kafka")]

#[path = "support/lab.rs"]
mod lab;

use std::process::Command;

use lab::Lab;
use lab::broker::tool;
use serde_json::Value;

#[test]
fn ship_counts_records_of_another_program_and_leaves_them_alone() {
    let lab = Lab::new("", "name = \"not used\"\n");
    let (brokers, topic) = (&lab.broker.address, "lab.events");
    lab.broker.create_topic(topic, 2);
    let text = format!(
        "name = \"lab\"\n[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\n\
         sources = 2\nrate = 1000\npackets = 200\nlink = \"direct\"\n\
         [sink.kafka]\nbrokers = \"{brokers}\"\ntopic = \"{topic}\"\n"
    );
    std::fs::write(lab.path("sink.toml"), text).expect("written");
    lab.done(&["run", "sink.toml", "--folder", "one"]);
    let foreign = ["--num-records", "7", "--record-size", "20", "--throughput", "-1"];
    let servers = format!("bootstrap.servers={brokers}");
    let mut put = Command::new(tool("broker.sh"));
    put.args(["tool", "producer-perf-test", "--topic", topic]).args(foreign);
    let put = put.args(["--producer-props", &servers]).output().expect("broker.sh");
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    for _ in 0..2 {
        let shipped: Value =
            serde_json::from_str(&lab.done(&["--json", "ship", "one"])).expect("JSON");
        assert_eq!((&shipped["foreign"], &shipped["sent"]), (&7.into(), &0.into()), "{shipped}");
        assert!(shipped["present"].as_u64() > Some(0), "{shipped}");
    }
    let read = lab.python("read_events.py", &[brokers, topic]);
    assert_eq!(read["events"], 400, "{read}");
}
