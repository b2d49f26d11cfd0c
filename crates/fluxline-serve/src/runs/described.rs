//! The packet descriptions of a run's sources, from its folder.

use std::sync::Arc;

use fluxline_daq::record::{RunFolder, SourceLine};
use fluxline_packet::Description;

/// The description of a source's packets.
#[derive(Clone, Debug)]
pub struct SourceFormat {
    /// The source's label.
    pub label: String,
    /// The description.
    pub description: Arc<Description>,
    /// The UDP port that packets were sent to; 0 where there is none.
    pub port: u16,
}

/// The sources of a run and the place of their descriptions.
pub struct Descriptions<'a> {
    folder: &'a RunFolder,
    lines: Vec<SourceLine>,
}

impl Descriptions<'_> {
    pub fn of(folder: &RunFolder) -> Descriptions<'_> {
        Descriptions { folder, lines: folder.readable_sources().0 }
    }

    /// Returns the label of a source.
    pub fn label(&self, source: u32) -> String {
        let line = self.lines.iter().find(|line| line.source == source);
        line.map_or_else(|| format!("source {source}"), |line| line.name.clone())
    }

    /// Loads the description of a source; an error is a sentence.
    pub fn format(&self, source: u32) -> Result<SourceFormat, String> {
        let line = self.lines.iter().find(|line| line.source == source);
        let line = line.ok_or_else(|| {
            format!("sources.jsonl has no source {source}; `fluxline inspect` lists the faults.")
        })?;
        let text = self.folder.read_format(&line.format).map_err(|error| format!("{error}."))?;
        let file = format!("formats/{}.toml", line.format);
        let description = Description::load(&file, &text, &line.parameters);
        let description = description.map_err(|error| format!("{error}"))?;
        let (label, port) = (line.name.clone(), line.port.unwrap_or(0));
        Ok(SourceFormat { label, description: Arc::new(description), port })
    }
}
