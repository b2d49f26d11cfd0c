//! What becomes of a datagram: the rules on its way are asked as the kernel does.
//!
//! What is not known of it makes a rule's answer unknown; such a rule is noted, and the walk goes
//! on as if it had not matched. Source: net/netfilter/nf_tables_core.c, nft_do_chain.

use std::cmp::Ordering;
use std::fmt;

use super::expression::{Comparison, Expression, Register, VERDICT, Verdict};
use super::packet::{Cell, Datagram, Registers, STATE_NEW, STATE_UNTRACKED};
use super::ruleset::{Chain, Element, Hook, Key, Rule, Ruleset, Set};

/// Deepest nesting of jumps. Source: NFT_JUMP_STACK_SIZE.
const JUMPS_MAX: usize = 16;
/// Most rules that are asked for one datagram; loops of chains cannot be, but lists may lie.
const RULES_MAX: u64 = 100_000;
/// Connection tracking looks at a packet here; earlier chains can take it out.
/// Source: NF_IP_PRI_CONNTRACK of <linux/netfilter_ipv4.h>.
const PRIORITY_TRACKING: i32 = -200;

/// A rule, or the policy of a chain, by which something happens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The chain of the hook through which the walk came there.
    pub(super) base: Key,
    chain: Key,
    /// None: the policy.
    handle: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle {
            Some(handle) => write!(out, "rule {handle} of {}", chain_name(&self.chain)),
            None => write!(out, "the policy of {}", chain_name(&self.chain)),
        }
    }
}

/// As `nft` writes it: `inet filter input`.
pub(super) fn chain_name((family, table, chain): &Key) -> String {
    let family = match family {
        1 => "inet",
        2 => "ip",
        5 => "netdev",
        10 => "ip6",
        _ => "other",
    };
    format!("{family} {table} {chain}")
}

/// How a packet leaves the way to its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Accepted,
    Dropped,
    Refused,
    Elsewhere,
}

/// Something that a rule may do: it depends on what is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Perhaps {
    pub(super) end: End,
    pub(super) place: Place,
    /// On what: `the sender's address`; or what of the rule was not understood.
    pub(super) on: Vec<String>,
}

/// What becomes of a datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// It does not arrive, and by what; where `perhaps` holds accepting rules, some may.
    pub(super) lost: Option<(End, Option<Place>)>,
    /// Rules that may decide otherwise.
    pub(super) perhaps: Vec<Perhaps>,
    /// A rule takes it out of connection tracking.
    pub(super) untracked: bool,
    /// Rules that look at it.
    pub(super) asked: u64,
}

/// How a rule or a chain went.
enum Flow {
    Next,
    Return,
    End(End, Place),
}

/// Whether a rule's condition holds.
enum Answer {
    Yes,
    No,
    Depends(String),
}

struct Walk<'a> {
    rules: &'a Ruleset,
    datagram: &'a Datagram,
    fate: Fate,
    base: &'a Key,
    priority: i32,
}

/// Asks the rules on the way of a datagram that comes from outside to a socket of this host.
pub(super) fn fate(rules: &Ruleset, datagram: &Datagram) -> Fate {
    let mut way: Vec<(&Key, &Chain, &Hook)> = rules
        .chains
        .iter()
        .filter_map(|(key, chain)| Some((key, chain, chain.hook.as_ref()?)))
        .filter(|(key, _, hook)| stage(key.0, hook, datagram).is_some())
        .collect();
    way.sort_by_key(|(key, _, hook)| (stage(key.0, hook, datagram), hook.priority));
    let Some((base, _, _)) = way.first() else { return Fate::default() };
    let mut walk = Walk { rules, datagram, fate: Fate::default(), base, priority: 0 };
    for (key, chain, hook) in way {
        (walk.base, walk.priority) = (key, hook.priority);
        if walk.base_chain(key, chain, hook) {
            break;
        }
    }
    walk.fate
}

/// The place of a hook on the way of a datagram; none where it does not come by.
fn stage(family: u8, hook: &Hook, datagram: &Datagram) -> Option<u8> {
    let own = if datagram.is_v6 { 10 } else { 2 };
    let is_here = hook.interfaces.is_empty() || hook.interfaces.contains(&datagram.interface);
    match (family, hook.number) {
        // NF_NETDEV_INGRESS; NF_INET_INGRESS.
        (5, 0) | (1, 5) if is_here => Some(0),
        // NF_INET_PRE_ROUTING, NF_INET_LOCAL_IN.
        (family, 0) if family == 1 || family == own => Some(1),
        (family, 1) if family == 1 || family == own => Some(2),
        _ => None,
    }
}

impl Walk<'_> {
    /// Asks the chain of a hook; whether the packet is surely lost there.
    fn base_chain(&mut self, key: &Key, chain: &Chain, hook: &Hook) -> bool {
        let before = self.fate.perhaps.len();
        let end = match self.chain(key, chain, 0) {
            Flow::End(end, place) => (end, place),
            _ if hook.drops => (End::Dropped, self.place(key, None)),
            _ => (End::Accepted, self.place(key, None)),
        };
        let (end, place) = end;
        let is_lost = end != End::Accepted;
        // Rules that would have decided the same change nothing.
        let same = |perhaps: &Perhaps| (perhaps.end != End::Accepted) == is_lost;
        let tail: Vec<Perhaps> = self.fate.perhaps.drain(before..).filter(|of| !same(of)).collect();
        let may_pass = is_lost && !tail.is_empty();
        self.fate.perhaps.extend(tail);
        if is_lost && self.fate.lost.is_none() {
            self.fate.lost = Some((end, Some(place)));
        }
        is_lost && !may_pass
    }

    fn place(&self, chain: &Key, handle: Option<u64>) -> Place {
        Place { base: self.base.clone(), chain: chain.clone(), handle }
    }

    fn chain(&mut self, key: &Key, chain: &Chain, depth: usize) -> Flow {
        // From a rule on that may have returned, nothing is sure.
        let mut unsure: Vec<String> = Vec::new();
        for rule in &chain.rules {
            self.fate.asked += 1;
            if self.fate.asked > RULES_MAX || depth > JUMPS_MAX {
                let on = vec!["not understood: chains without an end".to_owned()];
                self.note(End::Dropped, self.place(key, Some(rule.handle)), on);
                return Flow::Next;
            }
            let (verdicts, mut on) = self.rule(rule);
            on.extend(unsure.iter().cloned());
            for verdict in verdicts {
                if on.is_empty() {
                    match self.follow(key, rule, verdict, depth) {
                        Flow::Next => {}
                        flow => return flow,
                    }
                    continue;
                }
                match self.follow(key, rule, verdict, depth) {
                    Flow::Next => {}
                    Flow::Return => unsure.clone_from(&on),
                    Flow::End(end, place) => self.note(end, place, on.clone()),
                }
            }
        }
        Flow::Next
    }

    fn note(&mut self, end: End, place: Place, on: Vec<String>) {
        self.fate.perhaps.push(Perhaps { end, place, on });
    }

    /// Does what a rule decided.
    fn follow(&mut self, key: &Key, rule: &Rule, verdict: Verdict, depth: usize) -> Flow {
        let end = |walk: &Self, end| Flow::End(end, walk.place(key, Some(rule.handle)));
        let (to, is_goto) = match verdict {
            Verdict::Next => return Flow::Next,
            Verdict::Return => return Flow::Return,
            Verdict::Accept => return end(self, End::Accepted),
            Verdict::Drop => return end(self, End::Dropped),
            Verdict::Reject => return end(self, End::Refused),
            Verdict::Elsewhere => return end(self, End::Elsewhere),
            Verdict::Jump(to) => (to, false),
            Verdict::Goto(to) => (to, true),
        };
        let to = (key.0, key.1.clone(), to);
        let flow = match self.rules.chains.get(&to) {
            Some(chain) => self.chain(&to, chain, depth + 1),
            None => {
                let on = vec![format!("not understood: {} is not listed", chain_name(&to))];
                self.note(End::Dropped, self.place(key, Some(rule.handle)), on);
                Flow::Next
            }
        };
        match flow {
            Flow::End(end, place) => Flow::End(end, place),
            _ if is_goto => Flow::Return,
            _ => Flow::Next,
        }
    }

    /// What a rule decides, and on what that depends; nothing where it does not match.
    fn rule(&mut self, rule: &Rule) -> (Vec<Verdict>, Vec<String>) {
        let mut registers = Registers::new();
        let mut on: Vec<String> = Vec::new();
        let mut verdicts = Vec::new();
        for expression in &rule.expressions {
            match expression {
                Expression::Decide(verdict) => verdicts.push(verdict.clone()),
                // It cannot be known what it does: it may drop.
                Expression::Unclear(what) => {
                    let on = vec![format!("not understood: {what} in rule {}", rule.handle)];
                    return (vec![Verdict::Drop, Verdict::Accept], on);
                }
                Expression::Untracked => {
                    self.fate.untracked |= on.is_empty() && self.priority < PRIORITY_TRACKING;
                }
                Expression::Lookup { set, from, absent, to } => {
                    let key = (self.base.0, self.base.1.clone(), set.clone());
                    let Some(set) = self.rules.sets.get(&key) else {
                        let what = format!("not understood: the set `{}` is not listed", key.2);
                        return (vec![Verdict::Drop, Verdict::Accept], vec![what]);
                    };
                    let (answer, found) = look_up(set, &registers, *from);
                    match to {
                        Some(VERDICT) => verdicts.extend(verdicts_of(set, &answer, found)),
                        Some(to) => registers.load(*to, &value_of(found)),
                        None => {}
                    }
                    match (answer, absent) {
                        (Answer::Depends(what), _) => on.push(what),
                        (Answer::Yes, true) | (Answer::No, false) => return (Vec::new(), on),
                        _ => {}
                    }
                }
                condition => match self.condition(condition, &mut registers) {
                    Answer::Yes => {}
                    Answer::No => return (Vec::new(), Vec::new()),
                    Answer::Depends(what) => on.push(what),
                },
            }
        }
        (verdicts, on)
    }

    fn state(&self) -> u32 {
        if self.fate.untracked { STATE_UNTRACKED } else { STATE_NEW }
    }

    /// Loads or compares.
    fn condition(&self, expression: &Expression, registers: &mut Registers) -> Answer {
        let datagram = self.datagram;
        let known = |answer: bool| if answer { Answer::Yes } else { Answer::No };
        match expression {
            Expression::Payload { head, offset, length, to } => {
                registers.load(*to, &datagram.payload(*head, *offset, *length));
            }
            Expression::Meta { key, to } => registers.load(*to, &datagram.meta(*key)),
            Expression::Connection { key: 0, to } => {
                // The first packet of a sender, and all while nobody answers, are of a new one.
                registers.load(*to, &self.state().to_ne_bytes().map(Cell::Known));
            }
            Expression::Connection { to, .. } => {
                registers.load(*to, &[Cell::Unknown("its connection"); 16]);
            }
            Expression::DestinationType { to } => {
                registers.load(*to, &datagram.destination_type());
            }
            Expression::Constant { value, to } => {
                let cells: Vec<Cell> = value.iter().copied().map(Cell::Known).collect();
                registers.load(*to, &cells);
            }
            Expression::Unknown { what, to } => registers.load(*to, &[Cell::Unknown(what); 16]),
            Expression::Compare { from, how, value } => {
                return compare(registers.read(*from, value.len()), *how, value);
            }
            Expression::Range { from, outside, low, high } => {
                let cells = registers.read(*from, low.len());
                let above = compare(cells, Comparison::GreaterOrEqual, low);
                let below = compare(cells, Comparison::LessOrEqual, high);
                return match (above, below) {
                    (Answer::No, _) | (_, Answer::No) => known(*outside),
                    (Answer::Yes, Answer::Yes) => known(!*outside),
                    (Answer::Depends(what), _) | (_, Answer::Depends(what)) => {
                        Answer::Depends(what)
                    }
                };
            }
            Expression::Bits { from, to, mask, flip } => {
                let cells = masked(registers.read(*from, mask.len()), mask, flip);
                registers.load(*to, &cells);
            }
            Expression::Turn { from, to, length, size } => {
                let mut cells = registers.read(*from, *length).to_vec();
                if cfg!(target_endian = "little") {
                    cells.chunks_mut(*size).for_each(<[Cell]>::reverse);
                }
                registers.load(*to, &cells);
            }
            Expression::State { bits, none } => return known((self.state() & bits != 0) != *none),
            Expression::Port { ranges, outside } => {
                let Some(port) = datagram.port else {
                    return Answer::Depends("the port that it is sent to".into());
                };
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&port));
                return known(inside != *outside);
            }
            Expression::Never => return Answer::No,
            Expression::Depends(what) => return Answer::Depends((*what).to_owned()),
            _ => {}
        }
        Answer::Yes
    }
}

/// The verdicts that a map may have for what was looked up.
fn verdicts_of(set: &Set, answer: &Answer, found: Option<&Element>) -> Vec<Verdict> {
    match (answer, found) {
        (Answer::Yes, found) => found.and_then(|of| of.verdict.clone()).into_iter().collect(),
        (Answer::No, _) => Vec::new(),
        (Answer::Depends(_), _) => {
            set.elements.iter().filter_map(|of| of.verdict.clone()).collect()
        }
    }
}

/// What a map has for an element; unknown where it is not known which.
fn value_of(found: Option<&Element>) -> Vec<Cell> {
    match found.and_then(|element| element.value.as_ref()) {
        Some(value) => value.iter().copied().map(Cell::Known).collect(),
        None => vec![Cell::Unknown("what a map has for it"); 16],
    }
}

/// `(cell & mask) ^ flip`; a byte of which nothing is left is known.
fn masked(cells: &[Cell], mask: &[u8], flip: &[u8]) -> Vec<Cell> {
    let flips = flip.iter().copied().chain(std::iter::repeat(0));
    let one = |((cell, mask), flip): ((&Cell, &u8), u8)| match (cell, mask) {
        (_, 0) => Cell::Known(flip),
        (Cell::Known(byte), mask) => Cell::Known((byte & mask) ^ flip),
        (Cell::Unknown(what), _) => Cell::Unknown(what),
    };
    cells.iter().zip(mask).zip(flips).map(one).collect()
}

/// Compares bytes, the highest first.
fn compare(cells: &[Cell], how: Comparison, value: &[u8]) -> Answer {
    let mut order = Ordering::Equal;
    let mut depends = None;
    for (cell, byte) in cells.iter().zip(value) {
        match cell {
            Cell::Known(known) if depends.is_none() => order = order.then(known.cmp(byte)),
            // One byte that differs makes them unequal, whatever the others are.
            Cell::Known(known) if known != byte => match how {
                Comparison::Equal => return Answer::No,
                Comparison::Unequal => return Answer::Yes,
                _ => {}
            },
            Cell::Known(_) => {}
            Cell::Unknown(_) if order != Ordering::Equal => {}
            Cell::Unknown(what) => depends = depends.or(Some(*what)),
        }
    }
    if let Some(what) = depends {
        return Answer::Depends(what.to_owned());
    }
    let holds = match how {
        Comparison::Equal => order.is_eq(),
        Comparison::Unequal => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    };
    if holds { Answer::Yes } else { Answer::No }
}

/// Whether a set has what is in the registers, and which element that is.
fn look_up<'a>(
    set: &'a Set,
    registers: &Registers,
    from: Register,
) -> (Answer, Option<&'a Element>) {
    let keys = || set.elements.iter().filter_map(|element| element.key.as_ref());
    let length = keys().map(Vec::len).max().unwrap_or(0);
    let cells = registers.read(from, length);
    let all = set.elements.iter().find(|element| element.key.is_none());
    let absent = || match all {
        Some(element) => (Answer::Yes, Some(element)),
        None if set.changes => (Answer::Depends("what came before".into()), None),
        None => (Answer::No, None),
    };
    if set.elements.iter().any(|element| element.has_second_key) {
        let what = "not understood: a set of intervals of several fields";
        return (Answer::Depends(what.into()), None);
    }
    let mut unknown = cells.iter().filter_map(|cell| match cell {
        Cell::Unknown(what) => Some(*what),
        Cell::Known(_) => None,
    });
    match (unknown.next(), set.of_intervals) {
        (Some(what), true) if length > 0 => (Answer::Depends(what.to_owned()), None),
        (Some(what), false) => {
            let possible =
                |key: &Vec<u8>| !matches!(compare(cells, Comparison::Equal, key), Answer::No);
            match keys().any(possible) {
                true => (Answer::Depends(what.to_owned()), None),
                false => absent(),
            }
        }
        (_, is_interval) => {
            let key: Vec<u8> = cells
                .iter()
                .map(|cell| match cell {
                    Cell::Known(byte) => *byte,
                    Cell::Unknown(_) => 0,
                })
                .collect();
            match element_of(set, &key, is_interval) {
                Some(element) => (Answer::Yes, Some(element)),
                None => absent(),
            }
        }
    }
}

/// The element that has that key, or whose interval has it.
fn element_of<'a>(set: &'a Set, key: &[u8], of_intervals: bool) -> Option<&'a Element> {
    let keyed = || set.elements.iter().filter_map(|of| Some((of.key.as_deref()?, of)));
    if !of_intervals {
        return keyed().find(|(other, _)| *other == key).map(|(_, element)| element);
    }
    // Where an interval ends and another begins, the beginning counts.
    let below = keyed().filter(|(begin, _)| *begin <= key);
    let last = below.max_by_key(|(begin, element)| (*begin, !element.ends));
    last.map(|(_, element)| element).filter(|element| !element.ends)
}
