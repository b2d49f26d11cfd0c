//! A directory whose contents may come from anywhere.
//!
//! A received run folder may hold anything under the names of its files: a link to a file of the
//! user, a named pipe on which an ordinary open waits for ever, a device, which acts when it is
//! opened. So the directory is held open, and everything in it is opened relative to it, without
//! following links: by one system call where the kernel has it, else one step at a time. Only
//! regular files are opened, and new ones are made exclusively. The path of the directory itself is
//! the user's, who may have made links in it.
//! Source: Linux man-pages openat2(2), RESOLVE_BENEATH; open(2), O_NOFOLLOW, O_NONBLOCK; fifo(7).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::folder_error::FolderError;

/// The largest `run.json`, `sources.jsonl` or description that is read \[byte\].
const TEXT_BYTES_MAX: u64 = 256 << 20;
/// Permissions of new files and directories, before the user's mask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);

/// A directory that is held open. Its copies share the handle.
///
/// Names are relative paths of ordinary components: no `..`, nothing absolute.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    handle: Arc<OwnedFd>,
}

impl PartialEq for Directory {
    /// Compares the paths.
    fn eq(&self, other: &Directory) -> bool {
        self.path == other.path
    }
}

impl Eq for Directory {}

/// The purpose of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

impl Directory {
    /// Opens a directory that the user named; links in this path are followed.
    pub fn open(path: &Path) -> Result<Directory, FolderError> {
        let opened = fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let handle = opened.map_err(|errno| FolderError::explain(path, errno.into()))?;
        Ok(Directory { path: path.to_path_buf(), handle: Arc::new(handle) })
    }

    /// Makes the directories of a path and opens the last; as [`Directory::open`], but for what
    /// lies in this directory, where links are not followed.
    ///
    /// An export into a run folder comes here: the user named the run, not what is in it.
    pub fn make_named(&self, path: &Path) -> Result<Directory, FolderError> {
        if let Some(name) = self.name_of(path) {
            return self.make(&name);
        }
        std::fs::create_dir_all(path).map_err(|reason| FolderError::explain(path, reason))?;
        Directory::open(path)
    }

    /// Returns the name of a path in this directory; `None` for a path elsewhere.
    fn name_of(&self, path: &Path) -> Option<PathBuf> {
        let own = fs::fstat(&*self.handle).ok()?;
        let is_own = |path: &Path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            fs::stat(path).is_ok_and(|of| of.st_dev == own.st_dev && of.st_ino == own.st_ino)
        };
        // The first match is the shortest name.
        let ancestor = path.ancestors().find(|ancestor| is_own(ancestor))?;
        let name = path.strip_prefix(ancestor).ok()?;
        name.components().all(|of| matches!(of, Component::Normal(_))).then(|| name.to_path_buf())
    }

    /// Returns its path, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory in it.
    pub fn directory(&self, name: &Path) -> Result<Directory, FolderError> {
        let handle = self.open_at(name, OFlags::DIRECTORY, Mode::empty());
        let handle = handle.map_err(|errno| self.explain(name, errno))?;
        Ok(Directory { path: self.path.join(name), handle: Arc::new(handle) })
    }

    /// Opens a directory in it, and makes those of the path that do not exist.
    pub fn make(&self, name: &Path) -> Result<Directory, FolderError> {
        let mut at = self.clone();
        for part in parts(name).map_err(|errno| self.explain(name, errno))? {
            match fs::mkdirat(&*at.handle, part, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(at.explain(Path::new(part), errno)),
            }
            at = at.directory(Path::new(part))?;
        }
        Ok(at)
    }

    /// Opens a file that must exist and be a regular one. Returns at once, whatever is there.
    pub fn file(&self, name: &Path, access: Access) -> Result<File, FolderError> {
        let found = self.stat(name).map_err(|errno| self.explain(name, errno))?;
        self.check(name, &found)?;
        let access = if access == Access::Read { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = self.open_at(name, access | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty());
        let file = opened.map_err(|errno| self.explain(name, errno))?;
        let found = fs::fstat(&file).map_err(|errno| self.explain(name, errno))?;
        self.check(name, &found)?;
        Ok(file.into())
    }

    /// Reads a small file whole.
    pub fn read(&self, name: &Path) -> Result<Vec<u8>, FolderError> {
        let path = self.path.join(name);
        let explain = |reason| FolderError::explain(&path, reason);
        let file = self.file(name, Access::Read)?;
        let mut bytes = Vec::new();
        let mut length = file.metadata().map_err(explain)?.len();
        if length <= TEXT_BYTES_MAX {
            file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(explain)?;
            length = bytes.len() as u64;
        }
        match length <= TEXT_BYTES_MAX {
            true => Ok(bytes),
            false => Err(FolderError::TooLarge { path, bytes_max: TEXT_BYTES_MAX }),
        }
    }

    /// Makes a file, which must not exist, for reading and writing.
    pub fn create(&self, name: &Path) -> Result<File, FolderError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let made = self.open_at(name, flags, FILE_MODE);
        Ok(made.map_err(|errno| self.explain(name, errno))?.into())
    }

    /// Replaces a file as a whole: a reader gets the old bytes or the new ones, also after a crash.
    ///
    /// The new bytes are on the disk afterwards. Cost: two forced writes.
    pub fn replace(&self, name: &Path, bytes: &[u8]) -> Result<(), FolderError> {
        let temporary = name.with_extension("new");
        // A crash may have left one.
        self.remove(&temporary)?;
        let write = || {
            let mut file = self.create(&temporary)?;
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            written.map_err(|reason| FolderError::explain(&self.path.join(name), reason))?;
            self.rename(&temporary, name)
        };
        write().inspect_err(|_| {
            // The rest of it is useless. If it cannot be removed either, the cause is the same.
            let _ = self.remove(&temporary);
        })
    }

    /// Gives a file another name, in place of the file that has it; the new name is on the disk
    /// afterwards.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), FolderError> {
        let rename = || {
            let ((old, from), (new, to)) = (self.parent(from)?, self.parent(to)?);
            fs::renameat(&*old.handle, from, &*new.handle, to)?;
            new.force()
        };
        rename().map_err(|errno| self.explain(to, errno))
    }

    /// Removes a file or a link, if it exists.
    pub fn remove(&self, name: &Path) -> Result<(), FolderError> {
        let remove = || {
            let (parent, name) = self.parent(name)?;
            fs::unlinkat(&*parent.handle, name, AtFlags::empty())
        };
        match remove() {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.explain(name, errno)),
        }
    }

    /// Returns true when anything has this name, be it a link to nowhere.
    #[must_use]
    pub fn has(&self, name: &Path) -> bool {
        self.stat(name).is_ok()
    }

    /// Returns the size of a regular file \[byte\]; `None` for anything else.
    #[must_use]
    pub fn file_bytes(&self, name: &Path) -> Option<u64> {
        let found = self.stat(name).ok()?;
        self.check(name, &found).ok()?;
        u64::try_from(found.st_size).ok()
    }

    /// Returns the time of its last change \[ns since 1970\]; 0 where it is unknown.
    #[must_use]
    pub fn changed_ns(&self) -> u64 {
        let Ok(found) = fs::fstat(&*self.handle) else { return 0 };
        let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000)
    }

    /// Returns the names in it, in any order.
    pub fn names(&self) -> Result<Vec<String>, FolderError> {
        let explain = |errno: Errno| FolderError::explain(&self.path, errno.into());
        let entries = Dir::read_from(&*self.handle).map_err(explain)?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(explain)?.file_name().to_string_lossy().into_owned();
            if !matches!(name.as_str(), "." | "..") {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Forces its entries to the disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(self.force()?)
    }

    /// Opens it a second time, for a lock of one's own.
    pub(super) fn open_again(&self) -> io::Result<File> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::openat(&*self.handle, ".", flags, Mode::empty())?.into())
    }

    fn force(&self) -> Result<(), Errno> {
        fs::fsync(&*self.handle)
    }

    fn stat(&self, name: &Path) -> Result<Stat, Errno> {
        let (parent, name) = self.parent(name)?;
        fs::statat(&*parent.handle, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the directory of a name, and its last component.
    fn parent<'a>(&self, name: &'a Path) -> Result<(Directory, &'a OsStr), Errno> {
        let mut above = parts(name)?;
        let last = above.pop().ok_or(Errno::INVAL)?;
        let above: PathBuf = above.iter().collect();
        if above.as_os_str().is_empty() {
            return Ok((self.clone(), last));
        }
        let handle = Arc::new(self.open_at(&above, OFlags::DIRECTORY, Mode::empty())?);
        Ok((Directory { path: self.path.join(above), handle }, last))
    }

    /// Opens what has a name in it, without following links.
    fn open_at(&self, name: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let parts = parts(name)?;
        let inside =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(&*self.handle, name, flags, mode, inside) {
            // Linux before 5.6 does not have it, and some containers forbid what they do not know.
            Err(Errno::NOSYS | Errno::PERM) => self.open_by_steps(&parts, flags, mode),
            opened => opened,
        }
    }

    fn open_by_steps(&self, parts: &[&OsStr], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let Some((last, above)) = parts.split_last() else { return Err(Errno::INVAL) };
        let step = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut at = Arc::clone(&self.handle);
        for part in above {
            at = Arc::new(open_step(&at, part, step, Mode::empty())?);
        }
        open_step(&at, last, flags | OFlags::NOFOLLOW, mode)
    }

    fn check(&self, name: &Path, found: &Stat) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let what = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => return Ok(()),
            FileType::Symlink => return Err(FolderError::Link(path)),
            FileType::Directory => "a directory",
            FileType::Fifo => "a named pipe",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        Err(FolderError::NotAFile { path, what })
    }

    fn explain(&self, name: &Path, errno: Errno) -> FolderError {
        let path = self.path.join(name);
        match errno {
            Errno::LOOP => FolderError::Link(path),
            Errno::INVAL if parts(name).map_or(true, |parts| parts.is_empty()) => {
                FolderError::Name(name.to_string_lossy().into_owned())
            }
            other => FolderError::explain(&path, other.into()),
        }
    }
}

/// Opens one component; a link where a directory is wanted is named as one.
fn open_step(at: &OwnedFd, part: &OsStr, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    fs::openat(at, part, flags, mode).map_err(|errno| {
        let found = fs::statat(at, part, AtFlags::SYMLINK_NOFOLLOW);
        let is_link =
            found.is_ok_and(|of| FileType::from_raw_mode(of.st_mode) == FileType::Symlink);
        if is_link && errno == Errno::NOTDIR { Errno::LOOP } else { errno }
    })
}

/// Returns the components of a name, of which there must be one.
fn parts(name: &Path) -> Result<Vec<&OsStr>, Errno> {
    let part = |part| match part {
        Component::Normal(part) => Ok(part),
        _ => Err(Errno::INVAL),
    };
    name.components().map(part).collect::<Result<Vec<_>, Errno>>()
}

#[cfg(test)]
mod tests;
