//! The keys of a scenario file: one row each, for the reader, its refusals, the listing and the
//! manual.

use super::{Kind, PatternName};

/// A key of the scenario file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The part of the file; empty: the top.
    pub part: &'static str,
    /// The name.
    pub name: &'static str,
    /// The default in TOML; empty: it depends on other keys.
    pub default: &'static str,
    /// The unit; empty: a plain number, a name or a list.
    pub unit: &'static str,
    /// The kinds of network on which it has an effect.
    pub networks: &'static [Kind],
    /// A condition beside the network.
    pub when: When,
    /// The description.
    pub help: &'static str,
}

/// The condition under which a key has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every scenario.
    Always,
    /// With one of these patterns of traffic.
    Pattern(&'static [PatternName]),
    /// In an open loop whose messages are generated.
    OpenLoop,
    /// With generated messages, not those of a trace.
    Generated,
    /// While another key, which replaces it, is not given.
    Without(&'static str),
    /// While the three keys that say all that a preset says are not given together.
    PresetCounts,
    /// In runs that may be longer than the shortest measurement.
    Steady,
    /// With hosts on Ethernet.
    Stack,
}

impl Key {
    /// Returns the path, such as `network.nodes`.
    #[must_use]
    pub fn path(&self) -> String {
        match self.part {
            "" => self.name.to_owned(),
            part => format!("{part}.{}", self.name),
        }
    }

    const fn unit(self, unit: &'static str) -> Key {
        Key { unit, ..self }
    }

    const fn on(self, networks: &'static [Kind]) -> Key {
        Key { networks, ..self }
    }

    const fn when(self, when: When) -> Key {
        Key { when, ..self }
    }

    /// Returns the networks and the condition in words.
    #[must_use]
    pub fn holds(&self) -> String {
        let networks = match self.networks.len() {
            all if all == Kind::ALL.len() => "all".to_owned(),
            _ => self.families().join(", "),
        };
        match self.when.words() {
            None => networks,
            Some(words) => format!("{networks}; {words}"),
        }
    }
}

impl Key {
    /// Returns the names of its networks; a family whose kinds all have the key is one name.
    fn families(&self) -> Vec<&'static str> {
        let mut rest = self.networks.to_vec();
        let mut names = Vec::new();
        for (name, family) in [("SCI", SCI), ("routers", ROUTERS), ("ATOLL", ATOLL)] {
            if family.iter().all(|kind| rest.contains(kind)) {
                rest.retain(|kind| !family.contains(kind));
                names.push(name);
            }
        }
        names.extend(rest.iter().map(|kind| kind.name()));
        names
    }
}

impl When {
    /// Describes the condition; `None`: there is none.
    #[must_use]
    pub fn words(self) -> Option<String> {
        Some(match self {
            When::Always => return None,
            When::Pattern(patterns) => {
                let names: Vec<&str> = patterns.iter().map(|pattern| pattern.name()).collect();
                format!("pattern {}", names.join(" or "))
            }
            When::OpenLoop => "open loop".to_owned(),
            When::Generated => "generated traffic".to_owned(),
            When::Without(key) => format!("without `{key}`"),
            When::PresetCounts => {
                "unless `link-mb-s`, `pass-symbols` and `cable-symbols` are given".to_owned()
            }
            When::Steady => "without `faults.at` and traces".to_owned(),
            When::Stack => "with `host.stack`".to_owned(),
        })
    }
}

const fn key(
    part: &'static str,
    name: &'static str,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { part, name, default, unit: "", networks: &Kind::ALL, when: When::Always, help }
}

const fn network(name: &'static str, default: &'static str, help: &'static str) -> Key {
    key("network", name, default, help)
}

const fn ethernet(name: &'static str, default: &'static str, help: &'static str) -> Key {
    key("ethernet", name, default, help).on(ETHERNET)
}

const fn host(name: &'static str, unit: &'static str, help: &'static str) -> Key {
    key("host", name, "", help).unit(unit).on(ETHERNET).when(When::Stack)
}

const fn atoll(name: &'static str, default: &'static str, help: &'static str) -> Key {
    key("atoll", name, default, help).on(ATOLL)
}

const fn traffic(name: &'static str, default: &'static str, help: &'static str) -> Key {
    key("traffic", name, default, help)
}

const SCI: &[Kind] = &[Kind::SciRing, Kind::SciTorus, Kind::SciSwitch];
const BUSES: &[Kind] = &[Kind::SciTorus, Kind::SciSwitch];
const ROUTERS: &[Kind] = &[Kind::Ring, Kind::Mesh, Kind::Torus, Kind::Graph];
const ATOLL: &[Kind] =
    &[Kind::AtollGrid, Kind::AtollTorus, Kind::AtollRing, Kind::AtollFull, Kind::AtollGraph];
/// Networks with a number of dimensions.
const CUBES: &[Kind] = &[Kind::SciTorus, Kind::Mesh, Kind::Torus];
const GRIDS: &[Kind] =
    &[Kind::SciTorus, Kind::Mesh, Kind::Torus, Kind::AtollGrid, Kind::AtollTorus];
const LINES: &[Kind] =
    &[Kind::SciRing, Kind::SciSwitch, Kind::Ring, Kind::Ethernet, Kind::AtollRing, Kind::AtollFull];
const ETHERNET: &[Kind] = &[Kind::Ethernet];
/// Networks whose messages are cut into packets of a given size.
const CUT: &[Kind] = &[
    Kind::SciRing,
    Kind::SciTorus,
    Kind::SciSwitch,
    Kind::Ring,
    Kind::Mesh,
    Kind::Torus,
    Kind::Graph,
    Kind::AtollGrid,
    Kind::AtollTorus,
    Kind::AtollRing,
    Kind::AtollFull,
    Kind::AtollGraph,
];
/// Networks with wrong bits and cables.
const WIRES: &[Kind] = &[
    Kind::SciRing,
    Kind::SciTorus,
    Kind::SciSwitch,
    Kind::Ethernet,
    Kind::AtollGrid,
    Kind::AtollTorus,
    Kind::AtollRing,
    Kind::AtollFull,
    Kind::AtollGraph,
];
const HOT: &[PatternName] = &[PatternName::HotReceiver, PatternName::HotSender];

/// All keys, in the order of the manual.
pub const KEYS: &[Key] = &[
    key("", "title", "\"\"", "heading of the report; empty: the file's name"),
    key("", "seed", "1", "seed of all random choices; `--seed` overrides it"),
    network(
        "kind",
        "\"sci-ring\"",
        "`sci-ring`, `sci-torus`, `sci-switch`; of generic routers `ring`, `mesh`, `torus`, \
         `graph`; `ethernet`; of ATOLL `atoll-grid`, `atoll-torus`, `atoll-ring`, `atoll-full`, \
         `atoll-graph`",
    ),
    network(
        "nodes",
        "8",
        "nodes of a ring, an Ethernet or a full wiring (at most 5); for an SCI switch: of each \
         ringlet",
    )
    .on(LINES)
    .when(When::Without("ringlets")),
    network("ports", "4", "ringlets of a switch")
        .on(&[Kind::SciSwitch])
        .when(When::Without("ringlets")),
    network("ringlets", "[]", "nodes of each ringlet, if they differ: `[4, 4, 2]`")
        .on(&[Kind::SciSwitch]),
    network("side", "8", "nodes along each dimension").on(GRIDS).when(When::Without("sides")),
    network("dimensions", "2", "number of dimensions").on(CUBES).when(When::Without("sides")),
    network("sides", "[]", "nodes along each dimension, if they differ: `[4, 8]`").on(GRIDS),
    network("edges", "\"\"", "file with the links of a graph: two node numbers a line")
        .on(&[Kind::Graph, Kind::AtollGraph]),
    network(
        "preset",
        "\"lc2\"",
        "cards: `standard`, `lc1`, `lc2`, `lc3`; listed by `fluxline sim presets`",
    )
    .on(SCI)
    .when(When::PresetCounts),
    network("link-mb-s", "", "rate of a link").unit("MB/s").on(SCI),
    network("pass-symbols", "", "from a node's input to its output").unit("2 B symbols").on(SCI),
    network("cable-symbols", "", "length of a cable").unit("2 B symbols").on(SCI),
    network("flow-control", "true", "go bits share the bandwidth").on(SCI),
    network("retry", "\"aged\"", "after a busy echo, `aged` (fair) or `plain`").on(SCI),
    network("send-queue", "", "packets that wait in a node").unit("packets").on(SCI),
    network("unacknowledged", "", "packets of a node that wait for their echo")
        .unit("packets")
        .on(SCI),
    network("receive-queue", "", "packets that a node holds for its host").unit("packets").on(SCI),
    network("bus-mb-s", "", "bus between a node's ringlets and its host").unit("MB/s").on(BUSES),
    network("link-bytes-per-ns", "16", "rate of a link").unit("B/ns").on(ROUTERS),
    network("router-ns", "5", "delay of a packet's head").unit("ns").on(ROUTERS),
    network("wire-ns", "1", "time on a link, each way").unit("ns").on(ROUTERS),
    network("credit-ns", "0", "time that routers add to the way of a credit back over the link")
        .unit("ns")
        .on(ROUTERS),
    network("virtual-channels", "2", "virtual channels of a link; ring and torus need 2")
        .on(ROUTERS),
    network("buffer-bytes", "128", "buffer of each virtual channel").unit("B").on(ROUTERS),
    network(
        "packet-bytes",
        "64",
        "largest payload of a packet; longer messages are several packets; SCI: 16, 64 or 256; \
         ATOLL counts a message's header of 8 bytes",
    )
    .unit("B")
    .on(CUT),
    network("header-bytes", "0", "header of each packet").unit("B").on(ROUTERS),
    ethernet("rate", "\"10G\"", "rate of a link: `100M`, `1G`, `10G`, `25G`, `100G`").unit("bit/s"),
    ethernet("mtu", "1500", "longest IP packet of a frame; longer messages are fragmented")
        .unit("B"),
    ethernet("queue", "524288", "queue of each port of the switch").unit("B"),
    ethernet(
        "forwarding",
        "\"store\"",
        "a frame is forwarded when all of it has arrived (`store`), or its header (`cut`)",
    ),
    ethernet("pause", "\"off\"", "pause frames, IEEE 802.3 annex 31B: `on` or `off`"),
    ethernet(
        "xoff",
        "",
        "queued bytes above which the switch stops senders; without it no frame is lost",
    )
    .unit("B"),
    ethernet("xon", "", "queued bytes at which they go on; without it half of `xoff`").unit("B"),
    ethernet(
        "mark",
        "",
        "queued bytes above which frames are marked, RFC 3168; without it none is marked",
    )
    .unit("B"),
    ethernet("cable", "2.0", "length of a cable, 5 ns/m").unit("m"),
    ethernet("switch", "1000.0", "delay of the switch").unit("ns"),
    key(
        "host",
        "stack",
        "\"none\"",
        "PC of every node: `pci-e` (2007, 10 Gb/s card), `pci-x` (2003, 10 Gb/s card), `pci` (2003, \
         1 Gb/s card); `none`: hosts cost no time",
    )
    .on(ETHERNET),
    host(
        "coalescing",
        "",
        "interrupts of received frames: `off`, `delay` (after the first frame) or `throttle` \
         (minimum gap); without it the PC's",
    ),
    host("coalescing-us", "us", "the delay or the gap; without it the PC's, or 25"),
    host("cores", "", "1: one core for all; 2: one for interrupts, one for the program"),
    host("send-buffer", "B", "send buffer of a socket, in true sizes; then calls wait"),
    host("receive-buffer", "B", "receive buffer of a socket, in true sizes; more is lost"),
    host("driver-queue", "frames", "frames that wait for the card; more are lost"),
    host("ring", "frames", "receive ring of the card; more are lost"),
    host("backlog", "frames", "frames between interrupt and softirq; 0: the driver polls"),
    host("send-ns", "ns", "a call to send"),
    host("receive-ns", "ns", "work of the softirq for a received frame"),
    host("copy-ns", "ns/B", "copy of a byte by a call"),
    atoll("clock", "250.0", "clock of crossbars and links, a byte a clock; hosts do not change")
        .unit("MHz"),
    atoll("cable", "5.0", "length of each cable, 5 ns/m").unit("m"),
    atoll(
        "routing",
        "\"dimension\"",
        "paths: `dimension` (order), `shortest`; `updown`, `nue` without deadlocks",
    ),
    atoll("ports", "4", "host ports of a node whose processes send in turn"),
    atoll("queue", "64", "messages that wait at each host port").unit("messages"),
    atoll("buffer", "256", "buffer of each link input; long cables enlarge the default").unit("B"),
    atoll("go", "128", "fill of the buffer at which a stopped sender goes on").unit("B"),
    atoll("retransmission", "4", "packets in the retransmission buffer of a link").unit("packets"),
    traffic(
        "pattern",
        "\"uniform\"",
        "`uniform`, `neighbour`, `hot-receiver`, `hot-sender`, `bit-complement`, `transpose`, \
         `event-building`, `trace`",
    ),
    traffic(
        "trace",
        "\"\"",
        "file with the messages: time [ns], source, target and bytes a line, in order of time",
    )
    .when(When::Pattern(&[PatternName::Trace])),
    traffic("arrivals", "\"poisson\"", "`poisson` or `periodic`").when(When::OpenLoop),
    traffic(
        "window",
        "0",
        "closed loop: messages of a node in flight, or events that are open; loads are ignored; \
         0: open loop",
    )
    .when(When::Generated),
    traffic("bytes", "64", "payload of a message or fragment")
        .unit("B")
        .when(When::Without("sizes")),
    traffic(
        "sizes",
        "[]",
        "several sizes instead: `[{ bytes = 16, weight = 3 }, { bytes = 64, weight = 1 }]`",
    )
    .when(When::Generated),
    traffic(
        "command",
        "\"move\"",
        "`move` (done with its echo) or `write` (answered by its target)",
    )
    .on(SCI),
    traffic("hot", "0", "the hot node").when(When::Pattern(HOT)),
    traffic("share", "1.0", "share of all messages to the hot receiver")
        .when(When::Pattern(&[PatternName::HotReceiver])),
    traffic("factor", "4.0", "load of the hot sender relative to the others")
        .when(When::Pattern(&[PatternName::HotSender])),
    traffic("distance", "1", "distance to the neighbour")
        .when(When::Pattern(&[PatternName::Neighbour])),
    traffic("builders", "1", "number of builders, which are the last nodes")
        .when(When::Pattern(&[PatternName::EventBuilding])),
    traffic(
        "order",
        "\"shifted\"",
        "`shifted` (each source begins with another event), `together` (all send the oldest \
         event) or `credits` (builders ask for fragments by messages of 8 bytes)",
    )
    .when(When::Pattern(&[PatternName::EventBuilding])),
    traffic("credits", "2", "fragments that a builder asks for at a time, with order `credits`")
        .when(When::Pattern(&[PatternName::EventBuilding])),
    traffic(
        "builder-bytes",
        "1048576",
        "memory of a builder; fragments of events that do not fit wait at their sources",
    )
    .unit("B")
    .when(When::Pattern(&[PatternName::EventBuilding])),
    traffic("patience-us", "1000.0", "time after which a builder gives up an incomplete event")
        .unit("us")
        .when(When::Pattern(&[PatternName::EventBuilding])),
    key("node", "nodes", "[]", "numbers of the nodes that a table describes; empty: all nodes"),
    key("node", "load", "", "load or fragments relative to other nodes; 0: the node sends nothing")
        .when(When::Generated),
    key(
        "node",
        "host",
        "",
        "bus between memory and card, which each message crosses: `pci-32-33`, `pci-64-66`, \
         `pci-x-100`, `pci-x-133`; `none`: no delay",
    ),
    key(
        "run",
        "loads",
        "[0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]",
        "offered payloads of each node as shares of a link's rate, rising",
    )
    .when(When::OpenLoop),
    key("run", "saturation", "false", "also search for the load at which the network saturates")
        .when(When::OpenLoop),
    key(
        "run",
        "warm-up-us",
        "20.0",
        "virtual time until the first check that latencies have settled",
    )
    .unit("us")
    .when(When::Generated),
    key(
        "run",
        "warm-up-max-us",
        "320.0",
        "virtual time after which the measurement starts in any case",
    )
    .unit("us")
    .when(When::Generated),
    key(
        "run",
        "duration-us",
        "200.0",
        "shortest virtual time of the measurement; of a trace: the time after its last message",
    )
    .unit("us"),
    key(
        "confidence",
        "width",
        "0.05",
        "half the 95 % interval of the mean latency, as a share of the mean: the target",
    )
    .when(When::Steady),
    key(
        "confidence",
        "longest",
        "8.0",
        "longest measurement, as a multiple of `run.duration-us`; 1: no extension",
    )
    .when(When::Steady),
    key("faults", "bit-error-rate", "0.0", "probability that a bit is wrong after a link")
        .on(WIRES),
    key("faults", "dead-nodes", "[]", "nodes that are dead from the start").on(WIRES),
    key(
        "faults",
        "at",
        "[]",
        "faults at virtual times: `host:3@1ms` (a program ends); SCI, Ethernet and ATOLL also \
         `power:3@1ms`, `cable:3@1ms`, `repair:3@2ms` (of a cable); routers and Ethernet \
         `restart:3@2ms`; routers and ATOLL `cut:3-4@1ms`, `mend:3-4@2ms`",
    ),
    key("sweep", "key", "\"\"", "key that takes several values, such as `network.nodes`"),
    key("sweep", "values", "[]", "the values").when(When::Without("from")),
    key("sweep", "from", "", "first value of a range"),
    key("sweep", "to", "", "end of the range, included"),
    key("sweep", "step", "", "distance of the values"),
];

/// Returns the key of a part and a name.
#[must_use]
pub fn find(part: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.part == part && key.name == name)
}
