//! The program `fluxline-sim` as a black box.

mod campaigns;
mod dumps;
mod loops;
mod plan;
mod same_events;
mod same_recorded;
mod sim;
mod sim_reproduce;
mod sim_scenarios;
#[path = "../../../fluxline-cli/tests/support/mod.rs"]
mod support;
mod topo;
