//! The laws of the network: every packet is in exactly one place, and every message as well.

use super::state::FREE;
use super::wiring::NONE;
use super::{Cargo, Network};
use crate::Instant;
use crate::core::interconnect::{LinkUse, passed};

impl<C: Cargo, const LINKS: u32, const PORTS: u32> Network<C, LINKS, PORTS> {
    /// Checks the laws.
    ///
    /// # Errors
    /// The first defect.
    pub(super) fn audit(&self) -> Result<(), String> {
        if let Some(defect) = &self.defect {
            return Err(defect.clone());
        }
        let mut found = vec![0_u32; self.cargo.len()];
        let mut coming = vec![0_u32; self.inputs.len()];
        for arrival in self.slots.iter().flat_map(|slot| &slot.arrivals) {
            coming[arrival.input as usize] += 1;
            found[self.packets.get(arrival.packet).worm as usize] += 1;
        }
        for repair in self.outputs.iter().filter_map(|of| of.repair.as_ref()) {
            for &packet in repair.lost.iter().chain(&repair.ready) {
                found[self.packets.get(packet).worm as usize] += 1;
            }
        }
        for (index, input) in self.inputs.iter().enumerate() {
            let (mut next, mut fill) = (input.head, u32::from(input.leaving_bytes));
            while next != NONE {
                let packet = self.packets.get(next);
                found[packet.worm as usize] += 1;
                fill += u32::from(packet.bytes);
                next = packet.next;
            }
            let limit = if input.feeder == NONE { u32::MAX } else { self.config.fifo_bytes };
            if fill != input.fill || fill > limit || coming[index] != input.coming {
                return Err(format!("input {index}: {fill} bytes, counted {}", input.fill));
            }
        }
        let total: u32 = found.iter().sum();
        if total as usize != self.packets.len() {
            return Err(format!("{total} packets are in a place, of {}", self.packets.len()));
        }
        self.audit_worms(&found)?;
        self.audit_holders()
    }

    fn audit_worms(&self, found: &[u32]) -> Result<(), String> {
        let mut live = 0;
        for (number, worm) in self.worms.iter().enumerate() {
            let is_live = self.cargo[number].is_some();
            live += u64::from(is_live);
            if is_live && worm.packets != found[number] {
                let (count, send) = (found[number], worm.send);
                return Err(format!("send {send} has {count} packets, counted {}", worm.packets));
            }
        }
        let super::Counts { sent, delivered, lost, .. } = self.counts;
        if sent != delivered + lost + live {
            return Err(format!("{sent} sent, {delivered} delivered, {lost} lost, {live} live"));
        }
        Ok(())
    }

    fn audit_holders(&self) -> Result<(), String> {
        for (index, output) in (0..).zip(&self.outputs) {
            if output.holder == FREE {
                continue;
            }
            let input = index / PORTS * PORTS + u32::from(output.holder);
            if u32::from(self.inputs[input as usize].out) != index % PORTS {
                return Err(format!("output {index} is held by an input that does not use it"));
            }
        }
        Ok(())
    }

    /// Returns the time for which each cable direction was busy.
    pub(super) fn link_uses(&self, now: Instant) -> Vec<LinkUse> {
        let outputs = (0..).zip(&self.outputs);
        let wired =
            outputs.filter(|&(index, of): &(u32, _)| index % PORTS < LINKS && of.to != NONE);
        wired
            .map(|(index, of)| LinkUse {
                from: index / PORTS,
                to: of.to / PORTS,
                busy: passed(self.config.clock.span(of.busy), self.ticks.at(of.free_at), now),
            })
            .collect()
    }
}
