//! The manual's page of a scenario's keys, generated from one row per key.

use std::fmt::Write as _;

/// Part of the file, key, default in TOML, and description.
pub(super) type Row = (&'static str, &'static str, &'static str, &'static str);

/// All keys, in the order of the page. A test compares them with the accepted keys.
pub(super) const ROWS: &[Row] = &[
    ("", "title", "\"\"", "heading of the report; empty: the file's name"),
    ("", "seed", "1", "seed of all random choices; `--seed` overrides it"),
    (
        "network",
        "kind",
        "\"sci-ring\"",
        "`sci-ring`, `sci-torus`, `sci-switch`; of generic routers `ring`, `mesh`, `torus`; \
         `ethernet`",
    ),
    ("network", "nodes", "8", "nodes of a ring; for a switch: nodes of each ringlet"),
    ("network", "ports", "4", "ringlets of a switch"),
    ("network", "side", "8", "nodes along each dimension of a mesh or torus"),
    ("network", "dimensions", "2", "dimensions of a mesh or torus"),
    (
        "network",
        "preset",
        "\"lc2\"",
        "SCI cards: `standard`, `lc1`, `lc2`, `lc3`; listed by `fluxline sim presets`",
    ),
    ("network", "link-mb-s", "", "SCI: rate of a link [MB/s]"),
    ("network", "pass-symbols", "", "SCI: from a node's input to its output [2 B symbols]"),
    ("network", "cable-symbols", "", "SCI: length of a cable [2 B symbols]"),
    ("network", "flow-control", "true", "SCI: go bits share the bandwidth"),
    ("network", "retry", "\"aged\"", "SCI: after a busy echo, `aged` (fair) or `plain`"),
    ("network", "send-queue", "", "SCI: packets that wait in a node"),
    ("network", "unacknowledged", "", "SCI: packets of a node that wait for their echo"),
    ("network", "receive-queue", "", "SCI: packets that a node holds for its host"),
    (
        "network",
        "bus-mb-s",
        "",
        "SCI torus and switch: bus between a node's ringlets and its host [MB/s]",
    ),
    ("network", "link-bytes-per-ns", "16", "routers: rate of a link [B/ns]"),
    ("network", "router-ns", "5", "routers: delay of a packet's head [ns]"),
    ("network", "wire-ns", "1", "routers: time on a link [ns]"),
    ("network", "virtual-channels", "2", "routers: virtual channels of a link; rings need 2"),
    ("network", "buffer-bytes", "128", "routers: buffer of each virtual channel [B]"),
    ("network", "packet-bytes", "64", "routers: largest payload of a packet [B]"),
    ("network", "header-bytes", "0", "routers: header of each packet [B]"),
    ("ethernet", "rate", "\"10G\"", "rate of a link [bit/s]: `100M`, `1G`, `10G`, `25G`, `100G`"),
    ("ethernet", "mtu", "1500", "longest IP packet of a frame [B]; longer messages are fragmented"),
    ("ethernet", "queue", "524288", "queue of each port of the switch [B]"),
    (
        "ethernet",
        "forwarding",
        "\"store\"",
        "a frame is forwarded when all of it has arrived (`store`), or its header (`cut`)",
    ),
    ("ethernet", "pause", "\"off\"", "pause frames, IEEE 802.3 annex 31B: `on` or `off`"),
    (
        "ethernet",
        "xoff",
        "",
        "queued bytes above which the switch stops senders [B]; else: no frame is lost",
    ),
    ("ethernet", "xon", "", "queued bytes at which they go on [B]; else: half of `xoff`"),
    (
        "ethernet",
        "mark",
        "",
        "queued bytes above which frames are marked, RFC 3168 [B]; else never",
    ),
    ("ethernet", "cable", "2.0", "length of a cable [m], 5 ns/m"),
    ("ethernet", "switch", "1000.0", "delay of the switch [ns]"),
    (
        "traffic",
        "pattern",
        "\"uniform\"",
        "`uniform`, `neighbour`, `hot-receiver`, `hot-sender`, `bit-complement`, `transpose`, \
         `event-building`",
    ),
    ("traffic", "arrivals", "\"poisson\"", "open loop: `poisson` or `periodic`"),
    (
        "traffic",
        "window",
        "0",
        "closed loop: messages of a node in flight, loads are ignored; 0: open loop",
    ),
    ("traffic", "bytes", "64", "payload of a message [B]; SCI: at most 256"),
    (
        "traffic",
        "sizes",
        "[]",
        "several sizes instead: `[{ bytes = 16, weight = 3 }, { bytes = 64, weight = 1 }]`",
    ),
    (
        "traffic",
        "command",
        "\"move\"",
        "SCI: `move` (done with its echo) or `write` (answered by its target)",
    ),
    ("traffic", "hot", "0", "the hot node of `hot-receiver` and `hot-sender`"),
    ("traffic", "share", "1.0", "share of all messages to the hot receiver"),
    ("traffic", "factor", "4.0", "load of the hot sender relative to the others"),
    ("traffic", "distance", "1", "distance to the neighbour"),
    ("traffic", "builders", "1", "`event-building`: number of builders, which are the last nodes"),
    (
        "traffic",
        "order",
        "\"shifted\"",
        "`event-building`: `shifted` (each source begins with another event) or `together`",
    ),
    (
        "run",
        "loads",
        "[0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]",
        "offered payloads of each node as shares of a link's rate, rising",
    ),
    ("run", "saturation", "false", "also search for the load at which the network saturates"),
    (
        "run",
        "warm-up-us",
        "20.0",
        "virtual time until the first check that latencies have settled [us]",
    ),
    (
        "run",
        "warm-up-max-us",
        "320.0",
        "virtual time after which the measurement starts in any case [us]",
    ),
    ("run", "duration-us", "200.0", "virtual time of the measurement [us]"),
    ("faults", "bit-error-rate", "0.0", "probability that a bit is wrong after a link"),
    ("faults", "dead-nodes", "[]", "nodes that are dead from the start"),
    (
        "faults",
        "at",
        "[]",
        "faults at virtual times: `host:3@1ms` (a program ends), `power:3@1ms`, \
         `cable:3@1ms`, `repair:3@2ms` (of a cable), `restart:3@2ms` (not SCI); routers: \
         `cut:3-4@1ms`, `mend:3-4@2ms`",
    ),
];

/// The page `docs/simulation/scenario.md`.
#[must_use]
pub fn page() -> String {
    let mut out = String::from(
        "# The scenario file\n\n\
         `fluxline sim run FILE` simulates a TOML file. Every key has a default, so an empty file \
         is a ring\nof 8 nodes. An unknown key is an error that names its line. The directory \
         `scenarios` has examples.\nThe command `fluxline sim keys` prints this page.\n",
    );
    let mut part = None;
    for (of, key, default, help) in ROWS {
        if part != Some(of) {
            let heading = if of.is_empty() { "At the top" } else { of };
            let brackets = if of.is_empty() { "" } else { "`" };
            let (open, close) = if of.is_empty() { ("", "") } else { ("[", "]") };
            let _ = writeln!(out, "\n## {brackets}{open}{heading}{close}{brackets}\n");
            out.push_str("| key | default | is |\n| --- | --- | --- |\n");
            part = Some(of);
        }
        let computed = if *of == "ethernet" { "none" } else { "as the preset" };
        let default = if default.is_empty() { computed } else { &format!("`{default}`") };
        let _ = writeln!(out, "| `{key}` | {default} | {help} |");
    }
    out
}
