//! The way of a readout's records to builders that may die: each partition has an owner, and its
//! records are kept until the owner has saved what it made of them.

use crate::ReadoutNode;
use crate::edges::{Offered, Outlets, Taking};
use crate::entry::read_record;
use crate::succession::{Message, Saved, partitions_to_bytes, pieces, successor_of};

use fluxline_core::planted;

/// Something that a readout should say or report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handed {
    /// A builder has gone for this reason; its keys go to the successor, or to nobody.
    Gone {
        /// The builder.
        builder: u32,
        /// The reason.
        why: String,
        /// The builder that goes on; `None`: the packets of its keys are lost from here on.
        to: Option<u32>,
    },
    /// This state of a builder is here, with its number.
    Saved {
        /// The builder.
        builder: u32,
        /// The number of the state.
        number: u64,
    },
}

/// The builders as a readout knows them.
#[derive(Debug, Default)]
struct Known {
    has_gone: bool,
    /// Bytes of a state that is coming.
    incoming: Vec<u8>,
    /// The last state that came as a whole.
    saved: Vec<u8>,
    /// Partitions in it, and the number of the first record of each that is not.
    covers: Vec<(u32, u64)>,
    /// Number of builders whose place it was asked to take, or not to take.
    moves: u32,
}

/// A builder's partitions on their way to the successor.
#[derive(Debug)]
struct Moving {
    to: u32,
    partitions: Vec<u32>,
    /// Messages before the records, the next one last.
    before: Vec<Vec<u8>>,
    /// The partition whose records are sent, by its place, and the number of the next one.
    place: usize,
    sequence: u64,
}

/// The owners of partitions, for one readout.
#[derive(Debug)]
pub struct Handover {
    /// By partition.
    owners: Vec<u32>,
    /// By partition: all was built, and the readout may forget it.
    done: Vec<bool>,
    /// By partition: packets that nobody was given.
    lost: Vec<Option<u64>>,
    builders: Vec<Known>,
    moving: Option<Moving>,
    /// Partings that wait for the one before.
    partings: Vec<(u32, String)>,
}

enum Stop {
    Full,
    Gone(u32, String),
}

impl Handover {
    /// Makes the owners of as many partitions as there are builders.
    #[must_use]
    pub fn new(builders: usize) -> Handover {
        Handover {
            owners: (0..builders as u32).collect(),
            done: vec![false; builders],
            lost: vec![None; builders],
            builders: (0..builders).map(|_| Known::default()).collect(),
            moving: None,
            partings: Vec::new(),
        }
    }

    /// Returns for each partition the packets that nobody was given; `None`: it has a builder.
    #[must_use]
    pub fn lost(&self) -> &[Option<u64>] {
        &self.lost
    }

    /// Returns true when no builder needs anything of this readout any more.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let mut all = self.done.iter().zip(&self.lost);
        self.moving.is_none() && all.all(|(done, lost)| *done || lost.is_some())
    }

    /// Takes a builder that never came for gone.
    pub fn give_up(&mut self, builder: u32) {
        self.partings.push((builder, "it never came".to_owned()));
    }

    /// Asks builders that are not done whether they live: pushing finds out.
    pub fn ask(&mut self, outlets: &mut impl Outlets) {
        let alive = Message::Alive.to_bytes();
        for builder in 0..self.builders.len() as u32 {
            let is_asked = !self.builders[builder as usize].has_gone && !self.is_done_with(builder);
            if is_asked && let Offered::Gone(why) = outlets.offer(builder, &alive) {
                self.partings.push((builder, why));
            }
        }
    }

    fn is_done_with(&self, builder: u32) -> bool {
        let mut its = self.owners.iter().zip(&self.done).filter(|of| *of.0 == builder);
        its.all(|(_, done)| *done)
    }

    /// Gives waiting records to the owners of their partitions, as far as these have room, and
    /// hears what builders have saved.
    pub fn hand_over(
        &mut self,
        node: &mut ReadoutNode,
        outlets: &mut impl Outlets,
        say: &mut dyn FnMut(Handed),
    ) {
        self.listen(node, outlets, say);
        loop {
            // A readout that crashed reaches nobody: that says nothing about the builders.
            let has_crashed = outlets.has_crashed();
            if has_crashed {
                self.lost.iter_mut().for_each(|lost| *lost = lost.or(Some(0)));
                (self.moving, self.partings) = (None, Vec::new());
            }
            if self.moving.is_some() {
                match self.go_on_moving(node, outlets) {
                    Ok(()) => self.moving = None,
                    Err(Stop::Full) => break,
                    Err(Stop::Gone(builder, why)) => {
                        self.moving = None;
                        self.partings.push((builder, why));
                    }
                }
                continue;
            }
            if let Some((builder, why)) = self.partings.pop() {
                self.part(builder, why, node, say);
                continue;
            }
            match node.hand_over(|to, record| self.offer(to, record, outlets)) {
                Ok(()) | Err(Stop::Full) => break,
                Err(Stop::Gone(builder, why)) => self.partings.push((builder, why)),
            }
        }
        outlets.progress();
    }

    fn offer(&mut self, to: u32, record: &[u8], outlets: &mut impl Outlets) -> Result<(), Stop> {
        let partition = to as usize;
        if let Some(lost) = &mut self.lost[partition] {
            let head = read_record(record).map(|(head, _)| head);
            *lost += head.map_or(0, |head| u64::from(head.packets));
            return Ok(());
        }
        let owner = self.owners[partition];
        let offered = match owner == to {
            true => outlets.offer(owner, record),
            false => outlets.offer(owner, &Message::Record(to, record).to_bytes()),
        };
        match offered {
            Offered::Taken => Ok(()),
            Offered::Full => Err(Stop::Full),
            Offered::Gone(_) if outlets.has_crashed() => Err(Stop::Full),
            Offered::Gone(why) => Err(Stop::Gone(owner, why)),
        }
    }

    /// Hears all builders.
    fn listen(
        &mut self,
        node: &mut ReadoutNode,
        outlets: &mut impl Outlets,
        say: &mut dyn FnMut(Handed),
    ) {
        for builder in 0..self.builders.len() as u32 {
            while let Taking::Record(bytes) = outlets.hear(builder) {
                if self.builders[builder as usize].has_gone {
                    continue; // it was replaced: what it saves has no effect
                }
                match Message::parse(&bytes) {
                    Some(Message::Piece(bytes)) => {
                        self.builders[builder as usize].incoming.extend_from_slice(bytes);
                    }
                    Some(Message::Saved) => {
                        let number = self.saved(builder, node);
                        number.into_iter().for_each(|number| {
                            say(Handed::Saved { builder, number });
                        });
                    }
                    Some(Message::Depose(of))
                        if self.builders.get(of as usize).is_some_and(|of| !of.has_gone) =>
                    {
                        let why = format!("builder-{builder} takes over from it");
                        self.partings.push((of, why));
                    }
                    Some(Message::Done(moves))
                        if moves == self.builders[builder as usize].moves =>
                    {
                        let its = self.owners.iter().zip(&mut self.done);
                        its.filter(|of| *of.0 == builder).for_each(|(_, done)| *done = true);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Takes a state that has come as a whole, and frees the records in it; returns its number.
    fn saved(&mut self, builder: u32, node: &mut ReadoutNode) -> Option<u64> {
        let of = &mut self.builders[builder as usize];
        of.saved = std::mem::take(&mut of.incoming);
        let saved = Saved::parse(&of.saved)?;
        of.covers.clear();
        for its in &saved.partitions {
            let reached = its.reached.get(usize::from(node.number())).copied().unwrap_or(0);
            of.covers.push((its.partition, reached));
            let is_its = self.owners.get(its.partition as usize) == Some(&builder);
            let reached = if planted!(32) { reached + 1 } else { reached };
            if is_its {
                node.free_kept(its.partition, reached);
            }
        }
        Some(saved.number)
    }

    /// Gives the partitions of a builder that has gone to its successor, if there is one that can
    /// go on.
    fn part(&mut self, builder: u32, why: String, node: &ReadoutNode, say: &mut dyn FnMut(Handed)) {
        if std::mem::replace(&mut self.builders[builder as usize].has_gone, true) {
            return;
        }
        let is_its = |partition: &u32| {
            let place = *partition as usize;
            self.owners[place] == builder && !self.done[place]
        };
        let partitions: Vec<u32> = (0..self.owners.len() as u32).filter(is_its).collect();
        if partitions.is_empty() {
            return;
        }
        let of = &self.builders[builder as usize];
        // A partition that it had from another one and has not saved cannot be begun anew.
        let can_go_on = partitions.iter().all(|its| {
            let saved = of.covers.iter().find(|saved| saved.0 == *its);
            let is_first = *its == builder && node.kept_from(*its, 0).is_none_or(|of| of.0 == 0);
            saved.map_or(is_first, |saved| node.can_go_on(*its, saved.1))
        });
        let successor = successor_of(builder, self.builders.len() as u32);
        let living = successor.filter(|to| !self.builders[*to as usize].has_gone);
        let to = living.filter(|_| can_go_on);
        say(Handed::Gone { builder, why, to });
        match to {
            None => {
                for partition in &partitions {
                    self.lost[*partition as usize].get_or_insert(0);
                }
            }
            Some(to) => {
                partitions.iter().for_each(|partition| self.owners[*partition as usize] = to);
            }
        }
        let Some(to) = living else { return };
        let last = match can_go_on {
            true => Message::Move(builder, &partitions_to_bytes(&partitions)).to_bytes(),
            false => Message::Leave(builder).to_bytes(),
        };
        let mut before = vec![last];
        let saved = &self.builders[builder as usize].saved;
        if can_go_on && !saved.is_empty() {
            before.push(Message::Saved.to_bytes());
            before.extend(pieces(saved).rev().map(|piece| piece.to_bytes()));
        }
        self.builders[to as usize].moves += 1;
        let partitions = if can_go_on { partitions } else { Vec::new() };
        self.moving = Some(Moving { to, partitions, before, place: 0, sequence: 0 });
    }

    /// Sends what a successor needs, as far as it has room.
    fn go_on_moving(&mut self, node: &ReadoutNode, outlets: &mut impl Outlets) -> Result<(), Stop> {
        let Some(moving) = &mut self.moving else { return Ok(()) };
        let to = moving.to;
        let mut send = |message: &[u8]| match outlets.offer(to, message) {
            Offered::Taken => Ok(()),
            Offered::Full => Err(Stop::Full),
            Offered::Gone(_) if outlets.has_crashed() => Err(Stop::Full),
            Offered::Gone(why) => Err(Stop::Gone(to, why)),
        };
        while let Some(message) = moving.before.last() {
            send(message)?;
            moving.before.pop();
        }
        while let Some(partition) = moving.partitions.get(moving.place) {
            let Some((sequence, record)) = node.kept_from(*partition, moving.sequence) else {
                (moving.place, moving.sequence) = (moving.place + 1, 0);
                continue;
            };
            send(&Message::Record(*partition, record).to_bytes())?;
            moving.sequence = sequence + 1;
        }
        Ok(())
    }
}
