//! The events of a run and their packets, a page of them at a time.

use std::path::Path;

use fluxline_daq::event::{EventBatch, EventRow, EventStatus};
use fluxline_daq::record::{ReadError, RunReader};
use fluxline_run::Newest;
use serde_json::{Value, json};

use super::described::Descriptions;
use super::index::IndexedBatch;
use super::traced::packets_of;
use crate::packet;
use crate::signal::{Choice, Described, Signal};

/// Most batches that are read for one answer.
const BATCHES_MAX: usize = 64;
/// Most packets of an event that are listed.
const PACKETS_MAX: usize = 4096;
/// Longest text of missing parts, in letters.
const MISSING_MAX: usize = 500;

/// The events that a page asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The number of the first one.
    pub from: u64,
    /// Most events.
    pub count: usize,
    /// Only events that are not complete.
    pub incomplete: bool,
}

/// Lists events. `batches` begin with the one that has event `from`. The answer has the number
/// from which the list goes on.
pub fn list(path: &Path, batches: &[IndexedBatch], wanted: Wanted) -> Result<Value, ReadError> {
    let reader = RunReader::open(path)?;
    let (mut events, mut next) = (Vec::new(), None);
    let mut rows = EventBatch::default();
    let shown = batches.iter().filter(|batch| !(wanted.incomplete && batch.is_whole));
    for (read, batch) in shown.enumerate() {
        if read == BATCHES_MAX || events.len() == wanted.count {
            next = Some(batch.first_event.max(wanted.from));
            break;
        }
        rows.clear();
        let Some(recorded) = reader.read_marked(batch.mark)? else { break };
        recorded.append_to(&mut rows)?;
        let mut missing = rows.missing.as_str();
        for (number, event) in (batch.first_event..).zip(&rows.events) {
            let (text, rest) = split(missing, event.missing_bytes as usize);
            missing = rest;
            let hidden = wanted.incomplete && event.status == EventStatus::Complete;
            if number < wanted.from || hidden {
                continue;
            }
            if events.len() == wanted.count {
                next = Some(number);
                break;
            }
            events.push(event_document(number, event, text));
        }
        if next.is_some() {
            break;
        }
    }
    Ok(json!({ "events": events, "next": next }))
}

fn split(text: &str, bytes: usize) -> (&str, &str) {
    text.split_at_checked(bytes).unwrap_or((text, ""))
}

fn event_document(number: u64, event: &EventRow, missing: &str) -> Value {
    let missing: String = missing.chars().take(MISSING_MAX).collect();
    json!({
        "number": number,
        "key": event.key.map(|key| key.to_string()),
        "status": event.status.as_str(),
        "packets": event.packets,
        "first_ns": event.first.as_ns(),
        "lasted_ns": event.last.since(event.first).as_ns(),
        "delay_ns": event.built.since(event.last).as_ns(),
        "missing": missing,
    })
}

/// An event of a run with its packets.
pub struct EventPackets {
    /// Its packets, in order, and the number of its first one in the batch.
    rows: EventBatch,
    first_byte: usize,
    first_packet: usize,
    count: usize,
}

impl EventPackets {
    /// Reads an event; `None` when it does not exist.
    pub fn read(
        path: &Path,
        batch: IndexedBatch,
        number: u64,
    ) -> Result<Option<EventPackets>, ReadError> {
        let mut rows = EventBatch::default();
        let Some(recorded) = RunReader::open(path)?.read_marked(batch.mark)? else {
            return Ok(None);
        };
        recorded.append_to(&mut rows)?;
        let at = number.saturating_sub(batch.first_event) as usize;
        let Some(event) = rows.events.get(at) else { return Ok(None) };
        let count = event.packets as usize;
        let before = rows.events[..at].iter();
        let first_packet: usize = before.map(|event| event.packets as usize).sum();
        let first_byte = rows.packets[..first_packet].iter().map(|row| row.bytes as usize).sum();
        Ok(Some(EventPackets { rows, first_byte, first_packet, count }))
    }

    /// Lists the packets.
    pub fn list(&self, descriptions: &Descriptions<'_>) -> Value {
        let packets = &self.rows.packets[self.first_packet..][..self.count];
        let packets = packets.iter().take(PACKETS_MAX).enumerate().map(|(number, row)| {
            json!({
                "packet": number,
                "source": row.source,
                "label": descriptions.label(row.source),
                "sequence": row.sequence.map(|sequence| sequence.to_string()),
                "at_ns": row.time.as_ns(),
                "bytes": row.bytes,
            })
        });
        json!({ "packets": packets.collect::<Vec<_>>(), "all": self.count })
    }

    /// Decodes a packet; `None` when the event does not have it.
    pub fn packet(
        &self,
        number: usize,
        descriptions: &Descriptions<'_>,
    ) -> Option<Result<Value, String>> {
        let packets = &self.rows.packets[self.first_packet..][..self.count];
        let row = *packets.get(number)?;
        let before = packets[..number].iter().map(|row| row.bytes as usize).sum::<usize>();
        let start = self.first_byte + before;
        let bytes = self.rows.bytes[start..start + row.bytes as usize].to_vec();
        let format = match descriptions.format(row.source) {
            Ok(format) => format,
            Err(fault) => return Some(Err(fault)),
        };
        let types = format.description.packet_types();
        let of = types.get(usize::from(row.packet_type))?;
        Some(Ok(packet::shown(&format.label, of, &Newest { row, bytes }, format.port)))
    }
}

/// Gathers a signal of the packets in some batches.
pub fn signal(
    path: &Path,
    batches: &[IndexedBatch],
    choice: &Choice,
) -> Result<Result<Value, String>, ReadError> {
    let reader = RunReader::open(path)?;
    let format = match Descriptions::of(reader.folder()).format(choice.source) {
        Ok(format) => format,
        Err(fault) => return Ok(Err(fault)),
    };
    let (mut signal, mut rows) = (Signal::of(choice), EventBatch::default());
    for batch in batches.iter().take(BATCHES_MAX) {
        rows.clear();
        let Some(recorded) = reader.read_marked(batch.mark)? else { break };
        recorded.append_to(&mut rows)?;
        for packet in packets_of(&rows, choice.source) {
            let (description, port) = (&*format.description, format.port);
            signal.add(&choice.field, &Described { packet: &packet, description, port });
        }
    }
    Ok(Ok(signal.document()))
}
