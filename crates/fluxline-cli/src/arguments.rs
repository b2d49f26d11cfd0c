//! The command line as a table: every flag is one row of a struct here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fluxline_bench::real::{Link, LinkError};

use crate::ctl_arguments::CtlArguments;
use crate::event_arguments::EventArguments;
use crate::export_arguments::ExportArguments;
use crate::format_arguments::{FormatArguments, FormatCommand};
use crate::log::{LogFormat, LogLevel};
use crate::page_arguments::{ServeArguments, ServeRunsArguments};
use crate::run_arguments::{GatherArguments, RecoverArguments, ShipArguments};

/// Write your data acquisition once; choose the link last.
#[derive(Debug, Parser)]
#[command(name = "fluxline", version = crate::version::VERSION, max_term_width = 110)]
#[command(after_help = crate::failure::status_help())]
pub struct Arguments {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Log starts, stops, states, new and silent sources to standard error
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log: Option<LogFormat>,
    /// The least important events of the log; default: FLUXLINE_LOG, or info
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
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
    Run(RunArguments),
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
    /// Gather the events of all builders of a cluster into one run folder
    #[command(after_help = "Examples:\n  \
        fluxline gather kafka://10.0.0.5:9092/lab.beam --into runs/0042\n  \
        fluxline gather /copies/* --from kafka://10.0.0.5:9092/lab.beam --into runs/0042")]
    Gather(GatherArguments),
    /// Work with packet descriptions
    #[command(subcommand)]
    Format(FormatCommand),
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
    #[command(subcommand)]
    Sim(crate::sim_arguments::SimCommand),
    /// Draw the map of a simulated network: nodes, links, their load and faults over time, routes
    #[command(
        after_help = "Examples:\n  fluxline topo scenarios/atoll-faults.toml --html map.html\n  \
        fluxline topo 'sim:atoll?torus=4x4' --route 0:10 --svg map.svg\n  \
        fluxline topo scenarios/torus.toml --load 0.3 --json"
    )]
    Topo(crate::topo_arguments::TopoArguments),
    /// Test remote memory with the RDMA programs of others (perftest)
    #[command(subcommand)]
    Rdma(crate::rdma_arguments::RdmaCommand),
    /// Measure a link on this machine, and the limits of the machine itself
    #[command(after_help = "Examples:\n  fluxline bench shm://\n  \
        fluxline bench shm:// --quick --json\n  \
        fluxline bench udp://10.0.0.7 --key KEY   (there: fluxline bench --serve 10.0.0.7:14791)\n  \
        fluxline bench udp://127.0.0.1 --only pingpong,load\n  \
        fluxline bench tcp://127.0.0.1 --only pingpong --format netpipe\n  \
        fluxline bench shm:// --only stores --save\n  \
        fluxline bench udp://127.0.0.1 --only soak --seconds 3600 --seed 7\n  \
        fluxline bench --compare before/report.json after/report.json")]
    Bench(Box<BenchArguments>),
    /// Print the counters page of the manual
    #[command(hide = true)]
    Counters,
    /// Write manual pages or shell completions
    #[command(subcommand, hide = true)]
    Generate(GenerateCommand),
}

/// `fluxline generate`.
#[derive(Debug, Subcommand)]
pub enum GenerateCommand {
    /// Write one manual page per command
    Man(GenerateArguments),
    /// Write completions for bash, zsh and fish
    Completions(GenerateArguments),
}

/// The arguments of `fluxline generate`.
#[derive(Debug, Args)]
pub struct GenerateArguments {
    /// The directory to write to; it is made if it does not exist
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
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

/// `fluxline bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// The link: shm://, udp://ADDRESS[:PORT] of the far end, sim:sci?KEYS in virtual time, or
    /// tcp://ADDRESS as a reference
    #[arg(value_parser = bench_link)]
    #[arg(required_unless_present_any = ["serve", "compare", "list"])]
    pub link: Option<BenchLink>,
    /// Number of rounds; each round measures everything once; default: 5, or 3 with --quick
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Measure fewer sizes and fewer repetitions
    #[arg(long)]
    pub quick: bool,
    /// Run only these experiments, such as pingpong,load
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// List the experiments
    #[arg(long)]
    pub list: bool,
    /// The smallest and the largest message in bytes
    #[arg(long, value_parser = bench_sizes, value_name = "FIRST..LAST")]
    pub sizes: Option<[u64; 2]>,
    /// Variation of the sizes in bytes, as NetPIPE -p; 0: none; default: 3, or 0 with --quick
    #[arg(long)]
    pub perturbation: Option<u64>,
    /// Repeats of every size on NetPIPE's schedule, as NetPIPE -n; default: as many as fill 0.1 s
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub repeats: Option<u64>,
    /// Seconds of a trial in a loss-free search; RFC 2544 asks for 60
    #[arg(long, value_parser = bench_seconds, value_name = "SECONDS")]
    pub trial_seconds: Option<f64>,
    /// Seconds of the experiment soak; default: 10, or 1 with --quick
    #[arg(long, value_parser = bench_soak_seconds, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Save the crossover found by the experiment stores, for programs that open the link; default
    /// file: fluxline/links.toml in the user's configuration directory
    #[arg(long, num_args = 0..=1, value_name = "FILE")]
    pub save: Option<Option<PathBuf>>,
    /// The directory for report.html and report.json; default: the next number in `bench-reports`
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Print the results of one experiment in another program's format. NetPIPE's modes are
    /// --only pingpong (default), stream (-s), bidirectional (-2), integrity (-i) and cold (-I)
    #[arg(long, value_enum)]
    pub format: Option<BenchFormat>,
    /// Compare two report.json files; or show links (URLs, measured now) and report.json files on
    /// one page: half round trips and rates of all
    #[arg(long, num_args = 1..=32, value_name = "REPORT|URL")]
    #[arg(conflicts_with_all = ["link", "serve", "list"])]
    pub compare: Option<Vec<PathBuf>>,
    /// With --compare: also show the curves of this file, all or those named: CSV (bytes, then
    /// NetPIPE's Mbps of each curve) or an np.out; may be given more than once
    #[arg(long = "curve", value_name = "FILE[:NAME,NAME]", requires = "compare")]
    pub curves: Vec<String>,
    /// With --compare of links: write the page into this file
    #[arg(long, short = 'o', value_name = "FILE", requires = "compare")]
    pub output: Option<PathBuf>,
    /// Serve as the far end of a benchmark
    #[arg(long, num_args = 0..=1, default_missing_value = BENCH_LOOPBACK)]
    #[arg(value_name = "ADDRESS:PORT", conflicts_with_all = ["link", "list"])]
    pub serve: Option<std::net::SocketAddr>,
    /// With --serve: exit after one benchmark
    #[arg(long, requires = "serve")]
    pub once: bool,
    /// The far end's key; with --serve: the key that a near end must show
    #[arg(long)]
    pub key: Option<String>,
    /// The far end's address; default: the link's address and port 14791
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub peer: Option<std::net::SocketAddr>,
    /// The core to measure on, and the far end's core if it is on this host
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "NEAR,FAR")]
    pub cores: Vec<usize>,
    /// Send datagrams as the benchmark orders on standard input
    #[arg(long, hide = true, exclusive = true)]
    pub send: bool,
}

/// The address of `--serve` alone. Source: [`fluxline_bench::control::PORT`].
const BENCH_LOOPBACK: &str = "127.0.0.1:14791";

/// A link that can be measured, and its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchLink {
    /// The URL, as it was written.
    pub url: String,
    /// The link.
    pub link: Link,
}

/// Formats of other programs.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum BenchFormat {
    /// NetPIPE's np.out: bytes, Mbps, seconds; of integrity: bytes, repeats
    Netpipe,
}

fn bench_link(text: &str) -> Result<BenchLink, LinkError> {
    Link::parse(text).map(|link| BenchLink { url: text.to_owned(), link })
}

/// The largest message of `--sizes` \[byte\]: NetPIPE's bound.
const BENCH_BYTES_MAX: u64 = 10_000_000;

fn bench_sizes(text: &str) -> Result<[u64; 2], String> {
    let read = |text: &str| text.trim_matches(['.', '=']).trim().parse::<u64>().ok();
    let sizes = text
        .split_once("..")
        .map_or([read(text), read(text)], |(first, last)| [read(first), read(last)]);
    match sizes {
        [Some(first), Some(last)] if 0 < first && first <= last && last <= BENCH_BYTES_MAX => {
            Ok([first, last])
        }
        _ => Err(format!(
            "write FIRST..LAST in bytes, for example 1..65536; at most {BENCH_BYTES_MAX}"
        )),
    }
}

/// The longest soak \[s\]: a month.
const BENCH_SOAK_SECONDS_MAX: f64 = 31.0 * 86_400.0;

fn bench_soak_seconds(text: &str) -> Result<f64, String> {
    let right = |seconds: &f64| (0.01..=BENCH_SOAK_SECONDS_MAX).contains(seconds);
    let seconds = text.parse::<f64>().ok().filter(right);
    seconds.ok_or_else(|| format!("write seconds from 0.01 to {BENCH_SOAK_SECONDS_MAX}"))
}

fn bench_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write seconds from 0.01 to 3600".to_owned())
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
    /// Listen on this address and port, for example 0.0.0.0:6006
    #[arg(long, requires = "format")]
    pub udp: Option<String>,
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
    /// The folder of this run, which must not exist; default: the next number in `runs`
    #[arg(long)]
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
    /// Run this node of the experiment's [cluster]: the name of a readout node, or builder
    #[arg(long, value_name = "NODE", requires = "experiment", conflicts_with_all = [
        "folder", "no_record", "parameters"
    ])]
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
    #[arg(long)]
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

    #[test]
    fn sizes_are_two_numbers_in_order_or_one() {
        assert_eq!(super::bench_sizes("1..64"), Ok([1, 64]));
        assert_eq!(super::bench_sizes("8"), Ok([8, 8]));
        for wrong in ["", "0", "64..1", "a..b", "1..", "..", "-1..5", "1..99999999999"] {
            assert!(super::bench_sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn serving_without_an_address_is_on_loopback_at_the_benchmarks_port() {
        let address: std::net::SocketAddr = super::BENCH_LOOPBACK.parse().expect("an address");
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), fluxline_bench::control::PORT);
    }
}
