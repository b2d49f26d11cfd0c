//! Finds settings of this host that lose packets or add latency, says what each does to an
//! experiment, and changes or restores them.
//!
//! Kernel defaults are made for web servers, not for boards that push at line rate and never
//! repeat. Each check compares one fact with what a DAQ wants. Reading ([`HostFacts::read`]) and
//! judging ([`HostFacts::judge`]) are apart, so that judging is tested on the facts of any host.
//! Nothing is changed but by [`apply`], which writes down what it found, so that [`undo`] can bring
//! it back. docs/doctor.md has all checks; it is made from the rows in the code ([`table()`]).

mod assume;
mod card;
mod card_judge;
mod check;
mod concern;
mod experiment;
mod facts;
mod files;
mod firewall;
mod interrupts;
mod journal;
mod limits;
mod load;
mod losses;
mod memory;
mod mend;
mod path;
mod processor;
mod rule;
mod rules;
mod setting;
mod sockets;
mod softnet;
mod text;
mod through;

pub use card::{Card, InUse};
pub use check::{Check, Verdict};
pub use experiment::{Stated, load_of};
pub use facts::HostFacts;
pub use files::Files;
pub use firewall::{Firewall, Ruleset};
pub use interrupts::{Interrupt, Interrupts};
pub use journal::{Changed, Journal, JournalError};
pub use limits::Limits;
pub use load::{Link, Load, Stream};
pub use losses::Losses;
pub use memory::Memory;
pub use mend::{Outcome, Step, apply, plan, undo};
pub use path::Paths;
pub use processor::{IdleState, Processor};
pub use rule::{Needs, Rule};
pub use rules::{rules, table};
pub use setting::{Action, Setting, Settings};
pub use sockets::Sockets;
pub use softnet::Softnet;
pub use through::{Coalescing, Driver, Passage, Through, interrupts_of};

use fluxline::host;

/// The default file of recorded changes.
pub const STATE_FILE: &str = "/var/lib/fluxline/doctor.state";

/// One line of [`document`]: plain text, for programs that store the host's state with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of the check.
    pub name: String,
    /// The value found, with unit.
    pub found: String,
    /// The value wanted, with unit.
    pub wanted: String,
    /// `good`, `warn` or `bad`.
    pub verdict: &'static str,
    /// The command that mends it; none where it is good or no command helps.
    pub remedy: Option<String>,
}

/// Reads this host and judges it, worst first. Cost: some hundred small files.
#[must_use]
pub fn checks() -> Vec<Check> {
    HostFacts::read(&Files::this_host(), None).judge(None)
}

/// This host as rows, worst first: what a benchmark puts down beside its numbers. Of what the
/// measured link does not go through nothing is said. Cost: as [`checks`].
#[must_use]
pub fn document(through: &Through) -> Vec<Row> {
    let mut facts = HostFacts::read(&Files::this_host(), None);
    through.narrow(&mut facts);
    rows(through, facts.judge(None))
}

fn rows(through: &Through, checks: Vec<Check>) -> Vec<Row> {
    let row = |check: Check| Row {
        name: check.name,
        found: check.found,
        wanted: check.wanted,
        verdict: check.verdict.word(),
        remedy: check.remedy,
    };
    checks.into_iter().filter(|check| through.concerns(check)).map(row).collect()
}

/// Tells one start of the host from another; empty where it is not shown.
#[must_use]
pub fn boot_of(files: &Files) -> String {
    let text = files.text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.split_whitespace().collect()
}

/// Returns true if this process acts as root, which changes need.
#[must_use]
pub fn is_root() -> bool {
    host::is_root()
}

#[cfg(test)]
mod tests;
