//! Errors of wrong experiment files: file, line and column, the line, and the correction.

use crate::support::{call, refused, text};

/// Exit status of a wrong input file.
const INPUT: i32 = 3;

const SOURCE: &str = "[[source]]\nname = 'board'\nformat = 'counter'\n";
const UDP: &str = "[source.udp]\nlisten = ['127.0.0.1:0']\n";

/// Words of the implementation, which a person who writes TOML need not know.
const FOREIGN: [&str; 8] =
    ["untagged", "u64", "u32", "variant", "struct", "a sequence", "serde", "invalid type"];

/// All that the program says about an experiment that it must refuse before a folder is made.
fn said_of(experiment: &str) -> String {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("exp.toml");
    std::fs::write(&file, experiment).expect("written");
    let folder = scratch.path().join("run");
    let output = call(&["run", text(&file), "--folder", text(&folder)]);
    refused(&output, INPUT);
    assert!(!folder.exists(), "refused, and yet a folder was made");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    for word in FOREIGN {
        assert!(!said.contains(word), "`{word}` is in: {said}");
    }
    said
}

/// The message and the excerpt have these parts.
fn assert_says(experiment: &str, parts: &[&str]) {
    let said = said_of(experiment);
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_its_neighbour() {
    let said = said_of(&format!("{SOURCE}{UDP}[events]\ntimeout_ms = 300\n"));
    assert!(said.contains("exp.toml:7:1: `timeout_ms` is not a key here"), "{said}");
    assert!(said.contains("did you mean `timeout-ms`?"), "{said}");
    assert!(said.contains("  7 | timeout_ms = 300\n    | ^\n"), "{said}");
    assert_says(&format!("{SOURCE}{UDP}buffer = 3\n"), &["exp.toml:6:1", "`buffer`", "there are"]);
}

#[test]
fn a_missing_key_is_named_with_what_to_write() {
    assert_says("[[source]]\nname = 'x'\n", &["exp.toml:1:1: `format` is missing", "\"counter\""]);
    assert_says("seconds = 3\n", &["`source` is missing"]);
}

#[test]
fn a_value_of_the_wrong_kind_says_which_kind_is_right() {
    let rows = [
        (
            "ring-slots = 'many'\n",
            "exp.toml:4:14: `ring-slots`: the text \"many\" cannot stand here",
        ),
        ("ring-slots = 'many'\n", "write an integer from 0 to 4294967295"),
        ("ring-slots = -1\n", "the integer -1 is out of range"),
        ("[source.udp]\nlisten = '127.0.0.1:0'\n", "`listen`: the text \"127.0.0.1:0\" cannot"),
        ("[source.udp]\nlisten = '127.0.0.1:0'\n", "write a list"),
        (
            "[source.udp]\nlisten = ['a:1']\ngro = 1\n",
            "`gro`: the integer 1 cannot stand here; write true or false",
        ),
        (
            "[source.pcap]\nfile = 'x.pcap'\nspeed = 'fast'\n",
            "write datagrams per second, \"full\" or",
        ),
        (
            "[source.udp]\nlisten = ['a:1']\n[record]\nsync = 'often'\n",
            "write seconds, \"none\" or",
        ),
        (
            "[source.udp]\nlisten = ['a:1']\n[events]\nrequire = 'all'\n",
            "a number of sources, or a list",
        ),
        (
            "[source.udp]\nlisten = ['a:1']\n[events]\nbuild = 'keys'\n",
            "`build`: \"keys\" is not known",
        ),
        ("[source.udp]\nlisten = ['a:1']\n[events]\nbuild = 'keys'\n", "did you mean \"key\"?"),
        ("udp = 5\n", "`udp`: the integer 5 cannot stand here; write a table"),
    ];
    for (lines, part) in rows {
        assert_says(&format!("{SOURCE}{lines}"), &[part]);
    }
}

#[test]
fn a_value_out_of_its_limits_points_at_its_line() {
    let rows = [
        (
            "ring-slots = 3\n[source.udp]\nlisten = ['127.0.0.1:0']\n",
            "exp.toml:4:14: source `board`: ring-slots = 3",
        ),
        ("[source.udp]\nlisten = []\n", "exp.toml:5:10: source `board`: listen is empty"),
        ("[source.emulator]\nfaults = { drop = 2.0 }\n", "exp.toml:5:19: source `board`: drop = 2"),
        ("[source.raw]\nfile = 'x'\n", "exp.toml:4:1: source `board`: write either record-bytes"),
        (
            "[source.udp]\nlisten = ['a:1']\n[record]\nsync = 0.0\n",
            "exp.toml:7:8: [record] sync = 0",
        ),
        (
            "[source.udp]\nlisten = ['a:1']\n[events]\nwindow-us = 0\n",
            "exp.toml:7:13: [events] window-us",
        ),
        ("", "exp.toml:1:1: source `board` has 0 links"),
    ];
    for (lines, part) in rows {
        assert_says(&format!("{SOURCE}{lines}"), &[part]);
    }
    assert_says(
        &format!("{SOURCE}{UDP}{SOURCE}{UDP}"),
        &["exp.toml:7:8: two sources are named `board`"],
    );
}

#[test]
fn the_same_port_twice_says_so() {
    let two = |a: &str, b: &str| {
        format!(
            "[[source]]\nname = 'a'\nformat = 'counter'\n[source.udp]\nlisten = ['{a}']\n\
             [[source]]\nname = 'b'\nformat = 'counter'\n[source.udp]\n\
             listen = ['127.0.0.1:0', '{b}']\n"
        )
    };
    for (a, b) in [
        ("127.0.0.1:40123", "127.0.0.1:40123"),
        ("0.0.0.0:40123", "127.0.0.1:40123"),
        ("[::1]:40123", "[::]:40123"),
    ] {
        let part =
            format!("source `b` listens on {b}, and source `a` on {a}: that is the same port");
        assert_says(&two(a, b), &["exp.toml:10:26: ", &part, "twice"]);
    }
}

#[test]
fn an_unknown_parameter_and_one_out_of_its_limits_point_at_the_experiments_line() {
    let with = |format: &str, parameters: &str| {
        format!(
            "[[source]]\nname = 'x'\nformat = '{format}'\nparameters = {{ {parameters} }}\n{UDP}"
        )
    };
    assert_says(
        &with("sls", "packets_per_fram = 3"),
        &["exp.toml:4:35: the description `sls` has no parameter", "mean `packets_per_frame`?"],
    );
    assert_says(&with("counter", "rows = 3"), &["exp.toml:4:23", "`rows`", "it has none"]);
    assert_says(&with("sls", "packets_per_frame = 0"), &["exp.toml:4:36", "is 0; write 1 to"]);
    assert_says(&with("countr", ""), &["exp.toml:3:10", "`countr`", "Did you mean `counter`?"]);
}

#[test]
fn a_core_that_is_not_there_is_an_error_that_names_those_that_are() {
    for key in ["readout-core", "recorder-core"] {
        let said = said_of(&format!("{key} = 9999\n{SOURCE}{UDP}"));
        assert!(
            said.contains(&format!("{key} = 9999: this program may not use core 9999")),
            "{said}"
        );
        assert!(said.contains("write 0") || said.contains("write "), "{said}");
    }
    assert_says(
        &format!("{SOURCE}core = 9999\n{UDP}"),
        &["exp.toml:4:8: core = 9999", "leave it out"],
    );
}

#[test]
fn a_wrong_plot_is_shown_with_its_line_and_place() {
    let plot = "[[plot]]\nname = 'a'\nkind = 'histogram'\nx = 'amplitude'\nrange = [0, 9]\n";
    let wrong = |from: &str, to: &str, parts: &[&str]| {
        assert_says(&format!("{SOURCE}{UDP}{}", plot.replace(from, to)), parts);
    };
    wrong("'histogram'", "'histo'", &["exp.toml:8:8", "`kind`", "histogram", "profile"]);
    wrong("amplitude", "amplitud", &["exp.toml:9:5", "plot `a`: `x`", "`amplitude`?"]);
    wrong("[0, 9]", "[9, 0]", &["exp.toml:10:9", "write the lower limit first"]);
    wrong("range = [0, 9]", "bins = 3", &["exp.toml:6", "has no `range`"]);
    wrong("range", "ranges", &["exp.toml:10:1", "`ranges` is not a key here"]);
    wrong("range", "where = 'event.key ='\nrange", &["exp.toml:10:9", "`where`"]);
}
