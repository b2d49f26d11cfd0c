//! ATOLL as an [`Interconnect`].

use super::deadlock::Held;
use super::tap::Tap;
use super::{Cargo, Entry, Network};
use crate::core::agenda::Schedule;
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Circle, Class, Ends, Interconnect, LinkUse, Refused, Report, SendId,
};
use crate::{Duration, Instant};

/// Frames are messages. A send is done when its last symbol is at the target.
impl<C: Cargo, const LINKS: u32, const PORTS: u32> Interconnect for Network<C, LINKS, PORTS> {
    type Frame = C;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.config.wiring.hosts()
    }

    fn send(
        &mut self,
        node: u32,
        frame: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        self.queue(node, frame, agenda)
    }

    fn sending_time(&self, bytes: u32) -> Duration {
        self.zero_load(0, bytes)
    }

    fn handle(&mut self, _: Entry, agenda: &mut impl Schedule<Entry>) {
        self.do_tick(agenda);
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<C> {
        if class == Class::Response {
            return None;
        }
        self.arrived[node as usize].pop_front()
    }

    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        self.apply(kind, agenda)
    }

    fn conserve(&self) -> Result<(), String> {
        self.audit()?;
        Network::deadlock(self).map_or(Ok(()), |deadlock| Err(deadlock.to_string()))
    }

    fn deadlock(&self) -> Option<Circle> {
        let found = Network::deadlock(self)?;
        let end = |held: &Held| {
            let end =
                (held.input < LINKS).then(|| self.config.wiring.end_of(held.node, held.input));
            end.map(|end| Ends { from: end / LINKS, to: held.node })
        };
        Some(Circle {
            links: found.cycle.iter().filter_map(end).collect(),
            text: found.to_string(),
        })
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            1 => "clock of the chips",
            _ => "unknown",
        }
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        self.link_uses(now)
    }

    fn hops(&self) -> u64 {
        self.counts.hops
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        self.tap = Some(Box::new(Tap::new(dump, &self.config, PORTS)));
        true
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.tap.as_mut().map(|tap| &mut tap.dump)
    }

    fn end_dump(&mut self) -> Option<Dump> {
        self.tap.take().map(|tap| tap.dump)
    }
}
