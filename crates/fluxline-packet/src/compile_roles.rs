//! The last part of compiling a packet type: which registers its roles are in.

use alloc::vec::Vec;

use super::compile::{Compiler, Cursor};
use super::expression::{Binary, Expr};
use super::instruction::{EpochPlan, FragmentPlan, Keep, ONE, Op, Register, Role, Roles, ZERO};
use super::layout::{Fragment, SourceTerm};

impl Compiler<'_> {
    /// Returns the register that holds the end of the header.
    fn header_end(&mut self) -> Register {
        let maximum = Binary::Maximum;
        match (self.cursor, self.far_end) {
            (Cursor::At(_), None) => {
                let end = self.layout.fixed_bytes.unwrap_or(self.fixed_end).max(self.fixed_end);
                self.output.constant(u64::from(end))
            }
            (cursor, far_end) => {
                let fixed = self.output.constant(u64::from(self.fixed_end));
                let mut end = fixed;
                let cursor = match cursor {
                    Cursor::In(register) => Some(register),
                    Cursor::At(_) => None,
                };
                for other in [cursor, far_end].into_iter().flatten() {
                    let to = self.fresh();
                    self.emit(Op::Binary { operator: maximum, to, left: end, right: other });
                    end = to;
                }
                end
            }
        }
    }

    fn role(&mut self, expression: Option<&Expr>) -> Role {
        match expression {
            None => Role { value: ZERO, present: ZERO },
            Some(Expr::Value(id)) => {
                Role { value: self.values[*id].unwrap_or(ZERO), present: self.present[*id] }
            }
            Some(expression) => Role { value: self.expression(expression), present: ONE },
        }
    }

    /// Emits the instructions that compute the roles; returns where each is found.
    pub fn roles(&mut self, number: u8) -> Roles {
        let packet = self.packet;
        let keep = |term| if packet.source.contains(&term) { Keep::Yes } else { Keep::No };
        let fragment = match &packet.fragment {
            Fragment::Whole => FragmentPlan::Whole,
            Fragment::Index { index, count, rule } => FragmentPlan::Index {
                index: self.expression(index),
                count: self.expression(count),
                rule: *rule,
            },
            Fragment::Bytes { offset, total, rule } => FragmentPlan::Bytes {
                offset: self.expression(offset),
                total: self.expression(total),
                rule: *rule,
            },
        };
        let time = packet.timestamp.as_ref();
        let (seconds, ticks) =
            (time.and_then(|t| t.seconds.as_ref()), time.and_then(|t| t.ticks.as_ref()));
        let has_ticks = ticks.is_some();
        let (seconds, ticks) = (self.role(seconds), self.role(ticks));
        let time_present = match time.map(|time| &time.when) {
            None => ZERO,
            Some(Some(when)) => self.expression(when),
            // Without `when`, a time stamp is there when its finest field is.
            Some(None) if has_ticks => ticks.present,
            Some(None) => seconds.present,
        };
        let epoch = time.and_then(|time| time.field_epoch.as_ref()).map(|epoch| EpochPlan {
            date: epoch.date,
            months: self.expression(&epoch.months),
            days: self.expression(&epoch.days),
        });
        let payload = &packet.payload;
        let payload_from = match &payload.from {
            Some(from) => self.expression(from),
            None => self.header_end(),
        };
        Roles {
            packet: number,
            address: keep(SourceTerm::Address),
            port: keep(SourceTerm::Port),
            terms: self.terms(number),
            sequence: self.role(packet.sequence.as_ref().map(|sequence| &sequence.value)),
            step: self.role(packet.sequence.as_ref().and_then(|its| its.step_of.as_ref())),
            event: self.role(packet.event.as_ref().map(|event| &event.key)),
            spill: self
                .role(packet.event.as_ref().and_then(|its| Some(&its.spill.as_ref()?.value))),
            taken: self.role(packet.counts.as_ref().map(|counts| &counts.taken)),
            dropped: self.role(packet.counts.as_ref().map(|counts| &counts.dropped)),
            fragment,
            seconds: seconds.value,
            ticks: ticks.value,
            ns_numerator: time.map_or(1, |time| time.ns_numerator),
            ns_denominator: time.map_or(1, |time| time.ns_denominator),
            time_present,
            epoch,
            payload_from,
            payload_length: payload.length.as_ref().map(|length| self.expression(length)),
            payload_trailer: payload.trailer.as_ref().map_or(ZERO, |t| self.expression(t)),
            payload_rule: payload.rule,
        }
    }

    /// The source terms packed into one register, the first one highest.
    fn terms(&mut self, number: u8) -> Register {
        let mut terms = Vec::new();
        for term in &self.packet.source {
            match term {
                SourceTerm::Value { value, width_bits } => {
                    terms.push((self.values[*value].unwrap_or(ZERO), *width_bits));
                }
                SourceTerm::Packet => {
                    terms.push((self.output.constant(u64::from(number)), term.width_bits()));
                }
                SourceTerm::Address | SourceTerm::Port => {}
            }
        }
        match terms.as_slice() {
            [] => ZERO,
            [(only, _)] => *only,
            [(first, _), others @ ..] => {
                let to = self.fresh();
                let mut above = *first;
                for &(from, width_bits) in others {
                    let width = u8::try_from(width_bits).unwrap_or(64);
                    self.emit(Op::Pack { to, above, from, width });
                    above = to;
                }
                to
            }
        }
    }
}
