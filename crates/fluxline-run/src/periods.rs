//! Counters of a run by period: the time in which it recorded, and the time in which it was armed
//! or paused.
//!
//! Counters of packets and events grow all the time. Each change of the state takes their values,
//! and the difference belongs to the period that ends. A packet belongs to the period in which it
//! came, a lost one to that in which the gap was seen, and an event to that in which it closed.

use fluxline_core::Moment;
use fluxline_daq::ledger::{Ledger, PausedCounters};
use fluxline_daq::pipeline::Pipeline;
use serde_json::{Value, json};

/// Most periods that run.json lists; later ones are still summed.
const PERIODS_MAX: usize = 10_000;

/// Counters that grow during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets that fit their description.
    pub packets: u64,
    /// Missing packets, by the packet counters. A packet that comes late lowers it.
    pub lost: u64,
    /// Closed events of which nothing was missing.
    pub complete: u64,
    /// Closed events that lacked something.
    pub incomplete: u64,
    /// Packets that came after their event was closed.
    pub late: u64,
}

impl Counts {
    pub fn of(pipeline: &Pipeline) -> Counts {
        let mut counts = Counts::default();
        for source in pipeline.readout().sources() {
            let counters = source.counters();
            counts.packets += counters.parsed;
            counts.lost += counters.lost;
        }
        let sources = pipeline.builder().source_counters().iter();
        counts.late = sources.map(|counters| counters.in_late).sum();
        let events = pipeline.builder().counters();
        counts.complete = events.events_complete;
        counts.incomplete = events.events_incomplete + events.events_stopped;
        counts
    }

    /// Returns the counters of a ledger over several nodes.
    pub fn of_ledger(ledger: &Ledger) -> Counts {
        let (sources, events) = (ledger.source_totals(), &ledger.builder);
        Counts {
            packets: sources.parsed,
            lost: sources.lost,
            complete: events.events_complete,
            incomplete: events.events_incomplete + events.events_stopped,
            late: sources.in_late,
        }
    }

    fn since(self, then: Counts) -> Counts {
        Counts {
            packets: self.packets.saturating_sub(then.packets),
            lost: self.lost.saturating_sub(then.lost),
            complete: self.complete.saturating_sub(then.complete),
            incomplete: self.incomplete.saturating_sub(then.incomplete),
            late: self.late.saturating_sub(then.late),
        }
    }
}

/// The time between two changes of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    records: bool,
    from: Moment,
    to: Moment,
    counts: Counts,
}

/// The periods of a run.
#[derive(Clone, Debug)]
pub(crate) struct Periods {
    ended: Vec<Period>,
    /// Sums over the ended periods without recording.
    paused: PausedCounters,
    records: bool,
    from: Moment,
    then: Counts,
}

impl Periods {
    /// Begins the first period at `now`.
    pub fn begin(records: bool, now: Moment) -> Periods {
        let (ended, paused) = (Vec::new(), PausedCounters::default());
        Periods { ended, paused, records, from: now, then: Counts::default() }
    }

    /// Returns true when the present period is recorded.
    pub fn records(&self) -> bool {
        self.records
    }

    /// Ends the period at `now`, and begins the next.
    pub fn change(&mut self, records: bool, counts: Counts, now: Moment) {
        let of_period = counts.since(self.then);
        self.paused = self.paused_with(of_period);
        if self.ended.len() < PERIODS_MAX {
            let (records, from) = (self.records, self.from);
            self.ended.push(Period { records, from, to: now, counts: of_period });
        }
        (self.records, self.from, self.then) = (records, now, counts);
    }

    /// Returns the counters of all time without recording, up to now.
    pub fn paused(&self, counts: Counts) -> PausedCounters {
        self.paused_with(counts.since(self.then))
    }

    fn paused_with(&self, present: Counts) -> PausedCounters {
        let mut paused = self.paused.clone();
        if !self.records {
            paused.lost += present.lost;
            paused.events_complete += present.complete;
            paused.events_incomplete += present.incomplete;
            paused.in_late += present.late;
        }
        paused
    }

    /// Returns its part of run.json.
    pub fn document(&self) -> Value {
        let periods = self.ended.iter().map(|period| {
            let Period { records, from, to, counts } = period;
            json!({
                "recorded": records, "from_ns": from.as_ns(), "to_ns": to.as_ns(),
                "packets": counts.packets, "lost": counts.lost,
                "events": counts.complete + counts.incomplete,
                "incomplete": counts.incomplete, "late": counts.late,
            })
        });
        periods.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u64, lost: u64, complete: u64, incomplete: u64) -> Counts {
        Counts { packets, lost, complete, incomplete, late: 0 }
    }

    #[test]
    fn periods_add_up_to_the_whole_and_paused_ones_are_apart() {
        let at = Moment::from_ns;
        let mut periods = Periods::begin(false, at(10));
        periods.change(true, counts(100, 3, 50, 1), at(20));
        assert_eq!(periods.paused(counts(150, 5, 60, 1)).lost, 3, "the present one is recorded");
        periods.change(false, counts(300, 10, 150, 2), at(30));
        let paused = periods.paused(counts(400, 30, 190, 7));
        assert_eq!((paused.lost, paused.events_complete, paused.events_incomplete), (23, 90, 6));
        periods.change(false, counts(400, 30, 190, 7), at(40));
        let list = periods.document();
        let sum = |name: &str| {
            list.as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!((sum("packets"), sum("lost"), sum("events")), (400, 30, 197));
        assert_eq!(list[1]["recorded"], true);
        assert_eq!((&list[1]["from_ns"], &list[1]["to_ns"]), (&20.into(), &30.into()));
    }

    #[test]
    fn a_late_packet_that_fills_a_gap_of_an_earlier_period_takes_nothing_below_zero() {
        let mut periods = Periods::begin(true, Moment::from_ns(0));
        periods.change(false, counts(10, 5, 0, 0), Moment::from_ns(1));
        periods.change(true, counts(11, 4, 0, 0), Moment::from_ns(2));
        assert_eq!(periods.paused(counts(11, 4, 0, 0)).lost, 0);
    }
}
