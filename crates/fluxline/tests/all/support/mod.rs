//! Code that several tests share.

pub mod namespaces;
pub mod shm;
