//! Messages that belong together: those of a group of whole events.

use std::ops::Range;

use super::Schema;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its number in the batch, from 0.
    pub piece: u32,
    /// Its schema.
    pub schema: Schema,
    /// The FlatBuffers message.
    pub bytes: &'a [u8],
}

/// Some events of a batch, neighbours, with all their messages.
#[derive(Debug, Default)]
pub struct Group {
    /// Events whose messages are all here.
    pub events: u64,
    /// Events with a message that is larger than a record; their other messages are here.
    pub too_large: u64,
    /// Events of which no packet has a mapping; they make no message.
    pub unmapped: u64,
    bytes: Vec<u8>,
    messages: Vec<Place>,
}

/// The place of a message in a group's bytes.
#[derive(Debug)]
struct Place {
    piece: u32,
    schema: Schema,
    range: Range<usize>,
}

impl Group {
    /// Returns the messages, in the order in which they are to be sent.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        self.messages.iter().map(|place| Message {
            piece: place.piece,
            schema: place.schema,
            bytes: &self.bytes[place.range.clone()],
        })
    }

    /// Returns the number of bytes of all messages.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of events, with or without messages.
    #[must_use]
    pub fn all_events(&self) -> u64 {
        self.events + self.too_large + self.unmapped
    }

    pub(super) fn push(&mut self, piece: u32, schema: Schema, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push(Place { piece, schema, range: start..self.bytes.len() });
    }

    pub(super) fn clear(&mut self) {
        (self.events, self.too_large, self.unmapped) = (0, 0, 0);
        self.bytes.clear();
        self.messages.clear();
    }
}
