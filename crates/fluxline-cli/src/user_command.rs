//! Commands of the user that a sequence calls: they set a voltage, or ask whether it is stable.
//!
//! A command may hang, may not exist, and may be cut by the Ctrl-C that ends the sequence. Its
//! output goes to our standard error, so that ours stays a document.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fluxline_daq::sequence::CommandLine;
use fluxline_run::Stop;

/// Pause between two looks at a command.
const POLL_PERIOD: Duration = Duration::from_millis(10);
/// Pause between two calls of a command that waits.
const RETRY_PERIOD: Duration = Duration::from_millis(200);
/// Longest time from a command's end by Ctrl-C to our own.
const SAME_SIGNAL: Duration = Duration::from_secs(1);
/// The signal of Ctrl-C. Source: signal(7).
const SIGINT: i32 = 2;

/// The reason why a command did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsuccessful {
    /// The user stopped the sequence.
    Stopped,
    /// It cannot be started: a clause.
    NotStarted(String),
    /// It failed: a clause.
    Failed(String),
}

/// Calls a command with a value.
pub fn call(command: &CommandLine, value: &str, stop: &Stop) -> Result<(), Unsuccessful> {
    let until = Instant::now() + Duration::from_secs_f64(command.seconds);
    call_until(&command.with(value), until, stop).map_err(|end| match end {
        End::Late => {
            Unsuccessful::Failed(format!("took more than {} s and was ended", command.seconds))
        }
        End::Unsuccessful(reason) => reason,
    })
}

/// Calls a command again and again until it succeeds.
pub fn wait(command: &CommandLine, value: &str, stop: &Stop) -> Result<(), Unsuccessful> {
    let until = Instant::now() + Duration::from_secs_f64(command.seconds);
    let words = command.with(value);
    loop {
        let last = match call_until(&words, until, stop) {
            Ok(()) => return Ok(()),
            Err(End::Unsuccessful(Unsuccessful::Failed(last))) => last,
            Err(End::Unsuccessful(other)) => return Err(other),
            Err(End::Late) => "its last call did not end".to_owned(),
        };
        if Instant::now() + RETRY_PERIOD >= until {
            let seconds = command.seconds;
            return Err(Unsuccessful::Failed(format!(
                "did not succeed within {seconds} s: {last}"
            )));
        }
        pause(RETRY_PERIOD, stop)?;
    }
}

/// Waits, but not beyond a stop.
fn pause(time: Duration, stop: &Stop) -> Result<(), Unsuccessful> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if stop.is_over() {
            return Err(Unsuccessful::Stopped);
        }
        std::thread::sleep(POLL_PERIOD);
    }
    Ok(())
}

/// The end of a call that did not succeed.
enum End {
    /// Its time was over.
    Late,
    /// For another reason.
    Unsuccessful(Unsuccessful),
}

fn call_until(words: &[String], until: Instant, stop: &Stop) -> Result<(), End> {
    let unsuccessful = |reason| Err(End::Unsuccessful(reason));
    let mut child = match start(words) {
        Ok(child) => child,
        Err(error) => {
            return unsuccessful(Unsuccessful::NotStarted(format!("cannot be started ({error})")));
        }
    };
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return unsuccessful(failed(status, stop)),
            Ok(None) => {}
            Err(error) => {
                return unsuccessful(Unsuccessful::Failed(format!("cannot be watched ({error})")));
            }
        }
        let is_late = Instant::now() >= until;
        if is_late || stop.is_over() {
            let _ = child.kill();
            let _ = child.wait();
            return match is_late {
                true => Err(End::Late),
                false => unsuccessful(Unsuccessful::Stopped),
            };
        }
        std::thread::sleep(POLL_PERIOD);
    }
}

fn start(words: &[String]) -> std::io::Result<Child> {
    let (program, arguments) =
        words.split_first().ok_or(std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    let output = std::io::stderr().as_fd().try_clone_to_owned();
    let output = output.map_or_else(|_| Stdio::null(), Stdio::from);
    Command::new(program).args(arguments).stdin(Stdio::null()).stdout(output).spawn()
}

/// Returns the failure of a command that has ended. Ctrl-C reaches it and us, in any order.
fn failed(status: ExitStatus, stop: &Stop) -> Unsuccessful {
    if status.signal() == Some(SIGINT) && pause(SAME_SIGNAL, stop).is_err() || stop.is_over() {
        return Unsuccessful::Stopped;
    }
    Unsuccessful::Failed(match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    })
}
