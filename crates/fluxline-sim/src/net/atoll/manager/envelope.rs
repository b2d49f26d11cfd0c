//! The messages on the links of a managed network.

use super::super::Cargo;
use super::super::routes::Path;
use super::letter::Letter;

/// A message with the path that its sender chose.
#[derive(Clone, Debug)]
pub struct Envelope<C> {
    /// The sender.
    pub from: u32,
    /// The path.
    pub path: Path,
    /// The host port of the sender.
    pub port: u8,
    /// The host port of the receiver.
    pub target_port: u8,
    /// The content.
    pub content: Content<C>,
}

/// The content of a message.
#[derive(Clone, Debug)]
pub enum Content<C> {
    /// A letter on its way to the next chip.
    Letter(Letter),
    /// A message of a program.
    Message {
        /// Its number.
        number: u64,
        /// Its number among those from this sender to this receiver.
        sequence: u32,
        /// The lowest such number that is not over.
        base: u32,
        /// The message.
        cargo: C,
    },
    /// Numbers of messages that have arrived.
    Acknowledgement(Vec<u64>),
}

/// Bytes of a message besides those of the program: its numbers. A choice.
const NUMBERS_BYTES: u32 = 8;

impl<C: Cargo> Cargo for Envelope<C> {
    /// The path says it.
    fn target(&self) -> u32 {
        self.from
    }

    fn bytes(&self) -> u32 {
        match &self.content {
            Content::Letter(letter) => letter.bytes(),
            Content::Message { cargo, .. } => cargo.bytes().saturating_add(NUMBERS_BYTES),
            Content::Acknowledgement(numbers) => 4 + 4 * numbers.len() as u32,
        }
    }

    fn port(&self) -> u8 {
        self.port
    }

    fn target_port(&self) -> u8 {
        self.target_port
    }

    fn path(&self) -> Option<Path> {
        Some(self.path)
    }

    fn is_control(&self) -> bool {
        matches!(self.content, Content::Letter(_))
    }
}
