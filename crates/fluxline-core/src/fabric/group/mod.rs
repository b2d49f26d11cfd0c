//! Message passing among the members of a group, over any [`Fabric`].
//!
//! Each member has a rank. [`Group::send`] and [`Group::receive`] carry messages with tags,
//! and [`Group::barrier`], [`Group::broadcast`] and [`Group::all_reduce`] are called by all
//! members. Each call that waits is made of one that begins and one that polls, so that a program
//! can do other work meanwhile. No call reads a clock: time is that of the link.
//!
//! Every pair of members has one reliable connection. Each member owns a region with slots for
//! every other one. A short message is put into a free slot at once (eager). A longer one is
//! announced, and put in pieces after its receiver has granted it (rendezvous). A message that
//! nobody has received stays in its slot, so memory is bounded by the configuration and a fast
//! sender waits. The end of a member ends all calls that depend on it, with its rank.
//!
//! ```
//! use fluxline_core::fabric::group::{Group, GroupConfig, Source};
//! use fluxline_core::fabric::memory::Lab;
//! use fluxline_core::fabric::{Fabric, Key, Local, Name};
//!
//! let lab = Lab::new();
//! let (mut one, mut two) = (lab.node("one")?, lab.node("two")?);
//! let members = vec!["one".to_string(), "two".to_string()];
//! let name = Name::parse("sum")?;
//! let config = |rank| GroupConfig::new(name.clone(), Key(7), rank, members.clone());
//! let mut first = Group::new(&mut one, config(0))?;
//! let mut second = Group::new(&mut two, config(1))?;
//! while !(first.has_joined()? && second.has_joined()?) {
//!     let (now, then) = (one.now(), two.now());
//!     first.poll(&mut one, now);
//!     second.poll(&mut two, then);
//!     one.wait(now + fluxline_core::Span::from_ms(1)); // moves the time of a lab
//! }
//! let sent = first.start_send(&mut one, 1, 42, Local::Bytes(b"sample"))?;
//! assert!(first.finished(sent).is_some(), "a short message goes at once");
//! let now = one.now();
//! first.poll(&mut one, now); // a node of a lab works when it is polled
//! let message = second.receive(&mut two, Source::Rank(0), Some(42), 100)?;
//! assert_eq!((message.from, &message.bytes[..]), (0, &b"sample"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source of the algorithms: eager and rendezvous protocols as in MPICH; broadcast by a binomial
//! tree, barrier by dissemination (D. Hensgen, R. Finkel and U. Manber, "Two algorithms for barrier
//! synchronization", 1988), all-reduce by recursive doubling (R. Thakur, R. Rabenseifner and
//! W. Gropp, "Optimization of collective communication operations in MPICH", 2005).

mod collectives;
mod config;
mod counter;
mod error;
mod joining;
mod lane;
mod leaving;
mod messages;
mod notices;
mod peer;
mod plan;
mod reduce;
mod requests;
mod slots;
mod wire;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;

use super::{
    Completion, EndpointId, Fabric, Grant, Level, Local, Memory, PostError, RegionId, Rights,
    Target, Work,
};
use crate::{Moment, Span};
use collectives::Collective;
use config::Layout;
use counter::CounterState;
use peer::{Link, Peer};
use requests::Requests;
use wire::{IDS, Notice};

pub use collectives::Collected;
pub use config::{BarrierPath, GroupConfig};
pub use error::GroupError;
pub use reduce::{Reduction, Values};
pub use requests::{Message, Outcome, Request, Source};

/// The first tag of a group's own work: programs take other tags ([`is_group_tag`]).
pub const GROUP_TAGS: u64 = 0x4752_4F55_0000_0000;
/// The tag of work whose end is of interest only if it fails.
const PLAIN_TAG: u64 = GROUP_TAGS + IDS as u64;
/// The tag of the last work for a peer.
const FLUSH_TAG: u64 = PLAIN_TAG + 1;
/// The tag of the counter of barriers.
const COUNTER_TAG: u64 = PLAIN_TAG + 2;

/// Time from one attempt to the next, of a connection or of work for a full queue.
const RETRY_EVERY: Span = Span::from_ms(1);

/// Returns true if work with this tag is a group's own. Its completions may still come after the
/// group was closed.
#[must_use]
pub const fn is_group_tag(tag: u64) -> bool {
    GROUP_TAGS <= tag && tag <= COUNTER_TAG
}

/// One member's end of a group. Take the same fabric for every call.
pub struct Group {
    config: GroupConfig,
    layout: Layout,
    region: RegionId,
    memory: Arc<dyn Memory>,
    peers: Vec<Peer>,
    ranks: BTreeMap<EndpointId, usize>,
    /// The moment at which all must have joined.
    join_until: Moment,
    requests: Requests,
    /// Messages that have arrived so far.
    arrivals: u64,
    collective: Option<Collective>,
    /// Collective operations that were begun.
    collectives: u64,
    counter: CounterState,
    /// Completions of the program that came while a call waited.
    others: VecDeque<Completion>,
    scratch: Vec<u8>,
    /// True: a queue was full in the last turn, and nothing may arrive when it has room.
    is_held: Cell<bool>,
    is_leaving: bool,
}

impl Group {
    /// Makes the member of a group: exports its region, and connects to all lower ranks.
    ///
    /// Call [`Group::poll`] until [`Group::has_joined`], or [`Group::join`]. Members may come in
    /// any order. Errors: [`GroupError`], of the configuration or the own link.
    pub fn new(fabric: &mut dyn Fabric, config: GroupConfig) -> Result<Group, GroupError> {
        config.check(fabric.capabilities())?;
        let layout = Layout::of(&config);
        let region = fabric.register(layout.region_bytes())?;
        let rights = Rights { put: true, get: false, atomic: fabric.capabilities().atomics };
        fabric.export(region, config.name.clone(), Grant { rights, key: config.key })?;
        let memory = fabric.memory(region)?;
        let join_until = fabric.now() + config.patience;
        let peers = (0..config.members.len())
            .map(|rank| Peer::new(joining::first_link(&config, rank, join_until), &layout));
        Ok(Group {
            peers: peers.collect(),
            layout,
            region,
            memory,
            ranks: BTreeMap::new(),
            join_until,
            requests: Requests::new(config.requests_max),
            arrivals: 0,
            collective: None,
            collectives: 0,
            counter: CounterState::default(),
            others: VecDeque::new(),
            scratch: Vec::new(),
            is_held: Cell::new(false),
            is_leaving: false,
            config,
        })
    }

    /// Returns the own rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.config.rank
    }

    /// Returns the number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// Drives the group, and returns the next completion of the program, if any.
    ///
    /// It takes the place of [`Fabric::poll`]. Members that connect to this one appear as
    /// `Connected` and `Broken`, as any peer.
    pub fn poll(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Option<Completion> {
        if let Some(kept) = self.others.pop_front() {
            return Some(kept);
        }
        self.drive(fabric, now);
        self.others.pop_front()
    }

    /// Does what is due: sends, grants, returns slots, and goes on with a collective operation.
    pub fn progress(&mut self, fabric: &mut dyn Fabric) {
        self.is_held.set(false);
        self.progress_joining(fabric);
        for rank in 0..self.peers.len() {
            if self.peers[rank].is_open() {
                let progressed = self.progress_peer(fabric, rank);
                self.check(rank, progressed);
            }
        }
        self.progress_collective(fabric);
        // A collective operation frees slots, too.
        for rank in 0..self.peers.len() {
            if self.peers[rank].is_open() {
                let returned = self.return_slots(fabric, rank);
                self.check(rank, returned);
            }
        }
    }

    /// Polls until nothing is left, and does what is due.
    fn drive(&mut self, fabric: &mut dyn Fabric, now: Moment) {
        while let Some(what) = fabric.poll(now) {
            let kept = self.handle(fabric, what);
            self.others.extend(kept);
        }
        self.progress(fabric);
    }

    /// Drives the group until `ready` returns something, at most for the patience of the
    /// configuration. Completions of the program are kept for [`Group::poll`].
    fn wait_for<T>(
        &mut self,
        fabric: &mut dyn Fabric,
        waits_for: &str,
        mut ready: impl FnMut(&mut Group) -> Option<T>,
    ) -> Result<T, GroupError> {
        let limit = fabric.now() + self.config.patience;
        loop {
            let now = fabric.now();
            self.drive(fabric, now);
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            if now >= limit {
                let (waits_for, patience) = (String::from(waits_for), self.config.patience);
                return Err(GroupError::Late { waits_for, patience });
            }
            self.pause(fabric, limit);
        }
    }

    /// Returns when [`Group::poll`] has work even if nothing arrives; `None`: never. A program that
    /// waits sleeps until then at most.
    pub fn deadline(&self, fabric: &dyn Fabric) -> Option<Moment> {
        let is_joining = self.peers.iter().any(|peer| peer.gone.is_none() && !peer.is_joined());
        let own = (is_joining || self.is_held.get()).then(|| fabric.now() + RETRY_EVERY);
        own.into_iter().chain(fabric.deadline()).min()
    }

    /// Sleeps until there is work, or until `limit`.
    fn pause(&self, fabric: &mut dyn Fabric, limit: Moment) {
        let until = self.deadline(fabric).map_or(limit, |deadline| deadline.min(limit));
        fabric.wait(until);
    }

    /// Sends what a member is owed.
    fn progress_peer(&mut self, fabric: &mut dyn Fabric, rank: usize) -> Result<(), GroupError> {
        while let Some(notice) = self.peers[rank].control.front().copied() {
            if !self.notify(fabric, rank, notice)? {
                return Ok(());
            }
            self.peers[rank].control.pop_front();
        }
        self.progress_pieces(fabric, rank)?;
        self.progress_queued(fabric, rank)?;
        self.return_slots(fabric, rank)
    }

    /// Returns slots to their writer, if some are due.
    fn return_slots(&mut self, fabric: &mut dyn Fabric, rank: usize) -> Result<(), GroupError> {
        let incoming = &self.peers[rank].incoming;
        if !incoming.iter().any(slots::Incoming::must_return) {
            return Ok(());
        }
        let mut words = [0; 24];
        for (to, lane) in words.chunks_exact_mut(8).zip(incoming) {
            to.copy_from_slice(&lane.word().to_le_bytes());
        }
        let to = self.layout.section(self.config.rank) + config::RETURNS;
        let put = GroupPut { to, notice: Notice::Returned, end: None };
        if self.put(fabric, rank, Local::Bytes(&words), put)? {
            self.peers[rank].incoming.iter_mut().for_each(slots::Incoming::sent);
        }
        Ok(())
    }

    /// Sends a notification without data. Returns false if the queue is full.
    fn notify(
        &self,
        fabric: &mut dyn Fabric,
        rank: usize,
        notice: Notice,
    ) -> Result<bool, GroupError> {
        let to = self.layout.section(self.config.rank) + config::SCRATCH;
        self.put(fabric, rank, Local::Bytes(&[0; 8]), GroupPut { to, notice, end: None })
    }

    /// Puts bytes into the region of a member. Returns false if the queue is full or the member is
    /// gone, which a completion reports.
    fn put(
        &self,
        fabric: &mut dyn Fabric,
        rank: usize,
        from: Local<'_>,
        put: GroupPut,
    ) -> Result<bool, GroupError> {
        let peer = &self.peers[rank];
        let (Some(endpoint), Link::Open(remote) | Link::Greeting(remote)) =
            (peer.endpoint, &peer.link)
        else {
            return Ok(false);
        };
        let to = Target { remote: *remote, offset: put.to };
        let notify = Some(put.notice.value());
        let complete_at = put.end.map(|_| Level::Copied);
        let tag = put.end.map_or(PLAIN_TAG, |id| GROUP_TAGS + u64::from(id));
        match fabric.post(endpoint, tag, Work::Put { from, to, notify, complete_at }) {
            Ok(()) => Ok(true),
            Err(PostError::Full) => {
                self.is_held.set(true);
                Ok(false)
            }
            Err(PostError::NotConnected) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the connection to a member that failed.
    fn check(&mut self, rank: usize, result: Result<(), GroupError>) {
        if let Err(error) = result {
            self.lose(rank, error);
        }
    }

    /// Notes that a member is gone, and ends all that depends on it.
    fn lose(&mut self, rank: usize, error: GroupError) {
        if self.peers[rank].gone.is_none() {
            self.requests.fail(rank, &error);
            self.peers[rank].gone = Some(error);
        }
    }

    /// Returns the error of a member that is gone; `None`: all are there.
    fn first_gone(&self) -> Option<&GroupError> {
        self.peers.iter().find_map(|peer| peer.gone.as_ref())
    }

    /// Checks that this is another member and is there.
    fn check_rank(&self, rank: usize) -> Result<(), GroupError> {
        if rank >= self.size() || rank == self.config.rank {
            return Err(GroupError::Rank { rank, last: self.size() - 1 });
        }
        if !self.peers[rank].is_joined() && self.peers[rank].gone.is_none() {
            return Err(GroupError::Joining);
        }
        Ok(())
    }
}

/// The place and the notification of a put.
struct GroupPut {
    /// The offset in the peer's region.
    to: u64,
    notice: Notice,
    /// The request that ends when the source is free; `None`: the source is free at once.
    end: Option<u32>,
}
