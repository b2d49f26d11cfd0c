//! Messages in the schemas of the European Spallation Source (ESS): ev44, da00, f144, pl72, 6s4t.
//!
//! ```text
//!   batch of events ──▶ Encoder ──▶ groups of whole events: messages of ev44, da00, f144
//!                          ▲
//!     [packet.ess] of each packet description
//! ```
//!
//! `plan` compiles the mapping of a description; `encoder` walks over the packets of a batch;
//! `hits` collects detector events for ev44; `wire` writes the FlatBuffers tables; `run` makes the
//! messages of a run's start and stop. Nothing here needs a broker. The messages depend on the
//! batch, its number, the descriptions and the largest record alone, so that they can be made from
//! the files again, byte for byte.

mod encoder;
mod formats;
mod hits;
mod messages;
mod plan;
mod run;
mod wire;

pub use encoder::Encoder;
pub use formats::Formats;
pub use messages::{Group, Message};
pub use run::RunMessages;

/// A schema of the European Spallation Source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Schema {
    /// Detector events.
    Ev44,
    /// Arrays of numbers.
    Da00,
    /// Logged values.
    F144,
    /// The start of a run.
    Pl72,
    /// The stop of a run.
    Stop6s4t,
}

impl Schema {
    /// Returns the identifier in bytes 4 to 7 of each message.
    #[must_use]
    pub const fn identifier(self) -> &'static str {
        match self {
            Schema::Ev44 => "ev44",
            Schema::Da00 => "da00",
            Schema::F144 => "f144",
            Schema::Pl72 => "pl72",
            Schema::Stop6s4t => "6s4t",
        }
    }
}
