//! One row of the doctor's table: each check of the program and each line of docs/doctor.md is one.

/// The subject of a rule; the rule does not concern an experiment without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Any experiment.
    Nothing,
    /// Packets that come through the kernel's network stack: UDP, RoCEv2 over UDP.
    Sockets,
    /// Packets that come from another host, through an interface.
    Cards,
    /// Shared memory with other processes.
    Shared,
}

/// One thing that is looked at.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name for `--only`.
    pub name: &'static str,
    /// The title in the table, without the interface or core.
    pub title: &'static str,
    /// The effect on packets, in one sentence.
    pub why: &'static str,
    /// The wanted value, in words.
    pub limit: &'static str,
    /// The source of the limit.
    pub source: &'static str,
    /// The remedy, in words.
    pub remedy: &'static str,
    /// The experiments that it concerns.
    pub needs: Needs,
}
