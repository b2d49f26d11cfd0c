//! Tests of whole acquisitions within one process.

mod embedded;
mod filters;
mod plots;
mod support;
