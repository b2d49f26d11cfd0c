//! What is looked at, as rows: each check of the program and each line of docs/doctor.md is one.

use super::{card_judge, firewall, interrupts, limits, losses, memory, path, processor, sockets};

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

/// All rules, by group, in the order of a packet's way.
#[must_use]
pub fn rules() -> Vec<(&'static str, &'static [&'static Rule])> {
    vec![
        ("Cards and their interfaces", card_judge::RULES),
        ("Interrupts", interrupts::RULES),
        ("The kernel's queues and socket buffers", sockets::RULES),
        ("The way to the sensors", path::RULES),
        ("Firewall and connection tracking", firewall::RULES),
        ("Losses since boot", losses::RULES),
        ("Processor and clock", processor::RULES),
        ("Memory", memory::RULES),
        ("Limits of this process", limits::RULES),
    ]
}

/// The rows as a page: docs/doctor.md holds it.
#[must_use]
pub fn table() -> String {
    let mut page = String::new();
    for (group, rules) in rules() {
        page.push_str(&format!(
            "\n### {group}\n\n| check | looks at | why | wanted | source of the limit | mended by |\n\
             | --- | --- | --- | --- | --- | --- |\n"
        ));
        for rule in rules {
            page.push_str(&format!(
                "| `{}` | {} | {} | {} | {} | {} |\n",
                rule.name, rule.title, rule.why, rule.limit, rule.source, rule.remedy
            ));
        }
    }
    page
}
