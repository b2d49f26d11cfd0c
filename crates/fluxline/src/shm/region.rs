//! A region: a file of one header page and the data behind it, mapped by owner and importers.
//!
//! The header has the size of the region, the rights of importers, and the key that they must
//! present. An importer compares the header with the file before it maps the region. So a truncated
//! or foreign file causes an error status, never a fault.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fluxline_core::fabric::{AccessError, Grant, Key, Memory, Rights, Status};

use super::directory::Directory;
use super::{LAYOUT, ShmError, is_shortage};
use crate::sys::map::SharedMap;
use crate::sys::shared::{Access, Pages};
use crate::sys::shim::Ordering;

/// Size of the header \[byte\]: a page, so that the data begins at a page.
pub(super) const HEADER_BYTES: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"FLXREGIO");

/// Words of the header \[byte\].
mod at {
    pub const MAGIC: u64 = 0;
    pub const LAYOUT: u64 = 8;
    pub const BYTES: u64 = 16;
    pub const ID: u64 = 24;
    pub const RIGHTS: u64 = 32;
    pub const KEY: u64 = 40;
    pub const WITHDRAWN: u64 = 48;
}

/// A region that this node owns.
#[derive(Debug)]
pub(super) struct OwnRegion {
    pub file: Arc<File>,
    pub map: Arc<SharedMap>,
    pub bytes: u64,
    /// True for a push ring, which only its two ends write.
    pub is_ring: bool,
}

impl OwnRegion {
    /// Makes a region, zeroed and without a name.
    pub fn new(
        directory: &Directory,
        id: u32,
        bytes: u64,
        pages: Pages,
    ) -> std::io::Result<OwnRegion> {
        let all = HEADER_BYTES + bytes;
        let size = usize::try_from(all).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        let file = directory.unnamed(all, pages)?;
        let map = Arc::new(SharedMap::of_own_file(file.as_fd(), size)?);
        let set = |place, value| map.word(place).store(value, Ordering::Relaxed);
        set(at::LAYOUT, LAYOUT);
        set(at::BYTES, bytes);
        set(at::ID, id.into());
        map.word(at::MAGIC).store(MAGIC, Ordering::Release);
        Ok(OwnRegion { file: Arc::new(file), map, bytes, is_ring: false })
    }

    /// Makes a region in memory, for a model of its connections.
    #[cfg(all(test, loom))]
    pub fn of_heap(bytes: u64) -> OwnRegion {
        let file = Arc::new(File::open("/dev/null").expect("always there"));
        let map = Arc::new(SharedMap::for_test(bytes));
        OwnRegion { file, map, bytes, is_ring: false }
    }

    /// Stores the rights and the key for importers.
    pub fn grant(&self, grant: Grant) {
        let Rights { put, get, atomic } = grant.rights;
        if grant.rights.changes() {
            self.map.share();
        }
        let rights = u64::from(put) | u64::from(get) << 1 | u64::from(atomic) << 2;
        self.map.word(at::RIGHTS).store(rights, Ordering::Relaxed);
        self.map.word(at::KEY).store(grant.key.0, Ordering::Release);
    }

    /// Publishes the region under the name that importers open. An existing file belonged to a dead
    /// owner: its name begins with this node's name, whose lock this process holds.
    pub fn publish(&self, directory: &Directory, name: &Path) -> std::io::Result<()> {
        match directory.name_file(&self.file, name) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                directory.remove_file(name)?;
                directory.name_file(&self.file, name)
            }
            named => named,
        }
    }

    /// Marks it as withdrawn for importers.
    pub fn withdraw(&self) {
        self.map.word(at::WITHDRAWN).store(1, Ordering::Release); // SYNC withdrawn -> is_withdrawn
    }

    /// Calls `visit` with the bytes, unless others may use them.
    pub fn view_bytes(&mut self, visit: &mut dyn FnMut(&mut [u8])) -> Result<(), AccessError> {
        let map = Arc::get_mut(&mut self.map).ok_or(AccessError::InUse)?;
        visit(map.view(HEADER_BYTES).ok_or(AccessError::Exported)?);
        Ok(())
    }

    /// Returns the offset of the bytes in the mapping.
    pub fn place(&self, offset: u64, bytes: u64) -> Result<u64, AccessError> {
        place_in(self.bytes, offset, bytes)
    }

    /// Returns the owner's view: everything is allowed, except writing to a push ring.
    pub fn view(&self) -> View {
        let (map, bytes) = (Arc::clone(&self.map), self.bytes);
        let rights = Rights { put: !self.is_ring, get: true, atomic: !self.is_ring };
        View { map, bytes, rights, refusal: AccessError::PushRing }
    }
}

/// One side's access to a region.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub map: Arc<SharedMap>,
    pub bytes: u64,
    pub rights: Rights,
    /// The error for an access without the right to it.
    refusal: AccessError,
}

/// A peer's region.
#[derive(Clone, Debug)]
pub(super) struct Imported {
    pub view: View,
    /// Its number at its owner.
    pub id: u32,
    /// Its file's name, and the identity of the file when it was mapped.
    name: PathBuf,
    file: FileId,
}

/// The identity of a file: device and inode.
type FileId = (u64, u64);

fn id_of(file: &File) -> std::io::Result<FileId> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Imported {
    /// Opens a peer's region; the error is the status for the importer.
    pub fn open(directory: &Directory, name: &Path, key: Key) -> Result<Imported, Status> {
        let file = directory.open_file(name).map_err(|error| match error {
            ShmError::NotThere { .. } => Status::NoSuchRegion,
            ShmError::NoResources { .. } => Status::NoResources,
            _ => Status::Transport,
        })?;
        let length = file.metadata().map_err(|_| Status::Transport)?.len();
        if length < HEADER_BYTES {
            return Err(Status::Version);
        }
        let map = |bytes, access| {
            SharedMap::of_file(file.as_fd(), bytes, access).map_err(|error| {
                if is_shortage(&error) { Status::NoResources } else { Status::Transport }
            })
        };
        let header = map(HEADER_BYTES as usize, Access::Read)?;
        let word = |place| header.word(place).load(Ordering::Acquire);
        let bytes = word(at::BYTES);
        let fits = HEADER_BYTES.checked_add(bytes).is_some_and(|all| all == length);
        if word(at::MAGIC) != MAGIC || word(at::LAYOUT) != LAYOUT || !fits {
            return Err(Status::Version);
        }
        if word(at::KEY) ^ key.0 != 0 {
            return Err(Status::WrongKey);
        }
        let rights = word(at::RIGHTS);
        let right = |bit: u64| rights >> bit & 1 == 1;
        let rights = Rights { put: right(0), get: right(1), atomic: right(2) };
        let size = usize::try_from(length).map_err(|_| Status::Transport)?;
        let writes = rights.put || rights.atomic;
        let access = if writes { Access::ReadWrite } else { Access::Read };
        let map = Arc::new(map(size, access)?);
        let id = u32::try_from(word(at::ID)).map_err(|_| Status::Version)?;
        let file = id_of(&file).map_err(|_| Status::Transport)?;
        let view = View { map, bytes, rights, refusal: AccessError::Rights };
        Ok(Imported { view, id, name: name.to_path_buf(), file })
    }

    /// Opens its file a second time; returns `None` if the name now belongs to another file or to
    /// no file.
    pub fn reopen(&self, directory: &Directory) -> Result<Option<File>, ShmError> {
        let file = match directory.open_file(&self.name) {
            Err(ShmError::NotThere { .. }) => return Ok(None),
            file => file?,
        };
        let same = id_of(&file).is_ok_and(|id| id == self.file);
        Ok(same.then_some(file))
    }

    /// Returns true if its owner has withdrawn it or died; new bytes are no longer read.
    pub fn is_withdrawn(&self) -> bool {
        self.view.map.word(at::WITHDRAWN).load(Ordering::Acquire) != 0 // SYNC withdrawn <- withdraw
    }
}

/// Returns the offset in the mapping of bytes in a region of this size.
fn place_in(region_bytes: u64, offset: u64, bytes: u64) -> Result<u64, AccessError> {
    if offset <= region_bytes && bytes <= region_bytes - offset {
        return Ok(HEADER_BYTES + offset);
    }
    Err(AccessError::OutOfRegion { offset, bytes, region_bytes })
}

impl View {
    /// Returns the offset of the bytes in the mapping.
    pub fn place(&self, offset: u64, bytes: u64) -> Result<u64, AccessError> {
        place_in(self.bytes, offset, bytes)
    }

    /// Returns the offset of the aligned word in the mapping.
    pub fn word_place(&self, offset: u64) -> Result<u64, AccessError> {
        let place = self.place(offset, 8)?;
        if offset.is_multiple_of(8) { Ok(place) } else { Err(AccessError::Unaligned { offset }) }
    }

    /// Checks a right.
    pub fn demand(&self, right: bool) -> Result<(), AccessError> {
        if right { Ok(()) } else { Err(self.refusal) }
    }
}

// Words are little-endian on the wire. Both ends of this link are on one machine, and words in
// shared memory have its byte order.
const _: () = assert!(cfg!(target_endian = "little"), "words of regions are little-endian");

impl Memory for View {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn address(&self) -> Option<std::ptr::NonNull<u8>> {
        (self.rights.put && self.rights.get).then(|| self.map.at(HEADER_BYTES, self.bytes as usize))
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.demand(self.rights.get)?;
        self.map.read(self.place(offset, into.len() as u64)?, into);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        self.demand(self.rights.put)?;
        self.map.write(self.place(offset, from.len() as u64)?, from);
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        self.demand(self.rights.get)?;
        Ok(self.map.word(self.word_place(offset)?).load(Ordering::Acquire)) // SYNC word <- store
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.demand(self.rights.put)?;
        // SYNC word -> load
        self.map.word(self.word_place(offset)?).store(value, Ordering::Release);
        Ok(())
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        self.demand(self.rights.atomic)?;
        Ok(self.map.word(self.word_place(offset)?).fetch_add(add, Ordering::AcqRel))
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        self.demand(self.rights.atomic)?;
        let word = self.map.word(self.word_place(offset)?);
        match word.compare_exchange(expected, desired, Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) | Err(before) => Ok(before),
        }
    }
}
