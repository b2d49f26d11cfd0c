//! Datagrams one way, unpaced or at a rate: those sent and those that arrive. Also the search of
//! the highest loss-free rate, the same for every contender.

use super::contender::{Cell, NoNumber, Number};
use crate::datagrams::search::{Search, SearchPlan, Verdict};

/// The largest number of trials of a search, by ours and by peers. Assumed: peers send for a whole
/// second.
const TRIALS_MAX: u32 = 16;
/// The resolution of a loss-free rate, as a share of it.
const RESOLUTION: f64 = 0.05;
/// Clean trials in a row that make a result.
const CONFIRMATIONS: u32 = 2;
/// A trial at a rate counts when the sender reached this share of it. (assumed)
const KEPT: f64 = 0.95;

/// The counts of a flow of datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub arrived: u64,
    /// The time of sending \[s\].
    pub seconds: f64,
}

impl Flow {
    /// Returns the rate that arrived, and the share that was lost.
    #[must_use]
    pub fn number(&self, cell: &Cell) -> Number {
        let lost = self.sent.saturating_sub(self.arrived) as f64 * 100.0;
        Number {
            value: cell.gigabits(self.arrived as f64 / self.seconds.max(1e-9)),
            lost: Some(lost / self.sent.max(1) as f64),
        }
    }

    fn verdict(&self, rate: f64) -> Verdict {
        if self.arrived < self.sent {
            Verdict::Lost
        } else if (self.sent as f64) < KEPT * rate * self.seconds {
            Verdict::Slow
        } else {
            Verdict::Clean
        }
    }
}

/// Searches the highest loss-free rate; `trial` sends at a rate \[1/s\], or as fast as possible.
///
/// Errors: those of a trial, or a sender that sends nothing.
pub fn loss_free(
    cell: &Cell,
    mut trial: impl FnMut(Option<f64>) -> Result<Flow, NoNumber>,
) -> Result<Number, NoNumber> {
    let unpaced = trial(None)?;
    let ceiling = unpaced.sent as f64 / unpaced.seconds.max(1e-9);
    let mut search = Search::new(SearchPlan {
        ceiling,
        // The rate of an unpaced trial is close to the receiver's limit.
        first: unpaced.arrived as f64 / unpaced.seconds.max(1e-9) * 0.9,
        resolution: RESOLUTION,
        confirmations: CONFIRMATIONS,
        trials_max: TRIALS_MAX,
    });
    while let Some(rate) = search.next() {
        search.record(trial(Some(rate))?.verdict(rate));
    }
    let found = search.found();
    if found.rate <= 0.0 {
        return Err(NoNumber::Failed(format!("loses datagrams at {ceiling:.0}/512 a second")));
    }
    Ok(cell.gigabits(found.rate).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::contender::{Path, Quantity};

    const CELL: Cell = Cell { quantity: Quantity::LossFree, path: Path::Udp, bytes: 1472 };

    /// A receiver with a limit \[1/s\].
    fn receiver(most: f64, sender: f64) -> impl FnMut(Option<f64>) -> Result<Flow, NoNumber> {
        move |rate| {
            let sent = rate.unwrap_or(sender).min(sender);
            let (sent, arrived) = (sent as u64, sent.min(most) as u64);
            Ok(Flow { sent, arrived, seconds: 1.0 })
        }
    }

    #[test]
    fn the_rate_that_a_receiver_takes_is_found_within_the_resolution() {
        for most in [50_000.0, 333_333.0, 900_000.0] {
            let found = loss_free(&CELL, receiver(most, 1e6)).expect("some rate").value;
            let true_value = CELL.gigabits(most);
            assert!((0.9..=1.0).contains(&(found / true_value)), "{found} of {true_value}");
        }
    }

    #[test]
    fn who_always_loses_has_no_rate_and_the_search_ends() {
        let mut trials = 0;
        let found = loss_free(&CELL, |rate| {
            trials += 1;
            let sent = rate.unwrap_or(1e6) as u64 + 1;
            Ok(Flow { sent, arrived: sent - 1, seconds: 1.0 })
        });
        assert!(matches!(found, Err(NoNumber::Failed(_))));
        assert!(trials <= TRIALS_MAX + 1);
    }

    #[test]
    fn loss_is_a_share_of_what_was_sent_and_warm_up_datagrams_are_no_gain() {
        let flow = Flow { sent: 1000, arrived: 250, seconds: 0.5 };
        let number = flow.number(&CELL);
        assert_eq!(number.lost, Some(75.0));
        assert!((number.value - 500.0 * 1472.0 * 8e-9).abs() < 1e-12);
        let more = Flow { arrived: 1010, ..flow };
        assert_eq!(more.number(&CELL).lost, Some(0.0));
    }
}
