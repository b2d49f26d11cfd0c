//! The decider of a builder: asks its function, counts, and makes the records for the actuator.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fluxline_core::Moment;
use fluxline_daq::event::{EventRow, EventView, PacketRow};
use fluxline_daq::experiment::Sampled;

use super::Decide;
use super::write::{Head, Kind};
use crate::filter::{RunSource, panic_words};
use crate::monitor::Monitor;

/// A closed event on its way to the function, with its times.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    row: EventRow,
    packets: Vec<PacketRow>,
    bytes: Vec<u8>,
    sampled: Option<Moment>,
    closed: Moment,
}

impl Asked {
    /// Takes a closed event; `sampled` is `None` where packets have times of another day.
    pub fn of(event: &EventView<'_>, sampled: Option<Sampled>) -> Asked {
        let sensor = || {
            let times = event.packets.iter().map(|packet| packet.sensor_time_ns);
            times.reduce(|one, other| Some(one?.min(other?))).flatten().map(Moment::from_ns)
        };
        let sampled = sampled.and_then(|of| match of {
            Sampled::Arrival => Some(event.row.first),
            Sampled::Sensor => sensor(),
        });
        Asked {
            row: *event.row,
            packets: event.packets.to_vec(),
            bytes: event.bytes.to_vec(),
            sampled,
            closed: Moment::default(),
        }
    }

    /// Sets the time at which it was found closed. A board whose clock is ahead of that measures
    /// nothing.
    pub fn closed_at(self, closed: Moment) -> Asked {
        let sampled = self.sampled.filter(|sampled| *sampled <= closed);
        Asked { sampled, closed, ..self }
    }
}

/// The outcome of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The function wants this decision written.
    Decided(Vec<u8>),
    /// It wants nothing written.
    Declined,
    /// It failed.
    Undecided,
}

/// Asks the function of a builder.
pub(crate) struct Decider {
    builder: usize,
    function: Box<dyn Decide>,
    bytes_max: usize,
    sequence: u64,
    monitor: Monitor,
    has_failed: bool,
}

impl Decider {
    pub fn new(
        builder: usize,
        function: Box<dyn Decide>,
        bytes_max: usize,
        monitor: Monitor,
    ) -> Decider {
        Decider { builder, function, bytes_max, sequence: 0, monitor, has_failed: false }
    }

    pub fn builder(&self) -> usize {
        self.builder
    }

    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    pub fn add_source(&mut self, source: &RunSource) {
        self.function.add_source(source);
    }

    /// Asks the function about an event.
    pub fn ask(&mut self, asked: &Asked) -> Outcome {
        let Asked { row, packets, bytes, .. } = asked;
        let event = EventView { row, packets, bytes };
        let mut decision = Vec::new();
        let function = &mut self.function;
        let asked = catch_unwind(AssertUnwindSafe(|| function.decide(&event, &mut decision)));
        let failed = match asked {
            Ok(Ok(())) if decision.len() > self.bytes_max => Some(format!(
                "its decision has {} bytes, and bytes-max is {}",
                decision.len(),
                self.bytes_max
            )),
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(panic) => Some(panic_words(&*panic)),
        };
        match failed {
            None if decision.is_empty() => Outcome::Declined,
            None => Outcome::Decided(decision),
            Some(why) => {
                self.report(row.key, &why);
                Outcome::Undecided
            }
        }
    }

    /// Reports the first failure.
    fn report(&mut self, key: Option<u64>, why: &str) {
        if !std::mem::replace(&mut self.has_failed, true) {
            let key = key.map_or_else(String::new, |key| format!(" {key}"));
            self.monitor.fault(format_args!(
                "the function of [loop] at builder-{} failed on event{key}: {why}; such events are \
                 recorded, and nothing is written for them",
                self.builder
            ));
        }
    }

    /// Returns the record of a decision that was made at `decided`.
    pub fn record(&mut self, asked: &Asked, decision: &[u8], decided: Moment) -> Vec<u8> {
        let head = Head {
            kind: Kind::Write,
            sequence: self.sequence,
            key: asked.row.key,
            generation: asked.row.generation,
            sampled: asked.sampled,
            closed: asked.closed,
            decided,
        };
        self.sequence += 1;
        head.record(decision)
    }

    /// Returns the record that says that this builder is there.
    pub fn hello(&self) -> Vec<u8> {
        Head { kind: Kind::Hello, ..Head::default() }.record(&[])
    }

    /// Returns the record behind the last decision.
    pub fn end(&self) -> Vec<u8> {
        Head { kind: Kind::End, sequence: self.sequence, ..Head::default() }.record(&[])
    }
}
