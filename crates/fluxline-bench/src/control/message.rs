//! The messages between the two sides.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use fluxline_core::text::printable;

use super::PROTOCOL;
use crate::Error;
use crate::result::SCHEMA;

/// Characters shown of the other side's reason.
const WHY_CHARS_MAX: usize = 1000;

/// The greeting of both sides, first on a connection. Its layout never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Version of the program.
    pub program: String,
    /// [`SCHEMA`] of results.
    pub schema: u32,
    /// [`PROTOCOL`] of the messages.
    pub protocol: u32,
}

impl Greeting {
    /// Returns the greeting of this program.
    #[must_use]
    pub fn ours() -> Greeting {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Greeting { program, schema: SCHEMA, protocol: PROTOCOL }
    }

    /// Errors: [`Error::Version`], if it differs from ours.
    pub fn check(&self) -> Result<(), Error> {
        let ours = Greeting::ours();
        if *self == ours {
            return Ok(());
        }
        Err(Error::Version { theirs: self.text(), ours: ours.text() })
    }

    /// Writes it for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Greeting { program, schema, protocol } = self;
        // The name is the peer's own text, so its length is limited.
        let program = printable(program, 40);
        format!("fluxline {program} (results {schema}, control {protocol})")
    }
}

impl Message {
    /// Converts a rejection by the far side, which goes on, into an error of the near side.
    #[must_use]
    pub fn rejection(why: &str) -> Error {
        Error::PeerFailed { why: printable(why, WHY_CHARS_MAX) }
    }

    /// Converts a failure of the far side into an error of the near side. `leaves`: it ends the
    /// session.
    #[must_use]
    pub fn error(why: &str, leaves: bool) -> Error {
        let why = printable(why, WHY_CHARS_MAX);
        if leaves { Error::PeerGone { how: why } } else { Error::PeerFailed { why } }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Message {
    /// Near: the greeting and the key.
    Hello {
        /// The sender.
        greeting: Greeting,
        /// The far side's key.
        key: String,
        /// URL of the link that will be measured, so that the far side describes its interface
        /// there; empty: unknown.
        #[serde(default)]
        link: String,
    },
    /// Far: welcome.
    Welcome {
        /// The sender.
        greeting: Greeting,
        /// Machine, kernel and settings of the far side.
        environment: Value,
    },
    /// Far: a rejection with its reason.
    Refused {
        /// A sentence.
        why: String,
    },
    /// Near: open a node on the link.
    Open {
        /// Its URL, as the far side has to open it.
        url: String,
        /// Half an arena \[byte\].
        half_bytes: u64,
        /// The key of the arenas.
        key: u64,
        /// The core to run on; `None`: choose one.
        core: Option<usize>,
    },
    /// Far: the node is open and waits; connect to this name.
    Opened {
        /// The name.
        peer: String,
    },
    /// Near: run the far end of a trial.
    Begin {
        /// The number of the trial.
        number: u8,
        /// Its name in the registry.
        trial: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Near: run a service.
    Call {
        /// Its name in the registry.
        service: String,
        /// Its parameters.
        parameters: Value,
    },
    /// Far: ready for the trial, joined to the link, or about to run the service.
    Ready,
    /// Either: a value between the two ends of a service.
    Tell {
        /// The value.
        value: Value,
    },
    /// Far: its end is done.
    Finished {
        /// The measurement.
        outcome: Value,
    },
    /// Far: a failure with its reason.
    Failed {
        /// A sentence.
        why: String,
        /// True if it leaves now; else it waits for the next order.
        leaves: bool,
    },
}
