//! Locks on single bytes of a file, by open file and not by process.
//!
//! Source: Linux man-page fcntl_locking(2), "Open file description locks".

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Returns the kernel's description of a lock of one byte at `at`.
fn byte(kind: libc::c_int, at: u64) -> io::Result<libc::flock> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    lock.l_len = 1;
    Ok(lock)
}

fn call(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open and the structure lives through the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Locks a byte; `false`: another open file has it locked.
pub(crate) fn lock(file: &File, at: u64) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut byte(libc::F_WRLCK, at)?) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Unlocks a byte.
pub(crate) fn unlock(file: &File, at: u64) -> io::Result<()> {
    call(file, libc::F_OFD_SETLK, &mut byte(libc::F_UNLCK, at)?)
}

/// Returns true when another open file has a byte locked; takes no lock itself.
pub(crate) fn is_locked(file: &File, at: u64) -> io::Result<bool> {
    let mut found = byte(libc::F_WRLCK, at)?;
    call(file, libc::F_OFD_GETLK, &mut found)?;
    Ok(libc::c_int::from(found.l_type) != libc::F_UNLCK)
}
