//! System calls of shared memory: room for files.
//!
//! Source: Linux man-pages posix_fallocate(3), fallocate(2), madvise(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::dir::Dir;

/// The access that a mapping gives to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// The pages that a file in memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    /// Huge pages, if the host grants them on advice.
    Huge,
}

/// The user that this process acts for.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the number of a group of this host by its name; `None`: there is no such group. Source:
/// Linux man-pages, `getgrnam_r(3)`.
pub(crate) fn group_number(name: &str) -> io::Result<Option<u32>> {
    let name = std::ffi::CString::new(name)?;
    let mut room: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: a structure of numbers and pointers; all zeros are valid.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the name ends with a zero; entry, room and result live through the call.
        let error = unsafe {
            let (text, bytes) = (room.as_mut_ptr(), room.len());
            libc::getgrnam_r(name.as_ptr(), &raw mut entry, text, bytes, &raw mut found)
        };
        match error {
            0 => return Ok((!found.is_null()).then_some(entry.gr_gid)),
            // A group of many members; the bound is far above any.
            libc::ERANGE if room.len() < 1 << 24 => room.resize(room.len() * 2, 0),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Creates a file without a name in the directory's file system, for its owner alone, with room for
/// `bytes` zero bytes. A full file system is an error here, not a signal later.
pub(crate) fn unnamed_file(directory: &Dir, bytes: u64, pages: Pages) -> io::Result<File> {
    let file = directory.unnamed_file()?;
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    if pages == Pages::Huge {
        file.set_len(bytes)?;
        fill_with_huge_pages(&file, bytes);
    }
    // SAFETY: the descriptor is open for writing.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(file),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Allocates a part of a file that lies within its length: a full file system is an error here, not
/// a signal later. A file system without this call gives no error.
pub(crate) fn make_room(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let number = |value| libc::off_t::try_from(value).map_err(|_| io::ErrorKind::FileTooLarge);
    let (offset, bytes) = (number(offset)?, number(bytes)?);
    loop {
        // SAFETY: takes only numbers; the descriptor is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Creates a file's pages through a mapping with advice: advice applies to a mapping, not to a
/// file, and reserving room alone creates small pages. If the host refuses, small pages follow.
fn fill_with_huge_pages(file: &File, bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address; the descriptor is open and the file so long; the
    // mapping is known only here, is not accessed, and ends here.
    unsafe {
        let shared = libc::MAP_SHARED;
        let base = libc::mmap(std::ptr::null_mut(), bytes, rights, shared, file.as_raw_fd(), 0);
        if base != libc::MAP_FAILED {
            libc::madvise(base, bytes, libc::MADV_HUGEPAGE);
            libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE);
            libc::munmap(base, bytes);
        }
    }
}
