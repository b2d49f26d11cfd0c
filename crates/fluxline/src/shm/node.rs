//! A node's control file: who wants to connect, the channels of its connections, and a bell.
//!
//! The file has a fixed number of slots, one per connection. A peer claims a free slot, writes its
//! name into it, and rings; the owner answers by opening it. Both then have two channels. Either
//! may close; the second to do so frees the slot. The slot's state is one word, phase and
//! generation, changed by compare-and-swap, so that a slot that was freed and claimed again is not
//! taken for the old one.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fluxline_proto::fabric::{NAME_BYTES_MAX, Name, Status};

use super::channel::{CHANNEL_BYTES, Receiver, Sender};
use super::directory::{Directory, is_held, open_own};
use super::{LAYOUT, ShmError};
use crate::sys::futex::{sleep_on, wake};
use crate::sys::map::SharedMap;
use crate::sys::shared::{name_file, unnamed_file};
use crate::sys::shim::{AtomicU64, Ordering, fence};

/// Connections of one node at most; loom, to which each word is an object, has one.
pub(super) const SLOTS: u64 = if cfg!(loom) { 1 } else { 16 };
const MAGIC: u64 = u64::from_le_bytes(*b"FLXNODE\0");
const PAGE_BYTES: u64 = if cfg!(loom) { 392 } else { 4096 };
const SLOT_HEADER_BYTES: u64 = if cfg!(loom) { 264 } else { 512 };
const SLOT_BYTES: u64 = (SLOT_HEADER_BYTES + 2 * CHANNEL_BYTES).next_multiple_of(PAGE_BYTES);
const FILE_BYTES: u64 = PAGE_BYTES + SLOTS * SLOT_BYTES;
/// How often a name is tried for while others come and go.
const TRIES: u32 = 20;

/// Words of the file's head \[byte\], those that are written often on lines of their own.
mod at {
    pub const MAGIC: u64 = 0;
    pub const LAYOUT: u64 = 8;
    pub const CLAIMS: u64 = 128;
    pub const BELL: u64 = 256;
    pub const SLEEPERS: u64 = 384;
}

/// Words of a slot's head \[byte\].
mod in_slot {
    pub const STATE: u64 = 0;
    pub const RELIABLE: u64 = 8;
    pub const NAME_BYTES: u64 = 16;
    pub const NAME: u64 = 24;
    pub const CLOSED: [u64; 2] = [128, 256];
}

/// Which end of a slot one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Who has claimed it.
    Claimer,
    /// Whose file it is in.
    Owner,
}

/// What a slot's state word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Claiming,
    Claimed,
    Open,
    Freeing,
}

const PHASES: [Phase; 5] =
    [Phase::Free, Phase::Claiming, Phase::Claimed, Phase::Open, Phase::Freeing];

/// A control file, one's own or a peer's.
#[derive(Clone, Debug)]
pub(super) struct NodeFile {
    file: Arc<File>,
    pub map: Arc<SharedMap>,
}

impl NodeFile {
    /// Makes a node's file and holds it; what a dead node of that name left goes.
    pub fn create(directory: &Directory, node: &Name) -> Result<NodeFile, ShmError> {
        let path = directory.node(node);
        let host = |error: &std::io::Error| ShmError::host(&path, error);
        let file =
            unnamed_file(directory.path(), FILE_BYTES, false).map_err(|error| host(&error))?;
        let map = SharedMap::of_file(file.as_fd(), FILE_BYTES as usize, true);
        let map = Arc::new(map.map_err(|error| host(&error))?);
        map.word(at::LAYOUT).store(LAYOUT, Ordering::Relaxed);
        map.word(at::MAGIC).store(MAGIC, Ordering::Release);
        file.try_lock().map_err(|_| ShmError::NameTaken { node: node.clone() })?;
        for _ in 0..TRIES {
            match name_file(&file, &path) {
                Ok(()) => return Ok(NodeFile { file: Arc::new(file), map }),
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(host(&error));
                }
                Err(_) => remove_dead(directory, node)?,
            }
        }
        Err(ShmError::NameTaken { node: node.clone() })
    }

    /// Opens a peer's file. Errors: there is none, it is not of this user, it is no control file.
    pub fn open(path: &Path) -> Result<NodeFile, ShmError> {
        let file = open_own(path)?;
        let version = || ShmError::Version { path: path.to_path_buf() };
        let length = file.metadata().map_err(|error| ShmError::host(path, &error))?.len();
        if length != FILE_BYTES {
            return Err(version());
        }
        let map = SharedMap::of_file(file.as_fd(), FILE_BYTES as usize, true);
        let map = map.map_err(|error| ShmError::host(path, &error))?;
        let word = |place| map.word(place).load(Ordering::Acquire);
        if word(at::MAGIC) != MAGIC || word(at::LAYOUT) != LAYOUT {
            return Err(version());
        }
        Ok(NodeFile { file: Arc::new(file), map: Arc::new(map) })
    }

    /// A control file that is memory alone, for a model of its slots and its bell.
    #[cfg(all(test, loom))]
    pub fn of_heap() -> NodeFile {
        let file = File::open("/dev/null").expect("always there");
        NodeFile { file: Arc::new(file), map: Arc::new(SharedMap::for_test(FILE_BYTES)) }
    }

    /// Whether its process lives. Cost: a system call or two.
    pub fn is_alive(&self) -> bool {
        is_held(&self.file)
    }

    /// How many claims there ever were: when it changes, slots are worth looking at.
    pub fn claims(&self) -> u64 {
        self.map.word(at::CLAIMS).load(Ordering::Acquire) // SYNC claimed <- claim
    }

    /// Claims a free slot for `name`.
    pub fn claim(&self, name: &Name, reliable: bool) -> Result<Slot, Status> {
        for number in 0..SLOTS {
            let state = Slot::state_of(&self.map, number);
            let slot = Slot { map: Arc::clone(&self.map), number, generation: state.1 };
            if state.0 != Phase::Free || !slot.change(Phase::Free, Phase::Claiming) {
                continue;
            }
            let text = name.as_str().as_bytes();
            slot.word(in_slot::RELIABLE).store(reliable.into(), Ordering::Relaxed);
            slot.word(in_slot::NAME_BYTES).store(text.len() as u64, Ordering::Relaxed);
            self.map.write(slot.start() + in_slot::NAME, text);
            if slot.change(Phase::Claiming, Phase::Claimed) {
                self.map.word(at::CLAIMS).fetch_add(1, Ordering::Release); // SYNC claimed -> claims
                self.ring();
                return Ok(slot);
            }
        }
        Err(Status::NoRoom)
    }

    /// The slots in this phase.
    pub fn slots(&self, phase: Phase) -> impl Iterator<Item = Slot> + '_ {
        (0..SLOTS).filter_map(move |number| {
            let (found, generation) = Slot::state_of(&self.map, number);
            let slot = Slot { map: Arc::clone(&self.map), number, generation };
            (found == phase).then_some(slot)
        })
    }

    /// Wakes the file's process if it sleeps; call after the change that it waits for.
    pub fn ring(&self) {
        fence(Ordering::SeqCst); // SYNC bell <-> sleep
        if self.map.half_word(at::SLEEPERS).load(Ordering::Relaxed) != 0 {
            self.map.half_word(at::BELL).fetch_add(1, Ordering::Relaxed);
            wake(self.map.half_word(at::BELL));
        }
    }

    /// Sleeps until somebody rings, at most `timeout`, unless `is_due` says that there is work.
    pub fn sleep(&self, timeout: Duration, is_due: impl Fn() -> bool) {
        let (bell, sleepers) = (self.map.half_word(at::BELL), self.map.half_word(at::SLEEPERS));
        let seen = bell.load(Ordering::Relaxed);
        sleepers.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SYNC bell <-> ring
        if !is_due() {
            sleep_on(bell, seen, timeout);
        }
        sleepers.store(0, Ordering::Relaxed);
    }
}

/// Removes what a dead node left; an error when it lives.
fn remove_dead(directory: &Directory, node: &Name) -> Result<(), ShmError> {
    let path = directory.node(node);
    let file = match open_own(&path) {
        Err(ShmError::NotThere { .. }) => return Ok(()), // gone by itself: try again
        file => file?,
    };
    // A passing look of another process also holds it, for a moment.
    for _ in 0..TRIES {
        if file.try_lock().is_ok() {
            return directory.remove(node).map_err(|error| ShmError::host(&path, &error));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ShmError::NameTaken { node: node.clone() })
}

/// One connection's place in a control file.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    map: Arc<SharedMap>,
    number: u64,
    generation: u64,
}

impl Slot {
    fn state_of(map: &SharedMap, number: u64) -> (Phase, u64) {
        let start = PAGE_BYTES + number * SLOT_BYTES;
        // SYNC slot-state <- change
        let state = map.word(start + in_slot::STATE).load(Ordering::Acquire);
        // Nonsense of another process is never free.
        let phase = PHASES.get((state & 0xFF) as usize).copied().unwrap_or(Phase::Freeing);
        (phase, state >> 8)
    }

    /// Its number in the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn start(&self) -> u64 {
        PAGE_BYTES + self.number * SLOT_BYTES
    }

    fn word(&self, place: u64) -> &AtomicU64 {
        self.map.word(self.start() + place)
    }

    /// The phase, as long as the slot is still this connection's.
    pub fn phase(&self) -> Option<Phase> {
        let (phase, generation) = Slot::state_of(&self.map, self.number);
        (generation == self.generation).then_some(phase)
    }

    /// Changes the phase, unless somebody else has.
    pub fn change(&self, from: Phase, to: Phase) -> bool {
        let word = |phase| self.generation << 8 | phase as u64;
        let state = self.word(in_slot::STATE);
        // SYNC slot-state -> state_of
        state.compare_exchange(word(from), word(to), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Who claimed it; `None`: no name.
    pub fn claimer(&self) -> Option<(Name, bool)> {
        let bytes = self.word(in_slot::NAME_BYTES).load(Ordering::Relaxed);
        let mut text = vec![0; usize::try_from(bytes).ok().filter(|&b| b <= NAME_BYTES_MAX)?];
        self.map.read(self.start() + in_slot::NAME, &mut text);
        let name = Name::parse(std::str::from_utf8(&text).ok()?).ok()?;
        Some((name, self.word(in_slot::RELIABLE).load(Ordering::Relaxed) != 0))
    }

    /// The two channels as `end` has them.
    pub fn channels(&self, end: End) -> (Sender, Receiver) {
        let [to_owner, to_claimer] =
            [0, CHANNEL_BYTES].map(|place| self.start() + SLOT_HEADER_BYTES + place);
        match end {
            End::Claimer => {
                (Sender::new(&self.map, to_owner), Receiver::new(&self.map, to_claimer))
            }
            End::Owner => (Sender::new(&self.map, to_claimer), Receiver::new(&self.map, to_owner)),
        }
    }

    /// Whether `end` has closed.
    pub fn is_closed(&self, end: End) -> bool {
        // SYNC closed <- close
        self.word(in_slot::CLOSED[end as usize]).load(Ordering::Acquire) != 0
    }

    /// Closes at `end`; the second to close frees the slot.
    pub fn close(&self, end: End) {
        // SYNC closed -> is_closed
        self.word(in_slot::CLOSED[end as usize]).store(1, Ordering::Release);
        fence(Ordering::SeqCst); // of two that close at once, at least one sees the other
        let other = match end {
            End::Claimer => End::Owner,
            End::Owner => End::Claimer,
        };
        if self.is_closed(other) && self.change(Phase::Open, Phase::Freeing) {
            self.free();
        }
    }

    /// Frees a slot whose claimer died: it closes nothing any more.
    pub fn close_for_dead(&self) {
        self.word(in_slot::CLOSED[End::Claimer as usize]).store(1, Ordering::Release);
        self.close(End::Owner);
    }

    /// Refuses a claim: its claimer finds the slot another's.
    pub fn refuse(&self) {
        if self.change(Phase::Claimed, Phase::Freeing) {
            self.free();
        }
    }

    /// Takes a claim back that its claimer did not complete.
    pub fn take_back(&self) {
        if self.change(Phase::Claiming, Phase::Freeing) {
            self.free();
        }
    }

    fn free(&self) {
        for place in (0..SLOT_HEADER_BYTES + 2 * CHANNEL_BYTES).step_by(8).skip(1) {
            self.word(place).store(0, Ordering::Relaxed);
        }
        let next = (self.generation + 1) << 8 | Phase::Free as u64;
        self.word(in_slot::STATE).store(next, Ordering::Release); // SYNC slot-state -> state_of
    }
}
