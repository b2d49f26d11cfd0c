//! All integration tests of the crate, in one program: a module for each subject.

mod atoll;
mod atoll_manager;
mod bounds;
mod cluster;
mod cluster_noise;
mod cluster_push;
mod cluster_world;
mod confidence;
mod courier_noise;
mod crowd;
mod dumps;
mod ethernet;
mod events;
mod exact;
mod graph;
mod group;
mod losses;
mod myrinet;
mod one_model;
mod sci_fairness;
mod sci_ring;
mod shares;
mod support;
mod threads;
mod token_bus;
