//! Slow control values beside the events: `[slow-control]`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::problem::Problem;
use super::roce::address;

/// The beginning of [`Alarm::value`](super::Alarm::value) that names a slow control value.
pub const SLOW_PREFIX: &str = "slow:";
/// Most different names that an experiment may ask for.
const VALUES_MAX: u32 = 100_000;

/// The socket that takes slow control values as InfluxDB's line protocol, and the choice of those
/// that are recorded.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SlowControl {
    /// Address and UDP port to listen on.
    pub udp: String,
    /// A value that does not change is recorded at least this often, while it is sent \[s\].
    pub every_s: f64,
    /// The smallest change of a number that is recorded, in its own unit.
    pub change: f64,
    /// Most different names; values of further ones are refused and counted.
    pub values_max: u32,
}

impl Default for SlowControl {
    fn default() -> SlowControl {
        SlowControl {
            udp: "127.0.0.1:8094".to_owned(),
            every_s: 60.0,
            change: 0.0,
            values_max: 1000,
        }
    }
}

impl SlowControl {
    /// Returns the address to listen on.
    ///
    /// Errors: a sentence about the address.
    pub fn listen(&self) -> Result<SocketAddr, String> {
        address(&self.udp).map_err(|_| {
            format!(
                "`udp = {:?}` is not an address with a port; write for example \
                 \"127.0.0.1:8094\".",
                self.udp
            )
        })
    }

    fn check(&self) -> Result<(), Problem> {
        self.listen().map_err(|text| Problem::at("udp", text))?;
        if !(0.1..=86_400.0).contains(&self.every_s) {
            let text = format!("`every-s = {}`; write 0.1 to 86400.", self.every_s);
            return Err(Problem::at("every-s", text));
        }
        if !(self.change >= 0.0 && self.change.is_finite()) {
            let text = format!(
                "`change = {}`; write the smallest change that is recorded, or 0 for every one.",
                self.change
            );
            return Err(Problem::at("change", text));
        }
        if !(1..=VALUES_MAX).contains(&self.values_max) {
            let text = format!("`values-max = {}`; write 1 to {VALUES_MAX}.", self.values_max);
            return Err(Problem::at("values-max", text));
        }
        Ok(())
    }
}

impl Experiment {
    /// Checks the socket of slow control values, and the choice of them.
    pub(super) fn check_slow_control(&self) -> Result<(), Problem> {
        let checked = self.slow_control.as_ref().map_or(Ok(()), SlowControl::check);
        checked.map_err(|problem| problem.below("slow-control"))
    }
}
