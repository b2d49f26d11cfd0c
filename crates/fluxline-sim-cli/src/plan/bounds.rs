//! The bounds of a candidate: no simulation can do better than the link, the core, the memory bus
//! and the disk of each node.

use serde::Serialize;

use super::candidates::Candidate;
use super::load::{Loaded, SourceLoad};

/// The bytes of an Ethernet frame around its IP packet: preamble 8, header 14, check sequence 4,
/// gap 12. Source: IEEE 802.3, clauses 3 and 4.
const FRAME_BYTES: f64 = 38.0;
/// The bytes of a remote write in its IP packet: IPv4 20, UDP 8, BTH 12, ICRC 4. Source:
/// InfiniBand architecture, annex A17 (RoCEv2). The first packet of a message has 16 more.
const WRITE_BYTES: f64 = 44.0;

/// A part of a node, and how busy the load keeps it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The part and its node.
    pub name: String,
    /// The load.
    pub load: f64,
    /// The largest load that it can carry.
    pub capacity: f64,
    /// The unit of both.
    pub unit: &'static str,
}

impl Part {
    /// Returns the load as a share of the capacity.
    pub fn busy(&self) -> f64 {
        self.load / self.capacity
    }
}

/// The numbers of readouts and builders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub readouts: u32,
    pub builders: u32,
}

/// Factors on the assumptions of a bound; 1: unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    pub rate: f64,
    pub size: f64,
    pub link: f64,
    pub core: f64,
    pub memory: f64,
    pub disk: f64,
}

impl Factors {
    pub const NONE: Factors =
        Factors { rate: 1.0, size: 1.0, link: 1.0, core: 1.0, memory: 1.0, disk: 1.0 };
}

/// Returns the rate of payload of a candidate's link \[MB/s\], and its source.
pub fn link_rate(candidate: &Candidate) -> Option<(f64, String)> {
    if let Some(rate) = candidate.link_mb_s {
        return Some((rate, candidate.link_source.clone().unwrap_or_default()));
    }
    let keys = candidate.link.strip_prefix("sim:ethernet")?;
    let key = |name: &str| {
        let pairs = keys.trim_start_matches('?').split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|pair| pair.0 == name).map(|of| of.1)
    };
    let rate = key("rate").unwrap_or("10G");
    let (number, factor) = match rate.strip_suffix('G') {
        Some(number) => (number, 125.0),
        None => (rate.strip_suffix('M')?, 0.125),
    };
    let mtu: f64 = key("mtu").unwrap_or("1500").parse().ok()?;
    let payload = (mtu - WRITE_BYTES) / (mtu + FRAME_BYTES);
    let source = format!("{rate}b/s with headers of RoCEv2 in frames of MTU {mtu}");
    Some((number.parse::<f64>().ok()? * factor * payload, source))
}

/// Returns the parts of all kinds of nodes, the busiest first.
pub fn parts(loaded: &Loaded, candidate: &Candidate, counts: Counts, by: Factors) -> Vec<Part> {
    let scaled =
        |of: &SourceLoad| SourceLoad { packets: of.packets * by.rate, bytes: of.bytes * by.size };
    let largest = |of: Vec<SourceLoad>| {
        of.into_iter().max_by(|a, b| (a.packets * a.bytes).total_cmp(&(b.packets * b.bytes)))
    };
    let all = scaled(&loaded.all());
    let builders = f64::from(counts.builders);
    let nodes = [
        ("sensor", largest(loaded.sources.iter().map(scaled).collect())),
        ("readout", largest(loaded.by_readout(counts.readouts).iter().map(scaled).collect())),
        ("builder", Some(SourceLoad { packets: all.packets / builders, bytes: all.bytes })),
    ];
    let mut parts = Vec::new();
    for (node, load) in nodes.into_iter().filter_map(|of| Some((of.0, of.1?))) {
        of_node(node, &load, candidate, by, &mut parts);
    }
    parts.sort_by(|a, b| b.busy().total_cmp(&a.busy()));
    parts
}

/// Adds the parts of one node.
fn of_node(
    node: &str,
    load: &SourceLoad,
    candidate: &Candidate,
    by: Factors,
    into: &mut Vec<Part>,
) {
    let host = &candidate.host;
    let mb_s = load.packets * load.bytes / 1e6;
    let mut add = |name: &str, load: f64, capacity: f64, unit| {
        into.push(Part { name: format!("{name} of a {node}"), load, capacity, unit });
    };
    if let Some((rate, _)) = link_rate(candidate) {
        add("link", mb_s, rate * by.link, "MB/s");
    }
    if node == "sensor" {
        return;
    }
    let packet_ns = load.bytes.mul_add(host.byte_ns, host.packet_ns) * by.core;
    if packet_ns > 0.0 {
        add("core", load.packets / 1e3, 1e6 / packet_ns, "k/s");
    }
    if let Some(memory) = host.memory_mb_s {
        add("memory bus", mb_s * host.memory_passes.unwrap_or(1.0), memory * by.memory, "MB/s");
    }
    if let Some(disk) = host.disk_mb_s.filter(|_| node == "builder") {
        add("disk", mb_s, disk * by.disk, "MB/s");
    }
}

#[cfg(test)]
mod tests {
    use fluxline_daq::experiment::Experiment;

    use super::super::load::prepare;
    use super::*;

    fn loaded() -> Loaded {
        let board = "[[source]]\nname = \"NAME\"\nformat = \"counter\"\n[source.emulator]\n";
        let boards: String = ["a", "b", "c"].map(|name| board.replace("NAME", name)).concat();
        let text = format!("{boards}[requirements]\nrate-hz = 1000\npacket-bytes = 500\n");
        prepare(Experiment::parse("e.toml", &text).expect("an experiment")).expect("a load")
    }

    fn candidate(link: &str) -> Candidate {
        let text = format!(
            "name = \"c\"\nlink = \"{link}\"\nhost = {{ packet-ns = 900, byte-ns = 0.5, memory-mb-s \
             = 9000, memory-passes = 3, disk-mb-s = 200 }}"
        );
        toml::from_str(&text).expect("a candidate")
    }

    #[test]
    fn more_load_never_makes_the_busiest_part_less_busy() {
        let (loaded, candidate) = (loaded(), candidate("sim:ethernet?rate=1G"));
        let counts = Counts { readouts: 2, builders: 2 };
        let busy = |rate| {
            let by = Factors { rate, ..Factors::NONE };
            parts(&loaded, &candidate, counts, by).first().map_or(0.0, Part::busy)
        };
        let all: Vec<f64> = (1..200).map(|of| busy(f64::from(of) / 10.0)).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
    }

    #[test]
    fn three_boards_in_turns_load_the_first_of_two_readouts_most() {
        let counts = Counts { readouts: 2, builders: 3 };
        let all = parts(&loaded(), &candidate("sim:sci"), counts, Factors::NONE);
        let load = |name: &str| all.iter().find(|part| part.name == name).expect("a part").load;
        // Two boards of 0.5 MB/s at readout-0, one third of 1.5 MB/s at each builder.
        assert!((load("memory bus of a readout") - 3.0).abs() < 1e-9);
        assert!((load("disk of a builder") - 0.5).abs() < 1e-9);
        assert!(all.iter().all(|part| !part.name.starts_with("link")), "SCI has no bound");
    }
}
