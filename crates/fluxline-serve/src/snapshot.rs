//! One snapshot of an acquisition as JSON, the same for all browsers.
//!
//! Rates are those of the last second. The flow has one entry for each end that data can
//! have, from the ledger's own table of ends, so a new end appears on the page by itself.

use std::collections::VecDeque;

use fluxline_core::Moment;
use fluxline_daq::ledger::{Counted, Fate, InputEntry, Ledger, OUTCOMES, SourceEntry};
use fluxline_run::{Live, Watcher};
use serde_json::{Map, Value, json};

use crate::history::Series;

/// Snapshots over which rates are measured: a second.
const RATE_TICKS: usize = 10;

/// Slow control values in the snapshots of a stream, ten a second; a single look has all.
const SLOW_VALUES_STREAMED: usize = 100;

/// The rates of a snapshot, which have a history.
pub const RATES: [Rate; 6] = [
    Rate { name: "packets", unit: "packets/s", of: |ledger| ledger.source_totals().parsed as f64 },
    Rate {
        name: "bits",
        unit: "bit/s",
        of: |ledger| ledger.source_totals().bytes_parsed as f64 * 8.0,
    },
    Rate {
        name: "events",
        unit: "events/s",
        of: |ledger| (ledger.events() + ledger.events_paused()) as f64,
    },
    Rate { name: "incomplete", unit: "events/s", of: incomplete },
    Rate { name: "lost", unit: "packets/s", of: |ledger| ledger.source_totals().lost as f64 },
    Rate {
        name: "recorded",
        unit: "byte/s",
        of: |ledger| ledger.source_totals().bytes_recorded as f64,
    },
];

/// Returns the incomplete events of all time, armed and paused included.
fn incomplete(ledger: &Ledger) -> f64 {
    (ledger.events_incomplete() + ledger.paused.events_incomplete) as f64
}

/// A rate: the growth of a count in a second.
pub struct Rate {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The count.
    of: fn(&Ledger) -> f64,
}

/// Makes snapshots, and keeps the history of their rates.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The counts of the last second, oldest first.
    before: VecDeque<Before>,
    first: Option<Moment>,
    series: [Series; RATES.len()],
}

#[derive(Debug)]
struct Before {
    at: Moment,
    counts: [f64; RATES.len()],
    packets: Vec<u64>,
    datagrams: Vec<u64>,
}

impl Snapshots {
    /// Takes the state of an acquisition, and adds its rates to their history: once a tick.
    pub fn tick(&mut self, watcher: &Watcher, live: &Live) -> Value {
        self.first.get_or_insert(live.at);
        for at in 0..RATES.len() {
            let value = self.rate(at, live);
            self.series[at].push(value);
        }
        let snapshot = self.shown(watcher, live, SLOW_VALUES_STREAMED);
        if self.before.len() == RATE_TICKS {
            self.before.pop_front();
        }
        self.before.push_back(Before {
            at: live.counted_at,
            counts: RATES.each_ref().map(|rate| (rate.of)(&live.ledger)),
            packets: live.ledger.sources.iter().map(|source| source.counters.parsed).collect(),
            datagrams: live.ledger.inputs.iter().map(|input| input.counters.datagrams).collect(),
        });
        snapshot
    }

    /// Takes the state of an acquisition between two ticks.
    pub fn look(&self, watcher: &Watcher) -> Value {
        self.shown(watcher, &watcher.live(), usize::MAX)
    }

    fn shown(&self, watcher: &Watcher, live: &Live, slow_values: usize) -> Value {
        let first = self.first.unwrap_or(live.at);
        let rates = self.rates(live);
        let sources = self.sources(live);
        let inputs = self.inputs(watcher, live);
        let control = watcher.control();
        let remarks = control.remarks();
        let remarks = remarks.iter().map(|one| json!({"at_ns": one.at.as_ns(), "text": one.text}));
        json!({
            "run": watcher.plan().name,
            "folder": watcher.plan().folder,
            "at_ns": live.at.as_ns(),
            "seconds": live.at.since(first).as_ns() as f64 * 1e-9,
            "tick": self.series[0].ticks(),
            "state": live.state.name(),
            "health": watcher.health().document(),
            "slow_control": watcher.slow_values().map(|slow| slow.document(slow_values)),
            "commands": live.state.commands().iter().map(|one| one.name()).collect::<Vec<_>>(),
            "shot": control.shot(),
            "remarks": remarks.collect::<Vec<_>>(),
            "rates": rates,
            "ring_percent": live.stats.ring_percent,
            "free_bytes": live.free_bytes,
            "recorded_bytes": live.ledger.source_totals().bytes_recorded,
            "flow": flow(&live.ledger, live.in_flight()),
            "inputs": inputs,
            "events": {
                "built": live.ledger.events(),
                "incomplete": live.ledger.events_incomplete(),
                "paused": live.ledger.events_paused(),
                "delay_counts": live.delay_counts.iter().map(|one| {
                    json!({ "up_to_ns": one.up_to_ns, "events": one.events })
                }).collect::<Vec<_>>(),
            },
            "delays": {
                "events": live.delays.events,
                "p50_ns": live.delays.p50_ns,
                "p90_ns": live.delays.p90_ns,
                "p99_ns": live.delays.p99_ns,
                "p999_ns": live.delays.p999_ns,
                "max_ns": live.delays.max_ns,
            },
            "sources": sources,
            "notes": watcher.notes(0),
        })
    }

    /// Returns a part of the history of every rate, with about `points` values; the number of ticks
    /// so far where it begins behind them.
    pub fn history(&self, from: u64, to: u64, points: usize) -> Result<Value, u64> {
        let ticks = self.series[0].ticks();
        if from > ticks {
            return Err(ticks);
        }
        let rates = RATES.iter().zip(&self.series);
        let series: Map<String, Value> = rates
            .map(|(rate, series)| {
                let part = series.part(from, to, points);
                let least: Vec<f64> = part.values.iter().map(|value| value.least).collect();
                let greatest: Vec<f64> = part.values.iter().map(|value| value.greatest).collect();
                let part = json!({
                    "unit": rate.unit, "first": part.first, "step": part.step, "least": least,
                    "greatest": greatest,
                });
                (rate.name.to_owned(), part)
            })
            .collect();
        Ok(json!({ "ticks": ticks, "series": series }))
    }

    fn rates(&self, live: &Live) -> Value {
        let rates = RATES.iter().enumerate().map(|(at, rate)| {
            (rate.name.to_owned(), json!({ "value": self.rate(at, live), "unit": rate.unit }))
        });
        Value::Object(rates.collect())
    }

    /// Returns the growth of a count in a second.
    fn rate(&self, at: usize, live: &Live) -> f64 {
        let count = (RATES[at].of)(&live.ledger);
        self.before.front().map_or(0.0, |before| {
            let seconds = live.counted_at.since(before.at).as_ns() as f64 * 1e-9;
            // A count that falls, such as losses that came late after all, is not a rate.
            if seconds > 0.0 { (count - before.counts[at]).max(0.0) / seconds } else { 0.0 }
        })
    }

    fn sources(&self, live: &Live) -> Vec<Value> {
        let before = self.before.front();
        let seconds = self.rate_seconds(live);
        let entries = live.ledger.sources.iter().enumerate();
        entries
            .map(|(number, entry)| {
                let before = before.and_then(|before| before.packets.get(number));
                let packets = entry.counters.parsed;
                let mut shown = source(number, entry, growth(packets, before, seconds));
                let silent = live.at.since(Moment::from_ns(entry.last_time_ns));
                shown["silent_ms"] = (silent.as_ns() / 1_000_000).into();
                shown
            })
            .collect()
    }

    fn inputs(&self, watcher: &Watcher, live: &Live) -> Vec<Value> {
        let before = self.before.front();
        let seconds = self.rate_seconds(live);
        let planned = watcher.plan().inputs.iter();
        let entries = live.ledger.inputs.iter().zip(planned).enumerate();
        entries
            .map(|(number, (entry, planned))| {
                let before = before.and_then(|before| before.datagrams.get(number));
                let mut shown = input(entry);
                shown["name"] = planned.name.as_str().into();
                shown["listens"] = json!(planned.listens);
                shown["rate"] = growth(entry.counters.datagrams, before, seconds).into();
                shown
            })
            .collect()
    }

    /// Returns the time over which rates are measured \[s\]; 0 at first.
    fn rate_seconds(&self, live: &Live) -> f64 {
        let before = self.before.front();
        before.map_or(0.0, |before| live.counted_at.since(before.at).as_ns() as f64 * 1e-9)
    }
}

/// Returns the growth of a count in a second.
fn growth(count: u64, before: Option<&u64>, seconds: f64) -> f64 {
    let grown = count.saturating_sub(before.copied().unwrap_or(0));
    if seconds > 0.0 { grown as f64 / seconds } else { 0.0 }
}

/// Returns a source with its rate of packets.
pub fn source(number: usize, entry: &SourceEntry, rate: f64) -> Value {
    let counters = &entry.counters;
    json!({
        "number": number,
        "label": entry.label,
        "input": entry.format,
        "packets": counters.parsed,
        "bytes": counters.bytes_parsed,
        "rate": rate,
        "lost": counters.lost,
        "restarts": counters.restarts,
        "reordered": counters.reordered,
        "duplicate": counters.duplicate,
        "recorded": counters.recorded,
        "fragments": entry.events.fragments,
        "missing": entry.events.missing,
        "state": entry.events.state,
        "silent_ms": 0,
    })
}

/// Returns the inputs of a ledger.
pub fn inputs(ledger: &Ledger) -> Vec<Value> {
    ledger.inputs.iter().map(input).collect()
}

fn input(entry: &InputEntry) -> Value {
    let counters = &entry.counters;
    json!({
        "name": entry.name,
        "listens": [],
        "rate": 0,
        "datagrams": counters.datagrams,
        "bytes": counters.bytes,
        "ring_full": counters.ring_full,
        "socket_dropped": counters.socket_dropped,
        "rejected": counters.rejected + counters.truncated + counters.sources_refused,
        "frames": entry.remote.frames,
        "frames_lost": entry.remote.frames_lost,
    })
}

/// Returns the ledger as a flow: what came, and where it went.
pub fn flow(ledger: &Ledger, in_flight: u64) -> Value {
    let totals = ledger.source_totals();
    let ends: Vec<Value> = OUTCOMES
        .iter()
        .map(|row| (row, ledger.total(row.counter).unwrap_or(0)))
        .filter(|(row, count)| *count > 0 || row.fate == Fate::Recorded)
        .map(|(row, count)| {
            json!({
                "name": row.words,
                "count": count,
                "fate": row.fate,
                "unit": if row.of == Counted::Datagrams { "datagrams" } else { "frames" },
                "stage": row.counter.split_once('.').map_or("", |(place, _)| place),
                "advice": fluxline_daq::ledger::Outcome { row, count }.remedy(),
            })
        })
        .collect();
    json!({
        "expected": sent(ledger),
        "lost": ledger.lost(),
        "received": ledger.received(),
        "to_builder": totals.to_builder,
        "in_flight": in_flight,
        "ends": ends,
        "host": {
            "nic_dropped": ledger.host.nic_dropped,
            "softnet_dropped": ledger.host.softnet_dropped,
        },
    })
}

/// Returns the packets that sources sent, by their counters; 0 where packets have no counters.
///
/// Inputs count a datagram before the readout follows its packet counter. Datagrams that wait in
/// between were sent as well, so that "sent" is never behind "received".
fn sent(ledger: &Ledger) -> u64 {
    let (totals, input) = (ledger.source_totals(), ledger.input_totals());
    let dropped = input.ring_full + input.truncated + input.rejected + input.sources_refused;
    let waiting = input.datagrams.saturating_sub(dropped + totals.parsed);
    if totals.expected > 0 { totals.expected + waiting } else { 0 }
}

#[cfg(test)]
mod tests {
    use fluxline_daq::ledger::{InputCounters, SourceCounters};

    use super::*;

    #[test]
    fn packets_that_wait_for_the_readout_are_sent_and_rejected_ones_are_not() {
        let counters = InputCounters { datagrams: 120, rejected: 5, ..InputCounters::default() };
        let inputs = vec![InputEntry { counters, ..InputEntry::default() }];
        let of = |expected| SourceEntry {
            counters: SourceCounters { parsed: 100, expected, lost: 3, ..Default::default() },
            ..SourceEntry::default()
        };
        let ledger = |expected| Ledger {
            inputs: inputs.clone(),
            sources: vec![of(expected)],
            ..Ledger::default()
        };
        let flow = |expected| flow(&ledger(expected), 0);
        assert_eq!(flow(103)["expected"], 118, "15 wait");
        assert_eq!(flow(103)["received"], 120);
        assert_eq!(flow(0)["expected"], 0, "no counters");
    }
}
