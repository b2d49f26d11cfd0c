//! The plainest of links: a fixed delay, and losses from a seed. Tests and timing by hand use it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fluxline_core::random::Draw;

use crate::Duration;
use crate::core::agenda::Schedule;
use crate::core::fault::FaultKind;
use crate::core::interconnect::{Class, Interconnect, Refused, Report, SendId};

/// A frame with its receiver; any content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel<T> {
    /// The receiver; a node that does not exist loses the frame.
    pub to: u32,
    /// The queue at the receiver.
    pub class: Class,
    /// The content.
    pub content: T,
}

/// An entry of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The frame is there.
    Arrive(u64),
    /// Its echo is back.
    Echo(u64),
    /// It is known that it will not come.
    Lose(u64),
}

#[derive(Debug)]
struct Flight<T> {
    from: u32,
    parcel: Option<Parcel<T>>,
}

/// All nodes of one link.
#[derive(Debug)]
pub struct PlainLink<T> {
    delay: Duration,
    loss: f64,
    draw: Draw,
    flights: BTreeMap<u64, Flight<T>>,
    number: u64,
    /// The arrived frames of each node, by class.
    inbox: Vec<[VecDeque<Parcel<T>>; 2]>,
    cut_off: BTreeSet<u32>,
    reports: VecDeque<Report>,
}

impl<T> PlainLink<T> {
    /// A link between `nodes` nodes; `loss` is the chance of each frame and each echo.
    #[must_use]
    pub fn new(nodes: u32, delay: Duration, loss: f64, seed: u64) -> PlainLink<T> {
        PlainLink {
            delay,
            loss,
            draw: Draw::new(seed),
            flights: BTreeMap::new(),
            number: 0,
            inbox: (0..nodes).map(|_| [const { VecDeque::new() }; 2]).collect(),
            cut_off: BTreeSet::new(),
            reports: VecDeque::new(),
        }
    }
}

impl<T> Interconnect for PlainLink<T> {
    type Frame = Parcel<T>;
    type Entry = Entry;

    fn nodes(&self) -> u32 {
        self.inbox.len() as u32
    }

    fn send(
        &mut self,
        from: u32,
        parcel: Parcel<T>,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<Parcel<T>>> {
        self.number += 1;
        let number = self.number;
        let is_cut = |node: &u32| self.cut_off.contains(node);
        let arrives = parcel.to < self.nodes() && !is_cut(&parcel.to) && !is_cut(&from);
        let (there, back) = (self.draw.chance(self.loss), self.draw.chance(self.loss));
        let twice = self.delay + self.delay;
        let parcel = (arrives && !there).then_some(parcel);
        if parcel.is_some() {
            agenda.schedule_after(self.delay, Entry::Arrive(number));
        }
        let is_echoed = parcel.is_some() && !back;
        let end = if is_echoed { Entry::Echo(number) } else { Entry::Lose(number) };
        agenda.schedule_after(twice, end);
        self.flights.insert(number, Flight { from, parcel });
        Ok(SendId(number))
    }

    fn handle(&mut self, entry: Entry, _: &mut impl Schedule<Entry>) {
        let report = match entry {
            Entry::Arrive(number) => {
                let flight = self.flights.get_mut(&number);
                let Some(parcel) = flight.and_then(|flight| flight.parcel.take()) else { return };
                let (node, class) = (parcel.to, parcel.class);
                self.inbox[node as usize][class as usize].push_back(parcel);
                Report::Received { node, class }
            }
            Entry::Echo(number) | Entry::Lose(number) => {
                let Some(flight) = self.flights.remove(&number) else { return };
                let (node, send) = (flight.from, SendId(number));
                match entry {
                    Entry::Echo(_) => Report::Done { node, send },
                    _ => Report::Lost { node, send },
                }
            }
        };
        self.reports.push_back(report);
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, class: Class, _: &mut impl Schedule<Entry>) -> Option<Parcel<T>> {
        self.inbox[node as usize][class as usize].pop_front()
    }

    /// Cuts a node off, or joins it again; the link has no parts.
    fn fault(&mut self, kind: FaultKind, _: &mut impl Schedule<Entry>) -> bool {
        match kind {
            FaultKind::Power(node) | FaultKind::Cable(node) => self.cut_off.insert(node),
            FaultKind::Repair(node) | FaultKind::Restart(node) => self.cut_off.remove(&node),
            FaultKind::Host(_) | FaultKind::CutLink { .. } | FaultKind::MendLink { .. } => {
                return false;
            }
        };
        true
    }

    fn conserve(&self) -> Result<(), String> {
        Ok(())
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        0
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Arrive(_) => 0x40,
            Entry::Echo(_) => 0x41,
            Entry::Lose(_) => 0x42,
        }
    }
}
