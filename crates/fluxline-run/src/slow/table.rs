//! The newest slow control value of each name, and the choice of those that are recorded.
//!
//! A row is recorded when a value changes, and after `every-s` when one arrives that does not.
//! Rows of a name are at least [`INTERVAL`] apart: of the values between, the newest waits for its
//! turn and the others are counted, so a sensor that flickers fills no disk and its last value is
//! kept. Owns no clock and no file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::SlowControl;
use fluxline_daq::record::{SlowRow, SlowValue};
use serde::Serialize;
use serde_json::{Value, json};

use super::line::{self, Line, Malformed};

/// Shortest time between two rows of a name.
pub const INTERVAL: Span = Span::from_ms(100);
/// The largest difference of a sender's clock that is believed \[ns\]: a day.
const CLOCK_APART_NS_MAX: u64 = 86_400 * 1_000_000_000;
/// Characters of a line that a note shows.
const SHOWN_CHARS: usize = 100;

/// The ends of lines and values.
///
/// `lines = malformed + those with values`; `values = recorded + unchanged + thinned + refused +
/// not_written`, and those that wait for their turn or for the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Lines that came, without empty ones and comments.
    pub lines: u64,
    /// Lines that are not line protocol.
    pub malformed: u64,
    /// Values of the other lines.
    pub values: u64,
    /// Rows of the file.
    pub recorded: u64,
    /// Values that had not changed.
    pub unchanged: u64,
    /// Changes that a newer value replaced within 100 ms.
    pub thinned: u64,
    /// Values of further names than `values-max`.
    pub refused: u64,
    /// Rows for a run without files, or for a disk that failed.
    pub not_written: u64,
    /// Lines whose time is more than a day from ours; they have their time of arrival.
    pub retimed: u64,
    /// Datagrams that the kernel dropped because the socket's buffer was full.
    pub datagrams_dropped: u64,
}

/// The time of an arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    /// By the wall clock.
    pub wall: Moment,
    /// By the monotonic clock.
    pub steady: Moment,
}

/// A name's values.
#[derive(Debug)]
struct Known {
    newest: SlowRow,
    /// The newest one's arrival, by the monotonic clock.
    heard: Moment,
    /// The last row, and its time by the monotonic clock.
    recorded: Option<SlowRow>,
    recorded_at: Moment,
    /// A changed value that waits for its turn.
    waiting: Option<SlowRow>,
}

/// The values of all names.
#[derive(Debug)]
pub struct Table {
    limits: SlowControl,
    known: BTreeMap<Arc<str>, Known>,
    /// Names of which a value may wait.
    due: BTreeSet<Arc<str>>,
    /// Rows to be written.
    rows: Vec<SlowRow>,
    /// Sentences for the user, each kind once.
    notes: Vec<String>,
    seen: BTreeSet<Malformed>,
    /// The numbers of lines and values.
    pub counters: Counters,
}

impl Table {
    /// Makes an empty table.
    pub fn new(limits: SlowControl) -> Table {
        Table {
            limits,
            known: BTreeMap::new(),
            due: BTreeSet::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            seen: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// Takes the lines of a datagram.
    pub fn take(&mut self, datagram: &[u8], at: Arrival) {
        for line in datagram.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            self.counters.lines += 1;
            match line::parse(line) {
                Ok(parsed) => self.take_line(parsed, at),
                Err(why) => self.reject(line, why),
            }
        }
    }

    fn reject(&mut self, line: &[u8], why: Malformed) {
        self.counters.malformed += 1;
        if self.seen.insert(why) {
            let text = String::from_utf8_lossy(line);
            let shown: String = text.chars().take(SHOWN_CHARS).collect();
            let dots = if shown.len() < text.len() { ".." } else { "" };
            self.notes.push(format!(
                "slow control: a line is not line protocol: {why}: {shown:?}{dots} (further ones \
                 of this kind are only counted)"
            ));
        }
    }

    fn take_line(&mut self, line: Line, at: Arrival) {
        let arrival_ns = at.wall.as_ns();
        let sent = line.time_ns.map(|ns| u64::try_from(ns).unwrap_or(0));
        let is_far = sent.is_some_and(|ns| ns.abs_diff(arrival_ns) > CLOCK_APART_NS_MAX);
        if is_far {
            self.note_far(&line);
        }
        let time_ns = sent.filter(|_| !is_far).unwrap_or(arrival_ns);
        let unit: Arc<str> = line.unit.into();
        for named in line.values {
            self.counters.values += 1;
            let name = self.known.get_key_value(named.name.as_str()).map(|(name, _)| name.clone());
            if name.is_none() && self.known.len() >= self.limits.values_max as usize {
                self.refuse(&named.name);
                continue;
            }
            let name = name.unwrap_or_else(|| named.name.into());
            let unit = unit.clone();
            self.take_value(SlowRow { name, unit, value: named.value, time_ns, arrival_ns }, at);
        }
    }

    fn note_far(&mut self, line: &Line) {
        self.counters.retimed += 1;
        if self.counters.retimed == 1 {
            let name = line.values.first().map_or("", |first| first.name.as_str());
            self.notes.push(format!(
                "slow control: the timestamp of {name:?} is more than a day from this host's \
                 clock, so its time of arrival is used; send nanoseconds since 1970, or none"
            ));
        }
    }

    fn refuse(&mut self, name: &str) {
        self.counters.refused += 1;
        if self.counters.refused == 1 {
            self.notes.push(format!(
                "slow control: {name:?} is refused, since there are {} names; raise `values-max` \
                 below [slow-control]",
                self.limits.values_max
            ));
        }
    }

    fn take_value(&mut self, row: SlowRow, at: Arrival) {
        let name = row.name.clone();
        let known = self.known.entry(name.clone()).or_insert_with(|| Known {
            newest: row.clone(),
            heard: at.steady,
            recorded: None,
            recorded_at: Moment::default(),
            waiting: None,
        });
        known.newest = row.clone();
        known.heard = at.steady;
        let age = at.steady.since(known.recorded_at);
        let change = self.limits.change;
        let is_same = known.recorded.as_ref().is_some_and(|last| is_same(last, &row, change));
        if is_same && age.as_ns() as f64 * 1e-9 < self.limits.every_s {
            // The value is back: what was to be recorded is older.
            self.counters.thinned += u64::from(known.waiting.take().is_some());
            self.counters.unchanged += 1;
            return;
        }
        let replaced = known.waiting.replace(row).is_some();
        self.counters.thinned += u64::from(replaced);
        self.due.insert(name.clone());
        self.settle_one(&name, at.steady);
    }

    /// Records the waiting value of a name, if its turn has come.
    fn settle_one(&mut self, name: &Arc<str>, steady: Moment) {
        let Some(known) = self.known.get_mut(name) else { return };
        let is_free = known.recorded.is_none() || steady.since(known.recorded_at) >= INTERVAL;
        if known.waiting.is_some() && !is_free {
            return;
        }
        self.due.remove(name);
        if let Some(row) = known.waiting.take() {
            known.recorded = Some(row.clone());
            known.recorded_at = steady;
            self.rows.push(row);
        }
    }

    /// Records the values whose turn has come. Cost: the names that have one waiting.
    pub fn settle(&mut self, steady: Moment) {
        for name in self.due.clone() {
            self.settle_one(&name, steady);
        }
    }

    /// Records all values that wait, at the end of the run.
    pub fn settle_all(&mut self) {
        for name in std::mem::take(&mut self.due) {
            let waiting = self.known.get_mut(&name).and_then(|known| known.waiting.take());
            self.rows.extend(waiting);
        }
    }

    /// Returns the number of rows that are to be written.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Takes the rows that are to be written; the caller counts them.
    pub fn take_rows(&mut self) -> Vec<SlowRow> {
        std::mem::take(&mut self.rows)
    }

    /// Takes the sentences for the user.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Returns the newest number of a name; `None`: it has not been sent.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.known.get(name)?.newest.value {
            SlowValue::Number(number) => Some(number),
            SlowValue::Text(_) => None,
        }
    }

    /// Returns the time of a name's newest arrival, by the monotonic clock.
    pub fn heard(&self, name: &str) -> Option<Moment> {
        Some(self.known.get(name)?.heard)
    }

    /// Returns `counters`, the number of `names`, and `values` of the first `shown` names.
    pub fn document(&self, shown: usize) -> Value {
        let value = |known: &Known| {
            let SlowRow { unit, value, time_ns, arrival_ns, .. } = &known.newest;
            let (number, text) = match value {
                SlowValue::Number(number) => (Some(number), None),
                SlowValue::Text(text) => (None, Some(text)),
            };
            json!({
                "value": number, "text": text, "unit": **unit, "time_ns": time_ns,
                "arrival_ns": arrival_ns,
            })
        };
        let values = self.known.iter().take(shown);
        let values: serde_json::Map<String, Value> =
            values.map(|(name, known)| (name.to_string(), value(known))).collect();
        json!({ "counters": self.counters, "names": self.known.len(), "values": values })
    }
}

/// Returns true when a value has not changed enough to be recorded.
fn is_same(last: &SlowRow, new: &SlowRow, change: f64) -> bool {
    last.unit == new.unit
        && match (&last.value, &new.value) {
            (SlowValue::Number(last), SlowValue::Number(new)) => {
                let apart = (last - new).abs();
                apart < change || apart == 0.0
            }
            (last, new) => last == new,
        }
}
