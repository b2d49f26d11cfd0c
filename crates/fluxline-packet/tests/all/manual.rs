//! The manual of the language: its examples load, and its messages are those that are given.

use std::collections::BTreeMap;

use fluxline_packet::Description;

const MANUAL: &str = include_str!("../../../../docs/packet-descriptions.md");

fn load(text: &str) -> Result<Description, String> {
    Description::load("my-board.toml", text, &BTreeMap::new()).map_err(|error| error.to_string())
}

#[test]
fn every_complete_example_of_the_manual_loads() {
    let blocks: Vec<&str> =
        MANUAL.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 4);
    for block in blocks {
        load(block).unwrap_or_else(|message| panic!("{message}\n{block}"));
    }
}

/// The file around a line of the table of errors.
fn around(line: &str) -> String {
    format!(
        "name = \"my-board\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n[[packet]]\n\
         name = \"data\"\nfields = [\n  {{ name = \"length\", type = \"u16\" }},\n  \
         {{ name = \"counter\", type = \"u64\" }},\n]\n{line}\n"
    )
}

#[test]
fn every_message_of_the_manual_is_the_one_that_is_given() {
    let rows: Vec<(&str, &str)> = MANUAL
        .split("## Common errors")
        .nth(1)
        .expect("the section")
        .split("\n\n")
        .filter_map(|block| block.strip_prefix("    ")?.split_once("\n    "))
        .collect();
    assert!(rows.len() >= 8, "{}", rows.len());
    for (line, message) in rows {
        let given = load(&around(line)).expect_err(line);
        assert_eq!(given, message.trim_end(), "{line}");
    }
}
