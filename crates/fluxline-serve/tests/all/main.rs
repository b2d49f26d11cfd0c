//! Tests of the live page and of pages over run folders, by HTTP.

mod runs;
mod served;
mod support;
