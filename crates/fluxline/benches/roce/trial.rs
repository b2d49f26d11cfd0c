//! One trial: both ends as processes of their own, and what they say of it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::cpu::Cpu;
use super::ends::Settings;
use super::path::Path;
use super::{bare, ping, put, tcp};

/// Settings that all parts share.
pub struct Bench {
    pub rounds: usize,
    /// The sender's and the receiver's.
    pub cores: (usize, usize),
    _folder: tempfile::TempDir,
    pub bare: PathBuf,
}

impl Bench {
    pub fn new(rounds: usize, cores: (usize, usize)) -> Bench {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let bare = bare::compile(folder.path());
        Bench { rounds, cores, _folder: folder, bare }
    }
}

/// The report of one end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Side {
    /// Bytes sent or arrived; for round trips, their number.
    pub amount: f64,
    /// In which time; the sender may not say.
    pub seconds: f64,
    /// Share of frames that did not come.
    pub lost: f64,
    pub cpu: Cpu,
}

/// The reports of both ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub sent: Side,
    pub received: Side,
}

impl Outcome {
    /// Goodput at the receiver \[Gb/s\].
    pub fn gigabits(&self) -> f64 {
        self.received.amount * 8e-9 / self.received.seconds.max(1e-9)
    }
}

/// Last line of an end: amount, seconds, share lost, user and system time.
pub fn print_side(amount: f64, seconds: f64, lost: f64, cpu: Cpu) {
    println!("side {amount} {seconds} {lost} {} {}", cpu.user, cpu.system);
}

/// This process is an end.
pub fn play(role: &str, settings: &Settings) {
    match role {
        "as-put-sender" => put::send(settings),
        "as-put-receiver" => put::receive(settings),
        "as-tcp-sender" => tcp::send(settings),
        "as-tcp-receiver" => tcp::receive(settings),
        "as-ping" => ping::ask(settings),
        "as-echo" => ping::echo(settings),
        other => panic!("no role {other}"),
    }
}

/// A started end; killed when dropped.
pub struct End {
    child: Child,
    lines: Receiver<String>,
}

/// An end that says nothing for so long is given up: its trial counts as nothing.
const PATIENCE: Duration = Duration::from_secs(15);

impl End {
    pub fn start(mut command: Command) -> End {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (lines_out, lines) = channel();
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| lines_out.send(line))
        });
        End { child, lines }
    }

    /// The rest of the next line that begins with this word.
    pub fn line(&mut self, word: &str) -> Option<String> {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).ok()?;
            if let Some(rest) = line.strip_prefix(word) {
                return Some(rest.trim().to_owned());
            }
        }
    }

    /// Waits a moment: an end that is killed could not tell the other one that it is over.
    fn ends(&mut self) {
        for _ in 0..200 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn side(mut self) -> Side {
        let line = self.line("side").unwrap_or_default();
        self.ends();
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [amount, seconds, lost, user, system] = numbers[..] else { return Side::default() };
        Side { amount, seconds, lost, cpu: Cpu { user, system } }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of ours, each in its place of the path.
pub fn run(bench: &Bench, path: &Path, roles: (&str, &str), settings: &Settings) -> Outcome {
    let settings = path.addresses(settings.clone());
    let own = std::env::current_exe().expect("a path");
    let command = |role: &str, core: usize, settings: Settings| {
        let mut command = Command::new(&own);
        command.arg(role).args(settings.with("core", core).arguments());
        command
    };
    let receiver = command(roles.1, bench.cores.1, settings.clone());
    let mut receiver = End::start(path.at_receiver(receiver));
    let Some(port) = receiver.line("ready") else { return Outcome::default() };
    let sender = command(roles.0, bench.cores.0, settings.with("port", port));
    let sender = End::start(path.at_sender(sender));
    let received = receiver.side();
    Outcome { sent: sender.side(), received }
}
