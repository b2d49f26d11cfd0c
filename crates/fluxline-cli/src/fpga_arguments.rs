//! The command lines of `fluxline format fpga` and `fluxline fpga`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::format_arguments::FormatArguments;

/// `fluxline format fpga`.
#[derive(Debug, Args)]
pub struct GatewareArguments {
    /// The description
    #[command(flatten)]
    pub format: FormatArguments,
    /// The folder to write; it must not exist, be empty, or be one that this command wrote
    #[arg(long, short = 'o', value_name = "FOLDER")]
    pub output: PathBuf,
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

/// `fluxline fpga`.
#[derive(Debug, Subcommand)]
pub enum FpgaCommand {
    /// Show the ledger and the settings of a board
    #[command(after_help = "Example: fluxline fpga status 10.23.0.2")]
    Status(BoardArguments),
    /// Read a register
    #[command(after_help = "Example: fluxline fpga read 10.23.0.2 PEER_IP")]
    Read(ReadArguments),
    /// Write a register
    #[command(after_help = "Examples:\n  fluxline fpga write 10.23.0.2 PEER_IP 10.23.0.1\n  \
        fluxline fpga write 10.23.0.2 CONTROL 0")]
    Write(WriteArguments),
}

/// The board of a command.
#[derive(Debug, Args)]
pub struct BoardArguments {
    /// The board's address, with the port of its register window if that is not 6007
    pub address: String,
}

/// `fluxline fpga read`.
#[derive(Debug, Args)]
pub struct ReadArguments {
    /// The board
    #[command(flatten)]
    pub board: BoardArguments,
    /// The register's name, as in registers.md, or its address, such as 0x24
    pub register: String,
}

/// `fluxline fpga write`.
#[derive(Debug, Args)]
pub struct WriteArguments {
    /// The register to write
    #[command(flatten)]
    pub what: ReadArguments,
    /// The value: decimal, 0x..., or an IPv4 address
    pub value: String,
}
