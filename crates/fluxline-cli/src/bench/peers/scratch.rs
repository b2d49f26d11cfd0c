//! A folder for what is built for one benchmark; it goes with it.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::super::BenchError;

/// A folder of this user alone, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one; whoever made one of that name before is not trusted with it.
    pub fn new() -> Result<Scratch, BenchError> {
        let path = std::env::temp_dir().join(format!("fluxline-peers-{}", std::process::id()));
        let host = |source| BenchError::Host { what: "making a temporary folder", source };
        DirBuilder::new().mode(0o700).create(&path).map_err(host)?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
