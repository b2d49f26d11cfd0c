//! Sources that stopped sending while others went on.
//!
//! Two judge it: the event builder, which waits for sources, and the times of their last packets,
//! for runs without events of several sources. Live sources are compared with each other; sources
//! of a file with those of the same file, since files end at different times.

use fluxline_daq::builder::SourceState;
use fluxline_daq::ledger::{Ledger, SourceEntry};

/// Shortest silence after which a source is called silent \[ns\].
const SILENT_NS_MIN: u64 = 1_000_000_000;
/// Shortest silence in mean periods of the source.
const SILENT_PERIODS: u64 = 20;

/// The sources that were seen, and those of them that fell silent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// Number of sources that sent valid packets.
    pub seen: usize,
    /// Their labels.
    pub labels: Vec<String>,
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
    pub fn words(&self) -> String {
        format!("{} silent for the last {:.1} s", self.label, self.silent_ms as f64 * 1e-3)
    }
}

impl Silence {
    /// Judges the sources of a closed ledger; `is_live` returns true for inputs with the common
    /// time of live ones.
    pub fn of(ledger: &Ledger, is_live: impl Fn(u16) -> bool) -> Silence {
        let sent: Vec<&SourceEntry> =
            ledger.sources.iter().filter(|source| source.counters.parsed > 0).collect();
        let group = |source: &SourceEntry| (!is_live(source.format)).then_some(source.format);
        let newest_beside = |source: &SourceEntry| {
            let others = sent.iter().filter(|other| group(other) == group(source));
            others.map(|other| other.last_time_ns).max().unwrap_or(0)
        };
        let silent = sent.iter().filter_map(|source| {
            let silent_ns = newest_beside(source).saturating_sub(source.last_time_ns);
            let is_given_up = matches!(source.events.state, SourceState::Idle | SourceState::Dead);
            (is_given_up || silent_ns > limit_ns(source)).then(|| SilentSource {
                label: source.label.clone(),
                silent_ms: silent_ns / 1_000_000,
            })
        });
        Silence {
            seen: sent.len(),
            labels: sent.iter().map(|source| source.label.clone()).collect(),
            sources: silent.collect(),
        }
    }
}

fn limit_ns(source: &SourceEntry) -> u64 {
    let lasted_ns = source.last_time_ns.saturating_sub(source.first_time_ns);
    let periods = source.counters.parsed.saturating_sub(1).max(1);
    (lasted_ns / periods).saturating_mul(SILENT_PERIODS).max(SILENT_NS_MIN)
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
        let silence = Silence::of(&Ledger { sources, ..Ledger::default() }, |_| true);
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
        let silence = Silence::of(&ledger, |input| input < 2);
        let labels: Vec<&str> =
            silence.sources.iter().map(|source| source.label.as_str()).collect();
        assert_eq!(labels, ["stops", "in another live input"]);
        assert_eq!((silence.seen, silence.sources[0].silent_ms), (5, 2_000));
    }
}
