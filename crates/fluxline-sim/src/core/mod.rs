//! The ground of every model: the agenda of virtual time, entries and their fingerprint, the records
//! of a run.

pub mod agenda;
pub mod ahead;
pub mod dump;
pub mod fault;
pub mod fingerprint;
pub mod interconnect;
pub mod model;
pub mod time;
pub mod trace;
