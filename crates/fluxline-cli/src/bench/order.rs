//! What this process orders the other one to do: a record of six words.

/// An order in bytes.
pub const ORDER_BYTES: usize = 48;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// End.
    End,
    /// Send each record back.
    Echo,
    /// For each record, send as many bytes of one's own.
    Answer,
    /// Take records, and tell the sum of their first words.
    Take,
    /// Count notifications by polling, and tell how many there were.
    CountNotices,
    /// Answer each notification; wait for it by [`fluxline::shm::Shm::wait`].
    AnswerNotices,
    /// Wait `count` ms for nothing, and tell what CPU time that took \[ns\].
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

/// Which push ring records come through, and which node is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// 512 KiB, polled.
    Small,
    /// 8 MiB, polled.
    Large,
    /// 512 KiB, with a bell: its consumer may sleep, and does so at once.
    Blocking,
    /// The same, and its consumer looks for some time before it sleeps.
    Adaptive,
}

const WAYS: [Way; 4] = [Way::Small, Way::Large, Way::Blocking, Way::Adaptive];

/// An order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// What to do.
    pub task: Task,
    /// Through which ring.
    pub way: Way,
    /// Bytes of a record or put.
    pub bytes: usize,
    /// How many.
    pub count: u64,
    /// Whether to read every byte, not the first word alone.
    pub reads_all: bool,
    /// Whether both sides look for the other's life on the way.
    pub looks: bool,
}

impl Order {
    /// `count` times `task` with records of so many bytes, all read, by the ring that suits.
    pub fn new(task: Task, bytes: usize, count: u64) -> Order {
        let way = if bytes > 1 << 16 { Way::Large } else { Way::Small };
        Order { task, way, bytes, count, reads_all: true, looks: false }
    }

    /// As a record.
    pub fn to_bytes(self) -> [u8; ORDER_BYTES] {
        let words = [
            self.task as u64,
            self.way as u64,
            self.bytes as u64,
            self.count,
            self.reads_all.into(),
            self.looks.into(),
        ];
        let mut bytes = [0; ORDER_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From a record; `None`: it is no order.
    pub fn from_bytes(bytes: &[u8]) -> Option<Order> {
        let bytes: &[u8; ORDER_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at * 8..][..8].try_into().map_or(0, u64::from_le_bytes);
        Some(Order {
            task: *TASKS.get(word(0) as usize)?,
            way: *WAYS.get(word(1) as usize)?,
            bytes: word(2) as usize,
            count: word(3),
            reads_all: word(4) != 0,
            looks: word(5) != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_arrives_as_it_was_given_and_garbage_is_none() {
        for task in TASKS {
            for way in WAYS {
                let order =
                    Order { task, way, bytes: 8, count: 1 << 40, reads_all: true, looks: false };
                assert_eq!(Order::from_bytes(&order.to_bytes()), Some(order));
            }
        }
        assert_eq!(Order::from_bytes(&[0xFF; ORDER_BYTES]), None);
        assert_eq!(Order::from_bytes(&[]), None);
    }
}
