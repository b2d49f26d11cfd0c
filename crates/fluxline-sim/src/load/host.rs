//! The host of a node under traffic: a bus that carries each message between memory and card.

use std::collections::VecDeque;

use super::traffic::Message;
use crate::Instant;
use crate::host::{Bus, config};

/// A host: both directions share its bus.
#[derive(Debug)]
pub(super) struct Host<F> {
    bus: Bus,
    /// Messages on their way to the card.
    leaving: VecDeque<Message>,
    /// Frames on their way to memory.
    landing: VecDeque<F>,
}

impl<F> Host<F> {
    pub fn new(bus: config::Bus) -> Host<F> {
        Host { bus: Bus::new(bus), leaving: VecDeque::new(), landing: VecDeque::new() }
    }

    /// Sends a message to the card; returns the time of its arrival there.
    pub fn leave(&mut self, message: Message, now: Instant) -> Instant {
        self.leaving.push_back(message);
        self.bus.read(now, message.bytes)
    }

    /// Takes the message that has reached the card.
    pub fn left(&mut self) -> Option<Message> {
        self.leaving.pop_front()
    }

    /// Returns the number of messages on their way to the card.
    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Sends a frame of `bytes` to memory; returns the time of its arrival there.
    pub fn land(&mut self, frame: F, bytes: u32, now: Instant) -> Instant {
        self.landing.push_back(frame);
        self.bus.write(now, bytes)
    }

    /// Takes the frame that has reached memory.
    pub fn landed(&mut self) -> Option<F> {
        self.landing.pop_front()
    }

    /// Returns true if no frame is on its way to memory.
    pub fn is_idle(&self) -> bool {
        self.landing.is_empty()
    }
}
