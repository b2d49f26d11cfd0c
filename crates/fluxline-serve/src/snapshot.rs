//! One snapshot of an acquisition as JSON, the same for all browsers.
//!
//! Rates are those of the last second. The flow has one entry for each end that data can
//! have, from the ledger's own table of ends, so a new end appears on the page by itself.

use std::collections::VecDeque;

use fluxline_core::Moment;
use fluxline_daq::ledger::{Counted, Fate, Ledger, OUTCOMES, SourceEntry};
use fluxline_run::{Live, Watcher};
use serde_json::{Map, Value, json};

use crate::history::Series;

/// Snapshots over which rates are measured: a second.
const RATE_TICKS: usize = 10;

/// The rates of a snapshot, which have a history.
pub const RATES: [Rate; 6] = [
    Rate { name: "packets", unit: "packets/s", of: |ledger| ledger.source_totals().parsed as f64 },
    Rate {
        name: "bits",
        unit: "bit/s",
        of: |ledger| ledger.source_totals().bytes_parsed as f64 * 8.0,
    },
    Rate { name: "events", unit: "events/s", of: |ledger| ledger.events() as f64 },
    Rate { name: "incomplete", unit: "events/s", of: |ledger| ledger.events_incomplete() as f64 },
    Rate { name: "lost", unit: "packets/s", of: |ledger| ledger.source_totals().lost as f64 },
    Rate {
        name: "recorded",
        unit: "byte/s",
        of: |ledger| ledger.source_totals().bytes_recorded as f64,
    },
];

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
}

impl Snapshots {
    /// Takes the state of an acquisition, and adds its rates to their history: once a tick.
    pub fn tick(&mut self, watcher: &Watcher) -> Value {
        let live = watcher.live();
        self.first.get_or_insert(live.at);
        for at in 0..RATES.len() {
            let value = self.rate(at, &live);
            self.series[at].push(value);
        }
        let snapshot = self.shown(watcher, &live);
        if self.before.len() == RATE_TICKS {
            self.before.pop_front();
        }
        self.before.push_back(Before {
            at: live.counted_at,
            counts: RATES.each_ref().map(|rate| (rate.of)(&live.ledger)),
            packets: live.ledger.sources.iter().map(|source| source.counters.parsed).collect(),
        });
        snapshot
    }

    /// Takes the state of an acquisition between two ticks.
    pub fn look(&self, watcher: &Watcher) -> Value {
        self.shown(watcher, &watcher.live())
    }

    fn shown(&self, watcher: &Watcher, live: &Live) -> Value {
        let first = self.first.unwrap_or(live.at);
        let rates = self.rates(live);
        let sources = self.sources(live);
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
            "commands": live.state.commands().iter().map(|one| one.name()).collect::<Vec<_>>(),
            "shot": control.shot(),
            "remarks": remarks.collect::<Vec<_>>(),
            "rates": rates,
            "ring_percent": live.stats.ring_percent,
            "free_bytes": live.free_bytes,
            "recorded_bytes": live.ledger.source_totals().bytes_recorded,
            "flow": flow(live),
            "events": {
                "built": live.ledger.events(),
                "incomplete": live.ledger.events_incomplete(),
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

    /// Returns a part of the history of every rate, with about `points` values.
    pub fn history(&self, from: u64, to: u64, points: usize) -> Value {
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
        json!({ "ticks": self.series[0].ticks(), "series": series })
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
        let seconds =
            before.map_or(0.0, |before| live.counted_at.since(before.at).as_ns() as f64 * 1e-9);
        let entries = live.ledger.sources.iter().enumerate();
        entries
            .map(|(number, entry)| {
                let before = before.and_then(|before| before.packets.get(number));
                let grown = entry.counters.parsed - before.copied().unwrap_or(0);
                let rate = if seconds > 0.0 { grown as f64 / seconds } else { 0.0 };
                source(number, entry, rate, live.at)
            })
            .collect()
    }
}

fn source(number: usize, entry: &SourceEntry, rate: f64, now: Moment) -> Value {
    let counters = &entry.counters;
    let silent_ms = now.since(Moment::from_ns(entry.last_time_ns)).as_ns() / 1_000_000;
    json!({
        "number": number,
        "label": entry.label,
        "packets": counters.parsed,
        "bytes": counters.bytes_parsed,
        "rate": rate,
        "lost": counters.lost,
        "restarts": counters.restarts,
        "reordered": counters.reordered,
        "duplicate": counters.duplicate,
        "recorded": counters.recorded,
        "state": entry.events.state,
        "silent_ms": silent_ms,
    })
}

/// Returns the ledger as a flow: what came, and where it went.
fn flow(live: &Live) -> Value {
    let ledger = &live.ledger;
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
        "expected": totals.expected,
        "lost": totals.lost,
        "received": ledger.received(),
        "to_builder": totals.to_builder,
        "in_flight": live.in_flight(),
        "ends": ends,
        "host": {
            "nic_dropped": ledger.host.nic_dropped,
            "softnet_dropped": ledger.host.softnet_dropped,
        },
    })
}
