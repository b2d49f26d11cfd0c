//! A folder for programs built for one benchmark; removed at its end.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::peers::contender::NoNumber;

/// A folder of this user alone, removed when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Returns the kept folder, and makes it if there is none. A folder of that name that somebody
    /// else made is not used.
    pub fn kept<'a>(kept: &'a mut Option<Scratch>, name: &str) -> Result<&'a Path, NoNumber> {
        if kept.is_none() {
            let name = format!("fluxline-peers-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let failed = |error| NoNumber::Failed(format!("{}: {error}", path.display()));
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            *kept = Some(Scratch(path));
        }
        Ok(kept.as_ref().map_or(Path::new(""), |scratch| &scratch.0))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
