//! What contenders reached, side by side.

use serde_json::{Value, json};

use super::super::rows::{median, short};
use super::{Contender, QUANTITIES, Quantity, SIZE_NAMES, SIZES};

/// All rows; ours is the first.
pub struct Table(Vec<Row>);

/// One contender and its numbers.
pub struct Row {
    /// Who.
    pub contender: Contender,
    /// By quantity and size: values of all rounds.
    values: [[Vec<f64>; SIZES.len()]; 2],
    notes: Vec<String>,
}

impl Row {
    /// A value: nanoseconds, or messages per second.
    pub fn add(&mut self, quantity: Quantity, size: usize, value: f64) {
        self.values[quantity as usize][size].push(value);
    }

    /// Why there is none.
    pub fn note(&mut self, why: String) {
        if !self.notes.contains(&why) {
            self.notes.push(why);
        }
    }

    /// The median, in ns or M/s.
    fn value(&self, quantity: Quantity, size: usize) -> Option<f64> {
        let scale = if quantity == Quantity::Rate { 1e-6 } else { 1.0 };
        median(&self.values[quantity as usize][size]).map(|value| value * scale)
    }

    fn cells(&self, quantity: Quantity) -> [Option<f64>; SIZES.len()] {
        std::array::from_fn(|size| self.value(quantity, size))
    }
}

impl Table {
    /// Nothing measured yet.
    pub fn new(contenders: Vec<Contender>) -> Table {
        let row = |contender| Row { contender, values: Default::default(), notes: Vec::new() };
        Table(contenders.into_iter().map(row).collect())
    }

    /// Those that can be measured, and those that cannot.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.0.iter_mut()
    }

    /// The best peer of equal work, and what it reached.
    fn best(&self, quantity: Quantity, size: usize) -> Option<(&'static str, f64)> {
        let peers = self.0.iter().filter(|row| !row.contender.is_ours() && row.contender.is_equal);
        let values = peers.filter_map(|row| Some((row.contender.name, row.value(quantity, size)?)));
        let by_value = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        match quantity {
            Quantity::Trip => values.min_by(by_value),
            Quantity::Rate => values.max_by(by_value),
        }
    }

    /// Ours to the best peer's.
    fn ratio(&self, quantity: Quantity, size: usize) -> Option<(f64, &'static str)> {
        let (name, best) = self.best(quantity, size)?;
        Some((self.0.first()?.value(quantity, size)? / best, name))
    }

    /// As lines that line up.
    pub fn lines(&self) -> Vec<String> {
        let names = self.0.iter().map(|row| row.contender.name.len()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for quantity in QUANTITIES {
            let what = match quantity {
                Quantity::Trip => "half round trip [ns]",
                Quantity::Rate => "messages [M/s]",
            };
            let heads: String = SIZE_NAMES.iter().map(|size| format!("  {size:>9}")).collect();
            lines.push(format!("{what:<names$}{heads}"));
            for row in self.0.iter().filter(|row| row.contender.absent.is_none()) {
                let cells: String = row
                    .cells(quantity)
                    .iter()
                    .map(|value| format!("  {:>9}", value.map_or("-".to_owned(), short)))
                    .collect();
                lines.push(format!("{:<names$}{cells}", row.contender.name));
            }
            let ratios: Vec<_> = (0..SIZES.len()).map(|size| self.ratio(quantity, size)).collect();
            let cell = |ratio: &Option<(f64, &str)>| {
                ratio.map_or("-".to_owned(), |(ratio, _)| format!("{ratio:.2}"))
            };
            let cells: String =
                ratios.iter().map(|ratio| format!("  {:>9}", cell(ratio))).collect();
            lines.push(format!("{:<names$}{cells}", "fluxline / best peer"));
            let best: Vec<&str> = ratios.iter().flatten().map(|ratio| ratio.1).collect();
            lines.push(format!("{:<names$}  {}", "best peer", best.join(", ")));
            lines.push(String::new());
        }
        for row in &self.0 {
            let why = row.contender.absent.iter().chain(&row.notes);
            lines.extend(why.map(|why| format!("{}: {why}", row.contender.name)));
        }
        lines
    }

    /// For programs.
    pub fn document(&self) -> Value {
        let rows: Vec<Value> = self
            .0
            .iter()
            .map(|row| {
                json!({
                    "name": row.contender.name, "absent": row.contender.absent,
                    "equal_work": row.contender.is_equal, "notes": row.notes,
                    "half_round_trip_ns": row.cells(Quantity::Trip),
                    "messages_millions_per_s": row.cells(Quantity::Rate),
                })
            })
            .collect();
        let ratios = |quantity| -> Vec<Option<f64>> {
            (0..SIZES.len()).map(|size| Some(self.ratio(quantity, size)?.0)).collect()
        };
        json!({
            "sizes": SIZES, "rows": rows,
            "ratio_half_round_trip": ratios(Quantity::Trip),
            "ratio_messages": ratios(Quantity::Rate),
        })
    }
}
