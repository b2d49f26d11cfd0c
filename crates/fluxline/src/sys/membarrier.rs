//! A fence in two halves: the frequent half is free, the rare half pays for both.
//!
//! Two processes that each write a word and then read the other's must not both read the old value.
//! A full fence on each side ensures it, but waits until all earlier stores have left the core. In
//! the rare half, the kernel executes a full fence on every core that runs a thread of a registered
//! process; the frequent half then only keeps the compiler from swapping the two. A process that
//! cannot register fences itself. Source: Linux man-page membarrier(2), `GLOBAL_EXPEDITED`.

#[cfg(not(any(loom, miri)))]
mod kernel {
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The process that is registered; a child made by fork registers again.
    static REGISTERED: AtomicU32 = AtomicU32::new(0);

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only and changes no memory of this process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(crate) fn register() -> bool {
        let process = std::process::id();
        if REGISTERED.load(Ordering::Relaxed) == process {
            return true;
        }
        let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && everywhere();
        if registered {
            REGISTERED.store(process, Ordering::Relaxed);
        }
        registered
    }

    pub(crate) fn everywhere() -> bool {
        membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
    }
}

/// Models know no membarrier: both halves are full fences.
#[cfg(any(loom, miri))]
mod kernel {
    pub(crate) fn register() -> bool {
        false
    }

    pub(crate) fn everywhere() -> bool {
        false
    }
}

/// Registers this process, so that its threads take part in the fences of others.
///
/// Returns false if the kernel has no such call: then both halves must be full fences. Cost: a
/// system call, once for each process.
pub(crate) use kernel::register;

/// The rare half: every thread of each registered process executes a full fence before it returns.
///
/// Returns false if the kernel refuses; nothing is ordered then. Cost: a system call, and an
/// interrupt on each core that runs another registered process.
pub(crate) use kernel::everywhere;
