//! The native half of the Python package `fluxline`.
//!
//! One file is one class or one group of functions, and says itself what Python sees of it. The
//! pure half in `python/fluxline` adds what needs no Rust: dictionaries, asyncio, NumPy views.
#![deny(unsafe_code, reason = "only buffer.rs may lend memory to Python, with its proofs")]

mod buffer;
mod fault;
mod link;

use pyo3::prelude::*;

/// The module `fluxline._fluxline`.
#[pymodule]
mod _fluxline {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::buffer::Memory;
    #[pymodule_export]
    use crate::link::{Completion, Endpoint, Node, Receiver, Region, Remote, Sender, Task, open};
}
