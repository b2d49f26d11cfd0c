//! Shared memory as a link: regions are files that several processes of one user map.
//!
//! A put is a copy into the peer's region, made by the process that posts it: when `post` returns,
//! the bytes are placed. Notifications and messages go through small channels in the nodes' control
//! files. Nothing here is a system call while both sides poll.
//!
//! [`directory`](list) says where everything is found, `node.rs` how nodes meet, `channel.rs` how
//! records cross, `region.rs` what a region is. What a hostile process of the same user can do:
//! docs/security.md. Why it is built so: docs/adr/0007.

mod channel;
mod directory;
mod endpoint;
mod node;
mod region;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline_proto::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Local, Memory, Name, PostError, RegionId, RegisterError, Reliability,
    RemoteId, Slice, Status, Target, Work,
};
use fluxline_proto::{Moment, Span};

pub use directory::{NodeEntry, clean, list};

use channel::RECORD_BYTES_MAX;
use directory::Directory;
use endpoint::{Endpoint, Told};
use node::{End, NodeFile, Phase, SLOTS};
use region::{Imported, OwnRegion};

/// Version of what is in the files; other versions are refused.
const LAYOUT: u64 = 1;
/// How often the peers' lives are looked at.
const LIFE_PERIOD: Span = Span::from_ms(50);
/// A claim that is not completed for so long was left by a process that died over it.
const CLAIM_PERIODS_MAX: u32 = 100;
/// Completions and unanswered messages that wait at most.
const QUEUE_MAX: usize = 256;

const CAPABILITIES: Capabilities = Capabilities {
    link: "shm",
    operation_bytes_max: 1 << 40,
    region_bytes_max: 1 << 40,
    regions_max: 1024,
    endpoints_max: 64,
    queue_max: QUEUE_MAX as u32,
    windows: true,
    atomics: true,
    ordered: true,
    crossover_bytes: u64::MAX,
    death_noticed_within: Span::from_ms(100),
};

/// How a node waits, and where its group is.
#[derive(Clone, Debug, Default)]
pub struct ShmConfig {
    /// The directory of all groups; default: `/dev/shm/fluxline-UID`. Must be of a file system in
    /// memory for speed, and may be any that can be mapped.
    pub base: Option<PathBuf>,
    /// How long [`Shm::wait`] looks again and again before it sleeps: zero for least CPU time,
    /// tens of microseconds for latency close to polling.
    pub spin: Duration,
}

/// Why a node could not be opened.
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
    /// Somebody else's file or directory is where ours should be.
    #[error(
        "{} is not a file or directory of this user alone; remove it, or ask its owner to",
        .path.display()
    )]
    NotOurs {
        /// Which.
        path: PathBuf,
    },
    /// There is no such node.
    #[error("{} is not there; start its process first, or look with `fluxline shm list`",
        .path.display())]
    NotThere {
        /// Which.
        path: PathBuf,
    },
    /// It was made by another version.
    #[error("{} has another layout than this program's; bring both to the same release",
        .path.display())]
    Version {
        /// Which.
        path: PathBuf,
    },
    /// The host refused.
    #[error("{}: {reason}", .path.display())]
    Host {
        /// What for.
        path: PathBuf,
        /// Its answer, with what mends it where that is known.
        reason: String,
    },
}

impl ShmError {
    fn host(path: &Path, error: &io::Error) -> ShmError {
        let path = path.to_path_buf();
        match error.kind() {
            io::ErrorKind::NotFound => ShmError::NotThere { path },
            _ => ShmError::Host { path, reason: reason(error) },
        }
    }
}

/// The host's answer, with what mends it.
fn reason(error: &io::Error) -> String {
    let mend = match error.raw_os_error() {
        Some(libc::ENOSPC) => "; free some of it (`fluxline shm clean`) or mount it larger",
        Some(libc::EMFILE) => "; allow more open files (`ulimit -n`)",
        Some(libc::ENOMEM) => "; choose a smaller region or free memory",
        Some(libc::ELOOP) => "; it is a symbolic link, which is not followed",
        _ => "",
    };
    format!("{error}{mend}")
}

/// A peer's region as this node uses it.
struct Import {
    endpoint: EndpointId,
    region: Imported,
}

/// A node on the shared-memory link.
///
/// Dropped, it ends its connections, withdraws its regions and removes its files. Killed, it leaves
/// them; peers notice within 100 ms, and whoever takes its name removes them. A child that is forked
/// and does not execute another program keeps its parent's node alive.
pub struct Shm {
    name: Name,
    directory: Directory,
    config: ShmConfig,
    own: NodeFile,
    regions: Vec<Option<OwnRegion>>,
    exported: Vec<(Name, RegionId)>,
    endpoints: Vec<Option<Endpoint>>,
    imports: Vec<Option<Import>>,
    told: Told,
    /// The endpoint whose turn is next.
    turn: usize,
    claims_seen: u64,
    lives_seen: Option<Moment>,
    unfinished_claims: [u32; SLOTS as usize],
}

impl Shm {
    /// Opens a node of a group. Errors: [`ShmError`]. Cost: maps some 1 MiB.
    pub fn open(group: &Name, node: &Name, config: ShmConfig) -> Result<Shm, ShmError> {
        let base = config.base.clone().unwrap_or_else(directory::default_base);
        let mut tries = 0;
        let (directory, own) = loop {
            let directory = Directory::open(&base, group)?;
            match NodeFile::create(&directory, node) {
                Ok(own) => break (directory, own),
                // The last node of the group left, and took the directory with it.
                Err(ShmError::NotThere { .. }) if tries < 10 => tries += 1,
                Err(error) => return Err(error),
            }
        };
        Ok(Shm {
            name: node.clone(),
            directory,
            config,
            own,
            regions: Vec::new(),
            exported: Vec::new(),
            endpoints: Vec::new(),
            imports: Vec::new(),
            told: VecDeque::new(),
            turn: 0,
            claims_seen: 0,
            lives_seen: None,
            unfinished_claims: [0; SLOTS as usize],
        })
    }

    /// Waits until [`Fabric::poll`] has something to do, at most `timeout`.
    ///
    /// Looks for `config.spin`, then sleeps; a sleeping node costs a wake-up each 50 ms, to look
    /// whether its peers live. Puts without a notification wake nobody.
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
            if self.endpoints.iter().any(Option::is_some) && began.elapsed() >= life {
                return; // poll looks at the peers' lives
            }
        }
    }

    fn is_due(&self) -> bool {
        !self.told.is_empty()
            || self.own.claims() != self.claims_seen
            || self.endpoints.iter().flatten().any(Endpoint::is_due)
    }

    fn endpoint(&self, endpoint: EndpointId) -> Result<&Endpoint, PostError> {
        let found = self.endpoints.get(endpoint.0 as usize).and_then(Option::as_ref);
        found.filter(|endpoint| endpoint.open).ok_or(PostError::NotConnected)
    }

    fn own(&self, region: RegionId) -> Result<&OwnRegion, AccessError> {
        let found = self.regions.get(region.0 as usize).and_then(Option::as_ref);
        found.ok_or(AccessError::UnknownRegion)
    }

    fn own_place(&self, slice: Slice) -> Result<(&OwnRegion, u64), PostError> {
        let region = self.own(slice.region).map_err(PostError::Local)?;
        let place = region.view().place(slice.offset, slice.bytes).map_err(PostError::Local)?;
        Ok((region, place))
    }

    fn import_of(&self, endpoint: EndpointId, target: Target) -> Result<&Imported, PostError> {
        match self.imports.get(target.remote.0 as usize) {
            Some(Some(import)) if import.endpoint == endpoint => Ok(&import.region),
            _ => Err(PostError::NotImported),
        }
    }

    fn tell(&mut self, endpoint: EndpointId, tag: u64, work: &Work<'_>, how: (Status, u64)) {
        if let Some(Some(of)) = self.endpoints.get(endpoint.0 as usize) {
            self.told.push_back(of.done(tag, work.operation(), how));
        }
    }

    /// Copies the bytes of a put; `Ok(Err)`: the peer's region is gone.
    fn put(
        &mut self,
        endpoint: EndpointId,
        (from, to): (&Local<'_>, Target),
        notify: Option<u32>,
    ) -> Result<Result<(), Status>, PostError> {
        let import = self.import_of(endpoint, to)?;
        let bytes = match from {
            Local::Bytes(bytes) => bytes.len() as u64,
            Local::Region(slice) => slice.bytes,
        };
        let place = import.view.place(to.offset, bytes).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.put).map_err(PostError::Remote)?;
        if notify.is_some() && !self.endpoint(endpoint)?.has_room(24) {
            return Err(PostError::Full);
        }
        let own = match from {
            Local::Bytes(_) => None,
            Local::Region(slice) => Some(self.own_place(*slice)?),
        };
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        match (from, own) {
            (Local::Bytes(bytes), _) => import.view.map.write(place, bytes),
            (_, Some((region, at))) => {
                region.map.copy_to(at, &import.view.map, place, bytes as usize);
            }
            _ => {}
        }
        let id = import.id;
        if let (Some(value), Some(Some(of))) = (notify, self.endpoints.get_mut(endpoint.0 as usize))
        {
            of.notify(id, (to.offset, bytes), value);
        }
        Ok(Ok(()))
    }

    fn get(
        &self,
        endpoint: EndpointId,
        from: Target,
        into: Slice,
    ) -> Result<Result<(), Status>, PostError> {
        let import = self.import_of(endpoint, from)?;
        let (region, to) = self.own_place(into)?;
        let place = import.view.place(from.offset, into.bytes).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.get).map_err(PostError::Remote)?;
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        import.view.map.copy_to(place, &region.map, to, into.bytes as usize);
        Ok(Ok(()))
    }

    /// An operation on a word of the peer's.
    fn atomic(
        &self,
        endpoint: EndpointId,
        at: Target,
        act: impl FnOnce(&dyn Memory) -> Result<u64, AccessError>,
    ) -> Result<Result<u64, Status>, PostError> {
        let import = self.import_of(endpoint, at)?;
        import.view.word_place(at.offset).map_err(PostError::Remote)?;
        import.view.demand(import.view.rights.atomic).map_err(PostError::Remote)?;
        if import.is_withdrawn() {
            return Ok(Err(Status::Withdrawn));
        }
        act(&import.view).map(Ok).map_err(PostError::Remote)
    }

    fn send(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        (from, told): (&Local<'_>, bool),
    ) -> Result<(), PostError> {
        let copied;
        let bytes: &[u8] = match *from {
            Local::Bytes(bytes) => bytes,
            Local::Region(slice) => {
                let (region, place) = self.own_place(slice)?;
                check_message(slice.bytes)?;
                let mut bytes = vec![0; slice.bytes as usize];
                region.map.read(place, &mut bytes);
                copied = bytes;
                &copied
            }
        };
        check_message(bytes.len() as u64)?;
        let Some(Some(of)) = self.endpoints.get_mut(endpoint.0 as usize) else {
            return Err(PostError::NotConnected);
        };
        if !of.has_room(bytes.len()) || of.unanswered() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        of.send(bytes, tag, told);
        Ok(())
    }

    fn add_endpoint(&mut self, make: impl FnOnce(EndpointId) -> Endpoint) -> EndpointId {
        let id = EndpointId(self.endpoints.len() as u32);
        self.endpoints.push(Some(make(id)));
        id
    }

    /// Takes up connections that peers have claimed slots for.
    fn accept(&mut self) {
        let claims = self.own.claims();
        if claims == self.claims_seen {
            return;
        }
        self.claims_seen = claims;
        let claimed: Vec<_> = self.own.slots(Phase::Claimed).collect();
        for slot in claimed {
            let claimer = slot.claimer();
            let peer = claimer.as_ref().map(|(name, _)| NodeFile::open(&self.directory.node(name)));
            let (Some((name, reliable)), Some(Ok(peer)), true) =
                (claimer, peer, slot.change(Phase::Claimed, Phase::Open))
            else {
                // Nobody is there whom one could answer: as if its claimer had died.
                if slot.change(Phase::Claimed, Phase::Open) {
                    slot.close_for_dead();
                }
                continue;
            };
            let reliability =
                if reliable { Reliability::Reliable } else { Reliability::Unreliable };
            let named = (name.to_string(), reliability);
            let id = self.add_endpoint(|id| Endpoint::new(id, named, peer, (slot, End::Owner)));
            if let Some(Some(endpoint)) = self.endpoints.get(id.0 as usize) {
                self.told.push_back(endpoint.connected());
                endpoint.peer.ring();
            }
        }
    }

    /// Gives each endpoint its turn, until there is something to tell.
    fn turns(&mut self, now: Moment) {
        let count = self.endpoints.len();
        for step in 0..count {
            let number = (self.turn + step) % count;
            let Some(of) = &mut self.endpoints[number] else { continue };
            if let Err(status) = of.turn(now, &self.regions, &mut self.told) {
                self.end(number, status);
            }
            if !self.told.is_empty() {
                self.turn = (number + 1) % count;
                return;
            }
        }
    }

    /// Now and then: who of the peers is alive, and which claims were left unfinished.
    fn look_at_lives(&mut self, now: Moment) {
        let since = self.lives_seen.get_or_insert(now);
        if now.since(*since) < LIFE_PERIOD {
            return;
        }
        *since = now;
        for number in 0..self.endpoints.len() {
            let dead = self.endpoints[number].as_ref().is_some_and(|of| !of.peer.is_alive());
            if dead {
                // What it sent before it died is still there.
                if let Some(of) = &mut self.endpoints[number] {
                    while of.is_due() && of.turn(now, &self.regions, &mut self.told).is_ok() {
                        if self.told.len() >= QUEUE_MAX {
                            return;
                        }
                    }
                }
                self.end(number, Status::PeerGone);
            }
        }
        let claiming: Vec<_> = self.own.slots(Phase::Claiming).collect();
        for slot in &claiming {
            let periods = &mut self.unfinished_claims[slot.number() as usize];
            *periods += 1;
            if *periods > CLAIM_PERIODS_MAX {
                *periods = 0;
                slot.take_back();
            }
        }
        if claiming.is_empty() {
            self.unfinished_claims = [0; SLOTS as usize];
        }
    }

    fn end(&mut self, number: usize, status: Status) {
        if let Some(mut of) = self.endpoints[number].take() {
            for import in &mut self.imports {
                if import.as_ref().is_some_and(|import| import.endpoint == of.id) {
                    *import = None;
                }
            }
            of.end(status, &mut self.told);
        }
    }
}

fn check_message(bytes: u64) -> Result<(), PostError> {
    let max = RECORD_BYTES_MAX as u64;
    if bytes <= max { Ok(()) } else { Err(PostError::TooLong { bytes, max }) }
}

impl Drop for Shm {
    fn drop(&mut self) {
        for number in 0..self.endpoints.len() {
            self.end(number, Status::Done);
        }
        self.regions.iter().flatten().for_each(OwnRegion::withdraw);
        // Files that cannot be removed are left like those of a killed process.
        let _ = self.directory.remove(&self.name);
        self.directory.remove_if_empty();
    }
}

impl Fabric for Shm {
    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let max = CAPABILITIES.region_bytes_max;
        if bytes == 0 || bytes > max {
            return Err(RegisterError::Size { bytes, max });
        }
        if self.regions.iter().flatten().count() >= CAPABILITIES.regions_max as usize {
            return Err(RegisterError::TooMany { max: CAPABILITIES.regions_max });
        }
        let id = self.regions.len() as u32;
        let region = OwnRegion::new(self.directory.path(), id, bytes)
            .map_err(|error| RegisterError::Memory { bytes, reason: reason(&error) })?;
        self.regions.push(Some(region));
        Ok(RegionId(id))
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        let own = self.own(region).map_err(|_| ExportError::UnknownRegion)?;
        if let Some((name, _)) = self.exported.iter().find(|of| of.1 == region) {
            return Err(ExportError::Exported { name: name.clone() });
        }
        if self.exported.iter().any(|of| of.0 == name) {
            return Err(ExportError::NameTaken { name });
        }
        own.grant(grant);
        let path = self.directory.region(&self.name, &name);
        match own.publish(&path) {
            Ok(()) => {
                self.exported.push((name, region));
                Ok(())
            }
            Err(error) => Err(ExportError::Host { name, reason: reason(&error) }),
        }
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        let found = self.regions.get_mut(region.0 as usize).and_then(Option::take);
        found.ok_or(AccessError::UnknownRegion)?.withdraw();
        if let Some(place) = self.exported.iter().position(|of| of.1 == region) {
            let (name, _) = self.exported.swap_remove(place);
            // What cannot be removed is withdrawn all the same.
            let _ = std::fs::remove_file(self.directory.region(&self.name, &name));
        }
        Ok(())
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        Ok(Arc::new(self.own(region)?.view()))
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let wrong = |expected| ConnectError::Name { peer: peer.to_owned(), expected };
        let name = Name::parse(peer).map_err(|_| wrong("write the name of a node of the group"))?;
        if name == self.name {
            return Err(wrong("a node cannot connect to itself"));
        }
        if self.endpoints.iter().flatten().count() >= CAPABILITIES.endpoints_max as usize {
            return Err(ConnectError::TooMany { max: CAPABILITIES.endpoints_max });
        }
        let host = |reason: String| ConnectError::Host { peer: peer.to_owned(), reason };
        let path = self.directory.node(&name);
        let node = NodeFile::open(&path).map_err(|error| host(error.to_string()))?;
        if !node.is_alive() {
            return Err(host("its process has died; start it again".to_owned()));
        }
        let slot = node.claim(&self.name, reliability == Reliability::Reliable);
        let slot = slot.map_err(|status| host(status.to_string()))?;
        let named = (name.to_string(), reliability);
        Ok(self.add_endpoint(|id| Endpoint::new(id, named, node, (slot, End::Claimer))))
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        self.endpoint(endpoint)?;
        self.end(endpoint.0 as usize, Status::Done);
        Ok(())
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let of = self.endpoint(endpoint).map_err(|_| ImportError::NotConnected)?;
        if self.imports.iter().flatten().count() >= CAPABILITIES.regions_max as usize {
            return Err(ImportError::TooMany { max: CAPABILITIES.regions_max });
        }
        let peer = Name::parse(&of.peer_name).map_err(|_| ImportError::NotConnected)?;
        let region = Imported::open(&self.directory.region(&peer, &name), key);
        let remote = RemoteId(self.imports.len() as u32);
        let (status, bytes) = match &region {
            Ok(region) => (Status::Done, region.view.bytes),
            Err(status) => (*status, 0),
        };
        self.imports.push(region.ok().map(|region| Import { endpoint, region }));
        self.told.push_back(Completion::Imported { remote, status, bytes });
        Ok(remote)
    }

    fn window(&self, remote: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        match self.imports.get(remote.0 as usize) {
            Some(Some(import)) if !import.region.is_withdrawn() => {
                Ok(Some(Arc::new(import.region.view.clone())))
            }
            _ => Err(AccessError::UnknownRegion),
        }
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        self.endpoint(endpoint)?;
        if self.told.len() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        let (wanted, ended) = match &work {
            Work::Put { from, to, notify, complete_at } => {
                (complete_at.is_some(), self.put(endpoint, (from, *to), *notify)?.map(|()| 0))
            }
            Work::Get { from, into } => (true, self.get(endpoint, *from, *into)?.map(|()| 0)),
            Work::FetchAdd { at, add } => {
                (true, self.atomic(endpoint, *at, |word| word.fetch_add(at.offset, *add))?)
            }
            Work::CompareSwap { at, expected, desired } => {
                let swap = |word: &dyn Memory| word.compare_swap(at.offset, *expected, *desired);
                (true, self.atomic(endpoint, *at, swap)?)
            }
            Work::Send { from, complete_at } => {
                return self.send(endpoint, tag, (from, complete_at.is_some()));
            }
            // Whatever was posted before is placed already.
            Work::Fence | Work::Flush => (true, Ok(0)),
        };
        match ended {
            Ok(value) if wanted => self.tell(endpoint, tag, &work, (Status::Done, value)),
            Ok(_) => {}
            Err(status) => self.tell(endpoint, tag, &work, (status, 0)),
        }
        Ok(())
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        self.endpoint(endpoint)?;
        self.own_place(into)?;
        let Some(Some(of)) = self.endpoints.get_mut(endpoint.0 as usize) else {
            return Err(PostError::NotConnected);
        };
        if of.receives.len() >= QUEUE_MAX {
            return Err(PostError::Full);
        }
        of.receives.push_back((tag, into));
        Ok(())
    }

    fn poll(&mut self, now: Moment) -> Option<Completion> {
        if self.told.is_empty() {
            self.accept();
            self.turns(now);
            self.look_at_lives(now);
        }
        self.told.pop_front()
    }

    fn deadline(&self) -> Option<Moment> {
        self.lives_seen.map(|since| since + LIFE_PERIOD)
    }
}
