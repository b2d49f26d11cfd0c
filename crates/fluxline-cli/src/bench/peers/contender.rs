//! The contenders: how each is found or built, and how its number is read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::order::{Order, Task};
use super::super::pair::Pair;
use super::super::rows::percentile;
use super::super::{BATCH, BenchError};
use super::scratch::Scratch;
use super::{Cell, NoNumber, Quantity, process};
use crate::run::Stop;

const MPI_SOURCE: &str = include_str!("../../../../../tools/peers/mpi.c");
const ZEROMQ_SOURCE: &str = include_str!("../../../../../tools/peers/zeromq.c");
/// From the root of the source tree.
const ICEORYX2: &str = "tools/peers/iceoryx2";
const PEERS_TARGET: &str = "target/peers";

/// One row.
pub struct Contender {
    /// What it is called.
    pub name: &'static str,
    /// Why it cannot be measured here; `None`: it can.
    pub absent: Option<String>,
    /// Whether its work is equal to ours.
    pub is_equal: bool,
    way: Way,
}

enum Way {
    Absent,
    /// Fluxline: records to a publication.
    Ours {
        batch: u64,
        reads_all: bool,
    },
    /// `ucx_perftest` with these tests of latency and rate, over these transports.
    Ucx {
        tests: [&'static str; 2],
        transports: &'static str,
    },
    /// `fi_pingpong`, which measures round trips alone.
    Libfabric,
    /// Programs of our own, in the folder.
    Mpi(PathBuf, #[expect(dead_code, reason = "keeps the folder")] Arc<Scratch>),
    Zeromq(PathBuf, Arc<Scratch>),
    Iceoryx2(PathBuf),
}

/// All contenders, ours first; programs are built in a folder that goes with the last of them.
pub fn all(stop: &Stop, say: impl Fn(&str)) -> Result<Vec<Contender>, BenchError> {
    let scratch = Arc::new(Scratch::new()?);
    let ours = |name, batch, reads_all| Contender {
        name,
        absent: None,
        is_equal: true,
        way: Way::Ours { batch, reads_all },
    };
    let ucx = |name, tests, transports, is_equal| {
        let way = Way::Ucx { tests, transports };
        found(name, is_equal, need("ucx_perftest", "ucx-utils").map(|()| way))
    };
    let (tag, put) = (["tag_lat", "tag_bw"], ["ucp_put_lat", "ucp_put_bw"]);
    let mut all = vec![
        ours("fluxline", BATCH, false),
        ours("fluxline, each published", 1, false),
        ours("fluxline, all bytes read", BATCH, true),
        ucx("UCX tag (posix)", tag, "posix,self", true),
        ucx("UCX tag (posix, cma)", tag, "posix,cma,self", true),
        ucx("UCX put (no notification)", put, "posix,self", false),
    ];
    let libfabric = need("fi_pingpong", "libfabric-bin").map(|()| Way::Libfabric);
    all.push(found("libfabric shm (mean)", true, libfabric));
    say("building the program for MPI");
    all.push(found("OpenMPI", true, mpi(&scratch, stop)));
    say("building the program for ZeroMQ");
    all.push(found("ZeroMQ ipc", true, zeromq(&scratch, stop)));
    say("building the program for iceoryx2");
    all.push(found("iceoryx2", true, iceoryx2(stop)));
    Ok(all)
}

fn found(name: &'static str, is_equal: bool, way: Result<Way, String>) -> Contender {
    match way {
        Ok(way) => Contender { name, absent: None, is_equal, way },
        Err(why) => Contender { name, absent: Some(why), is_equal, way: Way::Absent },
    }
}

fn need(program: &str, package: &str) -> Result<(), String> {
    if process::is_there(program) {
        return Ok(());
    }
    Err(format!("not installed: apt-get install {package}"))
}

fn compile(
    compiler: &str,
    (source, name): (&str, &str),
    last: &[&str],
    scratch: &Scratch,
    stop: &Stop,
) -> Result<PathBuf, String> {
    let (file, program) = (scratch.path().join(format!("{name}.c")), scratch.path().join(name));
    std::fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut command = Command::new(compiler);
    command.args(["-O2", "-o"]).arg(&program).arg(&file).args(last);
    match process::output(&mut command, None, stop) {
        Ok(_) => Ok(program),
        Err(_) => Err(format!("{compiler} does not build {name}.c")),
    }
}

fn mpi(scratch: &Arc<Scratch>, stop: &Stop) -> Result<Way, String> {
    need("mpirun", "openmpi-bin")?;
    need("mpicc", "libopenmpi-dev")?;
    let program = compile("mpicc", (MPI_SOURCE, "mpi"), &[], scratch, stop)?;
    Ok(Way::Mpi(program, Arc::clone(scratch)))
}

fn zeromq(scratch: &Arc<Scratch>, stop: &Stop) -> Result<Way, String> {
    need("cc", "gcc")?;
    let program = compile("cc", (ZEROMQ_SOURCE, "zeromq"), &["-lzmq"], scratch, stop)
        .map_err(|why| format!("{why}: apt-get install libzmq3-dev"))?;
    Ok(Way::Zeromq(program, Arc::clone(scratch)))
}

/// Built by cargo once, and then kept: it takes a minute or two.
fn iceoryx2(stop: &Stop) -> Result<Way, String> {
    let manifest = Path::new(ICEORYX2).join("Cargo.toml");
    if !manifest.is_file() {
        return Err(format!("run in the root of Fluxline's sources, where {ICEORYX2} is"));
    }
    need("cargo", "cargo")?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--manifest-path"]).arg(&manifest);
    cargo.env("CARGO_TARGET_DIR", PEERS_TARGET).stderr(Stdio::null());
    let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if !status.success() || stop.is_over() {
        return Err(format!("cargo does not build {ICEORYX2}"));
    }
    Ok(Way::Iceoryx2(Path::new(PEERS_TARGET).join("release/peer-iceoryx2")))
}

impl Contender {
    /// Whether it is Fluxline.
    pub fn is_ours(&self) -> bool {
        matches!(self.way, Way::Ours { .. })
    }

    /// Measures one cell: nanoseconds, or messages per second.
    pub fn measure(&self, cell: Cell, cores: [usize; 2], stop: &Stop) -> Result<f64, NoNumber> {
        let [here, there] = cores.map(|core| core.to_string());
        let Cell { bytes, count, quantity } = cell;
        let [bytes, count] = [bytes.to_string(), count.to_string()];
        let task = if quantity == Quantity::Trip { "trip" } else { "rate" };
        let work = [task, &bytes, &count, &here, &there];
        match &self.way {
            Way::Absent => Err(NoNumber::NotOffered),
            Way::Ours { batch, reads_all } => ours(cell, cores, (*batch, *reads_all), stop),
            Way::Ucx { tests, transports } => ucx(cell, cores, (tests, transports), stop),
            Way::Libfabric => libfabric(cell, cores, stop),
            Way::Mpi(program, _) => {
                let mut command = Command::new("mpirun");
                command.args(["--allow-run-as-root", "--bind-to", "none", "--oversubscribe"]);
                command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
                command.args(["-np", "2"]).arg(program).args(work);
                number(&process::output(&mut command, None, stop)?)
            }
            Way::Zeromq(program, scratch) => {
                let mut command = Command::new(program);
                command.args(work).arg(scratch.path().join("socket"));
                number(&process::output(&mut command, None, stop)?)
            }
            Way::Iceoryx2(program) => {
                let mut command = Command::new(program);
                command.args([task, &bytes, &count, &there]);
                number(&process::output(&mut command, Some(cores[0]), stop)?)
            }
        }
    }
}

fn number(text: &str) -> Result<f64, NoNumber> {
    let found = text.split_whitespace().next().and_then(|word| word.parse().ok());
    found.ok_or_else(|| NoNumber::Failed("its program printed no number".to_owned()))
}

fn ours(
    cell: Cell,
    cores: [usize; 2],
    (batch, reads_all): (u64, bool),
    stop: &Stop,
) -> Result<f64, NoNumber> {
    static CELLS: AtomicU64 = AtomicU64::new(0);
    let number = CELLS.fetch_add(1, Ordering::Relaxed);
    let group = format!("bench-{}-peers-{number}", std::process::id());
    let measured = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut pair = Pair::start(&group, cores[1], stop)?;
            fluxline::pin::pin_current_thread(cores[0])?;
            let trip = if reads_all { Task::Echo } else { Task::Answer };
            let task = if cell.quantity == Quantity::Trip { trip } else { Task::Take };
            let order = Order { reads_all, ..Order::new(task, cell.bytes, cell.count) };
            let value = match cell.quantity {
                Quantity::Trip => percentile(&pair.round_trips(order)?, 0.5) / 2.0,
                Quantity::Rate => {
                    pair.delivered(order, if cell.bytes > 1024 { 1 } else { batch })?
                }
            };
            pair.end()?;
            Ok::<f64, BenchError>(value)
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // Ours is no peer that may be missing.
    measured.map_err(NoNumber::Over)
}

fn ucx(
    cell: Cell,
    cores: [usize; 2],
    (tests, transports): (&[&str; 2], &str),
    stop: &Stop,
) -> Result<f64, NoNumber> {
    let port = process::free_port()?;
    let perftest = || {
        let mut command = Command::new("ucx_perftest");
        command.env("UCX_TLS", transports).args(["-p", &port]);
        command
    };
    let mut client = perftest();
    let [bytes, count] = [cell.bytes.to_string(), cell.count.to_string()];
    let warm_up = (cell.count / 10).to_string();
    let is_trip = cell.quantity == Quantity::Trip;
    client.args(["127.0.0.1", "-t", if is_trip { tests[0] } else { tests[1] }, "-f", "-v"]);
    client.args(["-s", &bytes, "-n", &count, "-w", &warm_up]);
    let text = process::client_output(&mut perftest(), &mut client, cores, stop)?;
    // iterations, median latency [us], average and overall latency, two bandwidths, two rates
    let last = text.lines().last().unwrap_or_default();
    let fields: Vec<f64> = last.split(',').filter_map(|word| word.trim().parse().ok()).collect();
    match fields[..] {
        [_, median, _, _, _, _, _, rate] => Ok(if is_trip { median * 1e3 } else { rate }),
        _ => Err(NoNumber::Failed("ucx_perftest printed no line of 8 numbers".to_owned())),
    }
}

fn libfabric(cell: Cell, cores: [usize; 2], stop: &Stop) -> Result<f64, NoNumber> {
    if cell.quantity == Quantity::Rate {
        return Err(NoNumber::NotOffered);
    }
    let port = process::free_port()?;
    let pingpong = |place: &str| {
        let mut command = Command::new("fi_pingpong");
        command.args(["-p", "shm", "-e", "rdm", "-m", "tagged", place, &port]);
        command.args(["-I", &cell.count.to_string(), "-S", &cell.bytes.to_string()]);
        command
    };
    let (mut server, mut client) = (pingpong("-B"), pingpong("-P"));
    client.arg("127.0.0.1");
    let text = process::client_output(&mut server, &mut client, cores, stop)?;
    // ... MB/sec, usec/xfer (two decimals), Mxfers/sec: the first of them has most digits.
    let words: Vec<&str> = text.lines().last().unwrap_or_default().split_whitespace().collect();
    let speed = words.iter().rev().nth(2).and_then(|word| word.parse::<f64>().ok());
    match speed.filter(|speed| *speed > 0.0) {
        Some(speed) => Ok(cell.bytes as f64 / speed * 1e3),
        None => Err(NoNumber::Failed("fi_pingpong printed no speed".to_owned())),
    }
}
