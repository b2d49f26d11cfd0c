//! The entries of a managed network on the agenda.

use super::super::Entry as ChipEntry;
use super::act::Why;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Of chips and cables.
    Chip(ChipEntry),
    /// Something that an agent, a driver or a manager does.
    Node {
        /// The node.
        node: u32,
        /// The task.
        task: Task,
    },
}

/// A task of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The management begins.
    Begin,
    /// An agent has worked on a letter, which has this number.
    Letter(u64),
    /// Greetings are due.
    Greet,
    /// The watch looks at the inputs of the chip.
    Watch,
    /// An interrupt: the signal of a link has changed.
    Signal,
    /// An agent or a manager wakes up.
    Wake(Wakeup),
    /// A message may have to be repeated.
    Repeat(u64),
    /// Acknowledgements for a node are due.
    Acknowledge(u32),
}

/// The reason of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup(pub(super) Why);

impl From<ChipEntry> for Entry {
    fn from(entry: ChipEntry) -> Entry {
        Entry::Chip(entry)
    }
}

impl crate::Entry for Entry {
    fn component(&self) -> u32 {
        match self {
            Entry::Chip(entry) => entry.component(),
            Entry::Node { node, .. } => *node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Entry::Chip(entry) => entry.kind(),
            Entry::Node { task, .. } => match task {
                Task::Begin => 2,
                Task::Letter(_) => 3,
                Task::Greet => 4,
                Task::Watch => 5,
                Task::Signal => 6,
                Task::Wake(_) => 7,
                Task::Repeat(_) => 8,
                Task::Acknowledge(_) => 9,
            },
        }
    }
}
