//! One direction of a cable with its transmitter: the queue, the frame on its way out, and the
//! frames on the cable.

use std::collections::{BTreeSet, VecDeque};

use super::config::{Config, Forwarding};
use super::framing::{GAP_BYTES, HEADER_BYTES, PREAMBLE_BYTES};
use crate::core::interconnect::passed;
use crate::{Duration, Instant};

/// An entry of the network. Links from nodes come first, by node, then those to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A transmitter can begin its next frame.
    Free {
        /// The link.
        link: u32,
    },
    /// A frame can be forwarded by the switch, or has reached its node.
    Arrive {
        /// The link.
        link: u32,
    },
    /// The switch repeats its pause frame to a node.
    Refresh {
        /// The node.
        node: u32,
    },
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match *self {
            Entry::Free { link } | Entry::Arrive { link } => link,
            Entry::Refresh { node } => node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Free { .. } => 1,
            Entry::Arrive { .. } => 2,
            Entry::Refresh { .. } => 3,
        }
    }
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of a datagram, by their numbers.
    Part {
        /// The datagram.
        carried: u32,
        /// The part.
        index: u32,
    },
    /// A pause frame with its time, in units of 512 bits.
    Pause(u16),
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The content.
    pub content: Content,
    /// The length with check sequence \[byte\].
    pub bytes: u64,
    /// True if the switch marked it.
    pub is_marked: bool,
    /// True if a bit is wrong.
    pub is_damaged: bool,
}

/// The fate of a frame on a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It is lost at random.
    Lost,
    /// The cable was cut under it.
    Cut,
}

/// A frame on a cable.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// The frame.
    pub frame: Frame,
    /// The time at which its last byte is at the end of the cable.
    pub tail_at: Instant,
    /// The fate.
    pub fate: Fate,
}

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a node to the switch.
    Up,
    /// From the switch to a node.
    Down,
}

/// A link.
#[derive(Clone, Debug)]
pub struct Link {
    /// The direction.
    pub direction: Direction,
    /// The frames that wait.
    pub queue: VecDeque<Frame>,
    /// Their bytes.
    queued_bytes: u64,
    /// The pause frame that waits; a later one takes its place.
    pub control: Option<Frame>,
    /// The time from which a frame may begin.
    free_at: Instant,
    /// The last byte of the present frame leaves at this time.
    tail_leaves: Instant,
    /// The bytes of the present frame that count as queued until then.
    leaving_bytes: u64,
    /// The time until which a pause frame stops it.
    pub paused_until: Instant,
    /// The time of its next look on the agenda; `NEVER`: none.
    pub wakes_at: Instant,
    /// The frames on the cable, in order.
    pub flights: VecDeque<Flight>,
    /// True if the cable is cut or a machine has no power.
    pub is_down: bool,
    /// True if the card refused a datagram for lack of space.
    pub was_full: bool,
    /// The nodes that the switch stopped for this queue.
    pub stopped: BTreeSet<u32>,
    /// The time for which it was busy, its present frame included.
    busy: Duration,
    /// Frames that began on it.
    pub frames: u64,
}

impl Link {
    /// Makes a link at rest.
    pub fn new(direction: Direction) -> Link {
        Link {
            direction,
            queue: VecDeque::new(),
            queued_bytes: 0,
            control: None,
            free_at: Instant::START,
            tail_leaves: Instant::START,
            leaving_bytes: 0,
            paused_until: Instant::START,
            wakes_at: Instant::NEVER,
            flights: VecDeque::new(),
            is_down: false,
            was_full: false,
            stopped: BTreeSet::new(),
            busy: Duration::ZERO,
            frames: 0,
        }
    }

    /// Returns the bytes in its queue now; a frame counts until its last byte has left.
    pub fn used_bytes(&self, now: Instant) -> u64 {
        let leaving = if now < self.tail_leaves { self.leaving_bytes } else { 0 };
        self.queued_bytes + leaving
    }

    /// Returns the bytes of the frames that have not begun.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Returns the time for which it was busy until now.
    pub fn busy(&self, now: Instant) -> Duration {
        passed(self.busy, self.free_at, now)
    }

    /// Queues a frame.
    pub fn push(&mut self, frame: Frame) {
        self.queued_bytes += frame.bytes;
        self.queue.push_back(frame);
    }

    /// Returns the time of the next look at the transmitter; `None`: nothing waits.
    pub fn next_look(&self) -> Option<Instant> {
        let waits = !self.queue.is_empty();
        match self.control {
            Some(_) => Some(self.free_at),
            None if waits => Some(self.free_at.max(self.paused_until)),
            None if !self.stopped.is_empty() => Some(self.free_at),
            None => None,
        }
    }

    /// Takes the frame that can begin now, if any.
    pub fn next_frame(&mut self, now: Instant) -> Option<Frame> {
        if now < self.free_at {
            return None;
        }
        if let Some(control) = self.control.take() {
            return Some(control);
        }
        if now < self.paused_until {
            return None;
        }
        let frame = self.queue.pop_front()?;
        self.queued_bytes -= frame.bytes;
        Some(frame)
    }

    /// Begins a frame; returns the time at which it is due at the other end.
    pub fn begin(&mut self, frame: Frame, fate: Fate, now: Instant, config: &Config) -> Instant {
        let byte = config.byte_time();
        self.tail_leaves = now + byte.times(PREAMBLE_BYTES + frame.bytes);
        self.free_at = self.tail_leaves + byte.times(GAP_BYTES);
        self.leaving_bytes = match frame.content {
            Content::Part { .. } => frame.bytes,
            Content::Pause(_) => 0,
        };
        self.busy = self.busy + self.free_at.since(now);
        self.frames += 1;
        let tail_at = self.tail_leaves + config.cable;
        self.flights.push_back(Flight { frame, tail_at, fate });
        match self.direction {
            Direction::Down => tail_at,
            Direction::Up => switch_has_it(now, tail_at, config) + config.switch_latency,
        }
    }

    /// Cuts the cable: what is on it is lost. Returns the frames that waited.
    pub fn cut(&mut self, now: Instant) -> VecDeque<Frame> {
        self.is_down = true;
        self.control = None;
        self.paused_until = Instant::START;
        let on_cable = self.flights.iter_mut().filter(|flight| flight.tail_at > now);
        on_cable.for_each(|flight| flight.fate = Fate::Cut);
        self.queued_bytes = 0;
        std::mem::take(&mut self.queue)
    }
}

/// Returns the time from which the switch can forward a frame that began at `began`.
fn switch_has_it(began: Instant, tail_at: Instant, config: &Config) -> Instant {
    match config.forwarding {
        Forwarding::StoreAndForward => tail_at,
        Forwarding::CutThrough => {
            let header = config.byte_time().times(PREAMBLE_BYTES + HEADER_BYTES);
            began + header + config.cable
        }
    }
}
