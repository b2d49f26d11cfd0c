//! Packets that another builder stores: here only their keys and numbers count.
//!
//! Several builders may share the keys of a run. Each must know the progress and the losses of
//! every source, so each takes every packet, with the bytes or without.

use fluxline_core::{Datagram, Moment};
use fluxline_packet::Parsed;

use super::arrival::Arrival;
use super::event_id::SCOPE_ALL;
use super::line::Keyed;
use super::position::RawKey;
use super::{Builder, Mode, Scope, WINDOWS, WindowClock};
use crate::readout::Accepted;

impl Builder {
    /// Follows a packet that another builder stores. `datagram` may be without bytes.
    ///
    /// Events close by it as by [`Builder::push`]; nothing is stored or counted.
    pub fn pass(
        &mut self,
        now: Moment,
        accepted: &Accepted,
        datagram: &Datagram<'_>,
        parsed: &Parsed,
    ) {
        self.time.now = self.time.now.max(now);
        let stream = matches!(self.config.mode, Mode::Window { .. });
        let arrival = Arrival { accepted, datagram, parsed, stream };
        let spill = |bits| parsed.spill.map(|ordinal| RawKey { ordinal, bits });
        let keyed = match (self.config.mode, parsed.event) {
            (Mode::Packet, _) => return,
            (Mode::Key(scope), Some(key)) => {
                let scope = if scope == Scope::Global { SCOPE_ALL } else { accepted.source };
                let bits = accepted.event_bits;
                Some((scope, key, bits, spill(accepted.spill_bits)))
            }
            (Mode::Key(_), None) => None,
            (Mode::Window { width, clock, .. }, _) => {
                let time_ns = match clock {
                    WindowClock::Arrival => Some(datagram.time.as_ns()),
                    WindowClock::Sensor => parsed.sensor_time_ns,
                };
                let width = width.as_ns().max(1);
                time_ns.map(|ns| (SCOPE_ALL, ns - ns % width, 64, Some(WINDOWS)))
            }
        };
        match keyed {
            Some((scope, key, bits, spill)) => {
                let raw = RawKey { ordinal: self.anchor.ordinal(key), bits };
                self.locate(&arrival, scope, Keyed { raw, spill });
            }
            None => self.pass_keyless(&arrival),
        }
        self.settle(accepted.source);
    }

    /// Follows a packet without a key: its number counts.
    pub(super) fn pass_keyless(&mut self, arrival: &Arrival<'_>) {
        let Accepted { source, input, counted, .. } = *arrival.accepted;
        let clock = self.inputs.take(input, arrival.datagram.time);
        self.time.activity = self.time.now;
        let member = self.members.know(source);
        member.meet(input, arrival.datagram.time, self.time.now);
        let line = member.line(counted.map(|counted| counted.class));
        let unproven = member.unproven;
        member.lines[line].pass(counted, clock, unproven);
    }
}
