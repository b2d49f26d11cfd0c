//! The records of a builder's ring at the actuator: decisions, and the words around them.
//!
//! A record has a head of 52 bytes, little endian, and the bytes of the decision behind it.

use fluxline_core::Moment;

/// Bytes of a record before those of the decision.
pub(crate) const HEAD_BYTES: usize = 52;

/// The kind of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The builder is there.
    Hello,
    /// A decision.
    #[default]
    Write,
    /// The builder has ended; its sequence number is the number of its decisions.
    End,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    /// Number of decisions of this builder before.
    pub sequence: u64,
    /// The event's key; `None`: a packet on its own.
    pub key: Option<u64>,
    pub generation: u32,
    /// The time at which the event was sampled, where it is known.
    pub sampled: Option<Moment>,
    pub closed: Moment,
    pub decided: Moment,
}

impl Head {
    /// Returns the record of a decision.
    pub fn record(&self, decision: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEAD_BYTES + decision.len());
        record.push(match self.kind {
            Kind::Hello => 0,
            Kind::Write => 1,
            Kind::End => 2,
        });
        record.push(u8::from(self.key.is_some()));
        record.push(u8::from(self.sampled.is_some()));
        record.push(0);
        record.extend(self.generation.to_le_bytes());
        let times = [self.sampled.unwrap_or_default(), self.closed, self.decided];
        let numbers = [self.sequence, self.key.unwrap_or(0)];
        let numbers = numbers.into_iter().chain(times.map(Moment::as_ns));
        numbers.for_each(|number| record.extend(number.to_le_bytes()));
        record.extend((decision.len() as u32).to_le_bytes());
        record.extend_from_slice(decision);
        record
    }

    /// Reads a record; `None`: it is not one.
    pub fn read(record: &[u8]) -> Option<(Head, &[u8])> {
        let (head, decision) = record.split_at_checked(HEAD_BYTES)?;
        let kind = match head[0] {
            0 => Kind::Hello,
            1 => Kind::Write,
            2 => Kind::End,
            _ => return None,
        };
        let number = |at: usize| {
            head[at..at + 8].iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
        };
        let short = |at: usize| (number(at) & 0xFFFF_FFFF) as u32;
        let time = |at| Moment::from_ns(number(at));
        let length = u32::from_le_bytes(head[48..52].try_into().ok()?);
        (decision.len() == length as usize).then_some(())?;
        let head = Head {
            kind,
            sequence: number(8),
            key: (head[1] == 1).then(|| number(16)),
            generation: short(4),
            sampled: (head[2] == 1).then(|| time(24)),
            closed: time(32),
            decided: time(40),
        };
        Some((head, decision))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_read_as_another_one_than_was_written() {
        for (key, sampled) in [(None, Some(7)), (Some(u64::MAX), None), (Some(3), Some(0))] {
            let head = Head {
                kind: Kind::Write,
                sequence: 1 << 40,
                key,
                generation: 9,
                sampled: sampled.map(Moment::from_ns),
                closed: Moment::from_ns(11),
                decided: Moment::from_ns(u64::MAX),
            };
            let record = head.record(b"open");
            assert_eq!(Head::read(&record), Some((head, &b"open"[..])));
            assert_eq!(Head::read(&record[..record.len() - 1]), None, "torn");
            assert_eq!(Head::read(&[3; 60]), None, "foreign");
        }
    }
}
