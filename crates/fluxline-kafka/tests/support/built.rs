//! Readout nodes, and the batches of builders.

use std::collections::BTreeMap;

use fluxline_core::Span;
use fluxline_daq::builder::{Mode, Scope};
use fluxline_daq::event::EventBatch;
use fluxline_kafka::build::{
    BuiltSource, Commit, NodeConfig, Output, OutputBatch, ReadoutNode, SinkSums,
};

use super::world::{Event, RUN, description, events_of};

/// Returns a start of a readout node with one input of boards.
pub fn readout(node: u16, start: u32, partitions: u32) -> ReadoutNode {
    let config = NodeConfig {
        run: RUN,
        node,
        start,
        mode: Mode::Key(Scope::Global),
        record_bytes: 4096,
        record_age: Span::from_ms(5),
        memory_bytes: 1 << 30,
    };
    ReadoutNode::new(config, vec![("boards".to_owned(), description())], partitions)
}

/// Returns the commit of a first batch, which covers one record.
pub fn first_commit(builder: &str) -> Commit {
    Commit {
        partition: 0,
        batch: 0,
        covers: 1,
        crc: 0,
        events: 1,
        packets: 1,
        refused: 0,
        sink: SinkSums::default(),
        builder: builder.to_owned(),
    }
}

/// Batches by partition and number. A builder that takes over makes the last ones again.
#[derive(Default)]
pub struct Batches(pub BTreeMap<(u32, u64), OutputBatch>);

impl Batches {
    /// Returns the events of all batches.
    pub fn events(&self) -> Vec<Event> {
        let batches: Vec<EventBatch> = self.0.values().map(|batch| batch.events.clone()).collect();
        events_of(&batches)
    }
}

impl Output for Batches {
    fn write(
        &mut self,
        partition: u32,
        _: &[BuiltSource],
        batch: &OutputBatch,
    ) -> Result<(), String> {
        let before = self.0.insert((partition, batch.number), batch.clone());
        assert!(before.is_none_or(|before| before == *batch), "two batches of one number");
        Ok(())
    }
}
