//! Scenarios: rejected files and their messages, and the agreement of manual and code.

use super::{Kind, PatternName, Scenario};

fn refused(text: &str) -> String {
    Scenario::parse("x.toml", text).expect_err("it is refused").to_string()
}

#[test]
fn an_empty_file_is_the_default() {
    assert_eq!(Scenario::parse("x.toml", "").expect("a scenario"), Scenario::default());
}

#[test]
fn an_unknown_key_is_refused_with_its_line() {
    for part in ["", "[network]\n", "[traffic]\n", "[run]\n", "[faults]\n"] {
        let message = refused(&format!("# a comment\n{part}sed = 3\n"));
        let line = if part.is_empty() { 2 } else { 3 };
        let expected = format!("x.toml:{line}:1: `sed` is not a key here");
        assert!(message.contains(&expected), "{message}");
    }
    let message = refused("[traffic]\nsizes = [\n  { bytes = 3, wight = 1 },\n]\n");
    assert!(message.contains("x.toml:3:"), "{message}");
}

#[test]
fn values_out_of_range_are_refused_in_one_sentence() {
    let cases = [
        ("[network]\nnodes = 1", "`nodes` must give 2 to 65520"),
        ("[network]\nkind = \"torus\"\nside = 300", "the network has 90000 nodes"),
        ("[network]\nkind = \"torus\"\nside = 4000000000\ndimensions = 6", "nodes"),
        ("[network]\nlink-mb-s = nan", "network.link-mb-s is NaN"),
        ("[network]\npacket-bytes = 100", "SCI packets carry 16, 64 or 256"),
        ("[traffic]\nbytes = 0", "traffic.bytes is 0"),
        ("[traffic]\npattern = \"hot-sender\"\nhot = 8", "the nodes are 0 to 7"),
        ("[traffic]\npattern = \"hot-receiver\"\nshare = -0.1", "traffic.share is -0.1"),
        ("[traffic]\npattern = \"transpose\"", "needs a square number of nodes"),
        ("[traffic]\npattern = \"neighbour\"\ndistance = 16", "leads back to the sender"),
        ("[traffic]\npattern = \"event-building\"\nbuilders = 8", "write 1 to 7"),
        ("[traffic]\nwindow = 4\n[run]\nsaturation = true", "in a closed loop"),
        ("[network]\nkind = \"ring\"\nwire-ns = 0", "network.wire-ns is 0; write 1 to"),
        ("[ethernet]\nmtu = 9000", "`ethernet.mtu` has no effect on kind `sci-ring`"),
        ("[network]\nkind = \"ethernet\"\n[ethernet]\nrate = \"9\"", "a rate such as 100M"),
        ("[network]\nkind = \"ethernet\"\n[ethernet]\nqueue = 9", "holds no frame of 1518"),
        ("[network]\nkind = \"ethernet\"\n[ethernet]\nxon = 9", "no effect without pause"),
        ("[network]\nkind = \"ethernet\"\n[traffic]\nbytes = 70000", "at most 65507"),
        ("[run]\nloads = []", "runs nothing"),
        ("[run]\nloads = [0.2, 0.1]", "must rise"),
        ("[run]\nloads = [2.0]", "a value of `run.loads` is 2"),
        ("[run]\nduration-us = inf", "run.duration-us is inf"),
        ("[faults]\ndead-nodes = [8]", "the nodes are 0 to 7"),
        ("[faults]\ndead-nodes = [1, 2, 3, 4, 5, 6, 7]", "fewer than two living nodes"),
        (
            "[network]\nkind = \"mesh\"\n[faults]\nbit-error-rate = 0.001",
            "no effect on kind `mesh`",
        ),
        ("[network]\nkind = \"mesh\"\n[faults]\nat = [\"cut:0-9@1us\"]", "two neighbours"),
        ("[network]\nkind = \"mesh\"\n[faults]\nat = [\"cable:0@1us\"]", "routers have host"),
        ("[faults]\nat = [\"restart:0@1us\"]", "SCI has host, power"),
        ("[faults]\nat = [\"cut:0-1@1us\"]", "SCI has host, power"),
        ("[network]\nkind = \"mesh\"\n[faults]\nat = [\"host:64@1us\"]", "the nodes are 0 to 63"),
        ("[network]\nkind = \"torus\"\nsides = [4, 1]", "network.sides is 1; write 2 to"),
        ("[network]\nkind = \"torus\"\nsides = [2, 2, 2, 2, 2, 2, 2]", "at most 6"),
        ("[network]\nkind = \"sci-switch\"\nringlets = [4, 0]", "numbers above 0"),
        ("[network]\nkind = \"graph\"\nedges = \"x\"", "has no other files"),
        ("[network]\nkind = \"graph\"", "`network.edges` is missing"),
        ("[network]\nkind = \"atoll-graph\"", "`network.edges` is missing"),
        ("[network]\nkind = \"atoll-grid\"\nsides = [4]", "a grid has 2 sides"),
        ("[network]\nkind = \"atoll-full\"\nnodes = 6", "more than 4 cables"),
        ("[network]\nkind = \"atoll-torus\"\nside = 200", "2 to 16384"),
        ("[network]\nkind = \"atoll-ring\"\nnodes = 3\n[atoll]\nclock = 0", "1 to 10000 MHz"),
        ("[network]\nkind = \"atoll-ring\"\n[atoll]\ncable = -1", "write 0 to 1000 m"),
        ("[network]\nkind = \"atoll-ring\"\n[atoll]\nports = 5", "write 1 to 4"),
        ("[network]\nkind = \"atoll-ring\"\n[atoll]\nretransmission = 9", "a window of 9 packets"),
        ("[network]\nkind = \"atoll-ring\"\n[atoll]\nbuffer = 9", "a buffer of 9 bytes"),
        ("[network]\nkind = \"atoll-ring\"\n[faults]\nat = [\"cut:0-4@1us\"]", "two neighbours"),
        ("[network]\nkind = \"atoll-ring\"\n[faults]\nat = [\"restart:0@1us\"]", "ATOLL has host"),
        ("[traffic]\npattern = \"trace\"", "`traffic.trace` is missing"),
        ("[network]\nkind = \"ring\"\npacket-bytes = 1\n[traffic]\nbytes = 99999", "65536 are"),
        ("[[node]]\nnodes = [8]\nload = 0", "`node.0.nodes` has 8; the nodes are 0 to 7"),
        ("[[node]]\nload = 0", "silences every node"),
        ("[[node]]\nload = -1", "node.0.load is -1"),
        ("[[node]]\nload = 1e-9", "write 0, or 0.001"),
        ("[traffic]\nwindow = 2\n[[node]]\nnodes = [1]\nload = 2", "in a closed loop"),
        ("[confidence]\nwidth = 0", "confidence.width is 0"),
        ("[confidence]\nlongest = 0.5", "confidence.longest is 0.5"),
    ];
    for (text, expected) in cases {
        let message = refused(text);
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.contains("x.toml:") && message.ends_with('.'), "{message}");
    }
}

#[test]
fn a_quick_look_keeps_the_first_and_the_last_load() {
    let quick = Scenario::default().quick();
    assert_eq!(quick.run.loads, [0.02, 0.1, 0.2, 0.3]);
    assert_eq!(quick.run.duration_us, Scenario::default().run.duration_us / 10.0);
}

#[test]
fn keys_without_effect_are_refused_with_the_reason() {
    let cases = [
        (
            "[network]\nkind = \"torus\"\nlink-mb-s = 400",
            "`network.link-mb-s` has no effect on kind",
        ),
        (
            "[network]\nkind = \"torus\"\npreset = \"lc2\"",
            "a key of sci-ring, sci-torus, sci-switch",
        ),
        ("[network]\nkind = \"torus\"\nnodes = 4", "`network.nodes` has no effect"),
        ("[atoll]\nclock = 243", "`atoll.clock` has no effect on kind `sci-ring`"),
        ("[network]\nkind = \"atoll-ring\"\nside = 4", "`network.side` has no effect"),
        ("[network]\nkind = \"atoll-grid\"\ndimensions = 2", "`network.dimensions` has no effect"),
        ("[network]\nrouter-ns = 4", "`network.router-ns` has no effect on kind `sci-ring`"),
        ("[network]\nkind = \"mesh\"\nside = 4\nsides = [4, 8]", "has no effect beside `sides`"),
        ("[network]\nkind = \"sci-switch\"\nports = 4\nringlets = [4]", "beside `ringlets`"),
        (
            "[network]\npreset = \"lc1\"\nlink-mb-s = 9\npass-symbols = 1\ncable-symbols = 1",
            "`network.preset` has no effect beside `link-mb-s`",
        ),
        ("[traffic]\nhot = 3", "`traffic.hot` has no effect with pattern `uniform`"),
        ("[traffic]\nfactor = 3.0", "(it is a key of `hot-sender`)"),
        ("[traffic]\nbytes = 3\nsizes = [{ bytes = 1, weight = 1 }]", "beside `sizes`"),
        ("[traffic]\nwindow = 3\narrivals = \"periodic\"", "in a closed loop"),
        ("[traffic]\nwindow = 3\n[run]\nloads = [0.1]", "`run.loads` has no effect in a closed"),
        ("[network]\nkind = \"ring\"\n[traffic]\ncommand = \"write\"", "`traffic.command`"),
        ("[network]\nkind = \"ring\"\n[faults]\ndead-nodes = [1]", "`faults.dead-nodes`"),
        (
            "[confidence]\nwidth = 0.1\n[faults]\nat = [\"cable:1@1us\"]",
            "`confidence.width` has no effect beside `faults.at`",
        ),
    ];
    for (text, expected) in cases {
        let message = refused(text);
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.contains("x.toml:") && message.ends_with("leave it out."), "{message}");
    }
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_one_or_its_part() {
    let cases = [
        ("sede = 3", "did you mean `seed`?"),
        ("[trafic]\nbytes = 3", "did you mean `traffic`?"),
        ("[network]\nnods = 3", "did you mean `nodes`?"),
        ("[network]\nwindow = 3", "it belongs below [traffic]"),
        ("[network]\ncable = 3", "it belongs below [ethernet] or [atoll]"),
        ("[run]\nseed = 3", "write it above the first [part]"),
        ("[[node]]\nnode = 3", "did you mean `nodes`?"),
        ("[confidence]\nzzz = 3", "there are width, longest"),
        ("[network]\nkind = \"tours\"", "did you mean \"torus\"?"),
    ];
    for (text, expected) in cases {
        let message = refused(text);
        assert!(message.contains(expected), "{text}: {message}");
        assert!(message.contains("x.toml:"), "{message}");
    }
}

#[test]
fn the_rows_of_the_manual_are_the_keys_with_their_defaults() {
    let mut all = serde_json::to_value(Scenario::default()).expect("plain data");
    // A list of tables: its keys are those of an empty table.
    all["node"] = serde_json::to_value(super::NodePart::default()).expect("plain data");
    let mut expected = Vec::new();
    for (key, value) in all.as_object().expect("a table") {
        match value {
            serde_json::Value::Object(part) => {
                let rows = part.iter().map(|(name, value)| (key.clone(), name.clone(), value));
                expected.extend(rows.map(|(part, name, value)| (part, name, value.clone())));
            }
            value => expected.push((String::new(), key.clone(), value.clone())),
        }
    }
    let written = |default: &str| match default {
        "" => serde_json::Value::Null,
        _ => serde_json::from_str(default).expect("JSON and TOML write these alike"),
    };
    let mut rows: Vec<_> = super::KEYS
        .iter()
        .map(|key| (key.part.to_string(), key.name.to_string(), written(key.default)))
        .collect();
    let order = |row: &(String, String, serde_json::Value)| (row.0.clone(), row.1.clone());
    rows.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(rows, expected);
}

#[test]
fn the_page_of_the_manual_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulation/scenario.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, super::page()).expect("the page");
    }
    let page = std::fs::read_to_string(path).expect("the page");
    assert!(page == super::page(), "stale: `fluxline sim keys > docs/simulation/scenario.md`");
}

#[test]
fn the_names_of_kinds_are_those_of_the_file() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).expect("a name"), kind.name());
    }
    for name in super::keys::find("traffic", "pattern").expect("a key").help.split('`') {
        let text = format!("[traffic]\npattern = \"{name}\"");
        if let Ok(scenario) = Scenario::parse("x.toml", &text) {
            assert_eq!(scenario.traffic.pattern.name(), name);
        }
    }
    let text = "[traffic]\npattern = \"event-building\"";
    let scenario = Scenario::parse("x.toml", text).expect("a scenario");
    assert_eq!(scenario.traffic.pattern, PatternName::EventBuilding);
}

/// A short run of a small network.
fn small(text: &str) -> Scenario {
    let mut scenario = Scenario::parse("x.toml", text).expect("a scenario");
    (scenario.run.warm_up_us, scenario.run.warm_up_max_us) = (5.0, 40.0);
    scenario.run.duration_us = 60.0;
    scenario
}

const KINDS: [&str; 11] = [
    "[network]\nkind = \"atoll-grid\"\nside = 3",
    "[network]\nkind = \"atoll-torus\"\nsides = [4, 2]",
    "[network]\nkind = \"atoll-ring\"\nnodes = 5\n[atoll]\nports = 1",
    "[network]\nkind = \"atoll-full\"\nnodes = 5\n[atoll]\nclock = 125",
    "[network]\nkind = \"ethernet\"\nnodes = 4\n[ethernet]\nrate = \"1G\"",
    "[network]\nkind = \"sci-ring\"\nnodes = 4",
    "[network]\nkind = \"sci-torus\"\nside = 3",
    "[network]\nkind = \"sci-switch\"\nnodes = 2\nports = 3",
    "[network]\nkind = \"ring\"\nnodes = 6",
    "[network]\nkind = \"mesh\"\nside = 3",
    "[network]\nkind = \"torus\"\nside = 3",
];

#[test]
fn every_kind_of_network_carries_a_light_load_and_repeats_to_the_last_entry() {
    for text in KINDS {
        let scenario = small(text);
        let first = scenario.measure(0.03).expect(text).outcome;
        let again = scenario.measure(0.03).expect(text).outcome;
        assert_eq!(first.fingerprint, again.fingerprint, "{text}");
        let carried = first.accepted_bytes_per_s / first.offered_bytes_per_s;
        assert!((0.8..1.2).contains(&carried), "{text}: {carried}, {} messages", first.messages);
        assert!(first.latency_ns.mean > 1.0, "{text}");
        assert!(first.links.iter().any(|link| link.utilisation > 0.0), "{text}");
        assert!(first.links.iter().all(|link| link.utilisation <= 1.01), "{text}");
        let other = Scenario { seed: 2, ..scenario }.measure(0.03).expect(text).outcome;
        assert_ne!(first.fingerprint, other.fingerprint, "{text}");
    }
}

#[test]
fn answered_writes_and_closed_loops_go_on() {
    for text in KINDS {
        for traffic in ["window = 2", "window = 2\ncommand = \"write\"", "command = \"write\""] {
            if traffic.contains("command") && !text.contains("sci") {
                continue;
            }
            let text = format!("{text}\n[traffic]\n{traffic}");
            let outcome = small(&text).measure(0.03).expect(&text).outcome;
            // An open loop at 3 % of 1 Gb/s makes few.
            let is_slow = text.contains("1G") || text.contains("atoll");
            let least = if is_slow { 10 } else { 30 };
            assert!(outcome.messages > least, "{text}: {} messages", outcome.messages);
        }
    }
}

#[test]
fn a_cut_link_between_routers_costs_its_messages_until_it_is_mended() {
    for network in ["kind = \"torus\"\nside = 4", "kind = \"mesh\"\nside = 4"] {
        let lost = |faults: &str| {
            let text = format!("[network]\n{network}\n[faults]\nat = [{faults}]");
            small(&text).measure(0.2).expect("it goes on").outcome.lost
        };
        assert_eq!(lost(""), 0);
        let (cut, mended) = (lost("\"cut:5-6@10us\""), lost("\"cut:5-6@10us\", \"mend:6-5@20us\""));
        assert!(cut > 50 && mended > 5 && mended < cut / 2, "{cut}, {mended}");
    }
}

#[test]
fn a_cut_atoll_cable_costs_its_messages_until_it_is_mended() {
    let lost = |faults: &str| {
        let network = "kind = \"atoll-grid\"\nside = 3";
        let text = format!("[network]\n{network}\n[faults]\nat = [{faults}]");
        let mut scenario = small(&text);
        scenario.run.duration_us = 200.0;
        scenario.measure(0.2).expect("it goes on").outcome.lost
    };
    assert_eq!(lost(""), 0);
    let (cut, mended) = (lost("\"cut:3-4@10us\""), lost("\"cut:3-4@10us\", \"mend:4-3@40us\""));
    assert!(cut > 20 && mended > 0 && mended < cut / 2, "{cut}, {mended}");
}

#[test]
fn more_host_ports_and_a_faster_bus_shorten_the_wait() {
    let mean = |more: &str| {
        let network = "kind = \"atoll-grid\"\nside = 3";
        let text = format!("[network]\n{network}\n{more}[traffic]\nbytes = 2000\n");
        let mut scenario = small(&text);
        scenario.run.duration_us = 1000.0;
        scenario.measure(0.2).expect("it runs").outcome.latency_ns.mean
    };
    let (four, one) = (mean(""), mean("[atoll]\nports = 1\n"));
    assert!(one > four, "{one} {four}");
    let bus = |host: &str| mean(&format!("[[node]]\nhost = \"{host}\"\n"));
    assert!(bus("pci-32-33") > bus("pci-x-133") && bus("pci-x-133") > four);
}

#[test]
fn a_source_that_crashes_sends_again_after_its_restart() {
    let run = |faults: &str| {
        let text = format!("[network]\nkind = \"ethernet\"\nnodes = 3\n[faults]\nat = [{faults}]");
        small(&text).measure(0.1).expect("it runs").outcome
    };
    let delivered = |faults: &str| run(faults).sources[1].delivered;
    let (all, none) = (delivered(""), delivered("\"host:1@1us\""));
    let again = delivered("\"host:1@1us\", \"restart:1@30us\"");
    assert!(all > 0.0 && none == 0.0 && again > 0.0, "{all}, {none}, {again}");
    let power = delivered("\"power:1@1us\", \"restart:1@30us\"");
    assert!(power > 0.0 && run("\"power:1@1us\", \"restart:1@30us\"").latency_ns.mean < 1e6);
}

#[test]
fn messages_to_a_network_with_a_dead_node_are_given_up_and_said_so() {
    let mut scenario = small("[network]\nnodes = 4\n[faults]\ndead-nodes = [2]");
    // A ringlet counts as dead after 100,000 symbols of 5 ns.
    scenario.run.duration_us = 1500.0;
    let measured = scenario.measure(0.05).expect("it ends");
    assert!(measured.outcome.lost > 0, "nobody passes a dead node");
}
