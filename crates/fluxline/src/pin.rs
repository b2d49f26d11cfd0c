//! Pinning: a receiving thread that the scheduler moves loses its cache, and then packets.

use crate::sys::host;

/// Why a thread was not pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The configuration's: this process may not use that core.
    #[error("core {core} is not available to this process: choose one of {allowed:?}")]
    NotAllowed {
        /// What was asked.
        core: usize,
        /// What the host allows.
        allowed: Vec<usize>,
    },
    /// The host's.
    #[error("the host refused to pin the thread to core {core}: {source}")]
    System {
        /// What was asked.
        core: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// The cores that the calling thread may run on, in order; empty when the host does not say.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    host::allowed_cores().unwrap_or_default()
}

/// Lets the calling thread run on `core` alone; done on return, threads it starts inherit it.
///
/// Errors: [`PinError`], which names the cores that would do. Cost: two system calls.
pub fn pin_current_thread(core: usize) -> Result<(), PinError> {
    let allowed = host::allowed_cores().map_err(|source| PinError::System { core, source })?;
    if !allowed.contains(&core) {
        return Err(PinError::NotAllowed { core, allowed });
    }
    host::pin_to(core).map_err(|source| PinError::System { core, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_names_those_that_are() {
        let error = pin_current_thread(100_000).unwrap_err();
        assert!(matches!(error, PinError::NotAllowed { .. }), "{error}");
        assert!(error.to_string().contains('['), "{error}");
    }

    #[test]
    fn a_pinned_thread_may_use_one_core() {
        std::thread::spawn(|| {
            let core = allowed_cores()[0];
            pin_current_thread(core).unwrap();
            assert_eq!(allowed_cores(), [core]);
        })
        .join()
        .unwrap();
    }
}
