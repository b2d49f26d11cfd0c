//! Campaigns with brokers: storms over processes, quotas, outages, three brokers, filters with
//! pauses, and the tutorials. `tools/kafka/test.sh campaigns` runs them.

#[path = "../brokers/broker.rs"]
mod broker;
#[path = "../brokers/lab.rs"]
mod lab;
#[path = "../brokers/process.rs"]
mod process;

mod choices;
mod outages;
mod packets;
mod quota;
mod storm;
mod tutorial;
