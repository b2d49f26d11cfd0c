//! `fluxline shm` shows living nodes, and removes what dead ones left, and nothing else.

mod support;

use fluxline::shm::{Shm, ShmConfig};
use fluxline_proto::fabric::{Fabric, Grant, Key, Name, Rights};
use serde_json::Value;
use support::{call, call_json};

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn find<'a>(document: &'a Value, key: &str, group: &str) -> Option<&'a Value> {
    document[key].as_array().expect("a list").iter().find(|node| node["group"] == group)
}

#[test]
fn a_living_node_is_listed_and_not_cleaned_away() {
    let group = format!("test-cli-{}", std::process::id());
    let mut node = Shm::open(&name(&group), &name("owner"), ShmConfig::default()).expect("opens");
    let region = node.register(8192).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: Key(1) };
    node.export(region, name("samples"), grant).expect("a free name");

    let listed = call_json(&["shm", "list"]);
    let entry = find(&listed, "nodes", &group).expect("listed");
    assert_eq!((&entry["node"], &entry["alive"]), (&"owner".into(), &true.into()));
    assert_eq!(entry["regions"][0]["name"], "samples");
    let text = String::from_utf8(call(&["shm", "list"]).stdout).expect("UTF-8");
    assert!(text.lines().any(|line| line.starts_with("alive") && line.contains(&group)), "{text}");

    let cleaned = call_json(&["shm", "clean"]);
    assert!(find(&cleaned, "removed", &group).is_none());
    assert!(find(&call_json(&["shm", "list"]), "nodes", &group).is_some());
    drop(node);
    assert!(find(&call_json(&["shm", "list"]), "nodes", &group).is_none());
}
