//! The table of all rules, and docs/doctor.md made from it.

use crate::rule::Rule;
use crate::{card_judge, firewall, interrupts, limits, losses, memory, path, processor, sockets};

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
