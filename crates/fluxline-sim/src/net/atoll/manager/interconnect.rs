//! A managed network as an [`Interconnect`].

use super::entry::Task;
use super::{Cargo, Entry, Managed};
use crate::core::agenda::{Part, Schedule};
use crate::core::dump::Dump;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{
    Circle, Class, Counter, Interconnect, LinkUse, Refused, Report, SendId,
};
use crate::{Duration, Instant};

/// Frames are messages. A send is done when its receiver has acknowledged it.
impl<C: Cargo + Clone> Interconnect for Managed<C> {
    type Frame = C;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.network.nodes()
    }

    fn begin(&mut self, agenda: &mut impl Schedule<Entry>) {
        let node = self.settings.manager;
        agenda.schedule_after(Duration::ZERO, Entry::Node { node, task: Task::Begin });
    }

    fn send(
        &mut self,
        node: u32,
        frame: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        self.take_message(node, frame, agenda)
    }

    fn sending_time(&self, bytes: u32) -> Duration {
        self.network.sending_time(bytes)
    }

    fn handle(&mut self, entry: Entry, agenda: &mut impl Schedule<Entry>) {
        match entry {
            Entry::Chip(entry) => {
                self.network.handle(entry, &mut Part::<_, Entry>::of(agenda));
                self.after_chips(agenda);
            }
            Entry::Node { node, task } => self.do_task(node, task, agenda),
        }
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

    /// A deadlock is not a defect: it is removed.
    fn conserve(&self) -> Result<(), String> {
        self.network.audit()?;
        let open = self.drivers.iter().map(|driver| driver.flights.len() as u64).sum::<u64>();
        let super::Totals { taken, done, lost, .. } = self.totals;
        if taken != done + lost + open {
            return Err(format!("{taken} messages taken, {done} done, {lost} lost, {open} open"));
        }
        Ok(())
    }

    fn deadlock(&self) -> Option<Circle> {
        Interconnect::deadlock(&self.network)
    }

    fn begin_dump(&mut self, dump: Dump) -> bool {
        self.network.begin_dump(dump)
    }

    fn dump_mut(&mut self) -> Option<&mut Dump> {
        self.network.dump_mut()
    }

    fn end_dump(&mut self) -> Option<Dump> {
        self.network.end_dump()
    }

    fn kind_name(kind: u8) -> &'static str {
        match kind {
            1 => "clock of the chips",
            2 => "begin of the management",
            3 => "letter at an agent",
            4 => "greetings",
            5 => "watch over inputs",
            6 => "signal of a link",
            7 => "wake-up of an agent or manager",
            8 => "repetition",
            9 => "acknowledgement",
            _ => "unknown",
        }
    }

    fn links(&self, now: Instant) -> Vec<LinkUse> {
        self.network.links(now)
    }

    fn hops(&self) -> u64 {
        self.network.hops()
    }

    fn counters(&self) -> Vec<Counter> {
        let counts = self.management();
        let row = |name, value| Counter { name, value };
        vec![
            row("letters", counts.letters),
            row("letter_bytes", counts.letter_bytes),
            row("letters_dropped", counts.letters_dropped),
            row("hellos", counts.hellos),
            row("probes", counts.probes),
            row("questions", counts.questions),
            row("tables", counts.tables),
            row("repeated", counts.repeated),
            row("duplicates", counts.duplicates),
            row("acknowledgements", counts.acknowledgements),
            row("given_up", counts.given_up),
            row("alarms", counts.alarms),
            row("removed", counts.removed),
        ]
    }
}
