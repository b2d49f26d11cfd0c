//! Data acquisition: sources, readout, event builder, recorder, ledger.
//!
//! Nothing here opens a socket, reads a clock or starts a thread: datagrams and the time come as
//! arguments, batches of events go out. `fluxline-run` brings the links.
#![forbid(unsafe_code)]

mod accounting;
pub mod builder;
mod byte_strings;
pub mod capture;
mod counters;
pub mod draft;
pub mod emulator;
pub mod event;
pub mod experiment;
mod extents;
pub mod filter;
pub mod formats;
mod input_error;
pub mod input_file;
pub mod ledger;
pub mod merge;
mod missing_range;
pub mod pipeline;
pub mod plots;
pub mod readout;
pub mod record;
pub mod sequence;
mod times;

pub use input_error::InputError;
pub use missing_range::MissingRange;
