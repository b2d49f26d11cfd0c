//! Faults and repairs, at their times, for every network.

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
}

/// The forms of a fault that [`Fault::parse`] reads.
pub const FORMS: &str = "host:3@1ms, power:3@1ms, cable:3@1ms or repair:3@2ms";

impl FaultKind {
    /// Returns the node.
    #[must_use]
    pub fn node(self) -> u32 {
        match self {
            FaultKind::Host(node)
            | FaultKind::Power(node)
            | FaultKind::Cable(node)
            | FaultKind::Repair(node) => node,
        }
    }
}

impl Fault {
    /// Reads `KIND:NODE@TIME`, for example `host:3@1ms`; `None`: it has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Fault> {
        let (kind, rest) = text.split_once(':')?;
        let (node, time) = rest.split_once('@')?;
        let node = node.parse().ok()?;
        let kind = match kind {
            "host" => FaultKind::Host(node),
            "power" => FaultKind::Power(node),
            "cable" => FaultKind::Cable(node),
            "repair" => FaultKind::Repair(node),
            _ => return None,
        };
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
        for wrong in ["host:-1@1ms", "host:1@1h", "host:1@1.5ms", "host:1@99999999999999999999s"] {
            assert_eq!(Fault::parse(wrong), None, "{wrong}");
        }
    }
}
