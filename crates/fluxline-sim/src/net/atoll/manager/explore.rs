//! The exploration of a network by probes.
//!
//! A probe goes to a known chip and one link further. The answer names the chip there and the port
//! by which the probe came. Each link is probed once, from the side that is known first.

use std::collections::{BTreeMap, VecDeque};

use super::letter::Found;
use super::map::{Map, MapEnd};
use super::serial::Serial;

/// The ports with a signal at a chip, and its latest notice.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// The number.
    pub serial: Serial,
    /// The ports with a signal.
    pub has_signal: [bool; 4],
    /// The number of its last notice.
    pub number: u32,
}

/// A probe that must be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its number.
    pub number: u32,
    /// The ports of its way.
    pub route: Vec<u8>,
    /// Departures, this one included.
    pub tries: u32,
}

/// A probe without an answer so far.
#[derive(Clone, Copy, Debug)]
struct Asked {
    end: MapEnd,
    tries: u32,
}

/// Probes under way at a time: more would only wait at the manager's agent. A choice.
const WINDOW: usize = 8;
/// Departures of a probe before its link counts as dead. A choice.
const TRIES: u32 = 3;

/// An exploration under way.
#[derive(Clone, Debug)]
pub struct Exploration {
    map: Map,
    /// The way to each node, by id.
    ways: BTreeMap<u32, Vec<u8>>,
    /// Link ports that must be probed.
    open: VecDeque<MapEnd>,
    asked: BTreeMap<u32, Asked>,
    next: u32,
    has_given_up: bool,
}

impl Exploration {
    /// Begins at the manager's own chip. Ids of an older map are kept; numbers of probes begin
    /// above `after`.
    #[must_use]
    pub fn new(mut map: Map, own: Chip, after: u32) -> Exploration {
        map.clear();
        let (ways, open, asked) = (BTreeMap::new(), VecDeque::new(), BTreeMap::new());
        let (next, has_given_up) = (after, false);
        let mut exploration = Exploration { map, ways, open, asked, next, has_given_up };
        exploration.meet(own, Vec::new());
        exploration
    }

    /// Adds a chip that answered for the first time.
    fn meet(&mut self, chip: Chip, way: Vec<u8>) -> u32 {
        let id = self.map.add(chip.serial);
        self.map.set_number(id, chip.number);
        self.ways.insert(id, way);
        let ports = (0..4).filter(|&port| chip.has_signal[usize::from(port)]);
        self.open.extend(ports.map(|port| MapEnd { node: id, port }));
        id
    }

    /// Returns the next probe that must be sent, if one must be now.
    pub fn next_probe(&mut self) -> Option<Probe> {
        while self.asked.len() < WINDOW {
            let end = self.open.pop_front()?;
            let is_known =
                self.map.nodes()[end.node as usize].ends[usize::from(end.port)].is_some();
            if is_known {
                continue;
            }
            self.next += 1;
            self.asked.insert(self.next, Asked { end, tries: 1 });
            return Some(self.probe(self.next, Asked { end, tries: 1 }));
        }
        None
    }

    fn probe(&self, number: u32, Asked { end, tries }: Asked) -> Probe {
        let way = self.ways.get(&end.node).into_iter().flatten().copied();
        Probe { number, route: way.chain([end.port]).collect(), tries }
    }

    /// Takes an answer. Returns false if its probe is unknown, or was answered before.
    pub fn answered(&mut self, found: &Found) -> bool {
        let Some(Asked { end, .. }) = self.asked.remove(&found.probe) else { return false };
        let Found { serial, has_signal, number, .. } = *found;
        let known = self.map.id_of(serial).filter(|id| self.ways.contains_key(id));
        let id = known.unwrap_or_else(|| {
            let route = self.probe(0, Asked { end, tries: 0 }).route;
            self.meet(Chip { serial, has_signal, number }, route)
        });
        let far = MapEnd { node: id, port: found.arrival };
        self.map.join(end, far);
        true
    }

    /// Handles a probe whose answer is overdue: returns it if it must be sent again.
    pub fn overdue(&mut self, number: u32) -> Option<Probe> {
        let asked = self.asked.get_mut(&number)?;
        asked.tries += 1;
        let asked = *asked;
        if asked.tries > TRIES {
            self.asked.remove(&number);
            self.has_given_up = true;
            return None;
        }
        Some(self.probe(number, asked))
    }

    /// Returns true if a probe was given up: its chip is silent, or the network is very busy.
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Returns the number of the last probe.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.next
    }

    /// Returns the map when every probe was answered or given up.
    #[must_use]
    pub fn finished(&self) -> Option<&Map> {
        (self.open.is_empty() && self.asked.is_empty()).then_some(&self.map)
    }
}
