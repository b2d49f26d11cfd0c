//! The requirements of an experiment, compared with the measurements of a run.
//!
//! A run decides only what it measured. The rest is undecided, with the reason.

use fluxline_daq::experiment::{Experiment, Requirements};
use fluxline_daq::ledger::{Ledger, SourceEntry};
use serde::Serialize;
use serde_json::{Value, json};

use crate::sample::Delays;

/// The share of a rate from which it is met: the times of the first and the last packet are
/// uncertain.
const RATE_SHARE: f64 = 0.99;
/// The chance that a limit of the loss is wrong.
const LOSS_CHANCE: f64 = 0.05;

/// The answer to a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Met {
    /// It is met.
    Met,
    /// It is missed.
    Missed,
    /// The measurements do not decide it.
    Undecided,
}

impl Met {
    /// Returns the word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Met::Met => "met",
            Met::Missed => "missed",
            Met::Undecided => "undecided",
        }
    }
}

/// A requirement and its measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Its key below `[requirements]`.
    pub name: &'static str,
    /// The required number.
    pub required: f64,
    /// The unit of the numbers; empty: a count or a share.
    pub unit: &'static str,
    /// The smallest and the largest value that the measurements allow; `None`: not measured.
    pub between: Option<[f64; 2]>,
    /// The answer.
    pub verdict: Met,
    /// The distance from the required number to the worse end of `between`, as a share of the
    /// required number; below 0: beyond it.
    pub margin: Option<f64>,
    /// The measurement in words, or the reason why there is none.
    pub words: String,
}

/// The side of the required number on which a measurement must be.
#[derive(Clone, Copy)]
enum Side {
    AtLeast,
    /// [`RATE_SHARE`] of the required number is enough.
    Almost,
    AtMost,
}

/// A measurement: the least and the largest value that it allows.
struct Measured {
    between: Option<[f64; 2]>,
    words: String,
}

impl Measured {
    fn exactly(value: f64, words: String) -> Measured {
        Measured { between: Some([value, value]), words }
    }

    fn nothing(words: &str) -> Measured {
        Measured { between: None, words: words.to_owned() }
    }
}

impl Checked {
    fn of(
        name: &'static str,
        unit: &'static str,
        required: f64,
        side: Side,
        measured: Measured,
    ) -> Checked {
        let Measured { between, words } = measured;
        // The worse and the better end.
        let ends = between.map(|[low, high]| match side {
            Side::AtLeast | Side::Almost => [low, high],
            Side::AtMost => [high, low],
        });
        let keeps = |value: f64| match side {
            Side::AtLeast => value >= required,
            Side::Almost => value >= required * RATE_SHARE,
            Side::AtMost => value <= required,
        };
        let verdict = match ends {
            Some([worse, _]) if keeps(worse) => Met::Met,
            Some([_, better]) if !keeps(better) => Met::Missed,
            _ => Met::Undecided,
        };
        let margin = ends.filter(|[worse, _]| required > 0.0 && worse.is_finite());
        let margin = margin.map(|[worse, _]| match side {
            Side::AtLeast | Side::Almost => worse / required - 1.0,
            Side::AtMost => 1.0 - worse / required,
        });
        Checked { name, required, unit, between, verdict, margin, words }
    }

    /// Returns it for run.json, with its line.
    pub(crate) fn document(&self) -> Value {
        let mut document = json!(self);
        document["line"] = self.line().into();
        document
    }

    /// Returns a line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let Checked { name, required, verdict, margin, words, .. } = self;
        let margin = margin.map_or(String::new(), |of| format!(", margin {:+.1} %", of * 100.0));
        format!("requirement {name} = {required}: {}{margin} ({words})", verdict.word())
    }
}

/// Compares the requirements of an experiment with the measurements of its run: its ledger, the
/// delays of its events, and the longest way to a readout, where that was measured \[ns\].
pub(crate) fn check(
    experiment: &Experiment,
    ledger: &Ledger,
    delays: Option<Delays>,
    longest_ns: Option<u64>,
) -> Vec<Checked> {
    let Some(of) = &experiment.requirements else { return Vec::new() };
    let mut checked = of_packets(of, ledger);
    if let Some(required) = of.cycle_bytes {
        let measured = cycle(ledger);
        checked.push(Checked::of("cycle-bytes", "B", required, Side::AtLeast, measured));
    }
    if let Some(required) = of.latency_us {
        let record = &experiment.record;
        let batch_us = if record.enabled { record.batch_ms as f64 * 1e3 } else { 0.0 };
        let measured = latency(of.latency_percent, delays, longest_ns, batch_us);
        checked.push(Checked::of("latency-us", "us", required, Side::AtMost, measured));
    }
    if let Some(required) = of.loss_max {
        let measured = loss(ledger);
        checked.push(Checked::of("loss-max", "", required, Side::AtMost, measured));
    }
    checked
}

/// Compares the number of sensors, and the rate and size of their packets.
fn of_packets(of: &Requirements, ledger: &Ledger) -> Vec<Checked> {
    let mut checked = Vec::new();
    if let Some(required) = of.sensors {
        let came = ledger.sources.len() as f64;
        let measured = Measured::exactly(came, format!("{came} sent"));
        let required = f64::from(required);
        checked.push(Checked::of("sensors", "", required, Side::AtLeast, measured));
    }
    if let Some(required) = of.rate_hz {
        let rates: Option<Vec<f64>> = ledger.sources.iter().map(rate).collect();
        let slowest = rates.and_then(|rates| rates.into_iter().reduce(f64::min));
        let measured = match slowest {
            Some(hz) => {
                Measured::exactly(hz, format!("the slowest sensor sent {hz:.1} packets a second"))
            }
            None => Measured::nothing("a sensor sent fewer than two packets"),
        };
        checked.push(Checked::of("rate-hz", "1/s", required, Side::Almost, measured));
    }
    if let Some(required) = of.packet_bytes {
        let totals = ledger.source_totals();
        let measured = match totals.parsed {
            0 => Measured::nothing("no packet came"),
            packets => {
                let mean = totals.bytes_parsed as f64 / packets as f64;
                Measured::exactly(mean, format!("{mean:.1} B in the mean"))
            }
        };
        checked.push(Checked::of("packet-bytes", "B", required, Side::AtLeast, measured));
    }
    checked
}

/// Returns the packets a second of a source, those included that were lost on the way.
fn rate(source: &SourceEntry) -> Option<f64> {
    let packets = source.counters.parsed + source.counters.lost;
    let ns = source.last_time_ns.saturating_sub(source.first_time_ns);
    (packets >= 2 && ns > 0).then(|| (packets - 1) as f64 / (ns as f64 * 1e-9))
}

fn cycle(ledger: &Ledger) -> Measured {
    match ledger.events() {
        0 => Measured::nothing("no event closed"),
        events => {
            let mean = ledger.source_totals().bytes_parsed as f64 / events as f64;
            Measured::exactly(mean, format!("{mean:.1} B an event in the mean"))
        }
    }
}

/// Returns the time from sampling to storing: at least the delay of building, at most that with
/// the longest way to the readout and the age of a batch.
fn latency(
    percent: f64,
    delays: Option<Delays>,
    longest_ns: Option<u64>,
    batch_us: f64,
) -> Measured {
    let Some(delays) = delays.filter(|of| of.events > 0) else {
        return Measured::nothing("packets of files have times of another day, or no event closed");
    };
    let built = delays.at_percent(percent) as f64 / 1e3;
    let words = format!(
        "{percent} % of the events were built {built:.1} us after their last packet came, and wait \
         up to {batch_us} us for their batch"
    );
    match longest_ns {
        Some(ns) => {
            let way = ns as f64 / 1e3;
            let words =
                format!("{words}; the longest way to a readout took {way:.1} us; no disk here");
            Measured { between: Some([built, way + built + batch_us]), words }
        }
        None => Measured {
            between: Some([built, f64::INFINITY]),
            words: format!("{words}; the way from the sensor and the disk were not measured"),
        },
    }
}

fn loss(ledger: &Ledger) -> Measured {
    let totals = ledger.source_totals();
    let lost = totals.lost;
    let numbered = ledger.sources.iter().all(|source| source.first_sequence.is_some());
    let packets = totals.parsed + lost;
    if packets == 0 || !numbered {
        return Measured::nothing("a source has no packet counter, or sent nothing");
    }
    let packets_f = packets as f64;
    let (low, high) = (loss_below(lost) / packets_f, loss_above(lost) / packets_f);
    let words = match lost {
        0 => format!("0 of {packets} lost: below {high:.1e} at 95 %"),
        lost => format!("{lost} of {packets} lost: {low:.1e} to {high:.1e} at 95 %"),
    };
    Measured { between: Some([low, high]), words }
}

/// Returns the mean number of losses above which a count of `lost` or fewer has a chance of 5 %.
///
/// The exact limit of a Poisson count: 3.0 for none.
#[must_use]
pub fn loss_above(lost: u64) -> f64 {
    limit(lost, |mean| at_most(lost, mean) < LOSS_CHANCE)
}

/// Returns the mean number of losses below which a count of `lost` or more has a chance of 5 %.
fn loss_below(lost: u64) -> f64 {
    match lost {
        0 => 0.0,
        lost => limit(lost, |mean| 1.0 - at_most(lost - 1, mean) > LOSS_CHANCE),
    }
}

/// Returns the smallest mean for which a statement is true that is true for all larger ones.
fn limit(count: u64, is_true: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 2.0 * count as f64 + 20.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_true(middle) { high = middle } else { low = middle }
    }
    high
}

/// Returns the chance of `count` or fewer events of a Poisson process; large counts by the cube
/// root that is almost normal (Wilson and Hilferty, 1931).
fn at_most(count: u64, mean: f64) -> f64 {
    if count > 500 {
        let n = count as f64 + 1.0;
        let z = 3.0 * n.sqrt() * (1.0 - 1.0 / (9.0 * n) - (mean / n).cbrt());
        return normal_below(z);
    }
    let mut term = (-mean).exp();
    let mut sum = term;
    for k in 1..=count {
        term *= mean / k as f64;
        sum += term;
    }
    sum
}

/// Returns the chance that a normal value is below `z`. Source: Abramowitz and Stegun, 26.2.17,
/// with an error below 7.5e-8.
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let factors = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = factors.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use fluxline_daq::ledger::SourceCounters;

    use super::*;

    fn ledger(parsed: u64, lost: u64) -> Ledger {
        let source = SourceEntry {
            first_time_ns: 1_000_000_000,
            last_time_ns: 2_000_000_000,
            first_sequence: Some(0),
            counters: SourceCounters {
                parsed,
                lost,
                bytes_parsed: parsed * 100,
                ..Default::default()
            },
            ..SourceEntry::default()
        };
        Ledger { sources: vec![source], ..Ledger::default() }
    }

    fn loss_verdict(parsed: u64, lost: u64, allowed: f64) -> Met {
        Checked::of("loss-max", "", allowed, Side::AtMost, loss(&ledger(parsed, lost))).verdict
    }

    #[test]
    fn loss_that_too_few_packets_can_show_is_undecided() {
        // The rule of three: none of 20,000 is below 1.5e-4 at 95 %.
        assert_eq!(loss_verdict(20_000, 0, 1.6e-4), Met::Met);
        assert_eq!(loss_verdict(20_000, 0, 1.4e-4), Met::Undecided);
        assert_eq!(loss_verdict(20_000, 0, 0.0), Met::Undecided);
        assert_eq!(loss_verdict(20_000, 100, 1e-3), Met::Missed);
        assert_eq!(loss_verdict(20_000, 20, 1e-3), Met::Undecided);
        assert!(loss(&ledger(20_000, 0)).words.contains("0 of 20000 lost: below 1.5e-4 at 95 %"));
    }

    #[test]
    fn limits_of_counts_are_those_of_printed_tables() {
        // Source: tables of one-sided 95 % limits of a Poisson mean (Garwood).
        for (lost, low, high) in [(0, 0.0, 2.996), (1, 0.0513, 4.744), (10, 5.425, 16.962)] {
            assert!((loss_below(lost) - low).abs() < 2e-3, "{lost}: {}", loss_below(lost));
            assert!((loss_above(lost) - high).abs() < 2e-3, "{lost}: {}", loss_above(lost));
        }
        // Both methods agree where one takes over.
        assert!((loss_above(501) - loss_above(500) - 1.04).abs() < 0.05);
    }

    #[test]
    fn rates_count_lost_packets_and_are_met_from_99_percent_on() {
        let of = |hz| Requirements { rate_hz: Some(hz), ..Requirements::default() };
        let verdict = |hz| of_packets(&of(hz), &ledger(901, 100))[0].verdict;
        assert_eq!(verdict(1000.0), Met::Met);
        assert_eq!(verdict(1009.0), Met::Met);
        assert_eq!(verdict(1020.0), Met::Missed);
    }

    #[test]
    fn latency_is_met_only_where_the_whole_way_was_measured() {
        let delays = Delays { events: 9, p99_ns: 5_000_000, ..Delays::default() };
        let verdict = |way, required| {
            let measured = latency(99.0, Some(delays), way, 1000.0);
            Checked::of("latency-us", "us", required, Side::AtMost, measured).verdict
        };
        assert_eq!(verdict(Some(100_000), 6_101.0), Met::Met);
        assert_eq!(verdict(Some(100_000), 6_099.0), Met::Undecided);
        assert_eq!(verdict(None, 1e9), Met::Undecided);
        assert_eq!(verdict(None, 4_999.0), Met::Missed);
    }
}
