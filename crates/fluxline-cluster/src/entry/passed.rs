//! Consecutive packets of one source that other partitions store, in a few numbers.

use fluxline_core::Moment;
use fluxline_daq::readout::{Accepted, Counted};
use fluxline_packet::{Parsed, Part};

/// Consecutive packets of one source that other partitions have.
///
/// Their packet counters count by one. Their keys step by `key_step` after each fragment: after
/// each packet, or after the last part where the roles of the first one number its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// The readout's findings about the first one.
    pub accepted: Accepted,
    /// The roles of the first one.
    pub parsed: Parsed,
    /// Time of arrival of the last one.
    pub time: Moment,
    /// Number of packets.
    pub count: u32,
    /// Step from key to key.
    pub key_step: u64,
}

impl Passed {
    /// Most packets of one value, so that no record keeps a builder busy for long.
    pub const COUNT_MAX: u32 = 1 << 16;

    /// Makes the value of one packet.
    #[must_use]
    pub fn one(accepted: &Accepted, parsed: &Parsed, time: Moment) -> Passed {
        Passed { accepted: *accepted, parsed: *parsed, time, count: 1, key_step: 0 }
    }

    /// Appends a packet if it follows the last one: the next number, and the same key or one step
    /// further, as its part says.
    pub fn extend(&mut self, accepted: &Accepted, parsed: &Parsed, time: Moment) -> bool {
        let Some(key_step) = self.step_to(parsed) else { return false };
        let follows = self.counts_on(accepted)
            && accepted.event_bits == self.accepted.event_bits
            && accepted.spill_bits == self.accepted.spill_bits
            && parsed.spill == self.parsed.spill
            && parsed.part == self.part_after(self.count)
            && self.count < Passed::COUNT_MAX;
        if follows {
            self.key_step = key_step;
            self.count += 1;
            self.time = self.time.max(time);
        }
        follows
    }

    /// Returns true when a packet's counter shows it as the next one, without a loss.
    fn counts_on(&self, accepted: &Accepted) -> bool {
        let (Some(first), Some(next)) = (self.accepted.counted, accepted.counted) else {
            return false;
        };
        next.class == first.class
            && next.restarts == first.restarts
            && next.count == first.count.wrapping_add(u64::from(self.count))
            && next.missing == 0
            && !next.reordered
    }

    /// Returns the step from key to key under which a packet with these roles is the next one.
    fn step_to(&self, parsed: &Parsed) -> Option<u64> {
        let (Some(key), Some(next)) = (self.parsed.event, parsed.event) else {
            return (self.parsed.event == parsed.event).then_some(0);
        };
        let keys = self.keys_before(self.count);
        let is_known = self.keys_before(self.count - 1) > 0;
        let step = match keys {
            1 if !is_known => next.wrapping_sub(key),
            _ => self.key_step,
        };
        let is_next = next == key.wrapping_add(step.wrapping_mul(keys));
        (is_next && step <= u64::from(u32::MAX)).then_some(step)
    }

    /// Returns the number of keys between the first packet and the one `packets` after it.
    fn keys_before(&self, packets: u32) -> u64 {
        let packets = u64::from(packets);
        match self.parsed.part {
            Part::Index { index, count } => (u64::from(index) + packets) / u64::from(count.max(1)),
            Part::Whole | Part::Bytes { .. } => packets,
        }
    }

    /// Returns the part of the packet `packets` after the first one.
    fn part_after(&self, packets: u32) -> Part {
        match self.parsed.part {
            Part::Index { index, count } => {
                let part = (u64::from(index) + u64::from(packets)) % u64::from(count.max(1));
                Part::Index { index: part as u32, count }
            }
            part @ (Part::Whole | Part::Bytes { .. }) => part,
        }
    }

    /// Returns the same packets without the first `packets`, of which there are more.
    #[must_use]
    pub fn without_first(&self, packets: u32) -> Passed {
        if packets == 0 {
            return *self;
        }
        let (accepted, parsed) = self.roles_after(packets);
        Passed { accepted, parsed, count: self.count - packets, ..*self }
    }

    /// Returns findings and roles of the packet `packets` after the first one.
    fn roles_after(&self, packets: u32) -> (Accepted, Parsed) {
        let (mut accepted, mut parsed) = (self.accepted, self.parsed);
        if packets > 0 {
            let further = self.key_step.wrapping_mul(self.keys_before(packets));
            parsed.event = parsed.event.map(|key| key.wrapping_add(further));
            parsed.part = self.part_after(packets);
            accepted.counted = accepted.counted.map(|counted| Counted {
                count: counted.count.wrapping_add(u64::from(packets)),
                missing: 0,
                reordered: false,
                ..counted
            });
        }
        (accepted, parsed)
    }

    /// Calls `each` for every packet, with its findings and roles.
    pub fn for_each(&self, mut each: impl FnMut(&Accepted, &Parsed)) {
        for packets in 0..self.count {
            let (accepted, parsed) = self.roles_after(packets);
            each(&accepted, &parsed);
        }
    }
}
