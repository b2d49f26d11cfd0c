//! A case of a campaign: the sizes and faults of one run, drawn from a seed or read from text.

use std::fmt;

use fluxline_core::random::Draw;
use fluxline_daq::experiment::{Experiment, Nodes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Networks that a case may draw.
pub const NETWORKS: [&str; 6] = ["sci", "atoll", "ethernet", "myrinet", "qsnet", "infiniband"];
/// Virtual time at which boards begin to send \[ms\].
pub const BEGIN_MS: u64 = 20;

/// Sizes and faults of a run. Values that equal the defaults are left out of its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Case {
    /// The seed of boards, network and disk.
    pub seed: u64,
    /// The network with its keys, as behind `sim:`.
    pub network: String,
    /// The chance of a lost frame; Ethernet alone has it.
    pub loss: f64,
    /// The chance of a wrong bit on a link.
    pub bits: f64,
    /// Number of readouts.
    pub readouts: u32,
    /// Number of builders.
    pub builders: u32,
    /// Number of sources of the file that take part, from the first on.
    pub sources: u32,
    /// Emulated boards of each source.
    pub boards: u32,
    /// Packets of each emulated board.
    pub packets: u64,
    /// Payload of each emulated packet \[byte\]; 0: as in the file.
    pub payload: u32,
    /// Packets per second of each emulated board.
    pub rate: u64,
    /// The chance that a packet is never sent.
    pub drop: f64,
    /// The chance that a packet is sent twice.
    pub duplicate: f64,
    /// The chance that a packet is overtaken.
    pub reorder: f64,
    /// The chance that a bit of a packet is wrong.
    pub corrupt: f64,
    /// The chance that a board is silent before a packet.
    pub stall: f64,
    /// The time of a silence \[ms\].
    pub stall_ms: u64,
    /// The chance that a board restarts before a packet.
    pub restart: f64,
    /// The time by which the last source begins late \[ms\].
    pub late_ms: u64,
    /// Age at which records go to the builders \[us\].
    pub record_us: u64,
    /// Work of a readout for a packet \[ns\].
    pub readout_ns: u64,
    /// Work of a builder for a packet \[ns\].
    pub builder_ns: u64,
    /// Size of a batch \[byte\].
    pub batch_bytes: u64,
    /// Memory of the open events of a builder \[byte\]; 0: as in the file.
    pub bytes_max: u64,
    /// Memory of a readout for records that a successor of their builder needs \[byte\].
    pub keep_bytes: u64,
    /// Faults of nodes and cables, joined by commas: `host:builder-1@30ms`.
    pub faults: String,
    /// The fault of the disk, such as `full:20000`.
    pub disk: String,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            seed: 1,
            network: "ethernet".to_owned(),
            loss: 0.0,
            bits: 0.0,
            readouts: 1,
            builders: 1,
            sources: 1,
            boards: 1,
            packets: 100,
            payload: 0,
            rate: 10_000,
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            stall: 0.0,
            stall_ms: 30,
            restart: 0.0,
            late_ms: 0,
            record_us: 5_000,
            readout_ns: 0,
            builder_ns: 0,
            batch_bytes: 1 << 16,
            bytes_max: 0,
            keep_bytes: 0,
            faults: String::new(),
            disk: String::new(),
        }
    }
}

/// A fault of a node or of its cable at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFault {
    /// `host`, `cable` or `repair`.
    pub kind: String,
    /// The node's name.
    pub node: String,
    /// Its virtual time \[ms\].
    pub at_ms: u64,
}

/// Returns one of several values.
fn one_of<T: Copy>(draw: &mut Draw, values: &[T]) -> T {
    values[draw.below(values.len() as u64) as usize]
}

/// Returns 0 in most cases, else one of the chances.
fn chance(draw: &mut Draw, cases: f64, values: &[f64]) -> f64 {
    if draw.chance(cases) { one_of(draw, values) } else { 0.0 }
}

impl Case {
    /// Draws the case of a seed for an experiment; `network` replaces the drawn one.
    pub fn draw(seed: u64, experiment: &Experiment, network: Option<&str>) -> Case {
        let draw = &mut Draw::new(seed);
        let drawn = one_of(draw, &NETWORKS);
        let network = network.unwrap_or(drawn).to_owned();
        // Each packet of SCI has 64 bytes at most, which takes long to simulate.
        let is_slow = network.starts_with("sci");
        let is_ethernet = network.starts_with("ethernet");
        let sources = 1 + draw.below(experiment.sources.len() as u64) as u32;
        let mut case = Case {
            seed,
            loss: if is_ethernet { chance(draw, 0.4, &[1e-4, 1e-3, 1e-2]) } else { 0.0 },
            bits: chance(draw, 0.2, &[1e-9, 1e-8, 1e-7]),
            readouts: 1 + draw.below(u64::from(sources.min(3))) as u32,
            builders: 1 + draw.below(3) as u32,
            sources,
            boards: 1 + draw.below(3) as u32,
            packets: 20 + draw.below(180),
            payload: if is_slow { 0 } else { one_of(draw, &[0, 0, 0, 1_400, 4_000]) },
            rate: one_of(draw, &[2_000, 5_000, 10_000, 20_000]),
            drop: chance(draw, 0.4, &[0.005, 0.03]),
            duplicate: chance(draw, 0.4, &[0.005, 0.03]),
            reorder: chance(draw, 0.4, &[0.01, 0.05]),
            corrupt: chance(draw, 0.1, &[0.005, 0.02]),
            stall: chance(draw, 0.2, &[0.005, 0.01]),
            stall_ms: one_of(draw, &[30, 30, 700, 3_000]),
            restart: chance(draw, 0.1, &[0.005, 0.01]),
            late_ms: if draw.chance(0.25) { one_of(draw, &[5, 30, 100, 250]) } else { 0 },
            record_us: one_of(draw, &[100, 1_000, 5_000, 20_000]),
            readout_ns: if draw.chance(0.2) { one_of(draw, &[1_000, 50_000]) } else { 0 },
            builder_ns: if draw.chance(0.2) { one_of(draw, &[1_000, 50_000]) } else { 0 },
            batch_bytes: one_of(draw, &[2_000, 16_000, 1 << 16, 1 << 20]),
            bytes_max: if draw.chance(0.1) { one_of(draw, &[1 << 18, 1 << 20]) } else { 0 },
            network,
            ..Case::default()
        };
        if case.stall == 0.0 {
            case.stall_ms = Case::default().stall_ms;
        }
        case.faults = case.draw_faults(draw);
        case.disk = super::disk::DiskFault::draw(draw).map(|of| of.to_string()).unwrap_or_default();
        if let Some(nodes) = experiment.graph.as_ref().filter(|of| of.readout.keep_bytes > 0) {
            case.keep(nodes, experiment.sources.len() as u32, draw);
        }
        case
    }

    /// Makes it a case of an experiment whose readouts keep records: with the nodes of the file,
    /// and the death of a builder. Half of the cases have no other fault of nodes.
    fn keep(&mut self, nodes: &Nodes, sources: u32, draw: &mut Draw) {
        (self.readouts, self.builders) = (nodes.readout.count, nodes.builder.count);
        self.sources = sources;
        let enough = nodes.readout.keep_bytes;
        self.keep_bytes = one_of(draw, &[enough, enough, enough, enough, 20_000, 2_000]);
        let others = if draw.chance(0.5) { self.draw_faults(draw) } else { String::new() };
        let sending_ms = self.late_ms + self.packets * 1_000 / self.rate.max(1);
        let at_us = draw.below((BEGIN_MS + sending_ms * 3 / 2 + 10) * 1_000);
        let builder = draw.below(u64::from(self.builders));
        let death = format!("host:builder-{builder}@{at_us}us");
        self.faults = if others.is_empty() { death } else { format!("{death},{others}") };
    }

    /// Draws deaths of nodes and cut cables; half of these are mended.
    fn draw_faults(&self, draw: &mut Draw) -> String {
        let sending_ms = self.late_ms + self.packets * 1_000 / self.rate.max(1);
        let span_ms = sending_ms * 3 / 2 + 10;
        let count = one_of(draw, &[0, 0, 1, 1, 1, 2]);
        let mut faults = Vec::new();
        for _ in 0..count {
            let (node, at) = (self.draw_node(draw), draw.below(BEGIN_MS + span_ms));
            let (is_cut, is_mended) = (draw.chance(0.25), draw.chance(0.5));
            let after = one_of(draw, &[1, 10, 50, 200]);
            faults.push(format!("{}:{node}@{at}ms", if is_cut { "cable" } else { "host" }));
            if is_cut && is_mended {
                faults.push(format!("repair:{node}@{}ms", at + after));
            }
        }
        faults.join(",")
    }

    fn draw_node(&self, draw: &mut Draw) -> String {
        let (builders, readouts) = (u64::from(self.builders), u64::from(self.readouts));
        let number = draw.below(builders + readouts + u64::from(self.sources));
        match number.checked_sub(builders) {
            None => format!("builder-{number}"),
            Some(readout) if readout < readouts => format!("readout-{readout}"),
            Some(sensor) => format!("sensor-{}", sensor - readouts),
        }
    }

    /// Reads the text of a case, `KEY=VALUE` separated by spaces.
    ///
    /// # Errors
    /// A sentence on the part that is wrong.
    pub fn parse(text: &str) -> Result<Case, String> {
        let mut map = Map::new();
        for pair in text.split_whitespace() {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| format!("`{pair}` is not KEY=VALUE"))?;
            let number = serde_json::from_str(value).ok().filter(Value::is_number);
            let value = number.unwrap_or_else(|| value.into());
            if map.insert(key.to_owned(), value).is_some() {
                return Err(format!("`{key}` is given twice"));
            }
        }
        let case: Case = serde_json::from_value(map.into()).map_err(|error| error.to_string())?;
        case.check()?;
        Ok(case)
    }

    /// Checks the ranges that a run needs.
    fn check(&self) -> Result<(), String> {
        let chances =
            [self.drop, self.duplicate, self.reorder, self.corrupt, self.stall, self.restart];
        let counts = [
            ("readouts", u64::from(self.readouts), 64),
            ("builders", u64::from(self.builders), 64),
            ("sources", u64::from(self.sources), 1 << 16),
            ("boards", u64::from(self.boards), 4096),
            ("packets", self.packets, 10_000_000),
            ("rate", self.rate, 1_000_000_000),
            ("record-us", self.record_us, 10_000_000),
            ("batch-bytes", self.batch_bytes, 1 << 30),
        ];
        if let Some((key, value, most)) = counts.iter().find(|of| !(1..=of.2).contains(&of.1)) {
            return Err(format!("`{key}={value}` is not between 1 and {most}"));
        }
        let times_ms = self.late_ms.max(self.stall_ms);
        if times_ms > 1_000_000 || self.readout_ns.max(self.builder_ns) > 1_000_000_000 {
            return Err("a time is longer than 1,000 s, or work longer than 1 s".to_owned());
        }
        if !chances.iter().all(|chance| (0.0..=1.0).contains(chance)) {
            return Err("a chance is not between 0 and 1".to_owned());
        }
        super::disk::DiskFault::parse(&self.disk).map(|_| ())
    }

    /// Returns the link with all faults, as `--link` takes it.
    pub fn link(&self) -> String {
        let (network, keys) = self.network.split_once('?').unwrap_or((&self.network, ""));
        let (own, keys): (Vec<&str>, Vec<&str>) = keys
            .split('&')
            .filter(|key| !key.is_empty())
            .partition(|key| key.starts_with("fault="));
        let mut faults: Vec<String> =
            own.iter().map(|key| key.trim_start_matches("fault=").to_owned()).collect();
        let mut keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
        for (kind, chance) in [("loss", self.loss), ("bits", self.bits)] {
            if chance > 0.0 {
                faults.push(format!("{kind}:{chance}"));
            }
        }
        faults.extend((!self.faults.is_empty()).then(|| self.faults.clone()));
        if !faults.is_empty() {
            keys.push(format!("fault={}", faults.join(",")));
        }
        if !keys.iter().any(|key| key.starts_with("seed=")) {
            keys.push(format!("seed={}", self.seed));
        }
        format!("sim:{network}?{}", keys.join("&"))
    }

    /// Returns the faults of nodes and cables.
    pub fn node_faults(&self) -> Vec<NodeFault> {
        let of = |text: &str| {
            let (kind, rest) = text.split_once(':')?;
            let (node, at) = rest.split_once('@')?;
            // Times below a millisecond are of hand-written cases, and early.
            let at_ms = at.strip_suffix("ms").and_then(|at| at.parse().ok()).unwrap_or(0);
            Some(NodeFault { kind: kind.to_owned(), node: node.to_owned(), at_ms })
        };
        self.faults.split(',').filter_map(of).collect()
    }
}

/// As [`Case::parse`] reads it.
impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map = |case: &Case| serde_json::to_value(case).unwrap_or_default();
        let (own, usual) = (map(self), map(&Case::default()));
        let pairs = own.as_object().into_iter().flatten();
        let mut space = "";
        for (key, value) in pairs.filter(|(key, value)| usual.get(key) != Some(value)) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            write!(out, "{space}{key}={text}")?;
            space = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let source = "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\n";
        Experiment::parse("x.toml", source).expect("a right experiment")
    }

    #[test]
    fn the_text_of_a_case_is_read_as_another_case() {
        for seed in 0..200 {
            let case = Case::draw(seed, &experiment(), None);
            assert_eq!(Case::parse(&case.to_string()), Ok(case.clone()), "{case}");
        }
        assert_eq!(Case::parse(""), Ok(Case::default()));
    }

    #[test]
    fn a_wrong_case_is_taken_or_answered_without_its_place() {
        for (text, says) in [
            ("readouts", "not KEY=VALUE"),
            ("readouts=0", "`readouts=0` is not between 1 and 64"),
            ("drop=2", "between 0 and 1"),
            ("reedouts=1", "unknown field `reedouts`"),
            ("packets=x", "invalid type"),
            ("disk=fire:1", "full:BYTES"),
            ("seed=1 seed=2", "twice"),
        ] {
            let said = Case::parse(text).expect_err(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn faults_of_a_link_replace_those_of_the_case() {
        let case = Case {
            network: "ethernet?rate=10G&fault=loss:0.1".to_owned(),
            bits: 1e-9,
            faults: "host:builder-0@3ms".to_owned(),
            ..Case::default()
        };
        let link = "sim:ethernet?rate=10G&fault=loss:0.1,bits:0.000000001,host:builder-0@3ms";
        assert_eq!(case.link(), format!("{link}&seed=1"));
    }
}
