//! Tests of the live page and of pages over run folders, by HTTP.

mod any_request;
mod hosts;
mod runs;
mod served;
mod support;
