//! Benchmarks as a whole: both sides on real links, strangers, perftest's exchange, imports.

mod hostile;
mod imports;
mod papers;
mod perftest;
mod support;
mod two_sides;
