//! A compiled function as a filter: its events and packets as plain rows of numbers.

use fluxline::compiled::{CompiledEvent, CompiledFilter, CompiledPacket};
use fluxline_daq::event::{EventBatch, EventView};

use super::{Decision, Decisions, Filter, RunSource};

/// Calls a compiled function for each event.
pub struct CompiledEvents {
    function: CompiledFilter,
    /// The input of each source, by number.
    inputs: Vec<u16>,
    packets: Vec<CompiledPacket>,
}

impl CompiledEvents {
    /// Makes a filter of a compiled function.
    #[must_use]
    pub fn new(function: CompiledFilter) -> CompiledEvents {
        CompiledEvents { function, inputs: Vec::new(), packets: Vec::new() }
    }

    fn decide_one(&mut self, event: &EventView<'_>) -> i32 {
        self.packets.clear();
        let mut start = 0;
        for packet in event.packets {
            self.packets.push(CompiledPacket {
                start,
                sequence: packet.sequence.unwrap_or(CompiledEvent::NONE),
                time_ns: packet.time.as_ns(),
                sensor_time_ns: packet.sensor_time_ns.unwrap_or(CompiledEvent::NONE),
                part: packet.part,
                bytes: packet.bytes,
                payload_start: packet.payload_start,
                payload_bytes: packet.payload_bytes,
                source: packet.source,
                input: self.inputs.get(packet.source as usize).copied().unwrap_or(u16::MAX).into(),
                packet_type: packet.packet_type.into(),
            });
            start += u64::from(packet.bytes);
        }
        let row = event.row;
        let plain = CompiledEvent {
            key: row.key.unwrap_or(CompiledEvent::NONE),
            first_ns: row.first.as_ns(),
            last_ns: row.last.as_ns(),
            built_ns: row.built.as_ns(),
            bytes: event.bytes.len() as u64,
            packets: event.packets.len() as u32,
            generation: row.generation,
            source: row.source.unwrap_or(u32::MAX),
            status: row.status as u32,
        };
        self.function.call(&plain, &self.packets, event.bytes)
    }
}

impl Filter for CompiledEvents {
    fn add_source(&mut self, source: &RunSource) {
        let place = source.number as usize;
        if self.inputs.len() <= place {
            self.inputs.resize(place + 1, u16::MAX);
        }
        self.inputs[place] = source.input;
    }

    fn decide(&mut self, batch: &EventBatch, decisions: &mut Decisions) {
        for (row, event) in batch.views().enumerate().filter(|(_, event)| !event.is_late()) {
            match self.decide_one(&event) {
                0 => decisions.set(row, Decision::Reject),
                1.. => decisions.set(row, Decision::Keep),
                code => decisions.fail(row, || format!("the compiled function returned {code}")),
            }
        }
    }
}
