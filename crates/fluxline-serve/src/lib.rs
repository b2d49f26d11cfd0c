//! The live page of an acquisition: its state, its ledger and its data in a browser; run control
//! and metrics over HTTP.
//!
//! [`Server::start`] serves one acquisition from a thread of its own. Ten times a second it takes
//! one snapshot ([`fluxline_run::Watcher`]) for all browsers. The acquisition imports nothing of
//! this crate. [`Server::start_runs`] serves a folder of runs, and [`Server::start_pages`] pages
//! that do not change.
//!
//! | path | is |
//! | --- | --- |
//! | `/` | the page: plain JavaScript, everything from this server |
//! | `/api/state`, `/api/events` | the state as JSON; a stream of snapshots (server-sent events) |
//! | `/api/history` | rates over time, decimated by minimum and maximum |
//! | `/api/packet` | the newest packet of a source, decoded |
//! | `/api/signal` | waveform, spectrum, histogram and image of a field |
//! | `/api/trace` | a field over the whole run, decimated by minimum and maximum |
//! | `/api/runs`, `/api/runs/ID/..` | a folder of runs, and each run of it |
//! | `/api/command` | POST: run control, with the token |
//! | `/metrics` | counters in the format of OpenMetrics |
//!
//! `guard.rs` has the rules of security.
#![forbid(unsafe_code)]

mod answer;
mod api;
mod client;
mod connections;
mod contained;
mod guard;
mod history;
mod hosts;
mod hub;
mod metrics;
mod packet;
mod query;
mod runs;
mod runs_api;
mod server;
mod signal;
mod snapshot;
mod token;
mod trace;
mod web;

pub use api::paths as paths_of_a_run;
pub use client::{Client, ClientError};
pub use connections::Limits;
pub use query::PARAMETERS;
pub use runs_api::paths as paths_of_runs;
pub use server::{Listening, ServeError, Server, ServerConfig};
pub use token::Token;
pub use trace::{Bin, Part, Trace};
pub use web::StaticPage;
