//! The command line of `fluxline format`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use fluxline_daq::capture::raw::LengthPrefix;

use crate::failure::Failure;
use crate::words::{Word, words};

/// `fluxline format`.
#[derive(Debug, Subcommand)]
pub enum FormatCommand {
    /// List the shipped descriptions
    #[command(after_help = "Example: fluxline format list")]
    List,
    /// Draw a packet byte by byte
    #[command(after_help = "Example: fluxline format show srs-vmm3")]
    Show(FormatArguments),
    /// Check a capture or a raw file against a description
    #[command(after_help = "Examples:\n  \
        fluxline format check srs-vmm3 --capture example.pcapng\n  \
        fluxline format check my-board.toml --raw dump.bin --record-bytes 1056")]
    Check(CheckArguments),
    /// Draft a description from a capture: sizes, constants, counters, likely keys and times
    #[command(after_help = "Example: fluxline format new --capture board.pcapng --port 6006 > \
        my-board.toml")]
    New(NewArguments),
    /// Write a Wireshark dissector
    #[command(
        after_help = "Example: fluxline format wireshark srs-vmm3 --port 6006 > srs.lua\n         \
        tshark -X lua_script:srs.lua -r example.pcapng\n         \
        fluxline format wireshark sci --link-type 147 > sci.lua"
    )]
    Wireshark(WiresharkArguments),
    /// Write the NumPy dtype of the packet and its records
    #[command(after_help = "Example: fluxline format numpy sls")]
    Numpy(FormatArguments),
    /// Write gateware that sends the packet: packetiser, registers, test bench
    #[command(after_help = "Example: fluxline format fpga my-board.toml -o gateware\n         \
        make -C gateware venv sim")]
    Fpga(GatewareArguments),
}

/// The arguments of every `format` command.
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
    /// The packets to read
    #[command(flatten)]
    pub file: PacketFileArguments,
}

/// A file of packets.
#[derive(Debug, Args)]
pub struct PacketFileArguments {
    /// The capture (pcap or pcapng)
    #[arg(long, value_name = "FILE", required_unless_present = "raw", conflicts_with = "raw")]
    pub capture: Option<PathBuf>,
    /// Only packets to this UDP port; may be given more than once
    #[arg(long = "port", conflicts_with = "raw")]
    pub ports: Vec<u16>,
    /// Also take datagrams of the capture whose UDP check sum is wrong
    #[arg(long, conflicts_with = "raw")]
    pub no_check_sums: bool,
    /// Instead of a capture: a file of raw payloads
    #[arg(long, value_name = "FILE", requires = "framing")]
    pub raw: Option<PathBuf>,
    /// The size of every payload in the raw file (bytes)
    #[arg(long, requires = "raw", group = "framing")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub record_bytes: Option<u32>,
    /// The form of the length before each payload of the raw file
    #[arg(long, requires = "raw", group = "framing")]
    #[arg(value_parser = words::<LengthPrefix>(LENGTH_PREFIXES))]
    pub length_prefix: Option<LengthPrefix>,
}

/// Words of `--length-prefix`, as in the experiment file.
const LENGTH_PREFIXES: &[Word] = &[
    ("u16-le", "16 bits, little-endian"),
    ("u16-be", "16 bits, big-endian"),
    ("u32-le", "32 bits, little-endian"),
    ("u32-be", "32 bits, big-endian"),
];

/// `fluxline format new`.
#[derive(Debug, Args)]
pub struct NewArguments {
    /// The packets to read
    #[command(flatten)]
    pub file: PacketFileArguments,
}

/// `fluxline format wireshark`.
#[derive(Debug, Args)]
pub struct WiresharkArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The UDP port that the dissector is registered on; may be given more than once
    #[arg(long = "port", required_unless_present = "link_type", conflicts_with = "link_type")]
    pub ports: Vec<u16>,
    /// Instead of a port: the link type of frames without UDP, 147 to 162 (dumps of simulations)
    #[arg(long, value_parser = clap::value_parser!(u16).range(147..=162), value_name = "NUMBER")]
    pub link_type: Option<u16>,
}

/// The link of gateware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GatewareLinkName {
    /// Datagrams to a socket
    Udp,
    /// RDMA WRITE with immediate into memory (RoCEv2, unreliable connection)
    Roce,
}

/// `fluxline format fpga`.
#[derive(Debug, Args)]
pub struct GatewareArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The folder to write; it must not exist, be empty, or be one that this command wrote
    #[arg(long, short = 'o', value_name = "FOLDER")]
    pub output: PathBuf,
    /// The way into the receiver
    #[arg(long, value_enum, default_value_t = GatewareLinkName::Udp)]
    pub link: GatewareLinkName,
    /// The packet type to send; default: the first one with a packet counter or a key
    #[arg(long, value_name = "NAME")]
    pub packet: Option<String>,
    /// Bytes of samples in a packet; default: those of [packet.emulate]
    #[arg(long, value_name = "BYTES")]
    pub payload_bytes: Option<u64>,
    /// The link's largest IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    #[arg(value_parser = clap::value_parser!(u64).range(68..=65_535))]
    pub mtu: u64,
    /// Bytes of samples that the FIFO holds, a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 16_384)]
    pub fifo_bytes: u64,
}

/// Parses `NAME=INTEGER` arguments.
pub fn parameters(arguments: &[String]) -> Result<BTreeMap<String, u64>, Failure> {
    arguments
        .iter()
        .map(|argument| {
            let parts = argument.split_once('=');
            let value = parts.and_then(|(_, value)| value.parse().ok());
            match (parts, value) {
                (Some((name, _)), Some(value)) => Ok((name.to_string(), value)),
                _ => Err(Failure::input(format_args!(
                    "--set {argument} is not NAME=INTEGER; write for example --set count=64."
                ))),
            }
        })
        .collect()
}
