//! The messages by which a builder takes over from another one that has gone.
//!
//! ```text
//!   builder ──Piece…Saved──▶ every readout      what it saved: readouts free the records before
//!   readout ──Piece…Move, Record…──▶ successor  what the gone one had saved, and the records since
//!   successor ──Depose──▶ every readout         the others leave the gone one, too
//!   builder ──Done──▶ every readout             nothing is needed of the readout any more
//! ```
//!
//! The successor of a builder is the next one by number, and no other: so two never take over the
//! same partition, whatever nodes think of each other.

use crate::checkpoint::Checkpoint;
use crate::partition::PartitionBuilder;

/// The first bytes of a message; records have others.
const MAGIC: [u8; 4] = *b"FXS1";
const HEAD_BYTES: usize = MAGIC.len() + 1 + 4;
/// Bytes that a message has besides its record or piece.
pub const MESSAGE_BYTES: usize = HEAD_BYTES;
/// Most bytes of a saved state in one message.
const PIECE_BYTES: usize = 64 << 10;

/// A message on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// The next bytes of a saved state.
    Piece(&'a [u8]),
    /// All pieces of a saved state were sent.
    Saved,
    /// This builder has gone: the pieces before are what it had saved last, and records of its
    /// partitions follow from there on. The partitions are in the bytes.
    Move(u32, &'a [u8]),
    /// A record of this partition, which another builder had.
    Record(u32, &'a [u8]),
    /// This builder has gone; the sender of the message takes over.
    Depose(u32),
    /// This builder has gone, and the sender has nothing with which another could go on.
    Leave(u32),
    /// The builder has built all that came, and needs nothing of what readouts keep. The number is
    /// that of [`Message::Move`] and [`Message::Leave`] that it had from the readout.
    Done(u32),
    /// The sender lives.
    Alive,
}

impl Message<'_> {
    /// Reads a message; `None`: it is a record.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Message<'_>> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (kind, rest) = rest.split_first()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let number = u32::from_le_bytes(*number);
        Some(match kind {
            1 => Message::Piece(rest),
            2 => Message::Saved,
            3 => Message::Move(number, rest),
            4 => Message::Record(number, rest),
            5 => Message::Depose(number),
            6 => Message::Done(number),
            7 => Message::Leave(number),
            _ => Message::Alive,
        })
    }

    /// Returns the message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (kind, number, rest): (u8, u32, &[u8]) = match self {
            Message::Piece(bytes) => (1, 0, bytes),
            Message::Saved => (2, 0, &[]),
            Message::Move(number, bytes) => (3, *number, bytes),
            Message::Record(number, bytes) => (4, *number, bytes),
            Message::Depose(number) => (5, *number, &[]),
            Message::Done(number) => (6, *number, &[]),
            Message::Leave(number) => (7, *number, &[]),
            Message::Alive => (8, 0, &[]),
        };
        let mut out = Vec::with_capacity(HEAD_BYTES + rest.len());
        out.extend_from_slice(&MAGIC);
        out.push(kind);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(rest);
        out
    }
}

/// The state of all partitions of a builder at one moment: its events up to there are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Number of the state among those of its builder, from 1.
    pub number: u64,
    /// Batches in the builder's own files then; those behind them are void once it is replaced.
    pub batches: u64,
    /// Its partitions.
    pub partitions: Vec<SavedPartition>,
}

/// The state of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedPartition {
    /// The partition.
    pub partition: u32,
    /// For each readout: records that are in the state.
    pub reached: Vec<u64>,
    /// The checkpoint.
    pub state: Vec<u8>,
}

impl Saved {
    /// Saves partitions; `None`: a state is too long.
    #[must_use]
    pub fn of<'a>(
        number: u64,
        partitions: impl Iterator<Item = (u32, &'a PartitionBuilder)>,
    ) -> Option<Saved> {
        let save = |of: (u32, &PartitionBuilder)| {
            let nodes = of.1.nodes_expected() as u16;
            Some(SavedPartition {
                partition: of.0,
                reached: (0..nodes).map(|node| of.1.records_of(node, 0)).collect(),
                state: Checkpoint::of(of.1)?.bytes.to_vec(),
            })
        };
        let partitions = partitions.map(save).collect::<Option<Vec<_>>>()?;
        Some(Saved { number, batches: 0, partitions })
    }

    /// Returns its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |value: u64, out: &mut Vec<u8>| out.extend(value.to_le_bytes());
        number(self.number, &mut out);
        number(self.batches, &mut out);
        number(self.partitions.len() as u64, &mut out);
        for SavedPartition { partition, reached, state } in &self.partitions {
            number((*partition).into(), &mut out);
            number(reached.len() as u64, &mut out);
            reached.iter().for_each(|reached| number(*reached, &mut out));
            number(state.len() as u64, &mut out);
            out.extend_from_slice(state);
        }
        out
    }

    /// Reads a saved state; `None`: they are something else.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Saved> {
        let rest = &mut { bytes };
        let (own, batches, count) = (number(rest)?, number(rest)?, number(rest)?);
        let mut partitions = Vec::new();
        for _ in 0..count {
            let partition = u32::try_from(number(rest)?).ok()?;
            let mut reached = Vec::new();
            for _ in 0..number(rest)? {
                reached.push(number(rest)?);
            }
            let length = usize::try_from(number(rest)?).ok()?;
            let (state, behind) = rest.split_at_checked(length)?;
            *rest = behind;
            partitions.push(SavedPartition { partition, reached, state: state.to_vec() });
        }
        rest.is_empty().then_some(Saved { number: own, batches, partitions })
    }

    /// Returns the state of a partition.
    #[must_use]
    pub fn state_of(&self, partition: u32) -> Option<&[u8]> {
        let mut all = self.partitions.iter();
        all.find(|of| of.partition == partition).map(|of| &of.state[..])
    }
}

/// Returns the messages that carry these bytes of a saved state, without the last one.
pub fn pieces(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Message<'_>> {
    bytes.chunks(PIECE_BYTES).map(Message::Piece)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*number))
}

/// Returns the bytes of a list of partitions.
#[must_use]
pub fn partitions_to_bytes(partitions: &[u32]) -> Vec<u8> {
    partitions.iter().flat_map(|partition| partition.to_le_bytes()).collect()
}

/// Reads a list of partitions.
pub fn partitions_of(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the successor of a builder: the next one; `None`: a single builder.
#[must_use]
pub fn successor_of(builder: u32, builders: u32) -> Option<u32> {
    (builders > 1).then(|| (builder + 1) % builders)
}
