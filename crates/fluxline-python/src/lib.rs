//! The native half of the Python package `fluxline`.
//!
//! One file is one class or one group of functions, and says itself what Python sees of it. The
//! pure half in `python/fluxline` adds what needs no Rust: dictionaries, asyncio, NumPy views.
#![deny(unsafe_code, reason = "only buffer.rs may lend memory to Python, with its proofs")]

mod acquire;
mod arrow;
mod bench;
mod buffer;
mod decode;
mod fault;
mod filter;
mod link;
mod run;
mod runs;
mod simulate;
mod watched;

use pyo3::prelude::*;

/// The module `fluxline._fluxline`.
#[pymodule]
mod _fluxline {
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use crate::acquire::{EventStream, Feeder, RunHandle};
    #[pymodule_export]
    use crate::arrow::{Batch, Batches, Parts, Schema};
    #[pymodule_export]
    use crate::bench::{bench, bench_serve};
    #[pymodule_export]
    use crate::buffer::{Memory, Values};
    #[pymodule_export]
    use crate::decode::ClosedEvents;
    #[pymodule_export]
    use crate::link::{Completion, Endpoint, Node, Receiver, Region, Remote, Sender, Task};
    #[pymodule_export]
    use crate::run::{RunReader, parse_time};
    #[pymodule_export]
    use crate::runs::list_runs;
    #[pymodule_export]
    use crate::simulate::{Simulated, simulate};

    /// Adds the links that URLs `sim:` name.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        fluxline_sim::register();
        Ok(())
    }
}
