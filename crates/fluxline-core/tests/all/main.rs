//! The tests of `fluxline-core`: endpoints on bad links, push rings, groups, frames as others see
//! them.

mod endpoint;
mod endpoint_congestion;
mod endpoint_death;
mod endpoint_hostile;
mod endpoint_reliable_sender;
mod endpoint_restart;
mod endpoint_setup;
mod endpoint_source_port;
mod endpoint_static;
mod endpoint_trains;
mod endpoint_unreliable;
mod fabric_push;
mod group;
mod memory_fabric;
mod ports;
mod roce_dissectors;
mod support;
mod wireshark;
