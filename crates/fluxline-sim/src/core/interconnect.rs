//! The interface of a network to its users: frames in, frames and reports out.
//!
//! ```text
//! network.send(node, frame, agenda)           a frame waits for its turn
//! network.handle(entry, agenda)               what is due now; then
//! while let Some(report) = network.next_report() { .. }
//! network.take(node, class, agenda)           frees the slot in the receive queue
//! ```
//!
//! Traffic, sweeps, nodes with a `Fabric`, faults, dumps and reports know a network by this trait
//! alone. docs/adr/0024-one-seam-for-networks.md has the reasons.

use super::agenda::Schedule;
use super::ahead::Nearness;
use super::dump::Dump;
use super::fault::FaultKind;
use super::split::Split;
use super::time::{Duration, Instant};

/// A send: unique within a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// The class of a frame. Each class has a queue of its own, so that answers never wait for
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A request, or a frame of a network without classes.
    Request,
    /// The answer to a request.
    Response,
}

/// A rejected frame, returned to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<F> {
    /// The frame.
    pub frame: F,
    /// The reason.
    pub why: Refusal,
}

/// The reason why a network rejects a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The send queue is full: try again after [`Report::Space`] or [`Report::Done`].
    Full,
    /// The frame can never be sent: it is too long, or its node is dead.
    Never,
}

/// A report of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A frame is in the receive queue of a node.
    Received {
        /// The node.
        node: u32,
        /// The queue.
        class: Class,
    },
    /// The network took a send, or its target did, as the network defines it.
    Done {
        /// The sender.
        node: u32,
        /// The send.
        send: SendId,
    },
    /// A send failed; it may have arrived. It is reported once.
    Lost {
        /// The sender.
        node: u32,
        /// The send.
        send: SendId,
    },
    /// The network gave up a frame after it had reported it as done.
    Dropped {
        /// The sender.
        source: u32,
    },
    /// A send queue that was full has space again.
    Space {
        /// The node.
        node: u32,
    },
}

/// The time for which a link was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// The node or router that it comes from.
    pub from: u32,
    /// The node at its end.
    pub to: u32,
    /// The busy time.
    pub busy: Duration,
}

/// Returns the part of a busy time that has passed by `now`. Networks count a whole frame when it
/// begins; the link is busy with the last one until `ends`.
#[must_use]
pub fn passed(busy: Duration, ends: Instant, now: Instant) -> Duration {
    let ahead = ends.as_ps().saturating_sub(now.as_ps());
    Duration::from_ps(busy.as_ps().saturating_sub(ahead))
}

/// The time that a core of a node has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreUse {
    /// The node.
    pub node: u32,
    /// The core.
    pub core: u32,
    /// The time, by kind.
    pub used: Split,
}

/// Frames that a network lost at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The place, such as `queue of port 3`.
    pub place: String,
    /// The number of frames.
    pub frames: u64,
}

/// A count of a network since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The name.
    pub name: &'static str,
    /// The count.
    pub value: u64,
}

/// The ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The node or router that it comes from.
    pub from: u32,
    /// The node at its end.
    pub to: u32,
}

/// Packets that wait for each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The links before the buffers in which they wait.
    pub links: Vec<Ends>,
    /// The circle in words.
    pub text: String,
}

/// A network that carries frames between numbered nodes.
pub trait Interconnect {
    /// The unit that it carries.
    type Frame;
    /// An entry of its own on the agenda.
    type Entry;

    /// Returns the number of nodes that send and receive; they are numbered from 0.
    fn nodes(&self) -> u32;

    /// Schedules the work that the network does by itself from the start, if it has any.
    fn begin(&mut self, agenda: &mut impl Schedule<Self::Entry>) {
        let _ = agenda;
    }

    /// Queues a frame at a node.
    ///
    /// # Errors
    /// [`Refused`]: the frame comes back.
    fn send(
        &mut self,
        node: u32,
        frame: Self::Frame,
        agenda: &mut impl Schedule<Self::Entry>,
    ) -> Result<SendId, Refused<Self::Frame>>;

    /// Handles an entry that is due now.
    fn handle(&mut self, entry: Self::Entry, agenda: &mut impl Schedule<Self::Entry>);

    /// Returns the next report, oldest first. Ask until `None` after each of the other calls.
    fn next_report(&mut self) -> Option<Report>;

    /// Takes the oldest frame out of a receive queue of a node.
    fn take(
        &mut self,
        node: u32,
        class: Class,
        agenda: &mut impl Schedule<Self::Entry>,
    ) -> Option<Self::Frame>;

    /// Applies a fault or a repair now. Returns false if the network does not have this kind.
    fn fault(&mut self, kind: FaultKind, agenda: &mut impl Schedule<Self::Entry>) -> bool;

    /// Checks that every frame is in exactly one place, and that frames can still move.
    ///
    /// # Errors
    /// The defect, in one sentence.
    fn conserve(&self) -> Result<(), String>;

    /// Finds packets that wait for each other in a circle. [`Interconnect::conserve`] reports them
    /// as a defect.
    fn deadlock(&self) -> Option<Circle> {
        None
    }

    /// Returns the name of a kind of its entries, for traces.
    #[must_use]
    fn kind_name(kind: u8) -> &'static str {
        let _ = kind;
        "an entry of the network"
    }

    /// Returns the time in which a node sends a frame of `bytes`: a card that reads the frame while
    /// it leaves may start it so long before all of it is there. Zero: the network takes whole
    /// frames.
    fn sending_time(&self, bytes: u32) -> Duration {
        let _ = bytes;
        Duration::ZERO
    }

    /// Returns true if a node takes one more message of an open loop; otherwise its source drops
    /// the message. A network whose [`Interconnect::send`] reports full queues has no limit here.
    fn accepts(&self, node: u32) -> bool {
        let _ = node;
        true
    }

    /// Returns the time for which each link was busy from the start until now, always in the same
    /// order.
    fn links(&self, now: Instant) -> Vec<LinkUse> {
        let _ = now;
        Vec::new()
    }

    /// Returns the time that each core of its hosts has used since the start, always in the same
    /// order. Only networks with hosts have cores.
    fn cores(&self) -> Vec<CoreUse> {
        Vec::new()
    }

    /// Returns the number of frame-link-hops since the start.
    fn hops(&self) -> u64 {
        0
    }

    /// Returns the places that have lost frames since the start.
    fn losses(&self) -> Vec<Loss> {
        Vec::new()
    }

    /// Returns further counts of the network, such as those of its management.
    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    /// Reads the memory that `entry` will need soon, as `Model::touch` does.
    #[inline]
    fn touch(&self, entry: &Self::Entry, nearness: Nearness) {
        let _ = (entry, nearness);
    }

    /// Records every frame of every link from now on. Returns false if the network has no dumps.
    fn begin_dump(&mut self, dump: Dump) -> bool {
        let _ = dump;
        false
    }

    /// Returns the dump so far, if there is one.
    fn dump_mut(&mut self) -> Option<&mut Dump> {
        None
    }

    /// Stops the dump, and returns it.
    fn end_dump(&mut self) -> Option<Dump> {
        None
    }
}
