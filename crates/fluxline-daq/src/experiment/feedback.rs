//! The feedback of an experiment, `[loop]`: a function that decides on each closed event, and the
//! actuator node that its decisions are written to.

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::problem::Problem;

/// The longest decision \[byte\].
const BYTES_MAX: u32 = 4096;
/// Most events that wait for the function of a builder.
const WAITING_MAX: u32 = 1 << 20;
/// The longest wait for an answer of a program \[ms\].
const ANSWER_MS_MAX: u64 = 600_000;

/// The function that decides on closed events, and its limits.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Feedback {
    /// Expressions over the event; their values are the decision, 8 bytes each.
    pub values: Vec<String>,
    /// A program and its arguments: it reads events and answers with decisions.
    pub program: Vec<String>,
    /// The time at which an event was sampled.
    pub sampled: Sampled,
    /// Delay from sampling to the write above which a write is late \[us\]; `None`: none is.
    pub deadline_us: Option<f64>,
    /// The longest decision \[byte\].
    pub bytes_max: u32,
    /// Most events that wait for the function; beyond them, the oldest is skipped.
    pub waiting_max: u32,
    /// Time after which a program that does not answer is ended \[ms\].
    pub answer_ms: u64,
    /// Virtual time that a decision takes, on a simulated link \[ns\].
    pub decision_ns: u64,
}

impl Default for Feedback {
    fn default() -> Feedback {
        Feedback {
            values: Vec::new(),
            program: Vec::new(),
            sampled: Sampled::Arrival,
            deadline_us: None,
            bytes_max: 256,
            waiting_max: 16,
            answer_ms: 1000,
            decision_ns: 0,
        }
    }
}

/// The time at which an event was sampled: the earliest of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampled {
    /// Arrival at the readout.
    #[default]
    Arrival,
    /// The time field of the packet, by the board's clock.
    Sensor,
}

impl Experiment {
    /// Checks `[loop]`.
    pub(super) fn check_feedback(&self) -> Result<(), Problem> {
        let Some(of) = &self.feedback else { return Ok(()) };
        let wrong = |key: &str, text: String| Err(Problem::at(format!("loop.{key}"), text));
        if self.cluster.is_some() {
            let text = "[loop] needs nodes on one link, and [cluster] has machines on Kafka, which \
                        takes tens of milliseconds; remove one of the tables.";
            return Err(Problem::at("loop", text));
        }
        if !of.values.is_empty() && !of.program.is_empty() {
            let text = "[loop] has `values` and `program`; write one of them.";
            return wrong("program", text.to_owned());
        }
        if of.deadline_us.is_some_and(|us| !(us > 0.0 && us <= 1e12)) {
            let us = of.deadline_us.unwrap_or_default();
            let text = format!(
                "[loop] deadline-us = {us}; write a number above 0, or leave it out: then no write \
                 is late."
            );
            return wrong("deadline-us", text);
        }
        let in_range = |key: &str, value: u64, most: u64| match (1..=most).contains(&value) {
            true => Ok(()),
            false => wrong(key, format!("[loop] {key} = {value}; write 1 to {most}.")),
        };
        in_range("bytes-max", of.bytes_max.into(), BYTES_MAX.into())?;
        in_range("waiting-max", of.waiting_max.into(), WAITING_MAX.into())?;
        in_range("answer-ms", of.answer_ms, ANSWER_MS_MAX)?;
        let bytes = of.values.len() * 8;
        match bytes > of.bytes_max as usize {
            false => Ok(()),
            true => wrong(
                "values",
                format!(
                    "[loop] values has {} expressions of 8 bytes each, which is more than bytes-max \
                     = {}; write fewer, or a larger bytes-max.",
                    of.values.len(),
                    of.bytes_max
                ),
            ),
        }
    }
}
