//! Senders as processes, on the measuring side: started, ordered, read, and ended.
//!
//! A process reads its orders from standard input and answers on standard output, a line of JSON
//! each. When the process that started it is gone, the input ends, and so does the sender
//! ([`super::sender`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::pin::repin_current_thread;
use serde::{Deserialize, Serialize};

use super::transmit::{SendPlan, Sent};
use crate::Error;
use crate::child::gone;
use crate::environment::{Program, Stop};

/// The first order to a sending process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    /// The plan of all senders.
    pub plan: SendPlan,
    /// The index of this sender.
    pub index: usize,
}

/// The second order: start at that time of day.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// \[ns since 1970\]
    pub at_ns: u64,
}

/// An answer of a sending process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// Its socket is open.
    Ready,
    /// It has sent.
    Done(Box<Sent>),
    /// A sentence with the reason of its failure.
    Failed(String),
}

/// The time from the order to begin to the beginning, so that all begin at one moment: several
/// times that of waking up a process. (assumed; a wake-up takes some 50 us)
const LEAD: Duration = Duration::from_millis(2);
/// The longest time that a process may take beyond its time of sending.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two checks for an interruption: the measuring thread shares a core with the
/// first sender.
const LOOK: Duration = Duration::from_millis(100);
/// The longest line of a sender \[byte\]: a thousand cores in `Sent` are 5 KiB. (assumed)
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A line of a process, by its index; `None`: its output ended.
type Heard = (usize, Option<String>);

/// A sending process; killed when dropped.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// True: its output has ended.
    is_closed: bool,
}

impl Process {
    /// Sends it a line. A failure shows itself by the missing answer.
    fn order(&mut self, what: &impl Serialize) {
        let Some(input) = &mut self.input else { return };
        let text = serde_json::to_string(what).unwrap_or_default();
        let _ = writeln!(input, "{text}").and_then(|()| input.flush());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sending processes of a trial.
pub(super) struct Processes {
    processes: Vec<Process>,
    heard: Receiver<Heard>,
}

impl Processes {
    /// Starts one for each core of the plan, on that core from its first instruction, and sends
    /// each its order.
    ///
    /// Errors: a sentence; the program does not start.
    pub fn start(program: &Program, plan: &SendPlan) -> Result<Processes, String> {
        let (tell, heard) = mpsc::channel();
        let mut processes = Vec::new();
        for (index, core) in plan.cores.iter().enumerate() {
            let mut child = spawn(program, *core)?;
            let (input, output) = (child.stdin.take(), child.stdout.take());
            let mut process = Process { child, input, is_closed: false };
            process.order(&Order { plan: plan.clone(), index });
            processes.push(process);
            if let Some(output) = output {
                let tell = tell.clone();
                // Ends with the process, which is killed when dropped.
                std::thread::spawn(move || listen(BufReader::new(output), index, &tell));
            }
        }
        Ok(Processes { processes, heard })
    }

    /// Waits until all are ready. Errors: that of the first that failed.
    pub fn ready(&mut self, stop: &Stop) -> Result<(), Error> {
        let is_ready = |word: &Word| matches!(word, Word::Ready).then_some(());
        self.hear(PATIENCE, stop, is_ready).map(|_| ())
    }

    /// Makes all begin at one moment, and waits until all have sent. Errors: that of the first that
    /// failed.
    pub fn send(&mut self, duration: Duration, stop: &Stop) -> Result<Vec<Sent>, Error> {
        let lead = u64::try_from(LEAD.as_nanos()).unwrap_or(u64::MAX);
        let begin = Begin { at_ns: clock::now().as_ns().saturating_add(lead) };
        self.processes.iter_mut().for_each(|process| process.order(&begin));
        let sent = |word: &Word| match word {
            Word::Done(sent) => Some(Sent::clone(sent)),
            _ => None,
        };
        let mut sent = self.hear(duration + PATIENCE, stop, sent)?;
        for (sent, process) in sent.iter_mut().zip(&self.processes) {
            sent.process = Some(process.child.id());
        }
        Ok(sent)
    }

    /// Waits for an answer of each, which `take` converts.
    fn hear<T>(
        &mut self,
        limit: Duration,
        stop: &Stop,
        take: impl Fn(&Word) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        let began = Instant::now();
        let mut words: Vec<Option<T>> = self.processes.iter().map(|_| None).collect();
        while let Some(missing) = words.iter().position(Option::is_none) {
            stop.check()?;
            let is_gone =
                |index: &usize| words[*index].is_none() && self.processes[*index].is_closed;
            if let Some(index) = (0..words.len()).find(is_gone) {
                let how = gone(&mut self.processes[index].child);
                return Err(self.failed(index, how.as_deref().unwrap_or("its output ended")));
            }
            if began.elapsed() > limit {
                let how = format!("no word for {} s", limit.as_secs());
                return Err(self.failed(missing, &how));
            }
            match self.heard.recv_timeout(LOOK) {
                Ok((index, Some(line))) => {
                    let word = serde_json::from_str(&line).map_err(|_| {
                        let start: String = line.trim_end().chars().take(40).collect();
                        self.failed(index, &format!("unknown word {start:?} from a sender"))
                    })?;
                    words[index] = Some(match (take(&word), word) {
                        (Some(taken), _) => taken,
                        (None, Word::Failed(why)) => return Err(Error::Input(why)),
                        (None, word) => {
                            return Err(self.failed(index, &format!("{word:?} out of turn")));
                        }
                    });
                }
                Ok((index, None)) => self.processes[index].is_closed = true,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.processes.iter_mut().for_each(|process| process.is_closed = true);
                }
            }
        }
        Ok(words.into_iter().flatten().collect())
    }

    fn failed(&self, index: usize, how: &str) -> Error {
        let how = format!("sender {} of {}: {how}", index + 1, self.processes.len());
        Error::SenderFailed { how }
    }
}

/// Starts a process on a core, which it inherits from the thread that starts it.
fn spawn(program: &Program, core: Option<usize>) -> Result<Child, String> {
    let start = || {
        if let Some(core) = core {
            repin_current_thread(core).map_err(|error| error.to_string())?;
        }
        Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the one that measures, which ends its senders.
            .process_group(0)
            .spawn()
            .map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| scope.spawn(start).join())
        .unwrap_or_else(|_| Err("a starting thread failed".to_owned()))
}

/// Passes on the output of a process, line by line, to its end.
fn listen(mut output: impl BufRead, index: usize, tell: &Sender<Heard>) {
    let mut line = String::new();
    while matches!(output.by_ref().take(LINE_BYTES_MAX).read_line(&mut line), Ok(1..)) {
        if tell.send((index, Some(std::mem::take(&mut line)))).is_err() {
            return;
        }
    }
    // Nobody waits any more: then it is of no interest either.
    let _ = tell.send((index, None));
}
