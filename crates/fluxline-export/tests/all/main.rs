//! Tests of runs that are read, joined, decoded and exported.

mod boards;
mod export;
mod late;
mod missing;
#[allow(dead_code, reason = "the tests of the recorder use the rest")]
#[path = "../../../fluxline-daq/tests/all/record/samples.rs"]
mod samples;
mod typed;
