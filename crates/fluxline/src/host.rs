//! Facts of this host that only system calls report: interfaces, their drivers, paths, free memory.
//!
//! Safe functions without state; each opens what it needs and closes it again. Linux only.

#[cfg(not(loom))]
pub use crate::sys::host::ClockState;
pub use crate::sys::host::{free_bytes, is_root, path_mtu};
pub use crate::sys::{ethtool, interface};

/// Returns random bytes that nobody can guess: for tokens and keys.
///
/// # Errors
/// The kernel has no source of random bytes yet, at an early boot.
#[cfg(not(loom))]
pub fn random_bytes() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    crate::sys::host::random(&mut bytes)?;
    Ok(bytes)
}

/// Returns the distance of the local zone from UTC at a time \[s since 1970\] \[s\]: 3600 is one
/// hour east. The zone is that of TZ, else of /etc/localtime.
#[cfg(not(loom))]
#[must_use]
pub fn local_offset_s(at_s: i64) -> i64 {
    crate::sys::host::local_offset_s(at_s)
}

/// Returns the discipline of the clock of [`crate::clock::now`]; `None` where the kernel does not
/// report it.
#[cfg(not(loom))]
#[must_use]
pub fn clock_state() -> Option<ClockState> {
    crate::sys::host::clock_state()
}
