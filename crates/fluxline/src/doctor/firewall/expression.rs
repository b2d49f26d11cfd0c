//! The parts of a rule: each loads, compares, decides or counts.
//!
//! Source: <linux/netfilter/nf_tables.h>, x_tables.h, xt_tcpudp.h, xt_conntrack.h, xt_multiport.h,
//! xt_CT.h. What is not read here is `Unclear`: nobody may take it for harmless.

use super::attribute::{each, find, number, text};

/// First byte of a register in the 64 byte that all of them are.
pub(super) type Register = usize;

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This chain's end: the next hook's turn.
    Accept,
    /// Gone in silence.
    Drop,
    /// Gone, and the sender is told.
    Reject,
    /// To another port, host or program.
    Elsewhere,
    /// The next rule's turn.
    Next,
    /// Another chain, then the next rule.
    Jump(String),
    /// Another chain instead of the rest of this one.
    Goto(String),
    /// The rest of the calling chain.
    Return,
}

/// Which bytes of a packet are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Network,
    Transport,
    Other,
}

/// How two values are compared; as bytes, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One part of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads bytes of the packet.
    Payload { head: Head, offset: usize, length: usize, to: Register },
    /// Loads something about the packet (`NFT_META_…`).
    Meta { key: u32, to: Register },
    /// Loads something about its connection (`NFT_CT_…`).
    Connection { key: u32, to: Register },
    /// Loads how the packet's destination is routed (`RTN_…`).
    DestinationType { to: Register },
    /// Loads a constant.
    Constant { value: Vec<u8>, to: Register },
    /// Loads what cannot be known before the packet is there.
    Unknown { what: &'static str, to: Register },
    /// Goes on where it is so.
    Compare { from: Register, how: Comparison, value: Vec<u8> },
    /// Goes on where it lies in between, or with `outside` where not.
    Range { from: Register, outside: bool, low: Vec<u8>, high: Vec<u8> },
    /// `(register & mask) ^ flip`.
    Bits { from: Register, to: Register, mask: Vec<u8>, flip: Vec<u8> },
    /// Turns the bytes of each number round, where the host has the lowest first.
    Turn { from: Register, to: Register, length: usize, size: usize },
    /// Goes on where the set has it, or with `absent` where not; loads what it maps to.
    Lookup { set: String, from: Register, absent: bool, to: Option<Register> },
    /// The state of the connection is one of these bits (`NF_CT_STATE_BIT`), or with `none` not.
    State { bits: u32, none: bool },
    /// The port that it is sent to lies in one of these ranges, or with `outside` in none.
    Port { ranges: Vec<(u16, u16)>, outside: bool },
    /// No datagram gets any further in this rule.
    Never,
    /// Takes it out of connection tracking.
    Untracked,
    /// Decides.
    Decide(Verdict),
    /// Counts, logs, marks: the packet goes on.
    Nothing,
    /// Whether it goes on depends on something that is not known before.
    Depends(&'static str),
    /// Cannot be read.
    Unclear(String),
}

/// Whether the rule uses connection tracking, which makes the kernel track.
pub(super) fn uses_tracking(expressions: &[Expression]) -> bool {
    let uses = |of: &Expression| {
        matches!(of, Expression::Connection { .. } | Expression::State { .. })
            || matches!(of, Expression::Decide(Verdict::Elsewhere))
    };
    expressions.iter().any(uses)
}

/// A register's first byte, by its number: 1 to 4 are 16 byte long, from 8 on 4 byte.
fn register(number: u32) -> Option<Register> {
    match number {
        1..=4 => Some((number as usize - 1) * 16),
        8..=23 => Some((number as usize - 8) * 4),
        _ => None,
    }
}

/// The expressions of a rule's list.
pub(super) fn expressions(list: &[u8]) -> Vec<Expression> {
    let one = |(_, element): (u16, &[u8])| {
        let name = text(element, 1).unwrap_or_default();
        let data = find(element, 2).unwrap_or_default();
        expression(&name, data).unwrap_or(Expression::Unclear(format!("`{name}`")))
    };
    each(list).map(one).collect()
}

/// One expression by its name; none where it lacks something or has more than is known.
fn expression(name: &str, data: &[u8]) -> Option<Expression> {
    let to = |kind| register(number(data, kind)?);
    let unknown = |what, kind| Some(Expression::Unknown { what, to: to(kind)? });
    match name {
        "payload" => payload(data),
        "meta" if find(data, 3).is_some() => Some(Expression::Nothing),
        "meta" => Some(Expression::Meta { key: number(data, 2)?, to: to(1)? }),
        "ct" if find(data, 4).is_some() => Some(Expression::Nothing),
        "ct" if find(data, 3).is_some() => unknown("its connection", 1),
        "ct" => Some(Expression::Connection { key: number(data, 2)?, to: to(1)? }),
        "fib" => fib(data),
        "immediate" => immediate(data),
        "cmp" => compare(data),
        "range" => Some(Expression::Range {
            from: to(1)?,
            outside: number(data, 2)? == 1,
            low: value(find(data, 3)?)?,
            high: value(find(data, 4)?)?,
        }),
        "bitwise" => bits(data),
        "byteorder" => Some(Expression::Turn {
            from: to(1)?,
            to: to(2)?,
            length: number(data, 4)? as usize,
            size: number(data, 5).filter(|size| [2, 4, 8].contains(size))? as usize,
        }),
        "lookup" => Some(Expression::Lookup {
            set: text(data, 1)?,
            from: to(2)?,
            absent: number(data, 5).unwrap_or(0) & 1 == 1,
            to: match number(data, 3) {
                None => None,
                // The register of verdicts is marked as one behind the others.
                Some(0) => Some(VERDICT),
                Some(number) => Some(register(number)?),
            },
        }),
        "counter" | "log" | "last" => Some(Expression::Nothing),
        "notrack" => Some(Expression::Untracked),
        "reject" => Some(Expression::Decide(Verdict::Reject)),
        "nat" | "masq" | "redir" | "tproxy" | "queue" | "fwd" | "synproxy" => {
            Some(Expression::Decide(Verdict::Elsewhere))
        }
        // A named counter counts; other named objects (quota, limit) may stop a rule.
        "objref" if number(data, 1) == Some(1) => Some(Expression::Nothing),
        "dup" => Some(Expression::Nothing),
        "limit" => Some(Expression::Depends("its rate")),
        "quota" | "objref" => Some(Expression::Depends("how much came before")),
        "connlimit" => Some(Expression::Depends("how many connections there are")),
        "dynset" => Some(Expression::Depends("what came before")),
        "numgen" => unknown("chance", 1),
        "hash" => unknown("a hash of it", 2),
        "rt" => unknown("its route", 1),
        "match" => match_of(&text(data, 1)?, find(data, 3)?),
        "target" => target(&text(data, 1)?, find(data, 3).unwrap_or_default()),
        _ => None,
    }
}

/// Where a lookup's verdict goes: behind all registers.
pub(super) const VERDICT: Register = usize::MAX;

/// `NFTA_DATA_VALUE`.
fn value(data: &[u8]) -> Option<Vec<u8>> {
    find(data, 1).map(<[u8]>::to_vec)
}

/// `NFTA_DATA_VERDICT`.
pub(super) fn verdict(data: &[u8]) -> Option<Verdict> {
    let data = find(data, 2)?;
    let chain = || text(data, 2);
    Some(match number(data, 1)?.cast_signed() {
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        -1 | -2 => Verdict::Next,
        -3 => Verdict::Jump(chain()?),
        -4 => Verdict::Goto(chain()?),
        -5 => Verdict::Return,
        // Stolen, or queued to a program, whose number is in the higher bits.
        _ => Verdict::Elsewhere,
    })
}

fn payload(data: &[u8]) -> Option<Expression> {
    // With a source register it writes into the packet.
    let to = register(number(data, 1)?)?;
    let head = match number(data, 2)? {
        1 => Head::Network,
        2 => Head::Transport,
        _ => Head::Other,
    };
    let (offset, length) = (number(data, 3)? as usize, number(data, 4)? as usize);
    Some(Expression::Payload { head, offset, length, to })
}

/// `NFT_FIB_RESULT_ADDRTYPE` of `NFTA_FIB_F_DADDR`, or something unknown.
fn fib(data: &[u8]) -> Option<Expression> {
    let to = register(number(data, 1)?)?;
    match (number(data, 2)?, number(data, 3)?) {
        (3, flags) if flags & 2 != 0 => Some(Expression::DestinationType { to }),
        _ => Some(Expression::Unknown { what: "its route", to }),
    }
}

fn immediate(data: &[u8]) -> Option<Expression> {
    let constant = find(data, 2)?;
    match number(data, 1)? {
        0 => verdict(constant).map(Expression::Decide),
        to => Some(Expression::Constant { value: value(constant)?, to: register(to)? }),
    }
}

fn compare(data: &[u8]) -> Option<Expression> {
    let how = match number(data, 2)? {
        0 => Comparison::Equal,
        1 => Comparison::Unequal,
        2 => Comparison::Less,
        3 => Comparison::LessOrEqual,
        4 => Comparison::Greater,
        5 => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let from = register(number(data, 1)?)?;
    Some(Expression::Compare { from, how, value: value(find(data, 3)?)? })
}

fn bits(data: &[u8]) -> Option<Expression> {
    // Shifts, and operations of two registers, are not read.
    if number(data, 6).unwrap_or(0) != 0 {
        return None;
    }
    Some(Expression::Bits {
        from: register(number(data, 1)?)?,
        to: register(number(data, 2)?)?,
        mask: value(find(data, 4)?)?,
        flip: value(find(data, 5)?)?,
    })
}

/// A number of two byte in the host's order, as iptables writes them.
fn short(info: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

/// A match of iptables.
fn match_of(name: &str, info: &[u8]) -> Option<Expression> {
    match name {
        "comment" => Some(Expression::Nothing),
        "tcp" | "icmp" | "icmp6" => Some(Expression::Never),
        // Source ports, destination ports, what is inverted. Source: xt_tcpudp.h, xt_udp.
        "udp" => {
            let all_sources = (short(info, 0)?, short(info, 2)?) == (0, u16::MAX);
            let inverted = *info.get(8)?;
            if !all_sources || inverted & 1 != 0 {
                return Some(Expression::Depends("the port that it is sent from"));
            }
            let ranges = vec![(short(info, 4)?, short(info, 6)?)];
            Some(Expression::Port { ranges, outside: inverted & 2 != 0 })
        }
        "multiport" => multiport(info),
        // Behind eight addresses, two times, five ports. Source: xt_conntrack.h, mtinfo2 and 3.
        "conntrack" if info.len() >= 152 => {
            let (which, inverted) = (short(info, 146)?, short(info, 148)?);
            let bits = u32::from(short(info, 150)?);
            // Bit 8 of iptables is nftables' bit 6: not tracked.
            let bits = (bits & 0x1f) | ((bits >> 8 & 1) << 6);
            (which & !0x2000 == 1).then_some(Expression::State { bits, none: inverted & 1 != 0 })
        }
        "limit" | "hashlimit" => Some(Expression::Depends("its rate")),
        "recent" | "connlimit" | "quota" => Some(Expression::Depends("what came before")),
        "statistic" => Some(Expression::Depends("chance")),
        _ => Some(Expression::Unclear(format!("the match `{name}` of iptables"))),
    }
}

/// Flags, count, fifteen ports, fifteen flags of ranges, what is inverted.
/// Source: xt_multiport.h, xt_multiport_v1.
fn multiport(info: &[u8]) -> Option<Expression> {
    if *info.first()? != 1 {
        return Some(Expression::Depends("the port that it is sent from"));
    }
    let count = usize::from(*info.get(1)?).min(15);
    let port = |index: usize| short(info, 2 + 2 * index);
    let is_range = |index: usize| info.get(32 + index).is_some_and(|flag| *flag != 0);
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < count {
        let last = if is_range(index) { index + 1 } else { index };
        ranges.push((port(index)?, port(last)?));
        index = last + 1;
    }
    Some(Expression::Port { ranges, outside: *info.get(47)? != 0 })
}

/// A target of iptables.
fn target(name: &str, info: &[u8]) -> Option<Expression> {
    match name {
        "LOG" | "NFLOG" | "MARK" | "CONNMARK" | "SECMARK" | "CONNSECMARK" | "CLASSIFY"
        | "TRACE" | "DSCP" | "TOS" | "TCPMSS" | "CHECKSUM" | "IDLETIMER" => {
            Some(Expression::Nothing)
        }
        "REJECT" => Some(Expression::Decide(Verdict::Reject)),
        "NOTRACK" => Some(Expression::Untracked),
        // XT_CT_NOTRACK. Source: xt_CT.h.
        "CT" if short(info, 0)? & 1 == 1 => Some(Expression::Untracked),
        "CT" => Some(Expression::Nothing),
        "DNAT" | "REDIRECT" | "SNAT" | "MASQUERADE" | "TPROXY" | "NFQUEUE" => {
            Some(Expression::Decide(Verdict::Elsewhere))
        }
        _ => Some(Expression::Unclear(format!("the target `{name}` of iptables"))),
    }
}
