//! The ground of every model: virtual time and its agenda, entries and their fingerprint, the seam
//! of networks, and the records of a run.

pub mod agenda;
pub mod ahead;
pub mod dump;
pub mod fault;
pub mod fingerprint;
pub mod in_order;
pub mod interconnect;
pub mod model;
pub mod split;
pub mod time;
pub mod trace;
