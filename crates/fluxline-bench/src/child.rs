//! Processes that a benchmark starts: how one of them ended.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A process that closes its pipes or connections needs a moment to be gone.
const MOMENT: Duration = Duration::from_millis(300);

/// Says how a process ended, in a sentence that begins with its number. `None`: it lives.
///
/// Cost: waits for 300 ms at most.
pub(crate) fn gone(child: &mut Child) -> Option<String> {
    let status = ended(child)?;
    let how = how_it_ended(child, status);
    Some(format!("process {} {how}", child.id()))
}

/// As [`gone`], for a process that did not end well; `None`: it lives, or did.
pub(crate) fn failed(child: &mut Child) -> Option<String> {
    let status = ended(child)?;
    if status.success() { None } else { gone(child) }
}

fn ended(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            _ if began.elapsed() > MOMENT => return None,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Describes the end of a process of this program, as the rest of a sentence that begins with its
/// name: by its signal, or by its last line on standard error, which is piped.
pub fn how_it_ended(child: &mut Child, status: ExitStatus) -> String {
    let mut said = String::new();
    if let Some(errors) = &mut child.stderr {
        // What it could not say is not known.
        let _ = errors.read_to_string(&mut said);
    }
    let last = said.lines().last().unwrap_or_default();
    let last = last.trim_start_matches("fluxline: ").trim_end_matches('.');
    match (status.signal(), last) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, "") => format!("ended with {status}"),
        (None, last) => format!("failed: {last}"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_described_by_its_signal_its_last_line_or_its_status() {
        for (script, expected) in [
            ("echo first >&2; echo 'fluxline: no room.' >&2; exit 1", "failed: no room"),
            ("kill -9 $$", "was killed by signal 9"),
            ("exit 3", "ended with exit status: 3"),
        ] {
            let mut command = Command::new("sh");
            let mut child =
                command.args(["-c", script]).stderr(Stdio::piped()).spawn().expect("sh starts");
            let status = child.wait().expect("it ends");
            assert_eq!(how_it_ended(&mut child, status), expected);
        }
    }

    #[test]
    fn a_process_that_ended_well_is_no_reason_of_a_failure() {
        for (script, fails) in [("exit 0", false), ("exit 3", true), ("kill -9 $$", true)] {
            let mut command = Command::new("sh");
            let mut child =
                command.args(["-c", script]).stderr(Stdio::piped()).spawn().expect("sh starts");
            child.wait().expect("it ends");
            assert_eq!(failed(&mut child).is_some(), fails, "{script}");
        }
    }
}
