//! Scenarios as a black box: files beside the scenario, sweeps, keys, and what is refused.

use std::path::Path;

use crate::support::{call, call_json, refused, text};
use parquet::file::reader::{FileReader, SerializedFileReader};

const INPUT: i32 = 3;

/// A short run, for every kind of network.
const SHORT: &str =
    "[run]\nloads = [0.02]\nwarm-up-us = 2.0\nwarm-up-max-us = 8.0\nduration-us = 20.0\n";

/// Writes files into a folder, and returns the path of the first.
fn put(folder: &Path, files: &[[&str; 2]]) -> String {
    for [name, content] in files {
        std::fs::write(folder.join(name), content).expect("written");
    }
    text(&folder.join(files[0][0])).to_string()
}

/// Returns the only point of a scenario.
fn point(file: &str) -> serde_json::Value {
    call_json(&["sim", "run", file])["results"]["points"][0].clone()
}

/// Returns a list of numbers; null is NaN.
fn numbers(value: &serde_json::Value) -> Vec<f64> {
    let list = value.as_array().expect("a list").iter();
    list.map(|of| of.as_f64().unwrap_or(f64::NAN)).collect()
}

#[test]
fn every_shipped_scenario_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(root).expect("scenarios/").flatten() {
        let file = entry.path();
        if file.extension().is_none_or(|of| of != "toml") {
            continue;
        }
        let output = call_json(&["sim", "run", text(&file), "--quick"]);
        let runs = output["sweep"]["runs"].as_array().cloned();
        let all = runs.unwrap_or_else(|| vec![output.clone()]);
        for one in &all {
            let points = one["results"]["points"].as_array().expect("points");
            assert!(points.iter().any(|point| point["messages"].as_u64() > Some(0)), "{file:?}");
        }
        count += 1;
    }
    assert!(count >= 11, "only {count}");
}

#[test]
fn a_graph_of_a_file_carries_messages_between_all_its_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = format!("[network]\nkind = \"graph\"\nedges = \"star.txt\"\n{SHORT}");
    let file = put(folder.path(), &[["s.toml", &scenario], ["star.txt", "0 1\n0 2\n0 3\n"]]);
    let point = point(&file);
    for rate in numbers(&point["targets_mb_s"]) {
        assert!(rate > 0.0, "a node gets nothing: {point}");
    }
    assert_eq!(point["lost"], 0);
    for [edges, says] in [
        ["0 1\n0 0\n", "star.txt:2: a link from node 0 to itself"],
        ["0 1\n2 3\n", "star.txt: node 2 cannot be reached"],
        ["0 1\n1 5\n", "node 2 has no link"],
        ["zero one\n", "is not a link"],
        ["", "the graph has no link"],
    ] {
        put(folder.path(), &[["star.txt", edges]]);
        let message = refused(&call(&["sim", "run", &file]), INPUT);
        assert!(message.contains(says) && message.contains("s.toml:3:"), "{message}");
    }
    std::fs::remove_file(folder.path().join("star.txt")).expect("removed");
    let message = refused(&call(&["sim", "run", &file]), INPUT);
    assert!(message.contains("star.txt cannot be read"), "{message}");
}

#[test]
fn a_trace_is_sent_message_by_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let head = "[traffic]\npattern = \"trace\"\ntrace = \"t.txt\"\n[run]\nduration-us = 30.0\n";
    let trace = "0 0 1 64\n100 1 0 300\n2000, 3, 1, 64\n";
    for kind in ["kind = \"sci-ring\"\nnodes = 4", "kind = \"mesh\"\nside = 2"] {
        let scenario = format!("[network]\n{kind}\n{head}");
        let file = put(folder.path(), &[["s.toml", &scenario], ["t.txt", trace]]);
        let point = point(&file);
        assert_eq!(point["messages"], 3, "{kind}: {point}");
        assert_eq!((&point["lost"], &point["in_flight"]), (&0.into(), &0.into()));
        for [trace, says] in [
            ["5 0 1 64\n4 0 1 64\n", "t.txt:2: a message at 4 ns after one at 5 ns"],
            ["0 0 4 64\n", "t.txt:1: node 4 does not exist; the nodes are 0 to 3"],
            ["0 2 2 64\n", "node 2 sends to itself"],
            ["0 0 1\n", "is not a message"],
        ] {
            put(folder.path(), &[["t.txt", trace]]);
            let message = refused(&call(&["sim", "run", &file]), INPUT);
            assert!(message.contains(says) && message.ends_with('.'), "{message}");
        }
    }
}

#[test]
fn nodes_have_loads_and_hosts_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = "[[node]]\nnodes = [1]\nload = 4.0\n[[node]]\nnodes = [2]\nload = 0\n";
    for kind in ["kind = \"sci-ring\"\nnodes = 4", "kind = \"torus\"\nside = 2"] {
        let scenario = format!("[network]\n{kind}\n{nodes}{SHORT}").replace("20.0", "200.0");
        let rates = numbers(&point(&put(folder.path(), &[["s.toml", &scenario]]))["sources_mb_s"]);
        assert!(rates[2].is_nan(), "node 2 is silent: {rates:?}");
        assert!((2.5..6.0).contains(&(rates[1] / rates[0])), "node 1 sends fourfold: {rates:?}");
    }
    // A host adds at least the time of its bus: 64 bytes at 133 MB/s.
    let latency = |host: &str| {
        let scenario = format!("[network]\nnodes = 4\n[[node]]\nhost = \"{host}\"\n{SHORT}");
        let point = point(&put(folder.path(), &[["s.toml", &scenario]]));
        point["latency_us"]["mean"].as_f64().expect("a number")
    };
    assert!(latency("pci-32-33") > latency("none") + 2.0 * 0.48);
    let scenario = "[[node]]\nhost = \"pci-32-34\"\n";
    let message =
        refused(&call(&["sim", "run", &put(folder.path(), &[["s.toml", scenario]])]), INPUT);
    assert!(message.contains("did you mean \"pci-32-33\""), "{message}");
}

#[test]
fn a_sweep_measures_each_value_and_its_tables_say_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = "[sweep]\nkey = \"network.nodes\"\nfrom = 4\nto = 8\nstep = 2\n";
    let file = put(folder.path(), &[["s.toml", &format!("{SHORT}{sweep}")]]);
    let report = folder.path().join("report");
    let output = call_json(&["sim", "run", &file, "--report", text(&report)]);
    let runs = output["sweep"]["runs"].as_array().expect("runs");
    let values: Vec<&str> = runs.iter().filter_map(|run| run["value"].as_str()).collect();
    assert_eq!(values, ["4", "6", "8"]);
    let nodes =
        |run: &serde_json::Value| numbers(&run["results"]["points"][0]["sources_mb_s"]).len();
    assert_eq!(runs.iter().map(nodes).collect::<Vec<_>>(), [4, 6, 8]);
    let alone = put(folder.path(), &[["a.toml", &format!("[network]\nnodes = 6\n{SHORT}")]]);
    let alone = call_json(&["sim", "run", &alone]);
    assert_eq!(runs[1]["results"]["fingerprint"], alone["results"]["fingerprint"]);
    let html = std::fs::read_to_string(report.join("report.html")).expect("a report");
    assert!(html.contains("network.nodes"));
    for [sweep, says] in [
        ["key = \"network.nods\"\nvalues = [2]", "did you mean `network.nodes`"],
        ["key = \"network.nodes\"", "has no value"],
        ["key = \"network.nodes\"\nvalues = [4, 1]", "in the sweep, with network.nodes = 1"],
        ["key = \"network.nodes\"\nvalues = [\"four\"]", "the value four does not fit"],
        ["key = \"network.nodes\"\nfrom = 2\nto = 9", "needs `from`, `to` and `step`"],
        ["key = \"network.nodes\"\nfrom = 2\nto = 9\nstep = 0", "must be above 0"],
        ["key = \"network.nodes\"\nfrom = 2\nto = 9999\nstep = 1", "more than 200 values"],
        ["key = \"network.side\"\nvalues = [2]", "has no effect on kind `sci-ring`"],
        ["key = \"node.load\"\nvalues = [2]", "does not fit `node.load`"],
    ] {
        let scenario = format!("{SHORT}[sweep]\n{sweep}\n");
        let file = put(folder.path(), &[["s.toml", &scenario]]);
        let message = refused(&call(&["sim", "run", &file]), INPUT);
        assert!(message.contains(says), "{sweep}: {message}");
    }
}

#[test]
fn tables_and_json_carry_seed_units_and_fingerprint() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = put(folder.path(), &[["s.toml", SHORT]]);
    let report = folder.path().join("report");
    let output = call_json(&["sim", "run", &file, "--seed", "7", "--report", text(&report)]);
    assert_eq!(output["seed"], 7);
    assert_eq!(output["fingerprint"], output["results"]["fingerprint"]);
    assert_eq!(output["units"]["accepted_mb_s"], "MB/s");
    for table in ["points", "nodes", "links", "latency"] {
        let file = std::fs::File::open(report.join(format!("{table}.parquet"))).expect("a table");
        let reader = SerializedFileReader::new(file).expect("Parquet");
        let metadata = reader.metadata().file_metadata();
        let notes = metadata.key_value_metadata().expect("notes");
        let note = |key: &str| {
            let note =
                notes.iter().find(|note| note.key == key).and_then(|note| note.value.clone());
            note.unwrap_or_else(|| panic!("{table} has no note {key}"))
        };
        assert_eq!(note("seed"), "7");
        assert_eq!(output["fingerprint"], note("fingerprint"));
        assert!(note("scenario").contains("\"seed\":7"));
        let schema = parquet::arrow::parquet_to_arrow_schema(
            metadata.schema_descr(),
            metadata.key_value_metadata(),
        );
        let schema = schema.expect("a schema");
        let unit =
            |name: &str| schema.field_with_name(name).expect(name).metadata().get("unit").cloned();
        assert_eq!(unit("load").as_deref(), Some("1"), "{table}");
        if table == "points" {
            assert_eq!(unit("mean_us").as_deref(), Some("us"));
        }
    }
}

#[test]
fn keys_without_effect_are_refused_and_all_keys_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    for [content, says] in [
        [
            "[network]\nkind = \"torus\"\nlink-mb-s = 400\n",
            "s.toml:3:13: `network.link-mb-s` has no",
        ],
        ["[network]\nkind = \"ring\"\npreset = \"lc2\"\n", "leave it out."],
        ["[traffic]\nhot = 3\n", "with pattern `uniform`"],
        ["[network]\nwindow = 3\n", "it belongs below [traffic]"],
    ] {
        let file = put(folder.path(), &[["s.toml", content]]);
        let message = refused(&call(&["sim", "run", &file]), INPUT);
        assert!(message.contains(says), "{content}: {message}");
    }
    let keys = call_json(&["sim", "keys"]);
    let keys = keys["keys"].as_array().expect("keys");
    let rate = keys.iter().find(|key| key["key"] == "network.link-mb-s").expect("a key");
    assert_eq!(rate["unit"], "MB/s");
    assert_eq!(rate["networks"], serde_json::json!(["sci-ring", "sci-torus", "sci-switch"]));
    let help = String::from_utf8(call(&["sim", "--help"]).stdout).expect("UTF-8");
    assert!(help.contains("keys"), "{help}");
}

#[test]
fn a_timed_fault_loses_messages_once_and_a_network_without_it_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let faults = "[faults]\nat = [\"cable:1@50us\", \"repair:1@900us\"]\n";
    let run =
        "[run]\nloads = [0.05]\nwarm-up-us = 5.0\nwarm-up-max-us = 5.0\nduration-us = 3000.0\n";
    let file = put(folder.path(), &[["s.toml", &format!("[network]\nnodes = 4\n{run}{faults}")]]);
    let point = point(&file);
    let count = |key: &str| point[key].as_u64().expect("a count");
    assert!(count("lost") > 0, "a cut cable loses messages: {point}");
    assert!(count("in_flight") < 200, "after the repair, the queues are empty again: {point}");
    assert_eq!(point["precision"], "not-asked");
    let scenario = format!("[network]\nkind = \"mesh\"\nside = 2\n{SHORT}{faults}");
    let file = put(folder.path(), &[["s.toml", &scenario]]);
    let message = refused(&call(&["sim", "run", &file]), INPUT);
    assert!(message.contains("routers have host, restart, cut and mend"), "{message}");
}

#[test]
fn wrong_scenario_is_shown_with_line_column_and_nearest_key() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("net.toml");
    for (wrong, part) in [
        (
            "[network]\nkin = 'ringlet'\n",
            "net.toml:2:1: `kin` is not a key here; did you mean `kind`?",
        ),
        ("[network]\nlink-mb-s = -1\n", "net.toml:2:13: network.link-mb-s is -1"),
        ("[run]\nloads = 'all'\n", "net.toml:2:9: `loads`: the text \"all\" cannot stand here"),
    ] {
        std::fs::write(&file, wrong).expect("written");
        let output = call(&["sim", "run", text(&file)]);
        let sentence = refused(&output, INPUT);
        assert!(sentence.contains(part), "{sentence}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("  2 | "), "{said}");
    }
}
