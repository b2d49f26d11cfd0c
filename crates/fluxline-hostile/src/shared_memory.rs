//! Shared memory that another process of the same user has filled with anything: a push ring, and
//! the files of two nodes.

use crate::shared::scratch;

/// Any bytes as a script of what is written into a push ring between calls of both its sides.
pub fn push_ring(script: &[u8]) {
    // An error is the host's: no memory, no files.
    let _ = fluxline::fuzzing::push_ring(script);
}

/// Any bytes as a script of what is written into the files of two nodes between their calls.
pub fn shm_nodes(script: &[u8]) {
    let Ok(folder) = scratch() else { return };
    let _ = fluxline::fuzzing::nodes(&folder.path().join("base"), script);
}
