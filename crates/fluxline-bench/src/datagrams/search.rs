//! The highest rate without loss, by bisection, then confirmed.
//!
//! Pure: it proposes a rate, and the caller records the verdict. A loss must be seen twice before
//! it counts, as one may come from a neighbour on the machine and not from the rate. The rate that
//! is found counts only after `confirmations` clean trials in a row; otherwise the search steps
//! down, each time twice as far. The number of trials is bounded, so it always ends.
//! Source: RFC 2544, section 26.1 (throughput); the second look at a loss: ETSI GS NFV-TST 009,
//! section 12.3.3 (BACKGROUND: from memory).

use serde::{Deserialize, Serialize};

/// The verdict of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The sender kept its rate, and all arrived.
    Clean,
    /// A datagram did not arrive.
    Lost,
    /// All arrived, but the sender did not keep its rate: the trial says nothing about it.
    Slow,
}

/// The plan of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchPlan {
    /// A rate that is not reached: the sender's unpaced rate \[1/s\].
    pub ceiling: f64,
    /// The rate of the first trial \[1/s\]; outside of 0 to `ceiling`: half of it.
    pub first: f64,
    /// The result is known to this share of itself.
    pub resolution: f64,
    /// Clean trials in a row that make a result.
    pub confirmations: u32,
    /// Trials at most.
    pub trials_max: u32,
}

/// Below this share of the ceiling the search gives up: no rate is free of loss.
const FLOOR: f64 = 1.0 / 512.0;
/// This number of slow trials in a row is the sender's limit.
const VOID_MAX: u32 = 3;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The highest loss-free rate \[1/s\]; 0: none down to 1/512 of the ceiling.
    pub rate: f64,
    /// True: all confirmations were clean; else the trials ran out before.
    pub confirmed: bool,
    /// The lowest rate above it that failed, and how \[1/s\].
    pub above: Option<(f64, Verdict)>,
    /// Trials in all.
    pub trials: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Halves the interval between a clean rate (or 0) and one that failed.
    Bisect,
    /// Repeats at `low`, with the number of clean trials in a row.
    Confirm {
        clean: u32,
    },
    Done {
        confirmed: bool,
    },
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    plan: SearchPlan,
    phase: Phase,
    low: f64,
    high: f64,
    /// The rate of the next trial \[1/s\].
    rate: f64,
    above: Option<(f64, Verdict)>,
    /// Losses, and slow trials, at `rate` in a row.
    failures: (u32, u32),
    /// The step down after the next failed confirmation \[share\].
    step: f64,
    trials: u32,
}

impl Search {
    /// Begins a search. Without a positive ceiling it finds 0 at once. Resolutions are limited to
    /// 0.1 % to 50 %.
    #[must_use]
    pub fn new(plan: SearchPlan) -> Search {
        let resolution = if plan.resolution.is_nan() { 0.02 } else { plan.resolution };
        let plan = SearchPlan { resolution: resolution.clamp(1e-3, 0.5), ..plan };
        let sane = plan.ceiling.is_finite() && plan.ceiling > 0.0;
        let phase = if sane { Phase::Bisect } else { Phase::Done { confirmed: false } };
        let inside = plan.first > 0.0 && plan.first < plan.ceiling;
        let rate = if inside { plan.first } else { plan.ceiling / 2.0 };
        let (low, high, step) = (0.0, plan.ceiling, 2.0 * plan.resolution);
        Search { plan, phase, low, high, rate, above: None, failures: (0, 0), step, trials: 0 }
    }

    /// The rate to try next \[1/s\]; `None`: the search has ended.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        (!matches!(self.phase, Phase::Done { .. })).then_some(self.rate)
    }

    /// Takes the verdict of a trial at the rate of [`Search::next`].
    pub fn record(&mut self, verdict: Verdict) {
        if self.next().is_none() {
            return;
        }
        self.trials += 1;
        match verdict {
            Verdict::Clean => self.failures = (0, 0),
            Verdict::Lost => self.failures.0 += 1,
            Verdict::Slow => self.failures.1 += 1,
        }
        match (self.phase, verdict) {
            (Phase::Bisect, Verdict::Clean) => self.bisected_clean(),
            // Once is an accident.
            (Phase::Bisect, Verdict::Lost) if self.failures.0 >= 2 => self.bisected_failed(verdict),
            (Phase::Bisect, Verdict::Slow) if self.failures.1 >= 2 => self.bisected_failed(verdict),
            (Phase::Confirm { clean }, Verdict::Clean) => self.confirmed(clean + 1),
            (Phase::Confirm { .. }, Verdict::Lost) => self.step_down(verdict),
            (Phase::Confirm { .. }, Verdict::Slow) if self.failures.1 >= VOID_MAX => {
                self.step_down(verdict);
            }
            _ => {}
        }
        if self.trials >= self.plan.trials_max && self.next().is_some() {
            self.phase = Phase::Done { confirmed: false };
        }
    }

    fn bisected_clean(&mut self) {
        self.low = self.rate;
        self.narrow();
    }

    fn bisected_failed(&mut self, verdict: Verdict) {
        self.high = self.rate;
        self.above = Some((self.rate, verdict));
        self.failures = (0, 0);
        self.narrow();
    }

    /// Continues in the middle, or with the confirmation if the two ends are close enough.
    fn narrow(&mut self) {
        if self.low > 0.0 && self.high - self.low <= self.plan.resolution * self.high {
            self.rate = self.low;
            self.confirmed(1);
        } else if self.low <= 0.0 && self.high < self.plan.ceiling * FLOOR {
            self.phase = Phase::Done { confirmed: true };
        } else {
            self.rate = f64::midpoint(self.low, self.high);
        }
    }

    fn confirmed(&mut self, clean: u32) {
        self.phase = if clean >= self.plan.confirmations {
            Phase::Done { confirmed: true }
        } else {
            Phase::Confirm { clean }
        };
    }

    fn step_down(&mut self, verdict: Verdict) {
        self.above = Some((self.rate, verdict));
        self.failures = (0, 0);
        self.rate *= 1.0 - self.step;
        self.step = (2.0 * self.step).min(0.5);
        self.low = self.rate;
        self.phase = Phase::Confirm { clean: 0 };
        if self.rate < self.plan.ceiling * FLOOR {
            self.low = 0.0;
            self.phase = Phase::Done { confirmed: true };
        }
    }

    /// Returns the result so far; it is final when [`Search::next`] returns `None`.
    #[must_use]
    pub fn found(&self) -> Found {
        let confirmed = matches!(self.phase, Phase::Done { confirmed: true });
        Found { rate: self.low, confirmed, above: self.above, trials: self.trials }
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::Draw;

    use super::*;

    fn plan(ceiling: f64) -> SearchPlan {
        SearchPlan { ceiling, first: 0.0, resolution: 0.02, confirmations: 3, trials_max: 100 }
    }

    /// Runs a search against a link; returns the rates tried and the result.
    fn search(plan: SearchPlan, mut link: impl FnMut(f64) -> Verdict) -> (Vec<f64>, Found) {
        let mut search = Search::new(plan);
        let mut tried = Vec::new();
        while let Some(rate) = search.next() {
            assert!(rate > 0.0 && rate.is_finite() && rate <= plan.ceiling, "{rate} of {plan:?}");
            tried.push(rate);
            search.record(link(rate));
            assert!(tried.len() <= plan.trials_max as usize, "ends");
        }
        search.record(Verdict::Lost); // changes nothing after the end
        (tried, search.found())
    }

    #[test]
    fn a_known_limit_is_found_within_the_resolution_in_few_trials() {
        for limit in [12.0, 100.0, 3_333.0, 50_000.0, 99_000.0] {
            for first in [0.0, 7.0, 60_000.0, f64::NAN, 1e12] {
                let plan = SearchPlan { first, ..plan(100_000.0) };
                let link = |rate| if rate <= limit { Verdict::Clean } else { Verdict::Lost };
                let (tried, found) = search(plan, link);
                if found.rate <= 0.0 {
                    assert!(found.confirmed && limit < 100_000.0 / 512.0, "{limit} {first}");
                    continue;
                }
                assert!(found.confirmed && found.rate <= limit, "{limit}: {found:?}");
                assert!(found.rate >= limit * 0.98 - 1e-6, "{limit}: {found:?}");
                let (above, verdict) = found.above.unwrap_or((100_000.0, Verdict::Lost));
                assert!(above > limit && above * 0.98 <= found.rate && verdict == Verdict::Lost);
                // Halvings down to 2 % of the limit, each loss twice, and the confirmations.
                assert!(tried.len() <= 2 * 19 + 3, "{limit}: {} trials", tried.len());
                assert_eq!(found.trials as usize, tried.len());
            }
        }
    }

    #[test]
    fn where_nothing_is_lost_the_senders_own_limit_is_named() {
        let link = |rate| if rate <= 80_000.0 { Verdict::Clean } else { Verdict::Slow };
        let (_, found) = search(plan(100_000.0), link);
        assert!(found.rate <= 80_000.0 && found.rate >= 78_000.0, "{found:?}");
        assert_eq!(found.above.map(|(_, verdict)| verdict), Some(Verdict::Slow));
        let (_, found) = search(plan(100_000.0), |_| Verdict::Clean);
        assert!(found.confirmed && found.rate >= 98_000.0 && found.above.is_none(), "{found:?}");
    }

    #[test]
    fn a_loss_in_a_hundred_trials_does_not_spoil_the_result() {
        let (mut worst, mut beyond) = (1.0_f64, 0);
        for seed in 0..300 {
            let mut random = Draw::new(seed);
            let link = |rate| {
                let unlucky = random.below(100) == 0;
                if rate <= 40_000.0 && !unlucky { Verdict::Clean } else { Verdict::Lost }
            };
            let (_, found) = search(plan(100_000.0), link);
            assert!(found.confirmed && found.rate <= 40_000.0, "seed {seed}: {found:?}");
            worst = worst.min(found.rate / 40_000.0);
            beyond += u32::from(found.rate < 40_000.0 * 0.98);
        }
        // One failed confirmation costs twice the resolution, which 3 % of the searches have.
        assert!(worst > 0.85 && beyond < 30, "worst {worst}, {beyond} of 300 beyond 2 %");
    }

    #[test]
    fn it_ends_with_any_verdicts() {
        for seed in 0..500 {
            let mut random = Draw::new(seed);
            let plan = SearchPlan {
                resolution: [0.02, 0.0, -1.0, f64::NAN, 1e-9, 9.0][random.below(6) as usize],
                confirmations: random.below(5) as u32,
                trials_max: 1 + random.below(60) as u32,
                ..plan(1.0 + random.below(1_000_000_000) as f64)
            };
            let (clean, lost) = (random.below(10), random.below(10));
            let link = |_| match random.below(clean + lost + 3) {
                dice if dice < clean => Verdict::Clean,
                dice if dice < clean + lost => Verdict::Lost,
                _ => Verdict::Slow,
            };
            let (tried, found) = search(plan, link);
            assert!(tried.len() <= plan.trials_max as usize, "seed {seed}");
            assert!(found.rate >= 0.0 && found.rate <= plan.ceiling, "seed {seed}: {found:?}");
        }
        for ceiling in [0.0, -5.0, f64::NAN, f64::INFINITY] {
            let (tried, found) = search(plan(ceiling), |_| Verdict::Clean);
            assert!(tried.is_empty() && found.rate == 0.0 && !found.confirmed);
        }
    }

    #[test]
    fn trials_that_run_out_leave_a_result_that_is_not_confirmed() {
        let plan = SearchPlan { trials_max: 3, ..plan(100.0) };
        let (tried, found) = search(plan, |_| Verdict::Clean);
        assert_eq!((tried.len(), found.rate, found.confirmed), (3, 87.5, false));
    }
}
