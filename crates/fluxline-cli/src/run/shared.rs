//! Shared memory as a source: another process pushes packets into a ring of this one.

use std::time::Duration;

use fluxline::shm::{Shm, ShmConfig};
use fluxline::{clock, shm_names};
use fluxline_core::fabric::{Completion, Fabric, Grant, Key, Name, Rights, Status};

use super::end::InputEnd;
use super::live::Live;
use super::ring::{RecordRing, Records, RingFate};
use super::stop::Stop;
use crate::experiment::SharedMemory;
use crate::failure::Failure;

/// How often the connections are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A node whose ring is exported, and the end of that ring's reading.
pub struct SharedInput {
    name: String,
    node: Shm,
    fate: RingFate,
    end: Stop,
}

impl SharedInput {
    /// Opens the node and exports its ring; the readout gets the records.
    pub fn open(name: &str, from: &SharedMemory) -> Result<(SharedInput, Records), Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::link(format_args!("source `{name}`: {error}."))
        };
        let (group, node) = shm_names(&from.url).map_err(|error| wrong(&error))?;
        let region = Name::parse(&from.region).map_err(|error| wrong(&error))?;
        let mut node =
            Shm::open(&group, &node, ShmConfig::default()).map_err(|error| wrong(&error))?;
        let consumer = node.push_consumer(from.ring_bytes, true).map_err(|error| wrong(&error))?;
        let grant = Grant { rights: Rights::PUT, key: Key(from.key) };
        node.export(consumer.region(), region, grant).map_err(|error| wrong(&error))?;
        let end = Stop::never();
        let records = Records::new(RecordRing::Shared(consumer), end.clone(), from.ring_bytes);
        let (name, fate) = (name.to_owned(), records.fate());
        Ok((SharedInput { name, node, fate, end }, records))
    }

    /// Takes up connections and notes what becomes of them, until the run is over.
    pub fn serve(mut self, stop: &Stop, live: &Live) -> InputEnd {
        while !stop.is_over() {
            while let Some(what) = self.node.poll(clock::now()) {
                if let Completion::Broken { status, .. } = what
                    && status != Status::Disconnected
                {
                    live.note(Some(format!("source `{}`: a producer: {status}", self.name)));
                }
            }
            self.node.wait(LOOK);
        }
        self.end.now();
        InputEnd { fate: self.fate, ..InputEnd::default() }
    }
}
