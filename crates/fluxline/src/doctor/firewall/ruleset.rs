//! The tables, chains, rules and sets of nf_tables, as the kernel lists them.

use std::collections::BTreeMap;
use std::io;

use super::attribute::{each, find, long, number, text, write};
use super::expression::{Expression, Verdict, expressions, uses_tracking, verdict};
use crate::sys::netfilter::{self, Kind, Message};

/// Messages of each kind, in the order of a file of a captured host.
pub(super) const KINDS: [(Kind, &str); 5] = [
    (Kind::Tables, "table"),
    (Kind::Chains, "chain"),
    (Kind::Rules, "rule"),
    (Kind::Sets, "set"),
    (Kind::Elements, "elements"),
];
/// How often a list is asked for that changes while it is read.
const ATTEMPTS: usize = 5;

/// Which chain, table or set: `NFPROTO_…`, the table's name, its own.
pub(super) type Key = (u8, String, String);

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// Its number in its table, as `nft -a list` writes it.
    pub(super) handle: u64,
    /// What it does, in order.
    pub(super) expressions: Vec<Expression>,
}

/// Where a chain is hooked in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hook {
    /// `NF_INET_…`, or 0 of netdev: as the packet arrives.
    pub(super) number: u32,
    /// Smaller is asked earlier.
    pub(super) priority: i32,
    /// The interfaces that it is for; empty: all.
    pub(super) interfaces: Vec<String>,
    /// What reaches its end is dropped.
    pub(super) drops: bool,
}

/// A chain of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// None: other chains jump to it.
    pub(super) hook: Option<Hook>,
    /// In the order in which they are asked.
    pub(super) rules: Vec<Rule>,
}

/// An element of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// None: stands for all that are not there.
    pub(super) key: Option<Vec<u8>>,
    /// An interval ends before this key.
    pub(super) ends: bool,
    /// It stands for several keys of several fields.
    pub(super) has_second_key: bool,
    /// What a map has for it.
    pub(super) value: Option<Vec<u8>>,
    /// What a map of verdicts has for it.
    pub(super) verdict: Option<Verdict>,
}

/// A set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Its elements are the ends of intervals (`NFT_SET_INTERVAL`).
    pub(super) of_intervals: bool,
    /// Rules put elements into it while packets come (`NFT_SET_EVAL`).
    pub(super) changes: bool,
    /// In any order.
    pub(super) elements: Vec<Element>,
}

/// All of it that is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub(super) chains: BTreeMap<Key, Chain>,
    pub(super) sets: BTreeMap<Key, Set>,
    /// Tables that are switched off.
    dormant: Vec<(u8, String)>,
}

impl Ruleset {
    /// Asks the kernel. Errors: see [`netfilter::dump`].
    pub(super) fn ask() -> io::Result<Ruleset> {
        Ok(Ruleset::of(&messages()?))
    }

    /// From the kernel's messages; what cannot be read in one is left out, but of rules nothing.
    pub(super) fn of(messages: &[(Kind, Message)]) -> Ruleset {
        let mut rules = Ruleset::default();
        for (kind, message) in messages {
            let (family, bytes) = (message.family, message.attributes.as_slice());
            let _ = match kind {
                Kind::Tables => rules.take_table(family, bytes),
                Kind::Chains => rules.take_chain(family, bytes),
                Kind::Rules => rules.take_rule(family, bytes),
                Kind::Sets => rules.take_set(family, bytes),
                Kind::Elements => rules.take_elements(family, bytes),
            };
        }
        let dormant = std::mem::take(&mut rules.dormant);
        rules.chains.retain(|(family, table, _), _| {
            !dormant.iter().any(|(of, name)| of == family && name == table)
        });
        rules
    }

    fn take_table(&mut self, family: u8, bytes: &[u8]) -> Option<()> {
        // NFTA_TABLE_FLAGS, NFT_TABLE_F_DORMANT.
        if number(bytes, 2).unwrap_or(0) & 1 == 1 {
            self.dormant.push((family, text(bytes, 1)?));
        }
        Some(())
    }

    fn take_chain(&mut self, family: u8, bytes: &[u8]) -> Option<()> {
        let chain = self.chains.entry((family, text(bytes, 1)?, text(bytes, 3)?)).or_default();
        if let Some(hook) = find(bytes, 4) {
            let names = find(hook, 4).map(|list| each(list).map(|(_, name)| name).collect());
            let names: Vec<&[u8]> = names.unwrap_or_default();
            let name =
                |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
            let mut interfaces: Vec<String> = names.into_iter().map(name).collect();
            interfaces.extend(text(hook, 3));
            interfaces.dedup();
            chain.hook = Some(Hook {
                number: number(hook, 1)?,
                priority: number(hook, 2)?.cast_signed(),
                interfaces,
                drops: number(bytes, 5) == Some(0),
            });
        }
        Some(())
    }

    fn take_rule(&mut self, family: u8, bytes: &[u8]) -> Option<()> {
        let chain = self.chains.entry((family, text(bytes, 1)?, text(bytes, 2)?)).or_default();
        let expressions = expressions(find(bytes, 4).unwrap_or_default());
        chain.rules.push(Rule { handle: long(bytes, 3).unwrap_or(0), expressions });
        Some(())
    }

    fn take_set(&mut self, family: u8, bytes: &[u8]) -> Option<()> {
        let flags = number(bytes, 3).unwrap_or(0);
        let set = self.sets.entry((family, text(bytes, 1)?, text(bytes, 2)?)).or_default();
        set.of_intervals = flags & 0x4 != 0;
        set.changes = flags & 0x20 != 0;
        Some(())
    }

    fn take_elements(&mut self, family: u8, bytes: &[u8]) -> Option<()> {
        let set = self.sets.entry((family, text(bytes, 1)?, text(bytes, 2)?)).or_default();
        for (_, element) in each(find(bytes, 3)?) {
            let flags = number(element, 3).unwrap_or(0);
            let data = find(element, 2).unwrap_or_default();
            set.elements.push(Element {
                key: find(element, 1).and_then(|key| find(key, 1)).map(<[u8]>::to_vec),
                ends: flags & 1 != 0,
                has_second_key: find(element, 10).is_some(),
                value: find(data, 1).map(<[u8]>::to_vec),
                verdict: verdict(data),
            });
        }
        Some(())
    }

    /// How many rules there are.
    pub(super) fn count(&self) -> u64 {
        self.chains.values().map(|chain| chain.rules.len() as u64).sum()
    }

    /// Whether a rule needs connection tracking, which makes the kernel track.
    pub(super) fn uses_tracking(&self) -> bool {
        let mut rules = self.chains.values().flat_map(|chain| &chain.rules);
        rules.any(|rule| uses_tracking(&rule.expressions))
    }
}

/// The kernel's messages: tables, chains, rules, sets, and of each set its elements.
pub(super) fn messages() -> io::Result<Vec<(Kind, Message)>> {
    for _ in 1..ATTEMPTS {
        match messages_once() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    messages_once()
}

fn messages_once() -> io::Result<Vec<(Kind, Message)>> {
    let mut all = Vec::new();
    for kind in [Kind::Tables, Kind::Chains, Kind::Rules, Kind::Sets] {
        all.extend(netfilter::dump(kind, 0, &[])?.into_iter().map(|message| (kind, message)));
    }
    let sets: Vec<Message> = all
        .iter()
        .filter(|(kind, _)| *kind == Kind::Sets)
        .map(|(_, message)| message.clone())
        .collect();
    for set in sets {
        let mut which = Vec::new();
        for kind in [1, 2] {
            write(kind, find(&set.attributes, kind).unwrap_or_default(), &mut which);
        }
        let elements = netfilter::dump(Kind::Elements, set.family, &which)?;
        all.extend(elements.into_iter().map(|message| (Kind::Elements, message)));
    }
    Ok(all)
}

/// The messages as text, one a line: kind, family, attributes in hexadecimal digits.
pub(super) fn to_text(messages: &[(Kind, Message)]) -> String {
    let mut text = String::new();
    for (kind, message) in messages {
        let word = KINDS.iter().find(|(of, _)| of == kind).map_or("", |(_, word)| word);
        let digits: String = message.attributes.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("{word} {} {digits}\n", message.family));
    }
    text
}

/// From [`to_text`]; none where a line is not as it writes them.
pub(super) fn from_text(text: &str) -> Option<Vec<(Kind, Message)>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let word = words.next()?;
        let (kind, _) = *KINDS.iter().find(|(_, of)| *of == word)?;
        let family = words.next()?.parse().ok()?;
        let digits = words.next()?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let attributes = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?;
        Some((kind, Message { family, attributes }))
    };
    text.lines().map(line).collect()
}
