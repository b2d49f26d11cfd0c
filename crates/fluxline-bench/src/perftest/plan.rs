//! The plan of one test: what both ends have to know before they connect.

use std::net::IpAddr;
use std::time::Duration;

use fluxline_core::fabric::Reliability;

use super::program::{Operation, Program};

/// The largest message \[byte\]: that of perftest's `--all`.
const BYTES_MAX: u64 = 1 << 23;

/// The plan of a test.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The peer's program.
    pub program: Program,
    /// The size of a message \[byte\].
    pub bytes: u64,
    /// The number of operations, where this end counts them.
    pub operations: u64,
    /// The promise of the connection: perftest's `-c RC` or `-c UC`.
    pub reliability: Reliability,
    /// The address of this machine for remote memory, if TCP uses another.
    pub own: Option<IpAddr>,
    /// The peer's address for remote memory, if its TCP connection comes from another.
    pub peer: Option<IpAddr>,
    /// The longest time without progress.
    pub limit: Duration,
}

/// The reason why a plan is impossible.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The operation needs a reliable connection.
    #[error("{0} needs a reliable connection: leave out --unreliable here and -c UC there")]
    Unreliable(Program),
    /// The size of a message is impossible.
    #[error("messages of {bytes} bytes are impossible; write 1 to {BYTES_MAX}")]
    Bytes {
        /// The size \[byte\].
        bytes: u64,
    },
    /// Atomics have one size.
    #[error("atomics have 8 bytes; leave out --bytes")]
    AtomicBytes,
    /// Nothing would be measured.
    #[error("0 operations measure nothing; write 1 or more")]
    NoOperations,
}

impl Plan {
    /// Returns the defaults of the program.
    #[must_use]
    pub fn of(program: Program) -> Plan {
        Plan {
            program,
            bytes: program.bytes(),
            operations: program.operations(),
            reliability: Reliability::Reliable,
            own: None,
            peer: None,
            limit: Duration::from_secs(60),
        }
    }

    /// Returns the plan, if it is possible. Errors: [`PlanError`].
    pub fn checked(self) -> Result<Plan, PlanError> {
        let Plan { program, bytes, .. } = self;
        let needs_answers = matches!(program.operation, Operation::Read | Operation::Atomic);
        if needs_answers && self.reliability == Reliability::Unreliable {
            return Err(PlanError::Unreliable(program));
        }
        if program.operation == Operation::Atomic && bytes != program.bytes() {
            return Err(PlanError::AtomicBytes);
        }
        if bytes == 0 || bytes > BYTES_MAX {
            return Err(PlanError::Bytes { bytes });
        }
        if self.operations == 0 {
            return Err(PlanError::NoOperations);
        }
        Ok(self)
    }

    /// Returns the size of the memory that the peer may use \[byte\]: perftest walks over a page,
    /// and `--all` goes up to the largest message.
    pub(super) fn memory_bytes(&self) -> u64 {
        2 * BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_plans_are_named() {
        for program in Program::all() {
            let plan = || Plan::of(program);
            assert!(plan().checked().is_ok(), "{program}");
            assert!(Plan { bytes: 0, ..plan() }.checked().is_err());
            assert!(Plan { bytes: BYTES_MAX + 1, ..plan() }.checked().is_err());
            assert!(Plan { operations: 0, ..plan() }.checked().is_err());
            let unreliable = Plan { reliability: Reliability::Unreliable, ..plan() }.checked();
            let needs_answers = matches!(program.operation, Operation::Read | Operation::Atomic);
            assert_eq!(unreliable.is_err(), needs_answers, "{program}");
        }
    }
}
