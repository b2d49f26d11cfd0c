//! Shared memory as a link: regions are files that several processes of one user map.
//!
//! A put is a copy into the peer's region, made by the process that posts it: when `post` returns,
//! the bytes are placed. Notifications and messages go through small channels in the nodes' control
//! files. While both sides poll, nothing here makes a system call.
//!
//! [`directory`](list) finds the files, `node.rs` connects nodes, `channel.rs` carries records,
//! `region.rs` maps regions. The powers of a hostile process of the same user: docs/security.md.
//! The reasons for this design: docs/adr/0008.

mod channel;
mod directory;
mod endpoint;
mod fabric;
mod huge;
mod node;
mod operations;
mod region;
mod rings;
mod table;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, EndpointId, Fabric, Name, RegionId, Reliability,
    RemoteId, Status, WorkCounters,
};
use fluxline_core::{Moment, Span};

pub use directory::{Flaw, NodeEntry, Users, clean, list};
pub use huge::HugePages;

use directory::Directory;
use endpoint::{CompletionQueue, Endpoint, Peer};
use node::{Claimer, End, NodeFile, Phase, SLOTS};
use region::{Imported, OwnRegion};
use table::{SLOTS_MAX, Table};

use crate::push::{ConsumerWait, PushConsumer, PushOpenError, PushProducer};
use crate::sys::push;
use crate::sys::reason::reason;

/// Version of the files' layout; other versions are refused.
const LAYOUT: u64 = 4;
/// Period of checking that the peers live.
const LIFE_PERIOD: Span = Span::from_ms(50);
/// Periods after which an incomplete claim counts as left by a dead process.
const CLAIM_PERIODS_MAX: u32 = 100;
/// Most waiting completions and unanswered messages.
const QUEUE_MAX: usize = 256;
/// Most turns to read a dead peer's connection to its end: a channel holds fewer records.
const TURNS_FOR_DEAD: u32 = 1024;

const CAPABILITIES: Capabilities = {
    let mut of = Capabilities::new("shm");
    of.operation_bytes_max = 1 << 40;
    of.message_bytes_max = channel::RECORD_BYTES_MAX as u64;
    of.region_bytes_max = 1 << 40;
    of.regions_max = SLOTS_MAX;
    of.endpoints_max = SLOTS_MAX;
    of.queue_max = QUEUE_MAX as u32;
    of.pieces_max = 64;
    of.windows = true;
    of.atomics = true;
    of.ordered = true;
    of.crossover_bytes = u64::MAX;
    of.death_noticed_within = Span::from_ms(100);
    of
};

const _: () = assert!(cfg!(loom) || SLOTS_MAX as u64 == SLOTS, "as many can connect as be kept");

/// The configuration of a node: the directory of groups, and the way of waiting.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// The directory of all groups; default: `/dev/shm/fluxline-UID`, or
    /// `/dev/shm/fluxline-group-GID` for the users of a group of the host. Must be of a file system
    /// in memory for speed, and may be any that can be mapped.
    pub base: Option<PathBuf>,
    /// The users who may open nodes beside this one and use its regions.
    pub users: Users,
    /// Time for which [`Shm::wait`] polls before it sleeps: zero for least CPU time,
    /// tens of microseconds for latency close to polling.
    pub spin: Duration,
    /// Asks for huge pages for regions and push rings of 2 MiB or more: fewer misses of the address
    /// cache where a large window is used at random. The file system of `base` must support them on
    /// advice (`mount -o remount,huge=advise /dev/shm`); otherwise small pages are used, as
    /// [`Shm::huge_pages`] shows.
    pub huge_pages: bool,
    /// Size up to which transfers are better stored through a window, longer ones put; becomes the
    /// node's [`Capabilities::crossover_bytes`]. `fluxline bench shm:// --only stores` measures it.
    pub crossover_bytes: u64,
}

impl Default for ShmConfig {
    /// The user's directory, no spinning, small pages, always stores: a put copies as well.
    fn default() -> ShmConfig {
        ShmConfig {
            base: None,
            users: Users::This,
            spin: Duration::ZERO,
            huge_pages: false,
            crossover_bytes: CAPABILITIES.crossover_bytes,
        }
    }
}

/// The reason why a node could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ShmError {
    /// A living process has that name.
    #[error(
        "a node {node} is open already, by a living process; choose another name, or look with \
         `fluxline shm list`"
    )]
    NameTaken {
        /// The name.
        node: Name,
    },
    /// The path belongs to another user, or is not of the expected kind.
    #[error("{} {flaw}; remove it, or ask its owner to", .path.display())]
    NotOurs {
        /// The file or folder.
        path: PathBuf,
        /// The reason why it is not used.
        flaw: Flaw,
    },
    /// The node does not exist.
    #[error("{} is not there; start its process first, or look with `fluxline shm list`",
        .path.display())]
    NotThere {
        /// The file or folder.
        path: PathBuf,
    },
    /// It was made by another version.
    #[error("{} has another layout than this program's; bring both to the same release",
        .path.display())]
    Version {
        /// The file or folder.
        path: PathBuf,
    },
    /// This process has no descriptor or no memory left.
    #[error("{}: {reason}", .path.display())]
    NoResources {
        /// The file or folder.
        path: PathBuf,
        /// The system's message, with the remedy.
        reason: String,
    },
    /// The host refused.
    #[error("{}: {reason}", .path.display())]
    Host {
        /// The file or folder.
        path: PathBuf,
        /// The system's message, with the remedy where it is known.
        reason: String,
    },
}

impl ShmError {
    fn host(path: &Path, error: &io::Error) -> ShmError {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => ShmError::NotThere { path },
            _ if is_shortage(error) => ShmError::NoResources { path, reason: reason(error) },
            _ => ShmError::Host { path, reason: reason(error) },
        }
    }
}

/// Returns true when this process lacks descriptors or memory, which others of its user may have.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// A peer's region that this node has imported.
struct Import {
    endpoint: EndpointId,
    region: Imported,
}

/// A node on the shared-memory link.
///
/// A node that is dropped ends its connections, withdraws its regions and removes its files. A
/// killed one leaves them; peers notice within 100 ms, and the next process that takes its name
/// removes them. A child that is forked and does not execute another program keeps its parent's
/// node alive.
pub struct Shm {
    name: Name,
    directory: Directory,
    config: ShmConfig,
    capabilities: Capabilities,
    own: NodeFile,
    regions: Table<OwnRegion>,
    exported: Vec<(Name, RegionId)>,
    endpoints: Table<Endpoint>,
    imports: Table<Import>,
    completions: CompletionQueue,
    counters: WorkCounters,
    /// The endpoint whose turn is next.
    turn: usize,
    claims_seen: u64,
    lives_seen: Option<Moment>,
    /// The number of times that each slot was found in the middle of a claim.
    unfinished_claims: Vec<u32>,
}

impl Shm {
    /// Opens a node of a group. Errors: [`ShmError`]. Cost: 64 KiB of shared memory,
    /// and as much again for each connection that peers make to it, from the first use of its slot
    /// until the node ends.
    pub fn open(group: &Name, node: &Name, config: ShmConfig) -> Result<Shm, ShmError> {
        let base = config.base.clone().unwrap_or_else(|| directory::default_base(config.users));
        let mut tries = 0;
        let (directory, own) = loop {
            let directory = Directory::open(&base, group, config.users)?;
            match NodeFile::create(&directory, node) {
                Ok(own) => break (directory, own),
                // The last node of the group ended and removed the directory.
                Err(ShmError::NotThere { .. }) if tries < 10 => tries += 1,
                Err(error) => return Err(error),
            }
        };
        let mut capabilities = CAPABILITIES;
        capabilities.crossover_bytes = config.crossover_bytes;
        Ok(Shm {
            name: node.clone(),
            directory,
            capabilities,
            config,
            own,
            regions: Table::default(),
            exported: Vec::new(),
            endpoints: Table::default(),
            imports: Table::default(),
            completions: VecDeque::new(),
            counters: WorkCounters::default(),
            turn: 0,
            claims_seen: 0,
            lives_seen: None,
            unfinished_claims: vec![0; SLOTS as usize],
        })
    }

    /// Waits until [`Fabric::poll`] has something to do, at most `timeout`.
    ///
    /// Polls for `config.spin`, then sleeps; a sleeping node wakes every 50 ms to check that its
    /// peers live. Puts without a notification do not wake it.
    pub fn wait(&mut self, timeout: Duration) {
        let began = Instant::now();
        while !self.is_due() {
            let waited = began.elapsed();
            if waited >= timeout {
                return;
            }
            if waited < self.config.spin {
                std::hint::spin_loop();
                continue;
            }
            let life = Duration::from_nanos(LIFE_PERIOD.as_ns());
            self.own.sleep(life.min(timeout - waited), || self.is_due());
            if self.endpoints.len() > 0 && began.elapsed() >= life {
                return; // poll checks that the peers live
            }
        }
    }

    /// Makes a push ring of `bytes` (a power of two) in a region of its own; export its region
    /// with the right to put.
    ///
    /// Errors: [`PushOpenError`]. Cost: as [`Fabric::register`].
    pub fn push_consumer(
        &mut self,
        bytes: u64,
        wait: ConsumerWait,
    ) -> Result<PushConsumer, PushOpenError> {
        let size = PushOpenError::Size { bytes };
        if !bytes.is_power_of_two() || bytes < push::SIZE_MIN {
            return Err(size);
        }
        let all = bytes.checked_add(push::HEADER_BYTES).ok_or(size)?;
        let region = self.register(all)?;
        let made = self.make_ring(region, bytes, wait);
        if made.is_err() {
            let _ = self.withdraw(region); // it was just made
        }
        Ok(PushConsumer { raw: made?, region })
    }

    fn make_ring(
        &mut self,
        region: RegionId,
        size: u64,
        wait: ConsumerWait,
    ) -> Result<push::Consumer, PushOpenError> {
        let own = self.regions.get_mut(region.0).ok_or(PushOpenError::NoRing)?;
        own.is_ring = true;
        let sleeps = wait == ConsumerWait::Sleeps;
        let shape = push::Shape { start: region::HEADER_BYTES, size, sleeps };
        let file = push::ClaimFile::new(Arc::clone(&own.file));
        push::Consumer::create(Arc::clone(&own.map), shape, file)
    }

    /// Releases an imported region before its connection ends.
    ///
    /// Errors: [`AccessError::UnknownRegion`].
    pub fn release(&mut self, remote: RemoteId) -> Result<(), AccessError> {
        self.completions.retain(
            |what| !matches!(what, Completion::Imported { remote: of, .. } if *of == remote),
        );
        self.imports.remove(remote.0).map(drop).ok_or(AccessError::UnknownRegion)
    }

    /// Becomes the producer of the push ring in a peer's region; there is one at a time. It needs a
    /// descriptor, which is closed with the producer.
    ///
    /// Errors: [`PushOpenError`]; [`PushOpenError::Claimed`] while another producer lives.
    pub fn push_producer(&mut self, remote: RemoteId) -> Result<PushProducer, PushOpenError> {
        let import = self.imports.get(remote.0).ok_or(PushOpenError::NoRing)?;
        let view = &import.region.view;
        if !view.rights.put || import.region.is_withdrawn() {
            return Err(PushOpenError::NoRing);
        }
        let host = |error: ShmError| PushOpenError::Host { reason: error.to_string() };
        let file = import.region.reopen(&self.directory).map_err(host)?;
        let file = push::ClaimFile::new(Arc::new(file.ok_or(PushOpenError::NoRing)?));
        let (map, start) = (Arc::clone(&view.map), region::HEADER_BYTES);
        push::Producer::attach(map, start, view.bytes, file).map(PushProducer)
    }

    /// Returns the share of an own region on huge pages. Cost: reads `/proc/self/smaps`.
    ///
    /// Errors: [`AccessError::UnknownRegion`].
    pub fn huge_pages(&self, region: RegionId) -> Result<HugePages, AccessError> {
        let own = self.own(region)?;
        Ok(HugePages::of(&own.map, region::HEADER_BYTES + own.bytes))
    }

    fn is_due(&self) -> bool {
        !self.completions.is_empty()
            || self.own.claims() != self.claims_seen
            || self.endpoints.values().any(Endpoint::is_due)
    }

    /// Returns this node as the claimer of a slot.
    fn as_claimer(&self, reliability: Reliability) -> Claimer {
        Claimer { name: self.name.clone(), file: self.own.inode(), reliability }
    }

    /// Stores an endpoint under a new identifier; returns `None` at the limit of endpoints.
    fn add_endpoint(&mut self, make: impl FnOnce(EndpointId) -> Endpoint) -> Option<EndpointId> {
        let id = EndpointId(self.endpoints.next_id()?);
        self.endpoints.insert(make(id)).map(EndpointId)
    }

    /// Returns a peer's control file: that of another connection to the same living node, or else a
    /// newly opened one. A thousand connections to one peer need one descriptor.
    fn peer(&self, name: &Name) -> Result<NodeFile, ShmError> {
        let known = self.endpoints.values().find(|of| of.peer.name == name.as_str());
        match known {
            Some(of) if of.peer.node.is_alive() => Ok(of.peer.node.clone()),
            _ => NodeFile::open(&self.directory, name),
        }
    }

    /// Accepts connections for which peers have claimed slots.
    fn accept(&mut self) {
        let claims = self.own.claims();
        if claims == self.claims_seen {
            return;
        }
        self.claims_seen = claims;
        let claimed: Vec<_> = self.own.places(Phase::Claimed).collect();
        for place in claimed {
            let Ok(slot) = self.own.slot(place.clone()) else {
                place.refuse(); // no memory is left to map it
                continue;
            };
            let claimer = slot.claimer();
            let peer = claimer.as_ref().and_then(|of| self.peer(&of.name).ok());
            let (Some(of), Some(peer)) = (claimer, peer) else {
                slot.refuse(); // the peer does not exist, or no descriptor is left to reach it
                continue;
            };
            if peer.inode() != of.file {
                slot.refuse(); // it died, and another process has its name
                continue;
            }
            if self.endpoints.next_id().is_none() {
                slot.refuse(); // too many connections of this node, its own included
                continue;
            }
            if !slot.change(Phase::Claimed, Phase::Open) {
                continue;
            }
            let peer = Peer { name: of.name.to_string(), node: peer };
            let made = |id| Endpoint::new(id, peer, of.reliability, slot, End::Owner);
            let id = self.add_endpoint(made);
            if let Some(endpoint) = id.and_then(|id| self.endpoints.get(id.0)) {
                self.completions.push_back(endpoint.connected());
                endpoint.peer.node.ring();
            }
        }
    }

    /// Runs a turn of each endpoint, until there is a completion.
    fn turns(&mut self, now: Moment) {
        let count = self.endpoints.len();
        for step in 0..count {
            // When an endpoint ends, another one moves to its index; its turn comes with the next
            // poll.
            let Some(id) = self.endpoints.id_at((self.turn + step) % count) else { continue };
            let Some(of) = self.endpoints.get_mut(id) else { continue };
            if let Err(status) = of.turn(now, &self.regions, &mut self.completions) {
                self.end(id, status);
            }
            if !self.completions.is_empty() {
                self.turn = (self.turn + step + 1) % count;
                return;
            }
        }
    }

    /// Checks periodically for dead peers and for unfinished claims.
    fn look_at_lives(&mut self, now: Moment) {
        let since = self.lives_seen.get_or_insert(now);
        if now.since(*since) < LIFE_PERIOD {
            return;
        }
        *since = now;
        let mut last: Option<(NodeFile, bool)> = None;
        for id in self.endpoints.ids() {
            let Some(of) = self.endpoints.get_mut(id) else { continue };
            // Only the first of many connections to one peer is checked.
            let known = last.take().filter(|(peer, _)| peer.is_same(&of.peer.node));
            let (peer, alive) =
                known.unwrap_or_else(|| (of.peer.node.clone(), of.peer.node.is_alive()));
            last = Some((peer, alive));
            if !alive {
                // Records that it sent before it died can still be read; a third process may write
                // more.
                let mut turns_left = TURNS_FOR_DEAD;
                while turns_left > 0
                    && of.is_due()
                    && of.turn(now, &self.regions, &mut self.completions).is_ok()
                {
                    turns_left -= 1;
                    if self.completions.len() >= QUEUE_MAX {
                        return;
                    }
                }
                self.end(id, Status::PeerGone);
            }
        }
        let claiming: Vec<_> = self.own.places(Phase::Claiming).collect();
        for place in &claiming {
            let periods = &mut self.unfinished_claims[place.number() as usize];
            *periods += 1;
            if *periods > CLAIM_PERIODS_MAX {
                *periods = 0;
                place.take_back();
            }
        }
        if claiming.is_empty() {
            self.unfinished_claims.fill(0);
        }
    }

    fn end(&mut self, id: u32, status: Status) {
        if let Some(mut of) = self.endpoints.remove(id) {
            let ended = |import: &u32| {
                self.imports.get(*import).is_some_and(|import| import.endpoint == of.id)
            };
            for import in self.imports.ids().into_iter().filter(ended).collect::<Vec<_>>() {
                self.imports.remove(import);
            }
            of.end(status, &mut self.completions);
        }
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        for id in self.endpoints.ids() {
            self.end(id, Status::Done);
        }
        self.regions.values().for_each(OwnRegion::withdraw);
        // Files that cannot be removed stay, like those of a killed process.
        let _ = self.directory.remove(&self.name);
        self.directory.remove_if_empty();
    }
}
