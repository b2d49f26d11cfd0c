//! Facts of this host that only system calls report: interfaces, their drivers, paths, free memory.
//!
//! Safe functions without state; each opens what it needs and closes it again. Linux only.

pub use crate::sys::host::{free_bytes, is_root, path_mtu};
pub use crate::sys::{ethtool, interface};
