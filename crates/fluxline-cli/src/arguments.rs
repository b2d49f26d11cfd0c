//! The command line as a table: every flag is one row of a struct here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Write your data acquisition once; choose the link last.
#[derive(Debug, Parser)]
#[command(name = "fluxline", version, max_term_width = 110)]
#[command(after_help = "Exit status: 0 done; 1 failed; 2 wrong command line; 3 wrong input file; \
    4 the ledger does not close; 5 recording stopped; 6 a link could not be opened.\n\n\
    Example: fluxline run --pcap capture.pcapng --format srs-vmm3")]
pub struct Arguments {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Acquire: receive packets, build events, record them, account for every one
    #[command(after_help = "Examples:\n  fluxline run experiment.toml\n  \
        fluxline run --pcap capture.pcapng --format srs-vmm3\n  \
        fluxline run --udp 0.0.0.0:6006 --format srs-vmm3 --seconds 60")]
    Run(RunArguments),
    /// Ten seconds of the main job: 8 emulated front-ends push UDP over loopback
    #[command(after_help = "Example: fluxline demo --seconds 3")]
    Demo(DemoArguments),
    /// Show what a run holds: what came, what is missing, where it was lost
    #[command(after_help = "Example: fluxline inspect runs/0042")]
    Inspect(InspectArguments),
    /// Write a run's events as Parquet, CSV or NumPy files
    #[command(after_help = "Example: fluxline export runs/0042 --to parquet")]
    Export(ExportArguments),
    /// Make a run that was cut off readable to its last complete batch
    #[command(after_help = "Example: fluxline recover runs/0042")]
    Recover(RecoverArguments),
    /// Work with packet descriptions
    #[command(subcommand)]
    Format(FormatCommand),
    /// Send or write packets as a sensor would, with faults when asked
    #[command(after_help = "Examples:\n  \
        fluxline emulate counter --to udp://127.0.0.1:6006 --sources 8 --rate 1000 --seconds 10\n  \
        fluxline emulate sls --to capture.pcapng --packets 1000 --drop 0.001 --seed 7\n  \
        fluxline emulate counter --roce --to udp://127.0.0.1:4791 --from 127.0.0.1:4800 --key 7 \
        --payload-bytes 992")]
    Emulate(EmulateArguments),
    /// Say what in this host will lose packets, and the command that mends it
    #[command(after_help = "Example: fluxline doctor")]
    Doctor,
    /// Show the nodes on shared memory, and remove what dead ones left
    #[command(subcommand)]
    Shm(ShmCommand),
    /// Measure what a link reaches on this machine, beside what the machine can do at all
    #[command(after_help = "Examples:\n  fluxline bench shm://\n  \
        fluxline bench shm:// --quick --json\n  fluxline bench shm:// --peers --rounds 3")]
    Bench(BenchArguments),
    /// Be the other process of a benchmark
    #[command(hide = true)]
    BenchOther(BenchOtherArguments),
    /// Print the counters page of the manual
    #[command(hide = true)]
    Counters,
}

/// `fluxline shm`.
#[derive(Debug, Subcommand)]
pub enum ShmCommand {
    /// Show nodes and their regions, living and dead
    #[command(after_help = "Example: fluxline shm list")]
    List,
    /// Remove what processes left that were killed
    #[command(after_help = "Example: fluxline shm clean")]
    Clean,
}

/// `fluxline bench`.
#[derive(Debug, Args)]
pub struct BenchArguments {
    /// The link: shm:// (shared memory between two processes)
    #[arg(value_parser = bench_link)]
    pub link: BenchLink,
    /// How often everything is measured; default: 5, or 1 with --quick
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// A first look, in less than 10 s without --peers: fewer records, one round
    #[arg(long)]
    pub quick: bool,
    /// Compare with other libraries that are installed, in the same rounds
    #[arg(long)]
    pub peers: bool,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchLink {
    /// Shared memory.
    Shm,
}

fn bench_link(url: &str) -> Result<BenchLink, String> {
    match url {
        "shm://" => Ok(BenchLink::Shm),
        _ if url.starts_with("shm://") => {
            Err("write shm:// alone; the benchmark opens a group of its own".to_owned())
        }
        _ => Err("this names no link that can be measured; write shm://".to_owned()),
    }
}

/// `fluxline bench-other`, which `fluxline bench` starts.
#[derive(Debug, Args)]
pub struct BenchOtherArguments {
    /// The group of both nodes
    pub group: String,
    /// The core to run on
    pub core: usize,
}

/// `fluxline run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The experiment; left out when --pcap or --udp say what to read
    #[arg(conflicts_with_all = ["pcap", "udp", "format"])]
    pub experiment: Option<PathBuf>,
    /// Read this capture (pcap or pcapng) instead of an experiment's sources
    #[arg(long, requires = "format", conflicts_with = "udp")]
    pub pcap: Option<PathBuf>,
    /// Listen on this address and port, for example 0.0.0.0:6006
    #[arg(long, requires = "format")]
    pub udp: Option<String>,
    /// The packets' description: a shipped format's name or a TOML file
    #[arg(long)]
    pub format: Option<String>,
    /// Set a parameter of the description, NAME=INTEGER; may be given more than once
    #[arg(long = "set", value_name = "NAME=INTEGER")]
    pub parameters: Vec<String>,
    /// Only packets to this UDP port of the capture; may be given more than once
    #[arg(long = "port", requires = "pcap")]
    pub ports: Vec<u16>,
    /// How packets become events; default: what the description has
    #[arg(long, value_enum)]
    pub events: Option<BuildArgument>,
    /// The folder of this run, which must not exist; default: the next number in `runs`
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Stop after so many seconds; 0: when the sources end, or Ctrl-C
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Build events and close the ledger, but write no event files
    #[arg(long)]
    pub no_record: bool,
}

/// How packets become events.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum BuildArgument {
    /// Every packet is an event
    Packet,
    /// Packets of one key are an event, over all sources
    Key,
    /// Packets of one key and one source are an event
    Source,
}

/// `fluxline demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// How long front-ends send \[s\]
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// How many front-ends
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
}

/// `fluxline inspect`.
#[derive(Debug, Args)]
pub struct InspectArguments {
    /// The run's folder
    pub run: PathBuf,
    /// Show at most so many incomplete events
    #[arg(long, default_value_t = 10)]
    pub incomplete: usize,
}

/// `fluxline export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The run's folder
    pub run: PathBuf,
    /// The kind of file
    #[arg(long, value_enum)]
    pub to: ExportKind,
    /// Where to; default: `export-KIND` in the run's folder
    #[arg(long)]
    pub into: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    pub overwrite: bool,
}

/// The kinds of file that `export` writes.
#[derive(Clone, Copy, Debug, ValueEnum, PartialEq, Eq)]
pub enum ExportKind {
    /// Apache Parquet
    Parquet,
    /// Comma-separated text
    Csv,
    /// NumPy arrays
    Npy,
}

/// `fluxline recover`.
#[derive(Debug, Args)]
pub struct RecoverArguments {
    /// The run's folder
    pub run: PathBuf,
}

/// `fluxline format`.
#[derive(Debug, Subcommand)]
pub enum FormatCommand {
    /// List the shipped descriptions
    #[command(after_help = "Example: fluxline format list")]
    List,
    /// Draw a packet byte by byte
    #[command(after_help = "Example: fluxline format show srs-vmm3")]
    Show(FormatArguments),
    /// Say what a capture holds by a description
    #[command(after_help = "Example: fluxline format check srs-vmm3 --capture example.pcapng")]
    Check(CheckArguments),
    /// Write a Wireshark dissector
    #[command(
        after_help = "Example: fluxline format wireshark srs-vmm3 --port 6006 > srs.lua\n         \
        tshark -X lua_script:srs.lua -r example.pcapng"
    )]
    Wireshark(WiresharkArguments),
    /// Write the NumPy dtype of the packet and its records
    #[command(after_help = "Example: fluxline format numpy sls")]
    Numpy(FormatArguments),
}

/// What every `format` command takes.
#[derive(Debug, Args)]
pub struct FormatArguments {
    /// A shipped format's name or a TOML file
    pub format: String,
    /// Set a parameter of the description, NAME=INTEGER; may be given more than once
    #[arg(long = "set", value_name = "NAME=INTEGER")]
    pub parameters: Vec<String>,
}

/// `fluxline format check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The capture (pcap or pcapng)
    #[arg(long)]
    pub capture: PathBuf,
    /// Only packets to this UDP port; may be given more than once
    #[arg(long = "port")]
    pub ports: Vec<u16>,
}

/// `fluxline format wireshark`.
#[derive(Debug, Args)]
pub struct WiresharkArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The UDP port that the dissector is registered on
    #[arg(long)]
    pub port: u16,
}

/// `fluxline emulate`.
#[derive(Debug, Args)]
pub struct EmulateArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// Where to: udp://ADDRESS:PORT, or a pcapng file to write
    #[arg(long)]
    pub to: String,
    /// How many sources
    #[arg(long, default_value_t = 1)]
    pub sources: u32,
    /// Packets per second and source; 0: as fast as possible
    #[arg(long, default_value_t = 1000.0)]
    pub rate: f64,
    /// Packets per source; 0: until --seconds or Ctrl-C
    #[arg(long, default_value_t = 0)]
    pub packets: u64,
    /// Stop after so many seconds; 0: no limit
    #[arg(long, default_value_t = 0.0)]
    pub seconds: f64,
    /// Payload of a packet \[byte\]; default: the description's
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
    /// By how many packets at most
    #[arg(long, default_value_t = 4)]
    pub reorder_distance: u32,
    /// Probability that one bit of a packet is flipped
    #[arg(long, default_value_t = 0.0)]
    pub corrupt: f64,
    /// Probability that a source falls silent for --stall-ms
    #[arg(long, default_value_t = 0.0)]
    pub stall: f64,
    /// How long a stall is \[ms\]
    #[arg(long, default_value_t = 100)]
    pub stall_ms: u64,
    /// Probability that a source restarts with its counters at zero
    #[arg(long, default_value_t = 0.0)]
    pub restart: f64,
    /// Most packets in one send call that the kernel cuts (UDP_SEGMENT); 1: single datagrams, as an
    /// FPGA sends
    #[arg(long, default_value_t = 1)]
    pub train: u32,
    /// With --roce: where to and from
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
    /// The R_Key that the receiver is configured with
    #[arg(long, requires = "roce", default_value_t = 1)]
    pub key: u32,
    /// The address that the receiver's region begins at
    #[arg(long, requires = "roce", default_value_t = 0)]
    pub base: u64,
    /// Size of the receiver's region \[byte\]
    #[arg(long, requires = "roce", default_value_t = 4 << 20)]
    pub ring_bytes: u64,
    /// Distance of two packets in it \[byte\]
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
