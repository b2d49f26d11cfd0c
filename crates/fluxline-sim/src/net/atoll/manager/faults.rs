//! Faults of cables, hosts and power, as the nodes notice them.

use super::super::fault::Cut;
use super::super::wiring::LINKS;
use super::entry::Task;
use super::{Cargo, Entry, Managed};
use crate::core::agenda::{Part, Schedule};
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Interconnect, Report, SendId};

impl<C: Cargo + Clone> Managed<C> {
    /// Applies a fault or a repair.
    pub(super) fn apply(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Entry>) -> bool {
        let node = kind.node();
        if node as usize >= self.is_alive.len() {
            return false;
        }
        let has_it = self.network.fault(kind, &mut Part::<_, Entry>::of(agenda));
        if matches!(kind, FaultKind::Host(_) | FaultKind::Power(_)) {
            self.stop(node);
        }
        self.after_chips(agenda);
        self.follow_signals(agenda);
        has_it || matches!(kind, FaultKind::Host(_))
    }

    /// Cuts the cable at any link port of a node, or repairs it. Returns false if there is none.
    pub fn set_cable(
        &mut self,
        node: u32,
        port: u32,
        cut: Cut,
        agenda: &mut impl Schedule<Entry>,
    ) -> bool {
        let mut part = Part::<_, Entry>::of(agenda);
        let has_cable = self.network.set_cable(node, port, cut, &mut part);
        self.after_chips(agenda);
        self.follow_signals(agenda);
        has_cable
    }

    /// Stops the software of a node. Its messages end.
    fn stop(&mut self, node: u32) {
        let index = node as usize;
        self.is_alive[index] = false;
        self.managers.remove(&node);
        let driver = std::mem::take(&mut self.drivers[index]);
        for &message in driver.flights.keys() {
            self.totals.lost += 1;
            self.reports.push_back(Report::Lost { node, send: SendId(message) });
        }
    }

    /// Lets agents notice changed signals of their links.
    fn follow_signals(&mut self, agenda: &mut impl Schedule<Entry>) {
        let signals = self.read_signals();
        let changed =
            (0..).zip(signals.iter().zip(&self.signals)).filter(|(_, (new, old))| new != old);
        let mut nodes: Vec<u32> = changed.map(|(port, _): (u32, _)| port / LINKS).collect();
        nodes.dedup();
        for node in nodes {
            let entry = Entry::Node { node, task: Task::Signal };
            agenda.schedule_after(self.settings.signal_time, entry);
        }
        self.signals = signals;
    }
}
