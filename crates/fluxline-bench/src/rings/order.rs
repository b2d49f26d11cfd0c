//! An order of the near end to the far end: a record of six words.

use super::node::LARGE_RING_BYTES;

/// Records between two publications.
pub const BATCH: u64 = 32;
/// Bursts in one measurement of a rate. A burst lasts about a millisecond; the median over bursts
/// leaves out the moments when another program has one of the two cores.
pub const BURSTS: u64 = 50;
/// Records between two checks that the other end lives, where the checks are measured.
pub const CHECK_RECORDS: u64 = 1024;
/// The size of an order \[byte\].
pub const ORDER_BYTES: usize = 48;
/// The largest record of an order \[byte\]: it must fit into the large ring four times.
const RECORD_BYTES_MAX: u64 = LARGE_RING_BYTES / 4;

/// A task of the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Ends the far end.
    End,
    /// Sends each record back.
    Echo,
    /// Answers each record with a record of its own, of the same size.
    Answer,
    /// Takes records, and replies with the sum of their first words.
    Take,
    /// Counts notifications by polling, and replies with their number.
    CountNotices,
    /// Answers each notification; waits for it by [`fluxline::shm::Shm::wait`].
    AnswerNotices,
    /// Waits `count` ms without work, and replies with the CPU time used \[ns\].
    Idle,
}

const TASKS: [Task; 7] = [
    Task::End,
    Task::Echo,
    Task::Answer,
    Task::Take,
    Task::CountNotices,
    Task::AnswerNotices,
    Task::Idle,
];

/// The push ring that carries the records, and the node that is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// 512 KiB, polled.
    Small,
    /// 8 MiB, polled.
    Large,
    /// 512 KiB with a bell; its consumer sleeps as soon as the ring is empty.
    Blocking,
    /// 512 KiB with a bell; its consumer polls for a while before it sleeps.
    Adaptive,
}

/// All kinds, in the order of the rings that the far end exports.
pub const RING_KINDS: [RingKind; 4] =
    [RingKind::Small, RingKind::Large, RingKind::Blocking, RingKind::Adaptive];

/// The part of a record that the receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Every byte.
    All,
    /// The first word.
    FirstWord,
}

/// The times at which both ends check that the other end lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checking {
    /// Every 1,024 records.
    Regularly,
    /// Only when they wait for long.
    WhenIdle,
}

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The task.
    pub task: Task,
    /// The ring that carries the records.
    pub ring: RingKind,
    /// Size of a record or put \[byte\].
    pub bytes: usize,
    /// Number of records, puts or milliseconds.
    pub count: u64,
    /// The part of a record that is read.
    pub reading: Reading,
    /// The times at which the ends check each other.
    pub checking: Checking,
}

impl Order {
    /// Orders `count` times `task` with records of that size, all bytes read, through the ring
    /// that suits the size.
    pub fn new(task: Task, bytes: usize, count: u64) -> Order {
        let ring = if bytes > 1 << 16 { RingKind::Large } else { RingKind::Small };
        let (reading, checking) = (Reading::All, Checking::WhenIdle);
        Order { task, ring, bytes, count, reading, checking }
    }

    /// Writes the order as a record.
    pub fn to_bytes(self) -> [u8; ORDER_BYTES] {
        let words = [
            self.task as u64,
            self.ring as u64,
            self.bytes as u64,
            self.count,
            u64::from(self.reading == Reading::All),
            u64::from(self.checking == Checking::Regularly),
        ];
        let mut bytes = [0; ORDER_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads an order from a record. `None`: the record is not an order, or its records would not
    /// fit into the ring.
    pub fn from_bytes(bytes: &[u8]) -> Option<Order> {
        let bytes: &[u8; ORDER_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at * 8..][..8].try_into().map_or(0, u64::from_le_bytes);
        let index = |at: usize| usize::try_from(word(at)).unwrap_or(usize::MAX);
        if word(2) > RECORD_BYTES_MAX {
            return None;
        }
        Some(Order {
            task: *TASKS.get(index(0))?,
            ring: *RING_KINDS.get(index(1))?,
            bytes: index(2),
            count: word(3),
            reading: if word(4) != 0 { Reading::All } else { Reading::FirstWord },
            checking: if word(5) != 0 { Checking::Regularly } else { Checking::WhenIdle },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given_and_garbage_is_refused() {
        for task in TASKS {
            for ring in RING_KINDS {
                let order = Order { ring, ..Order::new(task, 8, 1 << 40) };
                assert_eq!(Order::from_bytes(&order.to_bytes()), Some(order));
            }
        }
        assert_eq!(Order::from_bytes(&[0xFF; ORDER_BYTES]), None);
        assert_eq!(Order::from_bytes(&[]), None);
    }

    #[test]
    fn an_order_of_records_that_do_not_fit_is_refused() {
        let huge = Order { ring: RingKind::Large, ..Order::new(Task::Take, 1 << 40, 1) };
        assert_eq!(Order::from_bytes(&huge.to_bytes()), None);
    }
}
