//! Pinning of threads to cores: a receiving thread that the scheduler moves loses its cache, and
//! then packets.

use crate::sys::host;

/// The reason why a thread was not pinned.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// This process may not use the configured core.
    #[error("core {core} is not available to this process: choose one of {allowed:?}")]
    NotAllowed {
        /// The core that was asked for.
        core: usize,
        /// The cores that the host allows.
        allowed: Vec<usize>,
    },
    /// Any other error of the host.
    #[error("the host refused to pin the thread to core {core}: {source}")]
    System {
        /// The core that was asked for.
        core: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

/// Returns the cores that the calling thread may run on, in order; empty when the host does not
/// report them.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    host::allowed_cores().unwrap_or_default()
}

/// Pins the calling thread to `core`. Threads that it starts inherit the core.
///
/// Errors: [`PinError`], which names the allowed cores. Cost: two system calls.
pub fn pin_current_thread(core: usize) -> Result<(), PinError> {
    let allowed = host::allowed_cores().map_err(|source| PinError::System { core, source })?;
    if !allowed.contains(&core) {
        return Err(PinError::NotAllowed { core, allowed });
    }
    host::pin_to(core).map_err(|source| PinError::System { core, source })
}

/// Lowers the priority of the calling thread as far as possible, so that others go first where all
/// cores are busy. It cannot be raised again.
///
/// Errors: that of the kernel. Cost: one system call.
pub fn lower_priority() -> std::io::Result<()> {
    host::lower_priority()
}

/// Returns the cores that the process's main thread may use, even if the calling thread is pinned.
/// Empty when the host does not report them. Cost: one file.
#[must_use]
pub fn process_cores() -> Vec<usize> {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map_or_else(Vec::new, list)
}

/// Returns the cores of a list like `0-2,5`; ignores other text.
fn list(text: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // At most the size of the host's core mask, so that no text causes a long loop.
        Some(first..=last.min(first.saturating_add(1023)))
    };
    text.trim().split(',').filter_map(part).flatten().collect()
}

/// Pins a thread that inherited its core from a pinned one to another core, which may be any of
/// [`process_cores`].
pub fn repin_current_thread(core: usize) -> Result<(), PinError> {
    let allowed = process_cores();
    if !allowed.contains(&core) {
        return pin_current_thread(core);
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

    #[test]
    fn a_list_of_cores_is_read_and_garbage_is_none() {
        assert_eq!(list("\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list("7"), [7]);
        for garbage in ["", "-", "a-b", "3-1", "-4", "1-"] {
            assert!(list(garbage).is_empty(), "{garbage:?}");
        }
        assert_eq!(list("0-18446744073709551615").len(), 1024);
    }

    #[test]
    fn a_thread_of_a_pinned_one_may_go_to_any_core_of_the_process() {
        let all = process_cores();
        assert!(!all.is_empty());
        std::thread::spawn(move || {
            pin_current_thread(all[0]).unwrap();
            let last = all[all.len() - 1];
            std::thread::spawn(move || {
                repin_current_thread(last).unwrap();
                assert_eq!(allowed_cores(), [last]);
            })
            .join()
            .unwrap();
            assert!(repin_current_thread(100_000).is_err());
        })
        .join()
        .unwrap();
    }
}
