//! The configuration of a global clock.

use super::follower::Discipline;
use crate::Duration;
use crate::net::sci::{self, Topology};

/// The delays of a strobe that are corrected, besides the measured delay of an idle path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// None: a strobe counts as sent at its planned time.
    None,
    /// The wait at the master, which stamps the strobe when it actually leaves.
    Departure,
    /// The same, and all waits in bypass FIFOs on the way.
    #[default]
    Residence,
}

/// The configuration of a global clock on one ringlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The node that sends strobes: its clock is the global time.
    pub master: u32,
    /// Time between strobes.
    pub period: Duration,
    /// The largest drift of a node against the master; drifts are drawn evenly within it \[parts in
    /// 10^9\].
    pub drift_ppb_max: u32,
    /// The largest initial time of a node's clock; initial times are drawn evenly up to it.
    pub start_max: Duration,
    /// The clocks of nodes show whole multiples of this.
    pub tick: Duration,
    /// The delays that are corrected.
    pub correction: Correction,
    /// The reaction of nodes to strobes.
    pub discipline: Discipline,
    /// The number of periods without a strobe after which a node reports it; at least 2, because a
    /// fast clock counts a period before the next strobe arrives.
    pub patience_periods: u32,
    /// The number of error samples of each node in a period.
    pub samples: u32,
    /// The seed of drifts and initial times.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            master: 0,
            // Assumed.
            period: Duration::from_us(100),
            // Common quartz oscillators: 50 to 100 ppm. Assumed.
            drift_ppb_max: 50_000,
            // Assumed: nodes are switched on within a second.
            start_max: Duration::from_us(1_000_000),
            // The symbol of a 1 GB/s link. Assumed.
            tick: Duration::from_ps(2000),
            correction: Correction::default(),
            discipline: Discipline::default(),
            patience_periods: 3,
            samples: 8,
            seed: 1,
        }
    }
}

/// An error of a global clock's configuration, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("global clock: {0}")]
pub struct ConfigError(pub String);

/// The smallest drift that is rejected: a thousandth \[parts in 10^9\].
const DRIFT_PPB_MAX: u32 = 1_000_000;

impl Config {
    /// Checks the configuration for this network and returns the first mistake.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check(&self, network: &sci::Config) -> Result<(), ConfigError> {
        let fail = |text: String| Err(ConfigError(text));
        let Topology::Ring { nodes } = network.topology else {
            return fail("strobes travel along one ringlet: use a network of one ring".into());
        };
        if self.master >= nodes {
            return fail(format!(
                "the master is node {}; nodes are 0 to {}",
                self.master,
                nodes - 1
            ));
        }
        let hop = u64::from(network.pass_symbols) + u64::from(network.cable_symbols);
        let strobe = u64::from(sci::Command::Strobe.symbols());
        let round = network.clock.span(hop * u64::from(nodes) + strobe);
        if self.period <= round {
            let period = self.period;
            return fail(format!("a period of {period} is too short: a strobe is back in {round}"));
        }
        if self.drift_ppb_max > DRIFT_PPB_MAX {
            let ppm = self.drift_ppb_max / 1000;
            return fail(format!("a drift of {ppm} ppm is too large: give at most 1000 ppm"));
        }
        for (name, value, least) in [
            ("the tick of a clock [ps]", self.tick.as_ps(), 1),
            ("patience_periods", u64::from(self.patience_periods), 2),
            ("samples", u64::from(self.samples), 1),
        ] {
            if value < least {
                return fail(format!("{name} is {value}: give at least {least}"));
            }
        }
        Ok(())
    }
}
