//! Distributed building, its ledger and its records. What needs a broker is in the tier *all*.

mod building;
mod checkpoints;
mod choices;
mod control;
mod ess;
mod ledger;
mod plan;
mod support;

#[cfg(feature = "client")]
mod brokers;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod ess_topic;
#[cfg(feature = "client")]
mod sink;
#[cfg(feature = "client")]
mod topics;

#[cfg(feature = "tls")]
mod security;
