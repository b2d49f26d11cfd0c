//! The function of `[loop] program`: a program that reads events and answers with decisions.
//!
//! An event on its standard input, all numbers little endian:
//!
//! | bytes | value |
//! | --- | --- |
//! | 4 | bytes behind this number |
//! | 8 | key; all ones without a key |
//! | 8 | arrival of the first packet \[ns since 1970\] |
//! | 4 | 0: complete, 1: incomplete, 2: stopped |
//! | 4 | number of packets |
//! | for each packet: 4, 4 | number of its source in the experiment file; its bytes, which follow |
//!
//! The answer on its standard output: 4 bytes with the length of the decision, and the decision.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fluxline_daq::event::{EventStatus, EventView};
use fluxline_daq::experiment::Feedback;

use super::Decide;
use crate::error::Error;
use crate::filter::RunSource;

/// Time for the first answer: a program may have to load.
const FIRST_ANSWER: Duration = Duration::from_secs(30);
/// Time for a program to end by itself once its input has ended.
const END: Duration = Duration::from_secs(2);
/// Nothing is asked.
const IDLE: u64 = u64::MAX;

/// A program that decides.
pub(super) struct Program {
    guarded: Arc<Guarded>,
    /// `None` once it has failed.
    pipes: Option<(ChildStdin, ChildStdout)>,
    /// The input of each source, by number.
    inputs: Vec<u16>,
    message: Vec<u8>,
    bytes_max: usize,
    /// The reason why it answers no more.
    ended: String,
}

/// A program with the time at which it must have answered.
struct Guarded {
    child: Mutex<Child>,
    began: Instant,
    /// Time of the next answer, since `began` \[ms\].
    due: AtomicU64,
    was_late: AtomicBool,
    answer_ms: u64,
    has_answered: AtomicBool,
}

impl Guarded {
    fn begin(&self) {
        let first = (!self.has_answered.load(Ordering::Relaxed)).then_some(FIRST_ANSWER);
        let most = first.map_or(0, |first| first.as_millis() as u64).max(self.answer_ms);
        self.due.store(self.began.elapsed().as_millis() as u64 + most, Ordering::Relaxed);
    }

    fn end(&self) {
        self.due.store(IDLE, Ordering::Relaxed);
        self.has_answered.store(true, Ordering::Relaxed);
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a program that does not answer, until the last owner has gone: its pipes break then,
    /// and who waits for it goes on.
    fn watch(guarded: &Arc<Guarded>) {
        let weak = Arc::downgrade(guarded);
        let look = Duration::from_millis((guarded.answer_ms / 4).clamp(1, 250));
        std::thread::spawn(move || {
            while let Some(of) = weak.upgrade() {
                if of.began.elapsed().as_millis() as u64 > of.due.load(Ordering::Relaxed) {
                    of.was_late.store(true, Ordering::Relaxed);
                    let _ = of.child().kill(); // it may have ended by itself
                    return;
                }
                drop(of);
                std::thread::sleep(look);
            }
        });
    }
}

impl Program {
    /// Starts the program of an experiment.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(of: &Feedback) -> Result<Program, Error> {
        let (name, arguments) =
            of.program.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C ends the run, which ends the program behind its last event.
        let child = command.process_group(0).spawn();
        let mut child = child.map_err(|error| {
            Error::input(format_args!(
                "[loop] program: {name} cannot be started ({error}); write the path of an \
                 executable file, relative to the experiment file, or a name on the PATH."
            ))
        })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let guarded = Arc::new(Guarded {
            child: Mutex::new(child),
            began: Instant::now(),
            due: AtomicU64::new(IDLE),
            was_late: AtomicBool::new(false),
            answer_ms: of.answer_ms,
            has_answered: AtomicBool::new(false),
        });
        Guarded::watch(&guarded);
        let bytes_max = of.bytes_max as usize;
        let (inputs, message, ended) = (Vec::new(), Vec::new(), String::new());
        Ok(Program { guarded, pipes, inputs, message, bytes_max, ended })
    }

    /// Writes the event into the message.
    fn put_event(&mut self, event: &EventView<'_>) {
        let message = &mut self.message;
        message.clear();
        message.extend([0; 4]);
        message.extend(event.row.key.unwrap_or(u64::MAX).to_le_bytes());
        message.extend(event.row.first.as_ns().to_le_bytes());
        let status: u32 = match event.row.status {
            EventStatus::Complete => 0,
            EventStatus::Incomplete => 1,
            EventStatus::Stopped | EventStatus::Late => 2,
        };
        message.extend(status.to_le_bytes());
        message.extend((event.packets.len() as u32).to_le_bytes());
        for (row, bytes) in event.each_packet() {
            let input = self.inputs.get(row.source as usize).copied().unwrap_or(u16::MAX);
            message.extend(u32::from(input).to_le_bytes());
            message.extend((bytes.len() as u32).to_le_bytes());
            message.extend_from_slice(bytes);
        }
        let length = (message.len() - 4) as u32;
        message[..4].copy_from_slice(&length.to_le_bytes());
    }

    /// Sends the message, and reads the answer.
    fn ask(&mut self, decision: &mut Vec<u8>) -> Result<(), String> {
        let Some((to, from)) = &mut self.pipes else { return Err(self.ended.clone()) };
        let (message, bytes_max) = (&self.message, self.bytes_max);
        let mut exchange = || {
            let mut length = [0; 4];
            to.write_all(message)?;
            to.flush()?;
            from.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length) as usize;
            if length > bytes_max {
                return Ok(Err(length));
            }
            decision.resize(length, 0);
            from.read_exact(decision).map(Ok)
        };
        match exchange() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(length)) => {
                Err(self
                    .fail(&format!("its answer has {length} bytes, and bytes-max is {bytes_max}")))
            }
            Err(error) => {
                let why = match self.guarded.was_late.load(Ordering::Relaxed) {
                    true if !self.guarded.has_answered.load(Ordering::Relaxed) => {
                        format!("it did not answer within {} s", FIRST_ANSWER.as_secs())
                    }
                    true => format!("it did not answer within {} ms", self.guarded.answer_ms),
                    false => self.end_of_child(&error),
                };
                Err(self.fail(&why))
            }
        }
    }

    /// Returns the end of a program whose pipe broke.
    fn end_of_child(&self, error: &std::io::Error) -> String {
        let began = Instant::now();
        while began.elapsed() < END {
            if let Ok(Some(status)) = self.guarded.child().try_wait() {
                return format!("it ended ({status})");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        format!("its output ended ({error})")
    }

    /// Ends the program for good; returns the reason.
    fn fail(&mut self, why: &str) -> String {
        self.pipes = None;
        let _ = self.guarded.child().kill();
        self.ended = format!("the program of [loop] gets no more events: {why}");
        self.ended.clone()
    }
}

impl Decide for Program {
    fn add_source(&mut self, source: &RunSource) {
        let place = source.number as usize;
        if self.inputs.len() <= place {
            self.inputs.resize(place + 1, u16::MAX);
        }
        self.inputs[place] = source.input;
    }

    fn decide(&mut self, event: &EventView<'_>, decision: &mut Vec<u8>) -> Result<(), String> {
        self.put_event(event);
        self.guarded.begin();
        let answer = self.ask(decision);
        self.guarded.end();
        answer
    }
}

impl Drop for Program {
    /// Ends the input of the program, and waits for it.
    fn drop(&mut self) {
        self.pipes = None;
        let began = Instant::now();
        while began.elapsed() < END {
            if !matches!(self.guarded.child().try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.guarded.child().kill();
        let _ = self.guarded.child().wait();
    }
}
