//! Other libraries beside ours: the same work, the same cores, the same rounds, in turns.
//!
//! Equal work: each side sends from a buffer of its own and gets what the other sent into memory
//! where it can read it; nobody reads it. Puts without a notification are shown and not compared.

mod contender;
mod process;
mod scratch;
mod table;

use std::time::Duration;

use super::{BenchError, Plan};
use crate::run::Stop;

pub use contender::{Contender, all};
pub use table::Table;

/// Sizes of messages \[byte\].
pub const SIZES: [usize; 4] = [8, 64, 4 << 10, 1 << 20];
/// As people write them.
pub const SIZE_NAMES: [&str; 4] = ["8 B", "64 B", "4 KiB", "1 MiB"];
/// How long a peer may take for one cell.
const LIMIT: Duration = Duration::from_secs(60);

/// What is measured of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Half a round trip \[ns\].
    Trip,
    /// Messages per second.
    Rate,
}

/// Both.
pub const QUANTITIES: [Quantity; 2] = [Quantity::Trip, Quantity::Rate];

/// One thing to measure.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// What.
    pub quantity: Quantity,
    /// Of messages of so many bytes.
    pub bytes: usize,
    /// How many messages.
    pub count: u64,
}

/// Why a contender has no number.
#[derive(Debug)]
pub enum NoNumber {
    /// It does not measure this.
    NotOffered,
    /// It failed, in a few words.
    Failed(String),
    /// The benchmark is over.
    Over(BenchError),
}

impl From<BenchError> for NoNumber {
    fn from(error: BenchError) -> NoNumber {
        match error {
            BenchError::Interrupted => NoNumber::Over(error),
            error => NoNumber::Failed(error.to_string()),
        }
    }
}

/// Measures all cells of all contenders; `step` is called with what is being done.
pub fn measure(
    plan: &Plan,
    stop: &Stop,
    contenders: Vec<Contender>,
    step: impl Fn(&str),
) -> Result<Table, BenchError> {
    let mut table = Table::new(contenders);
    for _ in 0..plan.rounds {
        for quantity in QUANTITIES {
            for (place, bytes) in SIZES.into_iter().enumerate() {
                let cell = Cell { quantity, bytes, count: count(quantity, bytes, plan) };
                for row in table.rows_mut() {
                    step(&format!("{}, {}", row.contender.name, SIZE_NAMES[place]));
                    match row.contender.measure(cell, plan.cores, stop) {
                        Ok(value) => row.add(quantity, place, value),
                        Err(NoNumber::NotOffered) => {}
                        Err(NoNumber::Failed(why)) => row.note(why),
                        Err(NoNumber::Over(error)) => return Err(error),
                    }
                }
            }
        }
    }
    Ok(table)
}

/// How often `measure` calls its `step` in a round with so many contenders.
pub fn steps(contenders: usize) -> u64 {
    (contenders * QUANTITIES.len() * SIZES.len()) as u64
}

fn count(quantity: Quantity, bytes: usize, plan: &Plan) -> u64 {
    plan.part(match (quantity, bytes) {
        (Quantity::Trip, ..=64) => 20_000,
        (Quantity::Trip, ..=4096) => 10_000,
        (Quantity::Trip, _) => 1000,
        (Quantity::Rate, ..=64) => 1_000_000,
        (Quantity::Rate, ..=4096) => 200_000,
        (Quantity::Rate, _) => 2000,
    })
}
