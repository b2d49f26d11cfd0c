//! The only module with unsafe code: ring memory and system calls. Each block has its safety
//! argument.
#![allow(unsafe_code)]

#[cfg(test)]
pub(crate) mod allocations;
#[cfg(not(loom))]
pub(crate) mod bpf;
pub mod compiled;
pub(crate) mod dir;
#[cfg(not(loom))]
pub mod ethtool;
#[cfg(not(loom))]
pub(crate) mod foreign;
#[cfg_attr(loom, path = "futex_loom.rs")]
pub(crate) mod futex;
pub(crate) mod host;
pub mod interface;
#[cfg(not(loom))]
pub(crate) mod landing;
#[cfg(not(loom))]
pub(crate) mod landing_ring;
#[cfg(not(any(loom, all(test, miri))))]
pub(crate) mod lock;
#[cfg_attr(loom, path = "map_loom.rs")]
pub(crate) mod map;
pub(crate) mod membarrier;
#[cfg(not(loom))]
pub(crate) mod netlink;
#[cfg(not(loom))]
pub(crate) mod packet_sum;
pub(crate) mod port_socket;
pub(crate) mod push;
pub(crate) mod reason;
pub(crate) mod ring;
pub(crate) mod ring_parts;
pub(crate) mod sent_back;
pub(crate) mod shared;
pub(crate) mod shim;
pub(crate) mod socket;
#[cfg(not(loom))]
pub(crate) mod stream;
#[cfg(not(loom))]
pub(crate) mod xdp;
#[cfg(not(loom))]
pub(crate) mod xdp_ring;
