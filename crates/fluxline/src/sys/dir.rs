//! An open directory: its files are reached through its descriptor, never by a path that another
//! user may have changed in between.
//!
//! Source: Linux man-pages open(2), mkdirat(2), linkat(2), unlinkat(2).

use std::ffi::{CString, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open directory, not a link to one.
#[derive(Debug)]
pub(crate) struct Dir(File);

impl Dir {
    /// Opens a directory; the last part of its path must not be a symbolic link.
    pub(crate) fn open(path: &Path) -> io::Result<Dir> {
        open(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_DIRECTORY).map(Dir)
    }

    /// Opens a directory in this one.
    pub(crate) fn open_dir(&self, name: &Path) -> io::Result<Dir> {
        open(self.0.as_raw_fd(), name, libc::O_RDONLY | libc::O_DIRECTORY).map(Dir)
    }

    /// Makes a directory in this one, for its owner alone.
    pub(crate) fn make_dir(&self, name: &Path) -> io::Result<()> {
        let name = CString::new(name.as_os_str().as_bytes())?;
        // SAFETY: the descriptor is open, the string ends with a zero and lives through the call.
        done(unsafe { libc::mkdirat(self.0.as_raw_fd(), name.as_ptr(), 0o700) })
    }

    /// Opens a file for reading and writing. Returns at once, whatever the name leads to.
    pub(crate) fn open_file(&self, name: &Path) -> io::Result<File> {
        open(self.0.as_raw_fd(), name, libc::O_RDWR | libc::O_NONBLOCK)
    }

    /// Creates a file without a name, for its owner alone.
    pub(crate) fn unnamed_file(&self) -> io::Result<File> {
        open(self.0.as_raw_fd(), Path::new("."), libc::O_RDWR | libc::O_TMPFILE)
    }

    /// Gives a name to a file without one; fails with `AlreadyExists` if the name is in use.
    pub(crate) fn name_file(&self, file: &File, name: &Path) -> io::Result<()> {
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let to = CString::new(name.as_os_str().as_bytes())?;
        let (here, there) = (libc::AT_FDCWD, self.0.as_raw_fd());
        let flags = libc::AT_SYMLINK_FOLLOW;
        // SAFETY: both strings end with a zero and live through the call.
        done(unsafe { libc::linkat(here, from.as_ptr(), there, to.as_ptr(), flags) })
    }

    /// Removes a file's name; of a link, the link.
    pub(crate) fn remove_file(&self, name: &Path) -> io::Result<()> {
        self.remove(name, 0)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &Path) -> io::Result<()> {
        self.remove(name, libc::AT_REMOVEDIR)
    }

    fn remove(&self, name: &Path, flags: libc::c_int) -> io::Result<()> {
        let name = CString::new(name.as_os_str().as_bytes())?;
        // SAFETY: the descriptor is open, the string ends with a zero and lives through the call.
        done(unsafe { libc::unlinkat(self.0.as_raw_fd(), name.as_ptr(), flags) })
    }

    /// Returns the names of its entries.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    /// Calls a function with its descriptor.
    pub(crate) fn with_file<T>(&self, call: impl FnOnce(&File) -> T) -> T {
        call(&self.0)
    }

    /// Its owner and mode.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }
}

/// Opens a file or directory, not a link; it is closed when another program is executed.
fn open(directory: RawFd, name: &Path, flags: libc::c_int) -> io::Result<File> {
    let name = CString::new(name.as_os_str().as_bytes())?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open, the string ends with a zero and lives through the call.
    let found = unsafe { libc::openat(directory, name.as_ptr(), flags, 0o600 as libc::c_uint) };
    done(found)?;
    // SAFETY: just opened, and known only here.
    Ok(unsafe { File::from_raw_fd(found) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
