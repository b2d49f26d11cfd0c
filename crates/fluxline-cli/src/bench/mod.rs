//! `fluxline bench`: what a link reaches on this machine, beside what the machine can do at all.
//!
//! Two processes on two cores: this one measures, and starts itself once more as the other, which
//! does what it is ordered to ([`order`]). Floors are measured in the same rounds, while the other
//! process is not there: it spins, and would take the second core from them. Medians over rounds.

mod bare;
mod error;
mod floors;
mod node;
mod order;
mod other;
mod pair;
pub mod peers;
mod rows;
mod shm;
mod watch;

use fluxline::pin;

pub use error::BenchError;
pub use other::work;
pub use rows::{Rows, SHM};
pub use shm::{STEPS, measure};

/// Records between two publications.
const BATCH: u64 = 32;
/// A rate is the median over so many bursts of about a millisecond: on a machine that others use
/// too, a longer one contains the moments when one of the two processes does not run.
const BURSTS: u64 = 50;

/// What to measure how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The core of the process that measures, and the other's.
    pub cores: [usize; 2],
    /// How often everything is measured.
    pub rounds: u32,
    /// How much is measured in a round: a share of all.
    pub share: f64,
}

impl Plan {
    /// On the first two cores that this process may use.
    pub fn new(rounds: u32, share: f64) -> Result<Plan, BenchError> {
        match pin::allowed_cores().as_slice() {
            [first, second, ..] => Ok(Plan { cores: [*first, *second], rounds, share }),
            allowed => Err(BenchError::Cores { allowed: allowed.to_vec() }),
        }
    }

    /// So much of a number, at least 100.
    fn part(&self, of: u64) -> u64 {
        ((of as f64 * self.share) as u64).max(100)
    }
}
