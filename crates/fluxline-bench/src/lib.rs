//! Experiments that measure a link, their statistics, and their report.
//!
//! An experiment is two roles written against `Fabric`, or two services on raw sockets. Its result
//! is plain data, which becomes the JSON document, the HTML page and the tables.
//!
//! An experiment ([`kind::ExperimentKind`]) runs on the near side, in an
//! [`environment::Environment`]. It asks for trials: two [`role::Role`]s, one at each end, which
//! are stepped until both are done. On a real link the ends are two processes that agree over a
//! control connection ([`control`], [`real`]); in virtual time they are one thread
//! ([`environment::Simulated`]). A [`environment::Service`] is the same for links without a fabric.

#![forbid(unsafe_code)]

mod child;
pub mod collectives;
pub mod compare;
pub mod control;
pub mod datagrams;
pub mod environment;
pub mod error;
pub mod host;
pub mod kind;
pub mod load;
pub mod networks;
pub mod page;
pub mod papers;
pub mod perftest;
pub mod pingpong;
pub mod real;
pub mod registry;
pub mod result;
pub mod role;
pub mod run;
pub mod session;
pub mod statistics;
pub mod timer;

pub use child::how_it_ended;
pub use environment::Stop;
pub use error::Error;
