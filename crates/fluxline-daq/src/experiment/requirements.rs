//! The requirements of an experiment, `[requirements]`: numbers that a run is compared with, and
//! that a plan of links starts from.

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::problem::Problem;

/// The quantiles of delays that a run has \[%\].
pub const QUANTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Most years of growth.
const YEARS_MAX: u32 = 30;

/// The numbers that an acquisition must reach; those left out are not required.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Requirements {
    /// Number of sensors.
    pub sensors: Option<u32>,
    /// Packets a second of each sensor \[1/s\].
    pub rate_hz: Option<f64>,
    /// Mean size of a packet, with its header \[byte\].
    pub packet_bytes: Option<f64>,
    /// Mean data of an event, which is a cycle of all sensors \[byte\].
    pub cycle_bytes: Option<f64>,
    /// Longest time from sampling to storing \[µs\].
    pub latency_us: Option<f64>,
    /// The share of the events that keep the latency \[%\].
    pub latency_percent: f64,
    /// The share of packets that may be lost.
    pub loss_max: Option<f64>,
    /// Growth of the rate in each year \[%\].
    pub growth_percent: f64,
    /// Years of growth.
    pub years: u32,
}

impl Default for Requirements {
    fn default() -> Requirements {
        Requirements {
            sensors: None,
            rate_hz: None,
            packet_bytes: None,
            cycle_bytes: None,
            latency_us: None,
            latency_percent: 99.0,
            loss_max: None,
            growth_percent: 0.0,
            years: 0,
        }
    }
}

impl Requirements {
    /// Returns the load after some years, as a multiple of that of today.
    #[must_use]
    pub fn growth(&self, years: u32) -> f64 {
        (1.0 + self.growth_percent / 100.0).powi(years as i32)
    }

    /// Checks that each number is possible.
    fn check(&self) -> Result<(), Problem> {
        let positive = [
            ("rate-hz", self.rate_hz),
            ("packet-bytes", self.packet_bytes),
            ("cycle-bytes", self.cycle_bytes),
            ("latency-us", self.latency_us),
        ];
        for (key, value) in positive {
            if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= 1e15)) {
                return wrong(key, value, "a number above 0");
            }
        }
        if self.sensors == Some(0) {
            return wrong("sensors", 0.0, "1 or more");
        }
        if let Some(loss) = self.loss_max.filter(|loss| !(0.0..1.0).contains(loss)) {
            return wrong("loss-max", loss, "a share from 0 to below 1, such as 1e-6");
        }
        if !QUANTILES.contains(&self.latency_percent) {
            return wrong("latency-percent", self.latency_percent, "50, 90, 99 or 99.9");
        }
        if !(0.0..=1000.0).contains(&self.growth_percent) {
            return wrong("growth-percent", self.growth_percent, "0 to 1000");
        }
        if self.years > YEARS_MAX {
            return wrong("years", f64::from(self.years), "0 to 30");
        }
        Ok(())
    }
}

fn wrong(key: &str, value: f64, write: &str) -> Result<(), Problem> {
    let text = format!("[requirements] {key} = {value}; write {write}.");
    Err(Problem::at(format!("requirements.{key}"), text))
}

impl Experiment {
    /// Checks `[requirements]`.
    pub(super) fn check_requirements(&self) -> Result<(), Problem> {
        self.requirements.as_ref().map_or(Ok(()), Requirements::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &str) -> String {
        let text = format!(
            "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\n[requirements]\n\
             {lines}\n"
        );
        Experiment::parse("e.toml", &text).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn impossible_numbers_are_refused_with_their_line() {
        for (lines, words) in [
            ("rate-hz = 0", "rate-hz = 0; write a number above 0"),
            ("packet-bytes = -3", "packet-bytes = -3"),
            ("latency-us = nan", "latency-us = NaN"),
            ("cycle-bytes = inf", "cycle-bytes = inf"),
            ("sensors = 0", "sensors = 0; write 1 or more"),
            ("loss-max = 1.0", "loss-max = 1; write a share"),
            ("latency-percent = 95", "write 50, 90, 99 or 99.9"),
            ("growth-percent = -1", "growth-percent = -1; write 0 to 1000"),
            ("years = 31", "years = 31; write 0 to 30"),
            ("rate = 5", "rate-hz"),
        ] {
            let said = said(lines);
            assert!(said.contains(words) && said.contains("e.toml:6"), "{lines}: {said}");
        }
        assert_eq!(said("loss-max = 0\nlatency-us = 5\nyears = 30\ngrowth-percent = 15"), "");
    }

    #[test]
    fn growth_is_compounded() {
        let of = Requirements { growth_percent: 10.0, ..Requirements::default() };
        assert!((of.growth(2) - 1.21).abs() < 1e-12 && of.growth(0) == 1.0);
    }
}
