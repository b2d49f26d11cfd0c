//! The sources of a run, each with its description and the parameters of its experiment.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray};
use fluxline_packet::Description;
use fluxline_packet::layout::PacketType;

use fluxline_daq::record::folder::{FolderError, RunFolder, SourceLine};

/// A source whose packets can be decoded.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub description: Arc<Description>,
    pub format: String,
    pub port: u16,
}

/// All sources of a run.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    lines: Vec<SourceLine>,
    notes: Vec<String>,
    described: BTreeMap<u32, Source>,
    /// The index of each source in `lines`.
    index: BTreeMap<u32, i32>,
    names: ArrayRef,
}

/// A format's name and its parameters.
type Parametrized = (String, BTreeMap<String, u64>);

impl Sources {
    /// Loads the descriptions of all sources of a run. Sources whose line or format is missing or
    /// damaged stay undescribed, with a note.
    pub fn load(folder: &RunFolder) -> Sources {
        let mut loaded: BTreeMap<Parametrized, Option<Arc<Description>>> = BTreeMap::new();
        let (lines, faults) = folder.readable_sources();
        let undecoded = |fault: &FolderError| format!("a source is not decoded: {fault}");
        let mut notes: Vec<String> = faults.iter().map(undecoded).collect();
        let mut described = BTreeMap::new();
        for line in &lines {
            let key = (line.format.clone(), line.parameters.clone());
            let description = loaded.entry(key).or_insert_with(|| {
                let loaded = load(folder, line);
                let note =
                    |reason| format!("packets of format {} are not decoded: {reason}", line.format);
                loaded.map_err(|reason| notes.push(note(reason))).ok()
            });
            if let Some(description) = description.clone() {
                let (format, port) = (line.format.clone(), line.port.unwrap_or(0));
                described.insert(line.source, Source { description, format, port });
            }
        }
        let numbered = lines.iter().enumerate();
        let index = numbered.map(|(index, line)| (line.source, index as i32)).collect();
        let names = lines.iter().map(|line| Some(line.name.as_str()));
        let names = Arc::new(names.collect::<StringArray>());
        Sources { lines, notes, described, index, names }
    }

    pub fn lines(&self) -> &[SourceLine] {
        &self.lines
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the names of all sources, in the order of the file.
    pub fn names(&self) -> ArrayRef {
        Arc::clone(&self.names)
    }

    /// Returns the index of a source in [`Sources::names`].
    pub fn index(&self, source: u32) -> Option<i32> {
        self.index.get(&source).copied()
    }

    /// Returns a source and the type of its packet; `None` when no description has it.
    pub fn packet_type(&self, source: u32, number: u8) -> Option<(&Source, &PacketType)> {
        let source = self.described.get(&source)?;
        Some((source, source.description.packet_types().get(usize::from(number))?))
    }

    /// Returns the descriptions of each format, one per set of parameters.
    pub fn formats(&self) -> BTreeMap<&str, Vec<&Arc<Description>>> {
        let mut formats: BTreeMap<&str, Vec<&Arc<Description>>> = BTreeMap::new();
        for source in self.described.values() {
            let variants = formats.entry(&source.format).or_default();
            if !variants.iter().any(|known| Arc::ptr_eq(known, &source.description)) {
                variants.push(&source.description);
            }
        }
        formats
    }
}

fn load(folder: &RunFolder, line: &SourceLine) -> Result<Arc<Description>, String> {
    let file = format!("formats/{}.toml", line.format);
    let text = folder.read_format(&line.format).map_err(|error| match error {
        FolderError::Missing(_) => format!("{file} is not in the run"),
        error => error.to_string(),
    })?;
    let loaded = Description::load(&file, &text, &line.parameters);
    loaded.map(Arc::new).map_err(|error| error.to_string())
}
