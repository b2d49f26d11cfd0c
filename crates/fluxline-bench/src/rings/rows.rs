//! The rows of the experiment: name, unit, floor and target of each number.

use crate::result::{Beside, Fact, Target};

/// One row.
pub struct Row {
    /// Its name for programs.
    pub name: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// The unit of value and floor.
    pub unit: &'static str,
    /// The floor beside it; empty: none.
    pub floor: &'static str,
    /// Its target. Source: the limits in docs/benchmarks.md.
    pub target: Option<Target>,
}

const fn row(
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    floor: &'static str,
    target: Option<Target>,
) -> Row {
    Row { name, label, unit, floor, target }
}

const LINES: &str = "two cache lines bounced";
const BARE: &str = "bare ring";
const ACROSS: &str = "core writes, other core reads";
const COPY: &str = "copy in one core's cache";
const POLLED: &str = "polled";
use Target::{Ratio, Value};

/// All rows, in order.
pub const ROWS: &[Row] = &[
    row("trip-8-p50", "8 B, half round trip, p50", "ns", LINES, Some(Ratio(1.05))),
    row("trip-8-p99", "8 B, half round trip, p99", "ns", LINES, None),
    row("trip-8-p99.9", "8 B, half round trip, p99.9", "ns", LINES, None),
    row("trip-64-p50", "64 B, half round trip, p50", "ns", LINES, Some(Ratio(1.1))),
    row("trip-64-p99", "64 B, half round trip, p99", "ns", LINES, None),
    row("trip-64-p99.9", "64 B, half round trip, p99.9", "ns", LINES, None),
    row("trip-4k-p50", "4 KiB, half round trip, p50", "ns", LINES, None),
    row("trip-4k-p99", "4 KiB, half round trip, p99", "ns", LINES, None),
    row("trip-4k-p99.9", "4 KiB, half round trip, p99.9", "ns", LINES, None),
    row("rate-8", "8 B records, delivered and summed", "M/s", BARE, Some(Value(200.0))),
    row("rate-64", "64 B records, delivered and summed", "M/s", BARE, Some(Value(100.0))),
    row("rate-4k", "4 KiB records, delivered and summed", "M/s", ACROSS, None),
    row("rate-64k", "64 KiB records, delivered and summed", "M/s", ACROSS, None),
    row("put-64k", "64 KiB put and notify, untouched", "GB/s", COPY, Some(Ratio(0.8))),
    row("read-64k", "64 KiB put and read in place", "GB/s", ACROSS, Some(Ratio(0.9))),
    row("read-1m", "1 MiB put and read in place", "GB/s", ACROSS, Some(Ratio(0.9))),
    row("wake-ring", "sleeping push ring, half round trip, p50", "ns", "", None),
    row("wake-blocking", "sleeping Shm::wait, half round trip, p50", "ns", "", None),
    row("wake-adaptive", "adaptive Shm::wait, woken within 50 us, p50", "ns", "polled, p50", None),
    row("adaptive-64", "64 B records to an adaptive reader", "M/s", POLLED, None),
    row("idle", "CPU of an idle blocking endpoint", "% of a core", "", Some(Value(1.0))),
    row("checked-8", "8 B records, both ends check each other", "M/s", "without checks", None),
    row("credits-8", "8 B, bare ring with credits", "M/s", "without credits", None),
    row("credits-64", "64 B, bare ring with credits", "M/s", "without credits", None),
];

/// Values and floors of all rounds, by the index of their row.
pub struct Measured(Vec<Samples>);

#[derive(Clone, Default)]
struct Samples {
    values: Vec<f64>,
    floors: Vec<f64>,
}

/// A value, and the floor of the same round where its row has one.
pub struct Sample {
    /// The value.
    pub value: f64,
    /// The floor.
    pub floor: Option<f64>,
}

impl Measured {
    /// Starts without a sample.
    pub fn new() -> Measured {
        Measured(vec![Samples::default(); ROWS.len()])
    }

    /// Adds a sample to a row.
    ///
    /// # Panics
    /// If there is no such row: names are constants of this program.
    pub fn add(&mut self, name: &str, sample: Sample) {
        let index = ROWS.iter().position(|row| row.name == name);
        let index = index.unwrap_or_else(|| unreachable!("the table has no row {name}"));
        assert_eq!(sample.floor.is_some(), !ROWS[index].floor.is_empty(), "floor of {name}");
        self.0[index].values.push(sample.value);
        self.0[index].floors.extend(sample.floor);
    }

    /// Returns a fact for each row that was measured.
    pub fn facts(self) -> Vec<Fact> {
        let measured = ROWS.iter().zip(self.0).filter(|(_, samples)| !samples.values.is_empty());
        let fact = |(row, samples): (&Row, Samples)| Fact {
            name: row.name.to_owned(),
            beside: Beside::of(row.floor, samples.floors),
            target: row.target,
            ..Fact::new(row.label, row.unit, samples.values)
        };
        measured.map(fact).collect()
    }
}

/// Returns the value at a share of the way through sorted times.
pub fn percentile(sorted: &[u64], part: f64) -> f64 {
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |time| *time as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_is_known_by_the_ratio_of_each_round() {
        let mut measured = Measured::new();
        // In the first round another program had a core: value and floor are both slow.
        for (value, floor) in [(900.0, 890.0), (100.0, 99.0), (101.0, 99.5)] {
            measured.add("trip-8-p50", Sample { value, floor: Some(floor) });
        }
        let facts = measured.facts();
        assert_eq!(facts.len(), 1, "rows without a sample are left out");
        assert!(facts[0].ratio().is_some_and(|ratio| (1.0..1.02).contains(&ratio)), "{facts:?}");
        assert_eq!(facts[0].meets_target(), Some(true));
    }

    #[test]
    fn no_two_rows_have_one_name() {
        let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn percentiles_are_of_sorted_values() {
        assert_eq!(percentile(&[1, 2, 3, 4], 0.5), 3.0);
        assert_eq!(percentile(&[1, 2], 0.999), 2.0);
    }
}
