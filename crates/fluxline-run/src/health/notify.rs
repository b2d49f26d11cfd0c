//! The command of `[health]`: it gets each change of an alarm as JSON on its standard input.
//!
//! A thread runs it, one change after the other, so that a command that hangs holds up nothing: it
//! is ended after [`ANSWER`], and changes beyond [`WAITING_MAX`] are left out and counted.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::monitor::Monitor;

/// The time that a command may take.
const ANSWER: Duration = Duration::from_secs(30);
/// The time that all waiting changes may take once the run has ended.
const END: Duration = Duration::from_secs(10);
/// Most changes that wait for the command.
const WAITING_MAX: usize = 100;
/// Time between two looks at a command that runs.
const LOOK: Duration = Duration::from_millis(20);

/// Gives changes to a command.
#[derive(Debug)]
pub(super) struct Notifier {
    queue: Option<SyncSender<Value>>,
    worker: Option<JoinHandle<()>>,
    monitor: Monitor,
    /// The time at which the last command must have ended, since `began` \[ms\]; 0: no end yet.
    ends_at: Arc<AtomicU64>,
    began: Instant,
}

impl Notifier {
    /// Starts the thread of a command; none for an empty one.
    pub fn start(command: &[String], monitor: &Monitor) -> Option<Notifier> {
        let (program, arguments) = command.split_first()?;
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let (ends_at, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let work = Work {
            program: program.clone(),
            arguments: arguments.to_vec(),
            monitor: monitor.clone(),
            ends_at: ends_at.clone(),
            began,
        };
        let worker = std::thread::spawn(move || work.run(&waiting));
        let (queue, worker) = (Some(queue), Some(worker));
        Some(Notifier { queue, worker, monitor: monitor.clone(), ends_at, began })
    }

    /// Gives a change to the command; never waits.
    pub fn send(&self, change: Value) {
        let sent = self.queue.as_ref().map(|queue| queue.try_send(change));
        if matches!(sent, Some(Err(_))) {
            self.monitor.note(Some(
                "the command of [health] is slower than the alarms: some changes did not reach it",
            ));
        }
    }
}

impl Drop for Notifier {
    /// Waits for the command, for a bounded time.
    fn drop(&mut self) {
        let end = self.began.elapsed() + END;
        self.ends_at.store(end.as_millis() as u64, Ordering::Relaxed);
        self.queue = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join(); // a panic has been reported by its thread
        }
    }
}

struct Work {
    program: String,
    arguments: Vec<String>,
    monitor: Monitor,
    ends_at: Arc<AtomicU64>,
    began: Instant,
}

impl Work {
    fn run(&self, waiting: &Receiver<Value>) {
        while let Ok(change) = waiting.recv() {
            if self.is_over() {
                self.monitor.note(Some("the command of [health] did not get the last changes"));
                return;
            }
            if let Err(why) = self.call(&change) {
                let program = &self.program;
                self.monitor.note(Some(format!("the command of [health], {program}: {why}")));
            }
        }
    }

    /// Returns true when the run has ended and the time after it, too.
    fn is_over(&self) -> bool {
        let ends_at = self.ends_at.load(Ordering::Relaxed);
        ends_at > 0 && self.began.elapsed().as_millis() as u64 >= ends_at
    }

    fn call(&self, change: &Value) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        // A Ctrl-C of the terminal is for the run; its last changes still go out.
        let child = command.stderr(Stdio::null()).process_group(0).spawn();
        let mut child = child.map_err(|error| format!("it cannot be started ({error})"))?;
        if let Some(mut input) = child.stdin.take() {
            // Less than a pipe's buffer: it never waits. A command may not read it.
            let _ = input.write_all(format!("{change}\n").as_bytes());
        }
        let since = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("it ended with {status}")),
                Ok(None) if since.elapsed() < ANSWER && !self.is_over() => std::thread::sleep(LOOK),
                Ok(None) => {
                    let _ = child.kill(); // it may have ended by itself
                    let _ = child.wait();
                    return Err(format!("it was ended after {} s", since.elapsed().as_secs()));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
