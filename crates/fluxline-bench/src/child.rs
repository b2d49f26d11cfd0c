//! Processes that a benchmark starts: how one of them ended.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

/// A process that closes its pipes or connections needs a moment to be gone.
const MOMENT: Duration = Duration::from_millis(300);

/// How it ended, with the last line of its standard error; `None`: it lives.
///
/// Cost: waits for 300 ms at most.
pub(crate) fn how_it_ended(child: &mut Child) -> Option<String> {
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            _ if began.elapsed() > MOMENT => return None,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    if let Some(errors) = &mut child.stderr {
        // What it could not say is not known.
        let _ = errors.read_to_string(&mut said);
    }
    let last = said.lines().last().unwrap_or_default();
    let last = last.trim_start_matches("fluxline: ").trim_end_matches('.');
    let how = match (status.signal(), last) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, "") => format!("ended with {status}"),
        (None, last) => format!("ended: {last}"),
    };
    Some(format!("process {} {how}", child.id()))
}
