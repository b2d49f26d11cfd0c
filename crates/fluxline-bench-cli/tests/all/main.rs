//! The program `fluxline-bench` as a black box.

mod bench;
mod bench_links;
mod bench_papers;
mod bench_xdp;
#[path = "../../../fluxline/tests/all/support/namespaces.rs"]
mod namespaces;
mod rxe_perftest;
#[path = "../../../fluxline-cli/tests/support/mod.rs"]
mod support;
mod tiny_mtu;
