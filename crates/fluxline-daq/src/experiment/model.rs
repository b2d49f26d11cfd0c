//! The experiment file as written; docs/experiment.md is its manual.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::cluster::{Cluster, NodeTable};
use super::feedback::Feedback;
use super::file_list::FileList;
use super::graph::{Link, Nodes};
use super::health::{Alarm, Health};
use super::plot::Plot;
use super::requirements::Requirements;
use super::roce::Roce;
use super::sink::Sink;
use super::slow_control::SlowControl;
use crate::builder::{Expectation, Late, WindowClock};
use crate::capture::raw::LengthPrefix;
use crate::capture::replay::Speed;
use crate::emulator::{Faults, Pattern};
use crate::record::{SyncPolicy, WriteMode};

/// A whole experiment file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// The name of the run in reports.
    #[serde(default = "unnamed")]
    pub name: String,
    /// The directory that numbered run folders are made in.
    #[serde(default = "runs")]
    pub runs: PathBuf,
    /// Seconds after which the run stops; 0: when the sources end, or Ctrl-C.
    #[serde(default)]
    pub seconds: f64,
    /// Run readout and builder on this core.
    pub readout_core: Option<usize>,
    /// Run the recorder on this core.
    pub recorder_core: Option<usize>,
    /// Most sources of the run; packets of further ones are refused and counted.
    #[serde(default = "sources_max")]
    pub sources_max: u32,
    /// Ends of received data that do not make the exit status: names of counters, or `silent`.
    #[serde(default)]
    pub accept: Vec<String>,
    /// More names by which browsers may reach the live page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub page_hosts: Vec<String>,
    /// The sources of packets.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// Rules that make events of packets.
    #[serde(default)]
    pub events: Events,
    /// The choice of the events to record.
    #[serde(default)]
    pub filter: Filter,
    /// The recorded files.
    #[serde(default)]
    pub record: Record,
    /// Other places that events go to.
    #[serde(default)]
    pub sink: Sink,
    /// The brokers that the machines of the experiment share; `None`: one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The nodes that read out and build; `None`: all is one node, without `[link]` too.
    #[serde(default, rename = "nodes", skip_serializing_if = "Option::is_none")]
    pub graph: Option<Nodes>,
    /// The link between the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The function that decides on closed events, and the actuator node.
    #[serde(default, rename = "loop", skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Feedback>,
    /// The numbers that the acquisition must reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Requirements>,
    /// The limits of a healthy run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub health: Health,
    /// The experiment's own rules of a healthy run.
    #[serde(default, rename = "alarm", skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// The plots that are filled over the whole run.
    #[serde(default, rename = "plot", skip_serializing_if = "Vec::is_empty")]
    pub plots: Vec<Plot>,
    /// The socket of slow control values; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_control: Option<SlowControl>,
    /// The readout nodes of a cluster, by name.
    #[serde(default, rename = "node", skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, NodeTable>,
}

/// The choice of the events to record.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Filter {
    /// An expression over the event and the fields of its packets; events for which it is false are
    /// not recorded.
    pub keep: Option<String>,
    /// An expression over the kept events; those for which it is true are marked in `missing`.
    pub mark: Option<String>,
}

/// A source of packets: one link, one description.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// Its name in reports.
    pub name: String,
    /// A shipped description's name, or a TOML file relative to the experiment file's folder.
    pub format: String,
    /// Parameters of the description.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// Number of sources of this kind, named with numbers; emulators alone have more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// Slots of the push ring between this source and the readout; a power of two.
    #[serde(default = "ring_slots")]
    pub ring_slots: u32,
    /// Run the source's thread on this core.
    pub core: Option<usize>,
    /// UDP sockets.
    pub udp: Option<Udp>,
    /// A push ring on shared memory, which another process writes.
    pub shm: Option<SharedMemory>,
    /// Memory that FPGAs or producers write over Ethernet (RoCEv2).
    pub roce: Option<Roce>,
    /// A pcap or pcapng file.
    pub pcap: Option<Pcap>,
    /// A file of raw payloads.
    pub raw: Option<Raw>,
    /// The program that started the run pushes packets.
    pub program: Option<Program>,
    /// Emulated sensors.
    pub emulator: Option<Emulator>,
}

impl Source {
    /// Returns true when it is a capture that is replayed at the recorded speed.
    pub fn is_replayed(&self) -> bool {
        self.pcap.as_ref().is_some_and(|pcap| pcap.speed == Speed::Recorded)
    }

    /// Returns true when its packets come from files.
    pub fn is_file(&self) -> bool {
        self.pcap.is_some() || self.raw.is_some()
    }
}

/// A push ring on shared memory, which another process writes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SharedMemory {
    /// The node that this run is: `shm://GROUP/NODE`.
    pub url: String,
    /// Name of the ring's region.
    #[serde(default = "ring_name")]
    pub region: String,
    /// The key that the producer must show; not stored with the run.
    #[serde(skip_serializing)]
    pub key: u64,
    /// Size of the ring \[byte\]; a power of two.
    #[serde(default = "ring_bytes")]
    pub ring_bytes: u64,
}

/// UDP sockets.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Udp {
    /// Addresses and ports to listen on.
    pub listen: Vec<String>,
    /// Multicast group to join on every socket.
    pub multicast: Option<String>,
    /// Interface of the multicast group: its name.
    pub interface: Option<String>,
    /// Socket receive buffer to ask for \[byte\].
    #[serde(default = "receive_buffer_bytes")]
    pub receive_buffer_bytes: usize,
    /// Let the kernel join datagrams of one sender (UDP_GRO).
    #[serde(default = "yes")]
    pub gro: bool,
    /// Largest datagram \[byte\]; slots without GRO are this size.
    #[serde(default = "datagram_bytes_max")]
    pub datagram_bytes_max: usize,
    /// Time for which the network device is busy-polled \[µs\]; 0: off.
    #[serde(default)]
    pub busy_poll_us: u32,
    /// Pause between two calls, so that datagrams gather \[µs\]; 0: none.
    #[serde(default = "nap_us")]
    pub nap_us: u32,
    /// Behaviour when the push ring is full.
    #[serde(default)]
    pub on_ring_full: OnRingFull,
}

impl Default for Udp {
    fn default() -> Udp {
        Udp {
            listen: Vec::new(),
            multicast: None,
            interface: None,
            receive_buffer_bytes: receive_buffer_bytes(),
            gro: yes(),
            datagram_bytes_max: datagram_bytes_max(),
            busy_poll_us: 0,
            nap_us: nap_us(),
            on_ring_full: OnRingFull::Wait,
        }
    }
}

/// Behaviour of a receiver when the push ring is full.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OnRingFull {
    /// Leave datagrams in the socket's buffer; the kernel counts what does not fit.
    #[default]
    Wait,
    /// Read and count them, so that later ones are fresh.
    Drop,
}

/// Packets that the program pushes which started the run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Program {
    /// Largest packet \[byte\].
    pub datagram_bytes_max: usize,
    /// Behaviour when the push ring is full.
    pub on_ring_full: OnRingFull,
}

impl Default for Program {
    fn default() -> Program {
        let datagram_bytes_max = datagram_bytes_max();
        Program { datagram_bytes_max, on_ring_full: OnRingFull::Wait }
    }
}

/// A capture file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pcap {
    /// The file; several are parts of one capture.
    pub file: FileList,
    /// Only datagrams to these UDP ports; empty: all.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Drop datagrams with a wrong UDP check sum.
    #[serde(default = "yes")]
    pub check_sums: bool,
    /// Speed of reading.
    #[serde(default)]
    pub speed: Speed,
}

/// A file of raw payloads.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Raw {
    /// The file; several are read one after the other, in the order of their names.
    pub file: FileList,
    /// The size of every payload \[byte\]; or `length-prefix`.
    pub record_bytes: Option<u32>,
    /// The form of the length before each payload.
    pub length_prefix: Option<LengthPrefix>,
    /// Speed of reading; `"recorded"` is not allowed here.
    #[serde(default)]
    pub speed: Speed,
}

/// Emulated sensors.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Emulator {
    /// Number of sources.
    #[serde(default = "one")]
    pub sources: u32,
    /// The packet type; default: the first with a sequence or an event key.
    pub packet: Option<String>,
    /// Packets per second and source; 0: as fast as possible.
    #[serde(default = "emulator_rate")]
    pub rate: f64,
    /// Packets per source; 0: no limit.
    #[serde(default)]
    pub packets: u64,
    /// Payload of a packet \[byte\]; default: the description's.
    pub payload_bytes: Option<u32>,
    /// Content of payloads.
    #[serde(default)]
    pub pattern: Pattern,
    /// Jitter as a share of the period.
    #[serde(default)]
    pub jitter: f64,
    /// Seed of noise, jitter and faults; default: drawn, and written to run.json.
    pub seed: Option<u64>,
    /// The way of the packets.
    #[serde(default)]
    pub link: EmulatorLink,
    /// Most packets in one send call that the kernel cuts; 1: single datagrams, as an FPGA sends.
    #[serde(default = "one")]
    pub train: u32,
    /// Most datagrams on the way to the run's own socket; 0: sensors do not wait.
    #[serde(default)]
    pub in_flight_max: u32,
    /// Faults, by probability per packet.
    #[serde(default)]
    pub faults: Faults,
}

/// The way of emulated packets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum EmulatorLink {
    /// Over real UDP sockets on loopback.
    #[default]
    Udp,
    /// Straight into the push ring.
    Direct,
}

/// Rules that make events of packets.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Events {
    /// The way; default: what the descriptions have.
    pub build: Build,
    /// Sources that an event of all sources needs: their number, or their labels.
    pub require: Expectation,
    /// Longest silence of a source before events close without it \[ms\].
    pub timeout_ms: u64,
    /// Longest wait of events for a source that sends and lags behind the others \[ms\].
    pub lag_max_ms: u64,
    /// Longest time by which packets come out of order \[ms\]; raised when they come later.
    pub jitter_ms: u64,
    /// The fate of late fragments.
    pub late: Late,
    /// Width of a time window \[µs\], for `build = "window"`.
    pub window_us: u64,
    /// Time that a window stays open after its end \[µs\].
    pub lateness_us: u64,
    /// The clock of time windows.
    pub window_clock: WindowClock,
    /// Most events under construction; 0: follows from `bytes-max`.
    pub open_max: u32,
    /// Most bytes under construction.
    pub bytes_max: u64,
}

impl Default for Events {
    fn default() -> Events {
        Events {
            build: Build::Auto,
            require: Expectation::Joined,
            timeout_ms: 500,
            lag_max_ms: 10_000,
            jitter_ms: 10,
            late: Late::Record,
            window_us: 1000,
            lateness_us: 10_000,
            window_clock: WindowClock::Arrival,
            open_max: 0,
            bytes_max: 256 << 20,
        }
    }
}

/// The way packets become events.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Build {
    /// `source` when the description has a fragment index or range, `packet` otherwise.
    #[default]
    Auto,
    /// Every packet is an event.
    Packet,
    /// Packets of one key are an event, over all sources.
    Key,
    /// Packets of one key and one source are an event.
    Source,
    /// Packets of one time window are an event.
    Window,
}

/// The recorded files.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Record {
    /// Write events.
    pub enabled: bool,
    /// Size at which a batch is written \[byte\].
    pub batch_bytes: u64,
    /// Age of its first event at which a batch is written \[ms\].
    pub batch_ms: u64,
    /// Batches between readout and disk; bounds memory.
    pub batches_max: u32,
    /// Size after which a new file is begun \[byte\].
    pub file_bytes: u64,
    /// The moments at which written bytes are forced to the disk.
    pub sync: SyncPolicy,
    /// Through the page cache, or past it.
    pub write: WriteMode,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            enabled: true,
            batch_bytes: 4 << 20,
            batch_ms: 500,
            batches_max: 4,
            file_bytes: 1 << 30,
            sync: SyncPolicy::None,
            write: WriteMode::Auto,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn unnamed() -> String {
    "run".into()
}
fn runs() -> PathBuf {
    "runs".into()
}
fn sources_max() -> u32 {
    4096
}
fn ring_slots() -> u32 {
    1024
}
fn ring_name() -> String {
    "ring".to_string()
}

fn ring_bytes() -> u64 {
    4 << 20
}

fn receive_buffer_bytes() -> usize {
    64 << 20
}
fn datagram_bytes_max() -> usize {
    9216
}
fn nap_us() -> u32 {
    50
}
fn yes() -> bool {
    true
}
fn one() -> u32 {
    1
}
fn emulator_rate() -> f64 {
    1000.0
}
