//! What is measured, row by row, with its unit, floor and target; and how the rows look.

use serde_json::{Value, json};

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

/// What a row should reach. Source: the limits in docs/benchmarks.md.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// Nothing was promised.
    None,
    /// Of the ratio to the floor.
    Ratio(f64),
    /// Of the value.
    Value(f64),
}

/// One kind of measurement.
pub struct Kind {
    /// For programs.
    pub name: &'static str,
    /// For people.
    pub what: &'static str,
    /// Of value and floor.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// What it is compared with; empty: nothing.
    pub floor: &'static str,
    /// What it should reach.
    pub target: Target,
}

const fn lower(
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    floor: &'static str,
    target: Target,
) -> Kind {
    Kind { name, what, unit, better: Better::Lower, floor, target }
}

const fn higher(
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    floor: &'static str,
    target: Target,
) -> Kind {
    Kind { name, what, unit, better: Better::Higher, floor, target }
}

const LINES: &str = "two cache lines bounced, same percentile";
const BARE: &str = "bare ring";
const ACROSS: &str = "written by one core, read by the other: the slower";
const COPY: &str = "copy in one core's cache";
const POLLED: &str = "polled";
use Target::{None as Open, Ratio, Value as Reach};

/// All rows of `fluxline bench shm://`, in order.
pub const SHM: &[Kind] = &[
    lower("trip-8-p50", "8 B, half round trip, p50", "ns", LINES, Ratio(1.05)),
    lower("trip-8-p99", "8 B, half round trip, p99", "ns", LINES, Open),
    lower("trip-8-p99.9", "8 B, half round trip, p99.9", "ns", LINES, Open),
    lower("trip-64-p50", "64 B, half round trip, p50", "ns", LINES, Ratio(1.1)),
    lower("trip-64-p99", "64 B, half round trip, p99", "ns", LINES, Open),
    lower("trip-64-p99.9", "64 B, half round trip, p99.9", "ns", LINES, Open),
    lower("trip-4k-p50", "4 KiB, half round trip, p50", "ns", LINES, Open),
    lower("trip-4k-p99", "4 KiB, half round trip, p99", "ns", LINES, Open),
    lower("trip-4k-p99.9", "4 KiB, half round trip, p99.9", "ns", LINES, Open),
    higher("rate-8", "8 B records, delivered and summed", "M/s", BARE, Reach(200.0)),
    higher("rate-64", "64 B records, delivered and summed", "M/s", BARE, Reach(100.0)),
    higher("rate-4k", "4 KiB records, delivered and summed", "M/s", ACROSS, Open),
    higher("rate-64k", "64 KiB records, delivered and summed", "M/s", ACROSS, Open),
    higher("put-64k", "64 KiB put and notify, untouched", "GB/s", COPY, Ratio(0.8)),
    higher("read-64k", "64 KiB put and read in place", "GB/s", ACROSS, Ratio(0.9)),
    higher("read-1m", "1 MiB put and read in place", "GB/s", ACROSS, Ratio(0.9)),
    lower("wake-ring", "sleeping push ring, half round trip, p50", "ns", "", Open),
    lower("wake-blocking", "sleeping Shm::wait, half round trip, p50", "ns", "", Open),
    lower("wake-adaptive", "adaptive Shm::wait, within 50 us, p50", "ns", "polled, p50", Open),
    higher("adaptive-64", "64 B records to an adaptive reader", "M/s", POLLED, Open),
    lower("idle", "CPU of an idle blocking endpoint, 1 s", "% of a core", "", Reach(1.0)),
    higher("checked-8", "8 B records, both look for the other's life", "M/s", "not looking", Open),
    higher("credits-8", "8 B, bare ring with credits", "M/s", "without credits", Open),
    higher("credits-64", "64 B, bare ring with credits", "M/s", "without credits", Open),
];

/// Values and floors of all rounds, by the place of their kind.
pub struct Rows {
    kinds: &'static [Kind],
    measured: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Rows {
    /// Nothing measured yet.
    pub fn new(kinds: &'static [Kind]) -> Rows {
        Rows { kinds, measured: kinds.iter().map(|_| Default::default()).collect() }
    }

    /// A value, with the floor of the same round where the kind has one.
    ///
    /// # Panics
    /// When there is no such kind: names are constants of this program.
    pub fn add(&mut self, name: &str, value: f64, floor: Option<f64>) {
        let place = self.kinds.iter().position(|kind| kind.name == name);
        let place = place.unwrap_or_else(|| unreachable!("the table has no row {name}"));
        assert_eq!(floor.is_some(), !self.kinds[place].floor.is_empty(), "floor of {name}");
        self.measured[place].0.push(value);
        self.measured[place].1.extend(floor);
    }

    fn results(&self) -> impl Iterator<Item = Row<'_>> {
        self.kinds.iter().zip(&self.measured).map(|(kind, (values, floors))| {
            let ratios: Vec<f64> = values.iter().zip(floors).map(|(v, f)| v / f).collect();
            let (value, floor, ratio) = (median(values), median(floors), median(&ratios));
            Row { kind, values, value: value.unwrap_or(f64::NAN), floor, ratio }
        })
    }

    /// As lines that line up.
    pub fn lines(&self) -> Vec<String> {
        let rows: Vec<Row<'_>> = self.results().collect();
        let names = rows.iter().map(|row| row.kind.what.chars().count()).max().unwrap_or(0);
        let units = rows.iter().map(|row| row.kind.unit.len()).max().unwrap_or(0);
        let floors = rows.iter().map(|row| row.kind.floor.chars().count()).max().unwrap_or(0);
        let head = ["median", "unit", "floor", "ratio", "which floor", "target"];
        let mut lines = vec![format!(
            "{:<names$}  {:>9}  {:<units$}  {:>9}  {:>6}  {:<floors$}  {}",
            "", head[0], head[1], head[2], head[3], head[4], head[5]
        )];
        for row in &rows {
            let optional = |value: Option<f64>, digits| {
                value.map_or_else(String::new, |value| format!("{value:.digits$}"))
            };
            let floor = row.floor.map_or_else(String::new, short);
            lines.push(format!(
                "{:<names$}  {:>9}  {:<units$}  {floor:>9}  {:>6}  {:<floors$}  {}",
                row.kind.what,
                short(row.value),
                row.kind.unit,
                optional(row.ratio, 2),
                row.kind.floor,
                row.target(),
            ));
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// For programs; rows that were not come to are left out.
    pub fn documents(&self) -> Vec<Value> {
        let word = |better| if better == Better::Lower { "lower" } else { "higher" };
        self.results()
            .filter(|row| !row.values.is_empty())
            .map(|row| {
                let Kind { name, what, unit, better, floor, target } = row.kind;
                let (of, limit) = match *target {
                    Open => (Value::Null, Value::Null),
                    Ratio(limit) => ("ratio".into(), limit.into()),
                    Reach(limit) => ("value".into(), limit.into()),
                };
                json!({
                    "name": name, "what": what, "unit": unit, "better": word(*better),
                    "value": row.value, "values": row.values, "floor": row.floor,
                    "floor_is": (!floor.is_empty()).then_some(floor), "ratio": row.ratio,
                    "target": limit, "target_of": of, "meets_target": row.meets(),
                })
            })
            .collect()
    }
}

struct Row<'a> {
    kind: &'static Kind,
    values: &'a [f64],
    value: f64,
    floor: Option<f64>,
    ratio: Option<f64>,
}

impl Row<'_> {
    /// Whether it reaches its target; `None`: it has none.
    fn meets(&self) -> Option<bool> {
        let (reached, limit) = match self.kind.target {
            Open => return None,
            Ratio(limit) => (self.ratio?, limit),
            Reach(limit) => (self.value, limit),
        };
        Some(match self.kind.better {
            Better::Lower => reached <= limit,
            Better::Higher => reached >= limit,
        })
    }

    fn target(&self) -> String {
        let word = if self.kind.better == Better::Lower { "at most" } else { "at least" };
        let missed = if self.meets() == Some(false) { ": missed" } else { "" };
        match self.kind.target {
            Open => String::new(),
            Ratio(limit) => format!("ratio {word} {limit}{missed}"),
            Reach(limit) => format!("{word} {limit} {}{missed}", self.kind.unit),
        }
    }
}

/// Three digits or more.
pub fn short(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// The middle of some values; `None`: there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// A share of the way through sorted times.
pub fn percentile(sorted: &[u64], part: f64) -> f64 {
    let place = (sorted.len() as f64 * part) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).map_or(f64::NAN, |time| *time as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_missed_target_is_said() {
        let mut rows = Rows::new(SHM);
        for kind in SHM {
            rows.add(kind.name, 1.0, (!kind.floor.is_empty()).then_some(0.5));
        }
        let lines = rows.lines();
        assert_eq!(lines.len(), SHM.len() + 1);
        let column = |line: &str, word: &str| line.find(word).map(|at| line[..at].chars().count());
        let units = column(&lines[0], "unit").expect("a head");
        for (line, kind) in lines[1..].iter().zip(SHM) {
            assert_eq!(column(&line[40..], kind.unit).map(|at| at + 40), Some(units), "{line}");
        }
        assert!(lines[1].ends_with("ratio at most 1.05: missed"), "{}", lines[1]);
        assert_eq!(rows.documents()[0]["meets_target"], false);
    }

    #[test]
    fn rows_that_were_not_come_to_are_left_out_and_not_numbers_that_are_none() {
        let mut rows = Rows::new(SHM);
        assert!(rows.documents().is_empty());
        rows.add("idle", 0.5, None);
        let documents = rows.documents();
        assert_eq!((documents.len(), &documents[0]["name"]), (1, &json!("idle")));
    }

    #[test]
    fn no_two_rows_have_one_name() {
        let names: std::collections::BTreeSet<_> = SHM.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), SHM.len());
    }

    #[test]
    fn medians_and_percentiles_are_of_sorted_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
        assert_eq!(percentile(&[1, 2, 3, 4], 0.5), 3.0);
        assert_eq!(percentile(&[1, 2], 0.999), 2.0);
    }
}
