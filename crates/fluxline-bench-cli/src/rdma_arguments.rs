//! The command line of `fluxline rdma`.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand};
use fluxline_bench::perftest::{PORT, Program};

/// `fluxline rdma`.
#[derive(Debug, Subcommand)]
pub enum RdmaCommand {
    /// Wait for a program of perftest on another machine, and be its server
    #[command(after_help = "Examples:\n  \
        fluxline rdma serve ib_write_bw --listen 10.0.0.7   (there: ib_write_bw 10.0.0.7)\n  \
        fluxline rdma serve ib_send_lat --listen 10.0.0.7 --bytes 64\n  \
        fluxline rdma serve ib_write_bw --listen 10.0.0.7 --unreliable   (there: -c UC)")]
    Serve(RdmaServeArguments),
    /// Run a test of perftest against its server on another machine
    #[command(after_help = "Examples:\n  \
        fluxline rdma connect ib_write_bw 10.0.0.8   (there: ib_write_bw)\n  \
        fluxline rdma connect ib_read_lat 10.0.0.8 --bytes 64 --operations 10000 --json")]
    Connect(RdmaConnectArguments),
}

/// The arguments of both ends.
#[derive(Debug, Args)]
pub struct RdmaTestArguments {
    /// The program at the other end: ib_write_bw, ib_write_lat, ib_read_bw, ib_read_lat,
    /// ib_send_bw, ib_send_lat, ib_atomic_bw or ib_atomic_lat
    #[arg(value_parser = program)]
    pub program: Program,
    /// Size of a message in bytes, as perftest's -s; default: that of the program
    #[arg(long)]
    pub bytes: Option<u64>,
    /// Number of operations, as perftest's -n; default: that of the program
    #[arg(long)]
    pub operations: Option<u64>,
    /// Use an unreliable connection, as perftest's -c UC
    #[arg(long)]
    pub unreliable: bool,
    /// This machine's address for remote memory, if TCP uses another network
    #[arg(long, value_name = "ADDRESS")]
    pub own: Option<IpAddr>,
    /// The other end's address for remote memory, if TCP uses another network
    #[arg(long, value_name = "ADDRESS")]
    pub peer: Option<IpAddr>,
    /// Give up after this time without progress (s)
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
}

/// `fluxline rdma serve`.
#[derive(Debug, Args)]
pub struct RdmaServeArguments {
    /// The test
    #[command(flatten)]
    pub test: RdmaTestArguments,
    /// The address of this machine to listen at, on UDP port 4791 too; default port: 18515
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address, default_value = "127.0.0.1")]
    pub listen: SocketAddr,
}

/// `fluxline rdma connect`.
#[derive(Debug, Args)]
pub struct RdmaConnectArguments {
    /// The test
    #[command(flatten)]
    pub test: RdmaTestArguments,
    /// The server; its port is 18515 if left out
    #[arg(value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub server: SocketAddr,
}

fn program(text: &str) -> Result<Program, String> {
    Program::named(text).ok_or_else(|| {
        let names: Vec<String> = Program::all().map(|program| program.to_string()).collect();
        format!("write one of {}", names.join(", "))
    })
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = text.parse::<SocketAddr>().ok();
    let address = whole.or_else(|| Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, PORT)));
    address.ok_or_else(|| format!("write an address, or with its port 10.0.0.7:{PORT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_lack_their_port() {
        assert_eq!(address("10.0.0.7"), Ok(SocketAddr::from(([10, 0, 0, 7], 18_515))));
        assert_eq!(address("10.0.0.7:99"), Ok(SocketAddr::from(([10, 0, 0, 7], 99))));
        assert_eq!(address("fd77::1").map(|of| of.port()), Ok(18_515));
        assert_eq!(address("[fd77::1]:99").map(|of| of.port()), Ok(99));
        assert!(address("host").is_err() && address("").is_err());
    }
}
