//! The doctor against the kernel.

mod namespace;
#[path = "../../../fluxline/tests/all/support/namespaces.rs"]
mod namespaces;
