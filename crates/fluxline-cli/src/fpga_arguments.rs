//! The command line of `fluxline fpga`.

use clap::{Args, Subcommand};

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
