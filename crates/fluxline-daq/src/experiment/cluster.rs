//! An experiment over several machines: the cluster's brokers and topics, and the nodes that read
//! out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::sink::{check_brokers, check_settings, check_topic};
use super::{Build, Experiment};
use crate::builder::WindowClock;

/// The node name that builds events; every other name reads out.
pub const BUILDER: &str = "builder";

/// The last parts of the names of a cluster's topics.
const CLUSTER_TOPICS: [&str; 6] =
    ["control", "fragments", "commits", "checkpoints", "events", "ledger"];

/// The brokers and topics that the machines of an experiment share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// Addresses of brokers, separated by commas.
    pub brokers: String,
    /// The cluster's name; its topics are `NAME.control`, `NAME.fragments` and so on.
    pub name: String,
    /// Partitions of fragments, when the topics are made.
    #[serde(default = "partitions")]
    pub partitions: u32,
    /// Replicas of each partition, when the topics are made; `None`: one at each broker, at most
    /// three.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// The places that builders write to.
    #[serde(default)]
    pub output: ClusterOutput,
    /// The beginning of a run.
    #[serde(default)]
    pub start: ClusterStart,
    /// Memory of a readout node for records that the brokers have not acknowledged \[byte\].
    #[serde(default = "memory_bytes")]
    pub memory_bytes: u64,
    /// The file with settings of the connection, such as TLS and passwords; relative to the
    /// experiment file's folder.
    pub settings_file: Option<PathBuf>,
    /// Settings of the client library; passwords belong into `settings-file`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The places that builders write events to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterOutput {
    /// Run folders of each builder.
    #[default]
    Files,
    /// The topic `NAME.events`.
    Topic,
    /// Run folders and the topic.
    Both,
}

/// The beginning of a run of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterStart {
    /// The run begins as soon as every readout node has joined.
    #[default]
    All,
    /// The run begins at `fluxline ctl kafka://… start`.
    Ctl,
}

/// A readout node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeTable {
    /// The names of the sources that it reads.
    pub sources: Vec<String>,
}

impl Cluster {
    /// Returns the name of one of its topics.
    #[must_use]
    pub fn topic(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    fn check(&self) -> Result<(), Problem> {
        check_brokers(&self.brokers).map_err(|text| Problem::at("brokers", text))?;
        check_topic(&self.topic("checkpoints")).map_err(|_| {
            let text = format!(
                "name = {:?} is not the beginning of a topic's name; write up to 200 letters, \
                 digits, `.`, `_` and `-`, such as \"lab.beam\".",
                self.name
            );
            Problem::at("name", text)
        })?;
        if self.name.is_empty() {
            let text = "name is empty; write the cluster's name, such as \"lab.beam\".";
            return Err(Problem::at("name", text));
        }
        if !(1..=10_000).contains(&self.partitions) {
            let text = format!("partitions = {}; write 1 to 10000.", self.partitions);
            return Err(Problem::at("partitions", text));
        }
        if let Some(replicas) = self.replicas.filter(|replicas| !(1..=100).contains(replicas)) {
            let text = format!("replicas = {replicas}; write 1 to 100.");
            return Err(Problem::at("replicas", text));
        }
        if !(1 << 20..=1 << 40).contains(&self.memory_bytes) {
            let text = format!(
                "memory-bytes = {}; write 1048576 (1 MiB) to 1099511627776 (1 TiB).",
                self.memory_bytes
            );
            return Err(Problem::at("memory-bytes", text));
        }
        check_settings(&self.settings).map_err(|text| Problem::at("settings", text))
    }
}

impl Experiment {
    /// Checks the cluster, and that every source belongs to exactly one node.
    pub(super) fn check_cluster(&self) -> Result<(), Problem> {
        let Some(cluster) = &self.cluster else {
            return match self.nodes.keys().next() {
                None => Ok(()),
                Some(name) => {
                    let text = format!(
                        "[node.{name}] needs the table [cluster] with brokers and name; write it, \
                         or remove the node."
                    );
                    Err(Problem::at(format!("node.{name}"), text))
                }
            };
        };
        cluster.check().map_err(|problem| problem.below("cluster"))?;
        if self.nodes.is_empty() {
            let text = "[cluster] needs a node that reads out; write for example \
                        [node.readout-1] with sources = [\"NAME\"].";
            return Err(Problem::at("cluster", text));
        }
        self.nodes.iter().try_for_each(|(name, node)| self.check_node(name, node))?;
        for (number, source) in self.sources.iter().enumerate() {
            let owners = self.nodes.iter().filter(|(_, node)| node.sources.contains(&source.name));
            let owners: Vec<&str> = owners.map(|(name, _)| name.as_str()).collect();
            let text = match owners[..] {
                [_] => continue,
                [] => format!(
                    "source `{}` belongs to no node; add it to the `sources` of one [node.NAME].",
                    source.name
                ),
                [one, other, ..] => format!(
                    "source `{}` belongs to the nodes `{one}` and `{other}`; leave it with one.",
                    source.name
                ),
            };
            return Err(Problem::at(format!("source.{number}.name"), text));
        }
        Ok(())
    }

    fn check_node(&self, name: &str, node: &NodeTable) -> Result<(), Problem> {
        let wrong = |text: String| Err(Problem::at(format!("node.{name}"), text));
        if let Err(text) = check_node_name(name) {
            return wrong(text);
        }
        if name == BUILDER {
            return wrong(format!(
                "[node.{BUILDER}]: the name `{BUILDER}` is for the machines that build; choose \
                 another name for a readout node."
            ));
        }
        if node.sources.is_empty() {
            return wrong(format!(
                "[node.{name}] has no sources; write at least one, or remove it."
            ));
        }
        let names = || self.sources.iter().map(|source| source.name.as_str());
        for (at, source) in node.sources.iter().enumerate() {
            if !names().any(|name| name == source) {
                let known: Vec<&str> = names().collect();
                return wrong(format!(
                    "[node.{name}] reads source `{source}`, which does not exist; the sources are \
                     {}.",
                    known.join(", ")
                ));
            }
            if node.sources[..at].contains(source) {
                return wrong(format!(
                    "[node.{name}] names source `{source}` twice; write it once."
                ));
            }
        }
        Ok(())
    }

    /// Checks that several nodes can do what the experiment asks for.
    ///
    /// # Errors
    /// A sentence with the table and what to write.
    pub fn check_for_nodes(&self) -> Result<(), Problem> {
        let Some(cluster) = &self.cluster else {
            let text = "--node needs the table [cluster] in the experiment file; write brokers and \
                        name there, and [node.NAME] for each readout node.";
            return Err(Problem::at("", text));
        };
        if let Some(kafka) = &self.sink.kafka {
            let topics = CLUSTER_TOPICS.map(|part| cluster.topic(part));
            let checked = kafka.check_for_builders(&cluster.brokers, &topics);
            checked.map_err(|problem| problem.below("sink.kafka"))?;
        }
        if !self.record.enabled {
            let text = "[record] enabled = false is for runs on one machine; remove it.";
            return Err(Problem::at("record.enabled", text));
        }
        if let Some(source) = self.sources.iter().find(|source| source.program.is_some()) {
            let text = format!(
                "source `{}` has [source.program], which nodes of a cluster do not have; give it \
                 another link.",
                source.name
            );
            return Err(Problem::at("source", text));
        }
        self.check_mixed("[cluster]")?;
        cluster.check().map_err(|problem| problem.below("cluster"))
    }

    pub(super) fn is_built_by_arrival(&self) -> bool {
        self.events.build == Build::Window && self.events.window_clock == WindowClock::Arrival
    }

    /// Returns the numbers of the sources of a readout node, in the order of the experiment.
    #[must_use]
    pub fn sources_of(&self, node: &str) -> Vec<usize> {
        let Some(table) = self.nodes.get(node) else { return Vec::new() };
        let sources = self.sources.iter().enumerate();
        sources.filter(|(_, of)| table.sources.contains(&of.name)).map(|(at, _)| at).collect()
    }

    /// Checks the name that `--node` gives: a readout node of the experiment, or `builder`.
    ///
    /// # Errors
    /// A sentence with the names that exist.
    pub fn check_node_choice(&self, name: &str) -> Result<(), String> {
        if name == BUILDER || self.nodes.contains_key(name) {
            return Ok(());
        }
        let known: Vec<String> = self.nodes.keys().map(|name| format!("`{name}`")).collect();
        Err(format!(
            "--node {name}: the experiment has no node of that name; write {} or `{BUILDER}`",
            known.join(", ")
        ))
    }
}

/// Checks a name of a node, or the id of a builder.
///
/// # Errors
/// A sentence with the allowed letters.
pub fn check_node_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_name = (1..=64).contains(&name.len()) && name.chars().all(allowed);
    match is_name && !name.starts_with('.') {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is not a name of a node; write up to 64 letters, digits, `.`, `_` and `-`."
        )),
    }
}

fn partitions() -> u32 {
    8
}
fn memory_bytes() -> u64 {
    256 << 20
}

#[cfg(test)]
mod tests {
    use super::super::Experiment;

    const SOURCES: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\nudp = { listen = \
                           [\"127.0.0.1:0\"] }\n[[source]]\nname = \"b\"\nformat = \
                           \"counter\"\nudp = { listen = [\"127.0.0.1:0\"] }\n";
    const CLUSTER: &str = "[cluster]\nbrokers = \"127.0.0.1:9092\"\nname = \"lab\"\n";
    const NODES: &str = "[node.r1]\nsources = [\"a\"]\n[node.r2]\nsources = [\"b\"]\n";

    fn mistake(lines: &str) -> String {
        let text = format!("{SOURCES}{lines}");
        Experiment::parse("e.toml", &text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_wrong_cluster_is_refused_with_its_line_and_remedy() {
        assert_eq!(mistake(&format!("{CLUSTER}{NODES}")), "");
        let nodes = |lines: &str| format!("{CLUSTER}{lines}");
        let keys = |lines: &str| format!("{CLUSTER}{lines}\n{NODES}");
        let cases = [
            (NODES.to_owned(), "needs the table [cluster]"),
            (CLUSTER.to_owned(), "needs a node that reads out"),
            (nodes("[node.r1]\nsources = [\"a\"]\n"), "source `b` belongs to no node"),
            (
                nodes("[node.r1]\nsources = [\"a\"]\n[node.r2]\nsources = [\"a\", \"b\"]\n"),
                "belongs to the nodes `r1` and `r2`",
            ),
            (nodes("[node.r1]\nsources = [\"a\", \"b\", \"a\"]\n"), "twice"),
            (nodes("[node.r1]\nsources = [\"a\", \"c\"]\n"), "`c`, which does not exist"),
            (nodes("[node.r1]\nsources = []\n"), "has no sources"),
            (nodes("[node.builder]\nsources = [\"a\", \"b\"]\n"), "for the machines that build"),
            (nodes("[node.\"a b\"]\nsources = [\"a\", \"b\"]\n"), "`a b` is not a name"),
            (keys("partitions = 0"), "write 1 to 10000"),
            (keys("replicas = 0"), "write 1 to 100"),
            (keys("memory-bytes = 5"), "1048576"),
            (keys("settings = { \"sasl.password\" = \"p\" }"), "settings-file"),
            (keys("output = \"disk\""), "output"),
            (keys("start = \"now\""), "start"),
            (CLUSTER.replace("lab", "a b") + NODES, "not the beginning of a topic's name"),
            (CLUSTER.replace(":9092", "") + NODES, "is not an address"),
        ];
        for (lines, expected) in cases {
            let said = mistake(&lines);
            assert!(said.contains(expected) && said.contains("e.toml"), "{lines}: {said}");
        }
    }

    fn for_nodes(lines: &str) -> String {
        let text = format!("{SOURCES}{CLUSTER}{NODES}{lines}");
        let experiment = Experiment::parse("e.toml", &text).expect("right for one machine");
        experiment.check_for_nodes().map_or_else(|problem| problem.to_string(), |()| String::new())
    }

    #[test]
    fn a_table_that_nodes_would_ignore_is_refused() {
        assert_eq!(for_nodes(""), "");
        for (lines, expected) in [
            ("[sink.kafka]\nbrokers = \"a:1\"\ntopic = \"x\"\n", "one transaction"),
            (
                "[sink.kafka]\nbrokers = \"127.0.0.1:9092\"\ntopic = \"x\"\nsettings-file = \"f\"\n",
                "[cluster]",
            ),
            (
                "[sink.kafka]\nbrokers = \"127.0.0.1:9092\"\ntopic = \"lab.events\"\n",
                "of the cluster",
            ),
            (
                "[sink.kafka]\nbrokers = \"127.0.0.1:9092\"\ntopic = \"x\"\nmemory-bytes = 7000000\n",
                "memory-bytes",
            ),
            ("[record]\nenabled = false\n", "[record]"),
            ("[[source]]\nname = \"c\"\nformat = \"counter\"\n[source.program]\n", "belongs"),
        ] {
            let text = format!("{SOURCES}{CLUSTER}{NODES}{lines}");
            let said = match Experiment::parse("e.toml", &text) {
                Err(error) => error.to_string(),
                Ok(_) => for_nodes(lines),
            };
            assert!(said.contains(expected), "{lines}: {said}");
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused_with_the_names_of_those_that_do() {
        let text = format!("{SOURCES}{CLUSTER}{NODES}");
        let experiment = Experiment::parse("e.toml", &text).expect("right");
        assert_eq!(experiment.sources_of("r2"), [1]);
        assert!(experiment.check_node_choice("builder").is_ok());
        let said = experiment.check_node_choice("r3").expect_err("refused");
        assert!(said.contains("`r1`, `r2` or `builder`"), "{said}");
    }
}
