//! The messages of the two sides: the near side asks, and the far side receives a trial.

use fluxline::pin::{allowed_cores, process_cores};
use serde::{Deserialize, Serialize};

use super::arrivals::Tally;
use super::cpu::CoreLoad;
use super::host;

/// The way datagrams are sent. A PC can do both, an FPGA only the first: they never share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// Each datagram a message of its own (sendmmsg without UDP_SEGMENT).
    Single,
    /// Trains of equal datagrams that the kernel or the card cuts (UDP_SEGMENT).
    Trains,
}

/// The way datagrams are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receiving {
    /// Sleeps until a datagram comes, and receives it at once.
    Blocking,
    /// Naps 50 us when no datagram waits, so that a batch gathers.
    Napping,
    /// Naps, and the kernel joins datagrams to trains (UDP_GRO).
    Gro,
}

/// A path from program to program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// The way datagrams are sent.
    pub sending: Sending,
    /// The way they are received.
    pub receiving: Receiving,
}

impl Path {
    /// Makes a path.
    #[must_use]
    pub const fn new(sending: Sending, receiving: Receiving) -> Path {
        Path { sending, receiving }
    }

    /// Returns true if a message may be a train of datagrams somewhere on the way.
    #[must_use]
    pub fn has_trains(self) -> bool {
        self.sending == Sending::Trains || self.receiving == Receiving::Gro
    }

    /// `single to napping`, `trains to gro`.
    #[must_use]
    pub fn name(self) -> String {
        let sending = match self.sending {
            Sending::Single => "single",
            Sending::Trains => "trains",
        };
        let receiving = match self.receiving {
            Receiving::Blocking => "blocking",
            Receiving::Napping => "napping",
            Receiving::Gro => "gro",
        };
        format!("{sending} to {receiving}")
    }
}

/// The plan of the far side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceivePlan {
    /// The number in the stamps.
    pub trial: u32,
    /// The way.
    pub path: Path,
    /// UDP payload of each datagram \[byte\].
    pub datagram_bytes: u32,
    /// Senders, numbered from 0.
    pub senders: u32,
    /// Core of the receiving thread; absent: not pinned.
    pub core: Option<usize>,
    /// The requested receive buffer \[byte\].
    pub buffer_bytes: u32,
}

/// A request of the near side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Describe the host.
    Describe,
    /// Open a socket, and receive.
    Prepare(ReceivePlan),
    /// Sending begins: read the counters.
    Begin,
    /// All datagrams were sent: read the counters, receive the rest, and report.
    End {
        /// Datagrams that the sender's kernel took.
        sent: u64,
    },
    /// The session ends; no request follows.
    Leave,
}

/// An answer of the far side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The description of the host.
    Host(Host),
    /// The socket is open.
    Ready(Ready),
    /// The counters are read.
    Begun,
    /// The result of the trial.
    Ended(Box<Received>),
    /// The reason for a rejection, one sentence.
    Refused(String),
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its boot identifier, to see that both sides share cores; empty: hidden.
    pub boot: String,
    /// Cores that its process may use.
    pub cores: Vec<usize>,
    /// The core chosen by the user, if any.
    pub chosen: Option<usize>,
}

impl Host {
    /// This host, as the calling thread sees it: one that is pinned was put there on purpose.
    #[must_use]
    pub fn here() -> Host {
        let (cores, allowed) = (process_cores(), allowed_cores());
        let chosen = (allowed.len() == 1).then(|| allowed[0]);
        Host { boot: host::boot(), cores, chosen }
    }
}

/// An open socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Its port.
    pub port: u16,
    /// A warning for each rejected setting: the buffer, the core.
    pub warnings: Vec<String>,
}

/// The receiver's result of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// The datagrams that arrived.
    pub tally: Tally,
    /// From the first to the last \[s\].
    pub seconds: f64,
    /// Messages that the kernel dropped at the socket.
    pub socket_drops: u64,
    /// Other losses of the receiving host, by place, in messages.
    pub places: Vec<(String, u64)>,
    /// The host's cores while the sender sent.
    pub cores: Vec<CoreLoad>,
    /// The receiving thread's processor time \[s\].
    pub thread_s: f64,
}
