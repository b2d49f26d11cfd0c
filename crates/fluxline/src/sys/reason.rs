//! The host's errors as sentences.

use fluxline_core::fabric::push::PushOpenError;

/// Returns the host's error, and the remedy where it is known.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let mend = match error.raw_os_error() {
        Some(libc::ENOSPC) => "; free some of it (`fluxline shm clean`) or mount it larger",
        Some(libc::EMFILE) => "; allow more open files (`ulimit -n`)",
        Some(libc::ENOMEM) => "; choose a smaller region or free memory",
        _ => "",
    };
    format!("{error}{mend}")
}

/// Returns the host's error as that of a push ring.
pub(crate) fn not_opened(error: &std::io::Error) -> PushOpenError {
    PushOpenError::Host { reason: reason(error) }
}
