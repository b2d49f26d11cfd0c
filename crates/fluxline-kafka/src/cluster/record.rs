//! Records of the control topic: JSON with a version.
//!
//! The bytes may come from anybody: reading checks every length, and a record of another program is
//! not a record.

use serde::{Deserialize, Serialize};

use super::block::Role;
use fluxline_cluster::{AMENDED_MAX, AmendedSource};

/// The version of the layout.
pub const CONTROL_VERSION: u32 = 1;
/// Largest record \[byte\].
pub const CONTROL_BYTES_MAX: usize = 900_000;
/// Longest name or note in a record \[byte\].
const TEXT_BYTES_MAX: usize = 4096;
/// Most partitions or readout nodes in a record.
const ENTRIES_MAX: usize = 1 << 14;

/// A record of the control topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ControlRecord {
    /// A process joins as a node.
    Join(Join),
    /// A process that waited for a run has ended.
    Leave {
        /// The process.
        incarnation: u64,
    },
    /// A run begins.
    Begin(Begin),
    /// The readout nodes of a run must finish.
    Stop {
        /// The run.
        run: u64,
    },
    /// The builders count the events of a run, and record none, until it is resumed.
    Pause {
        /// The run.
        run: u64,
        /// Time of writing, by the clock of the operator's machine \[ns since 1970\].
        at_ns: u64,
    },
    /// The builders record events again.
    Resume {
        /// The run.
        run: u64,
        /// Time of writing, by the clock of the operator's machine \[ns since 1970\].
        at_ns: u64,
    },
    /// The shot number of a run.
    Shot {
        /// The run.
        run: u64,
        /// The number.
        shot: u64,
    },
    /// The message of the run's start or stop is in the topic of `[sink.kafka]`. Both records
    /// became visible together.
    Marked {
        /// The run.
        run: u64,
        /// True for the stop.
        is_stop: bool,
    },
    /// A note of an operator.
    Note {
        /// The run.
        run: u64,
        /// Its text.
        text: String,
        /// Time of writing, by the clock of the operator's machine \[ns since 1970\].
        at_ns: u64,
    },
    /// A readout node has finished: the brokers have all its records.
    Finished {
        /// The run.
        run: u64,
        /// The node.
        node: String,
        /// The process.
        incarnation: u64,
    },
    /// An operator ends a readout node that will not come back.
    EndNode {
        /// The run.
        run: u64,
        /// The node.
        node: String,
        /// The number of the start that has the end records: one above the last. `None` in records
        /// of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<u32>,
    },
    /// An operator abandons a run that cannot be built to its end.
    Abandon {
        /// The run.
        run: u64,
    },
    /// All batches of a partition are committed.
    Built {
        /// The run.
        run: u64,
        /// The partition.
        partition: u32,
        /// Ranges of its events that lack nothing, although they closed without a silent source.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        amended: Vec<AmendedSource>,
    },
}

/// A process that joins as a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The node's name in the experiment; `builder` for every builder.
    pub node: String,
    /// The process's name among those of the same node name.
    pub id: String,
    /// The node's part in the run.
    pub role: Role,
    /// Name of its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// A number that no other process of this node has had.
    pub incarnation: u64,
    /// The digest of the experiment, as far as it decides how events are built.
    pub digest: String,
    /// The experiment's readout nodes, sorted.
    pub readouts: Vec<String>,
    /// True when the node reads files, which it cannot read a second time in one run.
    #[serde(default)]
    pub reads_files: bool,
    /// Time of writing, by the node's clock \[ns since 1970\].
    pub at_ns: u64,
}

/// The beginning of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The run's number, one above that of the run before.
    pub run: u64,
    /// The digest of the experiment.
    pub digest: String,
    /// The readout nodes; the number of a node in records is its place here.
    pub readouts: Vec<String>,
    /// For each partition of fragments, the offset at which the run begins.
    pub fragments: Vec<u64>,
    /// For each partition of commits, the offset at which the run begins.
    pub commits: Vec<u64>,
    /// Time of writing, by the clock of the writer \[ns since 1970\].
    pub at_ns: u64,
}

/// A record with its version, as the topic keeps it.
#[derive(Serialize, Deserialize)]
struct Envelope {
    version: u32,
    #[serde(flatten)]
    record: ControlRecord,
}

impl ControlRecord {
    /// Reads a record from its bytes. Returns `None` for a record of another program or version.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<ControlRecord> {
        if bytes.len() > CONTROL_BYTES_MAX {
            return None;
        }
        let envelope: Envelope = serde_json::from_slice(bytes).ok()?;
        let is_ours = envelope.version == CONTROL_VERSION && envelope.record.is_bounded();
        is_ours.then_some(envelope.record)
    }

    /// Returns the record's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let envelope = Envelope { version: CONTROL_VERSION, record: self.clone() };
        serde_json::to_vec(&envelope).expect("numbers and texts are always JSON")
    }

    /// Returns true when no text or list is longer than this program writes.
    fn is_bounded(&self) -> bool {
        let is_name = |text: &str| (1..=TEXT_BYTES_MAX).contains(&text.len());
        let are_names =
            |list: &[String]| list.len() <= ENTRIES_MAX && list.iter().all(|name| is_name(name));
        match self {
            ControlRecord::Join(join) => {
                is_name(&join.node)
                    && is_name(&join.id)
                    && is_name(&join.digest)
                    && join.host.len() <= TEXT_BYTES_MAX
                    && are_names(&join.readouts)
            }
            ControlRecord::Begin(begin) => {
                is_name(&begin.digest)
                    && are_names(&begin.readouts)
                    && begin.fragments.len() <= ENTRIES_MAX
                    && begin.commits.len() == begin.fragments.len()
                    && !begin.fragments.is_empty()
            }
            ControlRecord::Note { text, .. } => is_name(text),
            ControlRecord::Finished { node, .. } | ControlRecord::EndNode { node, .. } => {
                is_name(node)
            }
            ControlRecord::Leave { .. }
            | ControlRecord::Stop { .. }
            | ControlRecord::Marked { .. }
            | ControlRecord::Pause { .. }
            | ControlRecord::Resume { .. }
            | ControlRecord::Shot { .. }
            | ControlRecord::Abandon { .. } => true,
            ControlRecord::Built { amended, .. } => {
                amended.len() <= AMENDED_MAX && amended.iter().all(|its| is_name(&its.label))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_foreign_ones_are_not() {
        let record = ControlRecord::Stop { run: 7 };
        assert_eq!(ControlRecord::read(&record.to_bytes()), Some(record));
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        for foreign in [
            "".to_owned(),
            "{}".to_owned(),
            "{\"type\":\"stop\",\"run\":7}".to_owned(),
            "{\"version\":2,\"type\":\"stop\",\"run\":7}".to_owned(),
            "{\"version\":1,\"type\":\"stop\",\"run\":-7}".to_owned(),
            "{\"version\":1,\"type\":\"explode\"}".to_owned(),
            format!(
                "{{\"version\":1,\"type\":\"note\",\"run\":7,\"at_ns\":1,\"text\":\"{long}\"}}"
            ),
            "{\"version\":1,\"type\":\"begin\",\"run\":1,\"digest\":\"x\",\"readouts\":[\"a\"],\
             \"fragments\":[1],\"commits\":[],\"at_ns\":1}"
                .to_owned(),
            "[".repeat(CONTROL_BYTES_MAX + 1),
        ] {
            assert_eq!(ControlRecord::read(foreign.as_bytes()), None, "{foreign:.80}");
        }
    }
}
