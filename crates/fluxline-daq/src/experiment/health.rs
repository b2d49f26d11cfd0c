//! The limits of a healthy run: `[health]`, and the experiment's own rules, `[[alarm]]`.

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::problem::Problem;
use super::slow_control::SLOW_PREFIX;
use crate::ledger::{Ledger, OUTCOMES, SinkCounters};

/// Values of [`Alarm::value`] beside the counters of the ledger.
pub const MEASURES: [&str; 10] = [
    "packets",
    "bytes",
    "events",
    "incomplete",
    "lost",
    "recorded_bytes",
    "sources",
    "ring_percent",
    "free_bytes",
    "delay_p99_us",
];
/// Most rules of an experiment.
const ALARMS_MAX: usize = 100;

/// The limits of the rules that every run has; pairs are the limits of a warning and of an alarm.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Health {
    /// A source is silent after this time, and after 20 of its own periods \[s\].
    pub silent_s: f64,
    /// The share of the events of the last 10 s that lack a packet \[%\].
    pub incomplete_percent: [f64; 2],
    /// The share of the packets of the last 10 s that were lost before this host \[%\].
    pub loss_percent: [f64; 2],
    /// The time until the disk is full at the present rate \[min\].
    pub disk_minutes: [f64; 2],
    /// The fill level of the fullest ring \[%\].
    pub ring_percent: [f64; 2],
    /// The largest error of this host's clock \[µs\]; `None`: nobody asks for one.
    pub clock_us: Option<f64>,
    /// The program, with its arguments, that gets each change of an alarm as JSON on its standard
    /// input; empty: none.
    pub command: Vec<String>,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            silent_s: 2.0,
            incomplete_percent: [1.0, 50.0],
            loss_percent: [0.1, 10.0],
            disk_minutes: [30.0, 5.0],
            ring_percent: [80.0, 95.0],
            clock_us: None,
            command: Vec::new(),
        }
    }
}

/// The importance of an alarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Look at it during the shift.
    #[default]
    Warning,
    /// Act now: data is being lost.
    Alarm,
}

/// A rule of the experiment: a counter, or its rate, and a limit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// A counter of the ledger (`input.rejected`), a measure ([`MEASURES`]), a slow control value
    /// (`slow:NAME`), or one of these in `rate(..)`: its growth in a second, over the last 10 s.
    pub value: String,
    /// It is raised when the value is above this.
    pub above: Option<f64>,
    /// It is raised when the value is below this.
    pub below: Option<f64>,
    /// It is raised when the slow control value has not arrived for this time \[s\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_s: Option<f64>,
    /// It is raised when that lasts for this time \[s\].
    #[serde(default)]
    pub hold_s: f64,
    /// Its importance.
    #[serde(default)]
    pub severity: Severity,
    /// Advice for the person who sees it.
    #[serde(default)]
    pub advice: String,
}

impl Alarm {
    /// Returns the name of the counter or measure, and true where its rate is meant.
    #[must_use]
    pub fn subject(&self) -> Subject<'_> {
        let inner = self.value.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
        Subject { name: inner.unwrap_or(&self.value).trim(), is_rate: inner.is_some() }
    }
}

/// The value that an [`Alarm`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The counter or measure.
    pub name: &'a str,
    /// Its growth in a second, not its value.
    pub is_rate: bool,
}

impl<'a> Subject<'a> {
    /// Returns the name of the slow control value; `None`: it is a counter or a measure.
    #[must_use]
    pub fn slow(self) -> Option<&'a str> {
        self.name.strip_prefix(SLOW_PREFIX)
    }
}

impl Experiment {
    /// Checks the limits and rules of a healthy run.
    pub(super) fn check_health(&self) -> Result<(), Problem> {
        self.health.check()?;
        if self.alarms.len() > ALARMS_MAX {
            let text = format!(
                "the experiment has {} [[alarm]] tables; write at most {ALARMS_MAX}.",
                self.alarms.len()
            );
            return Err(Problem::at("alarm", text));
        }
        for (number, alarm) in self.alarms.iter().enumerate() {
            let table = format!("alarm.{number}");
            let checked = alarm.check(self.slow_control.is_some());
            checked.map_err(|problem| problem.below(&table))?;
            if self.alarms[..number].iter().any(|other| other.name == alarm.name) {
                let text = format!("two alarms are named `{}`; give each `name` once.", alarm.name);
                return Err(Problem::at(format!("{table}.name"), text));
            }
        }
        Ok(())
    }
}

impl Health {
    fn check(&self) -> Result<(), Problem> {
        if !(self.silent_s >= 0.1 && self.silent_s <= 86_400.0) {
            let text = format!("`silent-s = {}`; write 0.1 to 86400.", self.silent_s);
            return Err(Problem::at("health.silent-s", text));
        }
        let rising = [
            ("incomplete-percent", self.incomplete_percent, 100.0),
            ("loss-percent", self.loss_percent, 100.0),
            ("ring-percent", self.ring_percent, 100.0),
        ];
        for (key, [warning, alarm], most) in rising {
            if !(0.0 <= warning && warning <= alarm && alarm <= most) {
                let text = format!(
                    "`{key} = [{warning}, {alarm}]`; write the limits of a warning and of an \
                     alarm, 0 to {most}, the second not below the first."
                );
                return Err(Problem::at(format!("health.{key}"), text));
            }
        }
        let [warning, alarm] = self.disk_minutes;
        if !(0.0 <= alarm && alarm <= warning && warning <= 1e6) {
            let text = format!(
                "`disk-minutes = [{warning}, {alarm}]`; write the limits of a warning and of an \
                 alarm in minutes, the second not above the first."
            );
            return Err(Problem::at("health.disk-minutes", text));
        }
        if let Some(limit) = self.clock_us.filter(|limit| !(*limit > 0.0 && *limit <= 1e9)) {
            let text = format!("`clock-us = {limit}`; write a number above 0.");
            return Err(Problem::at("health.clock-us", text));
        }
        match self.command.first() {
            Some(program) if program.is_empty() => {
                let text = "`command` names no program; write [\"PROGRAM\", \"ARGUMENT\"].";
                Err(Problem::at("health.command", text))
            }
            _ => Ok(()),
        }
    }
}

impl Alarm {
    fn check(&self, has_slow: bool) -> Result<(), Problem> {
        if self.name.trim().is_empty() || self.name.len() > 100 {
            return Err(Problem::at("name", "an alarm's `name` has 1 to 100 bytes."));
        }
        let subject = self.subject();
        match subject.slow() {
            Some("") => return Err(Problem::at("value", "`slow:` needs a name: `slow:NAME`.")),
            Some(_) if has_slow => {}
            Some(_) => {
                let text = format!(
                    "alarm `{}` looks at a slow control value, and the experiment has no \
                     [slow-control] table; write one.",
                    self.name
                );
                return Err(Problem::at("value", text));
            }
            None if is_known(subject.name) => {}
            None => return Err(Problem::at("value", unknown(subject.name))),
        }
        self.check_limits()?;
        if !(0.0..=86_400.0).contains(&self.hold_s) {
            let text = format!("`hold-s = {}`; write 0 to 86400.", self.hold_s);
            return Err(Problem::at("hold-s", text));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), Problem> {
        let limits = [self.above, self.below, self.stale_s].into_iter().flatten();
        let limits: Vec<f64> = limits.filter(|limit| limit.is_finite()).collect();
        if limits.len() != 1 {
            let text = format!(
                "alarm `{}` needs one of `above` and `below`, or `stale-s` for a slow control \
                 value.",
                self.name
            );
            return Err(Problem::at("", text));
        }
        let subject = self.subject();
        match self.stale_s {
            Some(_) if subject.slow().is_none() || subject.is_rate => {
                let text = "`stale-s` is for a slow control value: `value = \"slow:NAME\"`.";
                Err(Problem::at("stale-s", text))
            }
            Some(limit) if !(0.1..=86_400.0).contains(&limit) => {
                let text = format!("`stale-s = {limit}`; write 0.1 to 86400.");
                Err(Problem::at("stale-s", text))
            }
            _ => Ok(()),
        }
    }
}

/// Returns true for names that [`Alarm::value`] may have.
fn is_known(name: &str) -> bool {
    let all = Ledger { sink: Some(SinkCounters::default()), ..Ledger::default() };
    MEASURES.contains(&name) || all.total(name).is_some()
}

/// Returns the sentence on a name that nothing has, with the nearest that something has.
fn unknown(name: &str) -> String {
    let known = MEASURES.into_iter().chain(OUTCOMES.iter().map(|row| row.counter));
    let nearest = fluxline_toml::nearest(name, known);
    let nearest = nearest.map_or_else(String::new, |near| format!(" did you mean `{near}`?"));
    format!(
        "no counter or measure is named `{name}`;{nearest} `fluxline counters` lists the counters, \
         the measures are {}, and slow control values are `slow:NAME`.",
        MEASURES.join(", ")
    )
}
