//! The status of an event, by everything that a run's folder knows about it: the row of the event,
//! its late fragments, and the amendments of run.json. Nothing else decides it, wherever it is
//! shown.

use std::collections::BTreeMap;

use crate::builder::{Amendment, ExpectedBy};
use crate::event::{EventRow, EventStatus, PacketRow};
use crate::ledger::Ledger;

use super::evidence::Evidence;
use super::missing::{LatePart, Missing};

/// All that decides about the events of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judge {
    labels: BTreeMap<u32, String>,
    /// The sources that no event needs, by the experiment.
    optional: Vec<u32>,
    /// Those that each event needs, even if they sent nothing for it.
    required: Vec<u32>,
    evidence: Evidence,
}

/// An event with its late fragments.
pub(crate) struct Case<'a> {
    /// Its packets as recorded.
    pub(crate) packets: &'a [PacketRow],
    /// Sources of its late packets, and the part of its fragment that each is, in words.
    pub(crate) late: &'a [(u32, String)],
}

impl Judge {
    /// Makes a judge from the labels of sources, and from what run.json says.
    pub(crate) fn new(
        labels: BTreeMap<u32, String>,
        amendments: &[Amendment],
        ledger: Option<&Ledger>,
    ) -> Judge {
        let sources = ledger.map_or(&[][..], |ledger| &ledger.sources);
        let of = |wanted: &[ExpectedBy]| {
            let all = (0..).zip(sources);
            all.filter(|its| wanted.contains(&its.1.events.expected_by)).map(|its| its.0).collect()
        };
        Judge {
            labels,
            optional: of(&[ExpectedBy::Count, ExpectedBy::Nobody]),
            required: of(&[ExpectedBy::Name]),
            evidence: Evidence::of(amendments),
        }
    }

    /// Returns true when an amendment says something about an event.
    pub(crate) fn has_evidence(&self, row: &EventRow) -> bool {
        self.evidence.touches(row)
    }

    /// Sets the status of an event, and the text about its missing parts.
    pub(crate) fn settle(&self, case: &Case<'_>, row: &mut EventRow, text: &mut String) {
        let mut missing = Missing::parse(text, self.labels.values().map(String::as_str));
        let lacked = !missing.is_empty();
        self.take_late(case, &mut missing);
        self.take_evidence(case, row, &mut missing);
        match (row.status, missing.is_empty()) {
            (EventStatus::Incomplete, true) if lacked => row.status = EventStatus::Complete,
            (EventStatus::Complete, false) => row.status = EventStatus::Incomplete,
            (_, true) if !lacked => return,
            _ => {}
        }
        *text = missing.to_text();
    }

    /// Adds late fragments. One that is not whole shows that the rest of it was sent, too.
    fn take_late(&self, case: &Case<'_>, missing: &mut Missing) {
        let mut begun: Vec<u32> = case.packets.iter().map(|packet| packet.source).collect();
        for (source, part) in case.late {
            let (Some(label), Some(part)) = (self.labels.get(source), LatePart::parse(part)) else {
                continue;
            };
            if !begun.contains(source) {
                begun.push(*source);
                missing.begin(label, part);
            }
            missing.part_came(label, part);
        }
    }

    /// Adds what is known about sources that have nothing in the event.
    fn take_evidence(&self, case: &Case<'_>, row: &EventRow, missing: &mut Missing) {
        for (source, lost) in self.evidence.about(row) {
            let here = case.packets.iter().map(|packet| packet.source);
            let mut here = here.chain(case.late.iter().map(|its| its.0));
            let Some(label) = self.labels.get(&source).filter(|_| !here.any(|its| its == source))
            else {
                continue;
            };
            match lost {
                true if self.optional.contains(&source) => {}
                true => missing.was_lost(label),
                false if self.required.contains(&source) => missing.required_was_not_sent(label),
                false => missing.was_not_sent(label),
            }
        }
    }
}
