//! The command line as a table: every flag is one row of a struct here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fluxline_terminal::generate::GenerateCommand;
use fluxline_terminal::{Common, failure, version};

use crate::ctl_arguments::CtlArguments;
use crate::event_arguments::EventArguments;
use crate::export_arguments::ExportArguments;
use crate::format_arguments::{FormatArguments, FormatCommand};
use crate::fpga_arguments::FpgaCommand;
use crate::page_arguments::{ServeArguments, ServeRunsArguments};
use crate::run_arguments::{GatherArguments, RecoverArguments, ShipArguments};
use crate::runs_arguments::{ArchiveArguments, RunsArguments, SequenceArguments};

/// Write your data acquisition once; choose the link last.
#[derive(Debug, Parser)]
#[command(name = "fluxline", version = version::VERSION, max_term_width = 110)]
#[command(after_help = failure::status_help())]
pub struct Arguments {
    /// The arguments of all commands
    #[command(flatten)]
    pub common: Common,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Acquire: receive packets, build events, record them, account for every one
    #[command(after_help = "Examples:\n  fluxline run experiment.toml\n  \
        fluxline run --pcap capture.pcapng --format srs-vmm3\n  \
        fluxline run --pcap a.pcap --pcap b.pcap --format counter --events key --require 2\n  \
        fluxline run --udp 0.0.0.0:6006 --format srs-vmm3 --seconds 60\n  \
        fluxline run experiment.toml --node readout-1\n  \
        fluxline run experiment.toml --node builder")]
    Run(Box<RunArguments>),
    /// Ten seconds of the main job: 8 emulated front-ends push UDP over loopback
    #[command(after_help = "Example: fluxline demo --seconds 3")]
    Demo(DemoArguments),
    /// Look at a run that goes on and control it, from another terminal
    #[command(after_help = "Examples:\n  fluxline ctl status\n  \
        fluxline ctl kafka://10.0.0.5:9092/lab.beam status\n  \
        fluxline ctl kafka://10.0.0.5:9092/lab.beam end readout-2")]
    Ctl(CtlArguments),
    /// Show run folders on a page: finished runs, and those being written
    #[command(after_help = "Examples:\n  fluxline serve runs\n  \
        fluxline serve runs --listen 127.0.0.1:8050")]
    Serve(ServeRunsArguments),
    /// Show the contents of a run: received packets, missing ones, and the places of loss
    #[command(after_help = "Examples:\n  fluxline inspect runs/0042\n  \
        fluxline inspect kafka://10.0.0.5:9092/lab.beam --watch")]
    Inspect(InspectArguments),
    /// List runs, search them, and add tags and comments to them
    #[command(after_help = "Examples:\n  fluxline runs\n  \
        fluxline runs /data/runs --search beam --since 2026-11-23 --sort lost --limit 20\n  \
        fluxline runs tag runs/0042 calibration\n  \
        fluxline runs comment runs/0042 \"beam was unstable\"")]
    Runs(RunsArguments),
    /// Copy a finished run to another disk or to S3, verify the copy, and bring it back
    #[command(after_help = "Examples:\n  fluxline archive runs/0042 --to /mnt/archive\n  \
        fluxline archive runs/0042 --to s3://bucket/2026 --compress --remove-local\n  \
        fluxline archive --verify /mnt/archive/0042\n  \
        fluxline archive --restore /mnt/archive/0042 --to runs/0042")]
    Archive(ArchiveArguments),
    /// Do several runs one after the other, with settings that change from run to run
    #[command(after_help = "Examples:\n  fluxline sequence scan.toml\n  \
        fluxline sequence scan.toml --resume")]
    Sequence(SequenceArguments),
    /// Write a run's events as Parquet, Arrow, CSV or NumPy files
    #[command(after_help = "Examples:\n  fluxline export runs/0042 --to parquet\n  \
        fluxline export runs/0042 --to npy --columns adc --sources board=1 --events 0..1000\n  \
        fluxline export runs/0042 --to csv --rows records --since 2026-11-23T12:00:00Z")]
    Export(ExportArguments),
    /// Make an interrupted run readable up to its last complete batch
    #[command(after_help = "Example: fluxline recover runs/0042")]
    Recover(RecoverArguments),
    /// Send the events of a run that a topic of Apache Kafka lacks
    #[command(after_help = "Example: fluxline ship runs/0042")]
    Ship(ShipArguments),
    /// Gather the folders of the nodes of a run, or the events of a cluster, into one run folder
    #[command(after_help = "Examples:\n  \
        fluxline gather runs/builder-0 runs/builder-1 runs/readout-0 --into runs/0042\n  \
        fluxline gather kafka://10.0.0.5:9092/lab.beam --into runs/0042\n  \
        fluxline gather /copies/* --from kafka://10.0.0.5:9092/lab.beam --into runs/0042")]
    Gather(GatherArguments),
    /// Work with packet descriptions
    #[command(subcommand)]
    Format(FormatCommand),
    /// Read and write the registers of a board whose gateware `format fpga` made
    #[command(subcommand)]
    Fpga(FpgaCommand),
    /// Send or write packets as a sensor would, with optional faults
    #[command(after_help = "Examples:\n  \
        fluxline emulate counter --to udp://127.0.0.1:6006 --sources 8 --rate 1000 --seconds 10\n  \
        fluxline emulate sls --to capture.pcapng --packets 1000 --drop 0.001 --seed 7\n  \
        fluxline emulate counter --roce --to udp://127.0.0.1:4791 --from 127.0.0.1:4800 --key 7 \
        --payload-bytes 992")]
    Emulate(EmulateArguments),
    /// Find host settings that lose packets, and print the command that fixes each
    #[command(after_help = "Examples:\n  fluxline doctor\n  \
        fluxline doctor --for experiment.toml --rate 100000\n  \
        sudo fluxline doctor --for experiment.toml --apply\n  sudo fluxline doctor --undo")]
    Doctor(DoctorArguments),
    /// Show the nodes on shared memory, and remove the files of dead ones
    #[command(subcommand)]
    Shm(ShmCommand),
    /// Simulate a link and its nodes in virtual time
    #[command(disable_help_flag = true)]
    Sim(OtherProgram),
    /// Draw the map of a simulated network: nodes, links, their load and faults over time, routes
    #[command(disable_help_flag = true)]
    Topo(OtherProgram),
    /// Compare candidates for the link of an experiment, by bounds and by simulation
    #[command(disable_help_flag = true)]
    Plan(OtherProgram),
    /// Test remote memory with the RDMA programs of others (perftest)
    #[command(disable_help_flag = true)]
    Rdma(OtherProgram),
    /// Measure a link on this machine, and the limits of the machine itself
    #[command(disable_help_flag = true)]
    Bench(OtherProgram),
    /// Print the counters page of the manual
    #[command(hide = true)]
    Counters,
    /// Write manual pages or shell completions
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

/// A command of another program, which gets all arguments unchanged.
#[derive(Debug, Args)]
pub struct OtherProgram {
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub words: Vec<OsString>,
}

/// `fluxline shm`.
#[derive(Debug, Subcommand)]
pub enum ShmCommand {
    /// Show nodes and their regions, living and dead
    #[command(after_help = "Example: fluxline shm list")]
    List,
    /// Remove the files of killed processes
    #[command(after_help = "Example: fluxline shm clean")]
    Clean,
}

/// `fluxline doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Show only checks that concern this experiment, with their effect on it
    #[arg(long = "for", value_name = "EXPERIMENT")]
    pub experiment: Option<PathBuf>,
    /// Packets per second of each sender, if the experiment gives none
    #[arg(long, requires = "experiment", value_name = "HZ")]
    pub rate: Option<f64>,
    /// Number of sensors that send to each source, if the experiment gives none
    #[arg(long, requires = "experiment")]
    pub senders: Option<u64>,
    /// Payload of a packet in bytes, if the experiment gives none
    #[arg(long, requires = "experiment")]
    pub packet_bytes: Option<u64>,
    /// Fix what can be fixed, and record the old values; needs root
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Restore the values found before --apply; needs root
    #[arg(long, conflicts_with = "experiment")]
    pub undo: bool,
    /// Run only this check, named by itself or by its rule; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "undo")]
    pub only: Vec<String>,
    /// With --undo: also restore settings that somebody else has changed since
    #[arg(long, requires = "undo")]
    pub force: bool,
    /// The file that records changes [default: /var/lib/fluxline/doctor.state]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Read the /proc and /sys of another host, copied below this directory
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    pub root: PathBuf,
    /// Print the table of all checks that docs/doctor.md holds
    #[arg(long, hide = true)]
    pub table: bool,
}

/// `fluxline run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The experiment file; not with --pcap or --udp
    #[arg(conflicts_with_all = ["pcap", "udp", "format", "ports"])]
    pub experiment: Option<PathBuf>,
    /// Read this capture (pcap or pcapng) instead of an experiment's sources. A pattern in quotes
    /// reads the parts of one capture; several options merge captures
    #[arg(long, requires = "format", conflicts_with = "udp", value_name = "FILE")]
    pub pcap: Vec<PathBuf>,
    /// Listen on this address and port, for example 0.0.0.0:6006; a multicast group is joined
    #[arg(long, requires = "format")]
    pub udp: Option<String>,
    /// The interface that receives a multicast group of --udp, by name or address; without it, the
    /// kernel chooses by its routes
    #[arg(long, requires = "udp", value_name = "NAME")]
    pub interface: Option<String>,
    /// The packets' description: a shipped format's name or a TOML file
    #[arg(long)]
    pub format: Option<String>,
    /// Set a parameter of the description, NAME=INTEGER; with an experiment: of each source whose
    /// description has it; may be given more than once
    #[arg(long = "set", value_name = "NAME=INTEGER")]
    pub parameters: Vec<String>,
    /// Only packets to this UDP port of the capture; may be given more than once
    #[arg(long = "port", requires = "pcap")]
    pub ports: Vec<u16>,
    /// Also take datagrams of the capture whose UDP check sum is wrong
    #[arg(long, requires = "pcap")]
    pub no_check_sums: bool,
    /// The folder of this run, which must not exist; default: the next number in `runs`
    #[arg(long, short = 'o')]
    pub folder: Option<PathBuf>,
    /// Stop after this time (s); 0: when the sources end, or at Ctrl-C
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Counters that do not affect the exit status, for example rejected,truncated
    #[arg(long, value_delimiter = ',', value_name = "COUNTERS")]
    pub accept: Vec<String>,
    /// Build events and close the ledger, but write no event files
    #[arg(long)]
    pub no_record: bool,
    /// The link between the nodes of the experiment: threads, shm:GROUP, udp:ADDRESS or
    /// sim:NETWORK?KEYS, in virtual time; default: that of [link], else all is one node
    #[arg(long, value_name = "URL")]
    pub link: Option<String>,
    /// Run only this node of the experiment: readout-0, builder-1, ...; with [cluster]: the name of
    /// a readout node, or builder
    #[arg(long, value_name = "NODE", requires = "experiment")]
    pub node: Option<String>,
    /// The name of this process; default: host and process id. Two builders need different names
    #[arg(long, requires = "node")]
    pub id: Option<String>,
    /// The live page
    #[command(flatten)]
    pub serve: ServeArguments,
    /// The rule that joins packets to events
    #[command(flatten)]
    pub events: EventArguments,
}

/// `fluxline demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// The time during which front-ends send (s)
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// The number of front-ends
    #[arg(long, default_value_t = 8)]
    pub sources: u32,
    /// Events per second
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// Share of packets that a front-end loses on purpose
    #[arg(long, default_value_t = 0.0005)]
    pub drop: f64,
    /// Seed of the faults
    #[arg(long, default_value_t = 7)]
    pub seed: u64,
    /// The folder of this run, which must not exist; default: the next number in `runs`
    #[arg(long, short = 'o')]
    pub folder: Option<PathBuf>,
    /// The live page
    #[command(flatten)]
    pub serve: ServeArguments,
    /// The rule that joins packets to events
    #[command(flatten)]
    pub events: EventArguments,
}

/// `fluxline inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The run's folder; or kafka://HOST:PORT/CLUSTER for one ledger over all nodes of a cluster
    pub run: PathBuf,
    /// The largest number of incomplete events to show
    #[arg(long, default_value_t = 10)]
    pub incomplete: usize,
    /// Leave late fragments as rows of their own, instead of counting them with their events
    #[arg(long)]
    pub no_join: bool,
    /// Of a cluster: the number of the run; default: the newest
    #[arg(long = "run", value_name = "NUMBER")]
    pub number: Option<u64>,
    /// Of a cluster: show the ledger again every second until the run has ended
    #[arg(long)]
    pub watch: bool,
    /// Of a cluster: file with settings of the connection, such as TLS and passwords
    #[arg(long, value_name = "FILE")]
    pub settings_file: Option<PathBuf>,
}

/// `fluxline emulate`.
#[derive(Debug, Args)]
pub struct EmulateArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The destination: udp://ADDRESS:PORT, or a pcapng file to write
    #[arg(long)]
    pub to: String,
    /// The number of sources
    #[arg(long, default_value_t = 1)]
    pub sources: u32,
    /// Packets per second and source; 0: as fast as possible
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// Packets per source; 0: until --seconds or Ctrl-C
    #[arg(long, default_value_t = 0)]
    pub packets: u64,
    /// Stop after this time (s); 0: no limit
    #[arg(long, default_value_t = 0.0)]
    pub seconds: f64,
    /// Payload of a packet (bytes); default: the description's
    #[arg(long)]
    pub payload_bytes: Option<u32>,
    /// Fill payloads with noise instead of a ramp
    #[arg(long)]
    pub noise: bool,
    /// Seed of noise, jitter and faults; default: drawn and printed
    #[arg(long)]
    pub seed: Option<u64>,
    /// Jitter as a share of the period
    #[arg(long, default_value_t = 0.0)]
    pub jitter: f64,
    /// Probability that a packet is dropped
    #[arg(long, default_value_t = 0.0)]
    pub drop: f64,
    /// Probability that a packet is sent twice
    #[arg(long, default_value_t = 0.0)]
    pub duplicate: f64,
    /// Probability that a packet is sent later than its successors
    #[arg(long, default_value_t = 0.0)]
    pub reorder: f64,
    /// The largest number of packets that overtake a reordered one
    #[arg(long, default_value_t = 4)]
    pub reorder_distance: u32,
    /// Probability that one bit of a packet is flipped
    #[arg(long, default_value_t = 0.0)]
    pub corrupt: f64,
    /// Probability that a source falls silent for --stall-ms
    #[arg(long, default_value_t = 0.0)]
    pub stall: f64,
    /// The length of a stall (ms)
    #[arg(long, default_value_t = 100)]
    pub stall_ms: u64,
    /// Probability that a source restarts with its counters at zero
    #[arg(long, default_value_t = 0.0)]
    pub restart: f64,
    /// Most packets in one send call that the kernel cuts (UDP_SEGMENT); 1: single datagrams, as an
    /// FPGA sends
    #[arg(long, default_value_t = 1)]
    pub train: u32,
    /// The settings of --roce
    #[command(flatten)]
    pub roce: EmulateRoceArguments,
}

/// `fluxline emulate --roce`.
#[derive(Debug, Args)]
pub struct EmulateRoceArguments {
    /// Send RoCEv2 frames as a simple FPGA: RDMA WRITE ONLY with immediate, round a ring of slots
    #[arg(long)]
    pub roce: bool,
    /// Address and port of the first source; each further one has the next port
    #[arg(long, requires = "roce", default_value = "127.0.0.1:4800")]
    pub from: String,
    /// Queue pair of the first source; each further one has the next
    #[arg(long, requires = "roce", default_value_t = 256)]
    pub queue_pair: u32,
    /// First PSN of each source
    #[arg(long, requires = "roce", default_value_t = 0)]
    pub first_psn: u32,
    /// The R_Key of the receiver's region
    #[arg(long, requires = "roce", default_value_t = 1)]
    pub key: u32,
    /// The first address of the receiver's region
    #[arg(long, requires = "roce", default_value_t = 0)]
    pub base: u64,
    /// Size of the receiver's region (bytes)
    #[arg(long, requires = "roce", default_value_t = 4 << 20)]
    pub ring_bytes: u64,
    /// Distance of two packets in it (bytes)
    #[arg(long, requires = "roce", default_value_t = 1024)]
    pub slot_bytes: u64,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_flags_collide() {
        super::Arguments::command().debug_assert();
    }
}
