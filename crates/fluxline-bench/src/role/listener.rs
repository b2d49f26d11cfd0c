//! The far end of every trial in which bytes go one way: its memory is written without it.

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, Fabric};
use serde_json::Value;

use super::{END, Role, Site, Step};
use crate::Error;

/// Completions handled in one step at most.
const STEP_MAX: u32 = 64;

/// Polls its link, and checks that the notifications arrive in order until [`END`].
pub struct Listener {
    expected: u64,
    heard: u64,
    is_over: bool,
}

impl Listener {
    /// Expects this many notifications, numbered from 0.
    #[must_use]
    pub fn new(expected: u64) -> Listener {
        Listener { expected, heard: 0, is_over: false }
    }

    fn notified(&mut self, number: u32) -> Result<(), Error> {
        if number == END {
            self.is_over = true;
        } else if u64::from(number) == self.heard {
            self.heard += 1;
        } else {
            let what = format!("notification {number} came instead of {}", self.heard);
            return Err(Error::Defect { what });
        }
        Ok(())
    }
}

impl Role for Listener {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            let Some(completion) = site.poll(fabric, now)? else { break };
            worked = true;
            if let Completion::Notified { value, .. } = completion
                && let Some(number) = site.noticed(value)
            {
                self.notified(number)?;
            }
        }
        if !self.is_over {
            return Ok(if worked { Step::Worked } else { Step::Idle(None) });
        }
        if self.heard != self.expected {
            let what = format!("{} of {} notifications came", self.heard, self.expected);
            return Err(Error::Defect { what });
        }
        Ok(Step::Done)
    }

    fn outcome(&mut self) -> Value {
        Value::Null
    }
}
