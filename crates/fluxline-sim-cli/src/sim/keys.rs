//! `fluxline sim keys`: the keys of a scenario file.

use fluxline_sim::scenario::{KEYS, Key, page};
use serde_json::json;

use crate::say_text;

/// Prints the keys: the page of the manual, or rows for programs.
pub fn show(json: bool) {
    if !json {
        say_text!("{}", page());
        return;
    }
    let row = |key: &Key| {
        let networks: Vec<&str> = key.networks.iter().map(|kind| kind.name()).collect();
        json!({
            "key": key.path(), "default": key.default, "unit": key.unit, "networks": networks,
            "when": key.when.words(), "is": key.help,
        })
    };
    let rows: Vec<serde_json::Value> = KEYS.iter().map(row).collect();
    crate::output::print_json(&json!({ "keys": rows }));
}
