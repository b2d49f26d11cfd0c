//! The programs of perftest, and what each of them does.

use std::fmt;

/// A program of perftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The operation that it measures.
    pub operation: Operation,
    /// It measures one operation after another; otherwise many at a time.
    pub is_latency: bool,
}

/// The operation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Remote writes (RDMA WRITE).
    Write,
    /// Remote reads (RDMA READ).
    Read,
    /// Messages (SEND).
    Send,
    /// FetchAdd and CmpSwap.
    Atomic,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 4] =
        [Operation::Write, Operation::Read, Operation::Send, Operation::Atomic];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Send => "send",
            Operation::Atomic => "atomic",
        }
    }
}

impl Program {
    /// Returns every program.
    pub fn all() -> impl Iterator<Item = Program> {
        Operation::ALL
            .into_iter()
            .flat_map(|operation| [false, true].map(|is_latency| Program { operation, is_latency }))
    }

    /// Returns the program with this name, with or without `ib_`.
    #[must_use]
    pub fn named(name: &str) -> Option<Program> {
        let short = name.strip_prefix("ib_").unwrap_or(name);
        Program::all().find(|program| program.to_string().strip_prefix("ib_") == Some(short))
    }

    /// Returns the default size of its messages \[byte\]. Source: perftest's manual page, `--size`.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Program { operation: Operation::Atomic, .. } => 8,
            Program { is_latency: true, .. } => 2,
            Program { is_latency: false, .. } => 65_536,
        }
    }

    /// Returns the default number of its operations. Source: as above, `--iters`.
    #[must_use]
    pub fn operations(self) -> u64 {
        match self {
            Program { is_latency: false, operation: Operation::Write } => 5000,
            _ => 1000,
        }
    }

    /// Returns how often the first key message is repeated before the test.
    pub(super) fn barriers(self) -> u32 {
        if self.is_latency || self.operation == Operation::Send { 3 } else { 2 }
    }

    /// Returns true when the ends exchange results after the test.
    pub(super) fn has_report(self) -> bool {
        !self.is_latency && self.operation != Operation::Send
    }

    /// Returns true when the ends say goodbye to each other.
    pub(super) fn has_end(self) -> bool {
        !(self.is_latency && self.operation == Operation::Write)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_latency { "lat" } else { "bw" };
        write!(out, "ib_{}_{kind}", self.operation.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_programs_belong_together() {
        let names: Vec<String> = Program::all().map(|program| program.to_string()).collect();
        assert_eq!(names.len(), 8);
        for name in &names {
            let program = Program::named(name).expect("a program");
            assert_eq!(&program.to_string(), name);
            assert_eq!(Program::named(&name[3..]), Some(program));
        }
        for wrong in ["", "ib_", "write", "write_bw_", "ib_ib_write_bw", "raw_ethernet_bw"] {
            assert_eq!(Program::named(wrong), None, "{wrong}");
        }
    }
}
