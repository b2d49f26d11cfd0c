//! The counts of one node, as it publishes them: JSON with a version.
//!
//! Packets are counted on both sides of each edge from a readout node to a partition: by the
//! readout as handed over ([`Delivery`]), and by the builder as taken ([`Taken`]). The bytes may
//! come from anybody: reading checks every length, and no name is longer than
//! [`NAME_BYTES_MAX`].

use fluxline_daq::builder::Expectation;
use fluxline_daq::ledger::RemoteWriteCounters;
use serde::{Deserialize, Serialize};

use super::control::CLOCK_MS_MAX;

pub use fluxline_cluster::{Delivery, ENTRIES_MAX, Taken};

/// The version of the layout.
pub const BLOCK_VERSION: u32 = 1;
/// Largest block \[byte\].
pub const BLOCK_BYTES_MAX: usize = 900_000;
/// Longest name in a block \[byte\].
pub const NAME_BYTES_MAX: usize = 256;
/// Longest sentence in a block \[byte\].
const SENTENCE_BYTES_MAX: usize = 16 * NAME_BYTES_MAX;
/// Most sources that a readout's block lists.
pub const SOURCES_LISTED_MAX: usize = 512;
/// Longest label of a listed source \[byte\].
pub const LABEL_BYTES_MAX: usize = 512;
/// Most faults of inputs that a block lists.
const FAULTS_MAX: usize = 64;
/// Most silent sources that the counts of a partition list.
pub const GIVEN_UP_MAX: usize = 64;

/// The part that a node has in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It receives packets and hands them over.
    #[default]
    Readout,
    /// It builds events.
    Builder,
}

/// The state of a node in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// It has joined and waits for the beginning of the run.
    #[default]
    Waiting,
    /// It works.
    Running,
    /// It has finished its part; its counts are final, and the log has acknowledged everything.
    Ended,
    /// It stopped before the end of its part; `sentence` has the reason.
    Failed,
}

impl NodeState {
    /// Returns true when the counts of the block are final.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, NodeState::Ended | NodeState::Failed)
    }
}

/// The counts of one node in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeBlock {
    /// The version of the layout: [`BLOCK_VERSION`].
    pub version: u32,
    /// The cluster's name.
    pub cluster: String,
    /// The run.
    pub run: u64,
    /// The node's name in the experiment; `builder` for every builder.
    pub node: String,
    /// The name of this process among those of the same node name.
    pub id: String,
    /// A number that no other process of this node and id has had; later processes have higher
    /// ones.
    pub incarnation: u64,
    /// Number of starts of the node in this run before; 0 for builders.
    #[serde(default)]
    pub start: u32,
    /// The node's part in the run.
    pub role: Role,
    /// Name of its host.
    #[serde(default)]
    pub host: String,
    /// Its process id.
    #[serde(default)]
    pub pid: u32,
    /// Its state.
    pub state: NodeState,
    /// The reason why it failed; empty otherwise.
    #[serde(default)]
    pub sentence: String,
    /// Number of the block among those of this process, from 0.
    pub sequence: u64,
    /// Time of publishing, by the node's clock \[ns since 1970\].
    pub sent_at_ns: u64,
    /// The counters at an end marked "no" that the experiment accepts (`accept`).
    #[serde(default)]
    pub accept: Vec<String>,
    /// The sources that the experiment requires; `None`: all that joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require: Option<Expectation>,
    /// The counts of a readout node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout: Option<ReadoutBlock>,
    /// The counts of a builder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<BuilderBlock>,
}

/// The counts of a readout node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReadoutBlock {
    /// The node's number in records.
    pub number: u16,
    /// Number of its sources.
    pub sources: u64,
    /// Its counters.
    pub counters: ReadoutCounters,
    /// Packets handed over, one entry for each partition.
    pub deliveries: Vec<Delivery>,
    /// The time by which the clock of its machine was set since the start \[ms\]; the times of
    /// packets do not follow it.
    pub clock_set_ms: i64,
    /// The largest difference between the times of its packets and the brokers' time so far
    /// \[ms\]; 0 when the clocks may have agreed, and for a node that reads files.
    pub clock_ahead_ms: i64,
    /// Its sources, required ones first; at most [`SOURCES_LISTED_MAX`].
    pub listed: Vec<SourceBlock>,
    /// It reads files, whose packets have times of their own.
    pub reads_files: bool,
    /// Everything that came before this time, by its own clock, was taken \[ns since 1970\].
    pub read_until_ns: u64,
    /// Frames and records that peers wrote into its memory; counted at the end.
    pub remote: RemoteWriteCounters,
    /// Inputs that ended before the run did, a sentence each.
    pub faults: Vec<String>,
}

/// A source of a readout node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceBlock {
    /// Its label in reports.
    pub label: String,
    /// Number of its input in the experiment.
    pub input: u16,
    /// Packets that fit the description.
    pub packets: u64,
    /// Packets missing before this node, by the packet counters.
    pub lost: u64,
    /// Time of its first packet \[ns since 1970\].
    pub first_ns: u64,
    /// Time of its last packet \[ns since 1970\].
    pub last_ns: u64,
}

impl ReadoutBlock {
    /// Adds the sentences about inputs that ended early, as far as a block takes them.
    pub fn add_faults(&mut self, faults: &[String]) {
        let short = |fault: &String| fault.chars().take(SENTENCE_BYTES_MAX / 4).collect();
        self.faults.extend(faults.iter().take(FAULTS_MAX).map(short));
    }
    /// Returns a sentence when the times of the node's `packets` were wrong by more than
    /// [`CLOCK_MS_MAX`].
    #[must_use]
    pub fn wrong_times(&self, packets: &str) -> Option<String> {
        let ahead_ms = self.clock_ahead_ms;
        let seconds = ahead_ms.unsigned_abs() as f64 * 1e-3;
        let side = if ahead_ms > 0 { "ahead of" } else { "behind" };
        (ahead_ms.saturating_abs() > CLOCK_MS_MAX).then(|| {
            format!(
                "the times of {packets} were {seconds:.1} s {side} the brokers' clock, so events \
                 that close by time are wrong; set the clock (NTP or PTP) and start the node again"
            )
        })
    }
}

/// The counts of a builder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuilderBlock {
    /// The partitions that it builds or has built in this run.
    pub partitions: Vec<PartitionBlock>,
}

/// The counts of one partition, up to a record.
///
/// They follow from the records before `next_offset` alone: two builders that have come as far have
/// the same counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionBlock {
    /// The partition.
    pub partition: u32,
    /// Offset of the record that the builder takes next.
    pub next_offset: u64,
    /// The records before this offset are covered by committed batches.
    pub covers: u64,
    /// The builder has seen the end of every readout node and has committed all batches.
    pub ended: bool,
    /// Its counters.
    pub counters: PartitionCounters,
    /// Packets taken, one entry for each readout node and start.
    pub taken: Vec<Taken>,
    /// Silent sources that events do not wait for, as far as a block lists them.
    pub given_up: Vec<String>,
}

fluxline_core::counters! {
    /// Counters of a readout node.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct ReadoutCounters {
        received [Sum "datagram"] "Datagrams that the links or the files handed over" => "";
        bytes [Sum "byte"] "Their bytes" => "";
        ring_full [Sum "datagram"] "Datagrams dropped because a push ring was full"
            => "Give the readout a core of its own (`readout-core`), or more `ring-slots`.";
        truncated [Sum "datagram"] "Datagrams longer than a ring slot, dropped"
            => "Raise `datagram-bytes-max` to the size of the largest packet.";
        socket_dropped [Sum "datagram"] "Datagrams that the kernel dropped at a socket"
            => "Raise net.core.rmem_max and `receive-buffer-bytes`; run `fluxline doctor`.";
        taken [Sum "datagram"] "Datagrams taken from the rings" => "";
        rejected [Sum "datagram"] "Datagrams that the packet description rejected"
            => "See the node's own output for the reasons.";
        sources_refused [Sum "datagram"] "Datagrams of sources beyond the allowed number of sources"
            => "Raise `sources-max`, or find out who else sends to this port.";
        memory_full [Sum "datagram"]
            "Datagrams dropped because the log took nothing and the node's memory was full"
            => "Look at the brokers and the network to them; raise the node's memory.";
        parsed [Sum "packet"] "Packets that fit the description" => "";
        duplicate [Sum "packet"] "Copies: packets whose number had come already" => "";
        late [Sum "packet"] "Packets too old to compare with earlier ones; dropped"
            => "Look for two senders that share one source key.";
        held [Sum "packet"] "Packets that wait for the next one of their source" => "";
        routed [Sum "packet"] "Packets put into records" => "";
        handed [Sum "packet"] "Packets in records that the log took" => "";
        waiting [Sum "packet"] "Packets in records that the log has not taken yet" => "";
        records [Sum "record"] "Records that the log took" => "";
        record_bytes [Sum "byte"] "Bytes of these records" => "";
        frames_unusable [Sum "frame"]
            "Frames of a capture or records of a file that are cut, damaged or lack fragments"
            => "Capture whole frames: `tcpdump -s 0`.";
        check_sum_wrong [Sum "datagram"]
            "Datagrams of a capture whose UDP check sum is wrong; dropped"
            => "If the sender writes wrong sums: `check-sums = false`.";
        lost [Sum "packet"] "Packets missing before this node, by the packet counters"
            => "Run `fluxline doctor` on the node's host.";
    }
}

fluxline_core::counters! {
    /// Counters of the builder of a partition.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub struct PartitionCounters {
        records [Sum "record"] "Records of the run" => "";
        taken [Sum "packet"] "Packets taken from them" => "";
        followed [Sum "packet"] "Packets of other partitions that were followed" => "";
        records_repeated [Sum "record"] "Records that came twice; taken once" => "";
        records_foreign [Sum "record"] "Records of another program or run"
            => "Find out who else writes to the topic of fragments.";
        records_outdated [Sum "record"] "Records of an earlier start of a node after a later one"
            => "Two processes had the same node name; end one of them.";
        records_missing [Sum "record"] "Records that are missing, by the numbers of the others"
            => "Look at the retention and the replicas of the topic of fragments.";
        records_torn [Sum "record"] "Records of which an entry could not be read"
            => "The readout node has another version of the program.";
        records_after_end [Sum "record"] "Records after every node had ended" => "";
        left_out [Sum "time"] "Times that events went on without a readout, dead or far behind"
            => "Start the readout again, or end its part with `fluxline ctl … end NODE`.";
        in_complete [Sum "packet"] "Packets in complete events" => "";
        in_incomplete [Sum "packet"] "Packets in incomplete events" => "";
        in_late [Sum "packet"] "Packets that came after their event was closed; recorded as late"
            => "";
        late_dropped [Sum "packet"] "Late packets that the experiment drops"
            => "Write `late = \"record\"` under `[events]` to keep them.";
        builder_full [Sum "packet"] "Packets refused because the event builder was full"
            => "Raise `bytes-max` under `[events]`; look for a slow disk.";
        event_duplicate [Sum "packet"] "Packets whose part of the event had come already" => "";
        inconsistent [Sum "packet"] "Packets that contradict others of the same fragment"
            => "Check the fragment's count, total and key in the description.";
        in_open [Sum "packet"] "Packets in open events" => "";
        in_closed [Sum "packet"] "Packets in closed events that are in no batch yet" => "";
        filtered [Sum "packet"] "Packets of events that the filter rejected, late ones too" => "";
        not_recorded [Sum "packet"] "Packets of events that were only counted: the run was paused"
            => "";
        in_batches [Sum "packet"] "Packets in batches" => "";
        batches [Sum "batch"] "Batches of events" => "";
        events [Sum "event"] "Events and late fragments in batches" => "";
        events_complete [Sum "event"] "Events of which nothing is known to be missing" => "";
        events_incomplete [Sum "event"] "Events closed although something was missing" => "";
        events_stopped [Sum "event"] "Events that the end of the run closed" => "";
        events_open [Sum "event"] "Open events" => "";
        events_kept [Sum "event"] "Events that the filter kept" => "";
        events_filtered [Sum "event"] "Events that the filter rejected" => "";
        events_undecided [Sum "event"]
            "Events on which the filter failed; kept, with `filter: no decision` in `missing`"
            => "The builder's notes have the first error. Correct the filter.";
        events_marked [Sum "event"]
            "Events for which `[filter] mark` was true; they are kept or undecided, too" => "";
        late_filtered [Sum "fragment"] "Late fragments of rejected events" => "";
    }
}

/// The reason why bytes are not a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// More bytes than any block has.
    #[error("{0} bytes are more than a node's block has ({BLOCK_BYTES_MAX})")]
    TooLarge(usize),
    /// Not the JSON of a block.
    #[error("not a node's block ({0})")]
    Json(String),
    /// A block of another version.
    #[error("a node's block of version {0}; this program reads version {BLOCK_VERSION}")]
    Version(u32),
    /// A list or a name is too long, or a name is empty.
    #[error("a node's block with a wrong {0}")]
    Value(&'static str),
}

impl NodeBlock {
    /// Reads a block from its bytes. They may be anything.
    pub fn read(bytes: &[u8]) -> Result<NodeBlock, BlockError> {
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(BlockError::TooLarge(bytes.len()));
        }
        let block: NodeBlock =
            serde_json::from_slice(bytes).map_err(|error| BlockError::Json(error.to_string()))?;
        if block.version != BLOCK_VERSION {
            return Err(BlockError::Version(block.version));
        }
        block.check()?;
        Ok(block)
    }

    /// Returns the block's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts are always JSON")
    }

    /// Returns the key of the block's record: later blocks of the same process replace it.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.run, self.node, self.id, self.incarnation)
    }

    fn check(&self) -> Result<(), BlockError> {
        let is_name =
            |name: &str| (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('/');
        if !is_name(&self.node) || !is_name(&self.id) || self.cluster.len() > NAME_BYTES_MAX {
            return Err(BlockError::Value("name"));
        }
        let faults = self.readout.iter().flat_map(|its| &its.faults);
        let longest = faults.chain([&self.sentence]).map(String::len).max().unwrap_or(0);
        if self.host.len() > NAME_BYTES_MAX || longest > SENTENCE_BYTES_MAX {
            return Err(BlockError::Value("text"));
        }
        let has_counts = match self.role {
            Role::Readout => self.readout.is_some() && self.builder.is_none(),
            Role::Builder => self.builder.is_some() && self.readout.is_none(),
        };
        if !has_counts {
            return Err(BlockError::Value("role"));
        }
        let deliveries = self.readout.as_ref().map_or(0, |its| its.deliveries.len());
        let partitions = self.builder.as_ref().map_or(0, |its| its.partitions.len());
        let listed = self.readout.as_ref().map_or(0, |its| its.listed.len().max(its.faults.len()));
        let most = [deliveries, partitions, self.accept.len(), listed].into_iter().max();
        if most.unwrap_or(0) > ENTRIES_MAX {
            return Err(BlockError::Value("list"));
        }
        Ok(())
    }
}
