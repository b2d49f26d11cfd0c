//! The part of a builder that goes on for the builder before it: it waits until every readout that
//! lives has given it the partitions, so that all of them have left the other builder.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::checkpoint::Refused;
use crate::partition::PartitionBuilder;
use crate::succession::{Message, Saved, partitions_of};

/// Makes the builder of a partition from its saved state; without one, at the beginning.
pub type MakePartition =
    Box<dyn Fn(u32, Option<&[u8]>) -> Result<PartitionBuilder, Refused> + Send>;

/// The builder that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenOver {
    /// Its number.
    pub builder: u32,
    /// Its partitions.
    pub partitions: Vec<u32>,
    /// The number of its state that was gone on from; 0: there was none.
    pub number: u64,
    /// Batches of its files that stay valid.
    pub batches: u64,
    /// Packets in these batches, and in those of builders that it had replaced.
    pub packets: u64,
}

/// The word of a readout about the builder before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heard {
    #[default]
    Nothing,
    /// The readout has left it, and gave its partitions.
    Move,
    /// The readout cannot give them, or has ended without a word.
    Never,
    /// The readout died without a word.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The builder before this one lives.
    Idle,
    /// A readout gave its partitions; the others are waited for.
    Moving,
    /// It was replaced, or nobody can replace it.
    Decided,
}

/// The successor's part of a builder.
pub struct Heir {
    predecessor: u32,
    make: MakePartition,
    pub(crate) heard: Vec<Heard>,
    /// For each readout: bytes of a state that is coming.
    incoming: Vec<Vec<u8>>,
    /// The newest state that a readout had.
    saved: Option<Saved>,
    partitions: Vec<u32>,
    /// Records of partitions that are on their way.
    pub(crate) records: Vec<(u32, Arc<[u8]>)>,
    state: State,
    pub(crate) messages: VecDeque<Message<'static>>,
    pub(crate) taken_over: Option<TakenOver>,
    /// The builders of its partitions, until they begin.
    pub(crate) made: Vec<(u32, PartitionBuilder)>,
}

impl Heir {
    /// Makes the heir of builder number `predecessor` for this many readouts.
    #[must_use]
    pub fn new(predecessor: u32, readouts: usize, make: MakePartition) -> Heir {
        Heir {
            predecessor,
            make,
            heard: vec![Heard::Nothing; readouts],
            incoming: vec![Vec::new(); readouts],
            saved: None,
            partitions: Vec::new(),
            records: Vec::new(),
            state: State::Idle,
            messages: VecDeque::new(),
            taken_over: None,
            made: Vec::new(),
        }
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.state == State::Moving || !self.made.is_empty()
    }

    /// Keeps a record of a partition that is on its way. Of one that never comes, it is lost.
    pub(crate) fn keep(&mut self, partition: u32, record: Arc<[u8]>) {
        if self.is_moving() {
            self.records.push((partition, record));
        }
    }

    /// Hears a readout.
    pub(crate) fn hear(&mut self, lane: usize, message: Message<'_>) {
        match message {
            Message::Piece(bytes) => self.incoming[lane].extend_from_slice(bytes),
            Message::Saved => {
                let saved = Saved::parse(&std::mem::take(&mut self.incoming[lane]));
                let newest = self.saved.as_ref().map_or(0, |saved| saved.number);
                if let Some(saved) = saved.filter(|saved| saved.number > newest) {
                    self.saved = Some(saved);
                }
            }
            Message::Move(of, partitions) if of == self.predecessor => {
                self.heard[lane] = Heard::Move;
                for partition in partitions_of(partitions) {
                    if !self.partitions.contains(&partition) {
                        self.partitions.push(partition);
                    }
                }
                if self.state == State::Idle {
                    self.state = State::Moving;
                    self.messages.push_back(Message::Depose(of));
                }
            }
            Message::Leave(of) if of == self.predecessor => self.heard[lane] = Heard::Never,
            _ => {}
        }
    }

    /// Notes that the lane of a readout is over.
    pub(crate) fn end(&mut self, lane: usize, has_ended: bool) {
        if self.heard[lane] == Heard::Nothing {
            self.heard[lane] = if has_ended { Heard::Never } else { Heard::Dead };
        }
    }

    /// Makes the builders of the predecessor's partitions when nobody gives it records any more.
    pub(crate) fn decide(&mut self, has_crashed: bool) {
        if self.state != State::Moving || has_crashed {
            return;
        }
        if self.heard.contains(&Heard::Never) {
            return self.give_up();
        }
        if self.heard.contains(&Heard::Nothing) {
            return;
        }
        let mut made = Vec::new();
        for partition in &self.partitions {
            let state = self.saved.as_ref().and_then(|saved| saved.state_of(*partition));
            match (self.make)(*partition, state) {
                Ok(of) => made.push((*partition, of)),
                Err(_) => return self.give_up(),
            }
        }
        self.state = State::Decided;
        let saved = self.saved.take();
        let (number, batches) = saved.map_or((0, 0), |saved| (saved.number, saved.batches));
        self.taken_over = Some(TakenOver {
            builder: self.predecessor,
            partitions: self.partitions.clone(),
            number,
            batches,
            packets: made.iter().map(|(_, of)| of.in_batches().packets).sum(),
        });
        self.made = made;
    }

    fn give_up(&mut self) {
        self.state = State::Decided;
        self.records = Vec::new();
    }
}
