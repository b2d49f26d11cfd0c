//! A node's control file: connection requests, the channels of connections, and a bell.
//!
//! The file has a fixed number of slots, one per connection. A peer claims a free slot, writes its
//! name into it, and rings; the owner answers by opening it. Both then have two channels. Either
//! side may close; the second to do so frees the slot. The slot's state is one word (phase and
//! generation), changed by compare-and-swap, so that a slot that was freed and claimed again is not
//! mistaken for the old one.
//!
//! All states are in the file's head, so that a search does not touch the slots. A slot has memory
//! only from its first claim on, and only its two ends map it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::compiler_fence;
use std::time::Duration;

use fluxline_core::fabric::{NAME_BYTES_MAX, Name, Reliability, Status};

use super::channel::{CHANNEL_BYTES, Receiver, Sender};
use super::directory::{Directory, is_held};
use super::{LAYOUT, ShmError, reason};
use crate::sys::futex::{sleep_on, wake};
use crate::sys::map::SharedMap;
use crate::sys::membarrier;
#[cfg(not(all(test, loom)))]
use crate::sys::shared::make_room;
use crate::sys::shared::{Access, Pages};
use crate::sys::shim::{AtomicU64, Ordering, fence};

/// Most connections to one node; one under loom, which makes each word an object.
pub(super) const SLOTS: u64 = if cfg!(loom) { 1 } else { 1024 };
const MAGIC: u64 = u64::from_le_bytes(*b"FLXNODE\0");
/// Size of the head, and of a slot \[byte\]: kernels with pages of up to 64 KiB can map each
/// separately.
const HEAD_BYTES: u64 = if cfg!(loom) { 400 } else { 64 << 10 };
const SLOT_BYTES: u64 = SLOT_HEADER_BYTES + 2 * CHANNEL_BYTES;
const SLOT_HEADER_BYTES: u64 = if cfg!(loom) { 264 } else { 512 };
const FILE_BYTES: u64 = HEAD_BYTES + SLOTS * SLOT_BYTES;
const _: () = assert!(cfg!(loom) || SLOT_BYTES == HEAD_BYTES, "slots can be mapped alone");
const _: () = assert!(at::STATES + 8 * SLOTS <= HEAD_BYTES, "the states fit the head");
/// Longest sleep when a wake-up may be missed, because the kernel refuses the fence that it offered
/// at the start.
const UNFENCED_SLEEP_MAX: Duration = Duration::from_millis(1);
/// Tries for a name while other nodes start and end.
const TRIES: u32 = 20;

/// Offsets of words in the file's head \[byte\]; those that are written often have lines of their
/// own.
mod at {
    pub const MAGIC: u64 = 0;
    pub const LAYOUT: u64 = 8;
    /// Not 0: a sleeper of this node makes others' stores visible before it looks a last time.
    pub const FENCES_OTHERS: u64 = 16;
    pub const CLAIMS: u64 = 128;
    pub const BELL: u64 = 256;
    pub const SLEEPERS: u64 = 384;
    /// The states of all slots, a word each.
    pub const STATES: u64 = if cfg!(loom) { 392 } else { 4096 };
}

/// Offsets of words in a slot's head \[byte\].
mod in_slot {
    /// The identity of its claimer's control file, because another process may have the name by
    /// now.
    pub const CLAIMER_FILE: u64 = 0;
    pub const RELIABLE: u64 = 8;
    pub const NAME_BYTES: u64 = 16;
    pub const NAME: u64 = 24;
    pub const CLOSED: [u64; 2] = [128, 256];
}

/// One of the two ends of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The node that claimed it.
    Claimer,
    /// The node in whose file it is.
    Owner,
}

/// The phase in a slot's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Claiming,
    Claimed,
    Open,
    /// A value that nodes of this version never write.
    Invalid,
}

const PHASES: [Phase; 4] = [Phase::Free, Phase::Claiming, Phase::Claimed, Phase::Open];

/// The node that claimed a slot, read from the slot's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claimer {
    pub name: Name,
    /// The inode of its control file.
    pub file: u64,
    pub reliability: Reliability,
}

/// A control file, the node's own or a peer's.
#[derive(Clone, Debug)]
pub(super) struct NodeFile {
    file: Arc<File>,
    inode: u64,
    /// Its head.
    map: Arc<SharedMap>,
    /// True if the side that notifies must execute a fence of its own (see `membarrier`).
    needs_fence: bool,
    /// Its only slot, in a model.
    #[cfg(all(test, loom))]
    slot: Arc<SharedMap>,
}

impl NodeFile {
    /// Makes a node's file and holds its lock; removes the files of a dead node of that name.
    pub fn create(directory: &Directory, node: &Name) -> Result<NodeFile, ShmError> {
        let name = Directory::node(node);
        let host = |error: &std::io::Error| ShmError::host(&directory.path_of(&name), error);
        let file = directory.unnamed(HEAD_BYTES, Pages::Small).map_err(|error| host(&error))?;
        // Slots get their memory later.
        file.set_len(FILE_BYTES).map_err(|error| host(&error))?;
        let map = SharedMap::of_file(file.as_fd(), HEAD_BYTES as usize, Access::ReadWrite);
        let map = map.map_err(|error| host(&error))?;
        map.word(at::LAYOUT).store(LAYOUT, Ordering::Relaxed);
        map.word(at::FENCES_OTHERS).store(membarrier::register().into(), Ordering::Relaxed);
        map.word(at::MAGIC).store(MAGIC, Ordering::Release);
        file.try_lock().map_err(|_| ShmError::NameTaken { node: node.clone() })?;
        for _ in 0..TRIES {
            match directory.name_file(&file, &name) {
                Ok(()) => return Ok(NodeFile::new(file, map)),
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(host(&error));
                }
                Err(_) => remove_dead(directory, node)?,
            }
        }
        Err(ShmError::NameTaken { node: node.clone() })
    }

    /// Opens a peer's file. Errors: it does not exist, it is of another user, it is not a control
    /// file.
    pub fn open(directory: &Directory, node: &Name) -> Result<NodeFile, ShmError> {
        let name = Directory::node(node);
        let file = directory.open_file(&name)?;
        let path = directory.path_of(&name);
        let version = || ShmError::Version { path: path.clone() };
        let length = file.metadata().map_err(|error| ShmError::host(&path, &error))?.len();
        if length != FILE_BYTES {
            return Err(version());
        }
        let map = SharedMap::of_file(file.as_fd(), HEAD_BYTES as usize, Access::ReadWrite);
        let map = map.map_err(|error| ShmError::host(&path, &error))?;
        let word = |place| map.word(place).load(Ordering::Acquire);
        if word(at::MAGIC) != MAGIC || word(at::LAYOUT) != LAYOUT {
            return Err(version());
        }
        Ok(NodeFile::new(file, map))
    }

    #[cfg(not(all(test, loom)))]
    fn new(file: File, map: SharedMap) -> NodeFile {
        let (inode, needs_fence) = (inode_of(&file), must_fence(&map));
        NodeFile { file: Arc::new(file), inode, map: Arc::new(map), needs_fence }
    }

    #[cfg(all(test, loom))]
    fn new(file: File, map: SharedMap) -> NodeFile {
        let slot = Arc::new(SharedMap::for_test(SLOT_BYTES));
        let (inode, needs_fence) = (inode_of(&file), must_fence(&map));
        NodeFile { file: Arc::new(file), inode, map: Arc::new(map), needs_fence, slot }
    }

    /// Makes a control file in memory, for a model of its slots and its bell.
    #[cfg(all(test, loom))]
    pub fn of_heap() -> NodeFile {
        let file = File::open("/dev/null").expect("always there");
        NodeFile::new(file, SharedMap::for_test(HEAD_BYTES))
    }

    /// Maps a slot and gives it memory. Cost: two system calls.
    ///
    /// Errors: the file system is full, or this process has no room for a mapping.
    #[cfg(not(all(test, loom)))]
    pub fn slot(&self, place: SlotState) -> std::io::Result<Slot> {
        let start = HEAD_BYTES + place.number * SLOT_BYTES;
        make_room(&self.file, start, SLOT_BYTES)?;
        let start = libc::off_t::try_from(start).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        let map = SharedMap::of_file_at(
            self.file.as_fd(),
            start,
            SLOT_BYTES as usize,
            Access::ReadWrite,
        )?;
        Ok(Slot { place, map: Arc::new(map) })
    }

    #[cfg(all(test, loom))]
    pub fn slot(&self, place: SlotState) -> std::io::Result<Slot> {
        Ok(Slot { place, map: Arc::clone(&self.slot) })
    }

    /// Returns true if its process lives. Cost: one or two system calls.
    pub fn is_alive(&self) -> bool {
        is_held(&self.file)
    }

    /// Returns the inode, which is unique among all files that exist now.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns true when both are the same open file.
    pub fn is_same(&self, other: &NodeFile) -> bool {
        Arc::ptr_eq(&self.file, &other.file)
    }

    /// Returns the number of all claims so far: when it changes, a slot may be newly claimed.
    pub fn claims(&self) -> u64 {
        self.map.word(at::CLAIMS).load(Ordering::Acquire) // SYNC claimed <- claim
    }

    /// Claims a free slot. Errors, in words: no slot is free, or there is not enough memory for it.
    pub fn claim(&self, by: &Claimer) -> Result<Slot, String> {
        for place in self.places(Phase::Free) {
            if !place.change(Phase::Free, Phase::Claiming) {
                continue;
            }
            let slot = self.slot(place.clone()).map_err(|error| {
                place.take_back();
                reason(&error)
            })?;
            slot.clear();
            slot.sign(by);
            if place.change(Phase::Claiming, Phase::Claimed) {
                self.map.word(at::CLAIMS).fetch_add(1, Ordering::Release); // SYNC claimed -> claims
                self.ring();
                return Ok(slot);
            }
        }
        Err(Status::NoRoom.to_string())
    }

    /// Returns the slots in this phase.
    pub fn places(&self, phase: Phase) -> impl Iterator<Item = SlotState> + '_ {
        (0..SLOTS).filter_map(move |number| {
            let (found, generation) = SlotState::state_of(&self.map, number);
            let place = || SlotState { head: Arc::clone(&self.map), number, generation };
            (found == phase).then(place)
        })
    }

    /// Wakes the file's process if it sleeps; call after the change that it waits for.
    pub fn ring(&self) {
        self.fence_before_bell(); // SYNC bell <-> sleep
        if self.map.half_word(at::SLEEPERS).load(Ordering::Relaxed) != 0 {
            self.map.half_word(at::BELL).fetch_add(1, Ordering::Relaxed);
            wake(self.map.half_word(at::BELL));
        }
    }

    /// Sleeps until the bell rings, at most `timeout`, unless `is_due` returns true.
    pub fn sleep(&self, timeout: Duration, is_due: impl Fn() -> bool) {
        let (bell, sleepers) = (self.map.half_word(at::BELL), self.map.half_word(at::SLEEPERS));
        let seen = bell.load(Ordering::Relaxed);
        sleepers.store(1, Ordering::Relaxed);
        let timeout = self.fence_before_sleep(timeout); // SYNC bell <-> ring
        if !is_due() {
            sleep_on(bell, seen, timeout);
        }
        sleepers.store(0, Ordering::Relaxed);
    }

    /// Orders a change before the look for sleepers: the frequent half of the fence.
    #[inline]
    fn fence_before_bell(&self) {
        if self.needs_fence {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    /// Orders the announcement of a sleep before the last look for work, also for those who ring
    /// without a fence. Returns the longest sleep, which is short if the kernel refused its fence.
    fn fence_before_sleep(&self, timeout: Duration) -> Duration {
        fence(Ordering::SeqCst);
        let promised = self.map.word(at::FENCES_OTHERS).load(Ordering::Relaxed) != 0;
        if promised && !membarrier::everywhere() {
            return timeout.min(UNFENCED_SLEEP_MAX);
        }
        timeout
    }
}

/// Returns true if a process that rings the bell in this head must execute a fence of its own:
/// either side lacks the kernel's fence.
fn must_fence(map: &SharedMap) -> bool {
    map.word(at::FENCES_OTHERS).load(Ordering::Relaxed) == 0 || !membarrier::register()
}

/// Returns the inode of an open file; 0, which no claimer has, if the host does not report it.
fn inode_of(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.ino())
}

/// Removes the files of a dead node; an error when it lives.
fn remove_dead(directory: &Directory, node: &Name) -> Result<(), ShmError> {
    let name = Directory::node(node);
    let file = match directory.open_file(&name) {
        Err(ShmError::NotThere { .. }) => return Ok(()), // it has just ended: try again
        file => file?,
    };
    // Another process that checks the file also holds the lock for a moment.
    for _ in 0..TRIES {
        if file.try_lock().is_ok() {
            let host = |error| ShmError::host(&directory.path_of(&name), &error);
            return directory.remove(node).map_err(host);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ShmError::NameTaken { node: node.clone() })
}

/// The state word of one connection's slot in a control file.
#[derive(Clone, Debug)]
pub(super) struct SlotState {
    head: Arc<SharedMap>,
    number: u64,
    generation: u64,
}

impl SlotState {
    fn state_of(head: &SharedMap, number: u64) -> (Phase, u64) {
        // SYNC slot-state <- change
        let state = head.word(at::STATES + 8 * number).load(Ordering::Acquire);
        let phase = PHASES.get((state & 0xFF) as usize).copied().unwrap_or(Phase::Invalid);
        (phase, state >> 8)
    }

    /// Its number in the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    fn state(&self) -> &AtomicU64 {
        self.head.word(at::STATES + 8 * self.number)
    }

    /// The phase, as long as the slot is still this connection's.
    pub fn phase(&self) -> Option<Phase> {
        let (phase, generation) = SlotState::state_of(&self.head, self.number);
        (generation == self.generation).then_some(phase)
    }

    /// Changes the phase, unless somebody else has.
    pub fn change(&self, from: Phase, to: Phase) -> bool {
        self.change_to(from, self.generation, to)
    }

    fn change_to(&self, from: Phase, generation: u64, to: Phase) -> bool {
        let word = |generation, phase| generation << 8 | phase as u64;
        // SYNC slot-state -> state_of
        let changed = self.state().compare_exchange(
            word(self.generation, from),
            word(generation, to),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        changed.is_ok()
    }

    /// Refuses a claim: its claimer finds that the slot belongs to another.
    pub fn refuse(&self) {
        self.free_from(Phase::Claimed); // unless another connection already has it
    }

    /// Takes back a claim that its claimer did not complete.
    pub fn take_back(&self) {
        self.free_from(Phase::Claiming);
    }

    /// Frees the slot in one step, so that a dying process cannot leave it half freed. The next
    /// claimer clears it.
    fn free_from(&self, phase: Phase) -> bool {
        self.change_to(phase, self.generation + 1, Phase::Free)
    }
}

/// One connection's slot in a control file.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    place: SlotState,
    map: Arc<SharedMap>,
}

impl Slot {
    /// Clears the previous connection's data.
    fn clear(&self) {
        for place in (0..SLOT_BYTES).step_by(8) {
            self.map.word(place).store(0, Ordering::Relaxed);
        }
    }

    /// The phase, as long as the slot is still this connection's.
    pub fn phase(&self) -> Option<Phase> {
        self.place.phase()
    }

    /// Changes the phase, unless somebody else has.
    pub fn change(&self, from: Phase, to: Phase) -> bool {
        self.place.change(from, to)
    }

    /// Writes the claimer into the slot.
    fn sign(&self, by: &Claimer) {
        let text = by.name.as_str().as_bytes();
        let set = |place, value| self.map.word(place).store(value, Ordering::Relaxed);
        set(in_slot::CLAIMER_FILE, by.file);
        set(in_slot::RELIABLE, u64::from(by.reliability == Reliability::Reliable));
        set(in_slot::NAME_BYTES, text.len() as u64);
        self.map.write(in_slot::NAME, text);
    }

    /// Returns the node that claimed it; `None`: the slot has no valid name.
    pub fn claimer(&self) -> Option<Claimer> {
        let bytes = self.map.word(in_slot::NAME_BYTES).load(Ordering::Relaxed);
        let mut text = vec![0; usize::try_from(bytes).ok().filter(|&b| b <= NAME_BYTES_MAX)?];
        self.map.read(in_slot::NAME, &mut text);
        let name = Name::parse(std::str::from_utf8(&text).ok()?).ok()?;
        let reliability = match self.map.word(in_slot::RELIABLE).load(Ordering::Relaxed) {
            0 => Reliability::Unreliable,
            _ => Reliability::Reliable,
        };
        let file = self.map.word(in_slot::CLAIMER_FILE).load(Ordering::Relaxed);
        Some(Claimer { name, file, reliability })
    }

    /// Returns the two channels from the point of view of `end`.
    pub fn channels(&self, end: End) -> (Sender, Receiver) {
        let [to_owner, to_claimer] = [0, CHANNEL_BYTES].map(|place| SLOT_HEADER_BYTES + place);
        match end {
            End::Claimer => {
                (Sender::new(&self.map, to_owner), Receiver::new(&self.map, to_claimer))
            }
            End::Owner => (Sender::new(&self.map, to_claimer), Receiver::new(&self.map, to_owner)),
        }
    }

    /// Returns true when `end` has closed.
    pub fn is_closed(&self, end: End) -> bool {
        // SYNC closed <- close
        self.map.word(in_slot::CLOSED[end as usize]).load(Ordering::Acquire) != 0
    }

    /// Closes at `end`; the second to close frees the slot. A refused slot already belongs to
    /// another connection. A slot that its owner has not answered is taken back.
    pub fn close(&self, end: End) {
        let taken_back = end == End::Claimer && self.place.free_from(Phase::Claimed);
        if taken_back || self.phase().is_none() {
            return;
        }
        // SYNC closed -> is_closed
        self.map.word(in_slot::CLOSED[end as usize]).store(1, Ordering::Release);
        fence(Ordering::SeqCst); // if both close at the same time, at least one sees the other
        let other = match end {
            End::Claimer => End::Owner,
            End::Owner => End::Claimer,
        };
        if self.is_closed(other) {
            self.place.free_from(Phase::Open);
        }
    }

    /// Frees a slot whose claimer died and can no longer close it.
    pub fn close_for_dead(&self) {
        self.map.word(in_slot::CLOSED[End::Claimer as usize]).store(1, Ordering::Release);
        self.close(End::Owner);
    }

    /// Refuses a claim: its claimer finds that the slot belongs to another.
    pub fn refuse(&self) {
        self.place.refuse();
    }
}
