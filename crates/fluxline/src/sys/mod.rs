//! The one room with unsafe code: ring memory and system calls, each block with its argument.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod host;
pub(crate) mod map;
pub(crate) mod netlink;
pub(crate) mod push;
pub(crate) mod ring;
pub(crate) mod shared;
pub(crate) mod shim;
pub(crate) mod socket;
pub(crate) mod xdp;
pub(crate) mod xdp_ring;
