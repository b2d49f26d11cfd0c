//! Where experiments run: two ends, and a way to have both do something.

mod simulated;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fluxline_proto::fabric::Capabilities;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::role::TrialKind;
pub use simulated::{Clock, Progress, Simulated};

/// Asked by all that takes long: is it over?
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Over as soon as somebody sets the flag.
    #[must_use]
    pub fn on(flag: Arc<AtomicBool>) -> Stop {
        Stop(flag)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`Error::Interrupted`] when it is over.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_over() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// How a process of a role is started: who uses the library knows which program plays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// What it is told on its command line.
    pub arguments: Vec<String>,
}

/// How much is measured. Experiments take from it what concerns them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// A first look: fewer sizes, fewer repetitions.
    pub quick: bool,
    /// How often everything is measured, in turns.
    pub rounds: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// The smallest and the largest message \[byte\].
    pub sizes: [u64; 2],
    /// By how much sizes are varied \[byte\]; 0: not.
    pub perturbation: u64,
    /// How long a trial of a loss-free search lasts \[s\].
    pub trial_seconds: f64,
    /// How long a soak lasts \[s\].
    pub soak_seconds: f64,
}

impl Plan {
    /// The plan where nothing else is asked for. Source of sizes and perturbation: NetPIPE 3.7.1.
    #[must_use]
    pub fn new(quick: bool) -> Plan {
        Plan {
            quick,
            rounds: if quick { 3 } else { 5 },
            seed: 1,
            sizes: [1, if quick { 1 << 20 } else { 10_000_000 }],
            perturbation: if quick { 0 } else { 3 },
            trial_seconds: if quick { 0.3 } else { 2.0 },
            soak_seconds: if quick { 1.0 } else { 10.0 },
        }
    }
}

/// A conversation between the two ends of a call, in JSON values.
pub trait Conversation {
    /// Says something to the other end. Errors: it is gone.
    fn send(&mut self, value: &Value) -> Result<(), Error>;

    /// What the other end said next; `None`: nothing within `limit` (zero: do not wait).
    ///
    /// Errors: the other end is gone or has failed, or somebody interrupted.
    fn receive(&mut self, limit: Duration) -> Result<Option<Value>, Error>;

    /// Whether the other end is gone or somebody interrupted. Cheap enough to ask each
    /// millisecond.
    fn is_over(&mut self) -> bool;

    /// As [`Environment::progress`], on the near side.
    fn progress(&mut self, done: usize, all: usize, what: &str) {
        let _ = (done, all, what);
    }
}

/// What the far side does by request on raw sockets, without a fabric.
pub struct Service {
    /// Its name between the two sides.
    pub name: &'static str,
    /// Does it: parameters in, result out. It may run only as long as the conversation is not over.
    pub run: fn(&Value, &mut dyn Conversation) -> Result<Value, Error>,
}

/// The near end of a call.
pub type NearEnd<'a> = &'a mut dyn FnMut(&mut dyn Conversation) -> Result<Value, Error>;

/// Two ends of a link, as an experiment sees them.
pub trait Environment {
    /// The link's URL.
    fn link(&self) -> &str;

    /// Returns true if the link is one of this machine's: floors can be measured beside it, and
    /// other programs disturb it.
    fn is_real(&self) -> bool {
        let schemes = ["shm://", "udp://", "xdp://", "tcp://"];
        schemes.iter().any(|scheme| self.link().starts_with(scheme))
    }

    /// What the link can do; `None`: it has no fabric. Errors: it could not be opened.
    fn capabilities(&mut self) -> Result<Option<Capabilities>, Error>;

    /// Half an arena, the largest transfer \[byte\].
    fn half_bytes(&self) -> u64;

    /// Runs a trial of the registry at both ends until both are done; the outcomes of near and far.
    fn trial(&mut self, kind: &TrialKind, parameters: &Value) -> Result<[Value; 2], Error>;

    /// Has the far end run a service while `near` runs here; the outcomes of near and far.
    fn call(
        &mut self,
        service: &Service,
        parameters: &Value,
        near: NearEnd<'_>,
    ) -> Result<[Value; 2], Error>;

    /// The far end's address for raw sockets, and the one that it sees us at; `None`: none.
    fn addresses(&self) -> Option<[std::net::IpAddr; 2]>;

    /// Tells who waits that a step of so many in all is done, and what comes next.
    fn progress(&mut self, done: usize, all: usize, what: &str);

    /// Whether it is over.
    fn stop(&self) -> &Stop;

    /// How a process is started that sends datagrams
    /// ([`crate::datagrams::sender::serve`]); `None`: threads send.
    fn sender(&self) -> Option<&Program> {
        None
    }
}
