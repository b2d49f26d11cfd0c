//! Which sources an event must have: named, counted, or all that join.

use super::config::Expectation;

/// What the builder knows of one source.
#[derive(Clone, Debug)]
pub(super) struct KnownSource {
    pub(super) label: String,
    pub(super) required: bool,
    /// Where its fragment was in the last event: sources tend to keep their order.
    pub(super) hint: usize,
    /// How often it restarted, as its last packet said.
    pub(super) epoch: u32,
}

/// All sources that the builder knows of.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    known: Vec<KnownSource>,
    expectation: Expectation,
}

impl Sources {
    pub(super) fn new(expectation: Expectation) -> Sources {
        Sources { known: Vec::new(), expectation }
    }

    /// Source `number` is called `label`.
    pub(super) fn name(&mut self, number: u32, label: &str) {
        self.know(number);
        let required = match &self.expectation {
            Expectation::Sources(labels) => labels.iter().any(|its| its == label),
            Expectation::Count(_) | Expectation::Joined => false,
        };
        if let Some(source) = self.known.get_mut(number as usize) {
            source.label = label.to_owned();
            source.required |= required;
        }
    }

    /// Source `number` sent something; returns what is known of it.
    pub(super) fn know(&mut self, number: u32) -> &mut KnownSource {
        let place = number as usize;
        while self.known.len() <= place {
            let label = format!("source {}", self.known.len());
            let required = self.expectation == Expectation::Joined;
            self.known.push(KnownSource { label, required, hint: 0, epoch: 0 });
        }
        &mut self.known[place]
    }

    /// How many fragments an event that begins now must have.
    pub(super) fn required(&self) -> u32 {
        match &self.expectation {
            Expectation::Count(count) => *count,
            Expectation::Sources(labels) => labels.len() as u32,
            Expectation::Joined => self.known.len() as u32,
        }
    }

    /// Whether the fragment of source `number` is one of the required ones.
    pub(super) fn counts(&self, number: u32) -> bool {
        match self.expectation {
            Expectation::Count(_) => true,
            _ => self.known.get(number as usize).is_some_and(|source| source.required),
        }
    }

    /// How many sources are known.
    pub(super) fn count(&self) -> u32 {
        self.known.len() as u32
    }

    /// The label of source `number`.
    pub(super) fn label(&self, number: u32) -> &str {
        self.known.get(number as usize).map_or("", |source| &source.label)
    }

    /// Calls `tell` with the labels of required sources that are not in `present`.
    pub(super) fn absent(&self, present: &[u32], mut tell: impl FnMut(&str)) {
        for (number, source) in self.known.iter().enumerate() {
            if self.counts(number as u32) && !present.contains(&(number as u32)) {
                tell(&source.label);
            }
        }
        if let Expectation::Sources(labels) = &self.expectation {
            for label in labels {
                if !self.known.iter().any(|source| source.label == *label) {
                    tell(label);
                }
            }
        }
    }

    /// How many sources an event must have, where only the number is told.
    pub(super) fn required_count_only(&self) -> Option<u32> {
        match self.expectation {
            Expectation::Count(count) => Some(count),
            _ => None,
        }
    }
}
