//! The environment of an experiment: two ends of a link, and a way to give both a task.

mod simulated;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fluxline_core::fabric::Capabilities;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::role::TrialKind;
#[cfg(test)]
pub(crate) use simulated::memory_nodes;
pub use simulated::{Clock, LastTurn, Progress, Simulated, virtual_clock};

/// A flag that ends everything that takes long.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Wraps a flag.
    #[must_use]
    pub fn on(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }

    /// Returns true if the flag is set.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns [`Error::Interrupted`] if the flag is set.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// A program that this library starts as another process. The user of the library names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// Its command line.
    pub arguments: Vec<String>,
}

impl Program {
    /// Returns this program, without arguments.
    #[must_use]
    pub fn this() -> Program {
        // The link of the kernel starts the same file, also where its path is not known.
        let path = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
        Program { path, arguments: Vec::new() }
    }

    /// Returns the program with more arguments.
    #[must_use]
    pub fn called(&self, arguments: &[&str]) -> Program {
        let more = arguments.iter().map(|argument| (*argument).to_owned());
        let arguments = self.arguments.iter().cloned().chain(more).collect();
        Program { path: self.path.clone(), arguments }
    }
}

/// The extent of a run. An experiment uses the parts that concern it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// True: fewer sizes and fewer repetitions, for a first look.
    pub quick: bool,
    /// The number of rounds; each round measures everything once.
    pub rounds: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// The smallest and the largest message \[byte\].
    pub sizes: [u64; 2],
    /// The variation of sizes \[byte\]; 0: none.
    pub perturbation: u64,
    /// The repeats of every size on NetPIPE's schedule; `None`: by the time of a trial.
    #[serde(default)]
    pub repeats: Option<u64>,
    /// The time of a trial in a loss-free search \[s\].
    pub trial_seconds: f64,
    /// The time of a soak \[s\].
    pub soak_seconds: f64,
}

impl Plan {
    /// Returns the plan of a first look.
    #[must_use]
    pub fn quick() -> Plan {
        Plan::new(true)
    }

    /// Returns the default plan, of a first look or in full. Source of sizes and perturbation:
    /// NetPIPE 3.7.1.
    #[must_use]
    pub fn new(quick: bool) -> Plan {
        Plan {
            quick,
            rounds: if quick { 3 } else { 5 },
            seed: 1,
            sizes: [1, if quick { 1 << 20 } else { 10_000_000 }],
            perturbation: if quick { 0 } else { 3 },
            repeats: None,
            trial_seconds: if quick { 0.3 } else { 2.0 },
            soak_seconds: if quick { 1.0 } else { 10.0 },
        }
    }
}

/// A conversation between the two ends of a call, in JSON values.
pub trait Conversation {
    /// Sends a value to the other end. Errors: it is gone.
    fn send(&mut self, value: &Value) -> Result<(), Error>;

    /// Receives the next value; `None`: none within `limit` (zero: do not wait).
    ///
    /// Errors: the other end is gone or has failed, or somebody interrupted.
    fn receive(&mut self, limit: Duration) -> Result<Option<Value>, Error>;

    /// Returns true if the other end is gone or the user interrupted. Cheap enough for every
    /// millisecond.
    fn is_over(&mut self) -> bool;

    /// Reports progress, as [`Environment::progress`] does; only the near side shows it.
    fn progress(&mut self, done: usize, all: usize, what: &str) {
        let _ = (done, all, what);
    }
}

/// A service of the far side, for experiments that need more than a fabric.
pub struct Service {
    /// Its name between the two sides.
    pub name: &'static str,
    /// Runs it: parameters in, result out. It has to end when the conversation is over.
    pub run: fn(&Value, &mut dyn Conversation) -> Result<Value, Error>,
}

/// The near end of a call.
pub type NearEnd<'a> = &'a mut dyn FnMut(&mut dyn Conversation) -> Result<Value, Error>;

/// Two ends of a link, as an experiment sees them.
pub trait Environment {
    /// Returns the link's URL.
    fn link(&self) -> &str;

    /// Returns true if the link is one of this machine's: floors can be measured beside it, and
    /// other programs disturb it.
    fn is_real(&self) -> bool {
        let schemes = ["shm://", "udp://", "xdp://", "tcp://"];
        schemes.iter().any(|scheme| self.link().starts_with(scheme))
    }

    /// Returns the capabilities of the link; `None`: it has no fabric. Errors: it could not be
    /// opened.
    fn capabilities(&mut self) -> Result<Option<Capabilities>, Error>;

    /// Returns half an arena, the largest transfer \[byte\].
    fn half_bytes(&self) -> u64;

    /// Runs a trial at both ends until both are done. Returns the outcomes of near and far.
    fn trial(&mut self, kind: &TrialKind, parameters: &Value) -> Result<[Value; 2], Error>;

    /// Runs a service at the far end and `near` here. Returns the outcomes of near and far.
    fn call(
        &mut self,
        service: &Service,
        parameters: &Value,
        near: NearEnd<'_>,
    ) -> Result<[Value; 2], Error>;

    /// Returns the far end's address for raw sockets, and the near end's; `None`: none.
    fn addresses(&self) -> Option<[std::net::IpAddr; 2]>;

    /// Reports that `done` steps of `all` are done, and what comes next.
    fn progress(&mut self, done: usize, all: usize, what: &str);

    /// Returns the flag that ends the run.
    fn stop(&self) -> &Stop;
}
