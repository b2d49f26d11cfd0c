//! Sources that stopped sending while others went on.
//!
//! Two judge it: the event builder, which waits for sources, and the times of their last packets,
//! for runs without events of several sources. Live sources are compared with each other; sources
//! of a file with those of the same file, since files end at different times.

use std::collections::BTreeMap;

use fluxline_daq::builder::{Expectation, SourceState};
use fluxline_daq::ledger::{Ledger, SourceEntry};

/// Shortest silence after which a source is called silent \[ns\].
const SILENT_NS_MIN: u64 = 1_000_000_000;
/// Shortest silence in mean periods of the source.
const SILENT_PERIODS: u64 = 20;

/// The packets of a source in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTimes {
    /// Its label in reports.
    pub label: String,
    /// The input of its file; `None`: a live source.
    pub file: Option<u16>,
    /// Number of its valid packets.
    pub packets: u64,
    /// Time of its first packet \[ns since 1970\].
    pub first_ns: u64,
    /// Time of its last packet \[ns since 1970\].
    pub last_ns: u64,
    /// Its input was read up to this time \[ns since 1970\]: packets that others sent later prove
    /// nothing.
    pub read_until_ns: u64,
    /// Events go on without it.
    pub is_given_up: bool,
}

/// The sources that were seen, and those of them that fell silent.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    /// Labels of the sources that sent valid packets.
    pub seen: Vec<String>,
    /// Number of further sources that sent, whose labels and times are not known.
    pub unknown: u64,
    /// Those that fell silent.
    pub sources: Vec<SilentSource>,
}

/// A source that fell silent.
#[derive(Clone, Debug)]
pub struct SilentSource {
    /// Its label in reports.
    pub label: String,
    /// Time from its last packet to the last of the others \[ms\].
    pub silent_ms: u64,
}

impl SilentSource {
    /// Returns a phrase: `board 2 silent for the last 2.5 s`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} silent for the last {:.1} s", self.label, self.silent_ms as f64 * 1e-3)
    }
}

impl Silence {
    /// Judges the sources of a closed ledger; `is_live` returns true for inputs with the common
    /// time of live ones.
    pub(crate) fn of_ledger(ledger: &Ledger, is_live: impl Fn(u16) -> bool) -> Silence {
        let times = |source: &SourceEntry| SourceTimes {
            label: source.label.clone(),
            file: (!is_live(source.format)).then_some(source.format),
            packets: source.counters.parsed,
            first_ns: source.first_time_ns,
            last_ns: source.last_time_ns,
            read_until_ns: u64::MAX,
            is_given_up: matches!(source.events.state, SourceState::Idle | SourceState::Dead),
        };
        Silence::of(&ledger.sources.iter().map(times).collect::<Vec<_>>())
    }

    /// Judges sources. Those without a packet are left out.
    #[must_use]
    pub fn of(sources: &[SourceTimes]) -> Silence {
        let sent = || sources.iter().filter(|source| source.packets > 0);
        let mut newest = BTreeMap::new();
        for source in sent() {
            let of_group = newest.entry(source.file).or_insert(0);
            *of_group = source.last_ns.max(*of_group);
        }
        let silent = sent().filter_map(|source| {
            let until_ns = newest[&source.file].min(source.read_until_ns);
            let silent_ns = until_ns.saturating_sub(source.last_ns);
            (source.is_given_up || silent_ns > source.limit_ns()).then(|| SilentSource {
                label: source.label.clone(),
                silent_ms: silent_ns / 1_000_000,
            })
        });
        let sources = silent.collect();
        let seen = sent().map(|source| source.label.clone()).collect();
        Silence { seen, unknown: 0, sources }
    }

    /// Returns a phrase for each lack of required sources: those that sent nothing or fell silent.
    #[must_use]
    pub fn absent(&self, require: &Expectation) -> Vec<String> {
        match require {
            Expectation::Joined => Vec::new(),
            Expectation::Count(count) => {
                let living = self.seen.len().saturating_sub(self.sources.len()) as u64;
                let (living, required) = (living.saturating_add(self.unknown), u64::from(*count));
                if living >= required {
                    return Vec::new();
                }
                let named = self.sources.iter().map(SilentSource::words);
                let named = named.collect::<Vec<_>>().join(", ");
                let named = if named.is_empty() { named } else { format!(" ({named})") };
                vec![format!("{living} of {required} required sources sent to the end{named}")]
            }
            Expectation::Sources(labels) => {
                labels.iter().filter_map(|label| self.absence_of(label)).collect()
            }
        }
    }

    fn absence_of(&self, label: &String) -> Option<String> {
        match self.sources.iter().find(|source| source.label == *label) {
            Some(source) => Some(format!("required source {}", source.words())),
            None if self.seen.contains(label) => None,
            None => Some(format!("required source {label} sent nothing")),
        }
    }
}

impl SourceTimes {
    fn limit_ns(&self) -> u64 {
        let lasted_ns = self.last_ns.saturating_sub(self.first_ns);
        limit_ns(lasted_ns, self.packets, SILENT_NS_MIN)
    }
}

/// Returns the silence after which a source is called silent \[ns\]: 20 of its periods, and at
/// least `shortest_ns`. Its `packets` came in `lasted_ns`.
pub(crate) fn limit_ns(lasted_ns: u64, packets: u64, shortest_ns: u64) -> u64 {
    let periods = packets.saturating_sub(1).max(1);
    (lasted_ns / periods).saturating_mul(SILENT_PERIODS).max(shortest_ns)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use fluxline_daq::ledger::SourceCounters;

    use super::*;

    fn source(format: u16, label: &str, sent_ms: Range<u64>, parsed: u64) -> SourceEntry {
        SourceEntry {
            label: label.to_owned(),
            format,
            first_time_ns: sent_ms.start * 1_000_000,
            last_time_ns: sent_ms.end * 1_000_000,
            counters: SourceCounters { parsed, ..SourceCounters::default() },
            ..SourceEntry::default()
        }
    }

    #[test]
    fn source_that_events_no_longer_wait_for_is_silent() {
        let mut dead = source(0, "dead", 0..900, 900);
        dead.events.state = SourceState::Dead;
        let sources = vec![source(0, "goes on", 0..1_000, 1_000), dead];
        let silence = Silence::of_ledger(&Ledger { sources, ..Ledger::default() }, |_| true);
        assert_eq!(silence.sources[0].label, "dead");
    }

    #[test]
    fn source_that_stops_while_others_go_on_is_silent_and_a_slow_one_is_not() {
        let sources = vec![
            source(0, "goes on", 0..10_000, 10_000),
            source(0, "stops", 0..8_000, 8_000),
            source(1, "once a second", 0..8_500, 9),
            source(1, "in another live input", 0..2_000, 100),
            source(2, "of a file, from last year", 0..5, 100),
        ];
        let ledger = Ledger { sources, ..Ledger::default() };
        let silence = Silence::of_ledger(&ledger, |input| input < 2);
        let labels: Vec<&str> =
            silence.sources.iter().map(|source| source.label.as_str()).collect();
        assert_eq!(labels, ["stops", "in another live input"]);
        assert_eq!((silence.seen.len(), silence.sources[0].silent_ms), (5, 2_000));
    }

    #[test]
    fn source_whose_input_was_read_to_an_earlier_time_is_not_silent() {
        let times = |label: &str, last_ms: u64, read_until_ms: u64| SourceTimes {
            label: label.to_owned(),
            packets: 1_000,
            last_ns: last_ms * 1_000_000,
            read_until_ns: read_until_ms * 1_000_000,
            ..SourceTimes::default()
        };
        let silence = Silence::of(&[
            times("goes on", 10_000, 10_000),
            times("of a machine that ended before", 5_000, 5_010),
            times("died before its machine ended", 3_000, 5_010),
        ]);
        let labels: Vec<&str> =
            silence.sources.iter().map(|source| source.label.as_str()).collect();
        assert_eq!(labels, ["died before its machine ended"]);
        assert_eq!(silence.sources[0].silent_ms, 2_010);
    }
}
