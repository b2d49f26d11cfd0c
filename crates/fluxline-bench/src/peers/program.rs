//! Programs of peers: found, started on a core, read, and ended with the benchmark.
//!
//! taskset gives each its core. setpriv makes the kernel end it with the thread that started it.
//! Both become the program, so that its process number is known. Source: taskset(1), setpriv(1) of
//! util-linux.

use std::ffi::OsStr;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::contender::{NoNumber, Path, Presence, Run};
use super::listening;
use crate::Error;

/// A server ends within this time after its client.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// A server listens within this time.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at a program.
const LOOK: Duration = Duration::from_millis(5);
/// The output of a program that is kept \[byte\]; the rest is discarded.
const SAID_BYTES_MAX: u64 = 4 << 20;
/// The output of a program that has ended is read within this time.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// A program of a peer, and what brings it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its possible names.
    pub names: &'static [&'static str],
    /// The Debian package that has it; empty: none.
    pub package: &'static str,
    /// The command that installs it.
    pub install: &'static str,
}

impl Program {
    /// Finds it on the path by the first of its names.
    #[must_use]
    pub fn find(&self) -> Option<PathBuf> {
        self.names.iter().find_map(|name| on_path(name))
    }

    /// Returns its version, from its package if `own` gives none, or how to install it.
    #[must_use]
    pub fn presence(&self, own: impl FnOnce(&PathBuf) -> Option<String>) -> Presence {
        let Some(path) = self.find() else {
            return Presence::Absent(format!("not installed: {}", self.install));
        };
        let version = own(&path).or_else(|| package_version(self.package));
        Presence::Version(version.unwrap_or_else(|| "of unknown version".to_owned()))
    }
}

/// Finds a program on the path.
#[must_use]
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The version of an installed Debian package; `None`: not installed, or not Debian.
#[must_use]
pub fn package_version(package: &str) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    let asked = command.args(["-W", "-f", "${Version}", package]).stderr(Stdio::null()).output();
    let said = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|said| !said.is_empty())
}

/// The first line that a program prints when it is asked for its version, from its first digit to
/// the next blank.
#[must_use]
pub fn own_version(path: &PathBuf, argument: &str) -> Option<String> {
    let output = Command::new(path).arg(argument).stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

fn version_in(text: &str) -> Option<String> {
    let words = text.lines().next()?.split_whitespace();
    let found = words.into_iter().find(|word| word.starts_with(|of: char| of.is_ascii_digit()))?;
    Some(found.trim_end_matches([',', ';']).to_owned())
}

/// The output of a program.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// On standard output.
    pub out: String,
    /// On standard error.
    pub errors: String,
}

impl Said {
    /// Returns its last words, for the sentence about its failure.
    #[must_use]
    pub fn last_words(&self) -> String {
        let mut lines = self.errors.lines().chain(self.out.lines()).map(str::trim);
        let full = |line: &&str| !line.is_empty();
        let of_error = |line: &&str| line.to_ascii_lowercase().contains("error");
        let of_errors = self.errors.lines().map(str::trim).rfind(full);
        let last = lines.clone().rfind(of_error).or(of_errors);
        last.or_else(|| lines.rfind(full)).unwrap_or("it said nothing").to_owned()
    }
}

/// A program that runs; killed when dropped alive.
pub struct Running {
    child: Child,
    name: String,
    out: Receiver<String>,
    errors: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that will be `program` on `core`, or on any where there is none.
#[must_use]
pub fn command(program: impl AsRef<OsStr>, core: Option<usize>) -> Command {
    let mut words: Vec<std::ffi::OsString> = Vec::new();
    if on_path("setpriv").is_some() {
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(Into::into));
    }
    if let Some(core) = core {
        words.extend(["taskset".into(), "-c".into(), core.to_string().into()]);
    }
    words.push(program.as_ref().to_owned());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Starts a program, which ends with the calling thread. Errors: it is not there.
pub fn start(name: &str, command: &mut Command) -> Result<Running, NoNumber> {
    command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let failed = |error: std::io::Error| NoNumber::Failed(format!("{name}: {error}"));
    let mut child = command.spawn().map_err(failed)?;
    let out = read_aside(child.stdout.take());
    let errors = read_aside(child.stderr.take());
    Ok(Running { child, name: name.to_owned(), out, errors })
}

/// Reads a pipe to its end in a thread of its own, so that a program that prints much never waits.
fn read_aside<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe has no more text.
            let _ = pipe.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        // The receiver may be gone.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

impl Running {
    /// Waits for its end. Errors: it takes longer than `limit`, the benchmark is over.
    fn wait(&mut self, limit: Duration, run: &Run<'_>) -> Result<ExitStatus, NoNumber> {
        let began = Instant::now();
        loop {
            if run.stop.is_over() {
                return Err(NoNumber::Over(Error::Interrupted));
            }
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Err(error) => return Err(self.failed(&error.to_string())),
                Ok(None) if began.elapsed() > limit => {
                    return Err(self.failed(&format!("took longer than {} s", limit.as_secs())));
                }
                Ok(None) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Waits until it listens. Errors: it ends, or does not listen for long.
    fn wait_until(&mut self, listens: Listens, run: &Run<'_>) -> Result<(), NoNumber> {
        let began = Instant::now();
        while !listening::is_open(listens.path, listens.port) {
            if run.stop.is_over() {
                return Err(NoNumber::Over(Error::Interrupted));
            }
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                let words = self.said().last_words();
                return Err(self.failed(&words));
            }
            if began.elapsed() > LISTENS_WITHIN {
                return Err(self.failed("does not listen"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns its output after its end.
    fn said(&mut self) -> Said {
        let read = |from: &Receiver<String>| from.recv_timeout(READ_LIMIT).unwrap_or_default();
        Said { out: read(&self.out), errors: read(&self.errors) }
    }

    fn failed(&self, how: &str) -> NoNumber {
        NoNumber::Failed(format!("{}: {how}", self.name))
    }

    /// Asks it to end, as Ctrl-C does.
    fn interrupt(&self) {
        // The shell's own kill is everywhere; one that has ended needs no signal.
        let number = self.child.id().to_string();
        let _ = Command::new("sh").args(["-c", "kill -INT \"$0\"", &number]).status();
    }
}

/// Runs a program to its end and returns its output. Errors: it fails, or takes too long.
pub fn output(name: &str, command: &mut Command, run: &Run<'_>) -> Result<Said, NoNumber> {
    let mut running = start(name, command)?;
    let status = running.wait(run.limit, run)?;
    let said = running.said();
    match status.success() {
        true => Ok(said),
        false => Err(running.failed(&format!("{} ({status})", said.last_words()))),
    }
}

/// The port on which a server listens.
#[derive(Clone, Copy, Debug)]
pub struct Listens {
    /// TCP or UDP.
    pub path: Path,
    /// The port.
    pub port: u16,
}

/// A server and its client.
pub struct Pair<'a> {
    /// The name of the peer.
    pub name: &'a str,
    /// The server, and where it listens before the client may come.
    pub server: Command,
    /// Its address.
    pub listens: Listens,
    /// The client.
    pub client: Command,
    /// True: the server runs until it is interrupted.
    pub is_interrupted: bool,
}

impl Pair<'_> {
    /// Runs both to the client's end; what client and server said.
    ///
    /// Errors: one fails, or takes too long. Whichever still runs is killed.
    pub fn run(&mut self, run: &Run<'_>) -> Result<[Said; 2], NoNumber> {
        let mut server = start(self.name, &mut self.server)?;
        server.wait_until(self.listens, run)?;
        let client = output(self.name, &mut self.client, run)?;
        if self.is_interrupted {
            server.interrupt();
        }
        // One that is killed while it cleans up leaves files in shared memory.
        let there = match server.wait(ENDS_WITHIN, run) {
            Ok(_) => server.said(),
            Err(NoNumber::Over(error)) => return Err(NoNumber::Over(error)),
            Err(NoNumber::Failed(_)) => Said::default(),
        };
        Ok([client, there])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;

    fn run(stop: &Stop) -> Run<'_> {
        Run { limit: Duration::from_secs(20), ..Run::new([0, 0], true, stop) }
    }

    fn shell(script: &str) -> Command {
        let mut command = command("sh", Some(fluxline::pin::allowed_cores()[0]));
        command.args(["-c", script]);
        command
    }

    fn why(result: Result<Said, NoNumber>) -> String {
        match result {
            Err(NoNumber::Failed(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_program_runs_on_its_core_and_says_what_it_says() {
        let stop = Stop::default();
        let script = "grep Cpus_allowed_list /proc/self/status; echo aside >&2";
        let said = output("sh", &mut shell(script), &run(&stop)).expect("it runs");
        let core = fluxline::pin::allowed_cores()[0].to_string();
        assert_eq!(said.out.split_whitespace().last(), Some(core.as_str()), "{said:?}");
        assert_eq!(said.errors, "aside\n");
    }

    #[test]
    fn who_fails_or_takes_too_long_is_named_with_its_last_words_and_is_gone() {
        let stop = Stop::default();
        let said = why(output("peer", &mut shell("echo error: no; exit 3"), &run(&stop)));
        assert!(said.contains("peer: error: no") && said.contains('3'), "{said}");
        let mut hangs = start("peer", &mut shell("exec sleep 60")).expect("it starts");
        let number = hangs.child.id();
        let ended = hangs.wait(Duration::from_millis(50), &run(&stop));
        assert!(matches!(ended, Err(NoNumber::Failed(why)) if why.contains("longer")));
        drop(hangs);
        assert!(!std::path::Path::new(&format!("/proc/{number}")).exists());
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        if on_path("setpriv").is_none() {
            println!("skipped: setpriv is needed");
            return;
        }
        let started = std::thread::spawn(|| {
            let running = start("peer", &mut shell("exec sleep 60")).expect("it starts");
            // The kernel learns it before the program begins.
            while !std::fs::read_to_string(format!("/proc/{}/comm", running.child.id()))
                .is_ok_and(|name| name.trim() == "sleep")
            {
                std::thread::sleep(LOOK);
            }
            let number = running.child.id();
            std::mem::forget(running);
            number
        });
        let number = started.join().expect("it starts");
        let began = Instant::now();
        let state = || std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z") {
            assert!(began.elapsed() < Duration::from_secs(10), "{}", state());
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn an_interrupt_ends_the_wait_at_once() {
        let stop = Stop::on(std::sync::Arc::new(true.into()));
        let ended = output("peer", &mut shell("exec sleep 60"), &run(&stop));
        assert!(matches!(ended, Err(NoNumber::Over(Error::Interrupted))));
    }

    #[test]
    fn a_server_that_dies_before_it_listens_says_why() {
        let stop = Stop::default();
        let mut pair = Pair {
            name: "peer",
            server: shell("echo 'error: port taken' >&2; exit 1"),
            listens: Listens { path: Path::Tcp, port: 1 },
            client: shell("exit 0"),
            is_interrupted: false,
        };
        let ended = pair.run(&run(&stop));
        assert!(matches!(ended, Err(NoNumber::Failed(why)) if why.contains("port taken")));
    }

    #[test]
    fn versions_are_found_in_what_programs_say_of_themselves() {
        for (text, version) in [
            ("iperf 3.12 (cJSON 1.7.15)\nLinux", Some("3.12")),
            ("sockperf, version 3.7-no.git\n", Some("3.7-no.git")),
            ("fi_info: 1.17.0\nlibfabric: 1.17.0", Some("1.17.0")),
            ("no such option", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }
}
