//! One row of the doctor's table: each check of the program and each line of docs/doctor.md is one.

/// What a rule is about; it does not concern an experiment without it.
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
    /// What `--only` calls it.
    pub name: &'static str,
    /// What the table calls it, without the interface or core it may be about.
    pub title: &'static str,
    /// What it does to packets, one sentence.
    pub why: &'static str,
    /// What is wanted, in words.
    pub limit: &'static str,
    /// Where the limit is from.
    pub source: &'static str,
    /// What mends it, in words.
    pub remedy: &'static str,
    /// Whom it concerns.
    pub needs: Needs,
}
