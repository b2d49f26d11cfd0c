//! The packet descriptions of a run, each with its parameters, as sources name them.

use std::collections::BTreeMap;

use fluxline_daq::record::SourceLine;
use fluxline_packet::Description;

/// The packet descriptions of a run.
#[derive(Debug, Default)]
pub struct Formats {
    keys: Vec<(String, BTreeMap<String, u64>)>,
    descriptions: Vec<Description>,
}

impl Formats {
    /// Adds a description with the parameters that the experiment set; a known one is not added
    /// again.
    pub fn add(&mut self, description: Description, parameters: &BTreeMap<String, u64>) {
        if self.find(description.name(), parameters).is_none() {
            self.keys.push((description.name().to_owned(), parameters.clone()));
            self.descriptions.push(description);
        }
    }

    /// Returns the descriptions, in the order in which they were added.
    #[must_use]
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }

    /// Returns the number of a source's description.
    #[must_use]
    pub fn of(&self, source: &SourceLine) -> Option<usize> {
        self.find(&source.format, &source.parameters)
    }

    fn find(&self, name: &str, parameters: &BTreeMap<String, u64>) -> Option<usize> {
        self.keys.iter().position(|key| key.0 == name && key.1 == *parameters)
    }

    /// Checks that each description maps a packet type to ESS schemas; the error is one sentence,
    /// without its full stop.
    pub fn check(&self) -> Result<(), String> {
        let is_mapped = |of: &&Description| of.packet_types().iter().any(|of| !of.ess.is_empty());
        match self.descriptions.iter().find(|of| !is_mapped(of)) {
            None => Ok(()),
            Some(lacking) => Err(format!(
                "schema = \"ess\": the packet description `{}` does not map any packet; add \
                 [packet.ess.ev44], [packet.ess.da00] or [[packet.ess.f144]] to it \
                 (docs/packet-descriptions.md), or remove the schema",
                lacking.name()
            )),
        }
    }
}
