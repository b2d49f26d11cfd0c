//! The command line of `fluxline bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fluxline_bench::real::{Link, LinkError};

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

#[cfg(test)]
mod tests {
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
