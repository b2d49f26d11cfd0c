//! The events of a run folder, as every command reads them: with late fragments joined.

use std::collections::BTreeMap;
use std::path::Path;

use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::experiment::Source;
use fluxline_daq::record::{Join, JoinedReader, ReadReport};

/// A packet in the files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FoundPacket {
    /// The name of its source in the experiment.
    pub source: String,
    pub bytes: Vec<u8>,
}

/// An event in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEvent {
    pub key: Option<u64>,
    pub generation: u32,
    pub status: EventStatus,
    /// The words about what is missing.
    pub missing: String,
    pub packets: Vec<FoundPacket>,
}

/// Reads all events of a folder, and what was found beside them; `sources` are those of its
/// experiment.
///
/// # Errors
/// The folder cannot be read.
pub fn events(folder: &Path, sources: &[Source]) -> Result<(Vec<FoundEvent>, ReadReport), String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let mut reader = JoinedReader::open(folder, Join::Late).map_err(|error| wrong(&error))?;
    let lines = reader.folder().sources().map_err(|error| wrong(&error))?;
    // With several sources, labels begin with their names.
    let name_of = |label: &str| match sources {
        [only] => only.name.clone(),
        _ => label.split('/').next().unwrap_or(label).to_owned(),
    };
    let names: BTreeMap<u32, String> =
        lines.iter().map(|line| (line.source, name_of(&line.name))).collect();
    let mut events = Vec::new();
    while let Some(batch) = reader.next_batch().map_err(|error| wrong(&error))? {
        let mut rows = EventBatch::default();
        batch.append_to(&mut rows).map_err(|error| wrong(&error))?;
        let mut missing = &rows.missing[..];
        for view in rows.views() {
            let (words, rest) = missing.split_at(view.row.missing_bytes as usize);
            missing = rest;
            let packet = |source: u32, bytes: &[u8]| {
                let name = names.get(&source).ok_or_else(|| {
                    format!("a packet has source {source}, which the folder does not list")
                })?;
                Ok(FoundPacket { source: name.clone(), bytes: bytes.to_vec() })
            };
            let packets: Result<_, String> =
                view.each_packet().map(|(row, bytes)| packet(row.source, bytes)).collect();
            events.push(FoundEvent {
                key: view.row.key,
                generation: view.row.generation,
                status: view.row.status,
                missing: words.to_owned(),
                packets: packets?,
            });
        }
    }
    Ok((events, reader.report().clone()))
}
