//! The time of processors by kind.

use super::time::Duration;

/// The time of a core, or of some work, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Time of programs.
    pub user: Duration,
    /// Time of system calls.
    pub system: Duration,
    /// Time of interrupt handlers.
    pub irq: Duration,
    /// Time of the softirq.
    pub softirq: Duration,
}

impl Split {
    /// Returns the sum.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system + self.irq + self.softirq
    }

    /// Returns the time since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Split) -> Split {
        Split {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            irq: self.irq - earlier.irq,
            softirq: self.softirq - earlier.softirq,
        }
    }

    /// Adds some time.
    pub fn add(&mut self, more: &Split) {
        self.user = self.user + more.user;
        self.system = self.system + more.system;
        self.irq = self.irq + more.irq;
        self.softirq = self.softirq + more.softirq;
    }
}
