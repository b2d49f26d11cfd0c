//! Small files of /proc and /sys below a root, so that a captured host is read as this one is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The files of a host: `/`, or a folder that holds copies of another host's.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// This host.
    #[must_use]
    pub fn this_host() -> Files {
        Files::below("/")
    }

    /// The host whose files are below `root`: `root/proc/sys/…`, `root/sys/class/net/…`.
    pub fn below(root: impl Into<PathBuf>) -> Files {
        Files { root: root.into() }
    }

    /// Returns true if they are this host's, so that the kernel may be asked for what no file says.
    #[must_use]
    pub fn is_this_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the default state file of this host's changes.
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.path(super::STATE_FILE)
    }

    /// Returns the path of a file; `path` as on the host, with or without its first slash.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text without blanks around it; none where it cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// Returns the number in a file; `None` if the file is unreadable or does not have a number.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted; none where it cannot be read.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The last part of what a link points to.
    pub(super) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Writes a value as `echo` does. The file must be there: a setting is never made.
    pub(super) fn write(&self, path: &str, value: &str) -> io::Result<()> {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().write(true).truncate(true).open(self.path(path))?;
        // One call: the kernel takes each write as a whole value.
        file.write_all(format!("{value}\n").as_bytes())
    }
}

/// Core numbers of a list as `0-3,8`; what cannot be read is left out, and so is what lies beyond
/// 8192: no kernel has more cores. Source: CONFIG_NR_CPUS of arch/x86/Kconfig.
pub(super) fn cores_of(list: &str) -> Vec<usize> {
    const CORES_MAX: usize = 8192;
    let mut cores = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        else {
            continue;
        };
        cores.extend((first..=last.min(CORES_MAX)).take(CORES_MAX));
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_of_the_kernel_are_read_and_others_do_no_harm() {
        assert_eq!(cores_of("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cores_of("5"), [5]);
        assert!(cores_of("").is_empty());
        assert_eq!(cores_of("x,2-1,7"), [7]);
        assert!(cores_of("0-18446744073709551615").len() <= 8193);
    }

    #[test]
    fn a_setting_that_is_not_there_is_never_made() {
        let root = tempfile::tempdir().unwrap();
        let files = Files::below(root.path());
        assert!(files.write("/proc/sys/net/core/rmem_max", "1").is_err());
        assert!(!root.path().join("proc").exists());
    }
}
