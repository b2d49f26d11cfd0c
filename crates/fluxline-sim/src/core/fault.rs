//! Faults and repairs, at their times, for every network.

use std::fmt;

use super::time::{Duration, Instant};

/// A fault or a repair, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The time.
    pub at: Instant,
    /// The fault.
    pub kind: FaultKind,
}

/// A kind of fault, with its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A machine crashes; its card passes frames on, and answers nothing.
    Host(u32),
    /// A node loses its power: it passes nothing on.
    Power(u32),
    /// The cable behind a node is pulled.
    Cable(u32),
    /// The cable behind a node is plugged in again.
    Repair(u32),
    /// A machine that crashed or lost its power starts again, with empty memory.
    Restart(u32),
    /// The link between two routers is cut, in both directions.
    CutLink {
        /// The one end.
        from: u32,
        /// The other end.
        to: u32,
    },
    /// The link between two routers works again.
    MendLink {
        /// The one end.
        from: u32,
        /// The other end.
        to: u32,
    },
}

/// The forms of a fault that [`Fault::parse`] reads.
pub const FORMS: &str = "host:3@1ms, power:3@1ms, restart:3@2ms, cable:3@1ms, repair:3@2ms, \
                         or between routers cut:3-4@1ms and mend:3-4@2ms";

impl FaultKind {
    /// Returns the node; of a link between routers its one end.
    #[must_use]
    pub fn node(self) -> u32 {
        match self {
            FaultKind::Host(node)
            | FaultKind::Power(node)
            | FaultKind::Cable(node)
            | FaultKind::Repair(node)
            | FaultKind::Restart(node)
            | FaultKind::CutLink { from: node, .. }
            | FaultKind::MendLink { from: node, .. } => node,
        }
    }

    /// Returns the largest number of a node or router that it names.
    #[must_use]
    pub fn last_node(self) -> u32 {
        match self {
            FaultKind::CutLink { from, to } | FaultKind::MendLink { from, to } => from.max(to),
            other => other.node(),
        }
    }

    /// Reads `KIND:NODE`, or `KIND:ROUTER-ROUTER`.
    fn parse(text: &str) -> Option<FaultKind> {
        let (kind, place) = text.split_once(':')?;
        if let Some((from, to)) = place.split_once('-') {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            return match kind {
                "cut" => Some(FaultKind::CutLink { from, to }),
                "mend" => Some(FaultKind::MendLink { from, to }),
                _ => None,
            };
        }
        let node = place.parse().ok()?;
        match kind {
            "host" => Some(FaultKind::Host(node)),
            "power" => Some(FaultKind::Power(node)),
            "cable" => Some(FaultKind::Cable(node)),
            "repair" => Some(FaultKind::Repair(node)),
            "restart" => Some(FaultKind::Restart(node)),
            _ => None,
        }
    }
}

/// As [`Fault::parse`] reads it.
impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Host(node) => write!(out, "host:{node}"),
            FaultKind::Power(node) => write!(out, "power:{node}"),
            FaultKind::Cable(node) => write!(out, "cable:{node}"),
            FaultKind::Repair(node) => write!(out, "repair:{node}"),
            FaultKind::Restart(node) => write!(out, "restart:{node}"),
            FaultKind::CutLink { from, to } => write!(out, "cut:{from}-{to}"),
            FaultKind::MendLink { from, to } => write!(out, "mend:{from}-{to}"),
        }
    }
}

/// As [`Fault::parse`] reads it, in the largest unit without a fraction.
impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.at.as_ps() / 1000;
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)];
        let unit = units.into_iter().find(|(_, unit)| ns > 0 && ns.is_multiple_of(*unit));
        let (unit, size) = unit.unwrap_or(("ns", 1));
        write!(out, "{}@{}{unit}", self.kind, ns / size)
    }
}

impl Fault {
    /// Reads `KIND:NODE@TIME`, for example `host:3@1ms`, or `cut:3-4@1ms` for a link; `None`: it
    /// has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Fault> {
        let (kind, time) = text.split_once('@')?;
        let kind = FaultKind::parse(kind)?;
        let digits = time.trim_end_matches(|of: char| of.is_ascii_alphabetic());
        let number: u64 = digits.parse().ok()?;
        let unit_ps: u64 = match &time[digits.len()..] {
            "ns" => 1_000,
            "us" => 1_000_000,
            "ms" => 1_000_000_000,
            "s" => 1_000_000_000_000,
            _ => return None,
        };
        let after = Duration::from_ps(number.checked_mul(unit_ps)?);
        Some(Fault { at: Instant::START + after, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind};

    #[test]
    fn a_fault_is_read_with_its_node_and_time_and_anything_else_is_not() {
        let fault = Fault::parse("cable:12@3us").expect("a fault");
        assert_eq!((fault.kind, fault.at.as_ps()), (FaultKind::Cable(12), 3_000_000));
        for wrong in ["", "host", "host:1", "host:@1ms", "host:1@", "host:1@1", "fire:1@1ms"] {
            assert_eq!(Fault::parse(wrong), None, "{wrong}");
        }
        let forms = "host:3@1ms power:3@1s restart:3@2us cable:3@1001us repair:3@7ns cut:3-4@0ns \
                     mend:3-4@2ms";
        for form in forms.split(' ') {
            assert_eq!(Fault::parse(form).map(|fault| fault.to_string()).as_deref(), Some(form));
        }
        let fault = Fault::parse("cut:3-14@2ns").expect("a fault");
        assert_eq!(fault.kind, FaultKind::CutLink { from: 3, to: 14 });
        assert_eq!((fault.kind.node(), fault.kind.last_node()), (3, 14));
        for wrong in ["cut:3@1ms", "mend:3-@1ms", "host:3-4@1ms", "cut:3-4-5@1ms"] {
            assert_eq!(Fault::parse(wrong), None, "{wrong}");
        }
        for wrong in ["host:-1@1ms", "host:1@1h", "host:1@1.5ms", "host:1@99999999999999999999s"] {
            assert_eq!(Fault::parse(wrong), None, "{wrong}");
        }
    }
}
