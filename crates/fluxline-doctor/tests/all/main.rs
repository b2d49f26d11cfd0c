//! The doctor against the kernel.

mod namespace;
#[path = "../../../fluxline/tests/namespaces/mod.rs"]
mod namespaces;
