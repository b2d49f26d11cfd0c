//! Peers that are libraries: `tools/peers` has a program for each, which is built here when it is
//! first needed.
//!
//! Equal work: each side sends from its own buffer and gets the other side's bytes into memory
//! where it can read them. Nobody reads them.

mod build;
mod iceoryx2;
mod mpi;
mod output;
mod scratch;
mod zeromq;

use super::contender::Contender;

/// Lists them all.
pub fn contenders() -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(mpi::Mpi::default()),
        Box::new(zeromq::Zeromq::default()),
        Box::new(iceoryx2::Iceoryx2::default()),
    ]
}
