//! The native half of the Python package `fluxline`.
//!
//! One file is one class or one group of functions, and says itself what Python sees of it. The
//! pure half in `python/fluxline` adds what needs no Rust: dictionaries, asyncio, NumPy views.
#![deny(unsafe_code, reason = "only buffer.rs may lend memory to Python, with its proofs")]

use pyo3::prelude::*;

/// The module `fluxline._fluxline`.
#[pymodule]
mod _fluxline {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
