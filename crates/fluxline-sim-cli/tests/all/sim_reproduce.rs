//! `fluxline sim reproduce` as a black box: one verdict for each fact, in all its outputs.

use crate::support::{call, call_json, text};

/// The status of a wrong command line.
const USAGE: i32 = 2;

#[test]
fn an_unknown_set_lists_the_sets() {
    let output = call(&["sim", "reproduce", "scii"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "{message}");
    assert!(message.contains("`scii` is not a set"), "{message}");
    assert!(message.contains("give one of: sci"), "{message}");
}

#[test]
fn the_document_has_every_fact_once_and_the_page_is_the_manuals() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("fidelity.md");
    let document = call_json(&["sim", "reproduce", "--markdown", text(&page)]);
    let sets = document["sets"].as_array().expect("sets");
    for set in sets {
        let facts = set["facts"].as_array().expect("facts");
        assert!(facts.len() > 5);
        for fact in facts {
            let verdict = fact["verdict"].as_str().expect("a verdict");
            let verdicts = ["predicted", "shape", "calibrated", "missed", "repeated"];
            assert!(verdicts.contains(&verdict), "{fact}");
            let chosen = fact["calibrates"].as_array().expect("a list");
            let may_have = !["predicted", "shape"].contains(&verdict);
            assert!(may_have || chosen.is_empty(), "{fact}");
            assert!(verdict != "calibrated" || !chosen.is_empty(), "{fact}");
        }
        assert!(set["parameters"].as_array().is_some_and(|all| all.len() > 10));
        assert!(set["beyond_the_model"].as_array().is_some_and(|all| !all.is_empty()));
    }
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    assert!(std::fs::read_to_string(&page).expect("a page") == manual, "docs/fidelity.md is stale");
}
