//! Nodes in a program, with a filter function: each event is kept or counted, and nodes with
//! another function are refused.
#![cfg(feature = "client")]

#[path = "../examples/filter_function.rs"]
#[allow(dead_code, reason = "the example has a main function")]
mod example;
mod support;

use support::broker::Broker;

#[test]
fn function_of_a_program_decides_on_other_events_than_its_own() {
    let broker = Broker::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let counts = example::run(&broker.address, "function", folder.path(), "even keys, 1")
        .expect("the run ends");
    assert_eq!(counts.events_kept, example::PACKETS / 2);
    assert_eq!(counts.events_filtered, example::PACKETS / 2);
    assert_eq!(counts.filtered, 4 * example::PACKETS / 2);
    assert_eq!(counts.events, example::PACKETS / 2);
}

#[test]
fn nodes_with_two_versions_of_a_function_share_a_run() {
    let broker = Broker::shared();
    let folder = tempfile::tempdir().expect("a folder");
    let refused = example::run(&broker.address, "versions", folder.path(), "even keys, 2");
    let sentence = refused.expect_err("two functions").to_string();
    assert!(sentence.contains("experiment"), "{sentence}");
}
