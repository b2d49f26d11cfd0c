//! The program as a black box with a broker: sinks, nodes of a cluster, deaths and takeovers.

#![allow(dead_code, reason = "kafka_campaigns uses the helpers, too")]

mod broker;
mod cluster;
mod lab;
mod process;
mod sink;
