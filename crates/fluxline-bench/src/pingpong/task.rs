//! The task of one size, and the measurement of one end.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

/// The exchange of one repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A message there, and one back.
    PingPong,
    /// A message there.
    Stream,
    /// A message each way at once.
    Bidirectional,
}

/// The operation that carries a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A put with a notification.
    Put,
    /// A message into a buffer that the other side posted.
    Message,
}

/// The task of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The exchange of a repeat.
    pub mode: Mode,
    /// The operation.
    pub way: Way,
    /// Size of a message \[byte\].
    pub bytes: u64,
    /// The number of repeats in a trial.
    pub repeats: u64,
    /// The number of trials; the shortest counts.
    pub trials: u32,
    /// True: each message lies elsewhere in memory, and the cache is filled with other data before.
    pub cold: bool,
    /// True: every byte is written before and compared after; such a task is not timed.
    pub checked: bool,
    /// A trial that lasts longer is cut short, and its repeats are counted \[ms\]; 0: never.
    pub limit_ms: u64,
}

impl Task {
    /// Reads a task of the other side. Errors: a task that makes no sense.
    pub fn read(parameters: &Value) -> Result<Task, Error> {
        let task: Task = serde_json::from_value(parameters.clone())
            .map_err(|error| Error::Input(format!("an exchange: {error}")))?;
        let is_right = task.bytes > 0 && task.repeats > 0 && task.trials > 0;
        if is_right && (task.way == Way::Put || task.mode == Mode::PingPong) {
            return Ok(task);
        }
        Err(Error::Input(format!("an exchange cannot be {task:?}")))
    }
}

/// The measurement of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Time of a repeat, of each trial \[s\].
    pub seconds: Vec<f64>,
    /// Of single round trips: p50, p99, p99.9, the longest \[ns\]; `None` in the other modes.
    pub repeat_ns: Option<[u64; 4]>,
    /// Bytes compared and found equal.
    pub compared_bytes: u64,
}

impl Measured {
    /// The shortest trial \[s\].
    #[must_use]
    pub fn least(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The longest trial \[s\].
    #[must_use]
    pub fn most(&self) -> f64 {
        self.seconds.iter().copied().fold(0.0, f64::max)
    }
}
